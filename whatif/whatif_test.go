package whatif

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shuultuur/filter"
)

// A fakeJudge decides by the host, and records what it was asked.
type fakeJudge struct {
	verdicts map[string]filter.Verdict
	asked    []string
}

func (d *fakeJudge) Wants(*filter.Transaction, filter.Stage) bool { return false }

func (d *fakeJudge) Decide(_ context.Context, t *filter.Transaction, s filter.Stage) {
	q := t.Proto.String() + " " + s.String() + " " + t.Start.UTC().Format("05.000") + " " + t.Client.Addr.String() + " " + t.Client.User + " " + t.Host
	if s >= filter.Request {
		q += " " + t.Request.Method + " " + t.URL + " " + string(t.Request.Path) + " " + string(t.Request.Get("Referer")) + " " + string(t.Request.Get("User-Agent"))
	}
	if s >= filter.Response {
		q += " " + string(t.Response.Get("Content-Type"))
	}
	d.asked = append(d.asked, q)
	t.Verdict = d.verdicts[t.Host]
	if t.Verdict.Reason.Policy == "" {
		t.Verdict.Reason.Policy = "pupils"
	}
}

func verdict(a filter.Action, rule, category string) filter.Verdict {
	return filter.Verdict{Action: a, Reason: filter.Reason{Policy: "pupils", Rule: rule, Finding: filter.Finding{Check: "category", Category: category}}}
}

func judgeOf(name string, d filter.Decider) Judge {
	return Judge{Name: name, Decider: d, Client: func(_ context.Context, e *Entry) filter.Client {
		return filter.Client{Addr: e.Client, User: e.User}
	}}
}

