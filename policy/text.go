package policy

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"shuultuur/filter"
	"shuultuur/message"
	"shuultuur/state"
)

// scratch is what conditions work out of a request, once per decision, and what
// is counted of a query, in storage that is used again.
type scratch struct {
	url      []byte // host and path with query, decoded, lower case
	query    int    // where in url the query begins, with its "?"
	term     []byte // what is searched for
	fold     []byte
	haveURL  bool
	haveTerm bool

	counts []state.Count // of a query
}

func (s *scratch) reset() { s.haveURL, s.haveTerm = false, false }

// scratch gets storage from the pool when it is first needed.
func (w *walk) scratch() *scratch {
	if w.s == nil {
		w.s = w.e.pool.Get().(*scratch)
		w.s.reset()
	}
	return w.s
}

func (w *walk) release() {
	if w.s != nil {
		w.e.pool.Put(w.s)
		w.s = nil
	}
}

// folded returns b in lower case, until it is called again.
func (w *walk) folded(b []byte) []byte {
	s := w.scratch()
	s.fold = appendLower(s.fold[:0], b)
	return s.fold
}

// path returns path and query as they were sent.
func (w *walk) path() (path string, raw []byte) {
	if q := w.t.Request; q != nil && len(q.Path) > 0 {
		return "", q.Path
	}
	_, rest, _ := strings.Cut(w.t.URL, "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		return rest[i:], nil
	}
	return "/", nil
}

// url returns what URL expressions are matched on.
func (w *walk) url() []byte {
	s := w.scratch()
	if s.haveURL {
		return s.url
	}
	text, raw := w.path()
	s.fold = append(append(s.fold[:0], text...), raw...)
	s.url, s.query = appendURL(s.url[:0], w.t.Host, s.fold)
	s.haveURL = true
	return s.url
}

// appendURL appends host, path and query in the form in which two ways to
// write one address are the same: percent-decoded once, in lower case,
// slashes and dot segments of the path resolved. The port is left out. It
// returns where the query begins.
func appendURL(dst []byte, host string, path []byte) ([]byte, int) {
	dst = append(dst, host...)
	start := len(dst)
	path, query, asked := bytes.Cut(path, []byte("?"))
	dst = appendDecoded(dst, path, false)
	dst = cleanPath(dst, start)
	q := len(dst)
	if asked {
		dst = append(dst, '?')
		dst = appendDecoded(dst, query, false)
	}
	for i := start; i < len(dst); i++ {
		dst[i] = lower(dst[i])
	}
	return dst, q
}

// cleanPath resolves "//", "/./" and "/../" in b[start:].
func cleanPath(b []byte, start int) []byte {
	if len(b) == start || b[start] != '/' {
		return b
	}
	out := start
	for i := start; i < len(b); {
		// b[i] is a slash; the segment ends before the next one.
		end := i + 1
		for end < len(b) && b[end] != '/' {
			end++
		}
		switch seg, last := b[i+1:end], end == len(b); {
		case !last && (len(seg) == 0 || len(seg) == 1 && seg[0] == '.'):
		case len(seg) == 1 && seg[0] == '.':
			b[out] = '/'
			out++
		case len(seg) == 2 && seg[0] == '.' && seg[1] == '.':
			for out > start {
				out--
				if b[out] == '/' {
					break
				}
			}
			if last {
				b[out] = '/'
				out++
			}
		default:
			out += copy(b[out:], b[i:end])
		}
		i = end
	}
	return b[:out]
}

// appendDecoded undoes percent coding, and in a query "+" for a blank.
func appendDecoded(dst, b []byte, plus bool) []byte {
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '%' && i+2 < len(b):
			hi, ok1 := unhex(b[i+1])
			lo, ok2 := unhex(b[i+2])
			if ok1 && ok2 {
				c = hi<<4 | lo
				i += 2
			}
		case c == '+' && plus:
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= lower(c) && lower(c) <= 'f':
		return lower(c) - 'a' + 10, true
	}
	return 0, false
}

