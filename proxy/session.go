package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/message"
	"shuultuur/message/proxyprotocol"
)

// Sizes of a session's own buffers: what an ordinary head needs, and head and
// body of a short answer together.
const (
	readSize  = 4 << 10
	writeSize = 8 << 10
)

// A session is one client connection and everything its requests need. It is
// used again for the next connection.
type session struct {
	p   *Proxy
	l   *listener
	ctx context.Context
	eng *Engine // of the request at hand

	c       net.Conn     // TCP, or TLS over it
	tcp     *net.TCPConn // what c is, nil when it is not plain TCP
	socket  net.Conn     // what was accepted
	inside  *decrypted   // what c was opened for, once it is decrypted
	client  netip.Addr   // who is at the other end, as the PROXY header says
	trusted bool         // client is in Config.Trusted
	counted bool         // client is in Proxy.clients
	idle    atomic.Bool  // between two requests
	aborted atomic.Bool  // ended from outside
	until   time.Time    // read deadline of c as set
	lost    bool         // unread bytes of the client remain: linger before closing

	r          *message.Reader
	q          message.Request
	s          message.Response
	t          filter.Transaction
	body       content.Body
	upload     content.Body
	down, in   hold   // blocks of the response's body and of the request's
	out        []byte // head on its way out; nil between requests
	tail       []byte // end of a chunked body
	key        []byte // of the pool
	vec, parts [][]byte
	bufs       net.Buffers
	edits      []filter.Edit
	up         *upstream                // connection of the request at hand; set by use
	other      atomic.Pointer[upstream] // the same, for who ends the session from outside
	send       upload                   // request body on its way
	host       string                   // last Host and URL: the next request often has the same
	url        string
	working    bool // has a token of Proxy.active
	started    bool // bytes of the response are out
	silent     bool // the transaction does not go on record
	continued  bool // 100 Continue is out
	deadline   *time.Timer
	goAway     atomic.Pointer[func()] // tells an HTTP/2 client to open no more streams
}

func newSession(p *Proxy) *session {
	x := &session{
		p:    p,
		r:    message.NewReader(nil, readSize, p.cfg.Head),
		down: hold{b: p.held},
		in:   hold{b: p.held},
	}
	x.send.init(x)
	return x
}

// open makes x serve c.
func (x *session) open(l *listener, c net.Conn) {
	x.l, x.ctx, x.c, x.socket = l, l.ctx, c, c
	x.tcp, _ = c.(*net.TCPConn)
	x.client = peerAddr(c)
	x.trusted = contains(x.p.cfg.Trusted, x.client)
	x.r.Reset(c)
	x.until = time.Time{}
	x.host, x.url = "", ""
	x.idle.Store(false)
	x.aborted.Store(false)
}

// close ends x's connection and forgets it.
func (x *session) close() {
	if x.lost {
		linger(x.c)
		x.lost = false
	}
	x.c.Close()
	if x.counted {
		x.p.clients.leave(x.client)
		x.counted = false
	}
	x.dropUpstream()
	x.release()
	x.eng, x.c, x.tcp, x.socket, x.ctx, x.l, x.inside = nil, nil, nil, nil, nil, nil, nil
	x.r.Reset(nil)
	x.t.Reset()
	x.putOut()
}

// takeOut makes sure there is room to write a head to.
func (x *session) takeOut() {
	if x.out == nil {
		x.out = x.p.outs.Get().(*[writeSize]byte)[:0]
	}
}

// putOut gives that room to others: most connections wait most of the time.
func (x *session) putOut() {
	if cap(x.out) == writeSize {
		x.p.outs.Put((*[writeSize]byte)(x.out[:writeSize]))
	}
	x.out = nil
	clear(x.parts[:cap(x.parts)]) // it may be among them
	clear(x.vec[:cap(x.vec)])
}

// release gives back what a request held.
func (x *session) release() {
	x.down.free()
	x.in.free()
	if x.t.Body != nil {
		x.body.Release()
		x.t.Body = nil
	}
	if x.t.Upload != nil {
		x.upload.Release()
		x.t.Upload = nil
	}
	x.yield()
	x.edits = nil
}

// yield lets the next request in line be worked on: what is left of this one
// costs little but time.
func (x *session) yield() {
	if x.working {
		x.working = false
		x.p.active.give(1)
	}
}