func TestEntriesAreJudgedByTheDataOfTheLog(t *testing.T) {
	d := &fakeJudge{}
	for _, name := range []string{"events.jsonl", "browser.har"} {
		s := &Source{Files: []string{"testdata/" + name}, Zone: time.UTC}
		w := Comparison{New: judgeOf("new", d), Old: &Judge{Name: "old", Decider: &fakeJudge{}, Client: judgeOf("", nil).Client}}
		if _, err := w.Run(t.Context(), s.Entries(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"http name 00.750 10.1.2.3 anna www.example.com",
		"http request 00.750 10.1.2.3 anna www.example.com GET http://www.example.com/ /  ",
		"http response 00.750 10.1.2.3 anna www.example.com GET http://www.example.com/ /   text/html",
		"http name 02.000 10.1.2.4  games.example",
		"http request 02.000 10.1.2.4  games.example GET http://games.example/play /play  ",
		"http name 03.000 10.1.2.4  page.example",
		"http request 03.000 10.1.2.4  page.example GET http://page.example/x /x  ",
		"tls name 04.000 10.1.2.5  bank.example",
		"dns name 05.000 10.1.2.5  www.example.org",
		"http name 07.000 10.1.2.5  www.example.org",
		"http request 07.000 10.1.2.5  www.example.org GET https://www.example.org/ /  ",
		"http name 00.000 invalid IP  www.example.com",
		"http request 00.000 invalid IP  www.example.com GET https://www.example.com/a /a http://r.example/ A",
		"http response 00.000 invalid IP  www.example.com GET https://www.example.com/a /a http://r.example/ A text/html",
		"http name 03.000 invalid IP  www.example.com",
		"http request 03.000 invalid IP  www.example.com POST http://www.example.com/p /p  ",
	}
	if diff := cmp.Diff(want, d.asked); diff != "" {
		t.Errorf("transactions that the judge saw (-want +got):\n%s", diff)
	}
}

func TestWhatIfReportAgainstTheLog(t *testing.T) {
	d := &fakeJudge{verdicts: map[string]filter.Verdict{
		"www.example.com": verdict(filter.Warn, "news", "news"),
		"bank.example":    verdict(filter.Allow, "banks", "banks"),
	}}
	s := &Source{Files: []string{"testdata/events.jsonl", "testdata/squid.log"}}
	w := Comparison{New: judgeOf("new.yaml", d)}
	r, err := w.Run(t.Context(), s.Entries(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	r.Input = s.Input()
	if r.Judged != 4 || r.Bodies != 1 || r.Unknown != 6 || r.Changed != 2 || r.OtherRule != 2 {
		t.Errorf("the report is %+v", r)
	}
	golden(t, "whatif.txt", r.Text)
	golden(t, "whatif.json", r.JSON)
}

// Squid's log says that a request was refused, but not why.
func TestRefusalsWithoutAReasonAreJudged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "squid.log")
	if err := os.WriteFile(file, []byte("1795420800.000 1 10.1.2.3 TCP_DENIED/403 10 GET http://bet.example/ - HIER_NONE/- text/html\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Source{Files: []string{file}}
	w := Comparison{New: judgeOf("new.yaml", &fakeJudge{}), Outcome: true}
	r, err := w.Run(t.Context(), s.Entries(t.Context()))
	if err != nil || r.Judged != 1 || r.Changed != 1 {
		t.Errorf("the report on a refusal by Squid is %+v, error %v; want one changed entry", r, err)
	}
}

func TestWhatIfReportAgainstOtherSettings(t *testing.T) {
	older := &fakeJudge{verdicts: map[string]filter.Verdict{
		"games.example": verdict(filter.Block, "fun", "games"),
		"a.example":     {Action: filter.Redirect, To: "http://one.example/"},
	}}
	newer := &fakeJudge{verdicts: map[string]filter.Verdict{
		"shop.example": verdict(filter.Block, "shops", "shops"),
		"a.example":    {Action: filter.Redirect, To: "http://two.example/"},
	}}
	entries := func(yield func(Entry, error) bool) {
		for i, host := range []string{"shop.example", "games.example", "a.example", "shop.example", "www.example", "shop.example", "shop.example"} {
			e := Entry{Method: "GET", Start: time.Unix(int64(i), 0)}
			if err := e.setURL("http://" + host + "/" + strings.Repeat("x", i%4)); err != nil {
				t.Error(err)
			}
			if !yield(e, nil) {
				return
			}
		}
	}
	old := judgeOf("old.yaml", older)
	w := Comparison{New: judgeOf("new.yaml", newer), Old: &old, Examples: 2}
	r, err := w.Run(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	want := []VerdictChange{
		{Policy: "pupils", Category: "shops", Rule: "shops", Was: "pass", Is: "block", Count: 4, Examples: []string{"http://shop.example/", "http://shop.example/xxx"}},
		{Policy: "pupils", Category: "games", Rule: "fun", Was: "block", Is: "pass", Count: 1, Examples: []string{"http://games.example/x"}},
	}
	if diff := cmp.Diff(want, r.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if r.OtherRule != 1 || r.Judged != 7 || r.Changed != 5 {
		t.Errorf("the report is %+v", r)
	}
	r.Input = Input{Files: []string{"access.log"}, Lines: 7, Requests: 7}
	golden(t, "against.txt", r.Text)
}

func TestKindsOfChangesAreBounded(t *testing.T) {
	changes := map[kind]*VerdictChange{}
	r := &Report{}
	e := &Entry{Host: "a.example"}
	for i := range maxKinds + 5 {
		r.note(changes, opinion{}, opinion{action: filter.Block, rule: strings.Repeat("x", i%100) + string(rune('a'+i/100))}, e, 3)
	}
	if len(changes) != maxKinds || r.Left != 5 {
		t.Errorf("%d kinds and %d left, want %d and 5", len(changes), r.Left, maxKinds)
	}
	if !slices.Equal(changes[kind{rule: "a", is: filter.Block}].Examples, []string{"a.example"}) {
		t.Error("the change lacks its example")
	}
}

// TestJudgesThatCountSeeTheEventsInTheirOrder: both judges do, and each goes by its own counts.
func TestJudgesThatCountSeeTheEventsInTheirOrder(t *testing.T) {
	const n = 5*pieceSize + 7
	start := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	entries := func(yield func(Entry, error) bool) {
		for i := range n {
			if !yield(Entry{Method: "GET", Host: "a.example", URL: "http://a.example/", Start: start.Add(time.Duration(i) * time.Second)}, nil) {
				return
			}
		}
	}
	counting := func(most int) Judge {
		used, last := 0, time.Time{}
		j := judgeOf("", &fakeJudge{verdicts: map[string]filter.Verdict{}})
		j.Begin = func(at time.Time) {
			if !at.After(last) {
				t.Errorf("the entry of %v came after that of %v", at, last)
			}
			last = at
		}
		j.End = func(_ context.Context, x *filter.Transaction) {
			if used++; used > most {
				x.Verdict = verdict(filter.Block, "quota", "")
			}
		}
		return j
	}
	plain := judgeOf("", &fakeJudge{verdicts: map[string]filter.Verdict{}})
	first, second := counting(1000), counting(1600)
	w := Comparison{Old: &first, New: second}
	r, err := w.Run(t.Context(), entries)
	if err != nil || r.Judged != n || r.Changed != 600 || w.Progress() != n {
		t.Errorf("%d judged, %d changed, %d in progress, %v; want %d, 600, %d", r.Judged, r.Changed, w.Progress(), err, n, n)
	}
	w = Comparison{Old: &plain, New: counting(1600)}
	if r, err := w.Run(t.Context(), entries); err != nil || r.Changed != n-1600 {
		t.Errorf("%d verdicts changed, error %v; want %d", r.Changed, err, n-1600)
	}
}
