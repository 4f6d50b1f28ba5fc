// Package settings has the pages of the settings file and of the policies in it. A form becomes a
// list of changes, these become a text, and the text is checked, judged by the events of the last
// day, shown, and saved as a version. What would give an owner's power is refused to others
// (power.go), and what is locked to all.
package settings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/lib/setting"
	"shuultuur/text"
)

// Settings shows and changes the settings file for the admin address. The text stays as it was
// written, with comments and order.
type Settings struct {
	File string // its path
	// Read returns the text on disk.
	Read func() ([]byte, error)
	// InUse returns the text that the gateway runs with, which Policies and other pages know; nil: it
	// is the one on disk.
	InUse func() []byte
	// Check returns the mistakes in a text, as "shuultuur check" does: nil, or
	// [setting.Mistakes] with their lines.
	Check func(ctx context.Context, text []byte) error
	// Save writes a text and puts it into use. It returns [web.ErrChanged] if the text on disk does
	// not have the tag, and mistakes as Check does. remarks are the changes that need a
	// restart.
	Save     func(ctx context.Context, text []byte, tag, by, reason string) (remarks []string, err error)
	Versions web.Versions // those that are kept
	// Empty returns settings without values, into which a text can be read. Their types say which
	// keys have power, which are secret, and which name people; nil: nobody is below an owner, and no
	// person is looked for.
	Empty func() any
	Key   []byte // for placeholders of secrets
	// Own reports whether a path leads to files that the gateway keeps for itself, which settings of
	// others than owners may not name.
	Own func(path string) bool
	// Paths returns the files and folders that settings name, to read or to write. Inside reports
	// whether one is in the folder of the settings or of the data: others may be named on this machine
	// only.
	Paths  func(settings any) []string
	Inside func(path string) bool
	// Schema returns the JSON schema of the file, for the editor; nil: there is none.
	Schema func() ([]byte, error)
	// Policies returns the policies in use with their text.
	Policies func() ([]PolicyView, error)
	// Categories returns the categories that rules may name; nil: those of the rules alone.
	Categories func() []string
	// Events is the record, as far as the user of a request may see it; nil: there is none.
	Events event.Reader
	// Manual returns what the manual says about keys, for the form; nil: nothing.
	Manual func() map[string]setting.Row
	// Try asks the servers that a part of a text of settings names, before it is saved; with is what
	// they are asked about. nil: nothing can be tried.
	Try func(ctx context.Context, text []byte, part, with string) (answers []string, err error)
	// Restart has the gateway start again; nil: only somebody at the machine can. Waiting returns which
	// saved changes wait for that.
	Restart func() error
	Waiting func() []string

	shown atomic.Pointer[setting.Text] // the last text that a page showed

	said web.PageTemplate

	judged                         judged // expectations
	site                           *web.Site
	page                           web.PageTemplate // the editor
	rulePage, groupPage, rulesPage web.PageTemplate
	effect                         func(context.Context, web.Trial) (*web.Effect, error)
}

// Routes returns the routes about the settings file.
//
//	GET /settings                the text, with its ETag; HTML for browsers
//	PUT /settings                the text; If-Match names the one it replaces,
//	                             reason=TEXT says why; dry_run=true only says
//	                             what it would do
//	POST /settings               the form of the page
//	GET /settings/schema         the JSON schema of the file
//	POST /settings/check         what is wrong with a text, as JSON: for the editor
//	GET /settings/versions       who saved what, when and why, as JSON
//	GET /settings/versions/{id}  one of them; HTML to compare it and take it back
func (s *Settings) Routes(site *web.Site) []web.Route {
	page := site.Page("settings.html")
	s.site, s.page, s.said, s.effect = site, page, site.Page("said.html"), site.Foretell
	return append(slices.Concat(s.policyRoutes(site), s.ruleRoutes(site), s.groupRoutes(site), s.serviceRoutes(site), s.formRoutes(site)), []web.Route{
		{Method: "GET", Path: "/settings", Role: web.Operator,
			Does: "the file of settings, with its ETag", Query: []web.Field{web.Optional("key", "a key of the settings")}, Gives: "application/yaml text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) { s.show(w, r, page) }},
		{Method: "PUT", Path: "/settings", Role: web.Operator,
			Does: "replace the settings whose ETag is in If-Match; says what that would have changed in the last day", Body: "application/yaml", Query: []web.Field{web.OnTrial, web.Optional("reason", "reason, for the history")},
			Effect:  web.Judged,
			Handler: s.put},
		{Method: "POST", Path: "/settings", Role: web.Operator,
			Does: "the form of the page: check the settings, then save them", Gives: "text/html", Form: []web.Field{web.Required("what", "check | save"), web.Required("text", "the settings as YAML"), web.Required("tag", "ETag of the settings"), web.Optional("checked", "tag of the text whose effect was seen"), web.Optional("reason", "reason, for the history"), web.OnTrial},
			Effect:  web.Judged,
			Handler: func(w http.ResponseWriter, r *http.Request) { s.form(w, r, page) }},
		{Method: "POST", Path: "/settings/check", Role: web.Operator,
			Does: "say what is wrong with a text of settings; nothing is changed", Form: []web.Field{web.Required("text", "the settings as YAML")},
			Effect:  web.OfNothing,
			Handler: s.try},
		{Method: "GET", Path: "/settings/schema", Role: web.Operator,
			Does: "the JSON schema of the settings", Gives: "application/schema+json",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				if s.Schema == nil {
					http.NotFound(w, r)
					return
				}
				b, err := s.Schema()
				if err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
				w.Header().Set("Content-Type", "application/schema+json")
				_, _ = w.Write(b) // it fails if the client has gone away
			}},
		{Method: "GET", Path: "/settings/versions", Role: web.Operator,
			Does: "who saved settings, when and why, the newest first",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				v, err := s.view(r)
				if err != nil {
					http.Error(w, err.Error(), web.StatusOf(err))
					return
				}
				all, err := s.Versions.All()
				for i := range all {
					all[i].Tag = v.tagOf(all[i].Tag)
				}
				web.Answer(w, all, err)
			}},
		{Method: "GET", Path: "/settings/versions/{id}", Role: web.Operator,
			Does: "one version of the settings", Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { s.version(w, r, page) }},
	}...)
}

