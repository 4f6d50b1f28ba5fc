package content

import (
	"bytes"
	"strings"

	"shuultuur/content/language"
)

// A Head is the description of a body by the fields of its message. The server adds the fields
// in order ([Head.Add]). It does not refer to their bytes. The zero Head is that of a message
// without fields.
//
// Fields are read as browsers read them, which is more lenient than RFC 9110, because what a
// browser would render must be inspected.
type Head struct {
	typ     string // the effective type, "" if the body must be sniffed
	any     bool   // there was a Content-Type field
	odd     bool   // the last one was not a valid type, and browsers differ in its meaning
	nosniff bool
	options bool // the first X-Content-Type-Options field was read

	charset  [maxLabel]byte
	nCharset uint8

	boundary  [70]byte // RFC 2046 section 5.1.1
	nBoundary uint8

	codings  [maxCodings]coding // supported ones, in the order of application
	nCodings uint8
	tooMany  bool
	foreign  bool // there are unsupported ones, so that browsers decode none

	lang language.Tag // the first in Content-Language

	ranged bool // Content-Range: a part of something larger
	kept   bool // see Keep
	use    Use
}

// A Use is how the receiver uses a body.
type Use uint8

const (
	Embedded Use = iota // a part of a page: a picture, a script, a style sheet
	Document            // shown on its own, in a window or a frame
	Program             // read by a program, which may take it for any type
	Sheet               // a style sheet of a page, which old pages accept with any type
	Unsaid              // unknown
)

// maxLabel exceeds the length of any charset label (Encoding Standard).
const maxLabel = 32

// maxCodings is the number of nested codings that are decoded.
const maxCodings = 10

// A coding is a supported content coding.
type coding uint8

const (
	codingNone coding = iota
	codingGzip
	codingDeflate
	codingBrotli
	codingZstd
)

func (c coding) String() string { return [...]string{"identity", "gzip", "deflate", "br", "zstd"}[c] }

// Add reads the next field of the message. It ignores fields that do not describe the body.
func (h *Head) Add(name, value []byte) {
	switch len(name) {
	case 12:
		if equalLower(name, "content-type") {
			h.contentType(value)
		}
	case 13:
		if equalLower(name, "content-range") {
			h.ranged = true
		}
	case 16:
		switch {
		case equalLower(name, "content-encoding"):
			h.contentEncoding(value)
		case equalLower(name, "content-language") && h.lang == language.Unknown:
			h.lang = tagOf(value)
		}
	case 22:
		if equalLower(name, "x-content-type-options") {
			h.contentTypeOptions(value)
		}
	}
}

// tagOf returns the language tag in value, the first if there are several.
func tagOf(value []byte) language.Tag {
	value = bytes.TrimSpace(value)
	return language.Parse(string(value[:min(len(value), 16)]), language.None)
}

// Describe returns the head of a message with these Content-Type and Content-Encoding fields;
// "" means none.
func Describe(contentType, contentEncoding string) *Head {
	h := &Head{}
	if contentType != "" {
		h.contentType([]byte(contentType))
	}
	if contentEncoding != "" {
		h.contentEncoding([]byte(contentEncoding))
	}
	return h
}

// SetUse says how the body is used. On its own, a style sheet or script is shown as plain
// text. A program, such as a script of a page or the server that gets a form, may read any
// type as text.
func (h *Head) SetUse(u Use) { h.use = u }

// Use returns how the body is used.
func (h *Head) Use() Use { return h.use }

// KeepAll says that a check needs all bytes of the body, even if it has no text.
func (h *Head) KeepAll() { h.kept = true }

// Type returns the effective media type in lower case without parameters: the last valid one
// in all Content-Type fields. It is "" if there is none; [Body.Type] then determines the type
// by the first bytes.
func (h *Head) Type() string { return h.typ }

// Coded reports whether the body has content codings, supported or not.
func (h *Head) Coded() bool { return h.nCodings > 0 || h.foreign }

