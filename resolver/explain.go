package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
)

// ErrOffline is the error of a store without upstreams.
var ErrOffline = errors.New("no upstream is asked")

// Offline is the upstream of a store without upstreams.
func Offline(context.Context, []byte, uint16, uint16, bool, bool) ([]byte, uint16, error) {
	return nil, 0, ErrOffline
}

// An Explanation describes the answer that the name server would give.
type Explanation struct {
	Transaction filter.Transaction
	Rcode       string
	Records     []string // of the answer, as in a zone file
	Error       string   // the Extended DNS Error, "" when there is none
	// Upstream reports that upstreams would be queried and their answer judged: Rcode and
	// Records are empty.
	Upstream bool
	// Upstreams are those that would be queried; none if the name does not exist for lack of them.
	Upstreams []string
	// DNS64 describes the change to their answer, or is "".
	DNS64 string
	// Zone is our own zone that answers; nothing is judged then.
	Zone string
	// Unknown is where zones are that might answer instead but are not consulted, or "".
	Unknown string
}

// Question returns a client's query for the records of a name.
func Question(c filter.Client, name string, qtype uint16) (*dns.Query, error) {
	wire, err := dns.Name(name)
	if err != nil {
		return nil, err
	}
	q := new(dns.Query)
	if q.Parse(dns.AppendQuery(nil, wire, qtype, 4096)) != dns.OK {
		return nil, fmt.Errorf("%q is not a name to ask for", name)
	}
	q.Client, q.At, q.Recursion = netip.AddrPortFrom(c.Addr, 53), time.Now(), true
	return q, nil
}

// Explain returns the answer that the resolver would give. No upstream is queried.
func (r *Resolver) Explain(q *dns.Query) (*Explanation, error) {
	x, err := r.ask(q)
	if x == nil && err == nil {
		x = &Explanation{Upstream: true}
	}
	return x, err
}

// ask returns the answer, nil when the resolver declines.
func (r *Resolver) ask(q *dns.Query) (*Explanation, error) {
	var a dns.Reply
	a.Start(q, nil, 4096)
	x := &Explanation{}
	var judged filter.Transaction
	switch r.Answer(q, &a, &judged) {
	case dns.Later:
		x.Upstream, x.DNS64 = true, r.DNS64(q)
		x.Transaction = r.Record(q, &a, &judged)
		return x, nil
	case dns.Answered:
	default:
		return nil, nil
	}
	x.Transaction = r.Record(q, &a, &judged)
	text, err := ReadText(a.Finish(&dns.Options{Size: 4096, Max: 4096}))
	if err != nil {
		return nil, err
	}
	x.Rcode, x.Records = dns.RcodeName(text.Rcode), text.Records
	if a.HasEDE {
		x.Error = fmt.Sprintf("%d (%s): %s", a.EDE, dns.ErrorName(a.EDE), a.EDEText)
	}
	return x, nil
}
