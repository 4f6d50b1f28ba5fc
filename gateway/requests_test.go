package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/wait/waittest"
	"shuultuur/vote"
)

func TestARequestToOpenIsToldByItsDevicesName(t *testing.T) {
	messages := make(chan string, 10)
	ntfy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		messages <- r.URL.Path + "\n" + r.Header.Get("Title") + "\n" + string(b)
	}))
	defer ntfy.Close()
	g := serving(t, folder(t, map[string]string{"hosts": "192.0.2.7 bolors-tablet\n", "shuultuur.yaml": `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
identity: {names: {hosts: [hosts]}}
alerts:
  link: https://filter.example:8081
  to: [{themes: [requests], webhook: {url: "` + ntfy.URL + `/family", format: ntfy}}]
policies: [{name: everyone}]
`}))
	g.asked(&vote.Vote{Kind: vote.Wrong, At: time.Now(), Comment: "for school", Event: vote.Event{Client: "192.0.2.7", Host: "scratch.example", URL: "http://scratch.example/"}})
	select {
	case said := <-messages:
		for _, want := range []string{"/family\n", "bolors-tablet asks to open scratch.example", "“for school”", "https://filter.example:8081/votes"} {
			if !strings.Contains(said, want) {
				t.Errorf("the message is %q, want it to have %q", said, want)
			}
		}
	case <-time.After(time.Minute):
		t.Fatal("nobody was told")
	}
}

func TestMoreTimeIsGivenAndTakenBackByADecision(t *testing.T) {
	g := serving(t, folder(t, map[string]string{"shuultuur.yaml": `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
policies: [{name: everyone, quotas: [{time: 30m}]}]
`}))
	p := &pages{g}
	given := func() (minutes int64) {
		for _, b := range g.engine.Load().Decisions.Bonuses(time.Now()) {
			if b.Who == "10.1.2.3" {
				minutes += b.Minutes
			}
		}
		return minutes
	}
	d := vote.Decision{Remedy: "time for 10.1.2.3", Site: "play.example", Action: vote.More, Who: "10.1.2.3", By: "anna"}
	if err := p.decide(t.Context(), &d); err != nil || given() != vote.MoreMinutes {
		t.Errorf("after the decision there are %d minutes more, %v", given(), err)
	}
	d.Ended = time.Now()
	if err := p.decide(t.Context(), &d); err != nil || given() != 0 {
		t.Errorf("after it was taken back there are %d minutes more, %v", given(), err)
	}
}

// TestMoreTimeIsAskedForWhereAScheduleClosedASite: the page offers it, the request waits under a name of its
// own, and what answers it opens the site for whoever asked, for a while.
func TestMoreTimeIsAskedForWhereAScheduleClosedASite(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the game") }))
	defer origin.Close()
	g := serving(t, folder(t, map[string]string{"shuultuur.yaml": `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
proxy: {private: [127.0.0.0/8], parent: ` + origin.URL + `}
votes: {listen: 127.0.0.1:0}
policies:
  - name: everyone
    rules:
      - {name: evening, action: block, host: [play.example], schedule: {hours: "00:00-24:00"}}
      - {name: never, action: block, host: [bet.example]}
`}))
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: g.ProxyAddr()})}}
	ask := func(method, at string, form url.Values) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		if strings.Contains(at, g.AdminAddr()) {
			r.Header.Set("Accept", "application/json")
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		a, err := client.Do(r)
		if strings.Contains(at, g.AdminAddr()) {
			a, err = http.DefaultClient.Do(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if page := ask("GET", "http://bet.example/", nil); strings.Contains(page, "Ask for 15 more minutes") || !strings.Contains(page, "Ask to open it") {
		t.Errorf("the page of what is never open is\n%s", page)
	}
	page := ask("GET", "http://play.example/", nil)
	token := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(page)
	if token == nil || !strings.Contains(page, "Ask for 15 more minutes") {
		t.Fatalf("the page of what is closed at this hour is\n%s", page)
	}
	ask("POST", "http://play.example/.well-known/shuultuur/votes", url.Values{"token": {token[1]}, "vote": {"wrong"}})
	admin := "http://" + g.AdminAddr()
	var waiting string
	waittest.Until(t, "the request waits", func() bool {
		waiting = ask("GET", admin+"/votes", nil)
		return strings.Contains(waiting, `"time for 127.0.0.1 at play.example"`)
	})
	if page := ask("GET", "http://play.example/", nil); !strings.Contains(page, "Ask for 15 more minutes") {
		t.Errorf("before the answer the page is\n%s", page)
	}
	ask("POST", admin+"/votes", url.Values{"remedy": {"time for 127.0.0.1 at play.example"}, "site": {"play.example"}, "who": {"127.0.0.1"}, "action": {"open"}, "for": {"15m"}})
	if page := ask("GET", "http://play.example/", nil); page != "the game" {
		t.Errorf("after the answer the page is\n%s", page)
	}
	if page := ask("GET", "http://bet.example/", nil); !strings.Contains(page, "Ask to open it") {
		t.Errorf("after the answer another site is\n%s", page)
	}
}
