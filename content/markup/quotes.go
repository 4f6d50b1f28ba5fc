package markup

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"shuultuur/content/prose"
	"shuultuur/lib/ascii"
)

// A quotes extracts the strings from a style sheet, a script or JSON that arrives in pieces,
// except URLs and names of members in JSON. Browsers show those of style sheets (content,
// quotes, list markers), and may show others.
type quotes struct {
	script bool // JavaScript or JSON, not CSS
	json   bool
	attrs  []string // of CSS: attributes that it shows
	at     int      // position of the last string in the text, 0 once it is known not to be a name

	st     quoteState
	quote  byte
	apart  bool    // something separates this string from the last
	tail   [4]byte // bytes before this piece
	hex    rune
	nHex   int
	braced bool    // in braces
	head   [6]byte // of the string, held until it is known not to be a data: URL
	nHead  int
	name   [24]byte // of an attribute

	join joiner // in a script that is not JSON

	source *Source // nil in scripts
	data   []byte  // a data: URL
	lost   bool    // one exceeded the limit
}

type quoteState uint8

const (
	quoteOutside    quoteState = iota
	quoteSlash                 // /
	quoteComment               // /* …
	quoteStar                  // /* … *
	quoteLine                  // // … in a script
	quoteHead                  // the first bytes of a string
	quoteIn                    // the other bytes
	quoteSkip                  // of a URL, which is not shown
	quoteURL                   // url(
	quoteData                  // of a data: URL
	quoteDataEscape            // \ in that
	quoteCR                    // a line end that may continue
	quoteEscape                // \
	quoteHex                   // \70
	quoteAttr                  // attr(
	quoteDollar                // $ in a template
	quoteCodes                 // fromCharCode(
	quoteUnicode               // \u
)

// stringWindow is the distance up to which the end of a string is searched for at once.
const stringWindow = 256

// mostAttrs is the number of attributes that a style sheet may show.
const mostAttrs = 64

// write reads the next piece and adds the text of its strings to f.
func (q *quotes) write(f *prose.Flow, p []byte) {
	var next [4]int // next position of each mark, once it was searched for
	i := 0
	for left := mostStates * (len(p) + 1); i < len(p) && left > 0; left-- {
		switch q.st {
		case quoteOutside:
			i = q.outside(f, p, i, &next)
		case quoteSlash:
			i = q.slash(p, i)
		case quoteComment, quoteStar, quoteLine:
			i = q.comment(p, i)
		case quoteHead:
			i = q.start(f, p, i)
		case quoteIn, quoteSkip, quoteData:
			i = q.inside(f, p, i)
		case quoteDataEscape:
			q.keepDataURL(p[i : i+1])
			q.st = quoteData
			i++
		case quoteURL:
			i = q.url(p, i)
		case quoteCR:
			if q.st = quoteIn; p[i] == '\n' {
				i++
			}
		case quoteEscape:
			i = q.escape(f, p, i)
		case quoteHex:
			i = q.hexDigits(f, p, i)
		case quoteAttr:
			i = q.attribute(p, i)
		case quoteDollar:
			i = q.substitute(f, p, i)
		case quoteUnicode:
			if q.st = quoteIn; p[i] != '{' {
				f.Write([]byte(`\u`), prose.JSONText)
				continue
			}
			i++
			q.st, q.hex, q.nHex, q.braced = quoteHex, 0, 0, true
		case quoteCodes:
			i = q.codes(f, p, i)
		}
	}
	q.lost = q.lost || i < len(p)
	q.push(p)
}

// push remembers the last bytes of p.
func (q *quotes) push(p []byte) {
	if n := len(q.tail); len(p) >= n {
		copy(q.tail[:], p[len(p)-n:])
	} else {
		copy(q.tail[:], q.tail[len(p):])
		copy(q.tail[n-len(p):], p)
	}
}

