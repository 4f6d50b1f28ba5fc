package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/text"
)

// The form has every key of the settings as a field, part by part. It shows the file, with
// placeholders for secrets, and what is changed in it becomes changes of its text.

// A formPart is a part of the form: what stands below some keys.
type formPart struct {
	ID, Name, Icon string
	keys           []string
}

// formParts are all parts. A key that is in none of them is in the last.
var formParts = []formPart{
	{"network", text.Mark("Network"), "network", []string{"listen", "portal", "proxy"}},
	{"names", text.Mark("Names"), "names", []string{"dns"}},
	{"encrypted", text.Mark("Encrypted pages"), "unlock", []string{"intercept"}},
	{"checks", text.Mark("What is looked at"), "search", []string{"checks", "icap"}},
	{"people", text.Mark("People and sign-in"), "people", []string{"identity", "access"}},
	{"pages", text.Mark("Closed pages and requests to open"), "inbox", []string{"pages", "votes"}},
	{"mail", text.Mark("Mail, reports and alerts"), "mail", []string{"mail", "reports", "alerts"}},
	{"record", text.Mark("Log and privacy"), "scroll", []string{"events"}},
	{"memory", text.Mark("Cache and several gateways"), "disk", []string{"cache", "state"}},
	{"other", text.Mark("Others"), "refresh", []string{"updates", "data", "lists", "policies"}},
}

// pagesOf are the pages where what has parts of its own is changed.
var pagesOf = map[string]string{"lists": "/lists", "policies": "/policies", "identity.groups": "/clients", "identity.addresses": "/clients", "dns.zones.files": "/zones"}

// A formField is a key of the settings in the form.
type formField struct {
	setting.Input
	Label, Help, Default string
	Value                string
	On                   bool // of a switch
	Rows                 int
	Changed              bool // it is in the file, and not as without it
	Kept                 bool // a secret is kept, which is not shown
	Locked               bool // others than owners may not change it
	Page                 string
	Number               int // its line in the file, 0 if it is not there
	Wrong                string
}

// A formGroup is what the form has under one heading.
type formGroup struct {
	Key    string
	Name   string
	Fields []*formField
	Test   *probe // what can be tried
	Said   *probed
}

// formData is the content of the page.
type formData struct {
	Parts         []formPart
	Part          string
	Query         string
	Groups        []*formGroup
	Tag           string
	Error, Done   string
	Remarks       []string
	Restart, Owns bool
	Mistakes      []setting.Mistake // of no field here
}

