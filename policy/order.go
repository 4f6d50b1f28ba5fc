package policy

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"shuultuur/filter"
)

// An Order is two rules of a policy whose order cannot hold: Later refuses requests that have an
// effect at the origin, and Earlier could only match by their response, which there is not yet.
type Order struct{ Policy, Earlier, Later string }

func (o Order) String() string {
	return fmt.Sprintf("rule %q of policy %q decides before rule %q above it: a request with a body, or with a method that changes something, is refused before it is sent, and what the rule above asks for comes with the response",
		o.Later, o.Policy, o.Earlier)
}

// Unheld returns the orders of rules that never hold. An order that holds for pages, and not for
// uploads, is none of them.
func (e *Engine) Unheld(cfg Config) (all []Order) {
	for i := range cfg {
		p := e.policyNamed(cfg[i].Name)
		rules := p.rules[p.watches:]
		written := on(cfg[i].Rules)
		for j := range written {
			later := rules[j]
			if later.action < filter.Warn || !later.onlyIrrevocable() {
				continue
			}
			for k := range j {
				if r := rules[k]; !r.monitors && (r.action != filter.Block || r.show != filter.Nothing) && e.needsResponse(r) && meet(&written[k], &written[j]) {
					all = append(all, Order{p.name, r.name, later.name})
				}
			}
		}
	}
	return all
}

// onlyIrrevocable reports whether the rule matches only requests with a body or a method that changes
// something.
func (r *rule) onlyIrrevocable() bool {
	return r.sent != nil || r.methods.Unsafe()
}

// needsResponse reports whether the rule is certain to match by the response alone.
func (e *Engine) needsResponse(r *rule) bool {
	return r.types != nil || r.show != filter.Nothing ||
		r.found && r.finds != 0 && !e.speak(r.finds, filter.Name, filter.RequestBody) ||
		e.speak(r.unless, filter.Response, filter.ResponseBody)
}

// speak reports whether one of the checks may find something from one stage to another.
func (e *Engine) speak(checks uint64, from, to filter.Stage) bool {
	t := &filter.Transaction{Host: "example.com", URL: "http://example.com/", Last: filter.ResponseBody}
	for b := checks; b != 0; b &= b - 1 {
		for s := from; s <= to; s++ {
			if e.wants(bits.TrailingZeros64(b), t, s) {
				return true
			}
		}
	}
	return false
}

// meet reports whether two rules may match the same request, by host and method.
func meet(a, b *Rule) bool {
	some := func(as, bs []string, same func(a, b string) bool) bool {
		return len(as) == 0 || len(bs) == 0 || slices.ContainsFunc(as, func(a string) bool {
			return slices.ContainsFunc(bs, func(b string) bool { return same(a, b) })
		})
	}
	below := func(a, b string) bool { return a == b || strings.HasSuffix(a, "."+b) }
	return some(a.Method, b.Method, func(a, b string) bool { return a == b || strings.HasPrefix(a, "!") || strings.HasPrefix(b, "!") }) &&
		some(a.Host, b.Host, func(a, b string) bool { return a == "*" || b == "*" || below(a, b) || below(b, a) })
}
