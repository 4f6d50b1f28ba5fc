// Package media says what a body is. A [Head] gathers what the fields of its message declare: type,
// charset, codings, language, use. [Sniff] reads the type from the first bytes. [Head.Judge] weighs
// both as browsers do, and returns the [Format] in which text is found.
package media

import (
	"bytes"
	"encoding/binary"

	"shuultuur/content/coding"
	"shuultuur/lib/ascii"
	"shuultuur/lib/charset"
)

// A Format is the way in which text is found in a body.
type Format uint8

const (
	None    Format = iota // pictures and such: no text
	HTML                  // markup by the rules of HTML
	XML                   // markup by the rules of XML
	Plain                 // everything is text
	JSON                  // text with escapes
	Form                  // urlencoded
	CSS                   // text in quotes is shown
	Script                // text in quotes may be shown
	Members               // an archive: bodies within the body, with names
	MIME                  // the same for mail and forms
	RTF
	PDF
	Archive // of documents
	CBOR
	Unread // unknown until the first bytes
)

// FormatOf returns the format for a media type.
func FormatOf(typ string) Format {
	b := []byte(typ)
	switch {
	case typ == "text/html":
		return HTML
	case typ == "text/xml", typ == "application/xml", typ == "text/xsl", bytes.HasSuffix(b, []byte("+xml")) && !IsMedia(typ),
		bytes.HasPrefix(b, []byte("application/vnd.oasis.opendocument.")) && bytes.HasSuffix(b, []byte("-flat-xml")):
		return XML
	case typ == "application/json", typ == "text/json", bytes.HasSuffix(b, []byte("+json")),
		typ == "application/x-ndjson", typ == "application/x-json", typ == "application/jsonl", typ == "application/ndjson", typ == "application/json-seq":
		return JSON
	case typ == "application/x-www-form-urlencoded":
		return Form
	case typ == "text/css":
		return CSS
	case isScript(typ):
		return Script
	case typ == "application/rtf", typ == "text/rtf", typ == "text/richtext", typ == "application/x-rtf":
		return RTF
	case typ == "application/pdf", typ == "application/x-pdf":
		return PDF
	case isArchive(typ):
		return Archive
	case isMembers(typ):
		return Members
	case typ == "application/cbor", typ == "application/cbor-seq", bytes.HasSuffix(b, []byte("+cbor")):
		return CBOR
	case typ == "message/rfc822", typ == "message/partial", typ == "application/mbox", bytes.HasPrefix(b, []byte("multipart/")):
		return MIME
	case bytes.HasPrefix(b, []byte("text/")), bytes.HasPrefix(b, []byte("message/")), IsPacked(typ):
		return Plain
	case IsMedia(typ):
		return None
	}
	return Unread
}

// TarMagicAt is the position of the signature of tar (POSIX.1-1988, ustar).
const TarMagicAt = 257

// isMembers reports whether bodies of a type are archives.
func isMembers(typ string) bool {
	switch typ {
	case "application/zip", "application/x-zip", "application/x-zip-compressed", "application/x-tar", "application/tar", "application/x-gtar",
		"application/gzip", "application/x-gzip", "application/x-gtar-compressed", "application/x-compressed-tar", "application/x-tgz",
		"application/x-7z-compressed", "application/x-rar-compressed", "application/vnd.rar", "application/x-rar", "application/zstd":
		return true
	}
	return false
}

// isArchive reports whether bodies of a type are documents in a ZIP archive.
func isArchive(typ string) bool {
	b := []byte(typ)
	return typ == "application/epub+zip" ||
		bytes.HasPrefix(b, []byte("application/vnd.openxmlformats-officedocument.")) ||
		bytes.HasPrefix(b, []byte("application/vnd.oasis.opendocument.")) ||
		bytes.HasPrefix(b, []byte("application/vnd.ms-")) && bytes.HasSuffix(b, []byte(".macroenabled.12"))
}

// IsPacked reports whether bodies of a type are data for programs that contain strings in
// UTF-8 between binary bytes.
func IsPacked(typ string) bool {
	switch typ {
	case "application/protobuf", "application/x-protobuf", "application/vnd.google.protobuf", "application/proto", "application/connect+proto",
		"application/msgpack", "application/x-msgpack", "application/vnd.msgpack", "application/cbor", "application/bson":
		return true
	}
	return false
}

// isScript reports whether typ is a type of JavaScript (WHATWG MIME Sniffing section 4.6).
func isScript(typ string) bool {
	switch typ {
	case "text/javascript", "application/javascript", "application/x-javascript", "text/x-javascript",
		"application/ecmascript", "application/x-ecmascript", "text/ecmascript", "text/x-ecmascript",
		"text/jscript", "text/livescript":
		return true
	}
	return false
}

