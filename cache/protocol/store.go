package protocol

import (
	"bytes"
	"time"

	"shuultuur/lib/message"
)

// Storable reports whether a shared cache may store the response s to q, which has the facts f
// (RFC 9111 section 3). personal says that the content was encrypted on its way here: then a
// response for one person is never stored, whatever the origin permits. why is "" or the
// obstacle, for Cache-Status and for people.
func Storable(q *message.Request, s *message.Response, f *Facts, asked *Directives, personal bool) (why string) {
	c := &f.Control
	switch {
	case s.Status < 200 || s.Status == 304 || s.Status == 416:
		return "status"
	case s.Status == 206 && q.Method != "GET" && q.Method != "HEAD": // it would update a stored part
		return "status"
	case asked.NoStore:
		return "request-no-store"
	case c.MustUnderstand && !knowsStatus(s.Status):
		return "must-understand"
	case c.NoStore && !c.MustUnderstand:
		return "no-store"
	case c.Private:
		return "private"
	case (s.Personal || q.Has("Authorization")) && !c.Public && (personal || !c.MustRevalidate && c.SMaxAge < 0):
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

// storableCookies reports whether cookies permit storing.
func storableCookies(q *message.Request, s *message.Response, f *Facts, personal bool) (why string) {
	switch {
	case s.Has("Set-Cookie") && (personal || f.Heuristic || f.Lifetime <= 0 && !f.Control.Public):
		return "set-cookie"
	case personal && q.Has("Cookie") && !f.Control.Public && f.Control.SMaxAge < 0:
		return "cookie"
	}
	return ""
}

// useful reports whether a stored response could ever be used: it is fresh for a time, may be
// used while stale, or can be validated.
func (f *Facts) useful() bool {
	if f.Tag != nil || !f.Modified.IsZero() {
		return true
	}
	return !f.Control.NoCache && (f.Lifetime > f.Age || f.Control.StaleWhileRevalidate > 0 || f.Control.StaleIfError > 0)
}

// StoresField reports whether a response field is stored: not hop-by-hop fields (RFC 9111 section
// 3.1), fields that private and no-cache name, and those rewritten for each response.
func StoresField(name []byte, connection, named [][]byte) bool {
	switch {
	case message.HopByHop(name), is(name, "trailer"), is(name, "age"), is(name, "proxy-authentication-info"),
		connection != nil && message.NameIn(connection, name), named != nil && message.NameIn(named, name):
		return false
	}
	return true
}

// AppendStored appends copies of the fields of s that are stored to dst.
func AppendStored(dst message.Fields, s *message.Response, named [][]byte) message.Fields {
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
		if f := &s.Fields[i]; StoresField(f.Name, connection, named) {
			dst = append(dst, message.Field{Name: own(f.Name), Value: own(f.Value)})
		}
	}
	return dst
}

// Conditions appends to dst the fields with conditions that validate a stored response (RFC
// 9111 section 4.3.1), in place of those of the client. Values are shared with the stored
// response: an entity tag without quotes goes back as it came, because its origin compares it so.
func Conditions(dst, fields message.Fields, stored *message.Response) message.Fields {
	for _, f := range fields {
		if !Conditional(f.Name) && !is(f.Name, "range") {
			dst = append(dst, f)
		}
	}
	if v := stored.Get("ETag"); v != nil {
		dst = append(dst, message.Field{Name: ifNoneMatch, Value: v})
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

// Conditional reports whether name is that of a condition (RFC 9110 section 13.1).
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

// Validated reports whether a 304 confirms the stored response (RFC 9111 section 4.3.4). One
// with another strong tag or modification time concerns another representation.
func Validated(stored, answer *message.Response) bool {
	tag, was := answer.Get("ETag"), stored.Get("ETag")
	if tag != nil && was != nil {
		return weakEqual(tag, was)
	}
	a, okA := Date(answer.Get("Last-Modified"))
	b, okB := Date(stored.Get("Last-Modified"))
	return !okA || !okB || a.Equal(b)
}

// Freshen returns the fields of a stored response after a 304 or a response to HEAD (RFC 9111
// section 3.2): new fields replace those with the same name. The coding and length of the
// stored body stay. So does a weak tag, because the answer cannot prove that the body is
// byte-identical. If the answer has no Cache-Control, that of the stored response still
// determines which fields are not stored.
func Freshen(stored message.Fields, answer *message.Response) message.Fields {
	control := answer.Fields
	if !control.Has("Cache-Control") {
		control = stored
	}
	fresh := AppendStored(nil, answer, Control(control).Fields)
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

// SameBody reports whether a response to HEAD concerns the stored body, or the whole to which
// a stored part belongs (RFC 9111 section 4.3.5). size is the length of the whole.
func SameBody(stored *message.Response, size int64, head *message.Response) bool {
	if head.Status != stored.Status && (head.Status != 200 || stored.Status != 206) || !Validated(stored, head) {
		return false
	}
	n, ok := Number(head.Get("Content-Length"))
	return !ok || n == size
}

// Number parses a length: digits only.
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

// Bound limits the lifetime to least and most, unless these are 0.
func (f *Facts) Bound(least, most time.Duration) {
	if least > 0 && f.Lifetime < least {
		f.Lifetime, f.Heuristic = least, true
		f.Control.NoCache = false
	}
	if most > 0 && f.Lifetime > most {
		f.Lifetime = most
	}
}
