package nameserver

import (
	"context"
	"time"

	"shuultuur/dns"
	"shuultuur/filter"
)

// A Responder answers questions. Many goroutines call both methods at once.
//
// The transaction belongs to the reply: a responder that filters describes in
// it what it decided, for the log. It is empty at first, and stays so when no
// policy was involved.
type Responder interface {
	// Answer must not block, hold a lock for long, or allocate in common
	// cases: it runs on the goroutine that reads the socket.
	Answer(q *dns.Query, r *dns.Reply, t *filter.Transaction) dns.Outcome
	// Wait continues what Answer left for Later. One of a bounded number of
	// workers calls it, with a query and a reply of its own. It returns any
	// outcome but Later, by the deadline of ctx.
	Wait(ctx context.Context, q *dns.Query, r *dns.Reply, t *filter.Transaction) dns.Outcome
}

// A Transferrer is a Responder that answers with more than one message (AXFR,
// IXFR) over a stream. For these two types it is asked before Answer.
type Transferrer interface {
	// Transfer calls send for each message, whole, without a length prefix.
	// Declined means that nothing was sent and that Answer is asked.
	Transfer(ctx context.Context, q *dns.Query, send func(msg []byte) error) (dns.Outcome, error)
}

// A Notifier is a Responder that wants to know of zones that changed elsewhere
// (NOTIFY, RFC 1996). When all decline, the reply is NOTAUTH. Notify must not
// block: it queues the work.
type Notifier interface {
	Notify(q *dns.Query, r *dns.Reply) dns.Outcome
}

// A Witness is a Responder that examines messages that the server answers by itself:
// those that cannot be read, that have another opcode than QUERY, or that ask what no
// responder is asked. Nothing is decided about them.
type Witness interface {
	// Refused describes in t what was found, for the log. Of q it reads Msg, Client
	// and At, and Name where End is not 0. It runs on the goroutine that reads the
	// socket.
	Refused(q *dns.Query, t *filter.Transaction)
}

// An Authenticator knows the keys of TSIG (RFC 8945). Workers answer queries
// with a TSIG record (Query.TSIG), never the goroutine that reads.
type Authenticator interface {
	// Verify reports whether a key of ours signed the query at a plausible
	// time. If not, the reply is NOTAUTH and Sign says why in it.
	Verify(q *dns.Query) bool
	// Sign appends the TSIG record to a whole reply and returns it. It has 512
	// octets of space.
	Sign(q *dns.Query, reply []byte) []byte
}

// A Record receives queries that were answered, on the goroutine that answered
// them: it copies what it keeps and does not block. At most Config.Log queries
// a second are passed to it.
type Record func(q *dns.Query, r *dns.Reply, t *filter.Transaction, took time.Duration)
