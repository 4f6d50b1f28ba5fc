package content

import "bytes"

// How the text of a type is written.
type writing uint8

const (
	unwritten writing = iota // pictures and such: no text
	markupHTML
	markupXML
	writtenPlain
	writtenJSON
	writtenForm
)

// writingOf tells how the text of a media type is written.
func writingOf(typ string) writing {
	b := []byte(typ)
	switch {
	case typ == "text/html":
		return markupHTML
	case typ == "text/xml", typ == "application/xml", bytes.HasSuffix(b, []byte("+xml")):
		return markupXML
	case typ == "application/json", typ == "text/json", bytes.HasSuffix(b, []byte("+json")), typ == "application/x-ndjson":
		return writtenJSON
	case typ == "application/x-www-form-urlencoded":
		return writtenForm
	case bytes.HasPrefix(b, []byte("text/")), bytes.HasPrefix(b, []byte("message/")), bytes.HasPrefix(b, []byte("multipart/")),
		typ == "application/javascript", typ == "application/x-javascript", typ == "application/ecmascript":
		return writtenPlain
	}
	return unwritten
}

// mediaType returns the type of a Content-Type value in lower case, "" if it
// has none. The types of most answers cost no allocation.
func mediaType(v []byte) string {
	if i := bytes.IndexByte(v, ';'); i >= 0 {
		v = v[:i]
	}
	v = bytes.Trim(v, " \t")
	if bytes.IndexByte(v, '/') <= 0 {
		return ""
	}
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
	case "image/jpeg":
		return "image/jpeg"
	case "image/png":
		return "image/png"
	case "image/gif":
		return "image/gif"
	case "image/webp":
		return "image/webp"
	case "image/svg+xml":
		return "image/svg+xml"
	case "font/woff2":
		return "font/woff2"
	}
	return string(bytes.ToLower(v))
}

// sniffLen is how much of a body sniff looks at.
const sniffLen = 512

var magics = []struct{ magic, typ string }{
	{"\xFF\xD8\xFF", "image/jpeg"},
	{"\x89PNG\r\n\x1A\n", "image/png"},
	{"GIF87a", "image/gif"},
	{"GIF89a", "image/gif"},
	{"%PDF-", "application/pdf"},
	{"PK\x03\x04", "application/zip"},
	{"\x1F\x8B\x08", "application/gzip"},
	{"\x7FELF", "application/x-executable"},
	{"MZ", "application/vnd.microsoft.portable-executable"},
	{"\xEF\xBB\xBF", "text/plain"},
	{"\xFE\xFF", "text/plain"},
	{"\xFF\xFE", "text/plain"},
}

// What makes text HTML when it comes first (WHATWG MIME Sniffing, section
// 7.1), each followed by a blank or >.
var htmlStarts = []string{
	"!doctype html", "html", "head", "script", "iframe", "h1", "div", "font",
	"table", "a", "style", "title", "b", "body", "br", "p", "!--", "meta", "link", "span", "form", "img",
}

// sniff tells a media type by the beginning of a body.
func sniff(p []byte) string {
	p = p[:min(len(p), sniffLen)]
	text := bytes.TrimLeft(bytes.TrimPrefix(p, []byte("\xEF\xBB\xBF")), " \t\n\f\r")
	if len(text) > 0 && text[0] == '<' {
		if bytes.HasPrefix(text, []byte("<?xml")) {
			return "text/xml"
		}
		for _, s := range htmlStarts {
			rest := text[1:]
			if len(rest) > len(s) && equalLower(rest[:len(s)], s) && (isSpace(rest[len(s)]) || rest[len(s)] == '>' || s == "!--") {
				return "text/html"
			}
		}
	}
	for _, m := range magics {
		if bytes.HasPrefix(p, []byte(m.magic)) {
			return m.typ
		}
	}
	if len(p) >= 12 && string(p[:4]) == "RIFF" && string(p[8:12]) == "WEBP" {
		return "image/webp"
	}
	for _, c := range p {
		if c < 0x09 || c == 0x0B || c >= 0x0E && c < 0x1B || c >= 0x1C && c < 0x20 {
			return "application/octet-stream"
		}
	}
	return "text/plain"
}
