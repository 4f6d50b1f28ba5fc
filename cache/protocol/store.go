package protocol

import (
	"bytes"
	"time"

	"shuultuur/message"
)

// Safe says whether a method changes nothing at the origin (RFC 9110, 9.2.1),
// so that stored responses stay valid. Unknown methods are not safe.
func Safe(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY":
		return true
	}
	return false
}

// Storable says whether the response s to q may be stored by a shared cache
// (RFC 9111, 3), f being its facts. personal says that the content was
// encrypted on its way here: then what is meant for one person is never stored,
// whatever the origin permits. why is "" or what speaks against it, for the
// parameter of Cache-Status and for people.
func Storable(q *message.Request, s *message.Response, f *Facts, asked *Directives, personal bool) (why string) {
	c := &f.Control
	switch {
	case s.Status < 200 || s.Status == 304 || s.Status == 416:
		return "status"
	case s.Status == 206 && q.Method != "GET" && q.Method != "HEAD": // which brings a stored part up to date
		return "status"
	case asked.NoStore:
		return "request-no-store"
	case c.MustUnderstand && !understood(s.Status):
		return "must-understand"
	case c.NoStore && !c.MustUnderstand:
		return "no-store"
	case c.Private:
		return "private"
	case q.Has("Authorization") && !c.Public && (personal || !c.MustRevalidate && c.SMaxAge < 0):
		return "authorization"
	case varies(s.Fields):
		return "vary"
	}
	if why := storableCookies(q, s, f, personal); why != "" {
		return why
	}
	explicit := c.SMaxAge >= 0 || c.MaxAge >= 0 || s.Has("Expires") || c.Public
	switch {
	case !explicit && !Heuristic(s.Status):
		return "not-cacheable"
	case q.Method == "POST" && (f.Heuristic || f.Lifetime <= 0):
		return "method"
	case f.useful():
		return ""
	}
	return "stale"
}

// storableCookies says whether cookies speak against storing.
func storableCookies(q *message.Request, s *message.Response, f *Facts, personal bool) (why string) {
	switch {
	case s.Has("Set-Cookie") && (personal || f.Heuristic || f.Lifetime <= 0 && !f.Control.Public):
		return "set-cookie"
	case personal && q.Has("Cookie") && !f.Control.Public && f.Control.SMaxAge < 0:
		return "cookie"
	}
	return ""
}

// useful says whether a stored response could ever be of use: it is fresh for a
// time, may be used while it is stale, or can be validated.
func (f *Facts) useful() bool {
	if f.Tag != nil || !f.Modified.IsZero() {
		return true
	}
	return !f.Control.NoCache && (f.Lifetime > f.Age || f.Control.StaleWhileRevalidate > 0 || f.Control.StaleIfError > 0)
}

// Kept says whether a field of a response is stored: not those of one hop (RFC
// 9111, 3.1), nor what private and no-cache name, nor what is made anew for
// each response.
func Kept(name []byte, connection, named [][]byte) bool {
	switch {
	case message.HopByHop(name), is(name, "trailer"), is(name, "age"), is(name, "proxy-authentication-info"),
		connection != nil && message.NameIn(connection, name), named != nil && message.NameIn(named, name):
		return false
	}
	return true
}

// Keep appends to dst the fields of s that are stored, with storage of their
// own.
func Keep(dst message.Fields, s *message.Response, named [][]byte) message.Fields {
	size := 0
	for i := range s.Fields {
		size += len(s.Fields[i].Name) + len(s.Fields[i].Value)
	}
	buf := make([]byte, 0, size)
	own := func(b []byte) []byte {
		buf = append(buf, b...)
		return buf[len(buf)-len(b) : len(buf) : len(buf)]
	}
	connection := s.Fields.ConnectionNames()
	for i := range s.Fields {
		if f := &s.Fields[i]; Kept(f.Name, connection, named) {
			dst = append(dst, message.Field{Name: own(f.Name), Value: own(f.Value)})
		}
	}
	return dst
}