func (s *Settings) formRoutes(site *web.Site) []web.Route {
	page := site.Page("form.html")
	return []web.Route{
		{Method: "GET", Path: "/settings/form", Role: web.Operator,
			Link: web.LinkIn(web.System, text.Mark("Settings")),
			Does: "the settings as a form", Query: []web.Field{web.Optional("part", "part of the settings"), web.Optional("q", "words of a setting")}, Gives: "text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) { s.showForm(w, r, page) }},
		{Method: "POST", Path: "/settings/form", Role: web.Operator,
			Does: "change settings by their keys, each with its value as v.KEY; what is empty goes back to its default", Gives: web.PageOrJSON,
			Form:    []web.Field{web.Required("tag", "ETag of the settings"), web.Required("key", "a key of the settings"), web.Optional("reset", "a key that goes back to its default"), web.Optional("try", "a part to be tried with these values; nothing is saved"), web.OnTrial},
			Effect:  web.Judged,
			Handler: func(w http.ResponseWriter, r *http.Request) { s.takeForm(w, r, page) }},
		{Method: "POST", Path: "/settings/restart", Role: web.Operator,
			Does: "start the gateway again, for changes that need it", Gives: web.PageOrJSON,
			Effect:  "it changes no setting; open connections are cut for a moment",
			Handler: s.restart},
	}
}

// A form is the settings as the form has them, for one request.
type form struct {
	*view
	hidden *setting.Hidden
	copy   *setting.Copy
	data   *formData
	fields map[string]*formField
}

// newForm reads the settings. Secrets are hidden from everybody.
func (s *Settings) newForm(w http.ResponseWriter, r *http.Request) (*form, error) {
	v, err := s.view(r)
	if err != nil {
		return nil, err
	}
	f := &form{view: v, hidden: v.hidden, fields: map[string]*formField{},
		data: &formData{Parts: formParts, Part: r.FormValue("part"), Query: strings.TrimSpace(r.FormValue("q")), Tag: v.tag(v.now), Restart: s.Restart != nil, Owns: v.owner}}
	if f.hidden == nil {
		f.hidden = &setting.Hidden{Text: v.now}
		if s.Empty != nil {
			if f.hidden, err = setting.Hide(v.now, s.Empty(), s.Key); err != nil {
				return nil, err
			}
		}
	}
	if f.copy, err = setting.CopyOf(s.File, f.hidden.Text); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(formParts, func(p formPart) bool { return p.ID == f.data.Part }) {
		f.data.Part = formParts[0].ID
	}
	if f.data.Query != "" {
		f.data.Part = ""
	}
	f.fill(web.TextsOf(w))
	return f, nil
}

// fill makes the fields that are asked for.
func (f *form) fill(t *text.Texts) {
	if f.s.Empty == nil {
		return
	}
	var manual map[string]setting.Row
	if f.s.Manual != nil {
		manual = f.s.Manual()
	}
	for _, in := range setting.Inputs(f.s.Empty()) {
		x := f.named(t, in, manual[in.Path])
		if !f.shows(x) {
			continue
		}
		f.value(x)
		key := groupKey(in.Path)
		if n := len(f.data.Groups); n == 0 || f.data.Groups[n-1].Key != key {
			f.data.Groups = append(f.data.Groups, &formGroup{Key: key, Name: groupName(t, key), Test: probeOf(key)})
		}
		g := f.data.Groups[len(f.data.Groups)-1]
		g.Fields = append(g.Fields, x)
		f.fields[in.Path] = x
	}
	rank := func(g *formGroup) int {
		top, _, _ := strings.Cut(g.Key, ".")
		return partOf(top)*100 + slices.Index(formParts[partOf(top)].keys, top)
	}
	slices.SortStableFunc(f.data.Groups, func(a, b *formGroup) int { return rank(a) - rank(b) })
}

// partOf returns which part a key of the outermost level is in.
func partOf(top string) int {
	i := slices.IndexFunc(formParts, func(p formPart) bool { return slices.Contains(p.keys, top) })
	return cmp.Or(i+1, len(formParts)) - 1
}

// shows reports whether the page has a field: it is in the part, or all words that are looked for are
// in its key, label or help.
func (f *form) shows(x *formField) bool {
	if f.data.Query == "" {
		top, _, _ := strings.Cut(x.Path, ".")
		return formParts[partOf(top)].ID == f.data.Part
	}
	all := strings.ToLower(x.Path + " " + strings.ReplaceAll(x.Path, ".", " ") + " " + x.Label + " " + x.Help)
	return !slices.ContainsFunc(strings.Fields(strings.ToLower(f.data.Query)), func(word string) bool { return !strings.Contains(all, word) })
}

// groupKey returns the heading that a key stands under: the key above it.
func groupKey(path string) string {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i]
	}
	return path
}

// groupName returns a heading: the words of the keys.
func groupName(t *text.Texts, key string) string {
	var words []string
	for i, c := range key + "." {
		if c == '.' {
			words = append(words, labelOf(t, key[:i]))
		}
	}
	return strings.Join(words, " · ")
}

// abbreviations are words that have capitals within: abbreviations, and names of programs.
var abbreviations = strings.NewReplacer("Acme", "ACME", "Ocsp", "OCSP", "Dns", "DNS", "Tls", "TLS", "Icap", "ICAP", "Ldap", "LDAP", "Radius", "RADIUS", "Ttl", "TTL", "Udp", "UDP", "Pac", "PAC", "Rrl", "RRL", "Nsid", "NSID", "Nats", "NATS", "Crl", "CRL", "Http", "HTTP", "Https", "HTTPS", "Quic", "QUIC", "Json", "JSON", "Asn", "ASN", "Otlp", "OTLP", "Oidc", "OIDC", "Clickhouse", "ClickHouse", "Dansguardian", "DansGuardian", "Postgres", "PostgreSQL", "Sqlite", "SQLite", "Id ", "ID ", "Url", "URL")

// labelOf returns the word for a key: the text of its last two parts, that of the last, or the last itself as
// a word. A key below acme is the kind of a key, and elsewhere a file.
func labelOf(t *text.Texts, path string) string {
	above, key := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		above, key = path[:i], path[i+1:]
	}
	plain := strings.NewReplacer("-", "", " ", "").Replace
	for _, name := range []string{"set." + plain(above[strings.LastIndexByte(above, '.')+1:]+"."+key), "set." + plain(key)} {
		if said := t.Say(name); said != name {
			return capital(said)
		}
	}
	return strings.TrimSpace(abbreviations.Replace(capital(strings.ReplaceAll(key, "-", " ")) + " "))
}

