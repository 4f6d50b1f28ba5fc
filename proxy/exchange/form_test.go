package exchange

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"shuultuur/filter"
)

// warned warns at a stage.
func warned(at filter.Stage) decider {
	return decider{
		wants: func(_ *filter.Transaction, s filter.Stage) bool { return s == filter.RequestBody && at == s },
		decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
			if s == at {
				return filter.Verdict{Action: filter.Warn, To: "to-ken", Reason: filter.Reason{Rule: "w"}}
			}
			return filter.Verdict{}
		},
	}
}

const fromBrowser = "User-Agent: Mozilla/5.0\r\nAccept: text/html\r\n"

// TestAWarningOffersToSendTheFormAgain: the button of a page in answer to a POST sends what the browser
// had sent, if that can be written in a page; the click is then a POST, and is repeated as one.
func TestAWarningOffersToSendTheFormAgain(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	for name, tt := range map[string]struct {
		method, fields, ctype, body string
		want                        string // in the page
	}{
		"a form":               {"POST", fromBrowser, form, "a=1&b=x+%22%3Cy%3E&a=2&c", `<input type="hidden" name="b" value="x &#34;&lt;y&gt;">`},
		"its order":            {"POST", fromBrowser, form + "; charset=UTF-8", "a=1&b=2&a=3", "value=\"1\">\n<input type=\"hidden\" name=\"b\" value=\"2\">\n<input type=\"hidden\" name=\"a\" value=\"3\">"},
		"in Cyrillic":          {"POST", fromBrowser, form, "q=%D0%B4%D0%B0", `value="да"`},
		"not in UTF-8":         {"POST", fromBrowser, form, "q=%E4%F6", "<a class"},
		"a broken escape":      {"POST", fromBrowser, form, "q=%4", "<a class"},
		"too large":            {"POST", fromBrowser, form, "q=" + strings.Repeat("x", maxForm), "<a class"},
		"JSON":                 {"POST", fromBrowser, "application/json", `{"a": 1}`, "<a class"},
		"a file":               {"POST", fromBrowser, "multipart/form-data; boundary=b", "--b--", "<a class"},
		"another method":       {"PUT", fromBrowser, form, "a=1", "<a class"},
		"a program":            {"POST", "User-Agent: okhttp/4\r\n", form, "a=1", "Go on to the page: http://x.test/p?x=y&shuultuur-accept=to-ken"},
		"a script of the page": {"POST", fromBrowser + "Sec-Fetch-Dest: empty\r\n", form, "a=1", `"continue":"http://x.test/p?x=y\u0026shuultuur-accept=to-ken"`},
	} {
		for _, at := range []filter.Stage{filter.RequestBody, filter.Response} {
			x, _ := begin(t, Config{}, warned(at))
			read(t, x, tt.method+" http://x.test/p?x=y HTTP/1.1\r\nHost: x.test\r\n"+tt.fields+"Content-Type: "+tt.ctype+"\r\nContent-Length: "+strconv.Itoa(len(tt.body))+"\r\n\r\n"+tt.body)
			x.T.URL = "http://x.test/p?x=y"
			if !x.JudgeHead(t.Context()) {
				t.Fatal("the head is refused")
			}
			if at == filter.RequestBody {
				if err := x.InspectRequest(t.Context()); err != ErrRefused {
					t.Fatal(err)
				}
			} else {
				if got := all(t, x.Q.Body); got != tt.body {
					t.Errorf("%s: the origin got %q", name, got)
				}
				x.JudgeResponse(t.Context(), respond("text/html", "x"))
			}
			page := all(t, x.VerdictResponse(t.Context()).Body)
			if !strings.Contains(page, tt.want) || strings.Contains(page, "<form") != strings.HasPrefix(tt.want, "<input") && strings.HasPrefix(tt.want, "<") {
				t.Errorf("%s, warned at %v: %q is missing in %s", name, at, tt.want, page)
			}
			if strings.Contains(page, "<form") && !strings.Contains(page, `action="http://x.test/p?x=y&amp;shuultuur-accept=to-ken"`) {
				t.Errorf("%s: the form goes elsewhere: %s", name, page)
			}
			x.End()
		}
	}
}

