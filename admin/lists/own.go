package lists

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"shuultuur/admin/account"
	"shuultuur/admin/settings"
	"shuultuur/admin/web"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/list/source"
	"shuultuur/text"
)

// This is the page of a list of one's own as a text: one site a line. The file of the list has the text,
// and a folder of the data has those before it.

// mostText is how many bytes of a list the page edits. A longer one is edited in its file.
const mostText = 1 << 20

// ownFolder is where new lists are, below the folder of the settings.
const ownFolder = "lists"

var errNoText = errors.New("it is no text that a page could edit: change its file")

// newOwn stands in the address of the page for a list that is still to be made.
const newOwn = "new"

// ownData is what the page shows.
type ownData struct {
	NewList
	New        bool
	Text       string
	Tag        string // of the text that was read
	Checked    string
	Wrong      map[string]string // mistakes, by field
	Found      *FoundList
	Effect     *web.Effect
	Note       string
	Saved      bool
	Error      string
	Versions   []web.Version
	Policies   []string
	Categories []string
	Actions    []web.Choice
}

func (p *Pages) ownRoutes() []web.Route {
	page := p.Site.Page("list-own.html")
	return []web.Route{
		{Method: "GET", Path: "/lists/{name}/text", Role: web.Operator,
			Does: "a list of one's own as a text; new makes one", Query: []web.Field{web.Optional("version", "identifier")}, Gives: "text/plain text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) { p.showOwn(w, r, page) }},
		{Method: "POST", Path: "/lists/{name}/text", Role: web.Operator,
			Does: "replace the text of a list of one's own, or make one; lines of no use are named", Gives: web.PageOrJSON, Form: []web.Field{web.Required("text", "one site a line"), web.Optional("tag", "of the text that was read"), web.Optional("name", "name of the list"), web.Optional("category", "what its sites are"), web.Optional("policy", "whose rules act on it; none without it"), web.Optional("action", "block | warn | monitor | allow"), web.OnTrial},
			Effect:  web.Judged,
			Handler: func(w http.ResponseWriter, r *http.Request) { p.saveOwn(w, r, page) }},
	}
}

// ownText reads the text of a list of one's own.
func (p *Pages) ownText(r *http.Request, name string) (string, error) {
	c, _ := p.Lists.In()
	if !c.Has(name) {
		return "", collection.ErrNoList
	}
	file, ok := c.OwnFile(name)
	if !ok {
		return "", &web.BadChange{Err: errors.New("it is fetched, and would be overwritten: add a list of your own beside it")}
	}
	if !p.mayEdit(r, file) {
		return "", &web.Forbidden{Key: "lists." + name}
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", &web.BadChange{Err: errNoText}
	case info.Size() > mostText:
		return "", &web.BadChange{Err: fmt.Errorf("it has %d bytes, and a page edits up to %d: change single entries, or its file", info.Size(), mostText)}
	}
	b, err := os.ReadFile(file)
	if err == nil && (!utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0) {
		err = &web.BadChange{Err: errNoText}
	}
	return string(b), err
}

// mayEdit reports whether somebody may read and write the file of a list here: those in the folder of
// the settings that are not the gateway's own, and below an owner those in the folder for lists.
func (p *Pages) mayEdit(r *http.Request, file string) bool {
	s := p.Settings
	if s.Inside != nil && !s.Inside(file) || s.Own != nil && s.Own(file) {
		return false
	}
	rel, err := filepath.Rel(filepath.Join(filepath.Dir(s.File), ownFolder), file)
	return web.UserOf(r).Role >= account.Owner || err == nil && filepath.IsLocal(rel)
}

func (p *Pages) showOwn(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	d := &ownData{NewList: NewList{Name: r.PathValue("name"), Action: "block"}}
	if d.New = d.Name == newOwn; d.New {
		d.Name = ""
		if all, err := p.policies(); err == nil {
			d.Policy = forMost(all)
		}
		p.writeOwn(w, r, page, http.StatusOK, d)
		return
	}
	old, err := p.ownText(r, d.Name)
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	d.Text, d.Tag, d.Saved = old, web.Tag([]byte(old)), r.URL.Query().Has("saved")
	if id := r.URL.Query().Get("version"); id != "" {
		v, err := p.history(d.Name).One(id)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		d.Text = v.Text
	}
	if !web.IsPage(r) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = io.WriteString(w, d.Text) // it fails if the client has gone away
		return
	}
	p.writeOwn(w, r, page, http.StatusOK, d)
}

