package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/platform"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/upstream"
	"strconv"
	"time"
)

// address sets the target of the request. It reports whether the request names a valid host.
func (x *request) address() bool {
	q, t := x.q, x.t
	if d := x.inside; d != nil && q.Form != message.Authority {
		t.Port, t.JA4, t.Opening = d.port, d.ja4, d.opening
		ok := true
		t.Host = d.host
		switch { // each request may name another one
		case d.asked != "":
			t.Host = d.asked
		case d.scheme == "http":
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
	if q.Scheme != "http" {
		x.webSocketScheme()
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
		t.URL = hostPort(t.Host, t.Port)
	case message.Absolute:
		x.setURL()
	}
	return ok
}

// webSocketScheme reads the scheme of a WebSocket that a client asks the proxy for as that of the
// request which opens it (RFC 6455 section 4.1).
func (x *request) webSocketScheme() {
	if q := x.q; q.Upgrade == nil || q.Form != message.Absolute {
		return
	} else if q.Scheme == "ws" {
		q.Scheme = "http"
	} else if q.Scheme == "wss" {
		q.Scheme = "https"
	}
}

// setHost sets the transaction's host.
func (x *request) setHost() bool {
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
	x.t.Host, ok = exchange.CleanHost(h)
	x.host = x.t.Host
	return ok
}

// setURL sets the transaction's URL.
func (x *request) setURL() {
	scheme, named := x.q.Scheme, x.q.Port != 0
	if x.inside != nil {
		scheme, named = x.inside.scheme, true
	}
	b := append(append(x.buf[:0], scheme...), "://"...)
	b = appendHost(b, x.t.Host)
	if port := x.t.Port; scheme == "http" && port != 80 || scheme != "http" && named && (scheme != "https" || port != 443) {
		b = appendPort(b, x.t.Port)
	}
	if string(x.q.Path) != "*" {
		b = append(b, x.q.Path...)
	}
	x.buf = b
	if x.url != string(b) {
		x.url = string(b)
	}
	x.t.URL = x.url
}

// waitTurn waits until the request may be processed.
func (x *request) waitTurn() outcome {
	p := x.p
	ok, waited := p.turns.Acquire(x.ctx, x.addr, 1, p.queueTime)
	if ok {
		x.turnMu.Lock()
		x.turnOf = x.addr
		x.turnMu.Unlock()
	}
	switch {
	case x.c.vigil.gone.Load():
	case !ok:
		return x.busy()
	case waited && x.c.gone():
		p.counters.add(requestsAbandoned)
	default:
		return proceed
	}
	x.ex.Note("client went away before its turn")
	return closing
}

// busy answers a request that gets no turn. There may be thousands, and no time for them, so
// only some are recorded.
func (x *request) busy() outcome {
	p := x.p
	p.counters.add(overload)
	// One record per tenth of a second.
	now, last := time.Now().UnixNano(), p.busyAt.Load()
	x.silent = now-last < int64(time.Second/10) || !p.busyAt.CompareAndSwap(last, now)
	if x.q.Proto == 10 {
		x.q.Close = true
	}
	return x.c.respond(x.ex.Busy("no turn within queue-time"), true)
}

// admit identifies the client and answers requests to the proxy itself; valid says whether the
// request names a host.
func (x *request) admit(valid bool) outcome {
	if valid && x.eng.Portal != nil {
		if o := x.visitPortal(); o != proceed {
			return o
		}
	}
	if o := x.identify(); o != proceed {
		return o
	}
	q, t, inside := x.q, x.t, x.inside != nil
	if valid && (inside || q.Form == message.Absolute) {
		if s := exchange.Sheet(&x.ex); s != nil {
			return x.reply(s)
		}
		if s := exchange.Download(&x.ex); s != nil {
			return x.reply(s)
		}
	}
	switch {
	case t.Host == exchange.OwnHost && q.Form != message.Authority:
		if x.ex.IsVote() {
			return x.reply(x.ex.Vote(x.ctx))
		}
		return x.reply(x.ex.OwnPage(x.ctx))
	case q.Form != message.Authority && valid && x.ex.IsVote():
		return x.reply(x.ex.Vote(x.ctx))
	case !inside && q.Form != message.Absolute && q.Form != message.Authority:
		t.Last = filter.Name
		return x.fail(400, "This is a web proxy, not a web site. Enter its address and port in the proxy settings of the browser or the system.", "request in origin form")
	case !valid:
		return x.fail(400, "The address has no valid host name.", "invalid host")
	case x.looped():
		x.p.counters.add(loops)
		return x.fail(508, "The request came back to this proxy: a loop.", "loop: the request carries our mark")
	case inside && q.Form == message.Authority:
		return x.fail(405, "This is a web site to the browser, not a proxy.", "CONNECT inside of TLS")
	case !inside && q.Form != message.Authority && q.Scheme != "http" && q.Scheme != "https":
		return x.fail(501, "This proxy speaks http and https, not ftp or other schemes.", "scheme "+q.Scheme)
	case !inside && q.Form != message.Authority && q.Scheme == "https" && !x.p.connectPorts.has(t.Port):
		return x.fail(403, "Tunnels to port "+strconv.Itoa(int(t.Port))+" are not allowed.", "connect-ports")
	case q.Form != message.Authority && q.Scheme != "https" && (!inside || x.inside.scheme == "http" && x.inside.asked == "") && !x.p.safePorts.has(t.Port):
		return x.fail(403, "Requests to port "+strconv.Itoa(int(t.Port))+" are not allowed.", "safe-ports")
	case (q.Method == "TRACE" || q.Method == "OPTIONS") && q.Form != message.Authority && string(q.Get("Max-Forwards")) == "0":
		return x.reply(x.ex.LastHop())
	}
	return proceed
}

// identify identifies the client.
func (x *request) identify() outcome {
	if known := x.eng.Identifier; known != nil {
		x.ex.Private = known.FieldNames() // inside of a tunnel they are the client's own
	}
	if d := x.inside; d != nil {
		if d.scheme == "http" && d.asked == "" || d.stranger {
			err := x.identifyByAddress(d)
			x.q.Close = x.q.Close || d.stranger
			switch {
			case exchange.SignInPage(err) != "" || exchange.AsksToRetry(err):
				return x.reply(x.ex.AnswerUnidentified(err))
			case d.stranger && err == nil: // it has signed in, and must reconnect on a connection that is judged
				return x.reply(x.ex.Reply(307, "", nil, "Location", x.t.URL))
			}
			if err != nil {
				return x.fail(403, "The proxy does not know you.", "identify: "+err.Error())
			}
		}
		if d.admitted != nil && !exchange.MayReach(d.admitted, x.t.Host) {
			switch err := x.identifyByAddress(d); {
			case err == nil: // it has signed in meanwhile
				d.admitted = nil
			case exchange.SignInPage(err) != "" || exchange.AsksToRetry(err):
				return x.reply(x.ex.AnswerUnidentified(err))
			default: // a browser sends no credentials for a proxy on this connection
				return x.fail(403, "The proxy does not know you.", "identify: the connection was opened to a host that needs no sign-in; "+err.Error())
			}
		}
		x.t.Client = d.client // known since CONNECT, the hello, or just now
		return proceed
	}
	addr := x.addr
	if x.trusted {
		addr = x.forwardedFor(addr)
	}
	who, err := identifyClient(x, addr)
	if !who.Addr.IsValid() {
		who.Addr = addr
	}
	x.t.Client = who
	if x.admitted = err; err == nil || exchange.MayReach(err, x.t.Host) {
		return proceed
	}
	return x.reply(x.ex.AnswerUnidentified(err))
}

// identifyByAddress identifies the client of a redirected connection, or of one that goes to a
// host, which cannot be asked for a password.
func (x *request) identifyByAddress(d *tlsState) error {
	addr := x.addr
	if d.client.Addr.IsValid() {
		addr = d.client.Addr // a trusted proxy has named it
	}
	who, err := x.eng.Identify(x.ctx, addr, nil)
	if !who.Addr.IsValid() {
		who.Addr = addr
	}
	d.client, x.t.Client = who, who
	if exchange.MayReach(err, x.t.Host) {
		return nil
	}
	return err
}

// forwardedFor returns the client's address in X-Forwarded-For.
func (x *request) forwardedFor(addr netip.Addr) netip.Addr {
	for i := len(x.q.Fields) - 1; i >= 0; i-- {
		f := x.q.Fields[i]
		if len(f.Name) != 15 || !message.EqualName(f.Name, "x-forwarded-for") {
			continue
		}
		client, ours, err := message.ForwardedFor(string(f.Value), addr, x.p.trusted)
		if err != nil {
			x.ex.Note(err.Error())
		}
		if addr = client; ours {
			break
		}
	}
	return addr
}

// forward judges the request, sends it upstream and returns the response.
func (x *request) forward() outcome {
	if s := x.ex.Accept(x.ctx); s != nil {
		return x.reply(s)
	}
	if !x.judgeHead() {
		return x.sendVerdict()
	}
	x.lendTurn()
	if x.q.Upgrade != nil && x.ex.Upgrade() == exchange.UpgradeRefused {
		return x.fail(403, "The proxy lets connections be upgraded to WebSocket only.", "upgrade to "+string(x.q.Upgrade)+" refused: no rule allows this host")
	}
	d := x.inside
	if d != nil && d.scheme == "http" {
		x.aim(d, x.t.Host)
	}
	if d == nil || d.scheme == "http" {
		x.p.fallbacks.take(x.addr, x.t.Host)
	}
	if x.q.Body != nil {
		x.c.use.begin(x.t, nil)
	}
	if x.q.Body != nil && x.ex.Wants(filter.RequestBody) {
		if o := x.inspectRequest(); o != proceed {
			return o
		}
	}
	s, err := x.response()
	switch {
	case err == errFaulty, err != nil && x.ex.UploadRefused():
		return x.sendVerdict()
	case err != nil:
		return x.inspectionFailed(err, x.upstreamError)
	case s.Status == 407 && x.t.Parent: // an origin may answer what it likes
		return x.fail(502, "The parent proxy refused our credentials.", "407 from upstream")
	}
	pass, inspect := x.ex.JudgeResponse(x.ctx, s)
	if pass && s.Body != nil && !s.Body.AtEnd() {
		x.c.use.begin(x.t, nil)
	}
	switch {
	case !pass:
		return x.sendVerdict()
	case s.Status == 101:
		return x.upgrade(s)
	case inspect:
		if o := x.inspectResponse(s); o != proceed {
			return o
		}
	}
	exchange.Edit(&x.ex, s)
	return x.c.respond(s, false)
}

// judgeHead judges a request's host and head, and reports whether it may continue. A request
// that names another host than its connection is judged for both.
func (x *request) judgeHead() bool {
	t, d := x.t, x.inside
	if d != nil {
		t.Findings = append(t.Findings, d.findings...)
	}
	if !x.ex.JudgeHead(x.ctx) {
		return false
	}
	if d == nil || t.Host == d.host {
		return true
	}
	x.ex.Note("Host names another site than the connection")
	named := judged(x)
	x.judgeFor(d.host)
	t.Findings = append(t.Findings, d.findings...)
	x.setURL()
	if !x.ex.JudgeHead(x.ctx) {
		return false
	}
	if named.verdict.Action == filter.Allow && t.Verdict.Action != filter.Allow {
		return true // allowed for its name but not for its destination
	}
	named.restore(x)
	return true
}

// inspectRequest judges the request's body.
func (x *request) inspectRequest() outcome {
	if x.q.Expect {
		if err := x.interim(&message.Response{Status: 100, Reason: []byte("Continue")}); err != nil {
			return x.lostClient(err)
		}
	}
	err := x.ex.InspectRequest(x.ctx)
	if err == nil {
		return proceed
	}
	if e, ok := errors.AsType[*message.Error](err); ok {
		return x.badBody(e)
	}
	return x.inspectionFailed(err, x.lostClient)
}

// inspectResponse judges the response's body.
func (x *request) inspectResponse(s *message.Response) outcome {
	answer, err := x.ex.InspectResponse(x.ctx, s)
	switch {
	case err != nil:
		return x.inspectionFailed(err, x.upstreamError)
	case answer != nil:
		return x.c.respond(answer, true)
	}
	return proceed
}

// inspectionFailed answers when a body could not be inspected; other handles errors of the
// body itself.
func (x *request) inspectionFailed(err error, other func(error) outcome) outcome {
	if err == exchange.ErrGone {
		return closing
	}
	if s := x.ex.Answer(x.ctx, err); s != nil {
		if s.Status == 503 {
			x.p.counters.add(overload)
		}
		return x.reply(s)
	}
	return other(err)
}

// response sends the request upstream, and again if the response is only a part of a body
// that must be judged.
func (x *request) response() (*message.Response, error) {
	s, err := x.roundTrip()
	if err != nil {
		return nil, err
	}
	again, err := x.ex.NeedsWhole(s)
	if !again || err != nil {
		return s, err
	}
	x.drop()
	return x.roundTrip()
}

// roundTrip sends the request upstream.
func (x *request) roundTrip() (*message.Response, error) {
	d := x.inside
	if d != nil && d.err != nil && !d.errSeen.Swap(true) {
		return nil, d.err
	}
	out := &x.ex.Out
	x.ex.MakeOutgoing(out)
	if via := x.p.via[x.q.Proto%10]; via != nil {
		out.Fields = append(out.Fields, message.Field{Name: viaName, Value: via})
	}
	out.Expect = out.Expect && !x.continued
	x.aimOutgoing(out)
	x.caller.Client, x.caller.User = x.t.Client.Addr, x.t.Client.User
	x.caller.Server, x.caller.Parent = netip.Addr{}, false
	x.t.Edits, x.caller.Note = x.ex.Edits, ""
	s, err := x.eng.Origins.RoundTrip(x.ctx, out)
	x.ex.Note(x.caller.Note)
	x.t.Server, x.t.Parent = x.caller.Server, x.caller.Parent
	x.res = s
	return s, err
}

// aimOutgoing sets the destination of out.
func (x *request) aimOutgoing(out *message.Request) {
	d, origin := x.inside, x.t.Host
	if d == nil {
		out.Scheme, x.caller.TLS = x.q.Scheme, nil
	} else {
		out.Scheme, out.Dial, origin = d.scheme, d.dial, d.host
		x.caller.TLS = &d.tls
		if len(out.Host) == 0 {
			out.Host = []byte(x.t.Host)
		}
	}
	for _, e := range x.ex.Edits {
		if e.Kind == filter.DialHost && x.t.Host == origin {
			out.Dial = e.Value
		}
	}
	if len(out.Dial) == len(out.Host) && message.EqualName(out.Host, out.Dial) {
		out.Dial = ""
	}
}

// upgrade switches the connection to another protocol.
func (x *request) upgrade(s *message.Response) outcome {
	if !x.ex.Upgraded(s) {
		return x.fail(502, "The server switched protocols without being asked.", "101 without Upgrade")
	}
	if _, ok := s.Body.(upstream.SwitchedBody); !ok {
		return x.fail(502, "The server switched protocols in a way that cannot be passed on.", "101 without a connection")
	}
	x.p.counters.add(upgrades)
	return x.c.upgrade(s)
}

// upstreamError answers when there is no response to forward.
func (x *request) upstreamError(err error) outcome {
	if x.c.vigil.gone.Load() {
		return x.lostClient(err)
	}
	if e, ok := errors.AsType[*upstream.BodyError](err); ok {
		if e, ok := errors.AsType[*message.Error](e.Err); ok {
			return x.badBody(e)
		}
		x.ex.Note("client went away while sending")
		return closing
	}
	if e, ok := errors.AsType[clientError](err); ok {
		return x.lostClient(e.error)
	}
	if r, ok := errors.AsType[*upstream.RefusedError](err); ok {
		return x.fail(403, "This address cannot be reached through the proxy: "+r.Why+".", "refused: "+r.Why)
	}
	x.p.counters.add(upstreamFailed)
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		if name.IsNotFound {
			return x.fail(502, "There is no host of this name.", err.Error())
		}
		return x.fail(504, "The name of the host could not be looked up.", err.Error())
	}
	if e, ok := errors.AsType[*message.Error](err); ok {
		return x.fail(502, "The server sent an invalid response: "+e.Reason+".", "invalid response: "+e.Reason)
	}
	if e, ok := errors.AsType[*upstream.HandshakeError](err); ok && !e.Timeout() {
		if e.WantsClientCert && x.inside != nil {
			x.p.unreadable.note(x.inside.pin(), "the origin asks for a certificate of the client")
		}
		return x.fail(502, handshakeText(e), err.Error())
	}
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout():
		return x.fail(504, "The server did not answer in time.", err.Error())
	case errors.Is(err, platform.ECONNREFUSED):
		return x.fail(502, "The server refused the connection.", err.Error())
	case errors.Is(err, io.ErrUnexpectedEOF):
		return x.fail(502, "The server closed the connection before its answer was complete.", err.Error())
	case errors.Is(err, io.EOF), errors.Is(err, platform.ECONNRESET), errors.Is(err, platform.EPIPE):
		return x.fail(502, "The server closed the connection without an answer.", err.Error())
	}
	return x.fail(502, "The server cannot be reached.", err.Error())
}

