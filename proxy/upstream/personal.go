package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/message"
)

// This file keeps the connections on which a client signs in. NTLM and Negotiate sign in a
// connection rather than a request: whoever sends the next request on it is the person who
// signed in. Such a connection serves the client connection on which the sign-in came, and no
// other.

const (
	// maxPersonal is the limit of idle connections of a Session.
	maxPersonal = 32
	// signInTime is how long the next step of a sign-in is waited for, before another one to the
	// same place may begin. A program answers at once.
	signInTime = 3 * time.Second
	// uploadTime is how long the end of a request is waited for when its response is complete.
	uploadTime = 250 * time.Millisecond
)

// A Session has the connections to origins that belong to one client connection. Its zero value
// is empty. It is safe for concurrent use, and must be closed with the client connection.
type Session struct {
	// Streams says that the client sends requests concurrently (HTTP/2). Set it before the first
	// request.
	Streams bool

	used    atomic.Bool // there has been a connection
	mu      sync.Mutex
	closed  bool
	idle    []*conn // the latest one last
	two     *origins2
	signing map[string]*signing // sign-ins of streams in progress, by place
}

// A signing is a sign-in that has begun on a connection.
type signing struct {
	place string        // the connection's key, with method and path of the request
	token []byte        // which began it
	over  chan struct{} // closed when it has an answer, or its next step does not come
}

// credentials are those of a request that sign in its connection.
type credentials struct {
	sent  bool
	step  step
	token []byte
}

// A step is what a token does in a sign-in.
type step uint8

const (
	anyStep step = iota // unknown
	firstStep
	laterStep
)

// isOfConnection reports whether a scheme signs in connections. (RFC 4559, [MS-NTHT], [MS-CSSP].)
func isOfConnection(scheme []byte) bool {
	switch strings.ToLower(string(scheme[:min(len(scheme), 10)])) {
	case "ntlm", "negotiate", "kerberos", "nego2", "credssp":
		return true
	}
	return false
}

// credentialsOf returns the credentials of q that sign in its connection.
func credentialsOf(q *message.Request) (c credentials) {
	for i := range q.Fields {
		f := &q.Fields[i]
		if n := len(f.Name); n != 13 && n != 19 || !message.EqualName(f.Name, "authorization") && !message.EqualName(f.Name, "proxy-authorization") {
			continue
		}
		scheme, token, _ := bytes.Cut(bytes.TrimSpace(f.Value), []byte(" "))
		if isOfConnection(scheme) {
			c.sent, c.token = true, bytes.TrimSpace(token)
		}
	}
	if c.sent {
		c.step = stepOf(c.token)
	}
	return c
}

// stepOf returns the step of a token, of NTLM ([MS-NLMP] section 2.2.1) or SPNEGO (RFC 4178
// section 4.2).
func stepOf(token []byte) step {
	head := make([]byte, 9)
	n, _ := base64.StdEncoding.Decode(head, token[:min(len(token), 12)])
	switch head = head[:n]; {
	case n == 9 && string(head[:8]) == "NTLMSSP\x00" && head[8] == 1, n > 0 && head[0] == 0x60:
		return firstStep
	case n == 9 && string(head[:8]) == "NTLMSSP\x00", n > 0 && head[0] == 0xa1:
		return laterStep
	}
	return anyStep
}

// challenges reports whether a response offers to sign in the connection, and whether it is a
// step of that, after which the client sends another one.
func challenges(s *message.Response) (offered, step bool) {
	if s.Status != 401 && s.Status != 407 {
		return false, false
	}
	for i := range s.Fields {
		f := &s.Fields[i]
		if n := len(f.Name); n != 16 && n != 18 || !message.EqualName(f.Name, "www-authenticate") && !message.EqualName(f.Name, "proxy-authenticate") {
			continue
		}
		for rest := f.Value; len(rest) > 0; {
			var one []byte
			one, rest = cutChallenge(rest)
			scheme, token, _ := bytes.Cut(one, []byte(" "))
			if isOfConnection(scheme) {
				offered, step = true, step || len(token) > 0
			}
		}
	}
	return offered, step
}

