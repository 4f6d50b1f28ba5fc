package proxy

import (
	"bytes"
	"io"
	"strings"
	"time"
)

// This file handles unencrypted requests in a tunnel. Browsers request a tunnel if a page
// opens a WebSocket without TLS, on any port. The content of such a tunnel is readable, so it
// is judged like any request; what only a lenient server would read is refused.

// longestMethod exceeds the length of methods in use.
const longestMethod = 64

// proxyHeader begins a header of the PROXY protocol, version 2 (version 1 reads like a request).
const proxyHeader = "\r\n\r\n\x00\r\nQUIT\n"

// isRequest reports whether a server might read a client's first bytes as an HTTP request; more,
// whether longer input might be one. Servers read more than the standards allow: empty lines and
// blanks before the request, methods in small letters or of their own, several blanks. Such a
// request, the preface of HTTP/2, and a header of the PROXY protocol, after which anything may
// follow, are for the proxy's strict parser, which refuses them: what it cannot read goes nowhere.
func isRequest(b []byte) (is, more bool) {
	if len(b) > 0 && strings.HasPrefix(proxyHeader, string(b[:min(len(b), len(proxyHeader))])) {
		return len(b) >= len(proxyHeader), len(b) < len(proxyHeader)
	}
	b = bytes.TrimLeft(b, "\r\n\t ")
	n := 0
	for n < len(b) && n < longestMethod && isToken(b[n]) {
		n++
	}
	if n == len(b) {
		return false, n < longestMethod
	}
	if n == 0 || b[n] != ' ' && b[n] != '\t' {
		return false, false
	}
	method := string(b[:n])
	target := bytes.ToLower(bytes.TrimLeft(b[n:], "\t "))
	if method == "PROXY" { // version 1
		return true, false
	}
	for _, s := range [...]string{"/", "http://", "https://", "* "} {
		if bytes.HasPrefix(target, []byte(s)) {
			return true, false
		}
		more = more || strings.HasPrefix(s, string(target))
	}
	return false, more
}

// isToken reports whether a method may contain c (RFC 9110 section 5.6.2).
func isToken(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// requestWithin continues to read after first, the client's first bytes in a tunnel, until it
// is known whether they begin a request.
func requestWithin(r io.Reader, first []byte) (all []byte, is bool) {
	for {
		is, more := isRequest(first)
		if is || !more {
			return first, is
		}
		var b [256]byte
		n, err := r.Read(b[:])
		first = append(first, b[:n]...)
		if err != nil {
			return first, false
		}
	}
}

// serveWithin serves the requests in the requested tunnel. first has bytes already read from
// the client.
func (c *conn) serveWithin(d *tlsState, first []byte) outcome {
	x := &c.x
	x.ex.Note("requests without TLS in the tunnel")
	seen := append(bytes.Clone(first), c.r.Buffered()...)
	c.r.Reset(c.rewound(seen))
	c.until = time.Time{}
	c.c.SetDeadline(c.until)
	x.host, x.url = "", ""
	d.scheme, d.asked = "http", x.t.Host
	x.inside = d
	return another
}
