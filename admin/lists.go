package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/list/source"
)

// Lists provides the admin address with lists, and changes single entries of
// them.
type Lists struct {
	// All returns the lists in use, in the order of their names.
	All func() []List
	// Search returns the lists that have a host or URL.
	Search func(name string) ([]Hit, error)
	// Change makes changes to lists, by their names, and puts them into use: all or none. It
	// returns [ErrNoList] for a list that does not exist, and [*BadChange] for changes that
	// cannot be made.
	Change func(ctx context.Context, changes map[string][]list.Change) error
	// In returns the lists in use, and the client that fetches them. Use puts
	// fetched lists into use.
	In func() (*collection.Collection, *http.Client)
	// Arriving returns what is being fetched. It may be nil.
	Arriving func() source.Progress
	Use      func(ctx context.Context, why string) bool

	reading sync.Mutex // for odd lines, one list is read at a time
}

// ShowLists describes the lists in use.
func (l *Lists) ShowLists() *Lists {
	l.All = func() (all []List) {
		c, _ := l.In()
		var now source.Progress
		if l.Arriving != nil {
			now = l.Arriving()
		}
		for _, r := range c.Reports() {
			all = append(all, List{Name: r.Name, Entries: r.Entries, Networks: r.Networks, Exprs: r.Exprs, Rules: r.Rules,
				Refused: r.Bad, Categories: r.Categories, Missing: c.Missing(r.Name), Freshness: freshnessOf(c, r.Name)})
			if r.Name == now.Name {
				all[len(all)-1].Fetching = FetchProgress{now.Done, now.Total}
			}
		}
		return all
	}
	l.Search = func(name string) (hits []Hit, err error) {
		c, _ := l.In()
		found, err := c.Search(name)
		for _, f := range found {
			hits = append(hits, Hit{List: f.List, FoundEntry: f.Found})
		}
		return hits, err
	}
	return l
}

// A List describes one list in use.
type List struct {
	Name       string         `json:"name"`
	Entries    int            `json:"entries"`
	Networks   int            `json:"networks,omitempty"`
	Exprs      int            `json:"expressions,omitempty"`
	Rules      int            `json:"rules,omitempty"`
	Refused    int            `json:"refused"` // lines
	Categories map[string]int `json:"categories"`
	Missing    bool           `json:"missing,omitempty"` // not fetched yet
	Fetching   FetchProgress  `json:"fetching,omitzero"`
	Freshness
}

// FetchProgress says how much of a list has arrived, in bytes.
type FetchProgress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"` // -1 if that is not known
}

// percent returns how much has arrived.
func (f FetchProgress) percent() int64 { return 100 * f.Done / max(f.Total, 1) }

// otherEntries returns the number of entries that are not hosts or URLs.
func (l List) otherEntries() int { return l.Networks + l.Exprs + l.Rules }

