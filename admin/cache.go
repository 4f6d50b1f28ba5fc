package admin

import (
	"net/http"
	"net/netip"
	"strings"
	"time"
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

// routes returns the routes of the cache.
//
//	GET /cache            its figures; HTML for browsers, else JSON
//	GET /cache/look       url=URL[&field=NAME: VALUE…]: what is stored, as JSON
//	POST /cache/purge     kind=url|prefix|host|tag|category&value=VALUE
func (c *Cache) routes(notice noticeFunc) []route {
	page := pageOf("cache.html", notice)
	return []route{
		{"GET", "/cache", operator, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.Header.Get("Accept"), "text/html") {
				writePage(w, page, http.StatusOK, c.Stats())
				return
			}
			writeJSON(w, http.StatusOK, c.Stats())
		}},
		{"GET", "/cache/look", operator, func(w http.ResponseWriter, r *http.Request) {
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
			writeJSON(w, http.StatusOK, l)
		}},
		{"POST", "/cache/purge", operator, func(w http.ResponseWriter, r *http.Request) {
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
			writeJSON(w, http.StatusOK, map[string]string{"purged": kind + " " + value})
		}},
	}
}
