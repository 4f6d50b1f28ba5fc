package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
)

// away is a check that asks other servers.
type away struct{ *fake }

func (away) Lifetime() (time.Duration, bool) { return time.Hour, true }

// TestAFailedCheckRefusesWhatItWouldHaveBeenAskedAbout: the failure of a check is no reason to let
// pass what its rules would have refused.
func TestAFailedCheckRefusesWhatItWouldHaveBeenAskedAbout(t *testing.T) {
	rule := func(name, action string, categories ...string) Rule {
		return Rule{Name: name, Action: action, Category: categories}
	}
	with := func(r Rule, change func(*Rule)) Rule {
		change(&r)
		return r
	}
	block := rule("bad", "block", "virus")
	redirect := with(rule("elsewhere", "redirect", "virus"), func(r *Rule) { r.To = "https://intranet.example/" })
	pass := func(r *Rule) { r.OnError = "pass" }
	for name, x := range map[string]struct {
		rules []Rule
		on    OnError // of the policy
		want  string
		// if they differ: for the error of a check that asks others, which may be away
		away string
	}{
		"a rule that blocks":                   {rules: []Rule{block}, want: "block bad", away: "pass "},
		"a rule that warns":                    {rules: []Rule{rule("w", "warn", "virus")}, want: "warn w", away: "pass "},
		"a rule that redirects":                {rules: []Rule{redirect}, want: "redirect elsewhere", away: "pass "},
		"a scored category":                    {rules: []Rule{with(rule("s", "block", "score"), func(r *Rule) { r.Over = over(50) })}, want: "block s", away: "pass "},
		"a rule that monitors":                 {rules: []Rule{rule("m", "monitor", "virus")}, want: "pass "},
		"a rule that allows":                   {rules: []Rule{rule("a", "allow", "virus")}, want: "pass "},
		"a rule about another check":           {rules: []Rule{with(block, func(r *Rule) { r.Category = cats("adult") })}, want: "pass "},
		"a rule for another host":              {rules: []Rule{with(block, func(r *Rule) { r.Host = cats("other.example") })}, want: "pass "},
		"a rule with a condition that fails":   {rules: []Rule{with(block, func(r *Rule) { r.Method = cats("POST") })}, want: "pass "},
		"an allowed host before it":            {rules: []Rule{{Name: "a", Action: "allow", Host: cats("example.com")}, block}, want: "allow a"},
		"an allowed host after it":             {rules: []Rule{block, {Name: "a", Action: "allow", Host: cats("example.com")}}, want: "block bad", away: "allow a"},
		"an allow unless something is found":   {rules: []Rule{{Name: "a", Action: "allow", Host: cats("example.com"), Unless: cats("virus")}, {Name: "rest", Action: "block"}}, want: "block rest", away: "allow a"},
		"on-error of the rule":                 {rules: []Rule{with(block, pass)}, want: "pass "},
		"on-error of the policy":               {rules: []Rule{block}, on: "pass", want: "pass "},
		"on-error of the rule over the policy": {rules: []Rule{with(block, func(r *Rule) { r.OnError = "refuse" })}, on: "pass", want: "block bad", away: "pass "},
		"on-error of one of two rules":         {rules: []Rule{with(block, pass), rule("w", "warn", "virus")}, want: "warn w", away: "pass "},
		"a named failure is allowed":           {rules: []Rule{block, rule("a", "allow", "virus-error")}, want: "allow a"},
		"a named failure is warned of":         {rules: []Rule{block, rule("w", "warn", "virus/virus-error")}, want: "warn w"},
		"a named failure is blocked":           {rules: []Rule{block, rule("closed", "block", "virus-error")}, want: "block closed"},
		"a failure named for another host":     {rules: []Rule{block, with(rule("a", "allow", "virus-error"), func(r *Rule) { r.Host = cats("other.example") })}, want: "block bad", away: "pass "},
		"a named failure is monitored":         {rules: []Rule{rule("m", "monitor", "virus-error"), block}, want: "block bad", away: "pass "},
		"unless the check failed":              {rules: []Rule{with(block, func(r *Rule) { r.Unless = cats("virus-error") })}, want: "pass "},
	} {
		for kind, fail := range map[string]func() filter.Check{
			"an error": func() filter.Check { return &fake{err: map[filter.Stage]error{filter.Request: errors.New("it broke")}} },
			"a panic":  func() filter.Check { return &fake{panics: true, wants: []filter.Stage{filter.Request}} },
			"an error of one that asks": func() filter.Check {
				return away{&fake{err: map[filter.Stage]error{filter.Request: errors.New("it broke")}}}
			},
			"a panic of one that asks others": func() filter.Check { return away{&fake{panics: true, wants: []filter.Stage{filter.Request}}} },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				c := fail()
				f, ok := c.(*fake)
				if !ok {
					f = c.(away).fake
				}
				f.name, f.known = "virus", []filter.Category{{Name: "virus"}, {Name: "score", Scored: true}}
				e := newEngineOf(t, Config{{Name: "p", Rules: x.rules, OnError: x.on}}, Parts{Log: slog.New(slog.DiscardHandler)}, c, list(nil))
				tr, _ := page{}.judge(t, e)
				want := x.want
				if kind == "an error of one that asks" && x.away != "" {
					want = x.away
				}
				if got := fmt.Sprintf("%v %s", tr.Verdict.Action, tr.Verdict.Reason.Rule); got != want {
					t.Fatalf("verdict is %q, want %q; findings %v", got, want, tr.Findings)
				}
				if tr.Verdict.Final() && tr.Verdict.Reason.Rule != "rest" {
					if r := tr.Verdict.Reason.Finding; r.Check != "virus" || r.Category != "virus-error" || !strings.Contains(r.Evidence, "it broke") {
						t.Errorf("the reason is %+v, want virus-error with what happened", r)
					}
				}
				some := false
				for _, f := range tr.Findings {
					some = some || f.Category == "virus-error"
				}
				if !some && !strings.Contains(name, "before it") && !strings.HasPrefix(name, "a rule about another check") && !strings.HasPrefix(name, "a rule for another") && !strings.HasPrefix(name, "a rule with a condition") {
					t.Errorf("findings %v, want virus-error", tr.Findings)
				}
			})
		}
	}
}

