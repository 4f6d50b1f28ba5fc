package lists

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"shuultuur/admin/settings"
	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/list/files"
	"shuultuur/list/source"
	"shuultuur/text"
)

// This is the page that adds a list by its address or from the catalogue. It is fetched first: the page
// shows what it is and what it would have done yesterday, and only what was shown is saved.

const (
	lookTime  = 3 * time.Minute // to fetch a list, to read it and to judge the last day by it
	firstShow = 12              // first lines that are shown
	badShown  = 20              // refused lines that are shown
)

// A NewList is a list to add, as the form has it.
type NewList struct {
	URL      string `json:"url,omitempty"`
	Source   string `json:"source,omitempty"` // its name in the catalogue
	Name     string `json:"name"`
	Category string `json:"category"`
	Policy   string `json:"policy,omitempty"` // "" for none
	Action   string `json:"action"`           // block, warn or monitor
}

// A FoundList is what was fetched of a list.
type FoundList struct {
	Format  string         `json:"format"`
	Bytes   int64          `json:"bytes"`
	Lines   int            `json:"lines"`
	Entries int            `json:"entries"`
	Refused int            `json:"refused"` // lines
	Twice   int            `json:"twice"`
	First   []string       `json:"first"` // lines
	Odd     []list.Problem `json:"odd"`   // the first refused lines
	Digest  string         `json:"-"`
}

// addData is what the page shows.
type addData struct {
	NewList
	Wrong      map[string]string // mistakes, by field
	Known      *source.CatalogueEntry
	Found      *FoundList
	Effect     *web.Effect
	Note       string
	Checked    string
	Policies   []string
	Categories []string
	Actions    []web.Choice
	Coming     *FetchProgress // of the list that is looked at now
}

// actions are what a rule may do with a new list.
var actions = []web.Choice{{Value: "block", Text: "block"}, {Value: "warn", Text: "warn"}, {Value: "monitor", Text: text.Mark("only count")}}

// fieldError is a mistake in a field of the form.
type fieldError struct{ field, text string }

func (e *fieldError) Error() string { return e.text }

func (p *Pages) addRoutes() []web.Route {
	page := p.Site.Page("list-add.html")
	return []web.Route{
		{Method: "GET", Path: "/lists/new", Role: web.Operator,
			Does: "the form that adds a list by its address", Query: []web.Field{web.Optional("url", "address of the list"), web.Optional("source", "its name in the catalogue"), web.Optional("coming", "yes: only how much has arrived")}, Gives: "text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				d := &addData{NewList: NewList{URL: q.Get("url"), Source: q.Get("source")}}
				p.showAdd(w, page, http.StatusOK, d)
			}},
		{Method: "POST", Path: "/lists/new", Role: web.Operator,
			Does: "fetch a list that the settings do not have, say what it is and what it would have done in the last day, and add it", Gives: web.PageOrJSON, Form: []web.Field{web.Required("what", "look | add"), web.Optional("url", "address of the list"), web.Optional("source", "its name in the catalogue"), web.Optional("name", "name of the list"), web.Optional("category", "what its sites are"), web.Optional("policy", "whose rules act on it; none without it"), web.Optional("action", "block | warn | monitor"), web.OnTrial},
			Effect:  web.Judged,
			Handler: func(w http.ResponseWriter, r *http.Request) { p.add(w, r, page) }},
	}
}

func (p *Pages) add(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f := r.PostForm
	d := &addData{NewList: NewList{URL: strings.TrimSpace(f.Get("url")), Source: f.Get("source"), Name: strings.TrimSpace(f.Get("name")), Category: strings.TrimSpace(f.Get("category")), Policy: f.Get("policy"), Action: cmp.Or(f.Get("action"), "block")}}
	ctx, cancel := context.WithTimeout(r.Context(), lookTime)
	defer cancel()
	saved, err := p.addOrShow(ctx, r.WithContext(ctx), d, !f.Has("policy"))
	var wrong *fieldError
	switch {
	case errors.As(err, &wrong):
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		wrong = &fieldError{"url", fmt.Sprintf("the list did not arrive within %v: try it again, or at another time", lookTime)}
	case err != nil:
		wrong = &fieldError{"url", setting.WithoutCredentials(err.Error())}
	}
	if saved && wrong == nil {
		if web.IsPage(r) {
			http.Redirect(w, r, "/lists/"+d.Name+"?added=yes", http.StatusSeeOther)
			return
		}
		p.writeAdded(w, d, true)
		return
	}
	web.ChangedNothing(w)
	status := http.StatusOK
	if wrong != nil {
		status, d.Wrong = http.StatusUnprocessableEntity, map[string]string{wrong.field: wrong.text}
	}
	switch {
	case web.IsPage(r):
		p.showAdd(w, page, status, d)
	case wrong != nil:
		http.Error(w, wrong.text, http.StatusBadRequest)
	default:
		p.writeAdded(w, d, false)
	}
}

