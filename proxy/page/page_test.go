package page

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

func TestTemplatesMayBeReplaced(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("block.html", "mine: {{.Category}} {{.Evidence}}")
	write("error.html", `{{template "head"}}<main class="error">{{.Title}}`)
	p, err := New(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, b := p.Render(Block, Document, &Page{Category: "a<b", Evidence: "list:3"}); string(b) != "mine: a&lt;b list:3" {
		t.Errorf("block page from our template: got %q", b)
	}
	if _, b := p.Render(Error, Document, &Page{Title: "Bad Gateway"}); !strings.Contains(string(b), "</style>") || !strings.HasSuffix(string(b), `<main class="error">Bad Gateway`) {
		t.Errorf("error page from our template: got %q", b)
	}
	if _, b := p.Render(Warn, Document, &Page{Continue: "http://x/?a=b"}); !strings.Contains(string(b), `href="http://x/?a=b"`) {
		t.Errorf("the built-in warn page lacks the link to continue: %s", b)
	}
	for text, want := range map[string]string{"one\n{{.Nonsense}}": "block.html:2:", "{{if}}": "block.html:1:", "{{": "block.html:1:"} {
		write("block.html", text)
		if _, err := New(dir, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("template %q: got %v, want %s", text, err, want)
		}
	}
	if _, err := New(filepath.Join(dir, "none"), ""); err == nil {
		t.Error("New accepted a folder that does not exist")
	}
}

// A status for which the languages have no text is shown by its English name.
func TestEveryStatusHasATitle(t *testing.T) {
	p, err := New("", "")
	if err != nil {
		t.Fatal(err)
	}
	for status := 400; status < 600; status++ {
		if http.StatusText(status) == "" {
			continue
		}
		for _, accept := range []string{"", "de"} {
			_, b := p.Render(Error, Document, &Page{Status: status, Title: http.StatusText(status), Texts: p.Texts(accept)})
			if strings.Contains(string(b), ">error.") {
				t.Errorf("the page of status %d in %q shows the key of a text instead of the text", status, accept)
			}
		}
	}
}

// TestDoorsAreSmall: every page with all that it can have, in every language, fits in 12 kB.
func TestDoorsAreSmall(t *testing.T) {
	p, err := NewFor("", Whose{Name: "Sunrise Primary School", Contact: "Ms Aliya, room 12"})
	if err != nil {
		t.Fatal(err)
	}
	for _, texts := range p.texts.All() {
		for k := Block; k <= Wait; k++ {
			d := Page{Status: 403, Title: "Forbidden", Reason: "The server refuses the connection.", Why: "it is in the category gambling", Host: "lucky-spins.example", URL: "http://lucky-spins.example/bonus", Policy: "pupils", Rule: "gambling",
				Category: "gambling", Score: 140, ID: "1k19zyahabh", User: "bolor", Continue: "http://lucky-spins.example/bonus?shuultuur-accept=x", Vote: "/.well-known/shuultuur/votes", Token: strings.Repeat("x", 300), Time: time.Now(), Texts: texts}
			_, b := p.Render(k, Document, &d)
			if len(b) > 12<<10 {
				t.Errorf("the page %s in %s has %d bytes, want at most 12 kB", kinds[k], texts.Lang, len(b))
			}
		}
	}
}

// TestAPageSpeaksToItsReader: a child is told other things than an adult, and whom to talk to by name.
func TestAPageSpeaksToItsReader(t *testing.T) {
	p, err := NewFor("", Whose{Name: "Sunrise <School>", Contact: "Ms Aliya, room 12", Children: []string{"pupils"}})
	if err != nil {
		t.Fatal(err)
	}
	minutes := filter.Balance{Of: "games", Unit: "minutes", Most: 30, Used: 31, Text: "0m left of 30m", Known: true, Until: time.Date(2026, 11, 27, 4, 0, 0, 0, time.UTC)}
	for _, c := range []struct {
		name      string
		page      Page
		want, not []string
	}{
		{"an adult", Page{Policy: "staff", Host: "bet.example", Category: "gambling", Check: "category", Why: "it is in the category gambling", Vote: "/v"},
			[]string{"<h1><bdi>bet.example</bdi> is closed here</h1>", "<p>It is closed because it is in the category gambling.</p>", "Questions: <bdi>Ms Aliya, room 12</bdi>. Please give this reference: <code>r1</code>", `type="email"`, "Sunrise &lt;School&gt;</p>"}, []string{"You did nothing wrong"}},
		{"a child", Page{Policy: "pupils", Host: "bet.example", Category: "gambling", Check: "category", Why: "it is in the category gambling", Vote: "/v"},
			[]string{"<h1>This page is about gambling</h1>", "<p>Sunrise &lt;School&gt; keeps it closed. You did nothing wrong by coming here.</p>", "You can talk to Ms Aliya, room 12.", "Ask to open it", "<dd><bdi>bet.example", "<dt>Category</dt><dd><bdi>gambling</bdi></dd>"}, []string{`type="email"`, "It is closed because"}},
		{"a child, and a subject that is none for children", Page{Policy: "pupils", Host: "sex.example", URL: "http://sex.example/", Category: "porn", Check: "category", Why: "it is in the category porn"},
			[]string{"<h1>This page is closed</h1>", "You did nothing wrong"}, []string{"about porn"}},
		{"a child whose time is over", Page{Policy: "pupils", Host: "play.example", Category: "quota", Check: "policy", Why: "the 30m a day for games are used up", After: 5 * time.Hour, Quotas: []filter.Balance{minutes}},
			[]string{`<h1 class="mid">Over for today: games</h1>`, `aria-label="games: 0 of 30 minutes are left"`, `stroke-dasharray="100 100"`, ">0</text>", "of 30 min left</text>", "A new day begins at 04:00.", "Try again in 5 hours"}, []string{"You did nothing wrong", "30m a day for everything"}},
		{"a child whose time is over, and who may ask", Page{Policy: "pupils", Host: "play.example", Category: "quota", Check: "policy", Why: "the 30m a day for games are used up", After: 5 * time.Hour, Quotas: []filter.Balance{minutes}, Vote: "/v"},
			[]string{"Ask for 15 more minutes"}, []string{"Ask to open it"}},
		{"a child, at an hour at which it is closed", Page{Policy: "pupils", Host: "play.example", Category: "games", Check: "category", Hours: true, Why: "it is in the category games", Vote: "/v"},
			[]string{"Ask for 15 more minutes"}, []string{"Ask to open it"}},
		{"a certificate, for a child, too", Page{Policy: "pupils", Host: "bank.example", Category: "expired", Check: "certificate", Why: "its certificate cannot be trusted: x"},
			[]string{"<h1><bdi>bank.example</bdi> cannot prove who it is</h1>", "The certificate of bank.example has expired, and nothing confirms any more that it is the real one."}, []string{"You did nothing wrong"}},
		{"nobody", Page{Host: "x.example", Why: "no policy covers your address"}, []string{"<p>It is closed because no policy covers your address.</p>"}, nil},
	} {
		c.page.Status, c.page.ID = 403, "r1"
		if c.page.URL == "" {
			c.page.URL = c.page.Host + "/"
		}
		_, b := p.Render(Block, Document, &c.page)
		for _, want := range c.want {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s: the page lacks %q:\n%s", c.name, want, b[strings.Index(string(b), `<div class="in">`):])
			}
		}
		for _, not := range c.not {
			if strings.Contains(string(b), not) {
				t.Errorf("%s: the page has %q", c.name, not)
			}
		}
	}
	d := Page{Policy: "pupils", Quotas: []filter.Balance{{Of: "everything", Unit: "bytes", Most: 500e6, Left: 125e6, Known: true, By: "user"}, {Of: "chess", Text: "5m left", Known: true, By: "user"}}}
	_, b := p.Render(Quota, Document, &d)
	for _, want := range []string{"<strong>the web</strong>: 125 of 500 MB are left<", `stroke-dasharray="75 100"`, ">125</text>", "<strong>chess</strong>: 5m left<"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the page of what is left lacks %q:\n%s", want, b[strings.Index(string(b), `<div class="in">`):])
		}
	}
	if strings.Count(string(b), `class="clock"`) != 1 {
		t.Error("a balance without its most has a ring")
	}
}

