package policy

import (
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"time"

	"shuultuur/filter"
)

// policyForUnknown returns the policy for a client whose groups or name cannot be had now: one that
// is for such clients, else the strictest of those that may be the client's, nil for none. They end
// with the first that is the client's whatever its groups are.
func (e *Engine) policyForUnknown(set []uint64, c *filter.Client, now time.Time) (strictest *policy) {
	open := true // no policy so far covers the client for sure
	for word, b := range set {
		for ; b != 0; b &= b - 1 {
			p := e.policies[word<<6+bits.TrailingZeros64(b)]
			switch sure := p.covers(c, now); {
			case p.unknown && p.mayCover(c, now):
				return p
			case open && (sure || p.groups != nil && p.mayCover(c, now) || c.User == "" && p.users != nil && (p.when == nil || p.when.Open(now))):
				if strictest == nil && sure {
					return p
				}
				if open = !sure; strictest == nil || slices.Compare(p.severity, strictest.severity) > 0 {
					strictest = p
				}
			}
		}
	}
	return strictest
}

// mayCover is covers without the groups.
func (p *policy) mayCover(c *filter.Client, now time.Time) bool {
	if _, ok := p.users[strings.ToLower(c.User)]; p.users != nil && !ok {
		return false
	}
	return p.when == nil || p.when.Open(now)
}

// severityOf returns how much a policy refuses, to be compared with that of others: one that
// refuses whatever it does not allow is stricter than one that refuses what it names; then the
// one that names more, and the one with fewer rules that allow.
func severityOf(s *Policy) []int {
	closed, refused, allowed := 0, 0, 0
	for _, r := range on(s.Rules) {
		switch r.Action {
		case "allow":
			allowed++
			continue
		case "monitor":
			continue
		}
		refused += max(1, len(r.Category)+len(r.Service)+len(r.Host)+len(r.URL))
		r.Name, r.From, r.Action, r.To, r.Text, r.WarnFor, r.Conversation = "", "", "", "", "", 0, ""
		r.OnError, r.Answer = *new(OnError), *new(filter.Answer)
		if slices.Equal(r.Host, []string{"*"}) {
			r.Host = nil
		}
		if reflect.ValueOf(r).IsZero() {
			closed = 1
		}
	}
	return []int{closed, refused, -allowed}
}