func (q *quotes) outside(f *prose.Flow, p []byte, i int, next *[4]int) int {
	if q.script && !q.json {
		return q.between(f, p, i)
	}
	marks := [4]byte{'"', '\'', '/', '('}
	if q.script {
		marks[3] = '`'
	}
	at := len(p)
	for k, c := range marks {
		if next[k] <= i && (next[k] < i || next[k] == 0 || p[i] != c) {
			if next[k] = bytes.IndexByte(p[i:], c) + i; next[k] < i {
				next[k] = len(p)
			}
		}
		at = min(at, next[k])
	}
	for i < at && ascii.IsSpace(p[i]) {
		i++
	}
	if i < at {
		q.apart = true
		q.drop(f, p[i])
	}
	if at == len(p) {
		return at
	}
	switch c := p[at]; c {
	case '/':
		q.st = quoteSlash
	case '(':
		q.apart = true
		before := q.tail
		if at >= len(before) {
			copy(before[:], p[at-len(before):])
		} else {
			copy(before[:], q.tail[at:])
			copy(before[len(before)-at:], p[:at])
		}
		switch {
		case q.script:
		case ascii.EqualLower(before[:], "attr"):
			q.st, q.nHead = quoteAttr, 0
		case ascii.EqualLower(before[1:], "url"):
			q.st = quoteURL
		}
	default:
		if q.apart || q.script {
			f.Flush()
			f.Blank()
		}
		q.at = len(f.B)
		q.st, q.quote, q.apart, q.nHead = quoteHead, c, false, 0
	}
	return at + 1
}

// drop removes the last string if the byte that follows shows that it is a name.
func (q *quotes) drop(f *prose.Flow, c byte) {
	if q.json && c == ':' && q.at > 0 && q.at <= len(f.B) {
		f.Flush()
		f.Cut(q.at)
	}
	q.at = 0
}

// attribute reads the name of an attribute that is shown.
func (q *quotes) attribute(p []byte, i int) int {
	for ; i < len(p); i++ {
		c := p[i]
		switch {
		case q.nHead == 0 && ascii.IsSpace(c):
			continue
		case (ascii.IsAlnum(c) || c == '-' || c == '_') && q.nHead < len(q.name):
			q.name[q.nHead] = ascii.Lower(c)
			q.nHead++
			continue
		}
		switch name := string(q.name[:q.nHead]); {
		case name == "", slices.Contains(q.attrs, name):
		case len(q.attrs) == mostAttrs:
			q.lost = true
		default:
			q.attrs = append(q.attrs, name)
		}
		q.st = quoteOutside
		return i
	}
	return i
}

func (q *quotes) slash(p []byte, i int) int {
	switch {
	case p[i] == '*':
		q.st = quoteComment
	case p[i] == '/' && q.script:
		q.st = quoteLine
	default:
		q.st, q.apart = quoteOutside, true
		if q.script && !q.json {
			q.join.between('/')
		}
		return i
	}
	return i + 1
}

func (q *quotes) comment(p []byte, i int) int {
	switch {
	case q.st == quoteStar && p[i] == '/':
		q.st = quoteOutside
		return i + 1
	case q.st == quoteStar && p[i] == '*':
		return i + 1
	case q.st == quoteLine:
		if k := bytes.IndexByte(p[i:], '\n'); k >= 0 {
			q.st = quoteOutside
			return i + k + 1
		}
		return len(p)
	}
	q.st = quoteComment
	k := bytes.IndexByte(p[i:], '*')
	if k < 0 {
		return len(p)
	}
	q.st = quoteStar
	return i + k + 1
}

// start reads the first bytes of a string.
func (q *quotes) start(f *prose.Flow, p []byte, i int) int {
	for ; i < len(p); i++ {
		c := p[i]
		if c == q.quote || c == '\\' || c == '$' && q.quote == '`' || q.isLine(c) || q.nHead == len(q.head) {
			q.st = quoteIn
			q.join.empty = c == q.quote && q.nHead == 0
			switch head := q.head[:q.nHead]; {
			case !q.script && len(head) == len(q.head) && mayBegin(head, "data:"):
				q.st, q.data = quoteData, append(q.data[:0], head...)
			case q.quote == ')' || isURL(head):
				q.st = quoteSkip
			default:
				q.text(f, head)
			}
			return i
		}
		q.head[q.nHead] = c
		q.nHead++
	}
	return i
}

// isLine reports whether c ends the line, and with it a string.
func (q *quotes) isLine(c byte) bool {
	switch {
	case q.quote == '`' || q.quote == ')':
		return false
	case q.script:
		return c == '\n'
	}
	return c == '\n' || c == '\r' || c == '\f'
}

// url begins a URL without quotes, or the string it is in.
func (q *quotes) url(p []byte, i int) int {
	for ; i < len(p); i++ {
		switch c := p[i]; {
		case ascii.IsSpace(c):
		case c == '"' || c == '\'':
			q.st, q.quote, q.nHead = quoteHead, c, 0
			return i + 1
		default:
			q.st, q.quote, q.nHead = quoteHead, ')', 0
			return i
		}
	}
	return i
}

