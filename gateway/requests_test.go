package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
