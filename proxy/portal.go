package proxy

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// maxForm bounds the body of a request to the portal; its forms are smaller.
const maxForm = 64 << 10

// visitPortal answers a request for the gateway's portal, which a client may visit before it has
// signed in. The portal must know whose request it is, so no connection of the proxy carries it.
// The addresses of a sign-in contain codes: such requests are not recorded.
func (x *request) visitPortal() outcome {
	q, t := x.q, x.t
	tunnel := q.Form == message.Authority
	if x.inside != nil || !tunnel && (q.Form != message.Absolute || q.Scheme != "http") {
		return proceed
	}
	local, _ := endpoint(x.c.socket.LocalAddr())
	if there, tls := x.eng.Portal.Has(t.Host, t.Port, local.Addr()); !there || tls != tunnel {
		return proceed
	}
	x.silent = true
	t.Verdict.Action = filter.Allow // so that it uses no quota
	addr := x.addr
	if x.trusted {
		addr = x.forwardedFor(addr)
	}
	from := netip.AddrPortFrom(addr, 0)
	if tunnel {
		return x.c.openPortal(from)
	}
	r, err := x.portalRequest(from)
	if err != nil {
		return x.fail(400, "The request to the portal cannot be read.", err.Error())
	}
	w := &portalAnswer{head: http.Header{}, status: 200}
	x.eng.Portal.ServeHTTP(w, r)
	var fields []string
	for name, all := range w.head {
		for _, v := range all {
			if name != "Content-Type" && name != "X-Content-Type-Options" && name != "Cache-Control" && name != "Content-Length" { // our own reply has these
				fields = append(fields, name, v)
			}
		}
	}
	return x.reply(x.ex.Reply(w.status, w.head.Get("Content-Type"), w.body.Bytes(), fields...))
}

// portalRequest returns the request as the portal's own server would read it.
func (x *request) portalRequest(from netip.AddrPort) (*http.Request, error) {
	q := x.q
	u, err := url.ParseRequestURI(string(q.Path))
	if err != nil {
		return nil, err
	}
	r := &http.Request{Method: q.Method, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, RequestURI: string(q.Path), RemoteAddr: from.String(), Body: http.NoBody,
		Host: string(appendHost(nil, x.t.Host))}
	if x.t.Port != 80 {
		r.Host = hostPort(x.t.Host, x.t.Port)
	}
	for _, f := range q.Fields {
		if name := http.CanonicalHeaderKey(string(f.Name)); name != "Proxy-Authorization" && name != "X-Forwarded-For" {
			r.Header.Add(name, string(f.Value))
		}
	}
	if q.Body != nil {
		body, err := io.ReadAll(io.LimitReader(q.Body, maxForm))
		if err != nil {
			return nil, err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return r.WithContext(x.ctx), nil
}

// A portalAnswer is the answer of the portal.
type portalAnswer struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

func (w *portalAnswer) Header() http.Header         { return w.head }
func (w *portalAnswer) WriteHeader(status int)      { w.status = status }
func (w *portalAnswer) Write(b []byte) (int, error) { return w.body.Write(b) }

// openPortal makes the connection one to the portal.
func (c *conn) openPortal(from netip.AddrPort) outcome {
	x := &c.x
	head := x.proof.established()
	c.vigil.speak()
	if _, err := c.c.Write(head); err != nil {
		return x.lostClient(err)
	}
	x.t.Status, x.t.HeadOut = 200, int64(len(head))
	x.yield()
	x.removeLimit()
	near := &portalConn{c.rewound(bytes.Clone(c.r.Buffered())), net.TCPAddrFromAddrPort(from)}
	c.r.Discard(len(c.r.Buffered()))
	x.eng.Portal.ServeClient(x.ctx, near)
	return closing
}

// A portalConn is the connection of a client that a trusted proxy may have named.
type portalConn struct {
	*rewoundConn
	from net.Addr
}

func (c *portalConn) RemoteAddr() net.Addr { return c.from }
