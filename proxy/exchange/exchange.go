// Package exchange judges one request and its response, from any source: a proxy's connection,
// an HTTP/2 stream, an ICAP service.
//
// A server calls [Exchange.Begin], sets Q (the request as sent) and the fields of T that
// describe client and request, and calls a method at each stage: [Exchange.JudgeHead],
// [Exchange.InspectRequest], [Exchange.JudgeResponse], [Exchange.InspectResponse]. If the
// verdict lets the request continue, [Exchange.MakeOutgoing] returns it as it goes upstream, with
// the policy's edits. Otherwise [Exchange.Answer] or [Exchange.VerdictResponse] returns the response to
// send instead. [Exchange.End] releases all resources; T is then the record.
//
// A body that a check inspects is read into pooled blocks (feed.go, package held), shown to the
// checks as it arrives, and judged (inspect.go). When it is complete, or the policy's patience
// ends, or there is no more room for it, the judged part except a tail of a few KiB is
// released. The rest is judged as it passes. The server reads an ordinary [message.Body]
// (body.go). If the verdict changes halfway, an HTML page ends with a short notice, and every
// body with [ErrCut].
package exchange

import (
	"context"
	"sync"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/page"
	"shuultuur/proxy/saved"
)

// An Engine decides and makes the responses. It never changes; a request ends with the one it
// began with.
type Engine struct {
	Decider filter.Decider
	// Accept takes the token of a click on a warn page, and returns the token for the cookie
	// that lets the client pass, or an error. If it is nil, no token is accepted.
	Accept func(ctx context.Context, t *filter.Transaction, token string) (string, error)
	// Balance returns the remainders of a client's quotas, and the name of their policy, ""
	// if none covers it. If it is nil, there are no quotas.
	Balance func(ctx context.Context, c *filter.Client, now time.Time) (policy string, left []filter.Balance)
	// Votes receives votes on blocked pages. If it is nil, there are none.
	Votes Votes
	Pages *page.Set
}

// Votes receives votes on blocked pages.
type Votes interface {
	// Token returns the token that a block page sends with a vote.
	Token(t *filter.Transaction) string
	// Answer answers a request below VotePath; path is "/votes" and the rest. fields are names
	// and values.
	Answer(ctx context.Context, t *filter.Transaction, q *message.Request, path string, body []byte) (status int, ctype string, answer []byte, fields []string)
}

// An Exchange is one request and its response. Make one with [Inspector.Exchange]; it is
// reused for the next request.
type Exchange struct {
	T filter.Transaction
	Q message.Request // as sent
	turn
	// Interrupt ends a read of the response's body in another goroutine. If it is nil, closing
	// the body does.
	Interrupt func()
	// HeadFirst says that the source may end only after the head of the response was sent: then
	// no body is kept without it for longer than the policy's patience.
	HeadFirst bool
	// ClientGone reports whether the client has gone, without waiting: under load, work for it then
	// stops. If it is nil, that is unknown.
	ClientGone func() bool
	// ClientLeft is ClientGone for other goroutines, while a body is judged.
	ClientLeft func() bool

	// Record records a message of a conversation. It may be nil. It must be safe for
	// concurrent use.
	Record func(*filter.Transaction)

	in *Inspector
	*storage
}

// A turn is what an exchange has for one request only.
type turn struct {
	Engine *Engine
	Edits  []filter.Edit // edits of the verdict, for Outgoing
	// Private are the names of fields that are not forwarded.
	Private []string

	editable bool // the page is to be changed

	saving    *heldDownload // the response is a download that is judged as a whole
	trickling *trickle      // the body of the response before its verdict
	kept      *saved.File   // a kept file that is being read

	whole bool // Outgoing requests the whole page
	form  *keptForm
	part  part // that the client asked for, if the whole page is requested instead
}

// storage is memory of an exchange that is reused for the next request.
type storage struct {
	Out      message.Request // for Outgoing, until Shrink
	upload   inspection
	download inspection
	talks    []*talkBody
	changes  filter.Changes     // of the page, where editable
	changing *editedBody        // the page that is being changed
	uncoded  *uncodedBody       // the page that passes without its coding
	answer   message.Response   // a response of the proxy
	body     message.MemoryBody // of answer
	scratch  []byte             // values of fields for Outgoing
}

// storages are unused: exchanges that wait, or only relay, have none.
var storages = sync.Pool{New: func() any { return new(storage) }}

// Exchange prepares x, whose bodies are held by i.
func (i *Inspector) Exchange(x *Exchange) { x.in = i }

// Shrink is [Exchange.End] for a long-lived exchange without bodies: it reduces its memory as
// far as possible until the next Begin. T stays unchanged.
func Shrink(x *Exchange) {
	if x.storage != nil {
		x.End()
		fields := x.Out.Fields[:cap(x.Out.Fields)]
		clear(fields)
		x.Out = message.Request{Fields: fields[:0]}
		storages.Put(x.storage)
		x.storage = nil
	}
}

// Begin prepares x for the next request. It keeps memory and the functions; End has released
// the resources of the previous request.
func (x *Exchange) Begin(e *Engine, start time.Time, id string) {
	if x.storage == nil {
		x.storage = storages.Get().(*storage)
	}
	x.T.Reset()
	x.turn = turn{Engine: e}
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

// Decide judges a stage, and reports whether to continue.
func (x *Exchange) Decide(ctx context.Context, s filter.Stage) bool {
	decide(ctx, x, &x.T, s)
	return !x.T.Verdict.Final()
}

func decide(ctx context.Context, x *Exchange, t *filter.Transaction, s filter.Stage) {
	x.Engine.Decider.Decide(ctx, t, s)
	if t == &x.T && s <= filter.RequestBody && len(t.Verdict.Edits) > 0 {
		x.Edits = t.Verdict.Edits
	}
}

// interrupt returns a function that ends a read of src in another goroutine.
func interrupt(x *Exchange, src message.Body) func() {
	if x.Interrupt != nil {
		return x.Interrupt
	}
	return func() { src.Close() }
}

// Wants reports whether a check inspects a body.
func (x *Exchange) Wants(s filter.Stage) bool {
	return x.T.Verdict.Action != filter.Allow && x.Engine.Decider.Wants(&x.T, s)
}

// JudgeHead judges the host and the head of the request, and reports whether to continue.
func (x *Exchange) JudgeHead(ctx context.Context) bool {
	if x.form == nil {
		x.form = keepForm(&x.Q, &x.T)
	}
	return x.Decide(ctx, filter.Name) && (x.T.Verdict.Action == filter.Allow || x.Decide(ctx, filter.Request))
}

// JudgeResponse judges the head of a response. It reports whether to continue, and whether to
// inspect the body.
func (x *Exchange) JudgeResponse(ctx context.Context, s *message.Response) (pass, inspect bool) {
	t := &x.T
	t.Response = s
	inspect = s.Body != nil && !s.Body.AtEnd() && x.Wants(filter.ResponseBody)
	if !inspect {
		t.Last = filter.Response
	}
	pass = t.Verdict.Action == filter.Allow || x.Decide(ctx, filter.Response)
	return pass, inspect && t.Verdict.Action != filter.Allow
}