// Partial reports whether the body is a range of something larger.
func (h *Head) Partial() bool { return h.ranged }

// IsStream reports whether the body is a stream of messages or parts that must not wait for
// each other.
func (h *Head) IsStream() bool {
	switch h.typ {
	case "text/event-stream", "multipart/x-mixed-replace":
		return true
	}
	return strings.HasPrefix(h.typ, "application/grpc") || strings.HasPrefix(h.typ, "application/connect+")
}

// Lines reports whether the body is JSON texts, one per line.
func (h *Head) Lines() bool {
	switch h.typ {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl", "application/stream+json":
		return true
	}
	return false
}

// Readable reports whether [Body.Text] may find text in the body.
func (h *Head) Readable() bool {
	if h.typ == "" || h.odd || h.use == Sheet {
		return true
	}
	switch formatOf(h.typ) {
	case formatNone, formatUnread:
		return h.mislabelled()
	case formatScript:
		return h.use != Embedded
	}
	return true
}

// MaybeText reports whether the type has no text, but the body may be text. If it turns out not
// to be text, its rest is not awaited.
func (h *Head) MaybeText() bool {
	if h.typ == "" || h.odd || h.kept || !h.mislabelled() {
		return false
	}
	switch formatOf(h.typ) {
	case formatNone, formatUnread, formatScript:
		return true
	}
	return false
}

// mislabelled reports whether a body whose type has no text may be text, which its first bytes
// decide.
func (h *Head) mislabelled() bool { return h.use == Program || h.use == Unsaid }

// literal reports whether a style sheet or script is read as written. If the use is unknown, a
// style sheet is, because browsers announce it if a page uses it. They do not announce
// scripts, so a script is read as written unless its characters show that it is code.
func (h *Head) literal(how format, head []byte) bool {
	switch {
	case h.use == Document, h.use == Program:
		return true
	case h.use == Unsaid:
		return how == formatCSS || !isCode(head)
	}
	return false
}

// contentType reads a Content-Type field as a list, of which the last valid member counts
// (Fetch Standard, "extract a MIME type"; for cases that it leaves open,
// net::HttpUtil::ParseContentType in Chromium).
func (h *Head) contentType(v []byte) {
	for len(v) > 0 {
		n := listMember(v)
		h.member(v[:n])
		v = v[min(n+1, len(v)):]
	}
}

// listMember returns the length of the first member of a comma-separated list that may contain
// quoted strings.
func listMember(v []byte) int {
	quoted := false
	for i := 0; i < len(v); i++ {
		switch {
		case v[i] == '"':
			quoted = !quoted
		case v[i] == '\\' && quoted:
			i++
		case v[i] == ',' && !quoted:
			return i
		}
	}
	return len(v)
}

// member reads one media type with its parameters.
func (h *Head) member(v []byte) {
	v = bytes.Trim(v, " \t\r\n")
	end := bytes.IndexAny(v, " \t\r\n;(")
	if end < 0 {
		end = len(v)
	}
	typ := v[:end]
	if len(typ) == 0 || bytes.IndexByte(v, '/') < 0 {
		return
	}
	h.any = true
	if !validType(typ) {
		// Chromium uses this as the type; the standard ignores it.
		h.odd = true
		return
	}
	if string(v) == "*/*" {
		return
	}
	h.odd = false
	same := len(typ) == len(h.typ) && equalLower(typ, h.typ)
	if !same {
		h.typ = mediaType(typ)
		h.nCharset = 0
	}
	h.parameters(v[end:], !same)
}