// capital returns a text with a capital letter at its beginning.
func capital(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[n:]
}

// named makes the field of a key with what is said about it.
func (f *form) named(t *text.Texts, in setting.Input, doc setting.Row) *formField {
	x := &formField{Input: in, Label: labelOf(t, in.Path), Help: doc.Meaning, Default: doc.Default, Page: pagesOf[in.Path], Number: f.copy.Line(in.Path)}
	if said := t.Say("help." + in.Path); said != "help."+in.Path {
		x.Help = said
	}
	if x.Default == "none" {
		x.Default = ""
	}
	x.Locked = in.Role != "" && !f.owner
	return x
}

// value fills in what the text says.
func (f *form) value(x *formField) {
	in := &x.Input
	values, plain := f.copy.Values(in.Path)
	if !plain || in.Kind == setting.Written {
		x.Kind, x.Value = setting.Written, strings.TrimRight(string(f.copy.Part(in.Path)), "\n")
	} else {
		x.Value = strings.Join(values, "\n")
	}
	if in.Secret != "" && x.Kind != setting.Written && setting.HasPlaceholder(x.Value) {
		x.Kept, x.Value = true, ""
	}
	if x.Kind == setting.Switch {
		x.On = f.copy.Has(in.Path) && x.Value == "true" || !f.copy.Has(in.Path) && isOn(x.Default)
	}
	x.Rows = min(max(strings.Count(x.Value, "\n")+2, 3), 14)
	x.Changed = f.copy.Has(in.Path) && (x.Kept || x.Value != x.Default)
}

func isOn(word string) bool { return slices.Contains([]string{"on", "true", "yes"}, word) }

func (s *Settings) showForm(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	f, err := s.newForm(w, r)
	if err != nil {
		web.WritePage(w, page, http.StatusOK, &formData{Parts: formParts, Error: err.Error()})
		return
	}
	if s.Waiting != nil {
		f.data.Remarks = s.Waiting()
	}
	w.Header().Set("ETag", `"`+f.data.Tag+`"`)
	web.WritePage(w, page, http.StatusOK, f.data)
}

// takeForm saves what was changed in the form, shows its effect, or tries it.
func (s *Settings) takeForm(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	r.Body = http.MaxBytesReader(w, r.Body, 3*web.MaxSettings)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f, err := s.newForm(w, r)
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	edited, keys, err := f.edit(r.PostForm)
	if try := r.PostForm.Get("try"); try != "" && err == nil {
		f.probe(r, try, edited)
		f.answer(w, r, page, http.StatusOK, web.ChangeResult{})
		return
	}
	out := web.ChangeResult{}
	if err == nil && r.PostForm.Get("tag") != f.data.Tag {
		err = web.ErrChanged
	}
	if err == nil {
		d := &settingsData{Text: string(edited), Tag: f.data.Tag, Reason: strings.Join(keys, ", ")}
		var shown bool
		if out, shown, err = f.use(w, r, d); shown {
			return
		}
	}
	if err != nil {
		f.answer(w, r, page, f.fail(err), web.ChangeResult{Mistakes: f.data.Mistakes})
		return
	}
	if g, err := s.newForm(w, r); err == nil { // as it is now
		f = g
	}
	f.data.Done, f.data.Remarks = text.Mark("Saved and in use."), out.Remarks
	if len(keys) == 0 {
		f.data.Done = text.Mark("Nothing is changed.")
	}
	f.answer(w, r, page, http.StatusOK, out)
}

func (f *form) answer(w http.ResponseWriter, r *http.Request, page web.PageTemplate, status int, out web.ChangeResult) {
	if web.IsPage(r) {
		web.WritePage(w, page, status, f.data)
		return
	}
	if f.data.Error != "" {
		http.Error(w, f.data.Error, status)
		return
	}
	for _, x := range f.fields {
		if x.Wrong != "" {
			out.Mistakes = append(out.Mistakes, setting.Mistake{File: f.s.File, Line: x.Number, Key: x.Path, Text: x.Wrong})
		}
	}
	for _, g := range f.data.Groups {
		if g.Said != nil {
			out.Note = g.Said.Text
		}
	}
	web.WriteJSON(w, status, out)
}

