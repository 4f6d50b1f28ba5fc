// Package edit changes HTML pages on their way to the client by the lists of ad blockers: it
// inserts a style sheet, a link to another one and a script at the beginning of the head, and
// changes the page's Content-Security-Policy to allow them.
//
// [New] gets the changes to a page and its response head, and changes the head. [Editor.Next]
// then gets the text of the page piece by piece. It holds the beginning until it knows where
// the head begins, and passes the rest unchanged. A response that turns out not to be a page
// passes unchanged.
package edit

import (
	"bytes"
	"fmt"
	"html"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// maxBeginning is the number of bytes that are held while looking for the head. If the head
// has not begun by then, the markup is inserted there.
const maxBeginning = 16 << 10

// An Editor changes one page.
type Editor struct {
	markup     []byte
	navigation bool // the browser requested a page to show on its own
	charset    bool // the head declares the charset of the page
	begun      bool // the markup was inserted, or there is no page
	held       []byte
}

// policyFields are the fields that contain policies.
var policyFields = []string{"Content-Security-Policy", "Content-Security-Policy-Report-Only"}

// New returns an editor for the page that t requests, and applies changes to its response
// head, fields. It keeps nothing of changes.
func New(t *filter.Transaction, changes *filter.Changes, fields *message.Fields) *Editor {
	scheme, host, _ := strings.Cut(t.URL, "://")
	if i := strings.IndexAny(host, "/?"); i >= 0 {
		host = host[:i]
	}
	var policies []string
	for _, f := range *fields {
		if isPolicy(f.Name) {
			policies = append(policies, string(f.Value))
		}
	}
	e := &Editor{navigation: isNavigation(t.Request), charset: bytes.Contains(bytes.ToLower(fields.Get("Content-Type")), []byte("charset="))}
	nonces := map[string]string{
		styleDirectives[0]: nonceOf(policies, styleDirectives), scriptDirectives[0]: nonceOf(policies, scriptDirectives),
	}
	var needs []need
	if len(changes.Style) > 0 {
		needs = append(needs, inlineNeed(styleDirectives, changes.Style))
		e.markup = fmt.Appendf(e.markup, "<style%s>%s</style>", nonceAttribute(nonces[styleDirectives[0]]), changes.Style)
	}
	if changes.Sheet != "" {
		url := scheme + "://" + host + changes.Sheet
		needs = append(needs, need{directives: styleDirectives, url: url})
		e.markup = fmt.Appendf(e.markup, `<link rel="stylesheet"%s href="%s">`, nonceAttribute(nonces[styleDirectives[0]]), html.EscapeString(url))
	}
	if len(changes.Script) > 0 {
		needs = append(needs, inlineNeed(scriptDirectives, changes.Script))
		e.markup = fmt.Appendf(e.markup, "<script%s>%s</script>", nonceAttribute(nonces[scriptDirectives[0]]), changes.Script)
	}
	for i := range *fields {
		if f := &(*fields)[i]; isPolicy(f.Name) {
			if s := allow(string(f.Value), needs, nonces, host, scheme); s != string(f.Value) {
				f.Value = []byte(s)
			}
		}
	}
	for _, policy := range changes.Policies {
		fields.Add(policyFields[0], allow(policy, needs, nonces, host, scheme))
	}
	for _, policy := range changes.Permissions {
		fields.Add("Permissions-Policy", policy)
	}
	return e
}

// isNavigation reports whether a browser requested something to show on its own.
func isNavigation(q *message.Request) bool {
	switch string(q.Get("Sec-Fetch-Dest")) {
	case "document", "iframe", "frame":
		return true
	case "":
		return bytes.HasPrefix(q.Get("Accept"), []byte("text/html"))
	}
	return false
}

func isPolicy(name []byte) bool {
	return strings.EqualFold(string(name), policyFields[0]) || strings.EqualFold(string(name), policyFields[1])
}

func nonceAttribute(nonce string) string {
	if nonce == "" {
		return ""
	}
	return ` nonce="` + nonce + `"`
}

// Next appends to dst the output for the next piece of the page's text, including bytes held
// before. last says that it is the last piece.
func (e *Editor) Next(dst, piece []byte, last bool) []byte {
	if e.begun {
		return append(dst, piece...)
	}
	e.held = append(e.held, piece...)
	at, document, sure := headOf(e.held, last)
	document = document || e.navigation
	if !sure && !last && len(e.held) < maxBeginning {
		return dst
	}
	if document && !e.charset && !last && len(e.held) < prescan {
		return dst // wait for its charset
	}
	e.begun = true
	held := e.held
	e.held = nil
	if !document || isUTF16(held) {
		return append(dst, held...)
	}
	dst = append(dst, held[:at]...)
	if charset := charsetOf(held); !e.charset && charset != "" {
		dst = fmt.Appendf(dst, `<meta charset="%s">`, charset)
	}
	return append(append(dst, e.markup...), held[at:]...)
}

func isUTF16(b []byte) bool {
	return bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff"))
}

// headOf returns where the head of a page begins: after its start tag, or where that would be.
// document reports whether there are signs of a page; sure, whether more bytes would not
// change the result, as when all is there.
func headOf(page []byte, all bool) (at int, document, sure bool) {
	mark := []byte("\xef\xbb\xbf")
	if !all && len(page) < len(mark) && bytes.HasPrefix(mark, page) {
		return 0, false, false
	}
	rest := bytes.TrimPrefix(page, mark)
	for {
		rest = bytes.TrimLeft(rest, " \t\r\n\f")
		at = len(page) - len(rest)
		begins := func(with string) bool {
			return len(rest) >= len(with) && strings.EqualFold(string(rest[:len(with)]), with)
		}
		if len(rest) == 0 || !all && len(rest) < len("<!doctype") && rest[0] == '<' {
			return at, document, false
		}
		end, head := 0, false
		switch {
		case begins("<!--"):
			if end = bytes.Index(rest[2:], []byte("-->")); end >= 0 {
				end += 2 + len("-->")
			}
		case begins("<!doctype"), tagIs(rest, "html"), tagIs(rest, "head"):
			document = true
			head = tagIs(rest, "head")
			end = tagEnd(rest)
		case begins("<!"), begins("<?"):
			end = bytes.IndexByte(rest, '>') + 1
			if end == 0 {
				end = -1
			}
		default:
			return at, document, true
		}
		if end < 0 {
			return at, document, false
		}
		rest = rest[end:]
		if head {
			return len(page) - len(rest), document, true
		}
	}
}

// tagIs reports whether b begins with the start tag of an element.
func tagIs(b []byte, name string) bool {
	if len(b) < len(name)+2 || b[0] != '<' || !strings.EqualFold(string(b[1:len(name)+1]), name) {
		return false
	}
	return bytes.IndexByte([]byte(" \t\r\n\f/>"), b[len(name)+1]) >= 0
}

// tagEnd returns where the tag at the beginning of b ends, -1 if it is incomplete.
func tagEnd(b []byte) int {
	quote := byte(0)
	for i, c := range b {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>':
			return i + 1
		}
	}
	return -1
}

// prescan is the number of bytes in which browsers look for the charset (HTML section
// 13.2.3.2). The markup must not move the declaration out of them.
const prescan = 1024

// charsetOf returns the charset that a meta element at the beginning of a page declares, "" if
// there is none.
func charsetOf(page []byte) string {
	page = bytes.ToLower(page[:min(len(page), prescan)])
	for {
		i := bytes.Index(page, []byte("<meta"))
		if i < 0 {
			return ""
		}
		page = page[i+len("<meta"):]
		tag, _, _ := bytes.Cut(page, []byte(">"))
		_, value, found := bytes.Cut(tag, []byte("charset"))
		if !found {
			continue
		}
		value, found = bytes.CutPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("="))
		value = bytes.TrimLeft(value, " \t\r\n\"'")
		if n := bytes.IndexAny(value, " \t\r\n\"';/"); n >= 0 {
			value = value[:n]
		}
		if found && len(value) > 0 && len(value) < 40 && len(bytes.Trim(value, "abcdefghijklmnopqrstuvwxyz0123456789-_.:")) == 0 {
			return string(value)
		}
	}
}