func TestAClickSendsTheFormAgain(t *testing.T) {
	for method, status := range map[string]int{"GET": 302, "POST": 307, "PUT": 0} {
		x, _ := begin(t, Config{}, decider{})
		x.Engine.Accept = func(context.Context, *filter.Transaction, string) (string, error) { return "pass", nil }
		read(t, x, method+" http://x.test/p?x=y&shuultuur-accept=to-ken HTTP/1.1\r\nHost: x.test\r\nContent-Length: 3\r\n\r\na=1")
		x.T.URL, x.T.Host = "http://x.test/p?x=y&shuultuur-accept=to-ken", "www.x.test"
		s := x.Accept(t.Context())
		switch {
		case s == nil:
			if status != 0 {
				t.Errorf("%s: no answer", method)
			}
		case s.Status != status || string(s.Get("Location")) != "http://x.test/p?x=y" || !strings.HasPrefix(string(s.Get("Set-Cookie")), "shuultuur=pass;") || !strings.HasSuffix(string(s.Get("Set-Cookie")), "; Domain=x.test"):
			t.Errorf("%s: got %d to %s with %s", method, s.Status, s.Get("Location"), s.Get("Set-Cookie"))
		}
		x.End()
	}
}

// TestASubstituteMayBeUsedAsWhatItReplaces: by pages of other origins, with credentials, after a
// preflight, with timing, in isolated pages.
func TestASubstituteMayBeUsedAsWhatItReplaces(t *testing.T) {
	for name, tt := range map[string]struct {
		substitute, fields string
		method             string
		want               map[string]string
	}{
		"a script":               {"noopjs", "Sec-Fetch-Dest: script\r\n", "GET", map[string]string{"Content-Type": "text/javascript; charset=utf-8", "Access-Control-Allow-Origin": "*", "Timing-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}},
		"a module":               {"noopjs", "Sec-Fetch-Dest: script\r\nOrigin: http://a.test\r\n", "GET", map[string]string{"Access-Control-Allow-Origin": "http://a.test", "Access-Control-Allow-Credentials": "true", "Vary": "Origin"}},
		"of a sandbox":           {"noopjson", "Origin: null\r\n", "GET", map[string]string{"Content-Type": "application/json", "Access-Control-Allow-Origin": "null"}},
		"a preflight":            {"noopjson", "Origin: http://a.test\r\nAccess-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-a, x-b\r\n", "OPTIONS", map[string]string{"Access-Control-Allow-Origin": "http://a.test", "Access-Control-Allow-Credentials": "true", "Access-Control-Allow-Methods": "PUT", "Access-Control-Allow-Headers": "x-a, x-b", "Content-Type": ""}},
		"nothing for a script":   {"empty", "Sec-Fetch-Dest: script\r\n", "GET", map[string]string{"Content-Type": "text/javascript; charset=utf-8"}},
		"nothing for a sheet":    {"empty", "Sec-Fetch-Dest: style\r\n", "GET", map[string]string{"Content-Type": "text/css; charset=utf-8"}},
		"nothing for a picture":  {"nooptext", "Sec-Fetch-Dest: image\r\n", "GET", map[string]string{"Content-Type": "image/gif"}},
		"nothing for a frame":    {"nooptext", "Sec-Fetch-Dest: iframe\r\n", "GET", map[string]string{"Content-Type": "text/html; charset=utf-8"}},
		"nothing for a script's": {"nooptext", "Sec-Fetch-Dest: empty\r\n", "GET", map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
	} {
		x, _ := begin(t, Config{}, decider{decide: func(*filter.Transaction, filter.Stage) filter.Verdict {
			return filter.Verdict{Action: filter.Block, Reason: filter.Reason{Finding: filter.Finding{Modifier: "redirect=" + tt.substitute}}}
		}})
		read(t, x, tt.method+" http://x.test/ HTTP/1.1\r\nHost: x.test\r\n"+tt.fields+"\r\n")
		x.JudgeHead(t.Context())
		s := x.VerdictResponse(t.Context())
		for field, want := range tt.want {
			if got := string(s.Get(field)); s.Status != 200 || got != want {
				t.Errorf("%s: status %d, %s: %q, want %q", name, s.Status, field, got, want)
			}
		}
		x.End()
	}
}
