package policy

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shuultuur/filter"
	"shuultuur/policy/schedule"
	"shuultuur/state"
)

// A notebook is a Memory that forgets nothing.
type notebook map[[16]byte][]byte

func (n notebook) Get(_ context.Context, k [16]byte) ([]byte, bool) { v, ok := n[k]; return v, ok }
func (n notebook) Put(_ context.Context, k [16]byte, v []byte, _ time.Duration) {
	n[k] = append([]byte(nil), v...)
}

func learning(t *testing.T, m Memory, p *fake, rules ...Rule) *Engine {
	t.Helper()
	return newEngineOf(t, Config{
		{Name: "other", Users: []string{"other"}, Rules: rules, Learn: Learn{Duration(time.Hour)}},
		{Name: "p", Rules: rules, Learn: Learn{Duration(time.Hour)}},
	}, Parts{Memory: m, Revision: "1", Key: []byte("k")}, list(nil), p)
}

// etag returns a page with a validator.
func etag(tag string, more ...string) page {
	return page{path: "/a", response: append([]string{"Content-Type", "text/html", "ETag", tag}, more...)}
}

func TestALearnedBlockHoldsWhileThePageIsTheSame(t *testing.T) {
	m := notebook{}
	e := learning(t, m, phrases(99), words)
	first, s := etag(`"1"`).judge(t, e)
	if first.Verdict.Action != filter.Block || s != filter.ResponseBody || first.Verdict.Reason.Learned {
		t.Fatalf("first: %+v at %v, want a block by the body", first.Verdict, s)
	}
	next, s := etag(`"1"`).judge(t, e)
	want := first.Verdict
	want.Reason.Learned = true
	if d := cmp.Diff(want, next.Verdict); d != "" || s != filter.Response {
		t.Errorf("second request, at %v (-want +got):\n%s", s, d)
	}
	if n := len(next.Findings); n != 2 || next.Findings[0].Category != "learned" || next.Findings[1] != first.Findings[0] {
		t.Errorf("findings %v, want that it was learned, and %v", next.Findings, first.Findings)
	}
}

func TestALearnedBlockEndsWithThePageItWasFor(t *testing.T) {
	m := notebook{}
	bad := phrases(99)
	e := learning(t, m, bad, words)
	if first, _ := etag(`"1"`).judge(t, e); first.Verdict.Action != filter.Block {
		t.Fatalf("first request: got %+v, want block", first.Verdict)
	}
	bad.finds[filter.ResponseBody][0].Score = 1
	next, s := etag(`"2"`).judge(t, e)
	if next.Verdict.Action != filter.Pass || s != filter.ResponseBody || next.Verdict.Reason.Learned {
		t.Errorf("the page has changed: %+v at %v, want it judged anew", next.Verdict, s)
	}
}

func TestALearnedBlockKeepsItsModifier(t *testing.T) {
	ads := phrases(99)
	ads.finds[filter.ResponseBody][0].Modifier = "redirect=noopjs"
	e := learning(t, notebook{}, ads, words)
	first, _ := etag("1").judge(t, e)
	next, s := etag("1").judge(t, e)
	if s != filter.Response || next.Verdict.Reason.Finding != first.Verdict.Reason.Finding || next.Verdict.Reason.Finding.Modifier != "redirect=noopjs" {
		t.Errorf("at %v by %+v, want it learned as it was: %+v", s, next.Verdict.Reason.Finding, first.Verdict.Reason.Finding)
	}
}

func TestALearnedPassIsNotHeld(t *testing.T) {
	var asked []string
	p := phrases(10)
	p.asked = &asked
	e := learning(t, notebook{}, p, words)
	if tr, s := etag(`"1"`).judge(t, e); tr.Verdict.Action != filter.Pass || s != filter.ResponseBody {
		t.Fatalf("first request: got %+v at %v, want pass at the response's body", tr.Verdict, s)
	}
	asked = nil
	tr, s := etag(`"1"`).judge(t, e)
	if tr.Verdict.Action != filter.Pass || s != filter.Response || !tr.Verdict.Reason.Learned || len(asked) != 0 {
		t.Errorf("next: %+v at %v, checks %v; want a learned pass without a body", tr.Verdict, s, asked)
	}
	if len(tr.Findings) != 1 || tr.Findings[0].Category != "learned" {
		t.Errorf("findings %v, want it on record", tr.Findings)
	}
}

