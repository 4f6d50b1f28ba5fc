package proxy

import (
	"bytes"
	"io"
	"strings"
	"time"
)

// This file is about requests that are not encrypted within a tunnel. Browsers
// ask for a tunnel where a page opens a WebSocket without TLS, on whichever port.
// What such a tunnel holds can be seen, so it is judged like any request.

// longestMethod is longer than the methods in use.
const longestMethod = 32

// isRequest says whether a client's first bytes begin an HTTP/1 request; more,
// that they may when there are more of them. The preface of HTTP/2 is none.
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

// requestWithin reads on in first, the client's first bytes in a tunnel, until it
// is clear whether they begin a request.
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

// serveWithin makes requests of what follows in the tunnel that was asked for.
// first is what the client has sent.
func (c *conn) serveWithin(d *decrypted, first []byte) outcome {
	x := &c.x
	x.Note("requests without TLS in the tunnel")
	seen := append(bytes.Clone(first), c.r.Buffered()...)
	c.r.Reset(&rewound{c.c, seen})
	c.until = time.Time{}
	c.c.SetDeadline(c.until)
	x.host, x.url = "", ""
	d.scheme, d.asked = "http", x.T.Host
	x.inside = d
	return another
}
