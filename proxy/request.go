package proxy

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/upstream"
)

// An outcome says how a client's connection continues after a step.
type outcome uint8

const (
	proceed  outcome = iota // nothing was answered yet
	another                 // answered; another request may follow
	closing                 // the connection ends, with or without a response
	relaying                // it has become a tunnel; tunnel.endRelaying ends the request
)

// A request is one request of a client in the proxy. It is reused for the next one.
type request struct {
	ex     exchange.Exchange
	t      *filter.Transaction // of ex
	q      *message.Request    // of ex
	p      *Proxy
	c      *conn // the source of the request and the destination of the response
	eng    *Engine
	ctx    context.Context    // of the client's connection, for caller
	cancel context.CancelFunc // ends ctx
	caller upstream.Caller
	res    *message.Response // the open response from upstream

	addr      netip.Addr   // of the client, from the PROXY header if there is one
	trusted   bool         // addr is in Config.Trusted
	proof     proof        // of the client's identity, valid for the connection
	admitted  error        // why the client of this request is not identified; nil if it is
	inside    *tlsState    // the decrypted connection; nil if it was not decrypted
	flow      *filter.Flow // the memory of checks about the client's connection, including all its streams
	relayed   int64        // bytes of a tunnel, from the client
	started   bool         // bytes of the response were sent
	silent    bool         // the transaction is not recorded
	continued bool         // 100 (Continue) was sent
	deadline  *time.Timer

	turnMu sync.Mutex // guards turnOf: the watch takes turns from requests that wait for long
	turnOf netip.Addr // whose of Proxy.turns it has; the zero Addr for none

	host, url string // the last Host and URL, because the next request often has the same
	buf       []byte // buffer for them
}

func (x *request) init(p *Proxy, c *conn) {
	x.t, x.q, x.p, x.c = &x.ex.T, &x.ex.Q, p, c
	p.inspector.Exchange(&x.ex)
	x.ex.ClientGone, x.ex.Interrupt, x.ex.Record = c.gone, x.caller.Interrupt, p.recordMessage
	x.caller.Interim = x.interim
	x.caller.Faults = x.judgeFaults
}

// open prepares x to serve the requests of a connection.
func (x *request) open(ctx context.Context, addr netip.Addr, trusted bool) {
	ctx, x.cancel = context.WithCancel(ctx)
	x.ctx = x.caller.Context(filter.With(ctx, x.t))
	x.addr, x.trusted, x.proof, x.inside, x.flow = addr, trusted, proof{}, nil, new(filter.Flow)
	x.host, x.url = "", ""
}

// close resets the state of the connection.
func (x *request) close() {
	x.yield()
	x.cancel()
	x.t.Reset()
	x.eng, x.ctx, x.cancel, x.proof, x.inside, x.flow, x.caller.Session = nil, nil, nil, proof{}, nil, nil, nil
}

// begin prepares x for the next request, which began at now.
func (x *request) begin(now time.Time) {
	p := x.p
	x.eng = p.engine.Load()
	x.ex.Begin(&x.eng.judge, now, p.ids.Next(now))
	x.t.Client.Addr, x.t.Flow = x.addr, x.flow
	x.started, x.continued, x.silent, x.relayed, x.proof.ours, x.admitted = false, false, false, 0, "", nil
	p.counters.add(requests)
}

// finish ends the transaction, unless a tunnel continues it: it releases all resources and
// records the transaction, whatever happened. It is deferred.
func (x *request) finish(o *outcome) {
	r := recover()
	if r == nil && *o == relaying {
		return
	}
	x.c.vigil.end()
	x.c.use.end(x.t)
	x.drop()
	x.ex.End()
	x.t.BytesIn = x.relayed + x.c.received() // now that nobody reads the client
	x.t.Duration = time.Since(x.t.Start)
	x.yield()
	if r != nil {
		x.ex.Note("internal error")
		x.p.done(x.t)
		panic(r)
	}
	if !x.silent {
		x.p.done(x.t)
	}
}

// drop closes the response from upstream, if any: its rest is not worth reading.
func (x *request) drop() {
	if x.res != nil {
		x.res.Body.Close()
		x.res = nil
	}
}

// yield lets the next waiting request proceed: the rest of this one costs little but time. Any
// goroutine may call it.
func (x *request) yield() {
	x.turnMu.Lock()
	of := x.turnOf
	x.turnOf = netip.Addr{}
	x.turnMu.Unlock()
	if of.IsValid() {
		x.p.turns.Return(of, 1)
	}
}

// limitTotal aborts the request when its time is over. end stops that, and waits for it if it
// has begun, because x may serve another connection afterwards.
func (x *request) limitTotal() (end func()) {
	done := make(chan struct{})
	x.deadline = time.AfterFunc(x.p.total, func() {
		x.c.Abort()
		close(done)
	})
	return func() {
		if x.deadline != nil && !x.deadline.Stop() {
			<-done
		}
		x.deadline = nil
	}
}

// removeLimit removes the limit: Config.Total does not apply to tunnels.
func (x *request) removeLimit() {
	if x.deadline != nil && x.deadline.Stop() {
		x.deadline = nil
	}
}

// judgeFaults judges the faults of an origin's certificate, unless they already were.
func (x *request) judgeFaults(faults []filter.Finding) error {
	fresh := false
next:
	for _, f := range faults {
		for _, g := range x.t.Findings {
			if f == g {
				continue next
			}
		}
		x.t.Findings = append(x.t.Findings, f)
		fresh = true
	}
	if fresh && x.t.Verdict.Action != filter.Allow && !x.ex.Decide(x.ctx, filter.Request) {
		return errFaulty
	}
	return nil
}

// errFaulty reports that the origin of a new connection has a certificate that the policy
// refuses; the verdict is in the transaction.
var errFaulty = errors.New("certificate refused")

// A clientError is a failure of the client's connection rather than of upstream.
type clientError struct{ error }

// interim forwards a 1xx response.
func (x *request) interim(s *message.Response) error {
	if x.q.Proto == 10 {
		return nil
	}
	if err := x.c.interim(s); err != nil {
		return clientError{err}
	}
	if s.Status == 100 {
		x.continued = true
	}
	return nil
}

// lostClient records that the client went away during the response.
func (x *request) lostClient(err error) outcome {
	x.ex.Note("client went away: " + err.Error())
	return closing
}

// sent counts bytes of the body that were sent to the client.
func (x *request) sent(n int64) {
	x.t.BytesOut += n
	x.c.use.count(n)
}
