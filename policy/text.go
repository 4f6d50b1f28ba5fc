package policy

import (
	"bytes"
	"strings"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/message"
	"shuultuur/state"
)

// scratch holds the values that conditions derive from a request, once per decision, and
// the counts of a query, in reused memory.
type scratch struct {
	url      []byte // host and path with query, decoded, lower case
	query    int    // index in url of the query's "?"
	term     []byte // the search term
	fold     []byte
	haveURL  bool
	haveTerm bool

	counts []state.Count // for a query
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

// folded returns b in lower case, valid until the next call.
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

// url returns the text that URL expressions are matched on.
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

// appendURL appends host, path and query in a canonical form: percent-decoded once, in lower
// case, with slashes and dot segments of the path resolved, without the port. It returns where
// the query begins.
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

// appendDecoded decodes percent encoding, and in a query "+" as a blank.
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

// searched returns the search term sent to a known engine, as far as it has arrived, in the
// form of appendTerm.
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

// searchForm returns the engine to which a form with a search is sent, or nil.
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

// searchToCome returns whether a search term may still arrive, in a form.
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

// maxForm bounds how much of a form is searched for a term, in bytes.
const maxForm = 64 << 10

// takeSearch notes the search term of a form, as far as its values are complete.
func takeSearch(w *walk, e *engine, form []byte) {
	if !w.t.Upload.Complete() && len(form) < maxForm {
		form = form[:max(0, bytes.LastIndexByte(form, '&'))]
	}
	w.t.Searched = appendSearch(w.t.Searched[:0], append([]byte("?"), form...), e.params)
	w.scratch().haveTerm = false
}

// maxTerm bounds how much of a search term is used, in bytes as sent.
const maxTerm = 4096

// appendSearch appends the values of the query parameters with these names.
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

// appendTerm appends a query value as words: decoded, folded as pages are
// ([content.Normalise]), and with a blank at either end, so that " word " is a whole word.
func appendTerm(dst, value []byte) []byte {
	dst = append(dst, ' ')
	words := bytes.TrimSpace(content.Normalise(nil, appendDecoded(nil, value, true)))
	dst = append(dst, words...)
	if len(words) > 0 {
		dst = append(dst, ' ')
	}
	return dst
}

// containsWord reports whether text contains one of words, in the form of [searched].
func containsWord(text []byte, words [][]byte) bool {
	for _, w := range words {
		if bytes.Contains(text, w) {
			return true
		}
	}
	return false
}
