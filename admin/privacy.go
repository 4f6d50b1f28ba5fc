package admin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/event/jsonl"
)

// The data about one person is exported and erased here. Erasing covers the
// record in all stores that can erase, the details of the audit log, and
// requests to look into the person's browsing.

// maxErase bounds the time of an erasure: databases are rewritten.
const maxErase = time.Hour

// An erased is the result of an erasure in one place.
type erased struct {
	Where string `json:"where"`
	Rows  int64  `json:"rows"`
	Error string `json:"error,omitempty"`
}

// A Holder is a part of the gateway that has data about people.
type Holder struct {
	Name string
	// Erase removes the data about a person; nil: not possible.
	Erase func(ctx context.Context, p event.Person) (rows int64, err error)
}

// personIn reads the person from a form or a query.
func personIn(v url.Values) (p event.Person, err error) {
	for _, u := range v["user"] {
		if u = strings.TrimSpace(u); u != "" {
			p.Users = append(p.Users, u)
		}
	}
	for _, c := range scopes(v["client"]) {
		a, err := netip.ParseAddr(c)
		if err != nil {
			return p, &BadChange{fmt.Errorf("client=%q is not the address of a device", c)}
		}
		p.Clients = append(p.Clients, a.Unmap().WithZone(""))
	}
	if p.Empty() {
		return p, &BadChange{errors.New("whose data? name a user or the address of a device that nobody else uses")}
	}
	return p, nil
}

// filters returns queries for all rows of a person; a row may match two.
func filters(p event.Person) (all []event.Filter, err error) {
	var f event.Filter
	if len(p.Users) > 0 {
		if err := f.And(event.User, false, p.Users...); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	if len(p.Clients) > 0 {
		f = event.Filter{}
		for _, a := range p.Clients {
			var one event.Filter
			if err := one.And(event.Client, false, a.String()); err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	return all, nil
}

//go:embed privacy.html
var privacyPage string

// privacyRoutes returns the routes of one person's data.
//
//	GET /privacy            the page
//	GET /privacy/export     user=…&client=…: all there is, as JSON lines
//	POST /privacy/erase     user=…&client=…: takes it out; dry_run=true counts
func (p *Parts) privacyRoutes() []route {
	if p.Events == nil {
		return nil
	}
	page := pageOf(privacyPage, p.Pause.notice)
	return []route{
		{"GET", "/privacy", owner, func(w http.ResponseWriter, r *http.Request) { writePage(w, page, http.StatusOK, nil) }},
		{"GET", "/privacy/export", owner, p.export},
		{"POST", "/privacy/erase", owner, p.erase},
	}
}

func (p *Parts) export(w http.ResponseWriter, r *http.Request) {
	who, err := personIn(r.URL.Query())
	var asks []event.Filter
	if err == nil {
		asks, err = filters(who)
	}
	if err == nil && p.needsTwo() && !p.Looks.may(asker(r).Name, &who, false) {
		err = ErrTwoPeople // before a part of it is sent
	}
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // it is as long as the record
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
	for i, f := range asks {
		for row, err := range p.Events.Query(r.Context(), f, event.Page{}) {
			if err != nil && !begun {
				http.Error(w, err.Error(), max(statusOf(err), http.StatusForbidden))
				return
			}
			if err != nil {
				panic(http.ErrAbortHandler) // a partial export must not look complete
			}
			if i > 0 && earlier(asks[:i], &row) {
				continue
			}
			begin()
			line = jsonl.AppendLine(line[:0], &row)
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}
	begin()
	if p.Audit == nil {
		return
	}
	all, err := p.Audit.About(who.In)
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

// earlier reports whether one of the questions before had a row already.
func earlier(asks []event.Filter, r *event.Row) bool {
	for i := range asks {
		if asks[i].Match(r) {
			return true
		}
	}
	return false
}

func (p *Parts) erase(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	var who event.Person
	if err != nil {
		err = &BadChange{err}
	} else {
		who, err = personIn(r.PostForm)
	}
	if err == nil && p.needsTwo() && !p.Looks.may(asker(r).Name, &who, true) {
		err = ErrTwoErase
	}
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	if dryRun(r.Form) {
		p.wouldErase(w, r, who)
		return
	}
	// To the end, even when the browser goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), maxErase)
	defer cancel()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	status, all := http.StatusOK, []erased{}
	for _, h := range holders(&p.Access) {
		e := erased{Where: h.Name}
		err := errors.New("what it has sent or stored elsewhere is to be erased there")
		if h.Erase != nil {
			e.Rows, err = h.Erase(ctx, who)
		}
		if err != nil {
			e.Error, status = err.Error(), http.StatusInternalServerError
		}
		all = append(all, e)
	}
	p.Looks.forget(who.In)
	if p.Audit != nil {
		n, err := p.Audit.Erase(who.In)
		e := erased{Where: "details of the audit log", Rows: int64(n)}
		if err != nil {
			e.Error, status = err.Error(), http.StatusInternalServerError
		}
		all = append(all, e)
	}
	writeJSON(w, status, all)
}

// wouldErase counts the rows that erasing would remove from the record.
func (p *Parts) wouldErase(w http.ResponseWriter, r *http.Request, who event.Person) {
	asks, err := filters(who)
	n := int64(0)
	stored := p.Events.Reader
	if x, ok := stored.(*reader); ok && p.Looks.may(asker(r).Name, &who, true) {
		stored = x.Reader // another person has agreed
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), maxAsk)
		defer cancel()
		for i, f := range asks {
			for row, failed := range stored.Query(ctx, f, event.Page{}) {
				if failed != nil {
					err = tooLong(ctx, failed)
					break
				}
				if !earlier(asks[:i], &row) {
					n++
				}
			}
		}
	}
	if err != nil {
		http.Error(w, err.Error(), max(statusOf(err), http.StatusForbidden))
		return
	}
	writeJSON(w, http.StatusOK, []erased{{Where: "events that can be asked", Rows: n}})
}

// holders returns everything that stores data about people.
func holders(a *Access) []Holder {
	all := a.Holders()
	if a.Searches != nil {
		all = append(all, Holder{"saved searches", func(_ context.Context, who event.Person) (int64, error) { return a.Searches.Erase(who) }})
	}
	return all
}
