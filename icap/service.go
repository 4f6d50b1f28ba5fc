package icap

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	wire "shuultuur/lib/message/icap"
	"shuultuur/proxy/exchange"
)

// services are the names of the services. Those of e2guardian work too.
var services = map[string]string{"reqmod": "REQMOD", "request": "REQMOD", "respmod": "RESPMOD", "response": "RESPMOD"}

// serve answers a request whose heads and preview have been read.
func (c *conn) serve(ctx context.Context) error {
	method, ok := services[c.h.service]
	if !ok {
		return wire.Refuse(404, "there is no service %q; ask for /reqmod or /respmod", c.h.service)
	}
	switch {
	case c.h.method == "OPTIONS":
		return c.options(method)
	case c.h.parts.Options:
		return wire.Bad("opt-body is for OPTIONS, not for %s", c.h.method)
	case c.h.method != method:
		return wire.Refuse(405, "%s is for %s", c.h.service, method)
	case method == "REQMOD":
		c.s.add(reqmods)
		return c.reqmod(ctx)
	}
	c.s.add(respmods)
	return c.respmod(ctx)
}

// options describes the service to the client (RFC 3507, 4.10).
func (c *conn) options(method string) error {
	c.s.add(options)
	c.out = c.status(c.out, 200)
	c.out = append(c.out, "Methods: "+method+"\r\nService: Shuultuur\r\nService-ID: "...)
	c.out = append(c.out, strings.ToLower(method)...)
	if c.s.most < 1<<31 {
		c.out = append(c.out, "\r\nMax-Connections: "...)
		c.out = strconv.AppendInt(c.out, c.s.most, 10)
	}
	c.out = append(c.out, "\r\nOptions-TTL: 60\r\nAllow: 204, 206\r\nPreview: "...)
	c.out = strconv.AppendInt(c.out, int64(c.s.preview), 10)
	c.out = append(c.out, "\r\nTransfer-Preview: *\r\nX-Include: X-Client-IP, X-Server-IP, "+c.s.names.shown+"\r\nEncapsulated: null-body=0\r\n\r\n"...)
	return c.flush()
}

// reqmod judges a request.
func (c *conn) reqmod(ctx context.Context) error {
	p := &c.h.parts
	if p.Req <= 0 || p.Res >= 0 || p.ForAnswer {
		return wire.Bad("REQMOD needs req-hdr, and req-body or null-body")
	}
	x := c.begin()
	keep := false
	defer func() {
		if !keep {
			c.s.finish(x)
		}
	}()
	answer, err := c.judgeRequest(ctx, x)
	if err != nil {
		return err
	}
	if answer != nil {
		return c.answer(x, answer)
	}
	x.MakeOutgoing(&x.out)
	changed := c.changes(x)
	for _, e := range x.Edits {
		if e.Kind == filter.DialHost {
			x.Note("the proxy that asks decides where to connect: " + e.Value + " is not used")
		}
	}
	if x.Q.Form != message.Authority {
		c.id = x.T.ID
	}
	if err := c.pass(x, changed); err != nil {
		return err
	}
	if x.Q.Form == message.Authority {
		return c.flush()
	}
	c.key = c.appendKey(c.key[:0], x.Q.Method)
	c.key = appendURL(c.key, scheme(&x.T), &x.T, x.out.Path)
	x.credentials = string(c.credentials(&x.Q))
	x.T.Duration = time.Since(x.T.Start)
	x.End() // releases held data; the transaction continues
	x.Q.Body = nil
	if keep = c.s.pending.put(c.key, x); !keep && c.s.pending.most > 0 {
		c.s.add(pendingFull)
	}
	return c.flush() // not before put: the response may come at once
}

// begin makes a transaction.
func (c *conn) begin() *transaction {
	x := c.s.pool.Get().(*transaction)
	now := time.Now()
	x.Begin(&c.engine.judge, now, c.s.ids.Next(now))
	x.Interrupt = c.net.stop
	x.portal = false
	x.HeadFirst = true // Squid stops sending after 64 KiB until then
	return x
}