// badBody answers a request whose body is malformed.
func (x *request) badBody(e *message.Error) outcome {
	x.p.counters.add(malformed)
	x.q.Close = true
	return x.fail(400, "The body of the request is malformed: "+e.Reason+".", "request body refused: "+e.Reason)
}

// sendVerdict sends the response for the verdict.
func (x *request) sendVerdict() outcome { return x.reply(x.ex.VerdictResponse(x.ctx)) }

// fail sends an error page: reason is for the client, note for the operator.
func (x *request) fail(status int, reason, note string) outcome {
	return x.reply(x.ex.Fail(status, reason, note))
}

// reply sends a response of the proxy.
func (x *request) reply(s *message.Response) outcome {
	x.drop()
	return x.c.respond(s, true)
}

// intercepts reports whether the connection is to be decrypted.
func (x *request) intercepts() bool {
	in := x.eng.Intercept
	return in != nil && in.Wanted(x.t)
}

// handshakeText explains to a client why TLS with the origin failed, and who can remedy it.
func handshakeText(e *upstream.HandshakeError) string {
	switch {
	case e.WantsClientCert:
		return "The server asks for a certificate of the client, which the proxy cannot present. The network's administrator can let this site through undecrypted."
	case e.Old:
		return "The server and the proxy could not agree on a secure connection. The network's administrator can let it through undecrypted."
	}
	return "The server and the proxy could not agree on a secure connection. If the server is old, the network's administrator can allow old TLS for it."
}
