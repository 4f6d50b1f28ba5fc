package policy

import (
	"context"

	"shuultuur/filter"
)

// Rules that watch ([Parts.Watch]) stand in front of all others and only
// record. They see more than rules that monitor, because what they are for does
// not end where a page is blocked or a site is allowed: the checks that they ask
// run where another rule has decided already, and what is searched for on a site
// that is allowed by its name is looked at first. Pages of such a site are not
// read, and nothing is decrypted for them.

// watched is what a policy watches.
type watched struct {
	watches int    // the first rules of the policy
	seeks   uint64 // the checks that could find their categories
}

// watching says that the rules so far are those that watch.
func (p *policy) watching() {
	p.watches = len(p.rules)
	for _, r := range p.rules {
		p.seeks |= r.finds | r.unless
	}
}

// watch gives a check its turn though a rule has decided.
func watch(ctx context.Context, w *walk, i int) {
	if bit := uint64(1) << i; w.p.seeks&bit == 0 || w.ran&bit != 0 || !w.e.wants(i, w.t, w.stage) {
		return
	}
	if w.e.find(ctx, w.t, w.stage, i) {
		w.count()
	}
}

// awaits says whether a rule that watches has to see the request before a rule
// may allow the host, after which no request is judged.
func awaits(w *walk, i int) bool {
	return i < w.p.watches && w.t.Proto == filter.HTTP && w.stage < filter.Request && w.p.rules[i].needsRequest
}