func TestVerdictsAreLearnedByPolicy(t *testing.T) {
	bare := page{path: "/a", response: []string{"Content-Type", "text/html"}}
	with := func(p page, change func(*page)) page { change(&p); return p }
	post := func(p *page) { p.method = "POST" }
	tests := map[string]struct {
		first, next page
		learned     bool
	}{
		"the same":                   {etag("1"), etag("1"), true},
		"another version":            {etag("1"), etag("2"), false},
		"another length":             {etag("1", "Content-Length", "5"), etag("1", "Content-Length", "6"), false},
		"another type":               {bare, with(bare, func(p *page) { p.response = []string{"Content-Type", "text/html; charset=x"} }), false},
		"no version to tell":         {bare, bare, true},
		"none before, one now":       {bare, etag("1"), false},
		"asks to be asked":           {with(bare, func(p *page) { p.response = append(p.response, "Cache-Control", "no-cache") }), with(bare, func(p *page) { p.response = append(p.response, "Cache-Control", "no-cache") }), false},
		"asks, but has a version":    {etag("1", "Cache-Control", "no-cache"), etag("1", "Cache-Control", "no-cache"), true},
		"another URL":                {etag("1"), with(etag("1"), func(p *page) { p.path = "/b" }), false},
		"another query":              {etag("1"), with(etag("1"), func(p *page) { p.path = "/a?x" }), false},
		"POST":                       {with(etag("1"), post), with(etag("1"), post), false},
		"GET, then POST":             {etag("1"), with(etag("1"), post), false},
		"the same cookie":            {with(etag("1"), func(p *page) { p.request = []string{"Cookie", "a"} }), with(etag("1"), func(p *page) { p.request = []string{"cookie", "a"} }), true},
		"another cookie":             {with(etag("1"), func(p *page) { p.request = []string{"Cookie", "a"} }), with(etag("1"), func(p *page) { p.request = []string{"Cookie", "b"} }), false},
		"a cookie, then none":        {with(etag("1"), func(p *page) { p.request = []string{"Cookie", "a"} }), etag("1"), false},
		"another authorization":      {with(etag("1"), func(p *page) { p.request = []string{"Authorization", "a"} }), etag("1"), false},
		"another user, same policy":  {etag("1"), with(etag("1"), func(p *page) { p.client.User = "anna" }), true},
		"another policy":             {etag("1"), with(etag("1"), func(p *page) { p.client.User = "other" }), false},
		"sets a cookie":              {etag("1", "Set-Cookie", "a=b"), etag("1", "Set-Cookie", "a=b"), false},
		"private":                    {etag("1", "Cache-Control", "max-age=1, private"), etag("1"), false},
		"no-store":                   {etag("1", "Cache-Control", "no-store"), etag("1"), false},
		"varies over everything":     {etag("1", "Vary", "*"), etag("1", "Vary", "*"), false},
		"varies over the language":   {etag("1", "Vary", "Accept-Encoding, Accept-Language"), etag("1"), false},
		"varies over the encoding":   {etag("1", "Vary", "Accept-Encoding"), etag("1", "Vary", "Accept-Encoding"), true},
		"an agent no rule asks for":  {etag("1"), with(etag("1"), func(p *page) { p.request = []string{"User-Agent", "x"} }), true},
		"an agent that a rule wants": {etag("1"), with(etag("1"), func(p *page) { p.request = []string{"User-Agent", "curl"} }), false},
		"outside a rule's schedule":  {with(etag("1"), func(p *page) { p.start = noon }), with(etag("1"), func(p *page) { p.start = noon.Add(time.Hour) }), true},
		"within a rule's schedule":   {with(etag("1"), func(p *page) { p.start = noon }), with(etag("1"), func(p *page) { p.start = noon.Add(9 * time.Hour) }), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := learning(t, notebook{}, phrases(10), words,
				Rule{Name: "curl", Action: "block", Category: cats("phrase"), Over: over(5), Agent: []string{"^curl2"}},
				Rule{Name: "agent", Action: "allow", Category: cats("phrase/banned"), Agent: []string{"^curl"}},
				Rule{Name: "night", Action: "allow", Category: cats("phrase/banned"), Schedule: schedule.Schedule{{Hours: "21:00-06:00", Zone: "UTC"}}})
			if test.first.start.IsZero() {
				test.first.start, test.next.start = noon, noon
			}
			test.first.judge(t, e)
			tr, s := test.next.judge(t, e)
			if got := s == filter.Response && tr.Verdict.Reason.Learned; got != test.learned {
				t.Errorf("verdict was learned: %v at %v, want %v", got, s, test.learned)
			}
		})
	}
}