func (p *Pages) history(name string) web.Versions {
	c, _ := p.Lists.In()
	return web.Versions{Dir: c.History(name)}
}

func (p *Pages) writeOwn(w http.ResponseWriter, r *http.Request, page web.PageTemplate, status int, d *ownData) {
	d.Policies, d.Categories = p.choices()
	d.Actions = append(actions[:len(actions):len(actions)], web.Choice{Value: "allow", Text: "allow"})
	if !d.New {
		d.Versions, _ = p.history(d.Name).All() // without them, the page has the text
		d.Versions = d.Versions[:min(len(d.Versions), web.VersionsShown)]
	}
	web.WritePage(w, page, status, d)
}

func (p *Pages) saveOwn(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	r.Body = http.MaxBytesReader(w, r.Body, 4*mostText)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f := r.PostForm
	d := &ownData{NewList: NewList{Name: r.PathValue("name"), Category: strings.TrimSpace(f.Get("category")), Policy: f.Get("policy"), Action: cmp.Or(f.Get("action"), "block")}, Tag: f.Get("tag")}
	if d.New = d.Name == newOwn; d.New {
		d.Name = strings.TrimSpace(f.Get("name"))
	}
	d.Text = strings.ReplaceAll(f.Get("text"), "\r\n", "\n")
	if d.Text != "" && !strings.HasSuffix(d.Text, "\n") {
		d.Text += "\n"
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookTime)
	defer cancel()
	saved, err := p.saveOrShowOwn(ctx, r.WithContext(ctx), d)
	if saved && err == nil {
		if web.IsPage(r) {
			http.Redirect(w, r, "/lists/"+d.Name+"/text?saved=yes", http.StatusSeeOther)
			return
		}
		web.WriteJSON(w, http.StatusOK, d.answer(true))
		return
	}
	web.ChangedNothing(w)
	status := http.StatusOK
	var wrong *fieldError
	if errors.As(err, &wrong) {
		status, d.Wrong = http.StatusUnprocessableEntity, map[string]string{wrong.field: wrong.text}
	} else if err != nil {
		status, d.Error = web.StatusOf(err), err.Error()
	}
	switch {
	case web.IsPage(r) && status != http.StatusNotFound && status != http.StatusForbidden:
		p.writeOwn(w, r, page, status, d)
	case err != nil:
		http.Error(w, err.Error(), max(status, http.StatusBadRequest))
	default:
		web.WriteJSON(w, http.StatusOK, d.answer(false))
	}
}

// answer is what programs get.
func (d *ownData) answer(saved bool) any {
	return struct {
		Name   string      `json:"name"`
		Found  *FoundList  `json:"found"`
		Effect *web.Effect `json:"effect,omitempty"`
		Note   string      `json:"note,omitempty"`
		Saved  bool        `json:"saved"`
	}{d.Name, d.Found, d.Effect, d.Note, saved}
}