// parameters reads charset and boundary, the first of each.
func (h *Head) parameters(v []byte, fresh bool) {
	hadCharset, hadBoundary := false, false
	for {
		semi := bytes.IndexByte(v, ';')
		if semi < 0 {
			return
		}
		v = bytes.TrimLeft(v[semi+1:], " \t\r\n")
		end := bytes.IndexAny(v, ";=")
		if end < 0 || v[end] == ';' {
			continue
		}
		name := v[:end]
		var value []byte
		value, v = parameterValue(v[end+1:])
		if len(value) == 0 {
			continue
		}
		switch trimmed := bytes.TrimRight(name, " \t"); {
		case !hadCharset && equalLower(trimmed, "charset"):
			hadCharset = true
			h.nCharset = uint8(copy(h.charset[:], bytes.Trim(value, "' \t\r\n\f")))
		case !hadBoundary && equalLower(trimmed, "boundary"):
			hadBoundary = true
			h.nBoundary = uint8(copy(h.boundary[:], value))
		}
	}
}

// parameterValue reads the value of a parameter, which may be quoted. It removes quotes and
// backslashes. Because value must not be changed, it makes a copy for that.
func parameterValue(v []byte) (value, rest []byte) {
	v = bytes.TrimLeft(v, " \t\r\n")
	if len(v) == 0 || v[0] != '"' {
		end := bytes.IndexByte(v, ';')
		if end < 0 {
			end = len(v)
		}
		return bytes.TrimRight(v[:end], " \t\r\n"), v[end:]
	}
	v = v[1:]
	end := bytes.IndexAny(v, "\"\\")
	if end < 0 {
		return v, nil
	}
	if v[end] == '"' {
		return v[:end], v[end+1:]
	}
	for i := 0; i < len(v); i++ {
		switch {
		case v[i] == '"':
			return value, v[i+1:]
		case v[i] == '\\' && i+1 < len(v):
			i++
		}
		value = append(value, v[i])
	}
	return value, nil
}

// validType reports whether v is two tokens with a slash between them.
func validType(v []byte) bool {
	slash := bytes.IndexByte(v, '/')
	if slash <= 0 || slash == len(v)-1 {
		return false
	}
	for i, c := range v {
		if i != slash && !tokenByte[c] {
			return false
		}
	}
	return true
}

// tokenByte marks the bytes of a token (RFC 9110 section 5.6.2).
var tokenByte = func() (t [256]bool) {
	for c := range byte(0x7F) {
		t[c] = isAlnum(c)
	}
	for _, c := range []byte("!#$%&'*+-.^_`|~") {
		t[c] = true
	}
	return t
}()

// contentEncoding reads a Content-Encoding field. Chromium decodes a list of codings only if it
// supports all of them, and otherwise leaves the body unchanged. Other browsers skip those that
// they do not support. So it records the supported ones, and whether there are others.
func (h *Head) contentEncoding(v []byte) {
	for more := true; more; {
		var one []byte
		one, v, more = bytes.Cut(v, []byte(","))
		one = bytes.Trim(one, " \t")
		c := codingOf(one)
		if c == codingNone {
			h.foreign = true
			// Its possible meanings: "gzip;q=1", "\"gzip\"".
			if end := bytes.IndexAny(one, "; \t("); end >= 0 {
				one = one[:end]
			}
			c = codingOf(bytes.Trim(one, "\"'"))
		}
		switch {
		case c == codingNone:
		case h.nCodings == maxCodings:
			h.tooMany = true
		default:
			h.codings[h.nCodings] = c
			h.nCodings++
		}
	}
}

// codingOf returns the coding called v, or codingNone if it is not supported.
func codingOf(v []byte) coding {
	switch {
	case equalLower(v, "gzip"), equalLower(v, "x-gzip"):
		return codingGzip
	case equalLower(v, "deflate"):
		return codingDeflate
	case equalLower(v, "br"):
		return codingBrotli
	case equalLower(v, "zstd"):
		return codingZstd
	}
	return codingNone
}

func (h *Head) contentTypeOptions(v []byte) {
	if h.options {
		return
	}
	h.options = true
	first, _, _ := bytes.Cut(v, []byte(","))
	h.nosniff = equalLower(bytes.Trim(first, " \t"), "nosniff")
}
