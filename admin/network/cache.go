package network

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	"shuultuur/admin/web"
	"shuultuur/text"
)

// Cache provides the admin address with data about the cache, and purges it.
type Cache struct {
	// Stats returns its figures, Look the stored object for a URL. Both are written
	// as JSON.
	Stats func() any
	Look  func(url string, fields [][2]string) (any, error)
	// Purge removes stored objects of a kind: url, prefix, host, tag or category. by
	// is the address of the request.
	Purge func(kind, value string, at time.Time, by netip.Addr) error
}

// Routes returns the routes of the cache.
//
//	GET /cache            its figures; HTML for browsers, else JSON
//	GET /cache/look       url=URL[&field=NAME: VALUE…]: what is stored, as JSON
//	POST /cache/purge     kind=url|prefix|host|tag|category&value=VALUE
func (c *Cache) Routes(site *web.Site) []web.Route {
	page := site.Page("cache.html")
	return []web.Route{
		{Method: "GET", Path: "/cache", Role: web.Operator,
			Link: web.LinkIn(web.Network, text.Mark("Cache")),
			Does: "figures of the cache", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.Header.Get("Accept"), "text/html") {
					web.WritePage(w, page, http.StatusOK, c.Stats())
					return
				}
				web.WriteJSON(w, http.StatusOK, c.Stats())
			}},
		{Method: "GET", Path: "/cache/look", Role: web.Operator,
			Does: "what is stored for a URL", Query: []web.Field{web.Required("url", "URL"), web.Optional("field", "field of the request, NAME: VALUE")},
			Handler: func(w http.ResponseWriter, r *http.Request) {
				var fields [][2]string
				for _, f := range r.URL.Query()["field"] {
					name, value, _ := strings.Cut(f, ":")
					fields = append(fields, [2]string{name, strings.TrimSpace(value)})
				}
				l, err := c.Look(r.FormValue("url"), fields)
				if err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				web.WriteJSON(w, http.StatusOK, l)
			}},
		{Method: "POST", Path: "/cache/purge", Role: web.Operator,
			Does: "take something out of the cache", Form: []web.Field{web.Required("kind", "url | prefix | host | tag | category"), web.Required("value", "what is taken out")}, Gives: web.PageOrJSON,
			Effect: ofFetched,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
				by, _ := netip.ParseAddrPort(r.RemoteAddr)
				kind, value := r.FormValue("kind"), r.FormValue("value")
				if err := c.Purge(kind, value, time.Now(), by.Addr()); err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				if strings.Contains(r.Header.Get("Accept"), "text/html") {
					http.Redirect(w, r, "/cache", http.StatusSeeOther)
					return
				}
				web.WriteJSON(w, http.StatusOK, map[string]string{"purged": kind + " " + value})
			}},
	}
}

const ofFetched = "it forgets what was fetched or resolved, and changes no verdict"