// cutChallenge cuts a list at its first comma outside quotes.
func cutChallenge(list []byte) (first, rest []byte) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			return bytes.TrimSpace(list[:i]), list[i+1:]
		}
	}
	return bytes.TrimSpace(list), nil
}

// ownKey returns the key of connections to the destination of q in a Session: that of the pool
// without the protocol, the origin behind a parent, and the person, because a connection of a
// proxy in front of us carries requests of many.
func (c *Caller) ownKey(q *message.Request, d *destination) string {
	b := bytes.TrimSuffix(bytes.Clone(c.key), []byte(keyH2))
	if d.toParent && d.tls == nil {
		b = append(appendClean(append(b, '|'), q.Host), '|')
		b = appendPort(b, d.port)
	}
	b = append(append(b, '\n'), c.Client.String()...)
	return string(append(append(b, '\n'), c.User...))
}

// begin returns the sign-in that a request with credentials belongs to; nil for one without, or
// where requests come one after the other. A token does not say which challenge it answers. So
// of concurrent requests for the same place, one signs in at a time: begin waits until the
// sign-in before is over.
func (s *Session) begin(ctx context.Context, key string, q *message.Request, c *credentials) (*signing, error) {
	if s == nil || !s.Streams || !c.sent {
		return nil, nil
	}
	place := key + "\n" + q.Method + " " + string(q.Path)
	for {
		s.mu.Lock()
		now := s.signing[place]
		if now == nil {
			if s.signing == nil {
				s.signing = map[string]*signing{}
			}
			now = &signing{place: place, token: bytes.Clone(c.token), over: make(chan struct{})}
			s.signing[place] = now
			s.mu.Unlock()
			return now, nil
		}
		s.mu.Unlock()
		if c.step == laterStep || c.step == anyStep && !bytes.Equal(c.token, now.token) {
			return now, nil
		}
		timer := time.NewTimer(signInTime)
		select {
		case <-now.over:
		case <-timer.C:
			s.end(now)
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// end ends a sign-in, if there is one, so that the next one to its place may begin.
func (s *Session) end(g *signing) {
	if g == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signing[g.place] == g {
		delete(s.signing, g.place)
		close(g.over)
	}
}

// take returns an idle connection for key, or nil. Where requests come one after the other, the
// next one goes where the one before went. A stream goes on with its own sign-in, and otherwise
// leaves connections in the middle of one alone.
func (s *Session) take(key string, g *signing) *conn {
	for {
		u := s.find(key, g)
		if u == nil || u.alive() {
			return u
		}
		u.Close()
	}
}

func (s *Session) find(key string, g *signing) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := -1
	for i, u := range s.idle {
		if u.own != key || u.signing != nil && u.signing != g {
			continue
		}
		if at = i; u.signing != nil {
			break
		}
	}
	if at < 0 {
		return nil
	}
	u := s.idle[at]
	s.idle = append(s.idle[:at], s.idle[at+1:]...)
	return u
}

// put keeps u for the client's next request, instead of the oldest one if there are too many.
func (s *Session) put(u *conn) {
	over := u
	if s != nil {
		s.mu.Lock()
		if !s.closed {
			s.used.Store(true)
			s.idle = append(s.idle, u)
			if over = nil; len(s.idle) > maxPersonal {
				over = s.idle[0]
				s.idle = append(s.idle[:0], s.idle[1:]...)
			}
		}
		s.mu.Unlock()
	}
	if over != nil {
		over.Close()
	}
}

// connections2 returns the client's own HTTP/2 connections, to origins that speak nothing else.
// It returns nil if they could not be kept apart from those of others.
func (s *Session) connections2(t *Transport) *origins2 {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.used.Store(true)
	if s.two == nil {
		s.two = &origins2{transport: t.two.transport, byKey: map[string][]*origin2{}}
	}
	return s.two
}

// take2 returns one of the client's own HTTP/2 connections, or nil.
func (s *Session) take2(key string) *origin2 {
	s.mu.Lock()
	two := s.two
	s.mu.Unlock()
	if two == nil {
		return nil
	}
	return two.get(key)
}

// Close closes the connections. No request may be sent for the client connection any more.
func (s *Session) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	all, two := s.idle, s.two
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	for _, u := range all {
		u.Close()
	}
	if two != nil {
		two.sweep(true)
	}
}