func (p *Pages) writeAdded(w http.ResponseWriter, d *addData, saved bool) {
	web.WriteJSON(w, http.StatusOK, struct {
		NewList
		Found  *FoundList  `json:"found"`
		Effect *web.Effect `json:"effect,omitempty"`
		Note   string      `json:"note,omitempty"`
		Saved  bool        `json:"saved"`
	}{d.NewList, d.Found, d.Effect, d.Note, saved})
}

// addOrShow fetches the list of d and judges the last day by it. It saves what somebody has seen, or
// what a program asks for. fresh says that the form has not been filled in yet.
func (p *Pages) addOrShow(ctx context.Context, r *http.Request, d *addData, fresh bool) (saved bool, err error) {
	c, client := p.Lists.In()
	if err := p.complete(c, d, fresh); err != nil {
		return false, err
	}
	if !p.Lists.looking.TryLock() {
		return false, errors.New("another list is being looked at; try again in a moment")
	}
	defer p.Lists.looking.Unlock()
	l := d.settings()
	p.Lists.arriving.Store(&FetchProgress{})
	defer p.Lists.arriving.Store(nil)
	found, err := c.LookAt(ctx, client, d.Name, l, func(done, total int64) { p.Lists.arriving.Store(&FetchProgress{done, total}) })
	if err != nil {
		return false, err
	}
	if d.Found, err = describe(found); err != nil {
		return false, err
	}
	draft, err := p.draftNew(r, &d.NewList, d.line())
	if err != nil {
		return false, err
	}
	d.Checked = d.tag()
	seen := r.PostForm.Get("checked") == d.Checked
	dry := web.DryRun(r.Form) || r.PostForm.Get("what") != "add"
	if !seen || dry {
		if d.Effect, err = p.Site.Foretell(ctx, web.Trial{Text: draft.Text, List: d.Name, File: found.File}); err != nil {
			d.Note, err = err.Error(), nil
		}
		unchanged := d.Effect != nil && d.Effect.Changed == 0
		if dry || web.IsPage(r) && !unchanged {
			return false, nil
		}
	}
	if err := c.Take(ctx, client, d.Name, l); err != nil {
		return false, err
	}
	if err := draft.Save(); err != nil {
		return false, err
	}
	return true, nil
}

// complete checks the fields of d, and fills in those that are empty.
func (p *Pages) complete(c *collection.Collection, d *addData, fresh bool) error {
	policies, err := p.policies()
	if err != nil {
		return err
	}
	switch {
	case d.Source != "":
		i := slices.IndexFunc(offered(), func(k source.CatalogueEntry) bool { return k.Name == d.Source })
		if i < 0 {
			return &fieldError{"url", fmt.Sprintf("the catalogue has no list %q", d.Source)}
		}
		k := offered()[i]
		d.Known, d.URL = &k, ""
		d.Name, d.Category = cmp.Or(d.Name, freeName(c, k.Name)), cmp.Or(d.Category, k.Category)
	case d.URL == "":
		return &fieldError{"url", text.Mark("Write the address of the list: https://…")}
	default:
		if !strings.Contains(d.URL, "://") {
			d.URL = "https://" + d.URL
		}
		if _, _, _, err := (source.Config{URL: []string{d.URL}}).Resolve(list.Config{}); err != nil {
			return &fieldError{"url", setting.WithoutCredentials(err.Error())}
		}
		d.Name = cmp.Or(d.Name, freeName(c, nameOf(d.URL)))
		d.Category = cmp.Or(d.Category, d.Name)
	}
	if fresh {
		d.Policy = forMost(policies)
	}
	names, _ := p.choices()
	return d.check(c, names)
}

// check checks what both a fetched list and one's own have.
func (d *NewList) check(c *collection.Collection, policies []string) error {
	switch {
	case !isPlain(d.Name):
		return &fieldError{"name", text.Mark("A name has letters, digits, - and _, and no spaces.")}
	case c.Has(d.Name):
		return &fieldError{"name", fmt.Sprintf("there is a list %q already: give this one another name", d.Name)}
	case len(d.Category) > 60 || strings.ContainsAny(d.Category, "\"\\,/") || strings.ContainsFunc(d.Category, unicode.IsControl):
		return &fieldError{"category", text.Mark("Name in a word or two what these sites are, such as games.")}
	case !slices.ContainsFunc(actions, func(a web.Choice) bool { return a.Value == d.Action }):
		return &fieldError{"action", fmt.Sprintf("action=%q is none of block, warn and monitor", d.Action)}
	case d.Policy != "" && !slices.Contains(policies, d.Policy):
		return &fieldError{"policy", fmt.Sprintf("there is no policy %q", d.Policy)}
	}
	return nil
}

// settings returns the list as the settings will have it.
func (d *NewList) settings() collection.List {
	l := collection.List{Config: list.Config{Category: d.Category}}
	if l.Fetch.Source = d.Source; d.Source == "" {
		l.Fetch.URL = []string{d.URL}
	}
	return l
}

// line returns the list as a line of the settings.
func (d *NewList) line() setting.Snippet {
	what := "url: " + quoted(d.URL)
	if d.Source != "" {
		what = "source: " + d.Source
	}
	return setting.Snippet(fmt.Sprintf("{%s, category: %s}", what, quoted(d.Category)))
}