func TestVerdictsThatAreNotLearned(t *testing.T) {
	broken := phrases(10)
	broken.err = map[filter.Stage]error{filter.ResponseBody: context.DeadlineExceeded}
	warn := Rule{Name: "w", Action: "warn", Category: cats("phrase"), Over: over(5)}
	tests := map[string]struct {
		p     *fake
		rules []Rule
		page  page
	}{
		"a warning":                {phrases(10), []Rule{warn}, etag("1")},
		"a check that failed":      {broken, []Rule{words}, etag("1")},
		"a pass nobody looked for": {phrases(10), []Rule{adult}, etag("1")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := notebook{}
			tr, _ := test.page.judge(t, learning(t, m, test.p, test.rules...))
			if len(m) != 0 {
				t.Errorf("the verdict %+v was learned, want it not kept", tr.Verdict)
			}
		})
	}
	t.Run("a warning clicked through", func(t *testing.T) {
		m := notebook{}
		e := learning(t, m, phrases(10), warn)
		tr, _ := etag("1").judge(t, e)
		p := etag("1")
		p.request = []string{"Cookie", "shuultuur=" + clicked(t, e, tr)}
		if tr, _ = p.judge(t, e); tr.Verdict.Action != filter.Pass || len(m) != 0 {
			t.Errorf("%+v, %d learned; want a pass that is not", tr.Verdict, len(m))
		}
	})
}

func TestEarlierRulesGoBeforeWhatWasLearned(t *testing.T) {
	m := notebook{}
	rules := []Rule{exe, words}
	e := learning(t, m, phrases(10), rules...)
	etag("1").judge(t, e)
	// The same page is now sent as a program.
	tr, s := etag("1", "Content-Disposition", "attachment; filename=a.exe").judge(t, e)
	if tr.Verdict.Reason.Rule != "exe" || s != filter.Response {
		t.Errorf("%+v at %v, want a block by exe", tr.Verdict, s)
	}
}

func TestForcedPoliciesDoNotUseWhatWasLearned(t *testing.T) {
	m := notebook{}
	e := learning(t, m, phrases(99), words)
	etag("1").judge(t, e)
	before := maps.Clone(m)
	d, err := e.As("p")
	if err != nil {
		t.Fatal(err)
	}
	tr, s := etag("1").judge(t, d)
	if tr.Verdict.Reason.Learned || s != filter.ResponseBody {
		t.Errorf("%+v at %v, want it worked out", tr.Verdict, s)
	}
	if d := cmp.Diff(before, m); d != "" {
		t.Error("memory (-before +after):\n" + d)
	}
}

func TestAnotherRevisionLearnsAnew(t *testing.T) {
	m := notebook{}
	etag("1").judge(t, learning(t, m, phrases(99), words))
	e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{words}, Learn: Learn{Duration(time.Hour)}}}, Parts{Memory: m, Revision: "2"}, list(nil), phrases(10))
	if tr, s := etag("1").judge(t, e); tr.Verdict.Action != filter.Pass || s != filter.ResponseBody {
		t.Errorf("%+v at %v, want the page looked at again", tr.Verdict, s)
	}
}

func TestLearnedVerdictsRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := state.New(state.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		e := learning(t, m, phrases(99), words)
		etag("1").judge(t, e)
		time.Sleep(59 * time.Minute)
		if _, s := etag("1").judge(t, e); s != filter.Response {
			t.Errorf("after 59 minutes judged at %v, want response", s)
		}
		time.Sleep(2 * time.Minute)
		if _, s := etag("1").judge(t, e); s != filter.ResponseBody {
			t.Errorf("after 61 minutes judged at %v, want response-body", s)
		}
	})
}

func FuzzLearned(f *testing.F) {
	l := learnedVerdict{action: filter.Block, validators: 7, rule: "words", finding: filter.Finding{Check: "phrase", Category: "phrase", Score: -5, Evidence: "w.list:7", Modifier: "redirect=noopjs"}}
	f.Add(l.append(nil))
	f.Add([]byte{learnedVersion, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := parseLearned(b)
		if err != nil {
			return
		}
		again, err := parseLearned(l.append(nil))
		if err != nil || again.rule != l.rule || again.action != l.action || again.validators != l.validators || again.finding.Score != l.finding.Score || again.finding.Modifier != l.finding.Modifier {
			t.Errorf("%+v became %+v in stored form and back, %v", l, again, err)
		}
	})
}
