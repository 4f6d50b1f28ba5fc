package state

import (
	"context"
	"time"
)

// A PastUse counts the use of quotas by recorded transactions, by the time of each. The zero value
// is ready. It is for one goroutine at a time, which sets Now before each transaction, in their
// order.
type PastUse struct {
	Now      time.Time
	counters counters
}

// Count carries out all counts or none.
func (p *PastUse) Count(_ context.Context, counts []Count) { p.counters.take(p.Now, counts) }

// CountHere is Count.
func (p *PastUse) CountHere(counts []Count) { p.counters.take(p.Now, counts) }
