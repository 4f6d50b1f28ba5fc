package lists

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/list/source"
	"shuultuur/text"
)

// This is the page of one list: its source, how fresh it is, what it has blocked, and its odd
// lines.

const (
	oddLines = 200              // odd lines that are shown
	OddTime  = 30 * time.Second // time for reading a list for them
)

// A Freshness describes how fresh a list is.
type Freshness struct {
	From    string    `json:"from,omitempty"` // catalogue name or address of a list that is fetched, else its file
	Web     bool      `json:"web,omitempty"`  // it is fetched
	Fetched time.Time `json:"fetched,omitzero"`
	Checked time.Time `json:"checked,omitzero"` // when its server was last asked
	Problem string    `json:"problem,omitempty"`
	// Failures is how often in a row it could not be renewed.
	Failures int `json:"failures,omitempty"`
}

// freshnessOf returns the state of a list, with a problem if it cannot be read.
func freshnessOf(c *collection.Collection, name string) Freshness {
	s, err := c.StatusOf(name)
	if err != nil {
		return Freshness{Problem: err.Error()}
	}
	return standingOf(s)
}

func standingOf(s *collection.Status) Freshness {
	// Viewers see it, too.
	from, problem := setting.WithoutCredentials(s.URL), setting.WithoutCredentials(cmp.Or(s.State.Problem, s.Fault))
	if !s.Fetched {
		problem = setting.WithoutQuotes(problem)
	}
	all := Freshness{From: cmp.Or(s.Known.Name, from, s.Path), Web: s.Fetched, Checked: s.State.Checked, Problem: problem, Failures: s.State.Failures}
	for _, v := range s.State.Versions {
		if v.Current {
			all.Fetched = v.Fetched
		}
	}
	return all
}

type listPage struct {
	lists *Lists
	p     *Pages
	page  web.PageTemplate
}

// A ListState is the state of one list.
type ListState struct {
	List
	Lines    int              `json:"lines"` // of its files
	Twice    int              `json:"twice"` // duplicate entries
	Path     string           `json:"path"`
	URL      string           `json:"url,omitempty"`
	Licence  string           `json:"licence,omitempty"`
	Home     string           `json:"home,omitempty"`
	Next     time.Time        `json:"next,omitzero"` // when its server is asked again
	Versions []source.Version `json:"versions"`
	Blocked  *int             `json:"blocked,omitempty"` // requests of the last day; nil: not known
	Record   string           `json:"-"`                 // the link to these events
	Refusals []list.Problem   `json:"refusals"`
	Odd      *list.Lint       `json:"odd,omitempty"`
	OddLines []list.Problem   `json:"-"`
	OddAll   int              `json:"-"`
	CanBack  bool             `json:"-"`
	CanEdit  bool             `json:"-"` // as a text
	MayEdit  bool             `json:"-"` // single entries
	Found    *EntryList       `json:"found,omitempty"`
	Done     string           `json:"-"`
	Error    string           `json:"error,omitempty"`
}

func (o *listPage) show(w http.ResponseWriter, r *http.Request) {
	o.write(w, r, http.StatusOK, "", nil)
}

// write shows the list, with the result of an action or why it failed.
func (o *listPage) write(w http.ResponseWriter, r *http.Request, status int, done string, failed error) {
	name := r.PathValue("name")
	c, _ := o.lists.In()
	s, err := c.StatusOf(name)
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	d := &ListState{Done: done, Path: s.Path, URL: s.URL, Licence: s.Known.Licence, Home: s.Known.Home, Lines: s.Report.Lines, Twice: s.Report.Duplicates,
		Versions: append([]source.Version{}, s.State.Versions...), Refusals: append([]list.Problem{}, s.Report.Problems...)}
	for _, l := range o.lists.All() {
		if l.Name == name {
			d.List = l
		}
	}
	seen := false // the version in use
	for _, v := range d.Versions {
		d.CanBack = d.CanBack || seen && !v.Left
		seen = seen || v.Current
	}
	if s.Fetched {
		d.Next = s.State.Checked.Add(s.Every)
	}
	if file, own := c.OwnFile(name); own && o.p.Settings != nil {
		d.CanEdit = web.UserOf(r).Role >= account.Operator && o.p.mayEdit(r, file)
	}
	d.MayEdit = web.UserOf(r).Role >= account.Operator
	o.count(r.Context(), d)
	if err := o.entries(r, c, d); err != nil && failed == nil {
		failed = err
	}
	if failed == nil && r.URL.Query().Get("odd") != "" {
		status, failed = o.oddLines(r.Context(), c, d)
	}
	d.limit(web.UserOf(r).Role, s.Fetched)
	if failed != nil {
		d.Error, status = failed.Error(), max(status, web.StatusOf(failed))
	}
	switch {
	case web.IsPage(r):
		web.WritePage(w, o.page, status, d)
	default:
		web.WriteJSON(w, status, d)
	}
}

