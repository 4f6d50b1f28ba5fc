package resolver

import (
	"context"
	"net/netip"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
)

// TestAQueryWaitsForTheGroupsOfItsClient: while they are not known, the query waits where it
// may, and is judged and counted once, with the groups that came.
func TestAQueryWaitsForTheGroupsOfItsClient(t *testing.T) {
	var counted, awaited int
	var judged []filter.Client
	j := &judge{}
	x := newRig(t, Config{}, Parts{Count: func(*filter.Transaction) { counted++ }}, j, map[string][]string{"a.example. A": {"a.example. 60 IN A 192.0.2.9"}})
	x.r.parts.Decider = deciderFunc(func(c *filter.Transaction) { judged = append(judged, c.Client) })
	known := false
	x.r.parts.Identify = func(a netip.Addr, _ string) filter.Client {
		return filter.Client{Addr: a, User: "anna", Unknown: !known}
	}
	x.r.parts.Await = func(_ context.Context, a netip.Addr, _ string) filter.Client {
		awaited++
		return filter.Client{Addr: a, User: "anna", Groups: []string{"pupils"}}
	}
	if _, _, waited := x.ask("a.example", miekg.TypeA); !waited || awaited == 0 || counted != 1 {
		t.Errorf("the first query waited: %v, asked for groups %d times, counted %d times; want true, some, 1", waited, awaited, counted)
	}
	for _, c := range judged {
		if len(c.Groups) == 0 {
			t.Errorf("judged as %+v, without groups", c)
		}
	}
	awaited, known = 0, true
	if _, _, waited := x.ask("a.example", miekg.TypeA); waited || awaited > 0 || counted != 2 {
		t.Errorf("a query of a known client waited: %v, asked for groups %d times, counted %d in all; want false, 0, 2", waited, awaited, counted)
	}
	known, x.r.parts.Await = false, nil
	q, a := query(t, "a.example", miekg.TypeA, x.now), &reply{}
	a.Start(q, make([]byte, 0, 1232), 1200)
	if out := x.r.Answer(q, &a.Reply, &a.T); out != dns.Answered {
		t.Errorf("without anybody to wait for, the outcome is %d", out)
	}
}

// deciderFunc passes everything and shows what it was asked.
type deciderFunc func(*filter.Transaction)

func (deciderFunc) Wants(*filter.Transaction, filter.Stage) bool { return false }
func (f deciderFunc) Decide(_ context.Context, t *filter.Transaction, _ filter.Stage) {
	f(t)
}
