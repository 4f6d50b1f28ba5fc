package engine

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"shuultuur/check/signature/rule"
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

func index(dir rule.Direction) int { return int(dir >> 1) }

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

// Buffer implements [Source].
func (h *HTTP) Buffer(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	s := &h.Sides[index(dir)]
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

// parts is an HTTP whose payload consists of the line, the fields and the body.
type parts struct{ *HTTP }

// Joined returns the exchange as a source whose payload is the line, the fields as sent and
// the body without codings. The payload as sent is not kept.
func (h *HTTP) Joined() Source { return parts{h} }

// Parts implements parted.
func (p parts) Parts(dir rule.Direction) (line, fields, body []byte, ok bool) {
	s := &p.Sides[index(dir)]
	return s.Line, s.RawHead, s.Body, s.Line != nil
}

// Whole implements parted.
func (p parts) Whole(dir rule.Direction) (all []byte, ok bool) {
	s := &p.Sides[index(dir)]
	if s.Front == nil {
		return nil, false
	}
	if all, ok = s.Front.DecodedAfter(s.Line, []byte(lineEnd), s.RawHead); !ok {
		return nil, false
	}
	n := len(s.Line) + len(lineEnd) + len(s.RawHead) + len(s.Body)
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

// authority returns the host and port of a target in absolute form.
func authority(target []byte) []byte {
	i := bytes.Index(target, []byte("://"))
	if i <= 0 || bytes.IndexAny(target[:i], "/?#") >= 0 {
		return nil
	}
	rest := target[i+3:]
	if end := bytes.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if at := bytes.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	return rest
}

// HostOf removes the port from a host and folds it.
func HostOf(v []byte) []byte {
	v = bytes.TrimSpace(v)
	if len(v) > 0 && v[0] == '[' {
		if end := bytes.IndexByte(v, ']'); end > 0 {
			return fold(v[:end+1])
		}
	}
	if i := bytes.IndexByte(v, ':'); i >= 0 {
		v = v[:i]
	}
	return fold(bytes.TrimSuffix(v, []byte(".")))
}

// Numbers implements [Source].
func (h *HTTP) Numbers(dir rule.Direction, keyword string) ([]uint64, bool) {
	if keyword == "http.content_length" {
		v, ok := h.Sides[index(dir)].Get("Content-Length")
		n, err := strconv.ParseUint(string(v), 10, 64)
		return []uint64{n}, ok && err == nil
	}
	ns, ok := h.Frames[index(dir)][keyword]
	return ns, ok
}

// Word implements [Source].
func (h *HTTP) Word(dir rule.Direction, keyword, value string) bool {
	switch keyword {
	case "app-layer-protocol":
		value, _, _ = strings.Cut(value, ",")
		return value == "http" || value == "http2" && h.Two || value == "http1" && !h.Two
	case "http2.settings":
		name, cond, _ := cutOp(value)
		for n, vs := range h.Settings[index(dir)] {
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

// Event implements [Source].
func (h *HTTP) Event(kind, name string) bool {
	return kind == "app-layer-event" && h.Events[name]
}

// Files implements [Source].
func (h *HTTP) Files(dir rule.Direction) []*File {
	s := &h.Sides[index(dir)]
	if len(s.Parts) > 0 {
		return s.Parts
	}
	if !s.HasBody || s.NoFile || len(s.Body) == 0 {
		return nil
	}
	if f := s.file[0]; f != nil && sameMemory(f.Data, s.Body) && f.Complete == (s.At >= rule.Trailer) {
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

// NormalURI returns the target as in http.uri: without scheme and host, decoded once, with
// slashes instead of backslashes, and without repeated slashes and dot segments in the path.
func NormalURI(target []byte) []byte {
	if i := bytes.Index(target, []byte("://")); i > 0 && bytes.IndexAny(target[:i], "/?#") < 0 {
		rest := target[i+3:]
		end := bytes.IndexAny(rest, "/?#")
		if end < 0 {
			return []byte{}
		}
		target = rest[end:]
	}
	path, tail := target, []byte(nil)
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		path, tail = target[:i], target[i:]
	}
	out := normalPath(decodePath(path))
	if len(tail) > 0 {
		out = append(out, decodeQuery(tail)...)
	}
	return out
}

// decodePath decodes %XX and %uXXXX, and replaces backslashes by slashes.
func decodePath(p []byte) []byte {
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		c, n := decodeOne(p[i:])
		i += n - 1
		if c == '\\' {
			c = '/'
		}
		if c == '/' && len(out) > 0 && out[len(out)-1] == '/' {
			continue
		}
		out = append(out, c)
	}
	return out
}

func decodeQuery(p []byte) []byte {
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		c, n := decodeOne(p[i:])
		i += n - 1
		out = append(out, c)
	}
	return out
}

// decodeOne decodes the escape at the beginning of p and returns its length. Anything else
// stays unchanged.
func decodeOne(p []byte) (c byte, n int) {
	if p[0] != '%' {
		return p[0], 1
	}
	if len(p) >= 6 && (p[1] == 'u' || p[1] == 'U') && isHex(p[2]) && isHex(p[3]) && isHex(p[4]) && isHex(p[5]) {
		hi, lo := unhex(p[2])<<4|unhex(p[3]), unhex(p[4])<<4|unhex(p[5])
		return bestFit(hi, lo), 6
	}
	if len(p) >= 3 && isHex(p[1]) && isHex(p[2]) {
		return unhex(p[1])<<4 | unhex(p[2]), 3
	}
	return '%', 1
}

// bestFit returns the byte that servers substitute for a character beyond one byte.
func bestFit(hi, lo byte) byte {
	switch {
	case hi == 0:
		return lo
	case hi == 0xff && lo >= 0x01 && lo <= 0x5e: // full-width forms
		return lo + 0x20
	case hi == 0x22 && lo == 0x15, hi == 0x20 && lo == 0x44:
		return '/'
	case hi == 0x22 && lo == 0x16:
		return '\\'
	}
	return '?'
}

// normalPath resolves dot segments.
func normalPath(p []byte) []byte {
	if !bytes.Contains(p, []byte("./")) && !bytes.HasSuffix(p, []byte("/.")) && !bytes.HasSuffix(p, []byte("/..")) {
		return p
	}
	out := make([]byte, 0, len(p))
	for len(p) > 0 {
		switch {
		case bytes.HasPrefix(p, []byte("../")):
			p = p[3:]
		case bytes.HasPrefix(p, []byte("./")):
			p = p[2:]
		case bytes.HasPrefix(p, []byte("/./")):
			p = p[2:]
		case string(p) == "/.":
			p = []byte("/")
		case bytes.HasPrefix(p, []byte("/../")):
			p = p[3:]
			out = out[:max(0, bytes.LastIndexByte(out, '/'))]
		case string(p) == "/..":
			p = []byte("/")
			out = out[:max(0, bytes.LastIndexByte(out, '/'))]
		case string(p) == "." || string(p) == "..":
			p = nil
		default:
			i := bytes.IndexByte(p[1:], '/') + 1
			if i == 0 {
				i = len(p)
			}
			out = append(out, p[:i]...)
			p = p[i:]
		}
	}
	return out
}

// Magic returns the type of the file as libmagic does, for the types that rules test most.
func (f *File) Magic() string {
	b := f.Data
	for _, m := range magics {
		if len(b) >= m.at+len(m.sig) && string(b[m.at:m.at+len(m.sig)]) == m.sig {
			return m.text
		}
	}
	if len(b) == 0 {
		return ""
	}
	for _, c := range b[:min(len(b), 512)] {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b {
			return "data"
		}
		if c >= 0x80 {
			return "UTF-8 Unicode text"
		}
	}
	if low := strings.ToLower(string(b[:min(len(b), 512)])); strings.Contains(low, "<html") || strings.Contains(low, "<!doctype html") {
		return "HTML document, ASCII text"
	}
	return "ASCII text"
}

var magics = []struct {
	at        int
	sig, text string
}{
	{0, "MZ", "PE32 executable (GUI) Intel 80386, for MS Windows"}, {0, "\x7fELF", "ELF executable"},
	{0, "%PDF-", "PDF document"}, {0, "\x89PNG\r\n\x1a\n", "PNG image data"}, {0, "\xff\xd8\xff", "JPEG image data"},
	{0, "GIF87a", "GIF image data, version 87a"}, {0, "GIF89a", "GIF image data, version 89a"},
	{0, "PK\x03\x04", "Zip archive data"}, {0, "\x1f\x8b", "gzip compressed data"}, {0, "BZh", "bzip2 compressed data"},
	{0, "Rar!\x1a\x07", "RAR archive data"}, {0, "7z\xbc\xaf\x27\x1c", "7-zip archive data"},
	{0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Composite Document File V2 Document"}, {0, "\xca\xfe\xba\xbe", "compiled Java class data"},
	{0, "CWS", "Macromedia Flash data (compressed)"}, {0, "FWS", "Macromedia Flash data"}, {0, "{\\rtf", "Rich Text Format data"},
	{0, "#!/bin/sh", "POSIX shell script, ASCII text executable"}, {0, "#!/bin/bash", "Bourne-Again shell script, ASCII text executable"},
	{0, "\xfd7zXZ\x00", "XZ compressed data"}, {257, "ustar", "POSIX tar archive"}, {0, "RIFF", "RIFF (little-endian) data"},
	{0, "\x00\x00\x01\x00", "MS Windows icon resource"}, {0, "<?xml", "XML document text"}, {4, "ftyp", "ISO Media"},
	{0, "ID3", "Audio file with ID3"}, {0, "OggS", "Ogg data"}, {0, "X5O!P%@AP", "EICAR virus test files"},
}