// limit removes lines of the list's file, which the gateway may not have fetched: below an owner,
// people see which lines are odd, and below an operator how many.
func (d *ListState) limit(role account.Role, fetched bool) {
	if role < account.Operator {
		if d.Odd != nil {
			d.Odd = &list.Lint{Report: list.Report{Bad: d.Odd.Bad, Duplicates: d.Odd.Duplicates}, Shadows: d.Odd.Shadows, Voids: d.Odd.Voids}
		}
		d.Refusals, d.OddLines = []list.Problem{}, nil
	}
	if role < account.Owner && !fetched {
		all := [][]list.Problem{d.Refusals, d.OddLines}
		if d.Odd != nil {
			all = append(all, d.Odd.Problems, d.Odd.Twice, d.Odd.Shadowed, d.Odd.Void)
		}
		for _, some := range all {
			for i := range some {
				some[i].Reason = setting.WithoutQuotes(some[i].Reason)
			}
		}
	}
}

// count returns how many requests of the last day were blocked by an entry of the
// list.
func (o *listPage) count(ctx context.Context, d *ListState) {
	if o.p.Events == nil || d.Path == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, web.MaxAsk)
	defer cancel()
	written := " in " + d.Path // as [list.File.Evidence] has it
	f := event.Filter{Since: time.Now().Add(-24 * time.Hour)}
	if f.And(event.Action, false, filter.Block.String(), filter.Warn.String()) != nil || f.And(event.Text, false, written) != nil {
		return
	}
	sums, err := o.p.Events.Count(ctx, event.Question{Filter: f})
	if err != nil { // the record may not be queried, or not in time
		return
	}
	n := int(sums[0][0].Events)
	d.Blocked, d.Record = &n, "/events?"+url.Values{"filter": {fmt.Sprintf("action:block,warn %q", written)}, "last": {"1d"}}.Encode()
}

// oddLines reads the list and returns its odd lines.
func (o *listPage) oddLines(ctx context.Context, c *collection.Collection, d *ListState) (status int, err error) {
	if !o.lists.reading.TryLock() {
		return http.StatusServiceUnavailable, fmt.Errorf("another list is being read; try again in a moment")
	}
	defer o.lists.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, OddTime)
	defer cancel()
	lint, err := c.Lint(ctx, d.Name)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("the list is too long to be read in %v; ask with shuultuur list lint %s", OddTime, d.Name)
		}
		return http.StatusServiceUnavailable, err
	}
	all := lint.All()
	d.Odd, d.OddLines, d.OddAll = lint, all[:min(len(all), oddLines)], lint.Bad+lint.Duplicates+lint.Shadows+lint.Voids
	return http.StatusOK, nil
}

// act fetches a list, or returns to its previous version.
func (o *listPage) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	name := r.PathValue("name")
	c, client := o.lists.In()
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	what := r.PostForm.Get("what")
	if shown, err := o.showEffect(w, r, c, client, name, what); err != nil {
		o.write(w, r, http.StatusOK, "", err)
		return
	} else if shown {
		return
	}
	var done string
	var err error
	switch what {
	case "fetch":
		done = text.Mark("There is nothing newer.")
		var got source.Change
		if got, err = c.Update(r.Context(), client, name); got.Updated {
			done = text.Mark("A newer version is in use.")
		}
		if err == nil && got.Updated && !o.lists.Use(r.Context(), "fetched: "+name) {
			err = fmt.Errorf("the list was fetched, but cannot be used; the log says why")
		}
	case "back":
		done = text.Mark("The version before is in use again.")
		if _, err = c.Rollback(name); err == nil && !o.lists.Use(r.Context(), "gone back: "+name) {
			err = fmt.Errorf("the version before cannot be used; the log says why")
		}
	}
	o.write(w, r, http.StatusOK, done, err)
}

// showEffect shows the effect of another version of a list, see [web.Site.ShowEffect].
func (o *listPage) showEffect(w http.ResponseWriter, r *http.Request, c *collection.Collection, client *http.Client, name, what string) (shown bool, err error) {
	f := web.PendingChange{Back: "/lists/" + name, Trial: web.Trial{List: name}}
	switch what {
	case "fetch":
		f.What = text.Mark("A newer version is in use.")
		if !web.MustForetell(r) {
			return false, nil
		}
		newer, err := c.Newer(r.Context(), client, name, func(file string) (err error) {
			f.File = file
			shown, err = o.p.Site.ShowEffect(w, r, f)
			return err
		})
		if err == nil && !newer && web.DryRun(r.Form) {
			f.Told = &web.Consequence{Note: text.Mark("There is nothing newer.")}
			return o.p.Site.ShowEffect(w, r, f)
		}
		return shown, err
	case "back":
		f.What = text.Mark("The version before is in use again.")
		if f.File, err = c.OlderVersion(name); err != nil {
			return false, err
		}
		return o.p.Site.ShowEffect(w, r, f)
	}
	return false, &web.BadChange{Err: fmt.Errorf("what=%q is neither fetch nor back", what)}
}
