package admin

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

	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/setting"
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

// privacyRoutes returns the routes of one person's data.
//
//	GET /privacy            the page
//	GET /privacy/export     user=…&client=…: all there is, as JSON lines
//	POST /privacy/erase     user=…&client=…: takes it out; dry_run=true counts in each place
func (p *Parts) privacyRoutes() []route {
	if p.Events == nil {
		return nil
	}
	page := pageOf("privacy.html", p.Pause.notice)
	return []route{
		{"GET", "/privacy", owner, func(w http.ResponseWriter, r *http.Request) { writePage(w, page, http.StatusOK, nil) }},
		{"GET", "/privacy/export", owner, p.export},
		{"POST", "/privacy/erase", owner, p.erase},
	}
}

func (p *Parts) export(w http.ResponseWriter, r *http.Request) {
	who, err := personIn(r.URL.Query())
	if err == nil && p.needsTwo() && !p.Looks.may(userOf(r).Name, &who, false) {
		err = ErrTwoPeople // before a part of it is sent
	}
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // it may be as long as the record
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
			http.Error(w, err.Error(), max(statusOf(err), http.StatusForbidden))
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
	if p.Audit == nil {
		return
	}
	all, err := p.Audit.EntriesAbout(who.In)
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

func (p *Parts) erase(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	var who event.Person
	if err != nil {
		err = &BadChange{err}
	} else {
		who, err = personIn(r.PostForm)
	}
	if err == nil && p.needsTwo() && !p.Looks.may(userOf(r).Name, &who, true) {
		err = ErrTwoErase
	}
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	dry := dryRun(r.Form)
	if s, ok := w.(*statusRecorder); ok {
		s.effectOnly = dry
	}
	// An erasure goes on to the end, even if the browser goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), maxErase)
	defer cancel()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
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
			case errors.As(err, new(stillNamed)):
				status = max(status, http.StatusConflict)
			default:
				status = http.StatusInternalServerError
			}
		}
		all = append(all, e)
	}
	writeJSON(w, status, all)
}

// holders returns everything that stores data about people.
func (p *Parts) holders() []Holder {
	all := p.Holders()
	if s := p.Searches; s != nil {
		all = append(all, Holder{"saved searches", func(_ context.Context, who event.Person, dry bool) (int64, error) { return s.Erase(who, dry) }})
	}
	if p.Settings != nil {
		all = append(all, Holder{"versions of the settings", p.Settings.erase})
	}
	all = append(all, Holder{"requests to look", func(_ context.Context, who event.Person, dry bool) (int64, error) {
		return p.Looks.forget(who.In, dry), nil
	}})
	if p.Audit != nil { // it comes last, because it may have to record something before
		all = append(all, Holder{"details of the audit log", func(_ context.Context, who event.Person, dry bool) (int64, error) {
			n, err := p.Audit.Erase(who.In, dry)
			return int64(n), err
		}})
	}
	return all
}

// A stillNamed says where the settings in use name a person.
type stillNamed struct{ error }

// erase removes the former versions of the settings that name a person.
func (s *Settings) erase(_ context.Context, who event.Person, dry bool) (int64, error) {
	text, err := s.Read()
	if err != nil {
		return 0, err
	}
	keys := naming(s.Keys)
	n, err := s.Versions.Erase(Tag(text), func(text string) bool { return len(placesOf(text, &who, keys)) > 0 }, who.In, dry)
	if places := placesOf(string(text), &who, keys); err == nil && len(places) > 0 {
		err = stillNamed{fmt.Errorf("the settings in use name this person: %s; remove the name there, and erase again", strings.Join(places, ", "))}
	}
	return n, err
}

// naming returns the keys of settings under which people, devices and clients are named. An
// address elsewhere, such as under listen, or with a port, is that of a server.
func naming(all []setting.Key) (keys [][]string) {
	for i := range all {
		if all[i].People {
			keys = append(keys, strings.Split(all[i].Path, "."))
		}
	}
	return keys
}

// isUnder reports whether a path of keys and of names that somebody chose leads to a key or below
// it.
func isUnder(path, key []string) bool {
	for _, name := range path {
		if len(key) > 0 && name == key[0] {
			key = key[1:]
		}
	}
	return len(key) == 0
}

// placesOf returns where a text of settings names a person: in a comment, or in keys and values
// under the keys for people.
func placesOf(text string, who *event.Person, keys [][]string) (places []string) {
	err := setting.Walk([]byte(text), func(path []string, line int, value string, comment bool) {
		_, err := netip.ParseAddrPort(value)
		if err == nil || !who.In(value) || !comment && !slices.ContainsFunc(keys, func(key []string) bool { return isUnder(path, key) }) {
			return
		}
		if place := fmt.Sprintf("%s (line %d)", strings.Join(path, "."), line); !slices.Contains(places, place) {
			places = append(places, place)
		}
	})
	if err != nil && who.In(text) {
		places = append(places, "line 1")
	}
	return places
}