// IsMedia reports whether bodies of a type are pictures, sound, fonts or programs, without
// text whatever their bytes: no browser sniffs them for text.
func IsMedia(typ string) bool {
	b := []byte(typ)
	for _, top := range [...]string{"image/", "audio/", "video/", "font/", "model/"} {
		if bytes.HasPrefix(b, []byte(top)) {
			return typ != "image/svg+xml"
		}
	}
	switch typ {
	case "application/wasm", "application/ogg", "application/vnd.apple.mpegurl", "application/dash+xml",
		"application/font-woff", "application/font-woff2", "application/x-font-ttf", "application/x-font-woff",
		"application/vnd.ms-fontobject", "application/ocsp-response", "application/dns-message",
		"application/pkix-cert", "application/pkix-crl", "application/x-x509-ca-cert":
		return true
	}
	return false
}

// Type returns a media type in lower case. The most frequent ones cost no allocation.
func Type(v []byte) string {
	switch string(v) {
	case "text/html":
		return "text/html"
	case "text/plain":
		return "text/plain"
	case "text/css":
		return "text/css"
	case "text/javascript":
		return "text/javascript"
	case "application/javascript":
		return "application/javascript"
	case "application/json":
		return "application/json"
	case "application/octet-stream":
		return "application/octet-stream"
	case "application/x-www-form-urlencoded":
		return "application/x-www-form-urlencoded"
	case "application/xml":
		return "application/xml"
	case "text/xml":
		return "text/xml"
	case "text/event-stream":
		return "text/event-stream"
	case "image/jpeg":
		return "image/jpeg"
	case "image/png":
		return "image/png"
	case "image/gif":
		return "image/gif"
	case "image/webp":
		return "image/webp"
	case "image/avif":
		return "image/avif"
	case "image/svg+xml":
		return "image/svg+xml"
	case "video/mp4":
		return "video/mp4"
	case "font/woff2":
		return "font/woff2"
	case "*/*", "unknown/unknown", "application/unknown":
		return ""
	}
	low := bytes.ToLower(v)
	switch string(low) {
	case "unknown/unknown", "application/unknown":
		return ""
	}
	return string(low)
}

// signatures are the beginnings of types without text (WHATWG MIME Sniffing sections 6 and
// 7.1, and further archives and programs).
var signatures = []struct {
	magic, typ string
	weak       bool // text may begin in the same way
}{
	{"\xFF\xD8\xFF", "image/jpeg", false},
	{"\x89PNG\r\n\x1A\n", "image/png", false},
	{"GIF87a", "image/gif", false},
	{"GIF89a", "image/gif", false},
	{"BM", "image/bmp", true},
	{"\x00\x00\x01\x00", "image/x-icon", false},
	{"%PDF-", "application/pdf", false},
	{`{\rtf`, "application/rtf", false},
	{"%!PS-Adobe-", "application/postscript", false},
	{"PK\x03\x04", "application/zip", false},
	{"\x1F\x8B\x08", "application/gzip", false},
	{"Rar!\x1A\x07", "application/x-rar-compressed", false},
	{"7z\xBC\xAF\x27\x1C", "application/x-7z-compressed", false},
	{"OggS\x00", "application/ogg", false},
	{"ID3", "audio/mpeg", true},
	{"\x1A\x45\xDF\xA3", "video/webm", false},
	{"\x7FELF", "application/x-executable", false},
	{"MZ", "application/vnd.microsoft.portable-executable", true},
	{"MZ\x90", "application/vnd.microsoft.portable-executable", false},
	{"\x00asm", "application/wasm", false},
	{"wOFF", "font/woff", true},
	{"wOF2", "font/woff2", true},
}

// htmlStarts are the beginnings of HTML (WHATWG MIME Sniffing section 7.1). Like Chromium, we
// do not check the byte after them.
var htmlStarts = []string{
	"!doctype html", "script", "html", "!--", "head", "iframe", "h1", "div", "font",
	"table", "a", "style", "title", "b", "body", "br", "p",
	// Not in the standard, but unambiguous.
	"meta", "link", "span", "form", "img", "svg", "noscript", "template", "center", "frameset", "ul", "main", "section", "h2", "h3",
}

// Sniff determines the media type of a body without a declared one, by its beginning.
func Sniff(p []byte) string {
	if t := sniffMarkup(p); t != "" {
		return t
	}
	odd := IsBinary(p)
	if t := signature(p, odd); t != "" {
		return t
	}
	if odd {
		return "application/octet-stream"
	}
	return "text/plain"
}

