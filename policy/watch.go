package policy

import (
	"context"

	"shuultuur/filter"
)

// Watch rules ([Parts.Watch]) precede all others and only record. They see more than
// monitoring rules, because their purpose does not end where a page is blocked or a site
// allowed. The checks that they name run even where another rule has decided, and search terms
// are examined even on a site that is allowed by its name. Pages of such a site are not read,
// and nothing is decrypted for them.

// markWatchRules marks the rules so far as watch rules.
func (p *policy) markWatchRules() {
	p.watches = len(p.rules)
	for _, r := range p.rules {
		p.seeks |= r.finds | r.unless
	}
}

// awaits reports whether a watch rule has to see the request before a rule may allow the host,
// after which no request is judged.
func awaits(w *walk, i int) bool {
	return i < w.p.watches && w.t.Proto == filter.HTTP && w.stage < filter.Request && w.p.rules[i].needsRequest
}

// watch runs a check although a rule has decided.
func watch(ctx context.Context, w *walk, i int) {
	if bit := uint64(1) << i; w.p.seeks&bit == 0 || w.ran&bit != 0 || !w.e.wants(i, w.t, w.stage) {
		return
	}
	if w.e.find(ctx, w.t, w.stage, i) {
		w.count()
	}
}
