// Package category is the check that asks the lists: is this host, or this
// URL, one that somebody has put into a category?
//
// Data moves so: at stage Name the transaction's host is put to every list, at
// stage Request its path to those lists that have URLs, expressions or the rules
// of ad blockers; each
// category found becomes one finding, with the entries and the places where
// they are written as evidence.
package category

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/list/adblock"
)

// Config says which lists are asked, by the names they have in the settings.
type Config struct {
	Lists []string `yaml:"lists"`
	// Now is the clock of lists that hold at certain times; nil is time.Now.
	Now func() time.Time `yaml:"-"`
}

// A Check asks lists. It never changes; when a list does, there is a new one.
type Check struct {
	files      []*list.File
	categories []filter.Category
	urls       bool // any list has more than hosts
	rules      bool // any list has adblock rules
	params     bool // any list has rules about parameters
	now        func() time.Time
	scratch    sync.Pool // of *scratch
}

// scratch is what a lookup needs, kept from one to the next.
type scratch struct {
	query   list.Query
	found   []list.Match
	request *adblock.Request // nil when no list has rules
}

// mostEvidence is the number of entries a finding quotes.
const mostEvidence = 4

// RemoveParam is the category of a request with parameters in its query that
// an ad blocker's list takes out ($removeparam): their names, as they stand in
// the URL, are the finding's Modifier.
const RemoveParam = "removeparam"

// New returns the check over those of lists that cfg names.
func New(cfg Config, lists map[string]*list.File) (*Check, error) {
	c := &Check{now: cfg.Now}
	if cfg.Now == nil {
		c.now = time.Now
	}
	var names []string
	for i, name := range cfg.Lists {
		f, ok := lists[name]
		if !ok {
			return nil, filter.Setting(fmt.Sprintf("lists[%d]", i), fmt.Errorf("%q is not a list; name one of those under lists", name))
		}
		if slices.Contains(cfg.Lists[:i], name) {
			return nil, filter.Setting(fmt.Sprintf("lists[%d]", i), fmt.Errorf("%q is there twice", name))
		}
		if f == nil {
			return nil, filter.Setting(fmt.Sprintf("lists[%d]", i), errors.New("list is not open"))
		}
		c.files = append(c.files, f)
		c.urls = c.urls || beyondHosts(f)
		c.rules = c.rules || f.HasRules()
		c.params = c.params || f.HasParams()
		names = append(names, f.Categories()...)
	}
	c.scratch.New = func() any {
		w := new(scratch)
		if c.rules {
			w.request = new(adblock.Request)
		}
		return w
	}
	if c.params {
		names = append(names, RemoveParam)
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		c.categories = append(c.categories, filter.Category{Name: n})
	}
	return c, nil
}

// beyondHosts says whether f may know more when the path is known.
func beyondHosts(f *list.File) bool { return f.HasURLs() || f.HasExpressions() || f.HasRules() }

// Name returns "category".
func (c *Check) Name() string { return "category" }

// Categories lists the categories of all lists.
func (c *Check) Categories() []filter.Category { return slices.Clone(c.categories) }

// Wants is true at Name, and at Request when a list has URLs.
func (c *Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	switch s {
	case filter.Name:
		return len(c.files) > 0 && t.Host != ""
	case filter.Request:
		return c.urls && t.Host != ""
	}
	return false
}

// Find reports at Name the categories of the host, and at Request those that
// only the URL is in. It relies on Name having come first: what is known from
// the host alone is not looked at again.
//
// An exception entry of a list takes its host out of that category of that
// list.
func (c *Check) Find(_ context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	if !c.Wants(t, s) {
		return dst, nil
	}
	w := c.scratch.Get().(*scratch)
	defer c.scratch.Put(w)
	url := s == filter.Request
	if url {
		w.query.SetURL(t.Host, target(t))
		if c.rules {
			setRequest(w.request, t)
		}
	} else {
		w.query.SetHost(t.Host)
		if c.rules && t.Proto == filter.DNS {
			w.request.SetName(t.Host, t.Type, adblock.Client{Addr: t.Client.Addr, Name: t.Client.User, Groups: t.Client.Groups})
		}
	}
	from := len(dst)
	for _, f := range c.files {
		// A list whose exceptions depend on the request is asked once, when that
		// is known; where it never will be, its hosts are all there is.
		if url && !beyondHosts(f) || !url && f.Undecided() && t.Last != filter.Name {
			continue
		}
		if err := w.ask(f, url || t.Proto == filter.DNS, url || t.Last == filter.Name); err != nil {
			return dst, fmt.Errorf("looking up %q: %w", t.Host, err)
		}
		if t.Proto == filter.DNS {
			list.LongestFirst(w.found)
		}
		itself := false // a rule leads the name to itself, which lifts shorter ones
		for _, m := range w.found {
			if to := f.Rewrite(m); to != "" && !m.Exception && !f.Excepted(w.found, m) {
				if itself = itself || to == alias+t.Host; itself {
					continue
				}
			}
			if m.Exception || url && !m.URL && !f.Undecided() || f.Excepted(w.found, m) || !f.Applies(m, c.now()) {
				continue
			}
			if url && known(t.Findings, m.Category) {
				continue
			}
			dst = add(dst, from, f, m, t.Terse)
		}
	}
	clear(w.found)
	w.query.Forget()
	if url && c.params {
		dst = c.removeParams(w.request, t, dst)
	}
	return dst, nil
}

