// Package traffic has messages in the form that rules inspect.
//
// The reader of a connection fills in an [HTTP], a [DNSMessage] or a [TLSHandshake] as its parts
// arrive. Their methods make the buffers and numbers that rules name when a rule needs them, and
// find the anomalies that have a name in Suricata. Package engine sees them as its Source.
package traffic

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"shuultuur/lib/suricata/rule"
)

// An HTTP is an HTTP exchange in the form that rules inspect. The reader of the messages fills
// it in; buffers are made when a rule needs them.
type HTTP struct {
	Two   bool // HTTP/2
	Sides [2]Side
	// Events are the anomalies seen so far, such as "http.invalid_host".
	Events map[string]bool
	// Frames are the numbers for http2. keywords, by keyword.
	Frames [2]map[string][]uint64
	// Settings are the HTTP/2 settings that each side sent: values by name.
	Settings [2]map[string][]uint64
}

// A Side is the data that one side sent.
type Side struct {
	Line     []byte // without its line end
	Method   []byte
	Target   []byte // as sent
	Protocol []byte
	Code     []byte
	Reason   []byte
	Headers  []Header
	RawHead  []byte // fields as sent, including the empty line
	Raw      []byte // all bytes as sent, as far as they are kept
	Body     []byte // without transfer and content codings
	HasBody  bool
	Parts    []*File // files in the body; none if the body is one file
	NoFile   bool    // the body is not a file
	At       rule.Progress

	// Front can put other bytes before Body without copying it; nil if nothing can.
	Front interface {
		DecodedAfter(before ...[]byte) (all []byte, ok bool)
	}

	file [1]*File // the body as a file, while its length is unchanged
}

// A Header is a field as sent, its value without surrounding space.
type Header struct{ Name, Value []byte }

// is reports whether the field has a name, in any case.
func (h *Header) is(name string) bool {
	return len(h.Name) == len(name) && strings.EqualFold(string(h.Name), name)
}

// Get returns the value of a field. Several are joined with ", ".
func (s *Side) Get(name string) ([]byte, bool) {
	var out []byte
	found := false
	for _, h := range s.Headers {
		if !h.is(name) {
			continue
		}
		if found {
			out = append(append(out[:len(out):len(out)], ", "...), h.Value...)
			continue
		}
		out, found = h.Value, true
	}
	return out, found
}

// fields are the buffers that contain the value of one field.
var fields = [...]string{
	rule.UserAgent: "User-Agent", rule.Referer: "Referer", rule.Accept: "Accept", rule.AcceptLang: "Accept-Language",
	rule.AcceptEnc: "Accept-Encoding", rule.Connection: "Connection", rule.ContentType: "Content-Type",
	rule.ContentLen: "Content-Length", rule.Server: "Server", rule.Location: "Location",
}

// Buffer returns element i of a buffer as one side sent it. Buffers are made when they are
// needed.
func (h *HTTP) Buffer(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	s := &h.Sides[dir.Index()]
	switch b {
	case rule.Payload:
		return s.Raw, i == 0 && len(s.Raw) > 0
	case rule.RequestHeader, rule.ResponseHeader, rule.HTTP2HeaderName:
		if i >= len(s.Headers) || b == rule.HTTP2HeaderName && !h.Two {
			return nil, false
		}
		x := s.Headers[i]
		if b == rule.HTTP2HeaderName {
			return x.Name, true
		}
		return concat(x.Name, []byte(": "), x.Value), true
	case rule.RequestBody, rule.ResponseBody:
		return s.Body, i == 0 && s.HasBody && len(s.Body) > 0
	}
	if i > 0 || s.At < b.Info().Progress {
		return nil, false
	}
	return h.make(s, b)
}

// Exchange returns the exchange itself, also where something else embeds it.
func (h *HTTP) Exchange() *HTTP { return h }

// A Joined is an HTTP whose payload consists of the line, the fields and the body.
type Joined struct{ *HTTP }