// judgeRequest judges a request. It returns the answer to give instead of the
// request, or nil.
func (c *conn) judgeRequest(ctx context.Context, x *transaction) (*message.Response, error) {
	if err := c.httpRequest(c.heads[:c.h.parts.Req], &x.Q); err != nil {
		if e, ok := errors.AsType[*message.Error](err); ok {
			c.s.add(malformed)
			x.T.Client.Addr = c.clientAddr()
			return x.Fail(e.Status, "The request is malformed: "+e.Reason+".", "request refused: "+e.Reason), nil
		}
		return nil, err
	}
	x.Q.Body, x.Q.Length = nil, message.None
	if c.h.parts.Body && !c.h.parts.ForAnswer {
		x.Q.Body, x.Q.Length = &c.body, message.Chunked
	}
	if s := c.identify(ctx, x); s != nil || x.portal {
		return s, nil
	}
	if s := x.Accept(ctx); s != nil {
		return s, nil
	}
	if !x.JudgeHead(ctx) {
		return x.VerdictResponse(ctx), nil
	}
	if x.Q.Upgrade != nil && x.Upgrade() == exchange.UpgradeRefused {
		return x.Fail(403, "The proxy lets connections be upgraded to WebSocket only.", "upgrade to "+string(x.Q.Upgrade)+" refused: no rule allows this host"), nil
	}
	if x.Q.Body == nil || x.Q.Body.AtEnd() || !x.Wants(filter.RequestBody) {
		return nil, nil
	}
	if err := c.requestRest(); err != nil {
		return nil, err
	}
	if err := x.InspectRequest(ctx); err != nil {
		if s := x.Answer(ctx, err); s != nil {
			return s, nil
		}
		x.Note(err.Error())
		return nil, err
	}
	return nil, nil
}

// identify identifies the destination and the client. It returns an answer if the
// request is refused or addressed to us.
func (c *conn) identify(ctx context.Context, x *transaction) *message.Response {
	q, t := &x.Q, &x.T
	t.Server = c.h.server
	valid := fillAddress(t, q)
	err := c.identifyClient(ctx, x)
	x.portal = valid && err != nil && exchange.AtSignIn(err, t)
	switch {
	case x.portal: // else nobody could sign in
		t.Verdict.Action = filter.Allow
		return nil
	case err != nil && !exchange.MayReach(err, t.Host):
		return x.AnswerUnidentified(err)
	case t.Host == exchange.OwnHost && q.Form != message.Authority:
		return x.OwnPage(ctx)
	case !valid:
		return x.Fail(400, "The address has no valid host name.", "invalid host")
	case q.Form != message.Authority:
		return exchange.Download(&x.Exchange)
	}
	return nil
}

// identifyClient sets the client: the user that the proxy names, or whoever is
// known by address or credentials.
func (c *conn) identifyClient(ctx context.Context, x *transaction) (err error) {
	if len(c.h.users) > 0 {
		x.T.Client = c.engine.Named(ctx, c.clientAddr(), c.h.users, c.h.groups, "icap")
		return nil
	}
	x.T.Client, err = c.engine.Identify(ctx, c.clientAddr(), c.credentials(&x.Q))
	return err
}

// credentials returns those of the client, which proxies send in the ICAP head or
// leave in the request; nil if there are none.
func (c *conn) credentials(q *message.Request) []byte {
	if c.h.authorization != nil {
		return c.h.authorization
	}
	return q.Get("Proxy-Authorization")
}

func (c *conn) clientAddr() netip.Addr {
	if c.h.client.IsValid() {
		return c.h.client
	}
	return c.peer
}

// respmod judges a response.
func (c *conn) respmod(ctx context.Context) error {
	p := &c.h.parts
	switch {
	case p.Body && !p.ForAnswer, p.Res <= 0 && !p.Body:
		return wire.Bad("RESPMOD needs res-hdr or res-body")
	case p.Res <= 0: // the head may be omitted
		c.heads = append(c.heads[:max(p.Req, 0)], "HTTP/1.1 200 OK\r\n\r\n"...)
	}
	x, answer, err := c.requestOf(ctx)
	if x != nil {
		defer c.s.finish(x)
	}
	if err != nil {
		return err
	}
	if answer != nil {
		return c.answer(x, answer)
	}
	s := &x.res
	if err := c.httpResponse(c.heads[max(p.Req, 0):], s, x.Q.Method); err != nil {
		if e, ok := errors.AsType[*message.Error](err); ok {
			c.s.add(malformed)
			return c.answer(x, x.Fail(502, "The server sent an invalid response: "+e.Reason+".", "invalid response: "+e.Reason))
		}
		return err
	}
	s.Body = nil
	if p.Body {
		s.Body = &c.body
	}
	if c.h.server.IsValid() {
		x.T.Server = c.h.server
	}
	pass, inspect := true, false
	if !x.portal {
		pass, inspect = x.JudgeResponse(ctx, s)
	}
	switch {
	case !pass:
		return c.answer(x, x.VerdictResponse(ctx))
	case inspect:
		if err := c.requestRest(); err != nil {
			return err
		}
		answer, err := x.InspectResponse(ctx, s)
		if err != nil {
			answer = x.Answer(ctx, err)
		}
		switch {
		case answer != nil:
			return c.answer(x, answer)
		case err != nil:
			x.Note(err.Error())
			return err
		}
	}
	return c.passResponse(x)
}

