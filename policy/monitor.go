package policy

import (
	"fmt"
	"math/bits"
	"slices"

	"shuultuur/filter"
)

// A rule with the action monitor records that it matches and decides nothing: the next rules
// are consulted as if it did not exist. So a new list can be tried before it blocks. A
// transaction counts once for each such rule, as soon as the match is certain, but not for
// rules after the one that decides. Verdicts on pages whose content matched a monitoring rule
// are not learned, so that the next request counts too.

// monitored reports whether the transaction has counted for a monitoring rule.
func (p *policy) monitored(t *filter.Transaction, r *rule) bool {
	for i := range t.Monitored {
		if m := &t.Monitored[i]; m.Rule == r.name && m.Policy == p.name {
			return true
		}
	}
	return false
}

// monitoredContent reports whether a monitoring rule matched by a finding of a
// heavy check, which a learned verdict would not find again.
func (p *policy) monitoredContent(t *filter.Transaction, heavy uint64) bool {
	if len(t.Monitored) == 0 {
		return false
	}
	return slices.ContainsFunc(p.rules, func(r *rule) bool {
		return r.monitors && r.finds&heavy != 0 && p.monitored(t, r)
	})
}

// monitor records the monitoring rules that match and precede the rule that
// decides, nil for none.
func (w *walk) monitor(decides *rule) {
	for word, b := range w.p.monitors {
		for ; b != 0; b &= b - 1 {
			i := word<<6 + bits.TrailingZeros64(b)
			r := w.p.rules[i]
			if decides != nil && i > slices.Index(w.p.rules, decides) {
				return
			}
			if w.ruleMatches(i) == yes && !w.p.monitored(w.t, r) {
				w.record(r)
			}
		}
	}
}

// record counts the transaction for a monitoring rule, and adds a finding, which
// the event keeps and "why" prints.
func (w *walk) record(r *rule) {
	reason := w.reason(r)
	w.t.Monitored = append(w.t.Monitored, filter.Reason{Policy: w.p.name, Rule: r.name, Finding: reason})
	f := filter.Finding{Check: "policy", Category: "monitored"}
	if !w.t.Terse {
		f.Evidence = fmt.Sprintf("rule %q matches", r.name)
		if reason.Category != "" {
			f.Evidence += fmt.Sprintf(": %s/%s", reason.Check, reason.Category)
		}
		if reason.Score != 0 {
			f.Evidence += fmt.Sprintf(" %d", reason.Score)
		}
		if reason.Evidence != "" {
			f.Evidence += "; " + reason.Evidence
		}
	}
	w.t.Findings = append(w.t.Findings, f)
	if r.count != nil && w.e.forced == nil {
		r.count.Inc()
	}
}
