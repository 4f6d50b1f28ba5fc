package policy

import (
	"bytes"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/ascii"
	"shuultuur/lib/message"
	"shuultuur/policy/pattern"
	"shuultuur/policy/search"
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
	s.fold = ascii.AppendLower(s.fold[:0], b)
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
	s.url, s.query = pattern.AppendURL(s.url[:0], w.t.Host, s.fold)
	s.haveURL = true
	return s.url
}

// searched returns the search term sent to a known engine, as far as it has arrived, in the
// form of appendTerm.
func (w *walk) searched() []byte {
	s := w.scratch()
	if s.haveTerm {
		return s.term
	}
	s.haveTerm, s.term = true, append(s.term[:0], w.t.Searched...)
	e := w.e.engines.Of(w.t.Host)
	if e == nil {
		return s.term
	}
	text, raw := w.path()
	s.fold = append(append(s.fold[:0], text...), raw...)
	s.term = search.AppendTerms(s.term, s.fold, e.Params)
	return s.term
}

// searchForm returns the engine to which a form with a search is sent, or nil.
func searchForm(w *walk) *search.Engine {
	q := w.t.Request
	if q == nil || q.Method != "POST" || q.Length == message.None {
		return nil
	}
	e := w.e.engines.Of(w.t.Host)
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
func takeSearch(w *walk, e *search.Engine, form []byte) {
	if !w.t.Upload.Complete() && len(form) < maxForm {
		form = form[:max(0, bytes.LastIndexByte(form, '&'))]
	}
	w.t.Searched = search.AppendTerms(w.t.Searched[:0], append([]byte("?"), form...), e.Params)
	w.scratch().haveTerm = false
}
