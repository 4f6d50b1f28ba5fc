package nameserver

import (
	"context"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
)

// A Responder answers questions. Both methods are called concurrently.
//
// The transaction belongs to the reply: a responder that filters describes its
// decision in it, for the log. It stays empty if no policy was involved.
type Responder interface {
	// Answer must not block, hold a lock for long, or allocate in common cases,
	// because it runs on the goroutine that reads the socket.
	Answer(q *dns.Query, r *dns.Reply, t *filter.Transaction) dns.Outcome
	// Wait continues after Answer returned Later. It is called by one of a bounded
	// number of workers, with its own query and reply. It returns any outcome but
	// Later, before the deadline of ctx.
	Wait(ctx context.Context, q *dns.Query, r *dns.Reply, t *filter.Transaction) dns.Outcome
}

// A Transferrer is a Responder that answers with more than one message (AXFR,
// IXFR) over a stream. For these two types it is asked before Answer.
type Transferrer interface {
	// Transfer calls send for each complete message, without a length prefix.
	// Declined means that nothing was sent; then Answer is called.
	Transfer(ctx context.Context, q *dns.Query, send func(msg []byte) error) (dns.Outcome, error)
}

// A Notifier is a Responder that is interested in zones that changed elsewhere
// (NOTIFY, RFC 1996). If all decline, the reply is NOTAUTH. Notify must not
// block: it queues the work.
type Notifier interface {
	Notify(q *dns.Query, r *dns.Reply) dns.Outcome
}

// An Updater is a Responder that takes dynamic updates of its zones (RFC 2136). If there is none, the
// reply is NOTIMP.
type Updater interface {
	// Update is called by a worker, with an update that one of our keys signed, and sets the response
	// code. It returns before the deadline of ctx, unless it is writing what it will acknowledge.
	Update(ctx context.Context, q *dns.Query, r *dns.Reply)
}

// A Witness is a Responder that examines messages that the server answers by itself:
// malformed ones, those with an opcode other than QUERY, and questions that no
// responder gets. It decides nothing.
type Witness interface {
	// SeeRefused describes its findings in t, for the log. It may read Msg, Client and
	// At of q, and Name if End is not 0. It runs on the goroutine that reads the
	// socket.
	SeeRefused(q *dns.Query, t *filter.Transaction)
}

// An Authenticator has the keys of TSIG (RFC 8945). Workers answer queries with
// a TSIG record (Query.TSIG), never the reading goroutine.
type Authenticator interface {
	// Verify reports whether one of our keys signed the query at a plausible time.
	// If not, the reply is NOTAUTH and Sign adds the reason.
	Verify(q *dns.Query) bool
	// Sign appends the TSIG record to a complete reply and returns it. It has 512
	// octets of space.
	Sign(q *dns.Query, reply []byte) []byte
}

// A Record receives answered queries on the answering goroutine: it must copy the
// parts that it keeps, and must not block. At most Config.Log queries per second
// are passed to it.
type Record func(q *dns.Query, r *dns.Reply, t *filter.Transaction, took time.Duration)
