package test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/admin/remote"
	"shuultuur/engine"
	"shuultuur/filter"
)

// admin returns a client for the admin address of the running gateway.
func (h *house) admin() remote.Client { return remote.Client{URL: "http://" + h.g.AdminAddr()} }

// TestFilteringRestsForAWhile: during a pause, pages that the policy blocks pass,
// and afterwards they are blocked again. Reloads and restarts do not end a pause.
func TestFilteringRestsForAWhile(t *testing.T) {
	h := newHouse(t, map[string]string{"bet.example/": "bets", "rude.example/": "<p>Blimey. Crikey.</p>"})
	set := func(who, length string, want int) {
		t.Helper()
		if all, err := h.admin().Pause(t.Context(), who, length); err != nil || len(all) != want {
			t.Fatalf("pausing for %q, clients %q: %+v, %v; want %d pauses", length, who, all, err, want)
		}
	}
	if s := h.status("http://bet.example/"); s != 403 {
		t.Fatalf("before the pause: status %d, want 403", s)
	}
	set("", "5m", 1)
	if bet, rude := h.status("http://bet.example/"), h.status("http://rude.example/"); bet != 200 || rude != 200 {
		t.Errorf("during the pause: status %d and %d, want 200 for both", bet, rude)
	}
	row := h.recorded("host:bet.example category:paused")
	if row.Action != filter.Pass || row.Rule != "betting" || !strings.Contains(row.Evidence, `rule "betting" would block until `) {
		t.Errorf("a page that passed because of the pause is on record as %+v", row)
	}
	row = h.recorded("category:pause")
	if !strings.HasPrefix(row.Note, "filtering is paused for everybody until ") || !strings.HasSuffix(row.Note, ", 5m0s") || row.Client != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("the pause itself is on record as %+v", row)
	}
	text, err := os.ReadFile(h.file)
	if err != nil {
		t.Fatal(err)
	}
	h.write("why.yaml", strings.Replace(string(text), "admin: 127.0.0.1:0", "admin: "+h.g.AdminAddr(), 1))
	e, done, err := engine.Explain(t.Context(), filepath.Join(filepath.Dir(h.file), "why.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	e.AskPauses(t.Context())
	d, err := e.As("readers")
	if err != nil {
		t.Fatal(err)
	}
	tr := filter.Transaction{Host: "bet.example", Proto: filter.TLS}
	d.Decide(t.Context(), &tr, filter.Name)
	if v := tr.Verdict; v.Action != filter.Pass || v.Reason.Finding.Category != "paused" {
		t.Errorf("during the pause, why decides %+v", v)
	}
	done()

	h.write("own.txt", "bet.example\nmore.example\n")
	if err := h.g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bet, more := h.status("http://bet.example/"), h.status("http://more.example/"); bet != 200 || more != 404 { // of the origin
		t.Errorf("after a reload during the pause: status %d and %d, want 200 and 404", bet, more)
	}
	h.restart()
	if s := h.status("http://bet.example/"); s != 200 {
		t.Errorf("after a restart during the pause: status %d, want 200", s)
	}
	set("", "0s", 0)
	if bet, rude := h.status("http://bet.example/"), h.status("http://rude.example/"); bet != 403 || rude != 403 {
		t.Errorf("after the pause: status %d and %d, want 403 for both", bet, rude)
	}

	set("127.0.0.0/8", "1h", 1)
	set("192.0.2.1", "1h", 2)
	if s := h.status("http://bet.example/"); s != 200 {
		t.Errorf("during a pause for the network: status %d, want 200", s)
	}
	set("127.0.0.0/8", "0s", 1)
	if s := h.status("http://bet.example/"); s != 403 {
		t.Errorf("after the pause for the network: status %d, want 403", s)
	}
	for who, long := range map[string]string{"nobody": "5m", "": "25h", "10.0.0.1": "0s", "10.0.0.0/8": "soon"} {
		if all, err := h.admin().Pause(t.Context(), who, long); err == nil {
			t.Errorf("pausing for %q, clients %q, was accepted: %+v", long, who, all)
		}
	}
}

func TestBrowserLetsFilteringRest(t *testing.T) {
	h := newHouse(t, map[string]string{"bet.example/": "bets"})
	status := func() int {
		t.Helper()
		code, _, err := get(through(h.g.ProxyAddr()), "http://bet.example/")
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	b := newBrowser(t, h.g.ProxyAddr(), "--proxy-bypass-list=<-loopback>;127.0.0.1")
	admin := "http://" + h.g.AdminAddr()
	b.open(admin + "/pause")
	b.shows("Filtering is on for everybody")
	b.picture("pause")
	b.change("button[value='5m']")
	b.shows("paused for everybody until")
	if left := b.script("return document.querySelector('.left').textContent"); left != "5m0s" && !strings.HasPrefix(left, "4m5") {
		t.Errorf("the page says that %q of the pause is left, want about five minutes", left)
	}
	b.picture("paused")
	if s := status(); s != 200 {
		t.Errorf("during the pause: status %d, want 200", s)
	}
	b.open(admin + "/lists")
	b.shows("paused for everybody until")
	b.open(admin + "/pause")
	b.change("button[value='0s']")
	b.shows("Filtering is on for everybody")
	if s := status(); s != 403 {
		t.Errorf("after the pause: status %d, want 403", s)
	}
}
