package events

import (
	"net/http"
	"net/url"

	"shuultuur/admin/search"
	"shuultuur/admin/web"
)

// Saved searches of the record, on the page of the record.

// A savedSearch is one as the page shows it.
type savedSearch struct {
	search.Search
	Link string // the page with its rows
}

// savedSearches are those of one account.
type savedSearches struct{ All []savedSearch }

// loadSearches returns the user's searches. The page works without them if they cannot
// be read; saving one reports the error.
func (e *Events) loadSearches(r *http.Request) *savedSearches {
	if e.Searches == nil || !web.IsPage(r) {
		return nil
	}
	own, _ := e.Searches.Of(web.UserOf(r).Name)
	s := &savedSearches{}
	for _, o := range own {
		s.All = append(s.All, savedSearch{o, "/events?" + url.Values{"filter": {o.Filter}, "last": {o.Last}}.Encode()})
	}
	return s
}

// save keeps a search for the user, or removes it.
func (e *Events) save(w http.ResponseWriter, r *http.Request) {
	if e.Searches == nil {
		http.NotFound(w, r)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	s := search.Search{By: web.UserOf(r).Name, Name: r.FormValue("name"), Filter: r.FormValue("filter"), Last: r.FormValue("last")}
	if err := e.Searches.Put(s); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if web.IsPage(r) {
		http.Redirect(w, r, "/events?"+url.Values{"filter": {s.Filter}, "last": {s.Last}}.Encode(), http.StatusSeeOther)
		return
	}
	web.WriteJSON(w, http.StatusOK, s)
}