// requestOf returns the transaction of a response: that of the waiting request,
// or a new one whose request is judged now, for the client that the response names.
func (c *conn) requestOf(ctx context.Context) (*transaction, *message.Response, error) {
	if c.h.parts.Req <= 0 { // the request may be omitted (RFC 3507, 4.9.1)
		x := c.begin()
		x.Q = message.Request{Method: "GET", Fields: x.Q.Fields[:0]}
		if err := c.identifyClient(ctx, x); err != nil {
			return x, x.AnswerUnidentified(err), nil
		}
		return x, nil, nil
	}
	if err := c.httpRequest(c.heads[:c.h.parts.Req], &c.asked); err == nil {
		var t filter.Transaction
		fillAddress(&t, &c.asked)
		c.key = c.appendKey(c.key[:0], c.asked.Method)
		c.key = appendURL(c.key, scheme(&t), &t, c.asked.Path)
		if x := c.s.pending.get(c.key, c.h.id, c.credentials(&c.asked)); x != nil {
			c.s.add(matched)
			x.Interrupt = c.net.stop
			return x, nil, nil
		}
	}
	x := c.begin()
	answer, err := c.judgeRequest(ctx, x)
	return x, answer, err
}

// requestRest asks for the rest after the preview.
func (c *conn) requestRest() error {
	if c.h.preview < 0 || !c.body.more {
		return nil
	}
	c.body.continued = true
	_, err := c.net.Write([]byte("ICAP/1.0 100 Continue\r\n\r\n"))
	c.net.wrote = false // the answer is still to come
	return err
}

// fillAddress sets the destination of a request and reports whether it names a host.
func fillAddress(t *filter.Transaction, q *message.Request) bool {
	scheme := cmp.Or(q.Scheme, "http")
	if t.Port = q.Port; t.Port == 0 {
		t.Port = defaultPort(scheme)
	}
	ok := true
	if bytes.IndexByte(q.Host, ':') >= 0 {
		a, err := netip.ParseAddr(string(q.Host))
		t.Host, ok = a.Unmap().String(), err == nil
	} else {
		t.Host, ok = exchange.CleanHost(q.Host)
	}
	if q.Form == message.Authority {
		t.Proto, t.Last = filter.TLS, filter.Name
		t.URL = net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port)))
		return ok
	}
	t.URL = string(appendURL(make([]byte, 0, len(scheme)+len(t.Host)+len(q.Path)+12), scheme, t, q.Path))
	return ok
}

func defaultPort(scheme string) uint16 {
	switch scheme {
	case "https", "wss":
		return 443
	case "ftp":
		return 21
	}
	return 80
}

// appendKey appends the key, without the URL, by which a response finds its
// request. It has everything by which a proxy tells its clients apart, since several
// may have one address.
func (c *conn) appendKey(dst []byte, method string) []byte {
	dst = append(c.peer.AppendTo(dst), ' ')
	dst = append(c.clientAddr().AppendTo(dst), ' ')
	dst = strconv.AppendQuote(dst, c.h.port)
	for _, names := range [...][]string{c.h.users, c.h.groups} {
		for _, n := range names {
			dst = strconv.AppendQuote(dst, n)
		}
		dst = append(dst, ' ')
	}
	return append(append(append(dst, ' '), method...), ' ')
}

// scheme returns the scheme of the URL of t.
func scheme(t *filter.Transaction) string {
	s, _, _ := strings.Cut(t.URL, "://")
	return s
}

// appendURL appends a URL with the host and port of t.
func appendURL(dst []byte, scheme string, t *filter.Transaction, path []byte) []byte {
	dst = append(append(dst, scheme...), "://"...)
	if strings.IndexByte(t.Host, ':') >= 0 {
		dst = append(append(append(dst, '['), t.Host...), ']')
	} else {
		dst = append(dst, t.Host...)
	}
	if t.Port != defaultPort(scheme) {
		dst = strconv.AppendUint(append(dst, ':'), uint64(t.Port), 10)
	}
	if string(path) != "*" {
		dst = append(dst, path...)
	}
	return dst
}

// changes reports whether the forwarded request differs from the received one.
func (c *conn) changes(x *transaction) bool {
	if x.Q.Form == message.Authority {
		return false
	}
	if !bytes.Equal(x.out.Path, x.Q.Path) {
		return true
	}
	for _, e := range x.Edits {
		if e.Kind == filter.SetHeader {
			return true
		}
	}
	for _, name := range []string{"Cookie", "Accept-Encoding"} {
		if !bytes.Equal(x.out.Get(name), x.Q.Get(name)) {
			return true
		}
	}
	return false
}