// categories names the largest categories.
func (l List) categories() string {
	names := slices.SortedFunc(maps.Keys(l.Categories), func(a, b string) int {
		return cmp.Or(l.Categories[b]-l.Categories[a], strings.Compare(a, b))
	})
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// A Hit is an entry found by a search.
type Hit struct {
	List string `json:"list"`
	list.FoundEntry
}

// A BadChange is an error in a requested change, not of the gateway.
type BadChange struct{ Err error }

func (e *BadChange) Error() string { return e.Err.Error() }
func (e *BadChange) Unwrap() error { return e.Err }

// maxChanges is the largest body of changes, in bytes.
const maxChanges = 8 << 20

// routes returns the routes of lists.
//
//	GET /lists             what is in use; HTML for browsers, else JSON
//	GET /lists?q=NAME      which lists have a host or URL
//	GET /lists/NAME        one of them; with odd=yes what is odd about its lines
//	POST /lists/NAME/source  what=fetch or back: a newer version, or the one before
//	POST /lists/NAME       changes, as JSON or CSV (list.ReadChanges)
//	POST /lists            the form of the page
func listRoutes(p *Parts) []route {
	l, page := p.Lists, pageOf("lists.html", p.Pause.notice)
	one := &listPage{lists: l, p: p, page: pageOf("list.html", p.Pause.notice)}
	return []route{
		{"GET", "/lists", viewer, func(w http.ResponseWriter, r *http.Request) { l.show(w, r, page, "") }},
		{"POST", "/lists", operator, func(w http.ResponseWriter, r *http.Request) { changeEntry(p, w, r, page) }},
		{"GET", "/lists/{name}", viewer, one.show},
		{"POST", "/lists/{name}", operator, func(w http.ResponseWriter, r *http.Request) { changeList(p, w, r) }},
		{"POST", "/lists/{name}/source", operator, one.act},
	}
}

func (l *Lists) show(w http.ResponseWriter, r *http.Request, page pageTemplate, done string) {
	d := struct {
		Lists []List
		Query string
		Hits  []Hit
		Error string
		Done  string
		Waits bool // for lists that are still to be fetched
	}{Lists: l.All(), Query: strings.TrimSpace(r.FormValue("q")), Done: done}
	d.Waits = slices.ContainsFunc(d.Lists, func(l List) bool { return l.Missing || l.Fetching.Done > 0 })
	status := http.StatusOK
	if d.Query != "" {
		var err error
		if d.Hits, err = l.Search(d.Query); err != nil {
			d.Error, status = err.Error(), http.StatusBadRequest
		}
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		switch {
		case d.Error != "":
			http.Error(w, d.Error, status)
		case d.Query != "":
			writeJSON(w, status, d.Hits)
		default:
			writeJSON(w, status, d.Lists)
		}
		return
	}
	writePage(w, page, status, d)
}

// changeEntry makes the one change that the form of the page names, and shows the
// page again.
func changeEntry(p *Parts, w http.ResponseWriter, r *http.Request, page pageTemplate) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := list.Change{
		Entry: r.PostForm.Get("entry"), Category: r.PostForm.Get("category"), Exact: r.PostForm.Get("exact") != "",
		Remove: r.PostForm.Get("what") == "remove", Exception: r.PostForm.Get("what") == "except",
	}
	changes := map[string][]list.Change{r.PostForm.Get("list"): {c}}
	what := fmt.Sprintf("%s: %s", r.PostForm.Get("list"), map[bool]string{true: "removed " + c.Entry, false: "added " + c.Entry}[c.Remove])
	done, err := p.showEffect(w, r, pendingChange{What: what, Back: "/lists", Trial: Trial{Lists: changes}})
	if done {
		return
	}
	if err == nil {
		err = p.Lists.Change(r.Context(), changes)
	}
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	r.Form.Set("q", c.Entry)
	p.Lists.show(w, r, page, what)
}

func changeList(p *Parts, w http.ResponseWriter, r *http.Request) {
	// A form cannot send these types, so that a browser asks before it does.
	switch ctype, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); ctype {
	case "application/json", "application/x-ndjson", "text/csv":
	default:
		http.Error(w, "send application/json or text/csv", http.StatusUnsupportedMediaType)
		return
	}
	changes, err := list.ReadChanges(http.MaxBytesReader(w, r.Body, maxChanges))
	if err == nil && len(changes) == 0 {
		err = errors.New("there is no change to make")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	all := map[string][]list.Change{r.PathValue("name"): changes}
	err = r.ParseForm() // only the query, because the body is not a form
	done := false
	if err == nil {
		done, err = p.showEffect(w, r, pendingChange{Trial: Trial{Lists: all}})
	}
	if done {
		return
	}
	if err == nil {
		err = p.Lists.Change(r.Context(), all)
	}
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	writeJSON(w, http.StatusOK, map[string]int{"changed": len(changes)})
}

func statusOf(err error) int {
	var bad *BadChange
	var badList *collection.BadChange
	var others *notOwn
	switch {
	case errors.As(err, &others), errors.Is(err, ErrTwoPeople), errors.Is(err, ErrTwoErase):
		return http.StatusForbidden
	case errors.Is(err, collection.ErrNoList):
		return http.StatusNotFound
	case errors.As(err, &bad), errors.As(err, &badList):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
