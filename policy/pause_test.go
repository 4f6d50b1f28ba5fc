package policy

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shuultuur/filter"
	"shuultuur/state"
)

// resting returns an engine with rules for everything that a pause lifts and
// does not lift.
func resting(t testing.TB, pauses *Pauses, checks ...filter.Check) *Engine {
	t.Helper()
	certificate := &fake{name: "certificate", known: []filter.Category{{Name: "expired"}}, finds: map[filter.Stage][]filter.Finding{filter.Name: {{Check: "certificate", Category: "expired"}}}}
	return newEngineOf(t, Config{
		{Name: "bad certificates", Users: []string{"cert"}, Rules: []Rule{
			{Name: "adult", Action: "block", Category: []string{"adult"}},
			{Name: "old", Action: "block", Category: []string{"expired", "adult"}},
		}},
		{Name: "p", Users: []string{"anna", "ben"}, Rules: []Rule{
			{Name: "fine", Action: "allow", Host: []string{"fine.example"}},
			{Name: "ask", Action: "warn", Host: []string{"ask.example"}},
			{Name: "away", Action: "redirect", Host: []string{"away.example"}, To: "http://portal.example/"},
			{Name: "adult", Action: "block", Category: []string{"adult"}},
			{Name: "all the rest", Action: "allow"},
		}},
	}, Parts{Pauses: pauses, Key: []byte("k")}, list(map[filter.Stage][]string{filter.Name: {"adult"}}), certificate)
}

func TestAPauseLiftsWhatRulesRefuse(t *testing.T) {
	begin := time.Now()
	var pauses Pauses
	e := resting(t, &pauses)
	anna := filter.Client{Addr: netip.MustParseAddr("10.1.0.5"), User: "anna", Groups: []string{"kids"}}
	cert := anna
	cert.User = "cert"
	stranger := filter.Client{Addr: anna.Addr, User: "nobody"}
	for _, c := range []struct {
		who    string
		client filter.Client
		host   string
		after  time.Duration // of the pause's begin
		want   string
	}{
		{"-", anna, "x.example", 0, "block adult/adult 0s"},
		{"", anna, "x.example", 0, "allow all the rest/ 5m0s"},
		{"", anna, "ask.example", 0, "allow all the rest/ 5m0s"},
		{"", anna, "away.example", 0, "allow all the rest/ 5m0s"},
		{"", anna, "fine.example", 0, "allow fine/ 0s"},
		{"", anna, "x.example", 5*time.Minute - time.Millisecond, "allow all the rest/ 1ms"},
		{"", anna, "x.example", 5 * time.Minute, "block adult/adult 0s"},
		{"anna", anna, "x.example", 0, "allow all the rest/ 5m0s"},
		{"kids", anna, "x.example", 0, "allow all the rest/ 5m0s"},
		{"10.1.0.5", anna, "x.example", 0, "allow all the rest/ 5m0s"},
		{"10.1.0.0/16", anna, "x.example", 0, "allow all the rest/ 5m0s"},
		{"10.2.0.0/16", anna, "x.example", 0, "block adult/adult 0s"},
		{"ben", anna, "x.example", 0, "block adult/adult 0s"},
		{"", cert, "x.example", 0, "block old/adult 0s"}, // a rule about certificates holds although an earlier one is lifted
		{"", stranger, "x.example", 0, "block /uncovered 0s"},
	} {
		all := []Pause{{c.who, begin.Add(5 * time.Minute)}}
		if c.who == "-" {
			all = nil
		}
		pauses.Set(all)
		tr, _ := page{host: c.host, client: c.client, start: begin.Add(c.after), tunnel: true}.judge(t, e)
		v := tr.Verdict
		if got := fmt.Sprintf("%v %s/%s %v", v.Action, v.Reason.Rule, v.Reason.Finding.Category, v.After); got != c.want {
			t.Errorf("pause for %q, %s at %s after %v: %s, want %s", c.who, c.client.User, c.host, c.after, got, c.want)
		}
	}
}

