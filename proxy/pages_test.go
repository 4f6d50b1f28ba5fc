package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
)

func TestPagesComeInTheFormTheClientWants(t *testing.T) {
	pages, err := NewPages("", "help@school.test")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{}, Engine{Pages: pages, Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict { return block("<adult>") }}})
	for _, tt := range []struct {
		name, value string
		ctype       string
		body        []string
	}{
		{"Accept", "text/html,*/*", "text/html; charset=utf-8", []string{"&lt;adult&gt;", "no-&lt;adult&gt;", "pupils", "help@school.test", "ID", "http://x.test/a?b=&lt;c"}},
		{"Accept", "application/json", "application/json", nil},
		{"X-Requested-With", "XMLHttpRequest", "application/json", nil},
		{"Sec-Fetch-Dest", "empty", "application/json", nil},
		{"Accept", "image/avif,image/webp,*/*", "image/gif", []string{"GIF89a"}},
		{"Sec-Fetch-Dest", "image", "image/gif", []string{"GIF89a"}},
	} {
		q, _ := http.NewRequest("GET", "http://x.test/", nil)
		q.URL.Opaque = "//x.test/a?b=<c"
		q.Header.Set(tt.name, tt.value)
		got := r.talk(fmt.Sprintf("GET http://x.test/a?b=<c HTTP/1.1\r\nHost: x.test\r\n%s: %s\r\nConnection: close\r\n\r\n", tt.name, tt.value))
		head, body, _ := strings.Cut(got, "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 403 ") || !strings.Contains(head, "\r\nContent-Type: "+tt.ctype+"\r\n") || !strings.Contains(head, "\r\nCache-Control: no-store\r\n") {
			t.Errorf("%s: %s: got %s", tt.name, tt.value, head)
		}
		id := r.wait(1)[0].ID
		r.mu.Lock()
		r.records = nil
		r.mu.Unlock()
		for _, want := range tt.body {
			if want = strings.ReplaceAll(want, "ID", id); !strings.Contains(body, want) {
				t.Errorf("%s: %s: no %q in %s", tt.name, tt.value, want, body)
			}
		}
		if tt.ctype == "application/json" {
			var o map[string]any
			if err := json.Unmarshal([]byte(body), &o); err != nil || o["category"] != "<adult>" || o["id"] != id || o["action"] != "block" || o["contact"] != "help@school.test" {
				t.Errorf("%s: %s: got %v, %v", tt.name, tt.value, o, err)
			}
		}
	}
}

func TestAClientMayAskWhatIsLeft(t *testing.T) {
	o := origin(t, func(w http.ResponseWriter, q *http.Request) { t.Errorf("the origin was asked for %v", q.URL) })
	left := []filter.Balance{{Of: "games", By: "user", Text: "25m left of 1h", Left: 25, Known: true}, {Of: "everything", By: "policy", Text: "<1 GB left of 2 GB", Known: true}}
	r := start(t, Config{}, Engine{
		Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
			v := block("quota")
			v.After = time.Hour
			v.Reason.Finding.Check = "policy"
			return v
		}},
		Balance: func(_ context.Context, c *filter.Client, now time.Time) (string, []filter.Balance) {
			if !c.Addr.IsLoopback() || time.Since(now) > time.Minute {
				t.Errorf("asked for %+v at %v", c, now)
			}
			return "pupils", left
		},
	})
	for _, tt := range []struct {
		request, status, ctype string
		body                   []string
	}{
		{"GET http://shuultuur.internal/ HTTP/1.1\r\nHost: shuultuur.internal\r\n", "200", "text/html; charset=utf-8", []string{"<strong>games</strong>: 25m left of 1h<", "&lt;1 GB left of 2 GB, for all together", "pupils"}},
		{"GET http://SHUULTUUR.internal./x HTTP/1.1\r\nHost: shuultuur.internal\r\nAccept: application/json\r\n", "200", "application/json", []string{`"action":"quota"`, `"of":"games"`, `"left":25`}},
		{"GET / HTTP/1.1\r\nHost: shuultuur.internal\r\n", "200", "text/html; charset=utf-8", []string{"25m left of 1h"}},
		{"GET " + o.URL + "/ HTTP/1.1\r\nHost: x\r\n", "429", "text/html; charset=utf-8", []string{"<li>games: 25m left of 1h</li>"}},
		{"GET " + o.URL + "/ HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n", "429", "application/json", []string{`"action":"block"`, `"text":"25m left of 1h"`}},
	} {
		got := r.talk(tt.request + "Connection: close\r\n\r\n")
		head, body, _ := strings.Cut(got, "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 "+tt.status+" ") || !strings.Contains(head, "\r\nContent-Type: "+tt.ctype+"\r\n") {
			t.Errorf("%q: got %s", tt.request, head)
		}
		for _, want := range tt.body {
			if !strings.Contains(body, want) {
				t.Errorf("%q: no %q in %s", tt.request, want, body)
			}
		}
	}
	for _, x := range r.wait(5) {
		if x.Host == OwnHost && (x.Action != filter.Allow || x.Category != "own-page" || x.Status != 200) {
			t.Errorf("on record: %+v", x)
		}
	}
}

func TestTemplatesMayBeReplaced(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("block.html", "mine: {{.Category}} {{.Evidence}}")
	write("error.html", `{{template "head"}}<main class="error">{{.Title}}`)
	p, err := NewPages(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, b := p.render(blockPage, document, &Page{Category: "a<b", Evidence: "list:3"}); string(b) != "mine: a&lt;b list:3" {
		t.Errorf("got %q", b)
	}
	if _, b := p.render(errorPage, document, &Page{Title: "Bad Gateway"}); !strings.Contains(string(b), "</style>") || !strings.HasSuffix(string(b), `<main class="error">Bad Gateway`) {
		t.Errorf("got %q", b)
	}
	if _, b := p.render(warnPage, document, &Page{Continue: "http://x/?a=b"}); !strings.Contains(string(b), `href="http://x/?a=b"`) {
		t.Errorf("built-in warn page: %s", b)
	}
	for text, want := range map[string]string{"one\n{{.Nonsense}}": "block.html:2:", "{{if}}": "block.html:1:", "{{": "block.html:1:"} {
		write("block.html", text)
		if _, err := NewPages(dir, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if _, err := NewPages(filepath.Join(dir, "none"), ""); err == nil {
		t.Error("a folder that is not there was taken")
	}
}

func TestBuiltInPagesLoadNothing(t *testing.T) {
	p, err := NewPages("", "")
	if err != nil {
		t.Fatal(err)
	}
	for k := blockPage; k <= quotaPage; k++ {
		_, b := p.render(k, document, &Page{Title: "x", ID: "i", URL: "http://x.test/"})
		for _, bad := range []string{"src=", "@import", "url(", "<script", "<link"} {
			if strings.Contains(string(b), bad) {
				t.Errorf("page %d contains %q", k, bad)
			}
		}
		if len(b) > 4096 {
			t.Errorf("page %d has %d bytes", k, len(b))
		}
	}
}

func TestPagesSayWhyToAPerson(t *testing.T) {
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
		if got := why(&x); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