// settingsData is the contents of the page.
type settingsData struct {
	File, Text, Tag, Reason string
	Mistakes                []setting.Mistake
	Bad                     string // lines with mistakes, for the editor
	Diff                    []web.DiffLine
	Checked                 string // tag of a text without mistakes whose effect is shown
	Effect                  *web.Effect
	NoEffect                string
	Done                    string
	Remarks                 []string
	Error                   string
	Versions                []web.Version
	Place                   *passage     // of a key that somebody looks for
	Of                      *web.Version // the page is about this version
}

func (s *Settings) show(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	v, err := s.view(r)
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	if !web.IsPage(r) {
		w.Header().Set("Content-Type", "application/yaml")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("ETag", `"`+v.tag(v.now)+`"`)
		_, _ = w.Write(v.shown) // the client went away: nobody to tell
		return
	}
	d := &settingsData{Text: string(v.shown), Tag: v.tag(v.now)}
	if key := r.URL.Query().Get("key"); key != "" {
		d.Place = placeIn(s.File, v.shown, key)
	}
	v.write(w, page, http.StatusOK, d)
}

// A passage is the lines around a key in the file.
type passage struct {
	Key   string
	Line  int
	Lines []placeLine
}

type placeLine struct {
	N    int
	Text string
	Here bool
}

// placeIn returns where a key is in a text, nil if it is not there.
func placeIn(file string, data []byte, key string) *passage {
	c, err := setting.CopyOf(file, data)
	if err != nil || c.Line(key) == 0 {
		return nil
	}
	p := &passage{Key: key, Line: c.Line(key)}
	for i, line := range strings.Split(string(data), "\n") {
		if n := i + 1; n >= p.Line-3 && n <= p.Line+4 {
			p.Lines = append(p.Lines, placeLine{n, line, n == p.Line})
		}
	}
	return p
}

func (v *view) write(w http.ResponseWriter, page web.PageTemplate, status int, d *settingsData) {
	s := v.s
	d.File = s.File
	all, err := s.Versions.All()
	if err != nil && d.Error == "" {
		d.Error = err.Error()
	}
	d.Versions = all[:min(len(all), web.VersionsShown)]
	for i := range d.Versions {
		d.Versions[i].Tag = v.tagOf(d.Versions[i].Tag)
	}
	if d.Tag != "" {
		w.Header().Set("ETag", `"`+d.Tag+`"`)
	}
	for _, m := range d.Mistakes {
		if m.Line > 0 {
			d.Bad += strconv.Itoa(m.Line) + " "
		}
	}
	web.WritePage(w, page, status, d)
}

// form checks or saves the text in the editor. Saved texts were checked before:
// its effect was seen.
func (s *Settings) form(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	r.Body = http.MaxBytesReader(w, r.Body, 3*web.MaxSettings)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f := r.PostForm
	submitted := strings.ReplaceAll(f.Get("text"), "\r\n", "\n") // as forms are sent
	if submitted != "" && !strings.HasSuffix(submitted, "\n") {
		submitted += "\n"
	}
	d := &settingsData{Text: submitted, Tag: f.Get("tag"), Reason: strings.TrimSpace(f.Get("reason"))}
	v, err := s.view(r)
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	status := http.StatusOK
	if f.Get("what") == "save" && !web.DryRun(r.Form) && f.Get("checked") == web.Tag([]byte(submitted)) {
		var real []byte
		if real, err = v.real([]byte(submitted)); err == nil && d.Tag != v.tag(v.now) {
			err = web.ErrChanged
		}
		if err == nil {
			d.Remarks, err = v.save(r, real, d.Reason)
		}
		if err == nil {
			d.Done, d.Reason = text.Mark("Saved and in use."), ""
			d.Tag = v.tag(real)
			v.write(w, page, status, d)
			return
		}
		err = v.redact(err)
	} else {
		_, err = v.fillEffect(r, d)
	}
	if err != nil {
		status = d.fail(err)
	}
	v.write(w, page, status, d)
}

