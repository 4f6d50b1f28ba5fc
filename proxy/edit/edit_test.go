package edit

import (
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// edited puts a page through an editor in pieces of a size.
func edited(e *Editor, page string, size int) string {
	var b []byte
	for len(page) > size {
		b = e.Next(b, []byte(page[:size]), false)
		page = page[size:]
	}
	return string(e.Next(b, []byte(page), true))
}

func editor(fields message.Fields, request ...string) *Editor {
	q := &message.Request{}
	for i := 0; i < len(request); i += 2 {
		q.Add(request[i], request[i+1])
	}
	t := &filter.Transaction{URL: "https://a.com/x", Request: q}
	return New(t, &filter.Changes{Style: []byte("S")}, &fields)
}

func TestMarkupIsPutAtTheBeginningOfTheHead(t *testing.T) {
	mark := "<style>S</style><script>" + string(tidy) + "</script>"
	long := strings.Repeat("x", 3000)
	for _, tt := range []struct{ page, want string }{
		{"<html><head><title>x</title></head>y", "<html><head>@<title>x</title></head>y"},
		{"<!DOCTYPE html>\n<html lang=\"a>b\">\n<HEAD id='>'>\n<title>", "<!DOCTYPE html>\n<html lang=\"a>b\">\n<HEAD id='>'>@\n<title>"},
		{"<!doctype html><p>x", "<!doctype html>@<p>x"},
		{"<!doctype html>text", "<!doctype html>@text"},
		{"<!doctype html><html><body>x", "<!doctype html><html>@<body>x"},
		{"<!-- a > b --><!doctype html><head/>x", "<!-- a > b --><!doctype html><head/>@x"},
		{"\xef\xbb\xbf<?xml version=1?><html>x", "\xef\xbb\xbf<?xml version=1?><html>@x"},
		{"<!--><html>x", "<!--><html>@x"},
		{"<html><header>x", "<html>@<header>x"},
		{"<head><meta charset='koi8-r'>" + long, `<head><meta charset="koi8-r">@<meta charset='koi8-r'>` + long},
		{"<head><meta http-equiv=content-type content=\"text/html; charset=UTF-8\">" + long, "<head><meta charset=\"utf-8\">@<meta http-equiv=content-type content=\"text/html; charset=UTF-8\">" + long},
		{"<html>", "<html>@"},
		// No pages.
		{"", ""},
		{"<p>x</p>", "<p>x</p>"},
		{"{\"a\": \"<html>\"}", "{\"a\": \"<html>\"}"},
		{"text", "text"},
		{"<!-- <html>", "<!-- <html>"},
		{"\xff\xfe<\x00h\x00t\x00m\x00l\x00>\x00", "\xff\xfe<\x00h\x00t\x00m\x00l\x00>\x00"},
	} {
		want := strings.Replace(tt.want, "@", mark, 1)
		for _, size := range []int{1, 7, 100, 1 << 20} {
			if got := edited(editor(nil), tt.page, size); got != want {
				t.Errorf("%.100q in pieces of %d: got %.200q, want %.200q", tt.page, size, got, want)
			}
		}
	}
	if got, want := edited(editor(nil, "Accept", "text/html,*/*"), "<p>x</p>", 3), mark+"<p>x</p>"; got != want {
		t.Errorf("page requested by navigation: got %q, want %q", got, want)
	}
	if got := edited(editor(message.Fields{{Name: []byte("Content-Type"), Value: []byte("text/html; charset=x")}}), "<head><meta charset=y>", 3); got != "<head>"+mark+"<meta charset=y>" {
		t.Errorf("page with a charset in the response's head: got %q", got)
	}
	// However a page hides its head, the editor does not hold back all of it.
	e := editor(nil)
	page := "<!--" + strings.Repeat("<", 1<<20)
	if n := len(e.Next(nil, []byte(page), false)); n != len(page) {
		t.Errorf("the editor released %d of %d bytes of a page that hides its head", n, len(page))
	}
}

func TestCharsetsAreDeclaredAsBrowsersReadThem(t *testing.T) {
	for page, want := range map[string]string{
		`<meta charset=koi8-r>`: "koi8-r", `<META CHARSET="UTF-8"/>`: "utf-8", `<meta charset = 'x-sjis' >`: "x-sjis", `<meta/charset=big5>`: "big5",
		`<!-- <meta charset=koi8-r> --><meta charset=big5>`: "big5", `<!-- <meta charset=koi8-r>`: "", `<!--><meta charset=big5>`: "big5",
		`<meta name=description content="charset=koi8-r">`: "", `<meta content="text/html; charset=koi8-r">`: "",
		`<meta http-equiv=Content-Type content="text/html; charset=koi8-r">`: "koi8-r", `<meta content="text/html;charset=koi8-r;x" http-equiv=content-type>`: "koi8-r",
		`<meta http-equiv=refresh content="0; charset=koi8-r">`: "", `<meta data-charset=koi8-r>`: "", `<metadata charset=koi8-r>`: "",
		`<p title="<meta charset=koi8-r>">`: "", `<title x='>'><meta charset=big5>`: "big5", `</p <meta charset=koi8-r>`: "", `<!x <meta charset=koi8-r><meta charset=big5>`: "big5",
		`<meta charset=utf-16le>`: "utf-8", `<meta charset=ucs-2>`: "utf-8", `<meta charset="a<b">`: "", `<meta charset>`: "", `<meta charset=`: "", `<meta`: "", `<`: "", ``: "",
		`<meta charset=utf8mb4><meta charset=big5>`: "big5", `<meta charset=none>`: "", `<meta http-equiv=content-type content="text/html; charset=x"><meta charset=UTF8>`: "utf8",
		`<meta charset=koi8-r charset=big5>`: "koi8-r", strings.Repeat(" ", 1010) + `<meta charset=koi8-r>`: "",
	} {
		if got := charsetOf([]byte(page)); got != want {
			t.Errorf("%s declares %q, want %q", page, got, want)
		}
	}
	for v, want := range map[string]string{"text/html; charset=KOI8-R": "koi8-r", `text/html;x=1; charset="big5"`: "big5", "text/html; data-charset=x": "", "text/html": "", "": ""} {
		if got := labelOf([]byte(v)); got != want {
			t.Errorf("label of %q is %q, want %q", v, got, want)
		}
	}
	// A field with a charset that no browser knows says nothing.
	for of, want := range map[string]bool{"text/html; charset=utf8mb4": true, "text/html; charset=": true, "text/html; charset=none": true, "text/html; charset=utf8": false, "text/html; charset=ISO-8859-1": false} {
		got := edited(editor(message.Fields{{Name: []byte("Content-Type"), Value: []byte(of)}}, "Sec-Fetch-Dest", "document"), `<html><head><title>x</title><meta charset=koi8-r>`, 100)
		if strings.HasPrefix(got, `<html><head><meta charset="koi8-r"><style>`) != want {
			t.Errorf("%s: the page begins %.80q, with its charset in front: want %v", of, got, want)
		}
	}
	for _, label := range []string{"utf-16le", "UTF-16BE", "ucs-2", "unicode"} {
		wide := " \x00h\x00t\x00m\x00l\x00>\x00"
		if got := edited(editor(message.Fields{{Name: []byte("Content-Type"), Value: []byte("text/html; charset=" + label)}}, "Sec-Fetch-Dest", "document"), wide, 3); got != wide {
			t.Errorf("page in %s came out as %q", label, got)
		}
	}
}

func TestOnlyWhatBrowsersShowIsChanged(t *testing.T) {
	const mozilla, html = "Mozilla/5.0 (X11)", "text/html,*/*;q=0.8"
	for _, c := range []struct {
		fields []string
		want   bool
	}{
		{[]string{"Sec-Fetch-Dest", "document"}, true}, {[]string{"Sec-Fetch-Dest", "iframe"}, true}, {[]string{"Sec-Fetch-Dest", "frame"}, true},
		{[]string{"Sec-Fetch-Dest", "empty", "Accept", html, "User-Agent", mozilla}, false}, {[]string{"Sec-Fetch-Dest", "image"}, false},
		{[]string{"User-Agent", mozilla, "Accept", html, "Upgrade-Insecure-Requests", "1"}, true},
		{[]string{"User-Agent", mozilla, "Accept", html}, false},
		{[]string{"User-Agent", mozilla, "Accept", html, "Upgrade-Insecure-Requests", "1", "X-Requested-With", "XMLHttpRequest"}, false},
		{[]string{"User-Agent", "curl/8", "Accept", html}, false}, {[]string{"Accept", html}, false}, {[]string{"User-Agent", "Boto3/1.34"}, false}, {nil, false},
	} {
		q := &message.Request{}
		for i := 0; i < len(c.fields); i += 2 {
			q.Add(c.fields[i], c.fields[i+1])
		}
		if got := Shows(q); got != c.want {
			t.Errorf("%q: shown %v, want %v", c.fields, got, c.want)
		}
	}
}

func TestPoliciesAllowTheMarkup(t *testing.T) {
	const (
		style = "'sha256-jeCzxH8RLFl0X3F6YmkyJkxCKnVjlUhy4jeyI69K1kM='"
		sheet = "https://a.com:8443/.well-known/s.css"
	)
	script := inlineNeed(nil, append([]byte("J"), tidy...)).hash
	for _, tt := range []struct{ policy, want, nonce string }{
		{"img-src 'self'", "img-src 'self'", ""},
		{"style-src 'unsafe-inline' 'self'; script-src 'unsafe-inline'", "style-src 'unsafe-inline' 'self'; script-src 'unsafe-inline'", ""},
		{"style-src 'self'; script-src *", "style-src 'self' STYLE; script-src * SCRIPT", ""},
		{"Style-Src 'none'; script-src 'none'", "style-src STYLE SHEET; script-src SCRIPT", ""},
		{"style-src; script-src", "style-src STYLE SHEET; script-src SCRIPT", ""},
		{"default-src 'none'", "default-src 'none'; style-src STYLE SHEET; script-src SCRIPT", ""},
		{"default-src https: 'unsafe-inline'", "default-src https: 'unsafe-inline'", ""},
		{"default-src 'none'; style-src-elem a.com:8443 'unsafe-inline'; script-src 'unsafe-inline'", "default-src 'none'; style-src-elem a.com:8443 'unsafe-inline'; script-src 'unsafe-inline'", ""},
		{"style-src 'unsafe-inline' 'sha256-x' *; script-src 'unsafe-inline' 'strict-dynamic'", "style-src 'unsafe-inline' 'sha256-x' * STYLE; script-src 'unsafe-inline' 'strict-dynamic' SCRIPT", ""},
		{"style-src 'nonce-AbC='; script-src 'nonce-AbC='", "style-src 'nonce-AbC='; script-src 'nonce-AbC='", "AbC="},
		{"style-src 'nonce-A' x.com, style-src 'self'", "style-src 'nonce-A' x.com,style-src 'self' STYLE", "A"},
		{"default-src 'nonce-A\"><'", "default-src 'nonce-A\"><'; style-src 'nonce-A\"><' STYLE SHEET; script-src 'nonce-A\"><' SCRIPT", ""},
		{"style-src *.com; script-src 'unsafe-inline'", "style-src *.com STYLE SHEET; script-src 'unsafe-inline'", ""},
		{"sandbox allow-forms; style-src 'none'; script-src 'none'", "sandbox allow-forms; style-src STYLE SHEET; script-src 'none'", ""},
		{"sandbox allow-forms Allow-Scripts; script-src 'none'", "sandbox allow-forms Allow-Scripts; script-src SCRIPT", ""},
		{"style-src https://a.com:8443/; script-src 'unsafe-inline'", "style-src https://a.com:8443/ STYLE; script-src 'unsafe-inline'", ""},
	} {
		fields := message.Fields{}
		fields.Add("content-security-policy", tt.policy)
		tr := &filter.Transaction{URL: "https://a.com:8443/x?y", Request: &message.Request{}}
		e := New(tr, &filter.Changes{Style: []byte("S"), Script: []byte("J"), Sheet: "/.well-known/s.css"}, &fields)
		want := strings.NewReplacer("STYLE", style, "SCRIPT", script, "SHEET", sheet).Replace(tt.want)
		if got := string(fields[0].Value); got != want {
			t.Errorf("allow(%s): got\n%s, want\n%s", tt.policy, got, want)
		}
		nonce := nonceAttribute(tt.nonce)
		markup := "<style" + nonce + ">S</style><link rel=\"stylesheet\"" + nonce + " href=\"" + sheet + "\"><script"
		if strings.HasPrefix(tt.policy, "sandbox allow-forms;") {
			if got := string(e.markup); strings.Contains(got, "<script") {
				t.Errorf("policy %s: got markup with a script that cannot run: %s", tt.policy, got)
			}
			continue
		}
		if got := string(e.markup); !strings.HasPrefix(got, markup) || !strings.HasSuffix(got, ">J"+string(tidy)+"</script>") {
			t.Errorf("policy %s: got markup %s, want %s…", tt.policy, got, markup)
		}
	}
	fields := message.Fields{}
	fields.Add("Content-Security-Policy-Report-Only", "style-src 'none'")
	New(&filter.Transaction{URL: "http://a.com/", Request: &message.Request{}}, &filter.Changes{Style: []byte("S"), Policies: []string{"style-src 'self'"}, Permissions: []string{"camera=()"}}, &fields)
	var all []string
	for _, f := range fields {
		all = append(all, string(f.Name)+": "+string(f.Value))
	}
	want := "Content-Security-Policy-Report-Only: style-src " + style + "|Content-Security-Policy: style-src 'self' " + style + "|Permissions-Policy: camera=()"
	if got := strings.Join(all, "|"); got != want {
		t.Errorf("policies after the change: got %s, want %s", got, want)
	}
}

// TestNothingIsInsertedWithoutAnElement: a page of which only the head changes keeps its bytes.
func TestNothingIsInsertedWithoutAnElement(t *testing.T) {
	const page = "<html><head><meta charset=koi8-r>x"
	e := New(&filter.Transaction{URL: "http://a.com/", Request: &message.Request{}}, &filter.Changes{Policies: []string{"img-src 'none'"}}, &message.Fields{})
	if got := edited(e, page, 5); got != page {
		t.Errorf("got %q, want the page as it was", got)
	}
}

// FuzzEditor: for any pieces, the page comes out whole, with the markup once or not at all.
func FuzzEditor(f *testing.F) {
	for _, s := range []string{"<!doctype html><html><head>x", "<!-- --><?x?><p>", "\ufeff<head a='>'><meta charset=x>", "<!-->", "<h"} {
		f.Add(s, "default-src 'self', style-src 'nonce-x'", uint8(3))
	}
	f.Fuzz(func(t *testing.T, page, policy string, size uint8) {
		var fields message.Fields
		fields.Add("Content-Security-Policy", policy)
		e := New(&filter.Transaction{URL: "https://a.com/", Request: &message.Request{}}, &filter.Changes{Style: []byte("S"), Sheet: "/s"}, &fields)
		markup := string(e.markup)
		got := edited(e, page, int(size)+1)
		if got == page {
			return
		}
		before, after, found := strings.Cut(got, markup)
		if i := strings.LastIndex(before, "<meta charset=\""); i >= 0 && before+after != page {
			before = before[:i]
		}
		if !found || before+after != page {
			t.Errorf("page %q came out as %q", page, got)
		}
	})
}

// FuzzPage: any page in any pieces comes out whole, with the markup in at most one place.
func FuzzPage(f *testing.F) {
	for _, s := range []string{"<!doctype html><html><head><meta charset=x>", "<!-- <html>", "\xef\xbb\xbf<?x?><HEAD id='>'>", "\xff\xfe<"} {
		f.Add([]byte(s), uint16(1), true)
		f.Add([]byte(s), uint16(7), false)
	}
	f.Fuzz(func(t *testing.T, page []byte, size uint16, charset bool) {
		mark := "<style>S</style><script>" + string(tidy) + "</script>"
		var fields message.Fields
		if charset {
			fields.Add("Content-Type", "text/html; charset=utf-8")
		}
		got := edited(editor(fields), string(page), int(size)+1)
		if strings.Contains(string(page), mark) {
			return
		}
		before, after, _ := strings.Cut(got, mark)
		if i := strings.LastIndex(before, `<meta charset="`); !charset && i >= 0 && before+after != string(page) {
			before = before[:i]
		}
		if before+after != string(page) {
			t.Errorf("got %q for the page %q", got, page)
		}
	})
}
