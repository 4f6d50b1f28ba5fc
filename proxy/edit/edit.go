// Package edit changes HTML pages on their way to the client by the lists of ad blockers: it
// inserts a style sheet, a link to another one and a script at the beginning of the head, and
// changes the page's Content-Security-Policy to allow them. The script also takes all of it out of
// the document again (tidy.js).
//
// [New] gets the changes to a page and its response head, and changes the head. [Editor.Next]
// then gets the text of the page piece by piece. It holds the beginning until it knows where
// the head begins, and passes the rest unchanged. A response that turns out not to be a page
// passes unchanged.
package edit

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/charset"
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
	wide       bool // it is UTF-16
	begun      bool // the markup was inserted, or there is no page
	held       []byte
}

//go:embed tidy.js
var tidySource string

// tidy is tidySource without what only people read.
var tidy = func() []byte {
	var b []byte
	for line := range strings.Lines(tidySource) {
		code, _, _ := strings.Cut(line, " // ")
		if code = strings.TrimSpace(code); code != "" && !strings.HasPrefix(code, "///") {
			b = append(append(b, code...), '\n')
		}
	}
	return b
}()

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
	declared := charset.Get(labelOf(fields.Get("Content-Type")))
	e := &Editor{navigation: isNavigation(t.Request), charset: declared != nil, wide: charset.IsUTF16(declared)}
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
	if len(changes.Script)+len(e.markup) > 0 && !scriptless(append(policies, changes.Policies...)) {
		script := append(bytes.Clone(changes.Script), tidy...)
		needs = append(needs, inlineNeed(scriptDirectives, script))
		e.markup = fmt.Appendf(e.markup, "<script%s>%s</script>", nonceAttribute(nonces[scriptDirectives[0]]), script)
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

// Shows reports whether a browser will show the response to q as a document or in a frame, so that it
// may be changed. Browsers that do not say so, as over plain HTTP, ask for secure pages when they
// navigate; what the scripts of a page fetch does not.
func Shows(q *message.Request) bool {
	switch string(q.Get("Sec-Fetch-Dest")) {
	case "document", "iframe", "frame", "fencedframe", "embed", "object":
		return true
	case "":
		return bytes.HasPrefix(q.Get("User-Agent"), []byte("Mozilla/")) && bytes.Contains(q.Get("Accept"), []byte("text/html")) &&
			q.Has("Upgrade-Insecure-Requests") && !q.Has("X-Requested-With")
	}
	return false
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
	if len(e.markup) == 0 || !document || e.wide || isUTF16(held) {
		return append(dst, held...)
	}
	dst = append(dst, held[:at]...)
	if label := charsetOf(held); !e.charset && label != "" {
		dst = fmt.Appendf(dst, `<meta charset="%s">`, label)
	}
	return append(append(dst, e.markup...), held[at:]...)
}

func isUTF16(b []byte) bool {
	return bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff")) || bytes.HasPrefix(b, []byte("<\x00")) || bytes.HasPrefix(b, []byte("\x00<"))
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

// labelOf returns the parameter charset of a Content-Type in lower case, "" if there is none.
func labelOf(v []byte) string {
	_, rest, _ := bytes.Cut(bytes.ToLower(v), []byte(";"))
	for part := range bytes.SplitSeq(rest, []byte(";")) {
		name, value, _ := bytes.Cut(part, []byte("="))
		if string(bytes.TrimSpace(name)) == "charset" {
			return string(bytes.Trim(value, " \t\"'"))
		}
	}
	return ""
}

// charsetOf returns the charset that a meta element at the beginning of a page declares, "" if
// there is none: the prescan of HTML section 13.2.3.2.
func charsetOf(page []byte) string {
	page = bytes.ToLower(page[:min(len(page), prescan)])
	for len(page) > 0 {
		i := bytes.IndexByte(page, '<')
		if i < 0 {
			return ""
		}
		page = page[i:]
		letter := len(page) > 1 && page[1] >= 'a' && page[1] <= 'z' || len(page) > 2 && page[1] == '/' && page[2] >= 'a' && page[2] <= 'z'
		switch {
		case bytes.HasPrefix(page, []byte("<!--")):
			end := bytes.Index(page[2:], []byte("-->"))
			if end < 0 {
				return ""
			}
			page = page[2+end+len("-->"):]
		case tagIs(page, "meta"):
			label, rest := metaCharset(page[len("<meta"):])
			if label != "" {
				return label
			}
			page = rest
		case letter:
			page = page[1:]
			if n := bytes.IndexAny(page, " \t\r\n\f>"); n >= 0 {
				page = page[n:]
			}
			for more := true; more; {
				_, _, page, more = attribute(page)
			}
		case len(page) > 1 && (page[1] == '!' || page[1] == '/' || page[1] == '?'):
			_, page, _ = bytes.Cut(page, []byte(">"))
		default:
			page = page[1:]
		}
	}
	return ""
}

// metaCharset returns the charset that the attributes of a meta element declare, and what follows them.
func metaCharset(page []byte) (label string, rest []byte) {
	pragma, direct, content := false, "", ""
	seen := map[string]bool{}
	for {
		name, value, after, more := attribute(page)
		page = after
		if !more {
			break
		}
		if seen[string(name)] {
			continue
		}
		seen[string(name)] = true
		switch string(name) {
		case "http-equiv":
			pragma = string(value) == "content-type"
		case "charset":
			direct = string(value)
		case "content":
			content = charsetIn(value)
		}
	}
	if direct == "" && pragma {
		direct = content
	}
	direct = strings.TrimSpace(direct)
	if strings.Trim(direct, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") != "" || charset.Get(direct) == nil {
		return "", page // browsers go on to the next
	}
	if charset.IsUTF16(charset.Get(direct)) {
		direct = "utf-8" // the declaration could not be read in UTF-16
	}
	return direct, page
}

// charsetIn returns the charset in the content of a meta element, "" if it names none.
func charsetIn(v []byte) string {
	for {
		i := bytes.Index(v, []byte("charset"))
		if i < 0 {
			return ""
		}
		v = bytes.TrimLeft(v[i+len("charset"):], " \t\r\n\f")
		value, ok := bytes.CutPrefix(v, []byte("="))
		if !ok {
			continue
		}
		value = bytes.TrimLeft(value, " \t\r\n\f")
		if len(value) > 0 && (value[0] == '"' || value[0] == '\'') {
			quoted, _, ok := bytes.Cut(value[1:], value[:1])
			if !ok {
				return ""
			}
			return string(quoted)
		}
		if n := bytes.IndexAny(value, " \t\r\n\f;"); n >= 0 {
			value = value[:n]
		}
		return string(value)
	}
}

// attribute reads an attribute of a tag, which is in lower case. more is false at the end of the tag,
// which rest is behind.
func attribute(b []byte) (name, value, rest []byte, more bool) {
	const blank = " \t\r\n\f"
	b = bytes.TrimLeft(b, blank+"/")
	if len(b) == 0 || b[0] == '>' {
		return nil, nil, b[min(1, len(b)):], false
	}
	n := 1
	for n < len(b) && strings.IndexByte(blank+"/>=", b[n]) < 0 {
		n++
	}
	name, rest = b[:n], b[n:]
	after := bytes.TrimLeft(rest, blank)
	if len(after) == 0 || after[0] != '=' {
		return name, nil, rest, true
	}
	after = bytes.TrimLeft(after[1:], blank)
	if len(after) > 0 && (after[0] == '"' || after[0] == '\'') {
		value, rest, _ = bytes.Cut(after[1:], after[:1])
		return name, value, rest, true
	}
	n = 0
	for n < len(after) && strings.IndexByte(blank+">", after[n]) < 0 {
		n++
	}
	return name, after[:n], after[n:], true
}