// sniffMarkup returns text/html or text/xml if text begins like these.
func sniffMarkup(p []byte) string {
	text := bytes.TrimLeft(bytes.TrimPrefix(p, []byte("\xEF\xBB\xBF")), " \t\n\f\r")
	if len(text) == 0 || text[0] != '<' {
		return ""
	}
	if bytes.HasPrefix(text, []byte("<?xml")) {
		return "text/xml"
	}
	for _, s := range htmlStarts {
		if len(text) > len(s) && ascii.EqualLower(text[1:1+len(s)], s) {
			return "text/html"
		}
	}
	return ""
}

// signature returns the type whose signature p has, "" for none. If p has no binary bytes,
// short signatures of letters do not count.
func signature(p []byte, binary bool) string {
	for _, m := range signatures {
		if (binary || !m.weak) && bytes.HasPrefix(p, []byte(m.magic)) {
			return m.typ
		}
	}
	if len(p) < 12 || !binary {
		return ""
	}
	if len(p) >= TarMagicAt+5 && string(p[TarMagicAt:TarMagicAt+5]) == "ustar" {
		return "application/x-tar"
	}
	if string(p[4:8]) == "ftyp" {
		return brand(p[8:12])
	}
	if string(p[:4]) == "RIFF" {
		switch string(p[8:12]) {
		case "WEBP":
			return "image/webp"
		case "WAVE":
			return "audio/wav"
		case "AVI ":
			return "video/x-msvideo"
		}
	}
	return ""
}

// brand returns the type of a file in the container of MP4 (ISO/IEC 14496-12), by its major brand.
func brand(b []byte) string {
	switch string(b) {
	case "M4A ", "M4B ", "M4P ":
		return "audio/mp4"
	case "avif", "avis":
		return "image/avif"
	case "heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1":
		return "image/heic"
	case "crx ":
		return "image/x-canon-cr3"
	case "qt  ":
		return "video/quicktime"
	}
	return "video/mp4"
}

// Unlabelled returns how to read bytes without a known signature: as text if they are UTF-16,
// or if at least an eighth of them are words, as in formats that contain plain strings.
func Unlabelled(p []byte) Format {
	switch {
	case charset.GuessUTF16(p) != nil, wordy(p):
		return Plain
	case coding.ByMagic(p) != coding.None:
		return Members
	}
	return None
}

// wordLen is the number of successive letters that hardly occur by chance.
const wordLen = 5

func wordy(p []byte) bool {
	letters, run := 0, 0
	for i := 0; i <= len(p); i++ {
		if i < len(p) && ascii.IsLetter(p[i]) {
			run++
			continue
		}
		if run >= wordLen {
			letters += run
		}
		run = 0
	}
	return letters*8 >= len(p) && letters > 0
}

// ProgramFormat returns how a program reads text, by its first bytes.
func ProgramFormat(how Format, p []byte) Format {
	switch {
	case how != Plain && (how != HTML || sniffMarkup(p) != ""):
	case isJSON(p), how == Plain && isJSONLines(p):
		return JSON
	case how == Plain && isFormData(p):
		return Form
	}
	return how
}

// jsonGuards precede JSON so that no page can run it as a script.
var jsonGuards = [...]string{"while(1);", "while (1);", "for(;;);", "for (;;);", "while(true);", "throw 1;", "throw 0;"}

// isJSONLines reports whether p begins with lines of JSON with a prefix, in which assistants
// send their answers: numbers, or names of server-sent events.
func isJSONLines(p []byte) bool {
	for line := range bytes.SplitSeq(p, []byte("\n")) {
		name, value, ok := bytes.Cut(bytes.TrimRight(line, "\r"), []byte(":"))
		value = bytes.TrimLeft(value, " ")
		switch {
		case len(line) == 0:
		case !ok || len(name) > len("event"):
			return false
		case string(name) == "data" || len(name) > 0 && len(name) < 3 && ascii.IsAlnum(name[0]):
			return len(value) > 0 && (value[0] == '{' || value[0] == '[' || value[0] == '"')
		case string(name) != "event" && string(name) != "id" && string(name) != "retry" && len(name) > 0:
			return false
		}
	}
	return false
}

