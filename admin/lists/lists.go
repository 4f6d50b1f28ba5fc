// Package lists has the pages of lists, and of the phrases and signatures that checks look for.
// [Lists] shows the lists in use and changes single entries of them; a page of one list (list.go)
// says where it comes from, fetches it, and goes back to the version before.
package lists

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"shuultuur/admin/account"
	"shuultuur/admin/settings"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/list/source"
	"shuultuur/text"
)

// Lists provides the admin address with lists, and changes single entries of
// them.
type Lists struct {
	// All returns the lists in use, in the order of their names.
	All func() []List
	// Search returns the lists that have a host or URL.
	Search func(name string) ([]Hit, error)
	// Change makes changes to lists, by their names, and puts them into use: all or none. It
	// returns [collection.ErrNoList] for a list that does not exist, and [*web.BadChange] for changes that
	// cannot be made.
	Change func(ctx context.Context, changes map[string][]list.Change) error
	// In returns the lists in use, and the client that fetches them. Use puts
	// fetched lists into use.
	In func() (*collection.Collection, *http.Client)
	// Arriving returns what is being fetched. It may be nil.
	Arriving func() []source.Progress
	Use      func(ctx context.Context, why string) bool
	// Checked returns the names of the lists that the check of categories looks into.
	Checked func() []string

	reading  sync.Mutex // for odd lines, one list is read at a time
	writing  sync.Mutex // one list of one's own is written at a time
	looking  sync.Mutex // one list that the settings do not have is fetched at a time
	arriving coming     // how much of it is here; nil: none is fetched
}