// draftNew prepares the settings with a list, the check that looks into it, and the rule that acts on
// it.
func (p *Pages) draftNew(r *http.Request, d *NewList, line setting.Snippet) (*settings.Draft, error) {
	changes := []setting.Change{{Path: []any{"lists", d.Name}, Value: line}, checkChange(append(slices.Clone(p.Lists.checked()), d.Name))}
	policies, err := p.policies()
	if err != nil {
		return nil, err
	}
	for i, of := range policies {
		if of.Name == d.Policy && d.Policy != "" {
			changes = append(changes, ruleChanges(of, i, d.Category, d.Action)...)
		}
	}
	return p.Settings.Draft(r, "list "+d.Name, changes)
}

// quoted writes a text as a value of YAML.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// tag identifies what the page has shown: the form, and the content that it is about.
func (d *addData) tag() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %s", []string{d.URL, d.Source, d.Name, d.Category, d.Policy, d.Action}, d.Found.Digest))
	return hex.EncodeToString(sum[:12])
}

// describe says what was fetched.
func describe(c *collection.Candidate) (*FoundList, error) {
	f := &FoundList{Bytes: c.Bytes, Lines: c.Report.Lines, Entries: entriesOf(&c.Report), Refused: c.Report.Bad, Twice: c.Report.Duplicates, Odd: []list.Problem{}, First: []string{}}
	var formats []string
	for _, s := range c.Report.Sources {
		if !slices.Contains(formats, s.Format) {
			formats = append(formats, s.Format)
		}
	}
	f.Format = strings.Join(formats, ", ")
	for _, o := range c.Report.Problems {
		if len(f.Odd) < badShown && !o.Kept {
			o.File = path.Base(o.File)
			f.Odd = append(f.Odd, o)
		}
	}
	return f, f.read(c.File)
}

// read reads the digest and the first lines of a file. Those of an archive are not shown.
func (f *FoundList) read(file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return err
	}
	f.Digest = hex.EncodeToString(sum.Sum(nil))
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r, err := files.Unpack(in)
	if err != nil {
		return nil //nolint:nilerr // it is an archive of another kind, which was read above
	}
	br := bufio.NewReaderSize(io.LimitReader(r, 64<<10), 64<<10)
	if head, _ := br.Peek(512); files.IsTar(head) || strings.HasPrefix(string(head), "PK\x03\x04") {
		return nil
	}
	for s := bufio.NewScanner(br); len(f.First) < firstShow && s.Scan(); {
		line := strings.ToValidUTF8(s.Text(), "�")
		if r := []rune(line); len(r) > 120 {
			line = string(r[:120]) + "…"
		}
		f.First = append(f.First, line)
	}
	return nil
}

// showAdd shows the page.
func (p *Pages) showAdd(w http.ResponseWriter, page web.PageTemplate, status int, d *addData) {
	d.Policies, d.Categories = p.choices()
	d.Actions, d.Coming = actions, p.Lists.arriving.Load()
	web.WritePage(w, page, status, d)
}

// choices returns the names of the policies and the categories to choose from.
func (p *Pages) choices() (policies, categories []string) {
	all, _ := p.policies() // without them, none can be chosen
	for _, of := range all {
		policies = append(policies, of.Name)
	}
	known := map[string]bool{}
	for _, k := range offered() {
		known[k.Category] = !strings.HasPrefix(k.Name, "ut1-") || known[k.Category]
	}
	p.Lists.WithCategories(known)
	for c, use := range known {
		if use {
			categories = append(categories, c)
		}
	}
	slices.Sort(categories)
	return policies, categories
}

// offered returns the lists of the catalogue that a page offers: those that are about one thing.
func offered() []source.CatalogueEntry {
	return slices.DeleteFunc(source.Catalogue(), func(k source.CatalogueEntry) bool { return k.Category == "" || k.Format == source.Rules })
}

// nameOf makes a name for a list from its address.
func nameOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "list"
	}
	name := strings.TrimSuffix(path.Base(u.Path), path.Ext(u.Path))
	switch strings.ToLower(name) {
	case "", ".", "/", "hosts", "host", "list", "lists", "filter", "filters", "domains", "blocklist", "raw", "index", "download", "main", "master":
		name = strings.TrimPrefix(u.Hostname(), "www.") + "-" + strings.Trim(name, "./")
	}
	name = strings.Map(func(r rune) rune {
		if source.PlainName(string(r)) {
			return r
		}
		return '-'
	}, name)
	name = strings.Trim(name, "-_")
	return cmp.Or(name[:min(len(name), 60)], "list")
}

// freeName returns name, or name with a number if there is such a list.
func freeName(c *collection.Collection, name string) string {
	if name == "new" {
		name = "list"
	}
	free := name
	for n := 2; c.Has(free); n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}

// coming is how much of a list that is looked at has arrived.
type coming = atomic.Pointer[FetchProgress]
