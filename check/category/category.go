// Package category is the check that looks up hosts and URLs in the lists.
//
// At stage Name it looks up the host in every list. At stage Request it looks up the URL in
// lists with URLs, expressions or ad-block rules; if it is deep, it looks up the addresses inside
// it, too, and those inside the target of a redirect. Then it removes the matches that an
// exception lifts. Each remaining category becomes one finding; its evidence names the
// entries, with file and line.
package category

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/check/build"
	"shuultuur/check/category/wrapped"
	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/adblock"
)

// Config are the settings of the check: the lists to look up, by their names in the settings.
type Config struct {
	Lists []string `yaml:"lists"`
	// UnknownPage says how a request counts for $third-party when neither Referer, Origin nor
	// Sec-Fetch-Site names the page that it comes from: "third-party" (the default, as in ad
	// blockers) or "first-party". A document counts as its own page.
	UnknownPage string `yaml:"unknown-page"`
	// Deep looks up the addresses inside an address, too: those that translators, archives,
	// redirects and proxies are asked for.
	Deep bool `yaml:"deep"`
	// Missing reports whether a list has not been fetched yet; nil for none.
	Missing func(list string) bool `yaml:"-"`
	// Now is the clock for lists that apply at certain times; nil is time.Now.
	Now func() time.Time `yaml:"-"`
}

// A Check looks up hosts and URLs in lists. It never changes; a changed list requires a new
// Check.
type Check struct {
	lists      []source
	categories []filter.Category
	undecided  map[string]bool // categories with exceptions that depend on the request
	bad        list.BadFilters
	pages      *list.Pages // nil when no list changes pages
	urls       bool        // some list is looked up at stage Request
	rules      bool        // some list has ad-block rules
	hosts      bool        // some list has rules about hosts alone
	params     bool        // some list has rules about query parameters
	firstParty bool        // requests from an unknown page count as first party
	deep       bool        // addresses inside the address are looked up, too
	now        func() time.Time
	scratch    sync.Pool // of *scratch
}

// A source is a list to look up.
type source struct {
	*list.File
	// late means that every entry depends on the request. The list is then looked up only
	// once, when the request is known.
	late bool
	// again means that the request can add matches, or decide uncertain ones.
	again bool
}

// scratch is the memory of a lookup, which later lookups reuse.
type scratch struct {
	query   list.Query
	found   []list.Match
	request *adblock.Request // nil if no list has rules
	wrapped wrapped.Finder
}

// mostEvidence is the number of entries that a finding quotes.
const mostEvidence = 4

// RemoveParam is the category of a request whose query has parameters that an ad-block list
// removes ($removeparam). The finding's Modifier has their names as in the URL.
const RemoveParam = "removeparam"

// Build implements [build.Setting].
func (c *Config) Build(p build.Parts) (filter.Check, error) {
	cfg := *c
	cfg.Now, cfg.Missing = p.Now, p.Missing
	return New(cfg, p.Lists)
}

// New returns a check of those lists that cfg names.
func New(cfg Config, lists map[string]*list.File) (*Check, error) {
	c := &Check{now: cfg.Now, undecided: map[string]bool{}, deep: cfg.Deep}
	if cfg.Now == nil {
		c.now = time.Now
	}
	switch cfg.UnknownPage {
	case "", "third-party":
	case "first-party":
		c.firstParty = true
	default:
		return nil, setting.At("unknown-page", fmt.Errorf("%q is neither third-party nor first-party", cfg.UnknownPage))
	}
	var names []string
	var files []*list.File
	missing := map[string]string{} // the list of each category that is not there yet
	for i, name := range cfg.Lists {
		f, ok := lists[name]
		if !ok {
			return nil, setting.At(fmt.Sprintf("lists[%d]", i), fmt.Errorf("%q is not a list; name one of those under lists%s", name, setting.DidYouMean(name, maps.Keys(lists))))
		}
		if slices.Contains(cfg.Lists[:i], name) {
			return nil, setting.At(fmt.Sprintf("lists[%d]", i), fmt.Errorf("%q appears twice", name))
		}
		if f == nil {
			return nil, setting.At(fmt.Sprintf("lists[%d]", i), errors.New("the list is not open"))
		}
		f.Prepare()
		files = append(files, f)
		c.rules = c.rules || f.Rules().Requests()
		c.hosts = c.hosts || f.Rules().Hosts()
		c.params = c.params || f.Rules().Params()
		names = append(names, f.Categories()...)
		if cfg.Missing != nil && cfg.Missing(name) {
			for _, category := range f.Categories() {
				missing[category] = name
			}
		}
	}
	c.sources(files)
	c.bad = list.NewBadFilters(files)
	c.pages = list.NewPages(files)
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
		c.categories = append(c.categories, filter.Category{Name: n, Missing: missing[n]})
	}
	return c, nil
}

