package policy

import (
	"slices"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/metric/metrictest"
	"shuultuur/state"
)

// matches returns how often a monitoring rule has matched, by the metrics.
func matches(t *testing.T, m *Metrics) (n float64) {
	t.Helper()
	all, err := metrictest.Read(m)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range all {
		if strings.HasPrefix(name, "shuultuur_policy_monitored_total{") {
			n += v
		}
	}
	return n
}

func monitoredRules(t *filter.Transaction) string {
	var names []string
	for _, r := range t.Monitored {
		names = append(names, r.Rule+"("+r.Finding.Category+")")
	}
	return strings.Join(names, " ")
}

func TestMonitoringRulesRecordAndDecideNothing(t *testing.T) {
	over := 50
	watch := func(name, category string) Rule {
		return Rule{Name: name, Action: "monitor", Category: []string{category}}
	}
	for name, c := range map[string]struct {
		rules   []Rule
		checks  []filter.Check
		verdict string
		want    string
	}{
		"a match passes on to the next rule": {
			[]Rule{watch("new", "adult"), {Name: "block", Action: "block", Category: []string{"adult"}}},
			[]filter.Check{list(map[filter.Stage][]string{filter.Name: {"adult"}})}, "block block", "new(adult)"},
		"nothing else passes": {
			[]Rule{watch("new", "adult")},
			[]filter.Check{list(map[filter.Stage][]string{filter.Request: {"adult"}})}, "pass ", "new(adult)"},
		"no match is not recorded": {
			[]Rule{watch("new", "adult")},
			[]filter.Check{list(map[filter.Stage][]string{filter.Request: {"bank"}})}, "pass ", ""},
		"a rule behind the one that decides is not asked": {
			[]Rule{{Name: "banks", Action: "allow", Category: []string{"bank"}}, watch("new", "adult")},
			[]filter.Check{list(map[filter.Stage][]string{filter.Name: {"bank", "adult"}})}, "allow banks", ""},
		"the words of a page are read for it": {
			[]Rule{{Name: "words", Action: "monitor", Category: []string{"phrase/adult", "phrase"}, Over: &over}},
			[]filter.Check{list(nil), phrases(80)}, "pass ", "words(phrase)"},
		"a score below its limit does not match": {
			[]Rule{{Name: "words", Action: "monitor", Category: []string{"phrase"}, Over: &over}},
			[]filter.Check{list(nil), phrases(20)}, "pass ", ""},
		"two of them both record": {
			[]Rule{watch("one", "adult"), {Name: "two", Action: "monitor", Host: []string{"example.com"}}},
			[]filter.Check{list(map[filter.Stage][]string{filter.Name: {"adult"}})}, "pass ", "one(adult) two()"},
		"one that waits for words does not delay a block": {
			[]Rule{{Name: "words", Action: "monitor", Category: []string{"phrase"}, Over: &over}, {Name: "block", Action: "block", Category: []string{"adult"}}},
			[]filter.Check{list(map[filter.Stage][]string{filter.Name: {"adult"}}), phrases(80)}, "block block", ""},
		"one that waits for words does not delay an allow": {
			[]Rule{{Name: "words", Action: "monitor", Category: []string{"phrase"}, Over: &over}, {Name: "banks", Action: "allow", Category: []string{"bank"}}},
			[]filter.Check{list(map[filter.Stage][]string{filter.Name: {"bank"}}), phrases(80)}, "allow banks", ""},
	} {
		t.Run(name, func(t *testing.T) {
			metrics := NewMetrics()
			e := newEngineOf(t, Config{{Name: "p", Rules: c.rules}}, Parts{Metrics: metrics}, c.checks...)
			tr, _ := page{}.judge(t, e)
			if got := tr.Verdict.Action.String() + " " + tr.Verdict.Reason.Rule; got != c.verdict {
				t.Errorf("verdict is %q, want %q", got, c.verdict)
			}
			if got := monitoredRules(tr); got != c.want {
				t.Errorf("monitored rules are %q, want %q", got, c.want)
			}
			findings := 0
			for _, f := range tr.Findings {
				if f.Category == "monitored" && strings.HasPrefix(f.Evidence, "rule ") {
					findings++
				}
			}
			if n := matches(t, metrics); findings != len(tr.Monitored) || n != float64(len(tr.Monitored)) {
				t.Errorf("%d findings and a count of %g for %d matches", findings, n, len(tr.Monitored))
			}
		})
	}
}

