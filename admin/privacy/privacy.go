// Package privacy has the pages of looking into one person's browsing, of exporting it and of
// erasing it. If two people are needed, one asks and another agrees ([Looks]); an erasure goes
// through all [Holder]s of data.
package privacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/text"
)

// The data about one person is exported and erased here. Erasing covers the
// record in all stores that can erase, the details of the audit log, and
// requests to look into the person's browsing.

// maxErase bounds the time of an erasure: databases are rewritten.
const maxErase = time.Hour

// An erasureResult is the result of an erasure in one place.
type erasureResult struct {
	Where string `json:"where"`
	Rows  int64  `json:"rows"`
	Error string `json:"error,omitempty"`
}

// A Holder is a part of the gateway that has data about people.
type Holder struct {
	Name string
	// Erase removes the data about a person, or only counts it; nil: not possible.
	Erase func(ctx context.Context, p event.Person, dry bool) (rows int64, err error)
}

var personParams = []web.Field{web.Optional("user", "name of the user"), web.Optional("client", "addresses of devices that nobody else uses, with commas")}

// personIn reads the person from a form or a query.
func personIn(v url.Values) (p event.Person, err error) {
	for _, u := range v["user"] {
		if u = strings.TrimSpace(u); u != "" {
			p.Users = append(p.Users, u)
		}
	}
	for _, c := range web.Words(v["client"]) {
		a, err := netip.ParseAddr(c)
		if err != nil {
			return p, &web.BadChange{Err: fmt.Errorf("client=%q is not the address of a device", c)}
		}
		p.Clients = append(p.Clients, a.Unmap().WithZone(""))
	}
	if p.Empty() {
		return p, &web.BadChange{Err: errors.New("whose data? name a user or the address of a device that nobody else uses")}
	}
	return p, nil
}

// Pages are the pages of one person's data.
type Pages struct {
	Site *web.Site
	// Looks are requests to look at somebody's data, or to erase it; nil: there are none.
	Looks  *Looks
	Events event.Reader
	// Holders returns the stores of data about people outside this package and the audit log.
	Holders func() []Holder
}

// Routes returns the routes of one person's data.
//
//	GET /privacy            the page
//	GET /privacy/export     user=…&client=…: all there is, as JSON lines
//	POST /privacy/erase     user=…&client=…: takes it out; dry_run=true counts in each place
func (p *Pages) Routes() []web.Route {
	page := p.Site.Page("privacy.html")
	return []web.Route{
		{Method: "GET", Path: "/privacy", Role: web.Owner,
			Link: web.LinkIn(web.System, text.Mark("Privacy")),
			Does: "the page of one person's data", Gives: "text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) { web.WritePage(w, page, http.StatusOK, nil) }},
		{Method: "GET", Path: "/privacy/export", Role: web.Owner,
			Does: "all that is on record of a person, as JSON lines", Query: personParams, Gives: "application/x-ndjson",
			Handler: p.export},
		{Method: "POST", Path: "/privacy/erase", Role: web.Owner,
			Does: "erase a person's data for good", Form: append(slices.Clone(personParams), web.Optional("dry_run", "true: only count")),
			Effect:  web.Explained,
			Handler: p.erase},
	}
}

func (p *Pages) export(w http.ResponseWriter, r *http.Request) {
	who, err := personIn(r.URL.Query())
	if err == nil && p.Site.NeedsTwo() && !p.Looks.may(web.UserOf(r).Name, &who, false) {
		err = web.ErrTwoPeople // before a part of it is sent
	}
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	begun := false
	begin := func() {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.Header().Set("Content-Disposition", `attachment; filename="person.jsonl"`)
			w.Header().Set("Cache-Control", "no-store")
		}
	}
	var line []byte
	for row, err := range who.Rows(r.Context(), p.Events) {
		if err != nil && !begun {
			http.Error(w, err.Error(), max(web.StatusOf(err), http.StatusForbidden))
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the data sent is incomplete, and must look so
		}
		begin()
		line = jsonl.AppendLine(line[:0], &row)
		if _, err := w.Write(line); err != nil {
			return
		}
	}
	begin()
	if p.Site.Audit == nil {
		return
	}
	all, err := p.Site.Audit.EntriesAbout(who.In)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for _, e := range all {
		text, err := json.Marshal(map[string]any{"audit": e})
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if _, err := w.Write(append(text, '\n')); err != nil {
			return
		}
	}
}

func (p *Pages) erase(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
	err := r.ParseForm()
	var who event.Person
	if err != nil {
		err = &web.BadChange{Err: err}
	} else {
		who, err = personIn(r.PostForm)
	}
	if err == nil && p.Site.NeedsTwo() && !p.Looks.may(web.UserOf(r).Name, &who, true) {
		err = web.ErrTwoErase
	}
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	dry := web.DryRun(r.Form)
	if dry {
		web.ChangedNothing(w)
	}
	// An erasure goes on to the end, even if the browser goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), maxErase)
	defer cancel()
	status, all := http.StatusOK, []erasureResult{}
	for _, h := range p.holders() {
		e := erasureResult{Where: h.Name}
		err := errors.New("what it has sent or stored elsewhere is to be erased there")
		if h.Erase != nil {
			e.Rows, err = h.Erase(ctx, who, dry)
		}
		if err != nil {
			e.Error = err.Error()
			switch {
			case dry:
			case errors.As(err, new(web.StillNamed)):
				status = max(status, http.StatusConflict)
			default:
				status = http.StatusInternalServerError
			}
		}
		all = append(all, e)
	}
	web.WriteJSON(w, status, all)
}

// holders returns everything that stores data about people.
func (p *Pages) holders() []Holder {
	all := append(p.Holders(), Holder{Name: "requests to look", Erase: func(_ context.Context, who event.Person, dry bool) (int64, error) {
		return p.Looks.forget(who.In, dry), nil
	}})
	if p.Site.Audit != nil { // it comes last, because it may have to record something before
		all = append(all, Holder{Name: "details of the audit log", Erase: func(_ context.Context, who event.Person, dry bool) (int64, error) {
			n, err := p.Site.Audit.Erase(who.In, dry)
			return int64(n), err
		}})
	}
	return all
}