// beyondHosts reports whether f can match more when the path is known.
func beyondHosts(f *list.File) bool { return f.HasURLs() || f.HasExpressions() || f.Rules().Requests() }

// sources determines when to look up each list.
func (c *Check) sources(files []*list.File) {
	beyond := map[string]bool{} // categories that may be found once the path is known
	for _, f := range files {
		for _, name := range f.Categories() {
			beyond[name] = beyond[name] || beyondHosts(f)
			c.undecided[name] = c.undecided[name] || f.Rules().Exceptions()
		}
	}
	for _, f := range files {
		l := source{File: f, late: true, again: beyondHosts(f)}
		for _, name := range f.Categories() {
			l.late = l.late && c.undecided[name]
			l.again = l.again || c.undecided[name] || beyond[name] && f.HasExceptions()
		}
		c.lists = append(c.lists, l)
		c.urls = c.urls || l.again
	}
}

// Name returns "category".
func (c *Check) Name() string { return "category" }

// Cost implements [filter.Check].
func (*Check) Cost() filter.Cost { return filter.Cheap }

// Categories lists the categories of all lists.
func (c *Check) Categories() []filter.Category { return slices.Clone(c.categories) }

// Wants returns true at Name, at Request if some list has URLs or the check is deep, and for the
// head of a redirect if it is deep. No rule waits for a redirect: the client asks for its target
// anyway.
func (c *Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	switch s {
	case filter.Name:
		return len(c.lists) > 0 && t.Host != ""
	case filter.Request:
		return (c.urls || c.deep && len(c.lists) > 0) && t.Host != ""
	case filter.Response:
		return c.deep && len(c.lists) > 0 && redirects(t.Response)
	case filter.RequestBody:
		return c.deep && len(c.lists) > 0 && t.Host != "" && isSmallForm(t.Request)
	}
	return false
}

// Find reports the categories of the host at Name, and at Request those of the URL alone. Name
// must come first: Request does not look up the host again.
//
// Lists with the same category work as one: an exception in one of them removes the host or
// request from the category for all (see [list.ExceptionFor]). Find reports lifted matches as
// findings of the check [Exception], which rules cannot name, unless t.Terse.
func (c *Check) Find(_ context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	if !c.Wants(t, s) {
		return dst, nil
	}
	w := c.scratch.Get().(*scratch)
	defer c.scratch.Put(w)
	switch s {
	case filter.Response:
		w.wrapped.Redirect(t.Host, t.Response.Get("Location"))
		return c.lookUpWrapped(w, t, dst)
	case filter.RequestBody:
		if !w.searchForm(t) {
			return dst, nil
		}
		return c.lookUpWrapped(w, t, dst)
	}
	dst, err := c.findAsked(w, t, s == filter.Request, dst)
	if err != nil || !c.deep {
		return dst, err
	}
	if s == filter.Name {
		w.wrapped.Host(t.Host)
	} else {
		w.searchRequest(t)
	}
	return c.lookUpWrapped(w, t, dst)
}

// findAsked looks up what the client asks for.
func (c *Check) findAsked(w *scratch, t *filter.Transaction, url bool, dst []filter.Finding) ([]filter.Finding, error) {
	if url && !c.urls {
		return dst, nil
	}
	if url {
		w.query.SetURL(t.Host, target(t))
		if c.rules {
			c.setRequest(w.request, t)
		}
	} else {
		w.query.SetHost(t.Host)
		switch {
		case c.rules && t.Proto == filter.DNS:
			w.setName(t, t.Host)
		case c.hosts && t.Last == filter.Name:
			w.request.SetHost(t.Host)
		}
	}
	var err error
	if dst, err = c.lookUp(w, t, url, dst); err == nil && url && c.params {
		dst, err = c.removeParams(w, t, dst)
	}
	clear(w.found)
	w.query.Forget()
	if err != nil {
		err = fmt.Errorf("looking up %q: %w", t.Host, err)
	}
	return dst, err
}