// saveOrShowOwn reads the text as a list and judges the last day by it. It saves what somebody has seen,
// what changes nothing and has no mistakes, and what a program asks for.
func (p *Pages) saveOrShowOwn(ctx context.Context, r *http.Request, d *ownData) (saved bool, err error) {
	if len(d.Text) > mostText {
		return false, &fieldError{"text", fmt.Sprintf("it has %d bytes, and a page edits up to %d: change single entries, or its file", len(d.Text), mostText)}
	}
	p.Lists.writing.Lock()
	defer p.Lists.writing.Unlock()
	c, _ := p.Lists.In()
	var old string
	l := collection.List{Config: list.Config{Category: cmp.Or(d.Category, d.Name)}} // names, rules, or both
	if d.New {
		err = p.checkNewOwn(c, d)
	} else if old, err = p.ownText(r, d.Name); err == nil && d.Tag != "" && d.Tag != web.Tag([]byte(old)) {
		d.Tag = web.Tag([]byte(old))
		err = &fieldError{"text", text.Mark("somebody has changed it meanwhile: save again to replace that, or open the page anew")}
	}
	if err != nil {
		return false, err
	}
	tmp, err := os.CreateTemp("", "shuultuur-own-*.txt")
	if err != nil {
		return false, err
	}
	defer os.Remove(tmp.Name())
	if _, err = tmp.WriteString(d.Text); err != nil {
		return false, errors.Join(err, tmp.Close())
	}
	if err := tmp.Close(); err != nil {
		return false, err
	}
	found, err := c.ReadAs(ctx, d.Name, l, tmp.Name())
	if err != nil {
		return false, &fieldError{"text", strings.ReplaceAll(err.Error(), tmp.Name(), "the text")}
	}
	if d.Found, err = describe(found); err != nil {
		return false, err
	}
	trial := web.Trial{List: d.Name, File: tmp.Name()}
	var draft *settings.Draft
	if d.New {
		if draft, err = p.draftOwn(r, d); err != nil {
			return false, err
		}
		defer func() {
			if !saved {
				err = errors.Join(err, os.Remove(p.ownPath(d.Name)))
			}
		}()
		trial.Text = draft.Text
	}
	d.Checked = web.Tag(fmt.Appendf(nil, "%q", []string{d.Name, d.Category, d.Policy, d.Action, d.Text}))
	dry := web.DryRun(r.Form)
	if dry || web.IsPage(r) && r.PostForm.Get("checked") != d.Checked {
		if d.Effect, err = p.Site.Foretell(ctx, trial); err != nil {
			d.Note, err = err.Error(), nil
		}
		if unchanged := d.Effect != nil && d.Effect.Changed == 0; dry || !unchanged || d.Found.Refused > 0 {
			return false, nil
		}
	}
	if d.New {
		if err := draft.Save(); err != nil {
			return false, err
		}
		return true, p.history(d.Name).Add([]byte(d.Text), web.Author(r), "")
	}
	if err := p.history(d.Name).KeepDisk([]byte(old)); err != nil {
		return false, err
	}
	if err := c.Rewrite(d.Name, []byte(d.Text)); err != nil {
		return false, err
	}
	if !p.Lists.Use(ctx, "written: "+d.Name) {
		return false, errors.New("the list is written, and cannot be used; the log says why")
	}
	return true, p.history(d.Name).Add([]byte(d.Text), web.Author(r), "")
}

// checkNewOwn checks the fields of a new list.
func (p *Pages) checkNewOwn(c *collection.Collection, d *ownData) error {
	d.Category = cmp.Or(d.Category, d.Name)
	policies, _ := p.choices()
	allow := NewList{Name: d.Name, Category: d.Category, Policy: d.Policy, Action: d.Action}
	if d.Action == "allow" {
		allow.Action = "block"
	}
	return allow.check(c, policies)
}

// ownPath returns the file of a new list.
func (p *Pages) ownPath(name string) string {
	return filepath.Join(filepath.Dir(p.Settings.File), ownFolder, name+".txt")
}

// draftOwn writes the file of a new list, and prepares the settings with it.
func (p *Pages) draftOwn(r *http.Request, d *ownData) (*settings.Draft, error) {
	file := p.ownPath(d.Name)
	if _, err := os.Lstat(file); err == nil {
		return nil, &fieldError{"name", fmt.Sprintf("there is a file %s already: give the list another name", filepath.Base(file))}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	if err := atomicfile.WriteBytes(file, 0o644, []byte(d.Text)); err != nil {
		return nil, err
	}
	line := fmt.Sprintf("{path: %s, category: %s}", quoted(ownFolder+"/"+d.Name+".txt"), quoted(d.Category))
	draft, err := p.draftNew(r, &d.NewList, setting.Snippet(line))
	if err != nil {
		return nil, errors.Join(err, os.Remove(file))
	}
	return draft, nil
}

// isPlain reports whether a list can have a name.
func isPlain(name string) bool { return source.PlainName(name) && name != newOwn }