// ShowLists describes the lists in use.
func (l *Lists) ShowLists() *Lists {
	l.All = func() (all []List) {
		c, _ := l.In()
		var now []source.Progress
		if l.Arriving != nil {
			now = l.Arriving()
		}
		for _, r := range c.Reports() {
			all = append(all, List{Name: r.Name, Entries: r.Entries, Networks: r.Networks, Exprs: r.Exprs, Rules: r.Rules,
				Refused: r.Bad, Categories: r.Categories, Missing: c.Missing(r.Name), Freshness: freshnessOf(c, r.Name), Known: knownOf(c, r.Name)})
			if i := slices.IndexFunc(now, func(a source.Progress) bool { return a.Name == r.Name }); i >= 0 {
				all[len(all)-1].Fetching = FetchProgress{now[i].Done, now[i].Total}
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
	Known      *Known         `json:"known,omitempty"`   // what the catalogue knows of it
	Fetching   FetchProgress  `json:"fetching,omitzero"`
	Freshness
}

// Known is what the catalogue knows of a list.
type Known struct {
	Title   string `json:"title"`
	What    string `json:"what"`
	Licence string `json:"licence"`
	Home    string `json:"home"`
}

// knownOf returns what the catalogue knows of a list, nil for others.
func knownOf(c *collection.Collection, name string) *Known {
	s, err := c.StatusOf(name)
	if err != nil || s.Known.Name == "" {
		return nil
	}
	return &Known{s.Known.Title, s.Known.What, s.Known.Licence, s.Known.Home}
}

// Called returns what people call the list.
func (l List) Called() string {
	if l.Known != nil {
		return l.Known.Title
	}
	return l.Name
}

// FetchProgress says how much of a list has arrived, in bytes.
type FetchProgress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"` // -1 if that is not known
}

// Percent returns how much has arrived.
func (f FetchProgress) Percent() int64 { return 100 * f.Done / max(f.Total, 1) }

// Others returns the number of entries that are not hosts or URLs.
func (l List) Others() int { return l.Networks + l.Exprs + l.Rules }

// Largest names the largest categories.
func (l List) Largest() string {
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

// maxChanges is the largest body of changes, in bytes.
const maxChanges = 8 << 20

// Pages are the pages of lists.
type Pages struct {
	Site   *web.Site
	Lists  *Lists
	Events event.Reader // says what a list has blocked; nil: nothing does
	// Settings takes lists in and out; nil: nobody does.
	Settings *settings.Settings
}

// Routes returns the routes of lists.
//
//	GET /lists             what is in use; HTML for browsers, else JSON
//	GET /lists?q=NAME      which lists have a host or URL
//	GET /lists/NAME        one of them; with odd=yes what is odd about its lines
//	POST /lists/NAME/source  what=fetch or back: a newer version, or the one before
//	POST /lists/NAME/remove  out of the settings
//	GET, POST /lists/NAME/text  a list of one's own as a text (own.go)
//	GET, POST /lists/new   a list by its address, or from the catalogue (add.go)
//	POST /lists/NAME       changes, as JSON or CSV (list.ReadChanges)
//	POST /lists            the form of the page
func (p *Pages) Routes() []web.Route {
	page := p.Site.Page("lists.html")
	one := &listPage{lists: p.Lists, p: p, page: p.Site.Page("list.html")}
	all := []web.Route{
		{Method: "GET", Path: "/lists", Role: web.Viewer,
			Link: web.LinkIn(web.Lists, text.Mark("Lists")),
			Does: "lists in use, or which of them have a host or URL", Query: []web.Field{web.Optional("q", "host or URL to look for"), web.Optional("about", "a category: only these of the catalogue")}, Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { p.show(w, r, page, "") }},
		{Method: "POST", Path: "/lists", Role: web.Operator,
			Does: "change one entry of a list", Gives: web.PageOrJSON, Form: []web.Field{web.Required("what", "add | except | remove"), web.Required("entry", "host or URL"), web.Required("list", "name of the list"), web.Optional("category", "if the list has several"), web.Optional("exact", "1: without subdomains"), web.OnTrial},
			Effect:  web.Judged,
			Handler: func(w http.ResponseWriter, r *http.Request) { p.changeEntry(w, r, page) }},
		{Method: "GET", Path: "/lists/{name}", Role: web.Viewer,
			Does: "one list: where it comes from, how fresh it is, its versions, what it blocked in the last day", Query: []web.Field{web.Optional("odd", "yes: what is odd about its lines"), web.Optional("find", "part of an entry: those that have it; empty for all"), web.Optional("from", "number of the first entry")}, Gives: web.PageOrJSON,
			Handler: one.show},
		{Method: "POST", Path: "/lists/{name}", Role: web.Operator,
			Does: "make changes to a list, all or none", Query: []web.Field{web.OnTrial}, Body: "application/json application/x-ndjson text/csv",
			Effect:  web.Judged,
			Handler: func(w http.ResponseWriter, r *http.Request) { p.changeList(w, r) }},
		{Method: "POST", Path: "/lists/{name}/source", Role: web.Operator,
			Does: "fetch a newer version of a list, or go back to the one before", Gives: web.PageOrJSON, Form: []web.Field{web.Required("what", "fetch | back"), web.OnTrial},
			Effect:  web.Judged,
			Handler: one.act},
	}
	if p.Settings == nil {
		return all
	}
	return append(slices.Concat(all, p.addRoutes(), p.ownRoutes()), web.Route{Method: "POST", Path: "/lists/{name}/remove", Role: web.Operator,
		Does: "take a list out of use, with the rules that need it", Gives: web.PageOrJSON, Form: []web.Field{web.OnTrial},
		Effect:  web.Judged,
		Handler: p.remove})
}

// listsData is what the page of all lists shows.
type listsData struct {
	Lists   []UsedList
	More    []Offer // of the catalogue, not in use
	Topics  []Topic
	About   string
	Sites   int // of all lists
	Query   string
	Hits    []Hit
	Error   string
	Done    string
	Saved   bool
	Waits   bool // for lists that are still to be fetched
	MayEdit bool
}

// A UsedList is a list in use, as the page shows it.
type UsedList struct {
	List
	Icon string
	Whom []string // policies that refuse what is in it
}

// An Offer is a list of the catalogue, as the page shows it.
type Offer struct {
	source.CatalogueEntry
	Icon string
}

// A Topic is a category of the catalogue, with how many lists are about it.
type Topic struct {
	Category, Name string
	Lists          int
}

// topics are the topics of the page in their order, each with its icon.
var topics = []struct{ category, name, icon string }{
	{"ads", text.Mark("Ads and tracking"), "ads"}, {"tracking", text.Mark("Ads and tracking"), "ads"},
	{"malware", text.Mark("Malware and phishing"), "bug"}, {"phishing", text.Mark("Malware and phishing"), "bug"},
	{"adult", text.Mark("Adult"), "adult"}, {"gambling", text.Mark("Gambling"), "dice"},
	{"social", text.Mark("Social networks"), "chat"}, {"games", text.Mark("Games"), "game"}, {"dating", text.Mark("Dating"), "heart"}, {"video", text.Mark("Video"), "video"},
	{"proxies", text.Mark("Ways around the filter"), "tunnel"}, {"doh", text.Mark("Ways around the filter"), "tunnel"},
}

// topicOf returns the name and the icon of the topic of a category.
func topicOf(category string) (name, icon string) {
	for _, t := range topics {
		if t.category == category {
			return t.name, t.icon
		}
	}
	return "", "list"
}

func (p *Pages) show(w http.ResponseWriter, r *http.Request, page web.PageTemplate, done string) {
	l := p.Lists
	all := l.All()
	q := r.Form
	if q == nil {
		q = r.URL.Query()
	}
	d := &listsData{Query: strings.TrimSpace(q.Get("q")), About: q.Get("about"), Done: done, Saved: q.Has("saved"), MayEdit: p.Settings != nil && web.UserOf(r).Role >= account.Operator}
	status := http.StatusOK
	if d.Query != "" {
		var err error
		if d.Hits, err = l.Search(d.Query); err != nil {
			d.Error, status = err.Error(), http.StatusBadRequest
		}
	}
	if !web.IsPage(r) {
		switch {
		case d.Error != "":
			http.Error(w, d.Error, status)
		case d.Query != "":
			web.WriteJSON(w, status, d.Hits)
		default:
			web.WriteJSON(w, status, all)
		}
		return
	}
	d.Waits = slices.ContainsFunc(all, func(l List) bool { return l.Missing || l.Fetching.Done > 0 })
	policies, _ := p.policies() // without them, the page has the rest
	for _, x := range all {
		u := UsedList{List: x, Icon: "list", Whom: refusing(policies, x.Categories)}
		for c := range x.Categories {
			if _, u.Icon = topicOf(c); len(x.Categories) > 1 {
				u.Icon = "list"
			}
		}
		if !x.Web {
			u.Icon = "edit"
		}
		d.Lists = append(d.Lists, u)
		d.Sites += x.Entries + x.Others()
	}
	c, _ := l.In()
	d.offer(c.Sources())
	web.WritePage(w, page, status, d)
}

// offer adds the lists of the catalogue that are not in use.
func (d *listsData) offer(used map[string]string) {
	for _, k := range offered() {
		if _, in := used[k.Name]; in {
			continue
		}
		name, icon := topicOf(k.Category)
		i := slices.IndexFunc(d.Topics, func(t Topic) bool { return t.Name == name })
		switch {
		case i >= 0:
			d.Topics[i].Lists++
		case name != "":
			d.Topics = append(d.Topics, Topic{k.Category, name, 1})
		}
		about, _ := topicOf(d.About)
		if d.About == "" && !strings.HasPrefix(k.Name, "ut1-") || d.About == "all" || about != "" && name == about {
			d.More = append(d.More, Offer{k, icon})
		}
	}
}

// remove takes a list out of the settings.
func (p *Pages) remove(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := r.PathValue("name")
	if c, _ := p.Lists.In(); !c.Has(name) {
		http.Error(w, collection.ErrNoList.Error(), http.StatusNotFound)
		return
	}
	shown, err := false, error(nil)
	draft, err := p.draftWithout(r, name)
	if err == nil {
		shown, err = p.Site.ShowEffect(w, r, web.PendingChange{What: "list " + name + ": out of use", Back: "/lists", Trial: web.Trial{Text: draft.Text}})
	}
	if shown {
		return
	}
	if err == nil {
		err = draft.Save()
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), web.StatusOf(err))
	case web.IsPage(r):
		http.Redirect(w, r, "/lists?"+url.Values{"saved": {"yes"}}.Encode(), http.StatusSeeOther)
	default:
		web.WriteJSON(w, http.StatusOK, map[string]bool{"saved": true})
	}
}

// draftWithout prepares the settings without a list. Rules stay while something else finds what they
// name.
func (p *Pages) draftWithout(r *http.Request, name string) (*settings.Draft, error) {
	var draft *settings.Draft
	var err error
	for _, rules := range []bool{false, true} {
		var changes []setting.Change
		if changes, err = p.removal(name, rules); err != nil {
			return nil, err
		}
		if draft, err = p.Settings.Draft(r, "list "+name+" out of use", changes); err == nil {
			return draft, nil
		}
	}
	return nil, err
}

// changeEntry makes the one change that the form of the page names, and shows the
// page again.
func (p *Pages) changeEntry(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
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
	done, err := p.Site.ShowEffect(w, r, web.PendingChange{What: what, Back: "/lists", Trial: web.Trial{Lists: changes}})
	if done {
		return
	}
	if err == nil {
		err = p.Lists.Change(r.Context(), changes)
	}
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	r.Form.Set("q", c.Entry)
	p.show(w, r, page, what)
}

func (p *Pages) changeList(w http.ResponseWriter, r *http.Request) {
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
		done, err = p.Site.ShowEffect(w, r, web.PendingChange{Trial: web.Trial{Lists: all}})
	}
	if done {
		return
	}
	if err == nil {
		err = p.Lists.Change(r.Context(), all)
	}
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string]int{"changed": len(changes)})
}