// lookUp looks up a name or request in all lists, and reports the matches that no exception
// lifts. It continues after a list that cannot be read, and returns the error.
func (c *Check) lookUp(w *scratch, t *filter.Transaction, url bool, dst []filter.Finding) (_ []filter.Finding, failed error) {
	from := len(dst)
	rules := c.rules && (url || t.Proto == filter.DNS) || c.hosts && t.Last == filter.Name
	last := url || t.Last == filter.Name // nothing more will be known
	w.found = w.found[:0]
	for i := range c.lists {
		l := &c.lists[i]
		if url && !l.again || !last && l.late {
			continue
		}
		if err := w.ask(l.File, rules, last); err != nil {
			failed = err
		}
	}
	if len(w.found) == 0 {
		return dst, failed
	}
	if rules {
		failed = cmp.Or(c.except(w), failed)
	}
	if t.Asked != "" {
		failed = cmp.Or(c.exceptAsked(w, t), failed)
	}
	if c.bad != nil {
		w.found = slices.DeleteFunc(w.found, c.bad.Has)
	}
	if t.Proto == filter.DNS {
		list.LongestFirst(w.found)
	}
	for i := range w.found {
		m := &w.found[i]
		if m.Exception || !m.URL && (url || !last) && url != c.undecided[m.Category] {
			continue
		}
		if x := list.ExceptionFor(w.found, m); x != nil {
			if !t.Terse {
				dst = addLifted(dst, from, m, x)
			}
			continue
		}
		if ledToItself(w.found[:i+1], t.Host) || !m.List.Applies(*m, c.now()) || url && reported(t.Findings, m.Category) {
			continue
		}
		dst = add(dst, from, m, t.Terse)
	}
	return dst, failed
}

// except adds matching exceptions among the ad-block rules of lists that share a category with
// some match.
func (c *Check) except(w *scratch) (failed error) {
	n := len(w.found)
	for i := range c.lists {
		l := &c.lists[i]
		if !l.Rules().Exceptions() || !slices.ContainsFunc(w.found[:n], func(m list.Match) bool { return l.HasCategory(m.Category) }) {
			continue
		}
		var err error
		if w.found, err = l.Rules().Except(w.request, w.found); err != nil {
			failed = err
		}
	}
	return failed
}

// exceptAsked adds the exceptions for the queried name, whose answer led to this one: an
// exception for a name also covers the names and addresses that it leads to.
func (c *Check) exceptAsked(w *scratch, t *filter.Transaction) (failed error) {
	n := len(w.found)
	w.query.SetHost(t.Asked)
	for i := range c.lists {
		var err error
		if w.found, err = c.lists[i].Lookup(&w.query, w.found); err != nil {
			failed = err
		}
	}
	kept := w.found[:n]
	for _, m := range w.found[n:] {
		if m.Exception {
			kept = append(kept, m)
		}
	}
	w.found = kept
	if c.rules {
		w.setName(t, t.Asked)
		failed = cmp.Or(c.except(w), failed)
	}
	return failed
}

// setName makes w.request a request for a name alone, as in DNS.
func (w *scratch) setName(t *filter.Transaction, name string) {
	w.request.SetName(name, t.Type, adblock.Client{Addr: t.Client.Addr, Name: t.Client.User, Groups: t.Client.Groups})
}

// ledToItself reports whether the last match in found rewrites the answer, while another rule
// of its category, with a pattern at least as long, rewrites the name to itself, which lifts
// it.
func ledToItself(found []list.Match, host string) bool {
	m := &found[len(found)-1]
	if !m.Rewrites() {
		return false
	}
	for i := range found {
		x := &found[i]
		if !x.Exception && x.Rewrites() && x.Category == m.Category && x.Rewrite() == alias+host && list.ExceptionFor(found, x) == nil {
			return true
		}
	}
	return false
}

