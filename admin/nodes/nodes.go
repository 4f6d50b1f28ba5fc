// Package nodes has the page of a fleet that takes bundles: which node runs what, how it fares with it,
// and, at the desk, what is offered to how many. Package fleet/bundle does the work; the page asks it
// by functions.
package nodes

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/text"
)

// Pages shows a fleet.
type Pages struct {
	// Look returns the fleet as this node knows it.
	Look func() Fleet
	// Publish offers what this node decides by; More gives it to the next share of the nodes, and Back
	// offers what was offered before.
	Publish    func(ctx context.Context, version, reason string, all bool) error
	More, Back func(ctx context.Context) error
	// Bundle opens what other nodes may take from this one. The error is [fs.ErrNotExist] if that is
	// nothing.
	Bundle func(ctx context.Context, name string) (io.ReadCloser, error)
}

// A Fleet is what a node knows of its fleet.
type Fleet struct {
	Takes   bool    `json:"takes"` // this node takes bundles
	Desk    bool    `json:"desk"`  // this node offers them
	Offered Offered `json:"offered,omitzero"`
	Nodes   []Node  `json:"nodes"`
}

// Offered is the bundle that a desk offers. Its serial number is 0 if there is none.
type Offered struct {
	Serial  uint64    `json:"serial"`
	Version string    `json:"version"`
	Reason  string    `json:"reason,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Share   float64   `json:"share"` // of the nodes, from 0 to 1
	Files   int       `json:"files"`
	Waits   string    `json:"waits,omitempty"`   // for what the next share waits
	Stopped string    `json:"stopped,omitempty"` // why the bundle before was taken back
	CanBack bool      `json:"can_go_back"`
}

// Percent returns the share in percent.
func (o Offered) Percent() float64 { return 100 * o.Share }

// A Node is a node of the fleet, by its last report.
type Node struct {
	Name     string    `json:"name"`
	Serial   uint64    `json:"serial"` // of the bundle that it runs; 0: none
	Version  string    `json:"version"`
	Since    time.Time `json:"since,omitzero"`
	At       time.Time `json:"at"` // of the report
	State    string    `json:"state"`
	Why      string    `json:"why,omitempty"`
	Drift    []string  `json:"drift"`  // what was changed on the node
	Faults   int       `json:"faults"` // problems in its /health
	Requests int64     `json:"requests"`
	Failures int64     `json:"failures"`
	Program  string    `json:"program"`
}

// States of nodes.
const (
	Runs    = "runs"    // the bundle that is offered, or the last one where nobody here knows that
	Waits   = "waits"   // its share has not come, or it is about to take it
	Refused = "refused" // it cannot use the bundle
	Drifts  = "drifts"  // what the bundle brought was changed there
	Silent  = "silent"  // nothing was heard of it lately
)

// Routes returns the routes of the fleet.
//
//	GET /fleet            who runs what; HTML for browsers, else JSON
//	POST /fleet/offer     version=NAME[&reason=WORDS][&all=yes]: offers what this node decides by
//	POST /fleet/more      gives it to more nodes
//	POST /fleet/back      offers what was offered before
//	GET /bundles/…        what nodes take from here
func (p *Pages) Routes(site *web.Site) []web.Route {
	page := site.Page("nodes.html")
	show := func(w http.ResponseWriter, r *http.Request, err error) { p.show(w, r, page, err) }
	do := func(path, does string, fields []web.Field, change func(r *http.Request) error) web.Route {
		return web.Route{Method: "POST", Path: path, Role: web.Owner, Does: does, Form: fields, Gives: web.PageOrJSON,
			Effect: "it concerns other nodes, which try it themselves before they use it",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
				err := r.ParseForm()
				if err == nil {
					err = change(r)
				}
				show(w, r, err)
			}}
	}
	return []web.Route{
		{Method: "GET", Path: "/fleet", Role: web.Operator,
			Link: web.LinkIn(web.System, text.Mark("Fleet")),
			Does: "which node of the fleet runs what", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { show(w, r, nil) }},
		do("/fleet/offer", "offer the fleet what this node decides by", []web.Field{web.Required("version", "name of the bundle, for people"), web.Optional("reason", "why"), web.Optional("all", "yes: to all nodes at once")},
			func(r *http.Request) error {
				version := strings.TrimSpace(r.FormValue("version"))
				if version == "" {
					return errors.New("write a version, such as the date")
				}
				return p.Publish(r.Context(), version, strings.TrimSpace(r.FormValue("reason")), r.FormValue("all") == "yes")
			}),
		do("/fleet/more", "give the bundle to more nodes", nil, func(r *http.Request) error { return p.More(r.Context()) }),
		do("/fleet/back", "offer the bundle before again", nil, func(r *http.Request) error { return p.Back(r.Context()) }),
		{Method: "GET", Path: "/bundles/{name...}", Role: web.Operator,
			Does: "the bundle that other nodes may take from this one", Gives: web.AnyBytes,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				b, err := p.Bundle(r.Context(), r.PathValue("name"))
				if errors.Is(err, fs.ErrNotExist) {
					http.Error(w, "this node offers nothing under that name", http.StatusNotFound)
					return
				}
				if err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
				defer b.Close()
				w.Header().Set("Content-Type", "application/octet-stream")
				_, _ = io.Copy(w, b) // the node asks again
			}},
	}
}

// show answers with the fleet, after a change that may have failed.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, page web.PageTemplate, err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusUnprocessableEntity
	}
	f := p.Look()
	switch {
	case !web.IsPage(r) && err != nil:
		http.Error(w, err.Error(), status)
	case !web.IsPage(r):
		web.WriteJSON(w, status, &f)
	case r.Method == http.MethodPost && err == nil:
		http.Redirect(w, r, "/fleet", http.StatusSeeOther)
	default:
		var said string
		if err != nil {
			said = err.Error()
		}
		web.WritePage(w, page, status, struct {
			Fleet
			Error   string
			Version string // that is proposed
			May     bool
		}{f, said, time.Now().Format("2006-01-02 15:04"), web.UserOf(r).Role >= account.Owner})
	}
}