// keepDataURL keeps the next bytes of a data: URL.
func (q *quotes) keepDataURL(p []byte) {
	room := maxNote - len(q.data)
	q.data = append(q.data, p[:min(len(p), room)]...)
	q.lost = q.lost || len(p) > room && !isPicture(q.data)
}

// document reads the document that a data: URL holds: a style sheet, or a
// picture with text.
func (q *quotes) document(f *prose.Flow) {
	q.st = quoteOutside
	u := q.data
	if bytes.IndexByte(u, '\\') >= 0 {
		u = unescapeCSS(u)
	}
	h, data := dataDocument(u)
	switch {
	case h == nil:
	case h.Type() == "text/css", bytes.Contains(data, []byte("text")), bytes.Contains(data, []byte("foreignObject")):
		q.lost = q.source.Outer.Document(f, h, data, false) || q.lost
	}
}

// isURL reports whether a string begins like a URL, except a data: URL of a text.
func isURL(head []byte) bool {
	if len(head) < 6 {
		return false
	}
	return ascii.EqualLower(head, "http:/") || ascii.EqualLower(head, "https:") || ascii.EqualLower(head[:5], "data:") && head[5]|0x20 != 't'
}

func (q *quotes) text(f *prose.Flow, p []byte) {
	if q.script {
		f.Write(p, prose.JSONText)
		return
	}
	f.Write(p, prose.PlainText)
}

// inside reads a string up to its end or an escape.
func (q *quotes) inside(f *prose.Flow, p []byte, i int) int {
	start := i
	for i < len(p) {
		window := p[i:min(len(p), i+stringWindow)] // so that a string of many escapes is not searched to its end for each of them
		n := q.stringEnd(window)
		if i += n; n < len(window) {
			break
		}
	}
	switch q.st {
	case quoteIn:
		q.text(f, p[start:i])
	case quoteData:
		q.keepDataURL(p[start:i])
	}
	switch {
	case i == len(p):
		return i
	case p[i] == '\\' && q.st == quoteIn:
		q.st = quoteEscape
	case p[i] == '$' && q.quote == '`' && q.script:
		q.st = quoteDollar
	case p[i] == '\\' && q.st == quoteData:
		q.keepDataURL(p[i : i+1])
		q.st = quoteDataEscape
	case p[i] == '\\':
	case q.script && !q.json:
		q.endString(f)
	case q.st == quoteData:
		q.document(f)
	default:
		q.st = quoteOutside
	}
	return i + 1
}

// stringEnd returns the number of bytes in p before the end of the string or an escape.
func (q *quotes) stringEnd(p []byte) int {
	n := bytes.IndexByte(p, q.quote)
	if n < 0 {
		n = len(p)
	}
	if k := bytes.IndexByte(p[:n], '\\'); k >= 0 {
		n = k
	}
	if q.quote == '`' {
		if k := bytes.IndexByte(p[:n], '$'); k >= 0 {
			n = k
		}
	}
	for _, c := range []byte("\n\r\f") {
		if q.isLine(c) {
			if k := bytes.IndexByte(p[:n], c); k >= 0 {
				n = k
			}
		}
	}
	return n
}

func (q *quotes) escape(f *prose.Flow, p []byte, i int) int {
	c := p[i]
	q.st = quoteIn
	switch {
	case c == '\r' && !q.script:
		q.st = quoteCR
	case c == '\n' || c == '\r' || c == '\f':
	case !q.script && ascii.Unhex(c) >= 0, q.script && c == 'x':
		q.st, q.hex, q.nHex = quoteHex, 0, 0
		if !q.script {
			return i
		}
	case q.script && c == 'u':
		q.st = quoteUnicode
	case q.script && (c == 'n' || c == 't' || c == 'r' || c == 'b' || c == 'v'):
		f.Flush()
		f.Blank()
	default:
		q.text(f, p[i:i+1])
	}
	return i + 1
}

