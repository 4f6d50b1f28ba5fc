// Package exchange judges one request and its response, wherever they come
// from: a proxy's connection, an HTTP/2 stream, an ICAP service.
//
// Data moves so. A server calls [Exchange.Begin], fills in Q (the request as it
// was sent) and the fields of T that describe client and request, and asks at each
// stage it reaches: [Exchange.JudgeHead], [Exchange.InspectRequest],
// [Exchange.JudgeResponse], [Exchange.InspectResponse]. Where the verdict is to
// go on, [Exchange.Outgoing] is the request as it goes upstream, with the
// policy's edits. Where it is not, [Exchange.Answer] is the response to give
// instead. [Exchange.End] gives back what was held; T is then the record.
//
// A body that a check wants to see is read into pooled blocks (feed.go,
// hold.go), shown to the checks as it comes, and judged (inspect.go). When it is
// complete, or the policy's patience ends, or there is no more room for it, what
// was judged clean is released but for a tail of a few KiB; what follows is
// judged as it passes. The server reads it from an ordinary [message.Body]
// (body.go). When the verdict changes halfway, an HTML page ends with a short
// notice, and every body with [ErrCut].
package exchange

import (
	"context"
	"sync"
	"time"

	"shuultuur/filter"
	"shuultuur/message"
	"shuultuur/proxy/page"
)

// An Engine decides and words the answers. It never changes; a request finishes
// with the one it began with.
type Engine struct {
	Decider filter.Decider
	// Accept takes the token of a click on a warn page and returns the one for
	// the cookie that lets the client pass, or says why not. nil takes none.
	Accept func(ctx context.Context, t *filter.Transaction, token string) (string, error)
	// Balance says what a client has left of its quotas, and by which policy, ""
	// when none covers it. nil knows of no quotas.
	Balance func(ctx context.Context, c *filter.Client, now time.Time) (policy string, left []filter.Balance)
	// Votes takes votes on what is blocked. nil takes none.
	Votes Votes
	Pages *page.Set
}

// Votes takes votes on what is blocked.
type Votes interface {
	// Token returns what a block page sends back with a vote.
	Token(t *filter.Transaction) string
	// Answer answers a request below VotePath; path is "/votes" and what follows.
	// fields are names and values.
	Answer(ctx context.Context, t *filter.Transaction, q *message.Request, path string, body []byte) (status int, ctype string, answer []byte, fields []string)
}

// An Exchange is one request and its response. Make one with
// [Inspector.Exchange]; it is used again for the next request.
type Exchange struct {
	T      filter.Transaction
	Q      message.Request // as it was sent
	Engine *Engine
	Edits  []filter.Edit // of the verdict, for Outgoing
	// Private are names of fields that go no further than this proxy.
	Private []string
	// Interrupt makes reading the response's body in another goroutine end. nil:
	// closing it does.
	Interrupt func()
	// Gone says whether the client has gone, without waiting: under load
	// nobody works for it any more. nil cannot tell.
	Gone func() bool

	// Record puts a message of a conversation on record. nil: nobody wants to
	// know. Many goroutines may call it.
	Record func(*filter.Transaction)

	in       *Inspector
	editable bool // the page is to be changed

	saving *saving // the response is a download that is judged as a whole
	kept   *file   // that is read

	whole bool   // Outgoing asks for all of the page
	part  string // Content-Range of what the client asked for, where it gets no more
	*storage
}

// storage is what an exchange uses again for the next request.
type storage struct {
	upload   inspection
	download inspection
	talks    []*talkBody
	changes  filter.Changes   // of the page, where editable
	changing *editedBody      // that is being changed
	uncoded  *uncodedBody     // that passes without its coding
	answer   message.Response // one of ours
	body     message.Memory   // of answer
	scratch  []byte           // values of Outgoing's fields
}

// storages are those of exchanges that wait, or only relay.
var storages = sync.Pool{New: func() any { return new(storage) }}

// Exchange makes x an exchange whose bodies i holds.
func (i *Inspector) Exchange(x *Exchange) { x.in = i }

// Rest is [Exchange.End] for an exchange without bodies that goes on for long: it
// needs as little memory as it can until the next Begin. T stays as it is.
func Rest(x *Exchange) {
	if x.storage != nil {
		x.End()
		storages.Put(x.storage)
		x.storage = nil
	}
}

// Begin makes x ready for the next request. It keeps storage and
// the functions; what the
// exchange before held has been given back by End.
func (x *Exchange) Begin(e *Engine, start time.Time, id string) {
	if x.storage == nil {
		x.storage = storages.Get().(*storage)
	}
	x.T.Reset()
	*x = Exchange{T: x.T, Q: x.Q, Engine: e, Gone: x.Gone, Interrupt: x.Interrupt, Record: x.Record, in: x.in, storage: x.storage}
	x.scratch = x.scratch[:0]
	x.T.Start, x.T.ID, x.T.Request, x.T.Last = start, id, &x.Q, filter.ResponseBody
}

// Note adds to the transaction's note for the operator.
func (x *Exchange) Note(s string) {
	if s == "" {
		return
	}
	if x.T.Note != "" {
		s = x.T.Note + "; " + s
	}
	x.T.Note = s
}

// Decide asks the decider at a stage, and says whether to go on.
func (x *Exchange) Decide(ctx context.Context, s filter.Stage) bool {
	v := decide(ctx, x, &x.T, s)
	return !v.Final()
}

func decide(ctx context.Context, x *Exchange, t *filter.Transaction, s filter.Stage) filter.Verdict {
	v := x.Engine.Decider.Decide(ctx, t, s)
	if t == &x.T && s <= filter.RequestBody && len(v.Edits) > 0 {
		x.Edits = v.Edits
	}
	return v
}

// interrupt is what makes reading src in another goroutine end.
func interrupt(x *Exchange, src message.Body) func() {
	if x.Interrupt != nil {
		return x.Interrupt
	}
	return func() { src.Close() }
}

// Wants asks whether a check wants to see a body.
func (x *Exchange) Wants(s filter.Stage) bool {
	return x.T.Verdict.Action != filter.Allow && x.Engine.Decider.Wants(&x.T, s)
}

// JudgeHead has the host and the head of the request judged, and says whether
// to go on.
func (x *Exchange) JudgeHead(ctx context.Context) bool {
	return x.Decide(ctx, filter.Name) && (x.T.Verdict.Action == filter.Allow || x.Decide(ctx, filter.Request))
}

// JudgeResponse has the head of a response judged, and says whether to go on,
// and whether the body is to be inspected.
func (x *Exchange) JudgeResponse(ctx context.Context, s *message.Response) (pass, inspect bool) {
	t := &x.T
	t.Response = s
	inspect = s.Body != nil && !s.Body.Done() && x.Wants(filter.ResponseBody)
	if !inspect {
		t.Last = filter.Response
	}
	pass = t.Verdict.Action == filter.Allow || x.Decide(ctx, filter.Response)
	return pass, inspect && t.Verdict.Action != filter.Allow
}
