package media

import (
	"bytes"
	"strings"

	"shuultuur/content/coding"
	"shuultuur/lib/ascii"
	"shuultuur/lib/language"
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

	codings coding.List

	lang language.Tag // the first in Content-Language

	ranged bool // Content-Range: a part of something larger
	keep   bool // see KeepAll
	use    Use
	claims bool // see Claim
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

// Add reads the next field of the message. It ignores fields that do not describe the body.
func (h *Head) Add(name, value []byte) {
	switch len(name) {
	case 12:
		if ascii.EqualLower(name, "content-type") {
			h.AddType(value)
		}
	case 13:
		if ascii.EqualLower(name, "content-range") {
			h.ranged = true
		}
	case 16:
		switch {
		case ascii.EqualLower(name, "content-encoding"):
			h.codings.Add(value)
		case ascii.EqualLower(name, "content-language") && h.lang == language.Unknown:
			h.lang = LanguageOf(value)
		}
	case 22:
		if ascii.EqualLower(name, "x-content-type-options") {
			h.contentTypeOptions(value)
		}
	}
}

// LanguageOf returns the language tag in value, the first if there are several.
func LanguageOf(value []byte) language.Tag {
	value = bytes.TrimSpace(value)
	return language.Parse(string(value[:min(len(value), 16)]), language.None)
}

// Describe returns the head of a message with these Content-Type and Content-Encoding fields;
// "" means none.
func Describe(contentType, contentEncoding string) *Head {
	h := &Head{}
	if contentType != "" {
		h.AddType([]byte(contentType))
	}
	if contentEncoding != "" {
		h.codings.Add([]byte(contentEncoding))
	}
	return h
}

// SetUse says how the body is used. On its own, a style sheet or script is shown as plain
// text. A program, such as a script of a page or the server that gets a form, may read any
// type as text.
func (h *Head) SetUse(u Use) { h.use = u }

// Use returns how the body is used.
func (h *Head) Use() Use { return h.use }

// Claim says that the body may lack the codings that the fields name, as that of a request: then
// it is read as it is.
func (h *Head) Claim() { h.claims = true }

// Claimed reports whether Claim was called.
func (h *Head) Claimed() bool { return h.claims }

// KeepAll says that a check needs all bytes of the body, even if it has no text.
func (h *Head) KeepAll() { h.keep = true }

// Type returns the effective media type in lower case without parameters: the last valid one
// in all Content-Type fields. It is "" if there is none; the first bytes then
// determine the type.
func (h *Head) Type() string { return h.typ }

// Charset returns the label of the charset that the fields declare, empty if there is none.
func (h *Head) Charset() []byte { return h.charset[:h.nCharset] }

// Boundary returns the boundary of a multipart body, empty if there is none.
func (h *Head) Boundary() []byte { return h.boundary[:h.nBoundary] }

// Codings returns the content codings.
func (h *Head) Codings() *coding.List { return &h.codings }

// Language returns the first language that the fields declare, or Unknown.
func (h *Head) Language() language.Tag { return h.lang }

// Invalid reports whether the last Content-Type is not a valid type. Browsers differ in its meaning.
func (h *Head) Invalid() bool { return h.odd }

// Kept reports whether a check needs all bytes of the body.
func (h *Head) Kept() bool { return h.keep }

// Coded reports whether the body has content codings, supported or not.
func (h *Head) Coded() bool { return h.codings.Foreign() || len(h.codings.All()) > 0 }

// Deflated reports whether the body has a single coding whose end can be replaced.
func (h *Head) Deflated() bool { return h.codings.Deflated() }

// DecodedByBrowsers reports whether the body has only codings that every browser decodes.
func (h *Head) DecodedByBrowsers() bool { return h.codings.DecodedByBrowsers() }

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

// Readable reports whether the body may have text.
func (h *Head) Readable() bool {
	if h.typ == "" || h.odd || h.use == Sheet {
		return true
	}
	switch FormatOf(h.typ) {
	case None, Unread:
		return h.Mislabelled() || h.maybeDownloaded()
	case Script:
		return h.use != Embedded
	}
	return true
}

// MaybeText reports whether the type has no text, but the body may be text. If it turns out not
// to be text, its rest is not awaited.
func (h *Head) MaybeText() bool {
	if h.typ == "" || h.odd || h.keep || !h.Mislabelled() && !h.maybeDownloaded() {
		return false
	}
	switch FormatOf(h.typ) {
	case None, Unread:
		return true
	case Script:
		return h.Mislabelled()
	}
	return false
}

// Mislabelled reports whether a body whose type has no text may be text, which its first bytes
// decide.
func (h *Head) Mislabelled() bool { return h.use == Program || h.use == Unsaid }

// maybeDownloaded reports whether a body without a type for text, which a browser shows on its own or
// saves, may be a document: its first bytes decide.
func (h *Head) maybeDownloaded() bool { return h.use == Document }

// literal reports whether a style sheet or script is read as written. If the use is unknown, a
// style sheet is, because browsers announce it if a page uses it. They do not announce
// scripts, so a script is read as written unless its characters show that it is code.
func (h *Head) literal(how Format, head []byte) bool {
	switch {
	case h.use == Document, h.use == Program:
		return true
	case h.use == Unsaid:
		return how == CSS || !IsCode(head)
	}
	return false
}

// AddType reads a Content-Type field as a list, of which the last valid member counts
// (Fetch Standard, "extract a MIME type"; for cases that it leaves open,
// net::HttpUtil::ParseContentType in Chromium).
func (h *Head) AddType(v []byte) {
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
	same := len(typ) == len(h.typ) && ascii.EqualLower(typ, h.typ)
	if !same {
		h.typ = Type(typ)
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
		case !hadCharset && ascii.EqualLower(trimmed, "charset"):
			hadCharset = true
			h.nCharset = uint8(copy(h.charset[:], bytes.Trim(value, "' \t\r\n\f")))
		case !hadBoundary && ascii.EqualLower(trimmed, "boundary"):
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
	if slash < 0 {
		return false
	}
	return ascii.IsToken(v[:slash]) && ascii.IsToken(v[slash+1:])
}

func (h *Head) contentTypeOptions(v []byte) {
	if h.options {
		return
	}
	h.options = true
	first, _, _ := bytes.Cut(v, []byte(","))
	h.nosniff = ascii.EqualLower(bytes.Trim(first, " \t"), "nosniff")
}