// fail puts the mistakes beside their fields, and returns the status.
func (f *form) fail(err error) int {
	d := &settingsData{}
	status := d.fail(err)
	f.data.Error = d.Error
	var forbidden *web.Forbidden
	if errors.As(err, &forbidden) && f.fields[forbidden.Key] != nil {
		f.fields[forbidden.Key].Wrong, f.data.Error = err.Error(), ""
	}
	for _, m := range d.Mistakes {
		if x := f.nearest(m.Key); x != nil && x.Wrong == "" {
			x.Wrong = m.Text
			continue
		}
		f.data.Mistakes = append(f.data.Mistakes, m)
	}
	return status
}

// nearest returns the field of a key, or the one that the key is in.
func (f *form) nearest(key string) *formField {
	for key != "" {
		if x := f.fields[key]; x != nil {
			return x
		}
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return nil
}

// edit makes the changes of a form, and returns the text with them and the keys that are changed. The
// fields keep what was typed.
func (f *form) edit(in url.Values) (edited []byte, keys []string, err error) {
	edited = f.hidden.Text
	for _, key := range in["key"] {
		x := f.fields[key]
		if x == nil || x.Locked || x.Page != "" && !in.Has("v."+key) {
			continue
		}
		c, changed := f.change(x, in, slices.Contains(in["reset"], key))
		if !changed {
			continue
		}
		next, err := setting.Edit(edited, c)
		if err != nil {
			x.Wrong = plainMistake(err)
			return nil, nil, setting.Mistakes{{File: f.s.File, Line: x.Number, Key: key, Text: x.Wrong}}
		}
		edited, keys = next, append(keys, key)
	}
	if f.owner {
		edited, err = f.hidden.Restore(edited)
	}
	return edited, keys, err
}

// plainMistake returns a mistake in a piece of YAML without the line, which is of the piece.
func plainMistake(err error) string {
	_, after, ok := strings.Cut(err.Error(), ": ")
	if strings.HasPrefix(err.Error(), "yaml") && ok {
		return after
	}
	return err.Error()
}

// change returns the change of the file that a field asks for.
func (f *form) change(x *formField, in url.Values, reset bool) (c setting.Change, changed bool) {
	has := f.copy.Has(x.Path)
	for step := range strings.SplitSeq(x.Path, ".") {
		c.Path = append(c.Path, step)
	}
	typed := strings.TrimSpace(strings.ReplaceAll(in.Get("v."+x.Path), "\r\n", "\n"))
	if x.Kind == setting.Switch {
		on := typed == "true"
		if reset {
			on = isOn(x.Default)
		}
		was := x.On
		x.On = on
		c.Value, c.Remove = on, on == isOn(x.Default) && has
		return c, on != was || reset && has
	}
	if x.Kept && typed == "" && !reset {
		return c, false
	}
	if reset {
		typed = ""
	}
	was := x.Value
	if x.Kind == setting.Lines {
		typed = strings.Join(linesOf(typed), "\n")
	}
	if !x.Kept {
		x.Value = typed
	}
	if typed == was && !x.Kept || typed == "" && !has {
		return c, false
	}
	c.Remove = typed == ""
	c.Value = valueOf(x, typed)
	return c, true
}

func linesOf(typed string) (all []string) {
	for line := range strings.SplitSeq(typed, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// valueOf returns what was typed as a value for the file.
func valueOf(x *formField, typed string) any {
	number := func(s string) any {
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return setting.Snippet(s)
		}
		return s
	}
	switch x.Kind {
	case setting.Written:
		return setting.Snippet(typed)
	case setting.Number, setting.CountOrOff, setting.NumberOfByte:
		return number(typed)
	case setting.Lines:
		lines := linesOf(typed)
		if len(lines) == 1 && lines[0] == "off" {
			return "off"
		}
		if !x.Input.Number {
			return lines
		}
		var all strings.Builder
		for _, line := range lines {
			if _, err := strconv.ParseFloat(line, 64); err != nil {
				return lines
			}
			all.WriteString("- " + line + "\n")
		}
		return setting.Snippet(all.String())
	}
	return typed
}

// restart starts the gateway again.
func (s *Settings) restart(w http.ResponseWriter, r *http.Request) {
	if s.Restart == nil {
		http.Error(w, "this gateway cannot start again by itself: restart its service", http.StatusNotImplemented)
		return
	}
	if err := s.Restart(); err != nil {
		http.Error(w, fmt.Sprintf("starting again: %v", err), http.StatusConflict)
		return
	}
	if web.IsPage(r) {
		web.WritePage(w, s.said, http.StatusOK, map[string]any{"Said": []map[string]string{{"Name": text.Mark("Restart now"), "Text": web.TextsOf(w).Say(text.Mark("The gateway starts again. Wait some seconds."))}}, "To": "/settings/form"})
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string]bool{"restarts": true})
}
