package policy

import (
	"context"
	"fmt"
	"time"

	"shuultuur/filter"
	"shuultuur/state"
)

// Balance returns the remainders of a client's quotas in a policy. The policy is the one
// called name, or for "" the one that covers the client. It returns the policy's name, "" if
// there is none.
func (e *Engine) Balance(ctx context.Context, name string, c *filter.Client, now time.Time) (covers string, left []filter.Balance) {
	p := e.policyNamed(name)
	if name == "" {
		p = e.policyFor(c, now)
	}
	if p == nil {
		return "", nil
	}
	if e.counter == nil || len(p.quotas) == 0 {
		return p.name, nil
	}
	d, t := e.dayOf(now), &filter.Transaction{Client: *c}
	silent := e.silent(p, t, d, &scratch{})
	counts := make([]state.Count, len(p.quotas))
	for i := range p.quotas {
		l := &p.quotas[i]
		counts[i] = l.readCount(t, d)
	}
	e.counter.Count(ctx, counts)
	extra := e.decided.minutes(c, now)
	for i := range p.quotas {
		l, n := &p.quotas[i], &counts[i]
		b := filter.Balance{Of: l.of, By: l.by, Unit: "bytes", Most: l.most, Used: n.Sum, Known: n.Known, Until: d.end}
		if l.minutes {
			b.Unit, b.Most = "minutes", l.most+extra
			b.Names = l.queries || l.unsaid && silent
		}
		b.Left = max(b.Most-b.Used, 0)
		b.Text = fmt.Sprintf("%s left of %s", l.amount(b.Left), l.amount(b.Most))
		left = append(left, b)
	}
	return p.name, left
}
