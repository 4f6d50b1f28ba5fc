package test

import (
	"strings"
	"testing"
)

// TestAnEventIsSettledWithAButton: a click on the page of events reverses the verdict.
func TestAnEventIsSettledWithAButton(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"tea.example/": "tea", "bet.example/": "bets"})
	if tea, bet := h.status("http://tea.example/"), h.status("http://bet.example/"); tea != 200 || bet != 403 {
		t.Fatalf("tea.example: status %d, want 200; bet.example: status %d, want 403", tea, bet)
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
		t.Errorf("bet.example after it was allowed: status %d, want 200", code)
	}
	b.change("button[value='tea.example']")
	b.shows("added tea.example")
	if code := h.status("http://tea.example/"); code != 403 {
		t.Errorf("tea.example after it was blocked: status %d, want 403", code)
	}
	b.picture("events-settled")
	b.open(admin + "/statistics")
	b.shows("Requests over time")
	b.picture("reports")
	if text := b.text(); !strings.Contains(text, "bet.example") || !strings.Contains(text, "127.0.0.1") || !strings.Contains(text, "Gambling") {
		t.Errorf("reports show %q", text)
	}
}
