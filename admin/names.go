package admin

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// Names provides the admin address with data about the name server.
type Names struct {
	// Upstreams returns the upstreams with their state.
	Upstreams func() []Upstream
	// Cache returns figures of the cache of names, which are written as JSON.
	Cache func() any
	// Look queries the upstreams for a name and a type of record, without judging.
	Look func(ctx context.Context, name, kind string) (*LookupResult, error)
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
}

// took returns the time to an answer in a form for people.
func (u Upstream) took() string { return briefTime(time.Duration(u.Seconds * float64(time.Second))) }

// A LookupResult is the answer of upstreams about a name.
type LookupResult struct {
	Rcode    string   `json:"rcode"`
	Records  []string `json:"records"`
	Upstream string   `json:"upstream"`
	Took     float64  `json:"seconds"`
}

const lookTimeout = 5 * time.Second

// nameRoutes returns the routes of the name server.
//
//	GET /names            name=NAME&type=TYPE looks a name up; HTML for browsers,
//	                      else JSON
//	POST /names/flush     empties the cache
func (p *Parts) nameRoutes() []route {
	n := p.NameServer
	if n == nil {
		return nil
	}
	page := pageOf("names.html", p.Pause.notice)
	return []route{
		{"GET", "/names", operator, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			d := struct {
				Name      string        `json:"name,omitempty"`
				Type      string        `json:"type,omitempty"`
				Looked    *LookupResult `json:"looked,omitempty"`
				Now       *Explanation  `json:"now,omitempty"`
				Upstreams []Upstream    `json:"upstreams"`
				Cache     figure        `json:"cache"`
				Types     []string      `json:"-"`
				Error     string        `json:"error,omitempty"`
			}{Name: strings.TrimSpace(q.Get("name")), Type: strings.ToUpper(q.Get("type")), Upstreams: n.Upstreams(), Cache: figures(n.Cache()),
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
					d.Error, status = err.Error(), statusOf(err)
				}
				if p.Explain != nil {
					d.Now, _ = p.Explain.ask(ctx, "https://"+d.Name+"/", "", "", "", "") // a name that is not a host has no verdict
				}
			}
			switch {
			case isPage(r):
				writePage(w, page, status, d)
			default:
				writeJSON(w, status, d)
			}
		}},
		{"POST", "/names/flush", operator, func(w http.ResponseWriter, r *http.Request) {
			n.Flush()
			if isPage(r) {
				http.Redirect(w, r, "/names", http.StatusSeeOther)
				return
			}
			writeJSON(w, http.StatusOK, map[string]bool{"flushed": true})
		}},
	}
}
