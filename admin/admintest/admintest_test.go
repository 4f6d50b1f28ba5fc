//go:build !small

package admintest

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/event"
)

// Tests of the pages believe the house, so it has to keep what it promises: an account of each
// role, a record that is filtered and read in pages, and a word about each change.
func TestAHouseAnswersEachRole(t *testing.T) {
	h := NewHouse(t)
	h.Exchanges(t, []Exchange{
		{As: account.Owner, Method: "GET", Path: "/events?filter=user:anna", Status: 200, Says: "anna-1"},
		{As: account.Owner, Method: "GET", Path: "/metrics", Status: 200, Says: "metric 1"},
		{As: account.Owner, Method: "GET", Path: "/", Page: true, Status: 200, Says: "<html"},
		{As: account.Helper, Method: "POST", Path: "/settings", Form: "text=x", Status: 403},
	})
	before := Entries(t, h)
	if w := h.Ask(account.Owner, "POST", "/pause", "who=anna&for=5m"); w.Code >= 300 && w.Code != 303 || len(h.Paused) != 1 {
		t.Errorf("a pause: status %d, paused %q\n%s", w.Code, h.Paused, w.Body)
	}
	if Entries(t, h) == before {
		t.Error("the change is not in the audit log")
	}
	if len(h.Looks()) != 0 {
		t.Errorf("somebody wants to look: %v", h.Looks())
	}
	if len(Table(h.Parts)) < 50 {
		t.Errorf("%d routes", len(Table(h.Parts)))
	}
	for _, r := range Table(h.Parts) {
		if target := Target(r); strings.ContainsAny(target, "{}") {
			t.Errorf("%s has the target %s", r.Path, target)
		}
	}
}

func TestAWatchedHouseTellsOfChanges(t *testing.T) {
	h := NewHouse(t)
	var did []string
	h.Watch(t, func(what string) { did = append(did, what) })
	h.Ask(account.Owner, "POST", "/pause", "who=anna&for=5m")
	if strings.Join(did, " ") != "pause" {
		t.Errorf("a pause did %q", did)
	}
	h.Exchanges(t, []Exchange{
		{As: account.Owner, Method: "GET", Path: "/settings", Status: 200, Says: "policies:"},
		{As: account.Owner, Method: "GET", Path: "/settings/versions/", Status: 404},
	})
}

// TestEachPageOfAHouseIsFilled: with what the house has, for whom may see it.
func TestEachPageOfAHouseIsFilled(t *testing.T) {
	h := NewHouse(t)
	h.Exchanges(t, []Exchange{
		{As: account.Owner, Method: "GET", Path: "/clients/one?who=10.0.0.1", Status: 200, Says: "anna"},
		{As: account.Helper, Method: "GET", Path: "/clients/one?who=ben", Status: 403},
		{As: account.Owner, Method: "POST", Path: "/bonus", Form: "who=anna&minutes=15", Status: 200},
		{As: account.Owner, Method: "GET", Path: "/names", Status: 200, Says: "up.example"},
		{As: account.Owner, Method: "GET", Path: "/names?name=a.example&type=AAAA", Status: 200, Says: "a.example AAAA"},
		{As: account.Owner, Method: "GET", Path: "/system/backup", Status: 200, Says: "backup"},
		{As: account.Owner, Method: "GET", Path: "/policies", Status: 200, Says: "pupils"},
	})
	if strings.Join(h.Given, "|") != "anna15" {
		t.Errorf("a bonus gave %q", h.Given)
	}
}

// TestPaperKeepsWhatWasSaved: as the settings of a gateway, by the tag of what is in use.
func TestPaperKeepsWhatWasSaved(t *testing.T) {
	paper := &Paper{Text: HouseSettings}
	parts := paper.Parts(t)
	users, groups := paper.Known()
	if len(users["anna"]) != 1 || len(groups["7a"]) != 1 {
		t.Errorf("people %v, groups %v", users, groups)
	}
	if err := parts.Check(t.Context(), []byte("a mistake")); err == nil {
		t.Error("a mistake is none")
	}
	old := web.Tag(parts.InUse())
	for _, c := range []struct {
		text string
		want error
	}{{"a: 2\n", nil}, {"a: 3\n", web.ErrChanged}} {
		if _, err := parts.Save(t.Context(), []byte(c.text), old, "anna", "a reason"); !errors.Is(err, c.want) {
			t.Errorf("saving %q: %v, want %v", c.text, err, c.want)
		}
	}
	if now, err := parts.Read(); err != nil || string(now) != "a: 2\n" || string(parts.InUse()) != "a: 2\n" || paper.Reason != "a reason" {
		t.Errorf("the settings are %q (%v), in use %q, for %q", now, err, parts.InUse(), paper.Reason)
	}
	if effect, err := PaperEffect(t.Context(), web.Trial{}); err != nil || effect.Changed > effect.Judged {
		t.Errorf("the effect is %+v, %v", effect, err)
	}
}

func TestAHandlerOfNobodyIsReadyOrNot(t *testing.T) {
	for ready, status := range map[bool]int{true: 200, false: 503} {
		if w := Ask(Handler(ready), "GET", "/ready", "text/plain", ""); w.Code != status {
			t.Errorf("ready %v: status %d", ready, w.Code)
		}
	}
	if !Nobody().Health().Ready {
		t.Error("nobody is not ready")
	}
}

func TestRecordsOfTestsAreFilteredAndReadInPages(t *testing.T) {
	now := time.Now()
	g := new(Growing)
	var m Memory
	for i, user := range []string{"anna", "ben", "anna", "anna"} {
		r := event.Row{Time: now.Add(time.Duration(i-10) * time.Minute), User: user, Client: netip.MustParseAddr("10.0.0.1")}
		g.Add(r)
		m = append(m, r)
	}
	f, err := event.ParseFilter("user:anna", now)
	if err != nil {
		t.Fatal(err)
	}
	read := func(r event.Reader, p event.Page) (n int) {
		for _, err := range r.Query(t.Context(), f, p) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	for what, tt := range map[string]struct {
		r    event.Reader
		p    event.Page
		want int
	}{
		"all":           {g, event.Page{}, 3},
		"two":           {g, event.Page{Limit: 2}, 2},
		"after the 1st": {g, event.Page{After: 1}, 2},
		"newest":        {g, event.Page{Newest: true, After: 4}, 2},
		"in memory":     {m, event.Page{}, 3},
		"the first":     {m, event.Page{Limit: 1}, 1},
		"whatever":      {&Fake{Rows: m}, event.Page{}, 4},
	} {
		if got := read(tt.r, tt.p); got != tt.want {
			t.Errorf("%s: %d rows, want %d", what, got, tt.want)
		}
	}
	q := event.Question{By: event.User, Top: 5}
	counts, err := m.Count(t.Context(), q)
	if err != nil || len(counts) != 1 || len(counts[0]) != 2 || counts[0][0].Name != "anna" || counts[0][0].Events != 3 {
		t.Errorf("counts %+v, %v", counts, err)
	}
	if fake, err := (&Fake{Name: "x"}).Count(t.Context(), q, q); err != nil || len(fake) != 2 || fake[1][0].Name != "x" {
		t.Errorf("fake counts %+v, %v", fake, err)
	}
	if a := ZoneOf(t, "a.example", FirstZone)(); a == nil {
		t.Error("there is no zone")
	}
}