// try reports the mistakes in a text, and changes nothing.
func (s *Settings) try(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 3*web.MaxSettings)
	d := settingsData{Mistakes: []setting.Mistake{}}
	v, err := s.view(r)
	if err == nil {
		_, err = v.check(r, []byte(strings.ReplaceAll(r.FormValue("text"), "\r\n", "\n")))
	}
	if err != nil {
		d.fail(err)
	}
	web.WriteJSON(w, http.StatusOK, map[string]any{"mistakes": d.Mistakes, "error": d.Error})
}

// fillEffect fills in the effect of a text that the user has written, and returns the text to save.
func (v *view) fillEffect(r *http.Request, d *settingsData) (real []byte, err error) {
	if v.tag(v.now) != d.Tag {
		d.Diff = web.Diff(string(v.shown), d.Text)
		return nil, web.ErrChanged
	}
	if real, err = v.check(r, []byte(d.Text)); err != nil {
		return nil, err
	}
	d.Diff = web.Diff(string(v.shown), d.Text)
	if len(d.Diff) == 0 {
		d.Done = text.Mark("Nothing is changed.")
		return real, nil
	}
	d.Checked = web.Tag([]byte(d.Text))
	if d.Effect, err = v.s.effect(r.Context(), web.Trial{Text: real}); err != nil {
		d.NoEffect = v.redact(err).Error()
	}
	return real, nil
}

// fail shows an error and returns its status.
func (d *settingsData) fail(err error) int {
	var all setting.Mistakes
	switch {
	case errors.As(err, &all):
		d.Mistakes = all
		return http.StatusUnprocessableEntity
	case errors.Is(err, web.ErrChanged):
		d.Error = err.Error()
		return http.StatusPreconditionFailed
	}
	d.Error = err.Error()
	return web.StatusOf(err)
}

// put is form for programs.
func (s *Settings) put(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, web.MaxSettings))
	if err != nil {
		http.Error(w, fmt.Sprintf("reading the settings, of which %d bytes are taken: %v", web.MaxSettings, err), http.StatusRequestEntityTooLarge)
		return
	}
	q := r.URL.Query()
	tag := strings.Trim(r.Header.Get("If-Match"), `"`)
	dry := web.DryRun(q)
	if tag == "" && !dry {
		http.Error(w, "If-Match is missing: send the ETag of the settings that were read", http.StatusPreconditionRequired)
		return
	}
	var out struct {
		Saved    bool              `json:"saved"`
		Mistakes []setting.Mistake `json:"mistakes,omitempty"`
		Effect   *web.Effect       `json:"effect,omitempty"`
		Note     string            `json:"note,omitempty"`
		Remarks  []string          `json:"remarks,omitempty"`
	}
	d := &settingsData{Text: string(text), Tag: tag}
	v, err := s.view(r)
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	if tag == "" {
		d.Tag = v.tag(v.now)
	}
	real, err := v.fillEffect(r, d)
	out.Effect, out.Note = d.Effect, d.NoEffect
	if err == nil && !dry {
		out.Remarks, err = v.save(r, real, q.Get("reason"))
		out.Saved = err == nil
	}
	if err != nil {
		status := d.fail(err)
		if d.Mistakes == nil {
			http.Error(w, d.Error, status)
			return
		}
		out.Mistakes = d.Mistakes
		web.WriteJSON(w, status, out)
		return
	}
	if out.Saved {
		w.Header().Set("ETag", `"`+v.tag(real)+`"`)
	}
	web.WriteJSON(w, http.StatusOK, out)
}

// version shows an earlier version in the editor, where it can be restored.
func (s *Settings) version(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	x, err := s.Versions.One(r.PathValue("id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	v, err := s.view(r)
	if err == nil {
		var shown []byte
		shown, err = v.hide([]byte(x.Text))
		x.Text, x.Tag = string(shown), v.tagOf(x.Tag)
	}
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	if !web.IsPage(r) {
		web.WriteJSON(w, http.StatusOK, x)
		return
	}
	d := &settingsData{Text: x.Text, Tag: v.tag(v.now), Diff: web.Diff(string(v.shown), x.Text), Of: x, Reason: "back to the version of " + x.At.Local().Format("2006-01-02 15:04")}
	v.write(w, page, http.StatusOK, d)
}
