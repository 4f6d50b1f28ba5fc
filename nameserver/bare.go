package nameserver

import (
	"net/netip"
	"strings"
	"time"

	"shuultuur/lib/message"
)

// DNS over HTTPS without TLS, for a proxy in front of the server that ends it. A connection may carry
// the requests of many clients, which X-Forwarded-For names.

// serveBare serves a connection of a proxy: HTTP/2 if it begins so, else HTTP/1.1.
func (s *Server) serveBare(x *conn) {
	defer x.Close()
	x.bare = true
	x.Conn.SetReadDeadline(time.Now().Add(s.rules.Load().idle))
	if x.begins(preface) {
		s.serveHTTP2(x, x)
	} else {
		s.serveHTTP1(x, x)
	}
}

// begins reports whether a connection begins with a text, which stays to be read.
func (x *conn) begins(text string) bool {
	var read []byte
	for len(read) < len(text) && strings.HasPrefix(text, string(read)) {
		var b [len(preface)]byte
		n, err := x.Read(b[:len(text)-len(read)])
		if read = append(read, b[:n]...); err != nil {
			break
		}
	}
	x.rest = append(read, x.rest...)
	return string(read) == text
}

// clientOf returns the client of a request with a list of X-Forwarded-For, which counts where it comes
// from a trusted network. ok is false if such a list names no address.
func (x *conn) clientOf(list string) (client netip.AddrPort, ok bool) {
	g := x.s.rules.Load()
	if !g.trusted.contain(x.client.Addr()) {
		return x.client, true
	}
	if list == "" {
		x.s.nameless.Do(func() {
			x.s.logger.Warn("a proxy in front of dns: http sends no X-Forwarded-For: all its clients count as the proxy", "from", x.client.Addr())
		})
		return x.client, true
	}
	a, _, err := message.ForwardedFor(list, x.client.Addr(), g.proxies)
	if err != nil {
		x.s.drop(badPROXY)
		return x.client, false
	}
	return netip.AddrPortFrom(a, 0), true
}

// altSvc announces HTTP/3 on the port of a connection with TLS.
func (x *conn) altSvc() string {
	if x.bare {
		return ""
	}
	return altSvc(x.port())
}