// searched returns what is searched for at a known engine, as far as that has
// come, in the form of appendTerm.
func (w *walk) searched() []byte {
	s := w.scratch()
	if s.haveTerm {
		return s.term
	}
	s.haveTerm, s.term = true, append(s.term[:0], w.t.Searched...)
	e := w.e.engineOf(w.t.Host)
	if e == nil {
		return s.term
	}
	text, raw := w.path()
	s.fold = append(append(s.fold[:0], text...), raw...)
	s.term = appendSearch(s.term, s.fold, e.params)
	return s.term
}

// searchForm returns the engine that a form with a search is sent to, or nil.
func searchForm(w *walk) *engine {
	q := w.t.Request
	if q == nil || q.Method != "POST" || q.Length == message.None {
		return nil
	}
	e := w.e.engineOf(w.t.Host)
	if e == nil || w.t.Sent().Type() != "application/x-www-form-urlencoded" {
		return nil
	}
	return e
}

// searchToCome says whether what is searched for may still come, in a form.
func searchToCome(w *walk) answer {
	switch {
	case searchForm(w) == nil:
	case w.stage < filter.RequestBody:
		return w.laterThan(filter.RequestBody)
	case w.stage == filter.RequestBody && w.t.Upload != nil && !w.t.Upload.Complete() && w.upload != nil && len(w.upload.form) < maxForm:
		return maybe
	}
	return no
}

// maxForm bounds how much of a form is looked at for a search, in bytes.
const maxForm = 64 << 10

// takeSearch notes what a form searches for, as far as its values are whole.
func takeSearch(w *walk, e *engine, form []byte) {
	if !w.t.Upload.Complete() && len(form) < maxForm {
		form = form[:max(0, bytes.LastIndexByte(form, '&'))]
	}
	w.t.Searched = appendSearch(w.t.Searched[:0], append([]byte("?"), form...), e.params)
	w.scratch().haveTerm = false
}

// maxTerm bounds how much of a search term is looked at, in bytes as sent.
const maxTerm = 4096

// appendSearch appends the values of a query's parameters with these names.
func appendSearch(dst, path []byte, params []string) []byte {
	_, query, _ := bytes.Cut(path, []byte("?"))
	for len(query) > 0 {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte("&"))
		name, value, _ := bytes.Cut(pair, []byte("="))
		for _, p := range params {
			if string(name) == p {
				dst = appendTerm(dst, value[:min(len(value), maxTerm)])
			}
		}
	}
	return dst
}

// appendTerm appends a query value as words: decoded, in lower case, each run
// of anything but letters, marks and digits one blank, and a blank at either
// end, so that " word " is a whole word.
func appendTerm(dst, value []byte) []byte {
	start := len(dst)
	dst = appendDecoded(dst, value, true)
	// The lower case of a letter may be longer than the letter, so what is
	// decoded cannot be folded in its place.
	decoded := dst[start:]
	end := len(dst)
	dst = append(dst, ' ')
	for i := 0; i < len(decoded); {
		r, n := utf8.DecodeRune(decoded[i:])
		i += n
		if r == utf8.RuneError && n == 1 || !unicode.In(r, unicode.L, unicode.M, unicode.N) {
			if dst[len(dst)-1] != ' ' {
				dst = append(dst, ' ')
			}
			continue
		}
		dst = utf8.AppendRune(dst, unicode.ToLower(r))
	}
	if dst[len(dst)-1] != ' ' {
		dst = append(dst, ' ')
	}
	n := copy(dst[start:], dst[end:])
	return dst[:start+n]
}

// containsWord says whether text has one of words, each with a blank at
// either end.
func containsWord(text []byte, words [][]byte) bool {
	for _, w := range words {
		if bytes.Contains(text, w) {
			return true
		}
	}
	return false
}