// stopIdle ends a session that waits for a request.
func (x *session) stopIdle() {
	if tell := x.goAway.Load(); tell != nil {
		(*tell)()
		return
	}
	if !x.idle.Load() {
		return
	}
	if c, ok := x.socket.(interface{ CloseRead() error }); ok {
		c.CloseRead() // a request that is on its way right now is still answered
		return
	}
	x.socket.Close()
}

// abort cuts the connection and the one to the origin, from another goroutine.
func (x *session) abort() {
	x.aborted.Store(true)
	x.socket.Close()
	if u := x.other.Load(); u != nil {
		u.close()
	}
}

// use makes u the connection of the request at hand; nil for none.
func (x *session) use(u *upstream) {
	x.up = u
	x.other.Store(u)
}

// arm makes sure reading fails after about d of silence; see upstream.arm.
func (x *session) arm(now time.Time, d time.Duration) {
	if left := x.until.Sub(now); left < d*3/4 || left > d {
		x.until = now.Add(d)
		x.c.SetDeadline(x.until)
	}
}

// run serves the connection until it ends.
func (x *session) run() {
	x.arm(time.Now(), x.p.cfg.HeadTime)
	if !x.begin() {
		return
	}
	for more := true; more; more = x.await() && x.request() {
		if x.inside != nil && x.inside.streams {
			x.serveStreams()
			return
		}
	}
	if x.c != nil && len(x.r.Buffered()) > 0 {
		x.lost = true
	}
}

// begin looks at the first bytes: a PROXY header, TLS, or a request.
func (x *session) begin() bool {
	if !x.trusted && !x.enter() {
		return false
	}
	if x.l.transparent {
		if !x.counted && !x.enter() {
			return false
		}
		return x.beginTransparent()
	}
	b, err := x.r.Peek(1)
	if err != nil {
		return false
	}
	if x.trusted && (b[0] == proxyprotocol.V1[0] || b[0] == proxyprotocol.V2[0]) && !x.readPROXY() {
		return false
	}
	if !x.trusted && !x.counted && !x.enter() { // the PROXY header named a client
		return false
	}
	if b, err = x.r.Peek(1); err != nil {
		return false
	}
	if b[0] == 0x16 {
		return x.startTLS()
	}
	return true
}

// enter counts the connection among its client's, if there is room for it.
func (x *session) enter() bool {
	x.counted = x.p.clients.enter(x.client, x.p.cfg.PerClient)
	if !x.counted {
		x.p.counters.perClient.Add(1)
		x.p.counters.overload.Add(1)
		x.c.Write([]byte(full))
		x.lost = true
	}
	return x.counted
}

// readPROXY reads the PROXY header of a trusted load balancer.
func (x *session) readPROXY() bool {
	for n := 1; ; {
		if _, err := x.r.Peek(n); err != nil {
			return false
		}
		b := x.r.Buffered()
		from, size, err := proxyprotocol.Parse(b)
		switch {
		case err != nil:
			x.p.counters.proto.Add(1)
			x.p.log.Warn("PROXY protocol", "from", x.client, "err", err)
			return false
		case size < 0:
			return true
		case size == 0:
			n = len(b) + 1
			continue
		}
		x.r.Discard(size)
		if from.IsValid() {
			x.client = from.Addr().Unmap().WithZone("")
			x.trusted = contains(x.p.cfg.Trusted, x.client)
		}
		return true
	}
}

// A rewound is a connection of which some bytes were read already.
type rewound struct {
	net.Conn
	first []byte
}