// halfway finds something and then panics.
type halfway struct{ *fake }

func (h halfway) Find(ctx context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	dst, _ = h.fake.Find(ctx, t, s, dst)
	panic("it broke")
}

func TestFindingsBeforeAPanicStay(t *testing.T) {
	f := &fake{name: "virus", known: []filter.Category{{Name: "virus"}, {Name: "other"}}, finds: map[filter.Stage][]filter.Finding{
		filter.Request: {{Check: "virus", Category: "other", Evidence: "a"}, {Check: "virus", Category: "virus", Evidence: "b"}},
	}}
	e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{{Name: "v", Action: "block", Category: cats("virus")}}}}, Parts{Log: slog.New(slog.DiscardHandler)}, halfway{f}, list(map[filter.Stage][]string{filter.Name: {"grey"}}))
	for range 2 {
		tr, _ := page{}.judge(t, e)
		got := ""
		for _, f := range tr.Findings {
			got += " " + f.Category
		}
		if want := " other virus virus-error"; got != want || tr.Verdict.Reason.Finding.Evidence != "b" {
			t.Errorf("findings are%s, want%s; the verdict is %+v, want the virus to be the reason", got, want, tr.Verdict)
		}
	}
}

func TestAnOnErrorThatMeansNothingIsRefused(t *testing.T) {
	for _, cfg := range []Config{
		{{Name: "p", OnError: "open"}},
		{{Name: "p", Rules: []Rule{{Name: "r", Action: "block", Category: cats("adult"), OnError: "open"}}}},
	} {
		if _, err := New(cfg, []filter.Check{list(nil)}, Parts{}); err == nil || !strings.Contains(err.Error(), `on-error: "open" is neither refuse nor pass`) {
			t.Errorf("New says %v, want that open is neither refuse nor pass", err)
		}
	}
}