func (q *quotes) hexDigits(f *prose.Flow, p []byte, i int) int {
	most := 6
	if q.script && !q.braced {
		most = 2
	}
	d := rune(ascii.Unhex(p[i]))
	if d >= 0 && q.nHex < most {
		q.hex = q.hex<<4 | d
		q.nHex++
		return i + 1
	}
	q.st = quoteIn
	f.Flush()
	f.Rune(prose.Numeric(q.hex))
	if q.braced {
		if q.braced = false; p[i] == '}' {
			i++
		}
		return i
	}
	if !q.script && p[i] == '\r' {
		q.st = quoteCR
	}
	if !q.script && ascii.IsSpace(p[i]) {
		return i + 1
	}
	return i
}

// onRemoved says that n bytes at the beginning of the text were removed.
func (q *quotes) onRemoved(n int) {
	if q.at > 0 && q.at < n {
		q.join.over = true // the beginning of a string is missing
	}
	q.at = max(0, q.at-n)
}

// between reads the code between the strings of a script, up to a string or a comment.
func (q *quotes) between(f *prose.Flow, p []byte, i int) int {
	for ; i < len(p); i++ {
		switch c := p[i]; c {
		case '"', '\'', '`':
			q.begin(f, c)
			return i + 1
		case '/':
			q.st = quoteSlash
			return i + 1
		case '{', '}':
			if n := len(q.join.braces); n > 0 {
				open := &q.join.braces[n-1]
				switch {
				case c == '{':
					*open++
				case *open > 0:
					*open--
				default:
					q.join.braces = q.join.braces[:n-1]
					if len(q.join.gap) > 0 {
						f.Flush()
						f.Blank()
					}
					q.st, q.quote, q.join.decode = quoteIn, '`', nil
					return i + 1
				}
			}
			q.join.between(c)
		default:
			if c <= ' ' || !q.join.between(c) {
				continue
			}
			if !q.join.adds() {
				f.Flush()
				f.Blank()
				q.at = len(f.B)
			}
			q.st, q.join.nCode, q.join.code, q.join.hex = quoteCodes, 0, 0, false
			return i + 1
		}
	}
	return i
}

// begin begins a string of a script.
func (q *quotes) begin(f *prose.Flow, quote byte) {
	if !q.join.begin(bytes.TrimSpace(f.B[min(q.at, len(f.B)):])) {
		f.Flush()
		f.Blank()
		q.at = len(f.B)
	}
	q.st, q.quote, q.nHead = quoteHead, quote, 0
	if q.join.decode != nil {
		q.st, q.data = quoteData, q.data[:0]
	}
}

// endString ends a string of a script.
func (q *quotes) endString(f *prose.Flow) {
	q.st = quoteOutside
	f.Flush()
	if q.join.decode != nil {
		f.Write(q.join.decode(q.data), prose.JSONText)
		f.Flush()
	}
	all := q.join.end(bytes.TrimSpace(f.B[min(q.at, len(f.B)):]))
	if q.lost = q.lost || q.join.lost; len(all) > 0 {
		f.Blank()
		q.at = len(f.B)
		f.B = append(f.B, all...)
	}
}

// substitute begins the ${ } in a template.
func (q *quotes) substitute(f *prose.Flow, p []byte, i int) int {
	if q.st = quoteIn; p[i] != '{' || len(q.join.braces) == mostTemplates {
		q.lost = q.lost || p[i] == '{'
		f.Flush()
		f.Blank()
		return i
	}
	q.join.braces = append(q.join.braces, 0)
	q.join.gap, q.join.long = append(q.join.gap[:0], '+'), false
	q.st = quoteOutside
	return i + 1
}

// codes reads the character codes.
func (q *quotes) codes(f *prose.Flow, p []byte, i int) int {
	j := &q.join
	for ; i < len(p); i++ {
		c := p[i]
		switch d := rune(ascii.Unhex(c)); {
		case j.hex && d >= 0:
			j.code = min(j.code<<4|d, utf8.MaxRune+1)
			j.nCode++
		case c >= '0' && c <= '9':
			j.code = min(j.code*10+d, utf8.MaxRune+1)
			j.nCode++
		case c|0x20 == 'x' && j.nCode == 1 && j.code == 0:
			j.hex = true
		case c <= ' ', c == '.', c == '[', c == ']':
		case c == ',', c == ')':
			if j.nCode > 0 {
				f.Rune(prose.Numeric(j.code))
			}
			j.nCode, j.code, j.hex = 0, 0, false
			if c == ')' {
				q.st, j.gap, j.long = quoteOutside, j.gap[:0], false
				return i + 1
			}
		default:
			q.st = quoteOutside
			return i
		}
	}
	return i
}