// Conditions appends to fields the conditions that validate a stored response
// (RFC 9111, 4.3.1), in place of those of the client. Values are shared with
// the stored response.
func Conditions(dst, fields message.Fields, stored *message.Response) message.Fields {
	for _, f := range fields {
		if !Conditional(f.Name) && !is(f.Name, "range") {
			dst = append(dst, f)
		}
	}
	if v := stored.Get("ETag"); v != nil {
		dst = append(dst, message.Field{Name: ifNoneMatch, Value: quote(v)})
	}
	if v := stored.Get("Last-Modified"); v != nil {
		dst = append(dst, message.Field{Name: ifModifiedSince, Value: v})
	}
	return dst
}

var (
	ifNoneMatch     = []byte("If-None-Match")
	ifModifiedSince = []byte("If-Modified-Since")
)

// quote puts an entity tag that was sent without quotes into them.
func quote(v []byte) []byte {
	if bytes.HasSuffix(v, []byte(`"`)) {
		return v
	}
	return append(append([]byte{'"'}, v...), '"')
}

// Conditional says whether name is that of a condition of a client (RFC 9110,
// 13.1).
func Conditional(name []byte) bool {
	switch len(name) {
	case 8:
		return is(name, "if-match") || is(name, "if-range")
	case 13:
		return is(name, "if-none-match")
	case 17:
		return is(name, "if-modified-since")
	case 19:
		return is(name, "if-unmodified-since")
	}
	return false
}

// Validated says whether a 304 confirms the stored response (RFC 9111, 4.3.4):
// one that carries another strong tag, or another modification time, is about
// another representation.
func Validated(stored, answer *message.Response) bool {
	tag, was := answer.Get("ETag"), stored.Get("ETag")
	if tag != nil && was != nil {
		return weakEqual(tag, was)
	}
	a, okA := Date(answer.Get("Last-Modified"))
	b, okB := Date(stored.Get("Last-Modified"))
	return !okA || !okB || a.Equal(b)
}

// Freshen returns the fields of a stored response after a 304 or a response to
// HEAD (RFC 9111, 3.2): the new ones take the place of those with the same
// name. The coding and length of the stored body stay. A weak tag stays, too: the
// answer cannot say that the body is the same to the byte. Where the answer has no
// Cache-Control, that of the stored response still says which fields are not stored.
func Freshen(stored message.Fields, answer *message.Response) message.Fields {
	control := answer.Fields
	if !control.Has("Cache-Control") {
		control = stored
	}
	fresh := Keep(nil, answer, Control(control).Fields)
	weak := bytes.HasPrefix(stored.Get("ETag"), []byte("W/"))
	replaces := func(name []byte) bool {
		return !is(name, "content-length") && !is(name, "content-encoding") && !is(name, "content-range") && !(weak && is(name, "etag"))
	}
	out := make(message.Fields, 0, len(stored)+len(fresh))
next:
	for _, f := range stored {
		if replaces(f.Name) {
			for i := range fresh {
				if bytes.EqualFold(fresh[i].Name, f.Name) {
					continue next
				}
			}
		}
		out = append(out, f)
	}
	for _, f := range fresh {
		if replaces(f.Name) {
			out = append(out, f)
		}
	}
	return out
}

// SameBody says whether a response to HEAD is about the stored body, or about the
// whole that a stored part is of (RFC 9111, 4.3.5). size is that of the whole.
func SameBody(stored *message.Response, size int64, head *message.Response) bool {
	if head.Status != stored.Status && (head.Status != 200 || stored.Status != 206) || !Validated(stored, head) {
		return false
	}
	n, ok := Number(head.Get("Content-Length"))
	return !ok || n == size
}

// Number reads a length: digits only.
func Number(v []byte) (n int64, ok bool) {
	if len(v) == 0 || len(v) > 18 {
		return 0, false
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// Bound puts a lifetime between a least and a most, where they are not 0.
func (f *Facts) Bound(least, most time.Duration) {
	if least > 0 && f.Lifetime < least {
		f.Lifetime, f.Heuristic = least, true
		f.Control.NoCache = false
	}
	if most > 0 && f.Lifetime > most {
		f.Lifetime = most
	}
}