func TestAFailingCheckIsAProblemForAWhile(t *testing.T) {
	f := &fake{name: "virus", known: []filter.Category{{Name: "virus"}}, panics: true, wants: []filter.Stage{filter.Request}}
	remote := away{&fake{name: "scanner", known: []filter.Category{{Name: "found"}}, err: map[filter.Stage]error{filter.Request: errors.New("away")}}}
	e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{{Name: "f", Action: "block", Category: cats("found")}, {Name: "v", Action: "block", Category: cats("virus")}}}},
		Parts{Log: slog.New(slog.DiscardHandler)}, remote, f)
	if p := e.Problems(); len(p) != 0 {
		t.Errorf("problems before any failure: %q", p)
	}
	page{}.judge(t, e)
	page{}.judge(t, e)
	p := e.Problems()
	if len(p) != 2 || !strings.Contains(p[0], "check scanner has failed 2 times") || !strings.Contains(p[1], "check virus has failed 2 times") {
		t.Fatalf("problems are %q, want both checks", p)
	}
	remote.err[filter.Request] = nil
	remote.wants = []filter.Stage{filter.Request}
	page{}.judge(t, e)
	if p := e.Problems(); len(p) != 1 || !strings.Contains(p[0], "check virus has failed 3 times") {
		t.Errorf("problems are %q, want only the check that does not ask others", p)
	}
}

// endless reads until its time is over.
type endless struct{ *fake }

func (endless) Find(ctx context.Context, _ *filter.Transaction, _ filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	<-ctx.Done()
	return dst, ctx.Err()
}

func TestABodyWhoseJudgementWasEndedIsUnread(t *testing.T) {
	for name, x := range map[string]struct {
		rules []Rule
		want  string
	}{
		"no rule about unread bodies": {[]Rule{words}, "pass "},
		"a rule about unread bodies":  {[]Rule{words, {Name: "u", Action: "block", Category: cats("unread")}}, "block u"},
		"one for the check":           {[]Rule{words, {Name: "u", Action: "block", Category: cats("phrase/unread")}}, "block u"},
		"one for a later check":       {[]Rule{words, {Name: "l", Action: "block", Category: cats("late")}, {Name: "u", Action: "block", Category: cats("later/unread")}}, "block u"},
		"a rule about failures":       {[]Rule{words, {Name: "f", Action: "block", Category: cats("phrase-error")}}, "pass "},
	} {
		t.Run(name, func(t *testing.T) {
			p := phrases(99)
			p.cost = filter.Heavy
			late := &fake{name: "later", cost: filter.Heavy, known: []filter.Category{{Name: "late"}}, wants: []filter.Stage{filter.ResponseBody}}
			e := newEngineOf(t, Config{{Name: "p", Rules: x.rules}}, Parts{Log: slog.New(slog.DiscardHandler)}, endless{p}, late)
			tr, _ := page{}.judge(t, newEngine(t, nil))
			tr.Last, tr.Verdict = filter.ResponseBody, filter.Verdict{}
			tr.Body = new(content.Body)
			tr.Body.Reset(tr.Content(), content.Limits{})
			defer tr.Body.Release()
			tr.Body.Append([]byte("<p>a page"))
			tr.Body.Finish()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			e.Decide(ctx, tr, filter.ResponseBody)
			v := tr.Verdict
			if got := fmt.Sprintf("%v %s", v.Action, v.Reason.Rule); got != x.want {
				t.Errorf("verdict is %q, want %q; findings %v", got, x.want, tr.Findings)
			}
			if tr.Body.Unread() != content.TookTooLong || len(e.Problems()) != 0 {
				t.Errorf("the body is unread because of %q and the problems are %q; want it to have taken too long, and no check to have failed", tr.Body.Unread(), e.Problems())
			}
		})
	}
}