func TestAWaitingPageNamesTheFile(t *testing.T) {
	p, err := New("", "")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		"http://x.test/a/setup.exe?x=1":                        "<h1>setup.exe is being checked</h1>",
		"http://x.test/a/":                                     "<h1>Your download is being checked</h1>",
		"http://x.test/%E2%80%AEexe.gpj":                       "<h1>exe.gpj is being checked</h1>",
		"http://x.test/" + strings.Repeat("long", 30) + ".exe": "<h1>Your download is being checked</h1>",
	} {
		if _, b := p.Render(Wait, Document, &Page{URL: at}); !strings.Contains(string(b), want) {
			t.Errorf("%s: the page lacks %s", at, want)
		}
	}
}

// noIcon keeps browsers from asking the site for an icon.
const noIcon = `<link rel="icon" href="data:,">`

func TestBuiltInPagesLoadNothing(t *testing.T) {
	p, err := New("", "")
	if err != nil {
		t.Fatal(err)
	}
	for k := Block; k <= Quota; k++ {
		_, b := p.Render(k, Document, &Page{Title: "x", ID: "i", URL: "http://x.test/"})
		if !strings.Contains(string(b), noIcon) {
			t.Errorf("page %d makes browsers ask for an icon", k)
		}
		for _, bad := range []string{"src=", "@import", "url(", "<script", "<link"} {
			if strings.Contains(strings.Replace(string(b), noIcon, "", 1), bad) {
				t.Errorf("page %d contains %q", k, bad)
			}
		}
		if len(b) > 12<<10 {
			t.Errorf("page %d has %d bytes, want at most 12 kB", k, len(b))
		}
	}
}