// removeParams reports the parameters to be taken out of a query that is read,
// not one that is written somewhere.
func (c *Check) removeParams(r *adblock.Request, t *filter.Transaction, dst []filter.Finding) []filter.Finding {
	if t.Request == nil || t.Request.Method != "GET" && t.Request.Method != "HEAD" {
		return dst
	}
	var all []string
	evidence := ""
	for _, f := range c.files {
		names, first := f.RemoveParams(r)
		if len(names) > 0 && evidence == "" {
			evidence = f.Evidence(first)
		}
		all = append(all, names...)
	}
	if len(all) == 0 {
		return dst
	}
	return append(dst, filter.Finding{Check: "category", Category: RemoveParam, Evidence: evidence, Modifier: "removeparam=" + strings.Join(all, "&")})
}

// ask puts the query to f. Adblock rules are about requests; expressions are
// tried when no more will be known of the transaction.
func (w *scratch) ask(f *list.File, request, whole bool) (err error) {
	if w.found, err = f.Lookup(&w.query, w.found[:0]); err != nil {
		return err
	}
	if request && f.HasRules() {
		if w.found, err = f.Judge(w.request, w.found); err != nil {
			return err
		}
	}
	if whole {
		w.found, err = f.Search(&w.query, w.found)
	}
	return err
}

// add adds m to the finding of its category in dst[from:], or a new one.
func add(dst []filter.Finding, from int, f *list.File, m list.Match, terse bool) []filter.Finding {
	for i := from; i < len(dst); i++ {
		if dst[i].Category == m.Category {
			if !terse && strings.Count(dst[i].Evidence, "; ") < mostEvidence-1 {
				dst[i].Evidence += "; " + f.Evidence(m)
			}
			dst[i].Modifier = join(dst[i].Modifier, modifier(f, m))
			return dst
		}
	}
	found := filter.Finding{Check: "category", Category: m.Category, Modifier: modifier(f, m)}
	if !terse {
		found.Evidence = f.Evidence(m)
	}
	return append(dst, found)
}

// modifier is what the rule found asks for besides blocking.
func modifier(f *list.File, m list.Match) string {
	if to := f.Rewrite(m); to != "" {
		return rewrite + to
	}
	if name := f.Redirect(m); name != "" {
		return "redirect=" + name
	}
	return ""
}

// rewrite begins a modifier that says how a name is to be answered.
const rewrite = "dnsrewrite="

// alias begins a rewrite to another name.
const alias = "NOERROR;CNAME;"

// join adds the modifier b to a. One of a kind is enough, but answers to a
// name add up.
func join(a, b string) string {
	if strings.HasPrefix(b, rewrite) {
		if strings.HasPrefix(a, rewrite) {
			return a + "|" + b[len(rewrite):]
		}
		return b
	}
	return cmp.Or(a, b)
}

// known says whether this check has reported category before.
func known(found []filter.Finding, category string) bool {
	for i := range found {
		if found[i].Check == "category" && found[i].Category == category {
			return true
		}
	}
	return false
}

// target returns path and query of what is asked for.
func target(t *filter.Transaction) []byte {
	if t.Request != nil && len(t.Request.Path) > 0 {
		return t.Request.Path
	}
	rest := []byte(t.URL)
	if i := bytes.Index(rest, []byte("://")); i >= 0 {
		rest = rest[i+3:]
	}
	i := bytes.IndexAny(rest, "/?#")
	switch {
	case i < 0 || rest[i] == '#':
		return nil
	case rest[i] == '?':
		return append([]byte("/"), rest[i:]...)
	}
	return rest[i:]
}
