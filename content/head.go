package content

import (
	"bytes"
	"strings"

	"shuultuur/content/language"
)

// A Head is what the fields of a message say about its body. A server gives it
// the fields in order ([Head.Add]); everyone else asks it. It refers to none of
// the bytes it was given, and the zero Head is that of a message without
// fields.
//
// Fields are read as browsers read them, which is more lenient than RFC 9110:
// what a browser would render must be inspected.
type Head struct {
	typ     string // the effective type, "" where the body has to be sniffed
	any     bool   // a Content-Type field was there
	odd     bool   // the last one was no valid type: browsers differ on what it means
	nosniff bool
	options bool // the first X-Content-Type-Options field was read

	charset  [maxLabel]byte
	nCharset uint8

	boundary  [70]byte // RFC 2046, 5.1.1
	nBoundary uint8

	codings  [maxCodings]coding // known ones, in the order they were applied
	nCodings uint8
	tooMany  bool
	foreign  bool // others are among them, so that browsers undo none

	lang language.Tag // the first of Content-Language

	ranged bool // Content-Range: a part of something larger
	kept   bool // see Keep
	use    Use
}

// A Use is what becomes of a body where it arrives.
type Use uint8

const (
	Embedded Use = iota // a part of a page: a picture, a script, a style sheet
	Document            // shown by itself, in a window or a frame
	Program             // read by a program, as whatever that takes it for
	Sheet               // a style sheet of a page, which old pages take whatever its type is
	Unsaid              // any of these
)

// maxLabel is more than the longest label of a charset has (Encoding Standard).
const maxLabel = 32

// maxCodings is how many codings applied one after another are undone.
const maxCodings = 10

// A coding is a content coding that can be undone.
type coding uint8

const (
	codingNone coding = iota
	codingGzip
	codingDeflate
	codingBrotli
	codingZstd
)

func (c coding) String() string { return [...]string{"identity", "gzip", "deflate", "br", "zstd"}[c] }

// Add takes the next field of the message. Fields that say nothing of the body
// are ignored.
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

// tagOf reads a tag of a language, or the first of several.
func tagOf(value []byte) language.Tag {
	value = bytes.TrimSpace(value)
	return language.Parse(string(value[:min(len(value), 16)]), language.None)
}

// Describe returns the head of a message with these Content-Type and
// Content-Encoding fields; "" is none.
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

// SetUse says what becomes of the body. By itself, a style sheet or script is
// plain text. A program, such as a script of a page or the server that a form is
// sent to, may take for text what has any type.
func (h *Head) SetUse(u Use) { h.use = u }

// Use returns what becomes of the body.
func (h *Head) Use() Use { return h.use }

// Keep says that a check needs all bytes of the body, though it may have no text.
func (h *Head) Keep() { h.kept = true }

// Type returns the effective media type, lower case, without parameters: the
// last valid one of all Content-Type fields. It is "" when the fields give none
// that means anything; [Body.Type] then tells it by the first bytes.
func (h *Head) Type() string { return h.typ }

// Boundary returns what stands between the parts of a multipart (RFC 2046,
// 5.1.1), "" for anything else.
func (h *Head) Boundary() string { return string(h.boundary[:h.nBoundary]) }

// Coded says whether the body has content codings, known ones or others.
func (h *Head) Coded() bool { return h.nCodings > 0 || h.foreign }

// Partial says whether the body is a range of something larger.
func (h *Head) Partial() bool { return h.ranged }

// Endless says whether the body is a stream of messages or parts that must not
// wait for each other.
func (h *Head) Endless() bool {
	switch h.typ {
	case "text/event-stream", "multipart/x-mixed-replace":
		return true
	}
	return strings.HasPrefix(h.typ, "application/grpc") || strings.HasPrefix(h.typ, "application/connect+")
}

// Lines says whether the body is JSON texts, one on a line.
func (h *Head) Lines() bool {
	switch h.typ {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl", "application/stream+json":
		return true
	}
	return false
}

// Readable says whether the body may have text in it that [Body.Text] finds.
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

// Doubtful says whether the type is of something without text, and the body may
// be text all the same. Nobody waits for the rest of what turns out to be none.
func (h *Head) Doubtful() bool {
	if h.typ == "" || h.odd || h.kept || !h.mislabelled() {
		return false
	}
	switch formatOf(h.typ) {
	case formatNone, formatUnread, formatScript:
		return true
	}
	return false
}

// mislabelled says whether a body of a type that has no text may be text all the
// same, which its first bytes tell.
func (h *Head) mislabelled() bool { return h.use == Program || h.use == Unsaid }

// literal says whether a style sheet or script is read as it is written. Where
// nothing says who reads it, browsers have other words for what they want of a
// style sheet; of a script they have not, and code is told from text by its signs.
func (h *Head) literal(how format, head []byte) bool {
	switch {
	case h.use == Document, h.use == Program:
		return true
	case h.use == Unsaid:
		return how == formatCSS || !isCode(head)
	}
	return false
}

// contentType reads a Content-Type field (Fetch Standard, "extract a MIME
// type"; net::HttpUtil::ParseContentType in Chromium for what that leaves
// open): a list, of which the last valid member counts.
func (h *Head) contentType(v []byte) {
	for len(v) > 0 {
		n := listMember(v)
		h.member(v[:n])
		v = v[min(n+1, len(v)):]
	}
}

// listMember returns the length of the first member of a comma-separated list
// with quoted strings.
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
		// Chromium takes this for the type, the standard skips it.
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

// parameterValue reads the value of a parameter, which may be quoted. Quotes
// and backslashes are taken out; value may be changed in place only where it
// is: a copy is made.
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

// validType says whether v is two tokens with a slash between them.
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

// tokenByte are the bytes of a token (RFC 9110, 5.6.2).
var tokenByte = func() (t [256]bool) {
	for c := range byte(0x7F) {
		t[c] = isAlnum(c)
	}
	for _, c := range []byte("!#$%&'*+-.^_`|~") {
		t[c] = true
	}
	return t
}()

// contentEncoding reads a Content-Encoding field. Chromium undoes the codings
// of a list only when it knows all of them, and leaves the body as it is
// otherwise; others skip those they do not know. So the known ones are noted,
// and that there are others.
func (h *Head) contentEncoding(v []byte) {
	for more := true; more; {
		var one []byte
		one, v, more = bytes.Cut(v, []byte(","))
		one = bytes.Trim(one, " \t")
		c := codingOf(one)
		if c == codingNone {
			h.foreign = true
			// What it may have meant: "gzip;q=1", "\"gzip\"".
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

// codingOf returns the coding called v, codingNone for all that is not one.
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