func TestTheRecordMarksWhatAPauseLetsPass(t *testing.T) {
	begin := time.Date(2026, 1, 31, 12, 0, 0, 0, time.Local)
	var pauses Pauses
	pauses.Set([]Pause{{"", begin.Add(time.Minute)}})
	e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{{Name: "adult", Action: "block", Category: []string{"adult"}}}}}, Parts{Pauses: &pauses},
		list(map[filter.Stage][]string{filter.Name: {"adult"}}))
	tr, s := page{start: begin}.judge(t, e)
	f := filter.Finding{Check: "policy", Category: "paused", Evidence: `rule "adult" would block until 2026-01-31 12:01:00; adult.list:1`}
	want := filter.Verdict{Reason: filter.Reason{Policy: "p", Rule: "adult", Finding: f}, After: time.Minute, Patience: 300 * time.Millisecond}
	if d := cmp.Diff(want, tr.Verdict); d != "" {
		t.Errorf("stage %v (-want +got):\n%s", s, d)
	}
	if n := len(tr.Findings); n != 2 || tr.Findings[1] != f {
		t.Errorf("findings %v: want what was found, and once that it passes", tr.Findings)
	}
}

func TestNothingIsLearnedInAPause(t *testing.T) {
	var asked []string
	p := phrases(99)
	p.asked = &asked
	m := notebook{}
	var pauses Pauses
	e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{words}, Learn: Learn{Duration(time.Hour)}}}, Parts{Memory: m, Revision: "1", Key: []byte("k"), Pauses: &pauses}, list(nil), p)
	begin := time.Now()
	judge := func(rests bool) (filter.Action, int) {
		t.Helper()
		all := []Pause{{"", begin.Add(time.Minute)}}
		if !rests {
			all = nil
		}
		pauses.Set(all)
		x := etag(`"1"`)
		x.start = begin
		asked = nil
		tr, _ := x.judge(t, e)
		return tr.Verdict.Action, len(asked)
	}
	if a, n := judge(true); a != filter.Pass || n != 0 || len(m) != 0 {
		t.Errorf("in a pause: %v, %d checks of the page, %d learned; want it to pass unread", a, n, len(m))
	}
	if a, _ := judge(false); a != filter.Block || len(m) != 1 {
		t.Errorf("after the pause: got %v, %d learned verdicts, want block and 1", a, len(m))
	}
	if a, _ := judge(true); a != filter.Pass {
		t.Errorf("during a pause, with a learned block: got %v, want pass", a)
	}
	if a, n := judge(false); a != filter.Block || n != 0 {
		t.Errorf("after that: %v, %d checks; want what was learned before", a, n)
	}
}

func TestLimitsCountInAPause(t *testing.T) {
	s, err := state.New(state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var pauses Pauses
	e := newEngineOf(t, Config{{Name: "p", Limits: []Limit{{Requests: Rate{1, time.Minute}}}}}, Parts{Counter: s, Pauses: &pauses}, list(nil))
	pauses.Set([]Pause{{"", time.Now().Add(time.Minute)}})
	c := filter.Client{Addr: netip.MustParseAddr("10.1.0.5")}
	first, _ := page{client: c, start: time.Now()}.judge(t, e)
	next, _ := page{client: c, start: time.Now()}.judge(t, e)
	if first.Verdict.Action != filter.Pass || next.Verdict.Action != filter.Block || next.Verdict.Reason.Finding.Category != "limit" {
		t.Errorf("%v, then %v by %q: want the limit to stand", first.Verdict.Action, next.Verdict.Action, next.Verdict.Reason.Finding.Category)
	}
}

func TestLockedListsCountInAPause(t *testing.T) {
	var pauses Pauses
	pauses.Set([]Pause{{Until: time.Now().Add(time.Hour)}})
	pictures := &fake{name: "picture", known: []filter.Category{{Name: "picture/listed:law", Locked: true}, {Name: "picture/listed:own"}},
		finds: map[filter.Stage][]filter.Finding{filter.ResponseBody: nil}}
	for _, c := range []struct {
		found string
		want  filter.Action
	}{{"picture/listed:law", filter.Block}, {"picture/listed:own", filter.Pass}} {
		pictures.finds[filter.ResponseBody] = []filter.Finding{{Check: "picture", Category: c.found}}
		e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{{Name: "listed", Action: "block", Category: []string{"picture/listed:law", "picture/listed:own"}}}}}, Parts{Pauses: &pauses, Key: []byte("k")}, pictures)
		if x, _ := (page{}).judge(t, e); x.Verdict.Action != c.want {
			t.Errorf("%s during a pause: got %v, want %v (%v)", c.found, x.Verdict.Action, c.want, x.Findings)
		}
	}
}
