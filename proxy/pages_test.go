package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/page"
)

func TestPagesComeInTheFormTheClientWants(t *testing.T) {
	pages, err := page.New("", "help@school.test")
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
		{"Accept", "*/*", "text/plain; charset=utf-8", []string{"x.test is not available here", "pupils", "help@school.test", "ID"}},
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
				t.Errorf("%s: %s: %q is missing in %s", tt.name, tt.value, want, body)
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
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		t.Errorf("a request for the gateway's own page reached the origin: %v", q.URL)
	})
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
				t.Errorf("Balance was called for %+v at %v", c, now)
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
				t.Errorf("%q: %q is missing in %s", tt.request, want, body)
			}
		}
	}
	for _, x := range r.wait(5) {
		if x.Host == exchange.OwnHost && (x.Action != filter.Allow || x.Category != "own-page" || x.Status != 200) {
			t.Errorf("record of the own page: got %+v", x)
		}
	}
}

// A voter gives tokens and takes votes.
type voter struct{}

func (voter) Token(*filter.Transaction) string { return "a-token" }

func (voter) Answer(_ context.Context, _ *filter.Transaction, _ *message.Request, path string, body []byte) (int, string, []byte, []string) {
	return 200, "text/plain", []byte(path + " " + string(body)), nil
}

// TestMoreTimeCanBeAskedForWhereMinutesAreUsedUp: and not where bytes are, of which nobody gives more.
func TestMoreTimeCanBeAskedForWhereMinutesAreUsedUp(t *testing.T) {
	for unit, asks := range map[string]bool{"minutes": true, "bytes": false} {
		r := start(t, Config{}, Engine{
			Votes: voter{},
			Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
				v := block("quota")
				v.After = time.Hour
				v.Reason.Finding.Check = "policy"
				return v
			}},
			Balance: func(context.Context, *filter.Client, time.Time) (string, []filter.Balance) {
				return "pupils", []filter.Balance{{Of: "games", By: "user", Unit: unit, Most: 30, Known: true}}
			},
		})
		got := r.talk("GET http://play.example/ HTTP/1.1\r\nHost: play.example\r\nConnection: close\r\n\r\n")
		if strings.Contains(got, "a-token") != asks || strings.Contains(got, "Ask for 15 more minutes") != asks || !strings.HasPrefix(got, "HTTP/1.1 429 ") {
			t.Errorf("where %s are used up: %s", unit, got)
		}
		got = r.talk("POST http://play.example" + exchange.VotePath + " HTTP/1.1\r\nHost: play.example\r\nContent-Length: 13\r\nConnection: close\r\n\r\ntoken=a-token")
		if !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.HasSuffix(got, "/votes token=a-token") {
			t.Errorf("the request for more time is answered with %s", got)
		}
	}
}
