package protocol

import (
	"bytes"
	"math"

	"shuultuur/lib/message"
)

// A Part is the part of a stored response that a client gets.
type Part struct {
	Status      int   // 200 and the like for the unchanged response; 206, 304, 416
	First, Last int64 // of the body, both inclusive, for 206
}

// Answer applies the conditions and the range of a request to a stored response with a body of
// length bytes (RFC 9110 sections 13.2.2 and 14.2; RFC 9111 section 4.3.2). size is the length
// of the whole representation, and offset the position of the stored body in it: a stored 206
// has a part. ok is false if the stored part lacks the requested bytes.
func Answer(q *message.Request, s *message.Response, f *Facts, offset, length, size int64) (p Part, ok bool) {
	whole := offset == 0 && length == size
	if NotModified(q.Fields, s, f) {
		return Part{Status: 304}, true
	}
	v := onlyRange(q.Fields)
	if v == nil || q.Method != "GET" || s.Status != 200 && s.Status != 206 || !sameRange(q.Fields, f) {
		return Part{Status: s.Status}, whole
	}
	first, last, kind := Range(v, size)
	switch {
	case kind == noRange:
		return Part{Status: s.Status}, whole
	case kind == unsatisfiable:
		return Part{Status: 416}, whole
	case first < offset || last >= offset+length:
		return Part{}, false
	}
	return Part{Status: 206, First: first, Last: last}, true
}

// NotModified reports whether the client already has the stored response.
func NotModified(q message.Fields, s *message.Response, f *Facts) bool {
	if s.Status != 200 && s.Status != 206 {
		return false
	}
	given := false
	for i := range q {
		if !is(q[i].Name, "if-none-match") {
			continue
		}
		given = true
		for v := q[i].Value; len(v) > 0; {
			var tag []byte
			tag, v = nextTag(v)
			if string(tag) == "*" || f.Tag != nil && weakEqual(tag, f.Tag) {
				return true
			}
		}
	}
	if given {
		return false
	}
	since, ok := Date(q.Get("If-Modified-Since"))
	if !ok {
		return false
	}
	if !f.Modified.IsZero() {
		return !f.Modified.After(since)
	}
	return !f.Date.After(since) // RFC 9111 section 4.3.2: Date replaces Last-Modified
}

// nextTag returns the first entity tag of a list, and the rest. A comma or a backslash inside
// the quotes belongs to the tag (RFC 9110 section 8.8.3).
func nextTag(v []byte) (tag, rest []byte) {
	v = bytes.TrimLeft(v, " \t,")
	from := bytes.TrimPrefix(v, []byte("W/"))
	if len(from) > 0 && from[0] == '"' {
		if n := bytes.IndexByte(from[1:], '"'); n >= 0 {
			n += 2 + len(v) - len(from)
			return v[:n], v[n:]
		}
	}
	tag, rest, _ = bytes.Cut(v, []byte(","))
	return bytes.TrimRight(tag, " \t"), rest
}

// weakEqual compares entity tags (RFC 9110 section 8.8.3.2). A tag without quotes is compared
// as if it were quoted.
func weakEqual(a, b []byte) bool { return bytes.Equal(opaque(a), opaque(b)) }

func opaque(v []byte) []byte {
	v = bytes.TrimPrefix(v, []byte("W/"))
	return bytes.TrimSuffix(bytes.TrimPrefix(v, []byte(`"`)), []byte(`"`))
}

// IsStrong reports whether a tag is strong.
func IsStrong(tag []byte) bool { return len(tag) > 1 && tag[0] == '"' && tag[len(tag)-1] == '"' }

// sameRange reports whether a range may be served: there is no If-Range, or it names the
// stored response (RFC 9110 section 13.1.5).
func sameRange(q message.Fields, f *Facts) bool {
	v := q.Get("If-Range")
	if v == nil {
		return true
	}
	if t, ok := Date(v); ok {
		// A second is too coarse if the response was made in the same one.
		return !f.Modified.IsZero() && f.Modified.Equal(t) && f.Date.Sub(f.Modified) >= 1e9
	}
	return IsStrong(v) && bytes.Equal(v, f.Tag)
}

// onlyRange returns the Range field, nil if there is none or several, which cannot be served.
func onlyRange(q message.Fields) (v []byte) {
	for i := range q {
		if !is(q[i].Name, "range") {
			continue
		}
		if v != nil {
			return nil
		}
		v = q[i].Value
	}
	return v
}

type rangeKind uint8

const (
	noRange       rangeKind = iota // no range that can be served: the field is ignored
	oneRange                       // bytes first to last
	unsatisfiable                  // it begins after the end
)

// Range parses a Range field with one range of bytes (RFC 9110 section 14.1.2) of a
// representation of size bytes. The whole is served for several ranges.
func Range(v []byte, size int64) (first, last int64, kind rangeKind) {
	v, ok := bytes.CutPrefix(bytes.ToLower(v), []byte("bytes="))
	v = bytes.Trim(v, " \t")
	from, to, dash := bytes.Cut(v, []byte("-"))
	if !ok || !dash || bytes.IndexByte(v, ',') >= 0 {
		return 0, 0, noRange
	}
	from, to = bytes.Trim(from, " \t"), bytes.Trim(to, " \t")
	if len(from) == 0 {
		n, ok := parsePosition(to)
		switch {
		case !ok:
			return 0, 0, noRange
		case n == 0 || size == 0:
			return 0, 0, unsatisfiable
		}
		return max(0, size-n), size - 1, oneRange
	}
	first, ok = parsePosition(from)
	if !ok {
		return 0, 0, noRange
	}
	last = size - 1
	if len(to) > 0 {
		n, ok := parsePosition(to)
		if !ok || n < first {
			return 0, 0, noRange
		}
		last = min(last, n)
	}
	if first >= size {
		return 0, 0, unsatisfiable
	}
	return first, last, oneRange
}

// parsePosition parses a position in a representation. One that exceeds the range of numbers is
// after any end.
func parsePosition(v []byte) (n int64, ok bool) {
	if n, ok = Number(v); !ok && len(v) > 0 && number(v[:1]) >= 0 && len(bytes.Trim(v, "0123456789")) == 0 {
		return math.MaxInt64, true
	}
	return n, ok
}

// ContentRange parses a Content-Range field (RFC 9110 section 14.4); size is -1 if unknown.
func ContentRange(v []byte) (first, last, size int64, ok bool) {
	v, ok = bytes.CutPrefix(bytes.ToLower(v), []byte("bytes "))
	span, whole, slash := bytes.Cut(bytes.Trim(v, " \t"), []byte("/"))
	from, to, dash := bytes.Cut(span, []byte("-"))
	if !ok || !slash || !dash {
		return 0, 0, 0, false
	}
	var okFirst, okLast bool
	first, okFirst = Number(from)
	last, okLast = Number(to)
	size = -1
	if string(whole) != "*" {
		if size, ok = Number(whole); !ok || last >= size {
			return 0, 0, 0, false
		}
	}
	return first, last, size, okFirst && okLast && first <= last
}

// Invalidates returns further URIs that the response to an unsafe request invalidates (RFC
// 9111 section 4.4): those of Location and Content-Location. The caller must check that the
// origin is the same.
func Invalidates(s *message.Response) [][]byte {
	var list [][]byte
	for _, name := range [...]string{"Location", "Content-Location"} {
		if v := s.Get(name); len(v) > 0 {
			list = append(list, v)
		}
	}
	return list
}