func (c *rewound) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		if c.first = c.first[n:]; len(c.first) == 0 {
			c.first = nil // a hello is large today
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// startTLS makes an HTTPS proxy of the connection.
func (x *session) startTLS() bool {
	conf := x.p.engine.Load().TLS
	if conf == nil {
		x.p.counters.noTLS.Add(1)
		return false
	}
	tc := tls.Server(&rewound{x.socket, bytes.Clone(x.r.Buffered())}, conf)
	x.c, x.tcp = tc, nil
	if err := tc.HandshakeContext(x.ctx); err != nil {
		x.p.log.Debug("TLS handshake with a client", "client", x.client, "err", err)
		return false
	}
	x.r.Reset(tc)
	return true
}

// await waits for the first byte of a request.
func (x *session) await() bool {
	if len(x.r.Buffered()) > 0 {
		return !x.l.draining.Load()
	}
	x.idle.Store(true)
	defer x.idle.Store(false)
	if x.l.draining.Load() {
		return false
	}
	x.arm(time.Now(), x.p.cfg.Idle)
	x.putOut()
	_, err := x.r.Peek(1)
	return err == nil
}

// request serves one request and says whether another may follow.
func (x *session) request() (more bool) {
	p, t := x.p, &x.t
	t.Reset()
	t.Start = time.Now()
	t.ID = p.ids.Next(t.Start)
	t.Client.Addr = x.client
	t.Request = &x.q
	t.Last = filter.ResponseBody
	x.eng = p.engine.Load()
	x.started, x.continued, x.silent, x.send.err = false, false, false, nil
	p.counters.requests.Add(1)

	if !bytes.Contains(x.r.Buffered(), []byte("\r\n\r\n")) {
		x.until = t.Start.Add(p.cfg.HeadTime) // all of it, not from byte to byte
		x.c.SetDeadline(x.until)
	}
	err := x.r.ReadRequest(&x.q)
	x.arm(t.Start, p.cfg.Answer)
	defer x.finish()
	if err != nil {
		x.takeOut()
		x.badRequest(err)
		return false
	}
	valid := x.address()
	if ok, more := x.turn(); !ok {
		return more
	}
	x.takeOut()
	if p.cfg.Total > 0 {
		defer x.limitTotal()()
	}
	return x.handle(valid)
}

// limitTotal cuts the request when its time is over. end stops that, and waits
// for it if it has begun: x may serve another connection afterwards.
func (x *session) limitTotal() (end func()) {
	done := make(chan struct{})
	x.deadline = time.AfterFunc(x.p.cfg.Total, func() {
		x.abort()
		close(done)
	})
	return func() {
		if x.deadline != nil && !x.deadline.Stop() {
			<-done
		}
		x.deadline = nil
	}
}

// finish ends the transaction: everything it held is given back and it goes on
// record, whatever happened.
func (x *session) finish() {
	r := recover()
	x.send.stop()
	x.dropUpstream()
	x.t.Duration = time.Since(x.t.Start)
	x.release()
	if r != nil {
		x.note("internal error")
		x.p.done(&x.t)
		panic(r)
	}
	if !x.silent {
		x.p.done(&x.t)
	}
}

// turn waits until the request may be worked on. ok false means that an answer
// is out or the client is gone.
func (x *session) turn() (ok, more bool) {
	ok, waited := x.p.active.take(x.ctx, x.client, 1, x.p.cfg.QueueTime)
	x.working = ok
	switch {
	case !ok:
		return false, x.busy()
	case waited && x.gone():
		x.p.counters.left.Add(1)
		x.note("client went away before it was its turn")
		return false, false
	}
	return true, true
}

// busy answers a request that gets no turn. There may be thousands of them
// when there is no time for one: the answer lies ready, and not all go on
// record.
func (x *session) busy() (more bool) {
	p := x.p
	p.counters.overload.Add(1)
	const why = "no turn within queue-time"
	x.note(why)
	x.refuse(why)
	// A tenth of a second has one record of it.
	now, last := time.Now(), p.told.Load()
	x.silent = now.UnixNano()-last < int64(time.Second/10) || !p.told.CompareAndSwap(last, now.UnixNano())
	more = x.settle() && x.q.Proto != 10
	x.t.Status = 503
	x.arm(now, p.cfg.Answer)
	if _, err := x.c.Write(x.eng.Pages.busy[x.form()].bytes(more, x.q.Method == "HEAD")); err != nil {
		return x.lostClient(err)
	}
	return more
}

// note adds to the transaction's note for the operator.
func (x *session) note(s string) {
	if x.t.Note != "" {
		s = x.t.Note + "; " + s
	}
	x.t.Note = s
}

// badRequest answers a head that could not be read.
func (x *session) badRequest(err error) {
	if e, ok := errors.AsType[*message.Error](err); ok {
		x.p.counters.bad.Add(1)
		x.t.Host, _ = cleanHost(x.q.Host)
		x.q.Body, x.q.Close = nil, true
		x.lost = true
		x.fail(e.Status, "The request is malformed: "+e.Reason+".", "request refused: "+e.Reason)
		return
	}
	x.q.Body, x.q.Close = nil, true
	if errors.Is(err, os.ErrDeadlineExceeded) {
		x.c.SetDeadline(time.Now().Add(time.Second))
		x.fail(408, "The request did not arrive in time.", "request head not complete within head-time")
		return
	}
	x.note("client went away in the middle of a request head")
}

// handle answers a request whose head has been read; valid says whether it
// names a host.
func (x *session) handle(valid bool) (more bool) {
	q, t := &x.q, &x.t
	if ok, more := x.identify(); !ok {
		return more
	}
	if t.Host == OwnHost && q.Form != message.Authority {
		return x.own()
	}
	if x.inside == nil && q.Form != message.Absolute && q.Form != message.Authority {
		return x.help()
	}
	if !valid {
		return x.fail(400, "The address has no valid host name.", "invalid host")
	}
	if x.looped() {
		x.p.counters.loops.Add(1)
		return x.fail(508, "The request came back to this proxy: a loop.", "loop: our name is in Via")
	}
	if q.Form == message.Authority {
		if x.inside != nil {
			return x.fail(405, "This is a web site to the browser, not a proxy.", "CONNECT inside of TLS")
		}
		return x.connect()
	}
	if x.inside == nil && q.Scheme != "http" {
		return x.fail(501, "This proxy speaks http only; for https the browser has to ask for a tunnel.", "scheme "+q.Scheme)
	}
	if q.Method == "TRACE" || q.Method == "OPTIONS" {
		if q.Get("Max-Forwards") != nil && string(q.Get("Max-Forwards")) == "0" {
			return x.lastHop()
		}
	}
	if token, rest, ok := acceptToken(t.URL); ok && (q.Method == "GET" || q.Method == "HEAD") {
		return x.accept(token, rest)
	}
	if !x.judgeHead() {
		return x.obey()
	}
	if d := x.inside; d != nil && d.scheme == "http" {
		x.aim(d, t.Host)
	}
	return x.exchange()
}

// decide asks the decider at a stage, and says whether to go on.
func (x *session) decide(s filter.Stage) bool {
	v := x.eng.Decider.Decide(x.ctx, &x.t, s)
	if s <= filter.RequestBody && len(v.Edits) > 0 {
		x.edits = v.Edits
	}
	return !v.Final()
}

// wants asks whether anybody wants to see a body.
func (x *session) wants(s filter.Stage) bool {
	return x.t.Verdict.Action != filter.Allow && x.eng.Decider.Wants(&x.t, s)
}

// identify finds out who asks. ok false means that an answer is out.
func (x *session) identify() (ok, more bool) {
	if d := x.inside; d != nil && d.scheme == "http" {
		if err := x.transparentClient(d); err != nil {
			return false, x.fail(403, "The proxy does not know you.", "identify: "+err.Error())
		}
		return true, false
	}
	if x.inside != nil { // known since CONNECT or the hello
		x.t.Client = x.inside.client
		return true, false
	}
	addr := x.client
	if x.trusted {
		addr = x.forwardedFor(addr)
	}
	who, err := x.eng.Identify(x.ctx, addr, x.q.Get("Proxy-Authorization"))
	if who.Addr.IsValid() {
		x.t.Client = who
	} else {
		who.Addr = addr
		x.t.Client = who
	}
	if err == nil {
		return true, false
	}
	var c interface{ Challenge() string }
	if errors.As(err, &c) {
		x.note("log-in asked for")
		return false, x.challenge(c.Challenge())
	}
	var l interface {
		Later() (status int, after time.Duration)
	}
	if errors.As(err, &l) {
		status, after := l.Later()
		return false, x.comeBack(status, after, "identify: "+err.Error())
	}
	return false, x.fail(403, "The proxy does not know you.", "identify: "+err.Error())
}

// forwardedFor returns the address X-Forwarded-For gives: the last one that is
// not a trusted proxy itself, because everything before it is hearsay.
func (x *session) forwardedFor(addr netip.Addr) netip.Addr {
	for i := len(x.q.Fields) - 1; i >= 0; i-- {
		if f := x.q.Fields[i]; len(f.Name) != 15 || !bytes.EqualFold(f.Name, []byte("X-Forwarded-For")) {
			continue
		}
		list := strings.Split(string(x.q.Fields[i].Value), ",")
		for j := len(list) - 1; j >= 0; j-- {
			a, err := netip.ParseAddr(strings.Trim(list[j], " \t[]"))
			if err != nil {
				return addr
			}
			addr = a.Unmap().WithZone("")
			if !contains(x.p.cfg.Trusted, addr) {
				return addr
			}
		}
	}
	return addr
}

// address fills in what the request asks for. It says whether it names a host
// that can be one.
func (x *session) address() bool {
	q, t := &x.q, &x.t
	if d := x.inside; d != nil && q.Form != message.Authority {
		t.Port, t.JA4 = d.port, d.ja4
		ok := true
		t.Host = d.host
		if d.scheme == "http" { // each request may name another
			t.Host = d.orig.Addr().String()
		}
		if len(q.Host) > 0 {
			ok = x.setHost()
		}
		if d.scheme == "http" {
			d.host = t.Host
		}
		x.setURL()
		return ok
	}
	t.Port = q.Port
	switch {
	case t.Port != 0:
	case q.Scheme == "https":
		t.Port = 443
	default:
		t.Port = 80
	}
	ok := x.setHost()
	switch q.Form {
	case message.Authority:
		t.Proto, t.Last = filter.TLS, filter.Name
		x.key = appendPort(appendHost(x.key[:0], t.Host), t.Port)
		t.URL = string(x.key)
	case message.Absolute:
		x.setURL()
	}
	return ok
}

// setHost sets t.Host.
func (x *session) setHost() bool {
	h := x.q.Host
	if string(h) == x.host && x.host != "" {
		x.t.Host = x.host
		return true
	}
	if bytes.IndexByte(h, ':') >= 0 {
		a, err := netip.ParseAddr(string(h))
		x.t.Host = a.Unmap().String()
		return err == nil
	}
	var ok bool
	x.t.Host, ok = cleanHost(h)
	x.host = x.t.Host
	return ok
}

// setURL sets t.URL.
func (x *session) setURL() {
	scheme, named := x.q.Scheme, x.q.Port != 0
	if x.inside != nil {
		scheme, named = x.inside.scheme, true
	}
	b := append(append(x.key[:0], scheme...), "://"...)
	b = appendHost(b, x.t.Host)
	if port := x.t.Port; scheme == "http" && port != 80 || scheme != "http" && named && (scheme != "https" || port != 443) {
		b = appendPort(b, x.t.Port)
	}
	if string(x.q.Path) != "*" {
		b = append(b, x.q.Path...)
	}
	x.key = b
	if x.url != string(b) {
		x.url = string(b)
	}
	x.t.URL = x.url
}

// looped says whether the request has been here before.
func (x *session) looped() bool {
	name := x.p.cfg.Via
	for _, f := range x.q.Fields {
		if len(f.Name) != 3 || !bytes.EqualFold(f.Name, []byte("Via")) {
			continue
		}
		for v := range bytes.SplitSeq(f.Value, []byte(",")) {
			part := bytes.Fields(v)
			if len(part) >= 2 && strings.EqualFold(string(part[1]), name) {
				return true
			}
		}
	}
	return false
}

// dropUpstream closes the connection of the request at hand, if it still has
// one.
func (x *session) dropUpstream() {
	if x.up != nil {
		x.up.close()
		x.use(nil)
	}
}

// gone says whether the client has closed its connection, without waiting.
// Under TLS that cannot be seen.
func (x *session) gone() bool {
	if x.tcp == nil || len(x.r.Buffered()) > 0 {
		return false
	}
	raw, err := x.tcp.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = err == nil && n == 0 || err == syscall.ECONNRESET
	})
	return err != nil || gone
}

// requestBody is the body of the request, nil when there is none.
func (x *session) requestBody() *message.Body {
	b, _ := x.q.Body.(*message.Body)
	return b
}

func (x *session) responseBody() *message.Body {
	b, _ := x.s.Body.(*message.Body)
	return b
}

// settle reads what is left of the request's body, so that the next request
// can follow, and says whether it can.
func (x *session) settle() bool {
	if x.q.Close || x.l.draining.Load() {
		if b := x.requestBody(); b != nil && !b.Done() {
			x.lost = true
		}
		return false
	}
	b := x.requestBody()
	if b == nil || b.Done() {
		return true
	}
	if x.q.Expect && !x.continued && len(x.r.Buffered()) == 0 {
		return false // it will not come, or it will: there is no way to tell
	}
	if b.Discard(256<<10) != nil {
		x.lost = true
		return false
	}
	return true
}