// isJSON reports whether p begins like JSON: with an object, a list, or a string with an
// escape.
func isJSON(p []byte) bool {
	p = bytes.TrimLeft(bytes.TrimPrefix(p, []byte("\xEF\xBB\xBF")), " \t\r\n")
	for _, guard := range jsonGuards {
		if rest, ok := bytes.CutPrefix(p, []byte(guard)); ok {
			p = bytes.TrimLeft(rest, " \t\r\n")
			break
		}
	}
	at := JSONStart(p)
	if at < 0 {
		return false
	}
	p = p[at:]
	next := bytes.TrimLeft(p[1:], " \t\r\n")
	switch {
	case p[0] == '"':
		return bytes.Contains(next, []byte(`\u`))
	case len(next) == 0:
		return true
	case p[0] == '{':
		return next[0] == '"' || next[0] == '}'
	}
	return bytes.IndexByte([]byte(`"{[]-0123456789tfn`), next[0]) >= 0
}

// isFormData reports whether p begins like fields of a form: a name, and values with escapes.
func isFormData(p []byte) bool {
	name, rest, ok := bytes.Cut(p, []byte("="))
	if !ok || len(name) == 0 || bytes.IndexByte(rest, '%') < 0 {
		return false
	}
	for _, c := range p {
		if c <= ' ' || c >= 0x7F || c == '"' || c == '<' || c == '>' || c == '{' || c == '}' {
			return false
		}
	}
	return true
}

// IsCode reports whether p begins with a comment, or has as many special characters as
// programs have, and is not JSON.
func IsCode(p []byte) bool {
	if isJSON(p) {
		return false
	}
	if q := bytes.TrimLeft(p, " \t\r\n"); bytes.HasPrefix(q, []byte("/*")) || bytes.HasPrefix(q, []byte("//")) {
		return true
	}
	signs := 0
	for _, c := range p {
		switch c {
		case '(', ')', '{', '}', '[', ']', '=', ';':
			signs++
		}
	}
	return signs*50 > len(p)
}

// IsCallback reports whether a script calls a function with data, as in JSONP: its strings are
// the data that a page requested.
func IsCallback(p []byte) bool {
	p = bytes.TrimPrefix(bytes.TrimLeft(p, " \t\r\n;"), []byte("/**/"))
	open := bytes.IndexByte(p[:min(len(p), 160)], '(')
	if open <= 0 {
		return false
	}
	for _, c := range p[:open] {
		if !ascii.IsAlnum(c) && !ascii.IsSpace(c) && !bytes.ContainsRune([]byte("_$.&|='\"[]!"), rune(c)) {
			return false
		}
	}
	data := bytes.TrimLeft(p[open+1:], " \t\r\n")
	if len(data) < 2 {
		return false
	}
	inner := bytes.TrimLeft(data[1:], " \t\r\n")
	switch data[0] {
	case '{':
		return len(inner) > 0 && inner[0] == '"'
	case '[':
		return len(inner) > 0 && bytes.IndexByte([]byte("{[\""), inner[0]) >= 0
	case '"':
		_, rest, _ := bytes.Cut(data[1:], []byte{'"'})
		return len(rest) == 0 || rest[0] == ')'
	}
	return false
}

// IsBinary reports whether p has bytes that do not occur in text (WHATWG MIME Sniffing section
// 3).
func IsBinary(p []byte) bool {
	if e, _ := charset.Mark(p); e != nil {
		return false
	}
	for ; len(p) >= 8; p = p[8:] {
		// Most eight bytes of a text have no control byte; they are told by one comparison.
		const ones, highs = 0x0101010101010101, 0x8080808080808080
		if x := binary.LittleEndian.Uint64(p); (x-0x20*ones)&^x&highs != 0 && hasBinary(p[:8]) {
			return true
		}
	}
	return hasBinary(p)
}

func hasBinary(p []byte) bool {
	for _, c := range p {
		if c < 0x09 || c == 0x0B || c >= 0x0E && c < 0x1B || c >= 0x1C && c < 0x20 {
			return true
		}
	}
	return false
}

// JSONStart returns where JSON begins in a message, after prefixes of some protocols (a
// number, a guard against inclusion), or -1.
func JSONStart(p []byte) int {
	for i, c := range p[:min(len(p), 16)] {
		switch {
		case c == '{' || c == '[' || c == '"' && i == 0:
			return i
		case c >= 'a' && c <= 'z' && i > 0, c >= 0x80, c < ' ' && !ascii.IsSpace(c) && c != 0x1E:
			return -1
		}
	}
	return -1
}

// IsRTF reports whether p begins like an RTF document.
func IsRTF(p []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(p, " \t\r\n"), []byte(`{\rt`)) }

// IsSubtitles reports whether a text has cues, in which tags count: WebVTT is recognised
// whatever its type.
func IsSubtitles(typ string, head []byte) bool {
	switch typ {
	case "text/vtt", "text/srt", "application/x-subrip", "text/markdown", "text/enriched":
		return true
	}
	_, n := charset.Mark(head)
	return bytes.HasPrefix(head[n:], []byte("WEBVTT"))
}
