package proxy

import (
	"bytes"
	"io"
	"strings"
	"time"
)

// This file handles unencrypted requests in a tunnel. Browsers request a tunnel if a page
// opens a WebSocket without TLS, on any port. The content of such a tunnel is readable, so it
// is judged like any request.

// longestMethod exceeds the length of methods in use.
const longestMethod = 32

// isRequest reports whether a client's first bytes begin an HTTP/1 request; more, whether
// longer input might. The preface of HTTP/2 does not count.
func isRequest(b []byte) (is, more bool) {
	n := 0
	for n < len(b) && n < longestMethod && 'A' <= b[n] && b[n] <= 'Z' {
		n++
	}
	if n == len(b) {
		return false, n < longestMethod
	}
	if n == 0 || b[n] != ' ' || string(b[:n]) == "PRI" {
		return false, false
	}
	target := b[n+1:]
	for _, s := range [...]string{"/", "http://", "* "} {
		if bytes.HasPrefix(target, []byte(s)) {
			return true, false
		}
		more = more || strings.HasPrefix(s, string(target))
	}
	return false, more
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
	c.r.Reset(&rewoundConn{c.c, seen})
	c.until = time.Time{}
	c.c.SetDeadline(c.until)
	x.host, x.url = "", ""
	d.scheme, d.asked = "http", x.t.Host
	x.inside = d
	return another
}
