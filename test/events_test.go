package test

import (
	"strings"
	"testing"
)

// TestAnEventIsSettledWithAButton: a click reverses the verdicts that the page of
// events shows.
func TestAnEventIsSettledWithAButton(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"tea.example/": "tea", "bet.example/": "bets"})
	if tea, bet := h.status("http://tea.example/"), h.status("http://bet.example/"); tea != 200 || bet != 403 {
		t.Fatalf("tea %d, bet %d", tea, bet)
	}
	h.recorded("host:tea.example")
	h.recorded("host:bet.example")

	b := newBrowser(t, h.g.ProxyAddr(), "--proxy-bypass-list=<-loopback>;127.0.0.1")
	admin := "http://" + h.g.AdminAddr()
	b.open(admin + "/events")
	b.shows("http://tea.example/")
	b.shows("gambling")
	b.picture("events")
	b.change("button[value=allow]")
	b.shows("bet.example is no longer gambling")
	if code := h.status("http://bet.example/"); code != 200 {
		t.Errorf("bet.example after it was allowed: %d", code)
	}
	b.change("button[value='tea.example']")
	b.shows("added tea.example")
	if code := h.status("http://tea.example/"); code != 403 {
		t.Errorf("tea.example after it was blocked: %d", code)
	}
	b.picture("events-settled")
	b.open(admin + "/statistics")
	b.shows("Last hour")
	b.picture("statistics")
	if text := b.text(); !strings.Contains(text, "bet.example") || !strings.Contains(text, "127.0.0.1") {
		t.Errorf("statistics show %q", text)
	}
}
