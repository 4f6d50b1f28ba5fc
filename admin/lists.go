package admin

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"shuultuur/list"
)

// Lists is what the admin address shows of lists, and how it changes single
// entries of them.
type Lists struct {
	// All are the lists in use, in the order of their names.
	All func() []List
	// Search says which of them have a host or URL.
	Search func(name string) ([]Hit, error)
	// Change makes changes to lists, by their names, and takes them into use:
	// all of them or none. It returns [ErrNoList] for a list that is not there,
	// and [*BadChange] for changes that cannot be made.
	Change func(ctx context.Context, changes map[string][]list.Change) error
}

// A List is what there is to know of one list in use.
type List struct {
	Name       string         `json:"name"`
	Entries    int            `json:"entries"`
	Networks   int            `json:"networks,omitempty"`
	Exprs      int            `json:"expressions,omitempty"`
	Rules      int            `json:"rules,omitempty"`
	Refused    int            `json:"refused"` // lines
	Categories map[string]int `json:"categories"`
	Missing    bool           `json:"missing,omitempty"` // still to be fetched
}

// others counts what is more than hosts and URLs.
func (l List) others() int { return l.Networks + l.Exprs + l.Rules }

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

// A Hit is an entry that has what was searched for.
type Hit struct {
	List string `json:"list"`
	list.Found
}

// ErrNoList says that there is no list of that name.
var ErrNoList = errors.New("there is no list of that name")

// A BadChange is a change that cannot be made, by no fault of ours.
type BadChange struct{ Err error }

func (e *BadChange) Error() string { return e.Err.Error() }
func (e *BadChange) Unwrap() error { return e.Err }

// maxChanges is the most bytes of changes taken at once.
const maxChanges = 8 << 20

//go:embed lists.html
var listsPage string

// routes returns what is about lists.
//
//	GET /lists             what is in use; HTML for browsers, else JSON
//	GET /lists?q=NAME      which lists have a host or URL
//	POST /lists/NAME       changes, as JSON or CSV (list.ReadChanges)
//	POST /lists            the form of the page
func (l *Lists) routes(notice noticeFunc) []route {
	page := pageOf(listsPage, notice)
	return []route{
		{"GET", "/lists", viewer, func(w http.ResponseWriter, r *http.Request) { l.show(w, r, page, "") }},
		{"POST", "/lists", operator, func(w http.ResponseWriter, r *http.Request) { l.form(w, r, page) }},
		{"POST", "/lists/{name}", operator, l.post},
	}
}

func (l *Lists) show(w http.ResponseWriter, r *http.Request, page pageTemplate, done string) {
	d := struct {
		Lists []List
		Query string
		Hits  []Hit
		Error string
		Done  string
	}{Lists: l.All(), Query: strings.TrimSpace(r.FormValue("q")), Done: done}
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

// form makes the one change that the form of the page names, and shows the
// page again.
func (l *Lists) form(w http.ResponseWriter, r *http.Request, page pageTemplate) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := list.Change{
		Entry: r.PostForm.Get("entry"), Category: r.PostForm.Get("category"), Exact: r.PostForm.Get("exact") != "",
		Remove: r.PostForm.Get("what") == "remove", Exception: r.PostForm.Get("what") == "except",
	}
	if err := l.Change(r.Context(), map[string][]list.Change{r.PostForm.Get("list"): {c}}); err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	r.Form.Set("q", c.Entry)
	l.show(w, r, page, fmt.Sprintf("%s: %s", r.PostForm.Get("list"), map[bool]string{true: "removed " + c.Entry, false: "added " + c.Entry}[c.Remove]))
}

func (l *Lists) post(w http.ResponseWriter, r *http.Request) {
	// Types that a form cannot send, so that a browser asks before it does.
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
	if err := l.Change(r.Context(), map[string][]list.Change{r.PathValue("name"): changes}); err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	writeJSON(w, http.StatusOK, map[string]int{"changed": len(changes)})
}

func statusOf(err error) int {
	var bad *BadChange
	var others *notOwn
	switch {
	case errors.As(err, &others), errors.Is(err, ErrTwoPeople):
		return http.StatusForbidden
	case errors.Is(err, ErrNoList):
		return http.StatusNotFound
	case errors.As(err, &bad):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