// Joined returns the exchange as a source whose payload is the line, the fields as sent and
// the body without codings. The payload as sent is not kept.
func (h *HTTP) Joined() Joined { return Joined{h} }

// Parts returns the bytes that one side has sent so far: the first line without its end, the
// fields with the empty line, and the body. ok is false if there is no line yet.
func (p Joined) Parts(dir rule.Direction) (line, fields, body []byte, ok bool) {
	s := &p.Sides[dir.Index()]
	return s.Line, s.RawHead, s.Body, s.Line != nil
}

// Whole returns the parts joined, if that needs no copy of the body.
func (p Joined) Whole(dir rule.Direction) (all []byte, ok bool) {
	s := &p.Sides[dir.Index()]
	if s.Front == nil {
		return nil, false
	}
	if all, ok = s.Front.DecodedAfter(s.Line, []byte("\r\n"), s.RawHead); !ok {
		return nil, false
	}
	n := len(s.Line) + len("\r\n") + len(s.RawHead) + len(s.Body)
	return all[:min(n, len(all))], true
}

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// make makes a buffer with one element.
func (h *HTTP) make(s *Side, b rule.Buffer) ([]byte, bool) {
	if int(b) < len(fields) && fields[b] != "" {
		return s.Get(fields[b])
	}
	request := s == &h.Sides[0]
	switch b {
	case rule.URI:
		if h.Two {
			return s.Target, s.Target != nil
		}
		return NormalURI(s.Target), s.Target != nil
	case rule.URIRaw:
		return s.Target, s.Target != nil
	case rule.Method:
		return s.Method, s.Method != nil
	case rule.Host:
		v, ok := h.host(s)
		return HostOf(v), ok
	case rule.HostRaw:
		return h.host(s)
	case rule.Cookie:
		name := "Set-Cookie"
		if request {
			name = "Cookie"
		}
		return s.Get(name)
	case rule.HeaderAll:
		return s.joined(h.Two), len(s.Headers) > 0
	case rule.HeaderRaw:
		if h.Two {
			return s.joined(true), len(s.Headers) > 0
		}
		return s.RawHead, len(s.RawHead) > 0
	case rule.HeaderNames:
		out := append(make([]byte, 0, 16*(2+len(s.Headers))), "\r\n"...)
		for _, x := range s.Headers {
			out = append(append(out, x.Name...), "\r\n"...)
		}
		return append(out, "\r\n"...), len(s.Headers) > 0
	case rule.Start:
		return concat(s.Line, []byte("\r\n"), s.RawHead), s.Line != nil && !h.Two
	case rule.RequestLine, rule.ResponseLine:
		return s.Line, s.Line != nil
	case rule.Protocol:
		return s.Protocol, s.Protocol != nil
	case rule.StatCode:
		return s.Code, s.Code != nil
	case rule.StatMsg:
		return s.Reason, s.Reason != nil && !h.Two
	}
	return nil, false
}

// joined returns the fields without cookies as "Name: value" lines in their order; fields of
// the same name are joined.
func (s *Side) joined(all bool) []byte {
	room := 0
	for _, x := range s.Headers {
		room += len(x.Name) + len(x.Value) + len(": \r\n")
	}
	out := make([]byte, 0, room)
	for i, x := range s.Headers {
		v := x.Value
		if !all {
			name := string(x.Name)
			if x.is("Cookie") || x.is("Set-Cookie") || slices.ContainsFunc(s.Headers[:i], func(y Header) bool { return y.is(name) }) {
				continue
			}
			v, _ = s.Get(name)
		}
		out = append(append(append(append(out, x.Name...), ": "...), v...), "\r\n"...)
	}
	return out
}

// host returns the host of the target, or else of the Host field.
func (h *HTTP) host(s *Side) ([]byte, bool) {
	if h.Two {
		if v, ok := s.Get(":authority"); ok {
			return v, true
		}
		return s.Get("host")
	}
	if a := authority(s.Target); a != nil {
		return a, true
	}
	if string(s.Method) == "CONNECT" && len(s.Target) > 0 && s.Target[0] != '/' {
		return s.Target, true
	}
	return s.Get("Host")
}

