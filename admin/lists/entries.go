package lists

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/list/collection"
)

// entriesShown is how many entries of a list a page has.
const entriesShown = 50

// An EntryList is a page of the entries of a list.
type EntryList struct {
	Entries []ShownEntry `json:"entries"`
	All     int          `json:"all"`           // found
	Cut     bool         `json:"cut,omitempty"` // there may be more
	Query   string       `json:"-"`
	Before  string       `json:"-"` // the link to those before, "" for none
	After   string       `json:"-"`
}

// A ShownEntry is an entry, and who changed it by hand.
type ShownEntry struct {
	Entry    string `json:"entry"`
	Category string `json:"category,omitempty"`
	// Exception says that it takes its site out of the category.
	Exception bool      `json:"exception,omitempty"`
	By        string    `json:"by,omitempty"` // added, excepted or removed by hand
	Who       string    `json:"who,omitempty"`
	At        time.Time `json:"at,omitzero"`
}

// entries fills in the entries of a list that the request asks for.
func (o *listPage) entries(r *http.Request, c *collection.Collection, d *ListState) error {
	q := r.URL.Query()
	if !d.Web && web.UserOf(r).Role < account.Operator { // a file that was not fetched may be any
		return nil
	}
	if !web.IsPage(r) && !q.Has("find") {
		return nil
	}
	from, _ := strconv.Atoi(q.Get("from")) // nonsense: the first
	from = max(from, 0)
	found, err := c.Find(d.Name, q.Get("find"), from, entriesShown)
	if err != nil {
		return err
	}
	d.Found = &EntryList{Entries: []ShownEntry{}, All: found.All, Cut: found.Cut, Query: q.Get("find")}
	at := func(n int) string {
		return "/lists/" + d.Name + "?" + url.Values{"find": {q.Get("find")}, "from": {strconv.Itoa(n)}}.Encode() + "#sites"
	}
	if from > 0 {
		d.Found.Before = at(max(from-entriesShown, 0))
	}
	if from+len(found.Entries) < found.All {
		d.Found.After = at(from + entriesShown)
	}
	for _, e := range found.Entries {
		x := ShownEntry{Entry: e.Key, Category: e.Category, By: e.By}
		x.Exception = e.Exception
		d.Found.Entries = append(d.Found.Entries, x)
	}
	return o.signed(d)
}

// signed fills in who changed entries by hand, and when, as the audit log has it.
func (o *listPage) signed(d *ListState) error {
	var own []*ShownEntry
	for i := range d.Found.Entries {
		if e := &d.Found.Entries[i]; e.By != "" {
			own = append(own, e)
		}
	}
	if len(own) == 0 || o.p.Site.Audit == nil {
		return nil
	}
	about := func(details string, e *ShownEntry) bool {
		_, rest, ok := strings.Cut(details, e.Entry)
		return ok && (rest == "" || strings.ContainsAny(rest[:1], "& \"'\n,"))
	}
	all, err := o.p.Site.Audit.EntriesAbout(func(details string) bool {
		for _, e := range own {
			if about(details, e) {
				return true
			}
		}
		return false
	})
	for _, a := range all {
		if !strings.Contains(a.Action, "/lists") && !strings.Contains(a.Action, "/events") {
			continue
		}
		for _, e := range own {
			if about(a.Details, e) && !a.Time.Before(e.At) {
				e.Who, e.At = a.By, a.Time
			}
		}
	}
	return err
}