// removeParams reports the parameters to remove from a query, for a request that reads and
// does not write.
func (c *Check) removeParams(w *scratch, t *filter.Transaction, dst []filter.Finding) (_ []filter.Finding, err error) {
	if t.Request == nil || t.Request.Method != "GET" && t.Request.Method != "HEAD" {
		return dst, nil
	}
	clear(w.found)
	w.found = w.found[:0]
	for _, ask := range [...]func(*list.Rules, *adblock.Request, []list.Match) ([]list.Match, error){(*list.Rules).MatchParams, (*list.Rules).ExceptParams} {
		for i := range c.lists {
			if w.found, err = ask(c.lists[i].Rules(), w.request, w.found); err != nil {
				return dst, err
			}
		}
		if len(w.found) == 0 {
			return dst, nil
		}
	}
	names, first := list.RemoveParams(w.request, slices.DeleteFunc(w.found, c.bad.Has))
	if len(names) == 0 {
		return dst, nil
	}
	return append(dst, filter.Finding{Check: "category", Category: RemoveParam, Evidence: first.List.Evidence(*first), Modifier: "removeparam=" + strings.Join(names, "&")}), nil
}

// ask looks up the query in f. Ad-block rules apply to requests and DNS names. Expressions are
// tried when nothing more about the transaction will be known.
func (w *scratch) ask(f *list.File, rules, last bool) (err error) {
	if w.found, err = f.Lookup(&w.query, w.found); err != nil {
		return err
	}
	if rules {
		if w.found, err = f.Rules().Match(w.request, w.found); err != nil {
			return err
		}
	}
	if last {
		w.found, err = f.Search(&w.query, w.found)
	}
	return err
}

// Exception is the check name of findings about matches that an exception lifts. The finding
// has their category; the evidence names the match and the exception.
const Exception = "exception"

// addLifted adds to dst[from:] a finding that x lifts m.
func addLifted(dst []filter.Finding, from int, m, x *list.Match) []filter.Finding {
	evidence := m.List.Evidence(*m) + ", lifted by " + x.List.Evidence(*x)
	for i := from; i < len(dst); i++ {
		if dst[i].Check == Exception && dst[i].Category == m.Category {
			dst[i].Evidence = also(dst[i].Evidence, evidence)
			return dst
		}
	}
	return append(dst, filter.Finding{Check: Exception, Category: m.Category, Evidence: evidence})
}

// also joins evidence, up to mostEvidence parts.
func also(a, b string) string {
	if strings.Count(a, "; ") >= mostEvidence-1 {
		return a
	}
	return a + "; " + b
}

// add adds m to the finding of its category in dst[from:], or a new one.
func add(dst []filter.Finding, from int, m *list.Match, terse bool) []filter.Finding {
	for i := from; i < len(dst); i++ {
		if dst[i].Check == "category" && dst[i].Category == m.Category {
			if !terse {
				dst[i].Evidence = also(dst[i].Evidence, m.List.Evidence(*m))
			}
			dst[i].Modifier = join(dst[i].Modifier, modifier(m))
			return dst
		}
	}
	found := filter.Finding{Check: "category", Category: m.Category, Modifier: modifier(m)}
	if !terse {
		found.Evidence = m.List.Evidence(*m)
	}
	return append(dst, found)
}

// modifier returns the effect of a matching rule besides blocking.
func modifier(m *list.Match) string {
	if to := m.Rewrite(); to != "" {
		return rewrite + to
	}
	if name := m.Redirect(); name != "" {
		return "redirect=" + name
	}
	return ""
}

// rewrite begins a modifier that gives the answer to a name.
const rewrite = "dnsrewrite="

// alias begins a rewrite that answers with another name.
const alias = "NOERROR;CNAME;"

// join adds the modifier b to a. Of other kinds the first is kept, but answers to a name
// accumulate.
func join(a, b string) string {
	if strings.HasPrefix(b, rewrite) {
		if strings.HasPrefix(a, rewrite) {
			return a + "|" + b[len(rewrite):]
		}
		return b
	}
	return cmp.Or(a, b)
}

// reported reports whether this check has already reported category.
func reported(found []filter.Finding, category string) bool {
	for i := range found {
		if found[i].Check == "category" && found[i].Category == category && !found[i].Wrapped {
			return true
		}
	}
	return false
}

// target returns path and query of the request.
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
