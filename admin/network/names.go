// Package network has the pages of what stands between clients and the network: the name server,
// the cache, and the certificate that clients should trust.
package network

import (
	"context"
	"net/http"
	"strings"
	"time"

	"shuultuur/admin/web"
	"shuultuur/admin/why"
	"shuultuur/text"
)

// Names provides the admin address with data about the name server.
type Names struct {
	// Upstreams returns the upstreams with their state.
	Upstreams func() []Upstream
	// Cache returns figures of the cache of names, which are written as JSON.
	Cache func() any
	// Look queries the upstreams for a name and a type of record, without judging.
	Look func(ctx context.Context, name, kind string) (*LookupResult, error)
	// Explain says what would be decided about a name; nil: nothing does.
	Explain why.Explain
	// Flush empties the cache of names.
	Flush func()
}

// An Upstream is a name server that is asked.
type Upstream struct {
	Name     string  `json:"name"`
	Up       bool    `json:"up"`
	Seconds  float64 `json:"seconds"` // smoothed time to an answer
	Requests int64   `json:"requests"`
	Errors   int64   `json:"errors"`
	Timeouts int64   `json:"timeouts"`
	// Reconnections are connections given up while a query waited.
	Reconnections int64 `json:"reconnections"`
}

// Took returns the time to an answer in a form for people.
func (u Upstream) Took() string {
	return web.BriefTime(time.Duration(u.Seconds * float64(time.Second)))
}

// A LookupResult is the answer of upstreams about a name.
type LookupResult struct {
	Rcode    string   `json:"rcode"`
	Records  []string `json:"records"`
	Upstream string   `json:"upstream"`
	Took     float64  `json:"seconds"`
}

const lookTimeout = 5 * time.Second

// Routes returns the routes of the name server.
//
//	GET /names            name=NAME&type=TYPE looks a name up; HTML for browsers,
//	                      else JSON
//	POST /names/flush     empties the cache
func (n *Names) Routes(site *web.Site) []web.Route {
	page := site.Page("names.html")
	return []web.Route{
		{Method: "GET", Path: "/names", Role: web.Operator,
			Link: web.LinkIn(web.Network, text.Mark("Names")),
			Does: "upstreams and cache of the name server; asks the upstreams for a name", Query: []web.Field{web.Optional("name", "name"), web.Optional("type", "type of record; A without it")}, Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				d := struct {
					Name      string           `json:"name,omitempty"`
					Type      string           `json:"type,omitempty"`
					Looked    *LookupResult    `json:"looked,omitempty"`
					Now       *why.Explanation `json:"now,omitempty"`
					Upstreams []Upstream       `json:"upstreams"`
					Cache     web.Figure       `json:"cache"`
					Types     []string         `json:"-"`
					Error     string           `json:"error,omitempty"`
				}{Name: strings.TrimSpace(q.Get("name")), Type: strings.ToUpper(q.Get("type")), Upstreams: n.Upstreams(), Cache: web.Figures(n.Cache()),
					Types: []string{"A", "AAAA", "CNAME", "HTTPS", "MX", "NS", "PTR", "SOA", "SRV", "TXT", "DS", "DNSKEY"}}
				status := http.StatusOK
				if d.Name != "" {
					ctx, cancel := context.WithTimeout(r.Context(), lookTimeout)
					defer cancel()
					if d.Type == "" {
						d.Type = "A"
					}
					var err error
					if d.Looked, err = n.Look(ctx, d.Name, d.Type); err != nil {
						d.Error, status = err.Error(), web.StatusOf(err)
					}
					if n.Explain != nil {
						d.Now, _ = n.Explain.Ask(ctx, "https://"+d.Name+"/", "", "", "", "") // a name that is not a host has no verdict
					}
				}
				switch {
				case web.IsPage(r):
					web.WritePage(w, page, status, d)
				default:
					web.WriteJSON(w, status, d)
				}
			}},
		{Method: "POST", Path: "/names/flush", Role: web.Operator,
			Does: "empty the cache of names", Gives: web.PageOrJSON,
			Effect: ofFetched,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				n.Flush()
				if web.IsPage(r) {
					http.Redirect(w, r, "/names", http.StatusSeeOther)
					return
				}
				web.WriteJSON(w, http.StatusOK, map[string]bool{"flushed": true})
			}},
	}
}