func TestAMonitoredPageIsNotLearned(t *testing.T) {
	m, err := state.New(state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	over := 50
	rules := []Rule{{Name: "words", Action: "monitor", Category: []string{"phrase"}, Over: &over}, {Name: "block", Action: "block", Category: []string{"phrase/adult"}, Over: &over}}
	words := phrases(80)
	words.cost = filter.Heavy
	e := newEngineOf(t, Config{{Name: "p", Rules: rules, Learn: Learn{For: Duration(1e12)}}}, Parts{Memory: m}, list(nil), words)
	for range 3 {
		tr, stage := page{response: []string{"Content-Type", "text/html", "ETag", "x"}}.judge(t, e)
		if got := monitoredRules(tr); got != "words(phrase)" || stage != filter.ResponseBody {
			t.Errorf("monitored %q at %v, want words(phrase) at the body each time", got, stage)
		}
	}
}

func TestHeavyChecksAreAskedLast(t *testing.T) {
	var asked []string
	slow := list(map[filter.Stage][]string{filter.Name: {"bank"}})
	slow.name, slow.cost, slow.asked = "virus", filter.Heavy, &asked
	slow.finds[filter.Name][0].Check = "virus"
	quick := list(map[filter.Stage][]string{filter.Name: {"adult"}})
	quick.asked = &asked
	rules := []Rule{{Name: "slow", Action: "block", Category: []string{"virus/bank"}}, {Name: "block", Action: "block", Category: []string{"category/adult"}}}
	tr, _ := page{}.judge(t, newEngine(t, rules, slow, quick))
	if got := strings.Join(asked, " "); got != "category@name" || tr.Verdict.Reason.Rule != "block" {
		t.Errorf("asked %q, rule %q; want the cheap check alone to decide", got, tr.Verdict.Reason.Rule)
	}
	// The first rule allows because of a finding of the heavy check, so the check must run.
	asked = nil
	rules[0].Action = "allow"
	tr, _ = page{}.judge(t, newEngine(t, rules, slow, quick))
	if got := strings.Join(asked, " "); got != "category@name virus@name" || tr.Verdict.Reason.Rule != "slow" {
		t.Errorf("asked %q, rule %q; want both checks, and the first rule to decide", got, tr.Verdict.Reason.Rule)
	}
}

func TestRulesMayNameWhatWasNotInspected(t *testing.T) {
	rules := []Rule{{Name: "unread", Action: "block", Category: []string{"unread"}}}
	words := phrases(0)
	words.cost = filter.Heavy
	words.finds[filter.ResponseBody] = []filter.Finding{{Check: "phrase", Category: "unread", Evidence: "the first 2 MiB of 9 MiB"}}
	tr, _ := page{}.judge(t, newEngine(t, rules, list(nil), words))
	if tr.Verdict.Action != filter.Block {
		t.Errorf("%v, want block by what a check has not read", tr.Verdict.Action)
	}
	// The same from a server, with and without a check that wants bodies.
	for _, checks := range [][]filter.Check{{list(nil)}, {list(nil), phrases(0)}} {
		e := newEngine(t, rules, checks...)
		tr := &filter.Transaction{Host: "example.com", Last: filter.ResponseBody}
		tr.Findings = append(tr.Findings, filter.Finding{Check: filter.Content, Category: filter.Unread, Evidence: "no room"})
		e.Decide(t.Context(), tr, filter.ResponseBody)
		if v := tr.Verdict; v.Action != filter.Block {
			t.Errorf("%v, want block by what a server could not show", v.Action)
		}
	}
	// Reasons have names of their own, which "unread" covers.
	for _, c := range []struct {
		found string
		want  []string // words that match
	}{
		{filter.Unread, []string{"unread", "phrase/unread", "unread-other", "phrase/unread-other"}},
		{filter.UnreadLarge, []string{"unread", "phrase/unread", "unread-large", "phrase/unread-large"}},
		{filter.UnreadEncrypted, []string{"unread", "phrase/unread", "unread-encrypted"}},
		{filter.UnreadDamaged, []string{"unread", "phrase/unread", "unread-damaged"}},
		{filter.UnreadBomb, []string{"unread", "phrase/unread", "unread-bomb"}},
		{filter.UnreadArchive, []string{"unread-archive", "phrase/unread-archive"}},
	} {
		for _, word := range []string{"unread", "phrase/unread", "content/unread", "unread-other", "phrase/unread-other", "unread-large", "phrase/unread-large", "unread-encrypted", "unread-damaged", "unread-bomb", "unread-archive", "phrase/unread-archive"} {
			words.finds[filter.ResponseBody] = []filter.Finding{{Check: "phrase", Category: c.found}}
			tr, _ := page{}.judge(t, newEngine(t, []Rule{{Name: "r", Action: "block", Category: []string{word}}}, list(nil), words))
			if got := tr.Verdict.Action == filter.Block; got != slices.Contains(c.want, word) {
				t.Errorf("a rule about %s, and the finding %s: blocked %v", word, c.found, got)
			}
		}
	}
	for _, name := range []string{"content/unread", "phrase/unread"} {
		newEngine(t, []Rule{{Name: "unread", Action: "block", Category: []string{name}}}, list(nil), words)
	}
}
