package resolver

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/dns"
)

// Record returns the transaction of an answered query, complete and with its own memory: it
// computes the values that were omitted for speed. If no policy was consulted (local names,
// other responders), it records the client and the question.
func (r *Resolver) Record(q *dns.Query, a *dns.Reply, judged *filter.Transaction) filter.Transaction {
	t := *judged
	whole := t.ID != "" && !t.Terse && !r.whole // from Refused: it has its evidence
	t.Terse = false
	if t.Host == "" && !whole {
		t = filter.Transaction{Start: q.At, Proto: filter.DNS, Type: q.Type, Flags: q.Flags, Last: filter.Name}
		t.Client = r.parts.Identify(q.Client.Addr(), q.ClientID)
		t.Host = string(dns.AppendHost(nil, q.Name))
	}
	t.Host, t.ID = strings.Clone(t.Host), strings.Clone(t.ID)
	if t.ID == "" {
		t.ID = r.ids.Next(q.At)
	}
	t.Findings = slices.Clone(t.Findings)
	if whole {
		t.Status = int(a.Rcode)
		return t
	}
	led := strings.Clone(t.Note)
	t.Note = ""
	// The verdict of a limit or a quota is complete already.
	short := t.Verdict.After > 0
	if (len(t.Findings) > 0 || short) && t.Verdict.Reason.Finding.Check != checkName && (!short || !t.Verdict.Final()) {
		r.explain(&t, led)
	}
	switch t.Verdict.Reason.Finding.Category {
	case "rebinding":
		r.describe(&t, "an address in the answer is one of a private network")
	case "canary":
		r.describe(&t, "a name by which browsers ask whether they may use DNS of their own")
	}
	t.Status = int(a.Rcode)
	return t
}

// explain judges t again, with evidence. led is the name or address in the answer that was
// refused, or passed only because of a pause; "" for the queried name.
func (r *Resolver) explain(t *filter.Transaction, led string) {
	x := *t
	x.Findings, x.Verdict = nil, filter.Verdict{}
	if led != "" {
		x.Asked, x.Host = t.Host, led
	}
	r.parts.Decider.Decide(context.Background(), &x, filter.Name)
	if x.Verdict.Action != t.Verdict.Action || x.Verdict.Reason.Rule != t.Verdict.Reason.Rule {
		return // the settings have changed in the meantime
	}
	t.Findings, t.Verdict = x.Findings, x.Verdict
	switch {
	case led == "":
	case t.Verdict.Final():
		t.Note = "refused for what the answer leads to: " + led
	default:
		t.Note = "would be refused for what the answer leads to: " + led
	}
}

// describe adds the text to a verdict of the resolver itself.
func (r *Resolver) describe(t *filter.Transaction, evidence string) {
	t.Verdict.Reason.Finding.Evidence = evidence
	for i := range t.Findings {
		if t.Findings[i].Check == checkName {
			t.Findings[i].Evidence = evidence
		}
	}
}

// As returns a resolver that treats every client as client, and gives reasons even for
// names that pass.
func (r *Resolver) As(client filter.Client) *Resolver {
	as := r.clone()
	as.whole = true
	as.parts.Identify = func(netip.Addr, string) filter.Client { return client }
	return as
}