// Numbers returns the values for an integer keyword.
func (h *HTTP) Numbers(dir rule.Direction, keyword string) ([]uint64, bool) {
	if keyword == "http.content_length" {
		v, ok := h.Sides[dir.Index()].Get("Content-Length")
		n, err := strconv.ParseUint(string(v), 10, 64)
		return []uint64{n}, ok && err == nil
	}
	ns, ok := h.Frames[dir.Index()][keyword]
	return ns, ok
}

// Word reports whether a keyword with words matches.
func (h *HTTP) Word(dir rule.Direction, keyword, value string) bool {
	switch keyword {
	case "app-layer-protocol":
		value, _, _ = strings.Cut(value, ",")
		return value == "http" || value == "http2" && h.Two || value == "http1" && !h.Two
	case "http2.settings":
		name, cond, _ := cutOp(value)
		for n, vs := range h.Settings[dir.Index()] {
			if !strings.EqualFold(n, name) {
				continue
			}
			if cond == "" {
				return true
			}
			c, err := rule.ParseCompare(cond)
			for _, v := range vs {
				if err == nil && c.Match(v) {
					return true
				}
			}
		}
	}
	return false
}

// cutOp splits a name from the comparison after it.
func cutOp(s string) (name, cond string, ok bool) {
	i := strings.IndexAny(s, " <>=!0123456789")
	if i < 0 {
		return s, "", false
	}
	return strings.TrimSpace(s[:i]), strings.TrimSpace(s[i:]), true
}

// Event reports whether an anomaly was seen.
func (h *HTTP) Event(kind, name string) bool {
	return kind == "app-layer-event" && h.Events[name]
}

// Files returns the files in the body of one side: its parts, or the body.
func (h *HTTP) Files(dir rule.Direction) []*File {
	s := &h.Sides[dir.Index()]
	if len(s.Parts) > 0 {
		return s.Parts
	}
	if !s.HasBody || s.NoFile || len(s.Body) == 0 {
		return nil
	}
	if f := s.file[0]; f != nil && len(f.Data) == len(s.Body) && &f.Data[0] == &s.Body[0] && f.Complete == (s.At >= rule.Trailer) {
		return s.file[:]
	}
	s.file[0] = &File{Data: s.Body, Size: int64(len(s.Body)), Complete: s.At >= rule.Trailer, Name: h.fileName(s)}
	return s.file[:]
}

// fileName returns the file name in Content-Disposition, or else the last part of the path.
func (h *HTTP) fileName(s *Side) string {
	if v, ok := s.Get("Content-Disposition"); ok {
		if n := DispositionName(string(v)); n != "" {
			return n
		}
	}
	path := string(NormalURI(h.Sides[0].Target))
	path, _, _ = strings.Cut(path, "?")
	return path
}

// DispositionName returns the file name in a Content-Disposition.
func DispositionName(v string) string {
	i := strings.Index(strings.ToLower(v), "filename=")
	if i < 0 {
		return ""
	}
	v = v[i+len("filename="):]
	if strings.HasPrefix(v, `"`) {
		v = v[1:]
		if end := strings.IndexByte(v, '"'); end >= 0 {
			return v[:end]
		}
		return v
	}
	v, _, _ = strings.Cut(v, ";")
	return strings.TrimSpace(v)
}

// AppendFields appends everything that buffers of the fields of a request are made from. ok is
// false if they depend on more.
func (p Joined) AppendFields(dst []byte) (all []byte, ok bool) {
	if p.Two { // the path is among the fields
		return dst, false
	}
	s := &p.Sides[0]
	add := func(b []byte) { dst = append(binary.AppendUvarint(dst, uint64(len(b))), b...) }
	add(s.RawHead)
	for _, h := range s.Headers {
		add(h.Name)
		add(h.Value)
	}
	host, _ := p.host(s) // the target may have it
	add(host)
	return dst, true
}