func TestPagesSayWhyToAPerson(t *testing.T) {
	pages, err := New("", "")
	if err != nil {
		t.Fatal(err)
	}
	reason := func(check, category string, score int) filter.Reason {
		return filter.Reason{Policy: "pupils", Rule: "words", Finding: filter.Finding{Check: check, Category: category, Score: score, Evidence: "secret/list:3"}}
	}
	for _, c := range []struct {
		name   string
		reason filter.Reason
		found  []filter.Finding
		want   string
	}{
		{"list", reason("category", "gambling", 0), nil, "it is in the category gambling"},
		{"total alone", reason("phrase", "phrase", 120), nil, "of what it says (score 120)"},
		{"total with kinds", reason("phrase", "phrase", 120), []filter.Finding{
			{Check: "phrase", Category: "phrase", Score: 120}, {Check: "phrase", Category: "Drugs", Score: 20},
			{Check: "phrase", Category: "Swearing", Score: 100}, {Check: "phrase", Category: "good", Score: -10}, {Check: "category", Category: "news"},
		}, "its content counts as Swearing, Drugs (score 120)"},
		{"one kind", reason("phrase", "Drugs", 60), nil, "its content counts as Drugs (score 60)"},
		{"condition", filter.Reason{Policy: "pupils", Rule: "programs"}, nil, "the rule programs says so"},
		{"nobody", filter.Reason{}, nil, "no policy covers your address"},
	} {
		x := filter.Transaction{Findings: c.found, Verdict: filter.Verdict{Action: filter.Block, Reason: c.reason}}
		if got := Why(&x, pages.Texts("")); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPagesLoadAndRunNothing(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"block.html": "<style>b { color: red }</style><style media=print>i { color: blue }</style><b>{{.Host}}</b>",
		"warn.html":  "<b>{{.Host}}</b>",
		"quota.html": "<script>let x = 1</script>",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own, err := New(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	builtIn, err := New("", "")
	if err != nil {
		t.Fatal(err)
	}
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	const strict = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	if got, want := own.Policy(Block, Document), strict+"; style-src "+hash("b { color: red }")+" "+hash("i { color: blue }"); got != want {
		t.Errorf("policy of the block page: got  %s\nwant %s", got, want)
	}
	if got := own.Policy(Warn, Document); got != strict {
		t.Errorf("policy of a page without styles: got %s, want the strict one", got)
	}
	if got, want := own.Policy(Quota, Document), strict+"; connect-src 'self'; script-src "+hash("let x = 1"); got != want {
		t.Errorf("policy of the quota page: got  %s\nwant %s", got, want)
	}
	for _, k := range []Kind{Block, Warn, Error, Quota} {
		_, body := builtIn.Render(k, Document, &Page{Status: 403, Host: "a.test", Continue: "http://a.test/?x"})
		_, rest, _ := strings.Cut(string(body), "<style>")
		style, _, ok := strings.Cut(rest, "</style>")
		want := strict
		if k == Block || k == Warn { // it has a form for votes, or what was sent
			want = strings.Replace(strict, "form-action 'none'", "form-action 'self'", 1)
		}
		if got := builtIn.Policy(k, Document); strings.Contains(got, "script-src") != (k == Block || k == Warn) {
			t.Errorf("built-in page %v: wrong script-src in %s", kinds[k], got)
		}
		if got := builtIn.Policy(k, Document); !ok || !strings.HasPrefix(got, want) || !strings.Contains(got, hash(style)) {
			t.Errorf("built-in page %v: the policy %s does not allow its style", kinds[k], got)
		}
	}
}

func TestPagesAreInTheLanguageOfTheBrowser(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "text"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text", "fa.txt"), []byte("block.closed = {host} بسته است\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(dir, "office")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		accept string
		kind   Kind
		want   []string
	}{
		{"", Block, []string{`<html lang="en" dir="ltr">`, "<title>This page is closed</title>", "<h1><bdi>x.test</bdi> is closed here</h1>", "It is closed because <b>.", "Try again in 5 minutes, at 00:05."}},
		{"mn", Block, []string{`<html lang="mn" dir="ltr">`, "<bdi>x.test</bdi> энд хаалттай", "Шалтгаан нь: <b>", "5 минутын дараа", "<dt>Хаяг</dt>"}},
		{"uz-Cyrl,ru;q=0.5", Warn, []string{`lang="uz-Cyrl"`, "<bdi>x.test</bdi> га ўтмоқчимисиз?"}},
		{"de-CH", Quota, []string{`lang="de"`, "Was heute übrig ist"}},
		{"tr", Error, []string{`lang="tr"`, "<h1>Oturum açın</h1>", "parolanızı"}},
		{"ar-EG,en", Block, []string{`<html lang="ar" dir="rtl">`, "<h1><bdi>x.test</bdi> مغلق هنا</h1>", "السبب: \u2068<b>\u2069.", "بعد 5 د", "<dd><bdi>http://x.test/</bdi></dd>"}},
		{"fa-IR,en", Block, []string{`<html lang="fa" dir="rtl">`, "<h1><bdi>x.test</bdi> بسته است</h1>", "It is closed because"}},
	} {
		_, b := p.Render(c.kind, Document, &Page{Status: 407, Title: "x", Host: "x.test", URL: "http://x.test/", ID: "i", Why: "<b>", Time: time.Unix(0, 0).UTC(), After: 5 * time.Minute, Texts: p.Texts(c.accept)})
		for _, want := range c.want {
			want = strings.ReplaceAll(want, "<b>", "&lt;b&gt;")
			if !strings.Contains(string(b), want) {
				t.Errorf("%s: page %d lacks %q:\n%s", c.accept, c.kind, want, b[max(0, strings.Index(string(b), "<main")):])
			}
		}
	}
}

func TestTheFormSuitsTheRequest(t *testing.T) {
	for _, c := range []struct {
		head string
		want Form
	}{
		{"Accept: */*\r\nUser-Agent: curl/8.5.0", Plain},
		{"Accept: */*\r\nUser-Agent: Wget/1.21", Plain},
		{"Accept: text/plain", Plain},
		{"User-Agent: x", Plain},
		{"", Document},
		{"User-Agent: okhttp/4.12.0", Plain},
		{"User-Agent: Dalvik/2.1.0 (Linux; U; Android 14)", Plain},
		{"User-Agent: Go-http-client/1.1\r\nContent-Type: application/json; charset=utf-8", Object},
		{"User-Agent: okhttp/4.12.0\r\nContent-Type: application/vnd.api+json", Object},
		{"User-Agent: Mozilla/5.0 (Linux; wv)\r\nAccept: application/vnd.api+json", Object},
		{"User-Agent: Mozilla/5.0 (Linux; wv)\r\nAccept: */*\r\nContent-Type: application/json", Object},
		{"User-Agent: x\r\nAccept: application/problem+json;q=0.9, text/plain", Object},
		{"User-Agent: x\r\nAccept: application/jsonp", Plain},
		{"User-Agent: Mozilla/5.0", Document},
		{"User-Agent: Mozilla/5.0\r\nAccept: text/html, application/json", Document},
		{"User-Agent: grpc-go/1.60\r\nContent-Type: application/grpc", Call},
		{"User-Agent: Mozilla/5.0\r\nSec-Fetch-Dest: empty\r\nContent-Type: application/grpc-web+proto", Call},
		{"User-Agent: x\r\nContent-Type: application/grpcx", Plain},
		{"Sec-Fetch-Dest: document\r\nAccept: text/html", Document},
		{"Sec-Fetch-Dest: iframe\r\nAccept: text/html", Frame},
		{"Sec-Fetch-Dest: object\r\nAccept: */*", Frame},
		{"Sec-Fetch-Dest: script\r\nAccept: */*", Script},
		{"Sec-Fetch-Dest: style\r\nAccept: text/css,*/*;q=0.1", Sheet},
		{"Accept: text/css,*/*;q=0.1\r\nUser-Agent: Mozilla/5.0", Sheet},
		{"Sec-Fetch-Dest: video\r\nAccept: */*", Nothing},
		{"Sec-Fetch-Dest: font\r\nAccept: */*", Nothing},
		{"Sec-Fetch-Dest: empty\r\nAccept: */*", Object},
		{"Sec-Fetch-Dest: image\r\nAccept: */*", Picture},
		{"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\nUser-Agent: Lynx/2.9", Document},
		{"Accept: */*\r\nUser-Agent: Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1)", Document},
		{"Accept: application/json, */*\r\nUser-Agent: HTTPie/3.2", Object},
		{"Accept: image/png,*/*", Picture},
	} {
		var q message.Request
		in := message.NewReader(strings.NewReader("GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n"+strings.TrimPrefix(c.head+"\r\n", "\r\n")+"\r\n"), 0, 4096)
		if err := in.ReadRequest(&q); err != nil {
			t.Fatal(err)
		}
		if got := FormOf(&q); got != c.want {
			t.Errorf("%q: form %d, want %d", c.head, got, c.want)
		}
	}
	pages, err := New("", "help@school.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind Kind
		page Page
		want string
	}{
		{Block, Page{Host: "bet.example", Why: "it is in the category gambling", URL: "http://bet.example/\x1b[2J\u202e", Category: "gambling", ID: "r1"},
			"bet.example is not available here, because it is in the category gambling.\nAddress: http://bet.example/[2J\nCategory: gambling\nReference: r1\nQuestions: help@school.example\n"},
		{Block, Page{ID: "r2", After: 90 * time.Second, Texts: pages.Texts("de")}, "Diese Seite ist hier nicht verfügbar.\nVersuchen Sie es in 90 Sekunden wieder.\nNummer: r2\nFragen: help@school.example\n"},
		{Warn, Page{Host: "bet.example", Continue: "http://bet.example/?a=b", ID: "r3"}, "bet.example may not be what you are looking for.\nGo on to the page: http://bet.example/?a=b\nReference: r3\nQuestions: help@school.example\n"},
		{Error, Page{Status: 502, Reason: "The server refuses the connection.", ID: "r4"}, "The server cannot be reached\nThe server refuses the connection.\nReference: r4\nQuestions: help@school.example\n"},
		{Quota, Page{ID: "r5"}, "What is left today\nNo policy covers your address, so there is nothing to use.\nReference: r5\nQuestions: help@school.example\n"},
		{Quota, Page{ID: "r6", Policy: "pupils", Quotas: []filter.Balance{{Of: "games", Text: "25m left of 1h"}}}, "What is left today\ngames: 25m left of 1h\nPolicy: pupils\nReference: r6\nQuestions: help@school.example\n"},
	} {
		if ctype, body := pages.Render(c.kind, Plain, &c.page); ctype != "text/plain; charset=utf-8" || string(body) != c.want {
			t.Errorf("%s\n%s\nwant:\n%s", ctype, body, c.want)
		}
	}
}

func TestTheWaitPagePaintsAtOnce(t *testing.T) {
	p, err := New("", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, lang := range []string{"", "ru", "mn"} {
		_, b := p.Render(Wait, Document, &Page{Texts: p.Texts(lang)})
		_, body, _ := strings.Cut(string(b), "<body>")
		body, _, _ = strings.Cut(body, "</main>")
		ink, tag := 0, false
		for _, r := range body {
			switch {
			case r == '<' || r == '>':
				tag = r == '<'
			case !tag && r > ' ':
				ink++
			}
		}
		if ink < 200 { // of WebKit
			t.Errorf("language %q: %d characters, want 200 at least", lang, ink)
		}
	}
}

// TestPartsOfAPageGetANotice: it says why, can be framed, and holds nothing that could be clicked or
// that breaks what it stands in for.
func TestPartsOfAPageGetANotice(t *testing.T) {
	p, err := New("", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []Kind{Block, Warn, Error, Quota} {
		for form, typ := range map[Form]string{Frame: "text/html; charset=utf-8", Script: "text/javascript; charset=utf-8", Sheet: "text/css; charset=utf-8", Nothing: "", Call: ""} {
			d := Page{Status: 403, Host: "a.test", Why: "it is */ <b>\u2028x", Continue: "http://a.test/?x", Vote: "/v", Token: "x", ID: "r1", Texts: p.Texts("de")}
			got, body := p.Render(k, form, &d)
			if got != typ {
				t.Errorf("page %s, form %d: type %q, want %q", kinds[k], form, got, typ)
			}
			for _, bad := range []string{"<a", "<form", "<script", "<b>", "\u2028", "http:"} {
				if form == Frame && strings.Contains(string(body), bad) || form == Script && bad == "\u2028" && strings.Contains(string(body), bad) {
					t.Errorf("page %s, form %d contains %q: %s", kinds[k], form, bad, body)
				}
			}
			switch form {
			case Frame:
				if !strings.Contains(string(body), "<p>Nummer: r1</p>") || len(body) > 1000 {
					t.Errorf("page %s in a frame: %s", kinds[k], body)
				}
			case Script:
				for line := range strings.Lines(string(body)) {
					if !strings.HasPrefix(line, "// ") {
						t.Errorf("page %s as a script has the line %q", kinds[k], line)
					}
				}
			case Sheet:
				for line := range strings.Lines(string(body)) {
					if !strings.HasPrefix(line, "/* ") || strings.Count(line, "*/") != 1 {
						t.Errorf("page %s as a style sheet has the line %q", kinds[k], line)
					}
				}
			}
		}
	}
	if got := p.Policy(Block, Frame); strings.Contains(got, "frame-ancestors") || !strings.Contains(got, "style-src 'sha256-") {
		t.Errorf("policy in a frame: %s", got)
	}
}
