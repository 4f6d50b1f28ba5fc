package settings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/admin/web"
	"shuultuur/check/service"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/text"
)

// errGone reports that a link or a form names what is not in the settings.
var errGone = errors.New("it is not there any more; open the rules again")

// maxRuleForm bounds the bytes of the form of a rule.
const maxRuleForm = 256 << 10

// ruleRoutes returns the routes about one rule.
//
//	GET /policies/rule    the form of a rule, or of a limit of a day: policy=NAME, and rule=NAME
//	                      or quota=J for one that is there
//	POST /policies/rule   tag=ETAG&policy=I and rule=J or quota=J for one that is there; its keys
//	                      as fields, or text=YAML&from=yaml; tab=yaml or tab=fields shows the other
//	                      form and saves nothing
func (s *Settings) ruleRoutes(site *web.Site) []web.Route {
	s.rulePage = site.Page("rule.html")
	return []web.Route{
		{Method: "GET", Path: "/policies/rule", Role: web.Operator,
			Does: "the form of a rule or of a limit of a day", Gives: "text/html",
			Query:   []web.Field{web.Required("policy", "name"), web.Optional("rule", "name"), web.Optional("quota", "its place, from 0")},
			Handler: s.showRule},
		{Method: "POST", Path: "/policies/rule", Role: web.Operator,
			Does: "save a rule or a limit of a day; what alters nothing of the last day is saved at once, else a page shows it first", Gives: web.PageOrJSON,
			Form: []web.Field{web.Required("tag", "ETag of the settings"), web.Required("policy", "its place, from 0"), web.Optional("rule", "its place, from 0"), web.Optional("quota", "its place, from 0"),
				web.Optional("action", "monitor | block | warn | allow | redirect | blur | placeholder | limit"), web.Optional("category", "several, one a line"), web.Optional("service", "name of a service; several times"), web.Optional("host", "several, one a line"), web.Optional("text", "the rule as YAML"), web.Optional("from", "yaml | fields"), web.OnTrial},
			Effect:  web.Judged,
			Handler: s.saveRule},
	}
}

// A ruleEdit is a rule, or a limit of a day, in the form.
type ruleEdit struct {
	Tag           string
	Policy        string
	Index         int
	Rule, Quota   int // its place; -1: it is new
	Name          string
	Base          string // its text before the fields of the form changed it
	Text          string // as the box has it
	Tab           string
	Fields        *ruleFields
	Wrong         map[string]string // mistakes by key
	Mistakes      []setting.Mistake // mistakes with the line in the box
	Broken        []unmet
	Effect        *web.Effect
	NoEffect      string
	Checked       string
	Saved         bool
	Minutes       int
	Megabytes     string
	Actions       []ruleAction
	Categories    []choice
	Services      []choice
	Conditions    []ruleKey
	Days          [7]string
	keys          []ruleKey
	original      string
	of            *policy.Policy
	own           int
	path          []any
	sentenceTexts *text.Texts
}

// A choice is something that can be chosen in the form.
type choice struct {
	Value, Name, Icon string
	On                bool
}

// New reports whether it is not in the settings yet.
func (e *ruleEdit) New() bool { return e.Rule < 0 && e.Quota < 0 }

// Sentence is the rule in a sentence.
func (e *ruleEdit) Sentence() []piece { return pieces(e.sentence()) }

func (e *ruleEdit) sentence() string {
	if e.IsLimit() {
		return e.Fields.limitSentence(e.sentenceTexts)
	}
	return e.Fields.sentence(e.sentenceTexts)
}

// Verdict is the colour of the action.
func (e *ruleEdit) Verdict() string { return actionOf(e.Fields.One("action")).Verdict }

// Icon is the drawing of the action.
func (e *ruleEdit) Icon() string {
	if e.IsLimit() {
		return "hourglass"
	}
	return actionOf(e.Fields.One("action")).Icon
}

// Rows are the times, and an empty row for another.
func (e *ruleEdit) Rows() []timeRow {
	return append(slices.Clone(e.Fields.Times), timeRow{To: wholeDay})
}

// More reports whether further conditions are to be seen at once.
func (e *ruleEdit) More() bool {
	for _, k := range e.Conditions {
		if len(e.Fields.Values[k.key]) > 0 || e.Wrong[k.key] != "" {
			return true
		}
	}
	return false
}

// Key and Label are for the form; Long says that there may be several values, one a line.
func (k ruleKey) Key() string   { return k.key }
func (k ruleKey) Label() string { return k.label }
func (k ruleKey) Long() bool    { return k.form == oneALine }

// editOf returns the form of a rule of a policy, as it is in the settings.
func (s *Settings) editOf(v *view, i, rule, quota int, t *text.Texts) (*ruleEdit, error) {
	all, err := s.Policies()
	switch {
	case err != nil:
		return nil, err
	case i < 0 || i >= len(all) || all[i].Of == nil:
		return nil, &web.BadChange{Err: errGone}
	}
	e := &ruleEdit{Tag: v.tag(v.now), Policy: all[i].Name, Index: i, Rule: rule, Quota: quota, Tab: "fields", Wrong: map[string]string{}, keys: ruleKeys, of: all[i].Of, own: all[i].Own(), sentenceTexts: t}
	e.path = []any{"policies", i, "rules", all[i].Own()}
	switch {
	case quota >= 0:
		e.keys, e.path = quotaKeys, []any{"policies", i, "quotas", quota}
	case rule >= 0:
		e.path[3] = rule
	}
	if !e.New() {
		file, err := v.file()
		if err != nil {
			return nil, err
		}
		part, err := file.Part(e.path...)
		if err != nil {
			return nil, &web.BadChange{Err: err}
		}
		e.original = string(part)
	}
	e.Base = e.original
	if e.Fields, err = fieldsIn(e.original, e.keys); err != nil {
		return nil, err
	}
	e.Name = e.Fields.One("name")
	return e, nil
}

// looseText is a text of settings whatever its keys are.
func looseText(data []byte) (*setting.Text, error) {
	var all map[string]any
	return setting.Read("", data, &all)
}

// file is the text that a page shows. It is kept until another one is read.
func (v *view) file() (*setting.Text, error) {
	if kept := v.s.shown.Load(); kept != nil && bytes.Equal(kept.Data(), v.shown) {
		return kept, nil
	}
	file, err := looseText(v.shown)
	if err == nil {
		v.s.shown.Store(file)
	}
	return file, err
}

// read takes what a form says, and returns the text of the rule.
func (e *ruleEdit) read(f url.Values) (string, error) {
	if f.Has("base") {
		e.Base = unix(f.Get("base"))
	}
	if e.New() && f.Get("action") == limitAction {
		e.keys = quotaKeys
	}
	if f.Get("from") == "yaml" {
		e.Tab, e.Text = "yaml", unix(f.Get("text"))
		return e.Text, e.parse(e.Text)
	}
	was, err := fieldsIn(e.Base, e.keys)
	if err != nil {
		return "", err
	}
	is, err := submitted(f, e.keys)
	if err != nil {
		is.Times, e.Fields = was.Times, is
		return "", setting.At("schedule", err)
	}
	is.keepOrder(was)
	for _, k := range e.keys {
		if !f.Has("base") && !f.Has(k.key) { // a program names what it changes
			is.set(k.key, was.Values[k.key])
		}
	}
	if !f.Has("base") && is.Times == nil {
		is.Times = was.Times
	}
	is.Others, e.Fields = was.Others, is
	if e.IsLimit() {
		err = e.readLimit(f, was)
	} else if e.New() && is.One("name") == "" {
		is.set("name", []string{ruleName(is, func(n string) bool { return isRuleOf(e.of, n) })})
	}
	if err != nil {
		return "", err
	}
	return edited(e.Base, was, is, e.keys)
}

// IsLimit reports whether it is a limit of a day.
func (e *ruleEdit) IsLimit() bool { return len(e.keys) == len(quotaKeys) }

// readLimit reads minutes and megabytes. A value that is the same as before stays as it was written.
func (e *ruleEdit) readLimit(f url.Values, was *ruleFields) error {
	amount := func(field string, most int) (int, error) {
		if strings.TrimSpace(f.Get(field)) == "" {
			return 0, nil
		}
		n, err := strconv.Atoi(strings.TrimSpace(f.Get(field)))
		if err != nil || n < 0 || n > most {
			return 0, setting.At(field, fmt.Errorf("%q is not a number from 0 to %d", f.Get(field), most))
		}
		return n, nil
	}
	minutes, err := amount("minutes", wholeDay)
	if err != nil {
		return err
	}
	megabytes, err := amount("megabytes", 1e9)
	if err != nil {
		return err
	}
	if e.Fields.set("time", nil); minutes > 0 {
		e.Fields.set("time", []string{fmt.Sprintf("%dm", minutes)})
	}
	if e.Fields.set("bytes", nil); megabytes > 0 {
		e.Fields.set("bytes", []string{fmt.Sprintf("%dMB", megabytes)})
	}
	if minutesOf(was.One("time")) == minutes {
		e.Fields.set("time", was.Values["time"])
	}
	if megabytesOf(was.One("bytes")) == megabytes {
		e.Fields.set("bytes", was.Values["bytes"])
	}
	if minutes == 0 && megabytes == 0 && e.Fields.One("time") == "" && e.Fields.One("bytes") == "" {
		return setting.At("minutes", errors.New("choose minutes or megabytes a day, or both"))
	}
	return nil
}

// minutesOf returns a time of the settings in minutes, 0 for none and for what is none.
func minutesOf(s string) int {
	var d setting.Duration
	if s == "" || d.UnmarshalText([]byte(s)) != nil {
		return 0
	}
	return int(d.Or(0) / time.Minute)
}

// megabytesOf returns a size of the settings in megabytes, 0 for none and for what is none.
func megabytesOf(s string) int {
	var n policy.Size
	if s == "" || n.UnmarshalText([]byte(s)) != nil {
		return 0
	}
	return int((int64(n) + 999_999) / 1e6)
}

// edited returns the text of a rule with other fields. What the form does not know stays, with comments
// and order.
func edited(base string, was, is *ruleFields, keys []ruleKey) (string, error) {
	changes, err := was.changes([]any{"rule"}, is, keys)
	if err != nil {
		return "", err
	}
	if len(changes) == 0 {
		return base, nil
	}
	if strings.TrimSpace(base) != "" {
		changes = append([]setting.Change{{Path: []any{"rule"}, Value: setting.Snippet(base)}}, changes...)
	}
	all, err := setting.Edit(nil, changes...)
	if err != nil {
		return "", err
	}
	file, err := looseText(all)
	if err != nil {
		return "", err
	}
	part, err := file.Part("rule")
	return string(part), err
}

// parse reads the box. Mistakes have their lines in it.
func (e *ruleEdit) parse(box string) error {
	var err error
	if e.IsLimit() {
		_, err = setting.Read("", []byte(box), &policy.Quota{})
	} else {
		_, err = setting.Read("", []byte(box), &policy.Rule{})
	}
	if err != nil {
		return err
	}
	if e.Fields, err = fieldsIn(box, e.keys); err != nil {
		return err
	}
	return nil
}

func unix(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return s
}

// changes returns how the settings have to change for the text of the rule.
func (e *ruleEdit) changes(v *view, snippet string) ([]setting.Change, error) {
	if e.New() {
		return e.additions(v, snippet)
	}
	if snippet == e.original {
		return nil, nil
	}
	if e.Tab == "fields" && e.Base == e.original {
		was, err := fieldsIn(e.original, e.keys)
		if err != nil {
			return nil, err
		}
		return was.changes(e.path, e.Fields, e.keys)
	}
	return []setting.Change{{Path: e.path, Value: setting.Snippet(snippet)}}, nil
}

// additions returns the changes for a new rule, or a new limit: a policy that has limits of its own has
// none of its base, so these are taken over.
func (e *ruleEdit) additions(v *view, snippet string) ([]setting.Change, error) {
	if !e.IsLimit() {
		return []setting.Change{{Path: e.path, Value: setting.Snippet(snippet)}}, nil
	}
	file, err := v.file()
	if err != nil {
		return nil, err
	}
	var all []setting.Change
	path := []any{"policies", e.Index, "quotas"}
	if !file.Has(fmt.Sprintf("policies[%d].quotas", e.Index)) {
		for i, q := range e.of.Quotas {
			all = append(all, setting.Change{Path: append(slices.Clone(path), i), Value: q})
		}
	}
	return append(all, setting.Change{Path: append(path, len(e.of.Quotas)), Value: setting.Snippet(snippet)}), nil
}

// showRule shows the form of a rule.
func (s *Settings) showRule(w http.ResponseWriter, r *http.Request) {
	v, err := s.view(r)
	if err == nil && !bytes.Equal(v.inUse(), v.now) {
		err = errNotInUse
	}
	var e *ruleEdit
	if err == nil {
		e, err = s.asked(v, r.URL.Query(), web.TextsOf(w))
	}
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	if e.New() {
		action := cmp.Or(r.URL.Query().Get("action"), actions[0].Action)
		if action == limitAction {
			e.keys = quotaKeys
		}
		e.Fields.set("action", []string{action})
	}
	e.write(w, s, http.StatusOK)
}

// asked returns the rule that a link names.
func (s *Settings) asked(v *view, q url.Values, t *text.Texts) (*ruleEdit, error) {
	all, err := s.Policies()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p PolicyView) bool { return p.Name == q.Get("policy") })
	if i < 0 {
		return nil, &web.BadChange{Err: errGone}
	}
	rule, quota := -1, -1
	if name := q.Get("rule"); name != "" {
		rule = slices.IndexFunc(all[i].Rules, func(r RuleView) bool { return r.Name == name && r.From == "" })
		if rule < 0 {
			return nil, &web.BadChange{Err: errGone}
		}
	}
	if q.Has("quota") {
		quota = place(q, "quota", len(all[i].Quotas))
		if quota < 0 {
			return nil, &web.BadChange{Err: errGone}
		}
	}
	return s.editOf(v, i, rule, quota, t)
}

// saveRule saves what the form of a rule says, shows its effect, or shows its other form.
func (s *Settings) saveRule(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRuleForm)
	v, err := s.view(r)
	if err == nil {
		err = r.ParseForm()
	}
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	f := r.PostForm
	rule, quota := -1, -1
	if f.Get("rule") != "" {
		rule = place(f, "rule", 1<<16)
	}
	if f.Get("quota") != "" {
		quota = place(f, "quota", 1<<16)
	}
	switch {
	case f.Get("tag") != v.tag(v.now):
		err = web.ErrChanged
	case !bytes.Equal(v.inUse(), v.now):
		err = errNotInUse
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusPreconditionFailed)
		return
	}
	e, err := s.editOf(v, place(f, "policy", 1<<16), rule, quota, web.TextsOf(w))
	if err == nil && rule >= e.own {
		err = &web.BadChange{Err: errGone}
	}
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	e.submit(w, r, v)
}

// submit answers the form of a rule.
func (e *ruleEdit) submit(w http.ResponseWriter, r *http.Request, v *view) {
	s, f := v.s, r.PostForm
	snippet, err := e.read(f)
	page := web.IsPage(r)
	if tab := f.Get("tab"); page && tab != "" {
		web.ChangedNothing(w)
		if err == nil || tab == "yaml" {
			e.Tab = tab
		}
		if e.Base, e.Text = snippet, snippet; err != nil {
			e.Base, e.Text = unix(f.Get("base")), unix(f.Get("text"))
			e.fail(err)
		}
		e.write(w, s, http.StatusOK)
		return
	}
	var changes []setting.Change
	if err == nil {
		changes, err = e.changes(v, snippet)
	}
	if e.Text == "" {
		e.Text = snippet
	}
	if err == nil && page && web.DryRun(r.Form) {
		web.ChangedNothing(w)
		err = e.foretell(r, v, changes)
		e.Checked = web.FormTag(r)
		if err == nil {
			e.write(w, s, http.StatusOK)
			return
		}
	}
	if err == nil {
		then := "/policies?" + url.Values{"name": {e.Policy}}.Encode()
		err = v.apply(w, r, &ruleChange{Changes: changes, Why: e.why(), What: plainSentence(e.sentence()), Then: then})
	}
	if err == nil {
		return
	}
	web.ChangedNothing(w)
	if !page {
		writeMistakes(w, err)
		return
	}
	e.fail(err)
	status := http.StatusUnprocessableEntity
	if web.DryRun(r.Form) {
		status = http.StatusOK
	}
	e.write(w, s, status)
}

// foretell fills in the effect of changes.
func (e *ruleEdit) foretell(r *http.Request, v *view, changes []setting.Change) error {
	all, err := setting.Edit(v.shown, changes...)
	if err != nil {
		return err
	}
	real, err := v.check(r, all)
	if err != nil {
		return err
	}
	if e.Effect, err = v.s.effect(r.Context(), web.Trial{Text: real}); err != nil {
		e.NoEffect = v.redact(err).Error()
	}
	return nil
}

func (e *ruleEdit) why() string {
	name := cmp.Or(e.Fields.One("name"), e.Name)
	switch {
	case e.IsLimit():
		return "a limit of " + e.Policy
	case e.New():
		return fmt.Sprintf("the new rule %s of %s", name, e.Policy)
	}
	return fmt.Sprintf("the rule %s of %s", name, e.Policy)
}

// writeMistakes answers a program.
func writeMistakes(w http.ResponseWriter, err error) {
	d := settingsData{}
	status := d.fail(err)
	if d.Mistakes != nil {
		web.WriteJSON(w, status, web.ChangeResult{Mistakes: d.Mistakes})
		return
	}
	http.Error(w, d.Error, status)
}

// inRule matches the key of a mistake in a rule or a limit of the settings.
var inRule = regexp.MustCompile(`^policies\[(\d+)\]\.(rules|quotas)\[(\d+)\]\.?(.*)$`)

// mistakesIn returns the mistakes that an error has, each with its key.
func mistakesIn(err error) (all setting.Mistakes) {
	var at *setting.Error
	switch {
	case errors.As(err, &all):
	case errors.As(err, &at):
		all = setting.Mistakes{{Key: at.Key, Text: at.Err.Error()}}
	default:
		all = setting.Mistakes{{Text: err.Error()}}
	}
	return all
}

// fail shows mistakes beside their fields and lines.
func (e *ruleEdit) fail(err error) {
	if e.Broken = unmetIn(err); e.Broken != nil {
		return
	}
	box, _ := looseText([]byte(e.Text)) // without it, the box itself has the mistake
	for _, m := range mistakesIn(err) {
		if in := inRule.FindStringSubmatch(m.Key); in != nil {
			if m.Key, m.Line = in[4], 0; box != nil {
				m.Line = max(1, box.Line(m.Key))
			}
		}
		field, _, _ := strings.Cut(m.Key, "[")
		field, _, _ = strings.Cut(field, ".")
		if field == "time" || field == "bytes" {
			field = map[string]string{"time": "minutes", "bytes": "megabytes"}[field]
		}
		if e.Wrong[field] == "" {
			e.Wrong[field] = m.Text
		}
		e.Mistakes = append(e.Mistakes, m)
	}
}

// shown are the keys with a field of their own; a mistake elsewhere stands above the form.
var shown = []string{"name", "action", "category", "service", "host", "except", "unless", "to", "text", "schedule", "minutes", "megabytes"}

// Elsewhere returns the mistakes that no field of the form shows.
func (e *ruleEdit) Elsewhere() (all []string) {
	for key, says := range e.Wrong {
		if !slices.Contains(shown, key) && !slices.ContainsFunc(ruleKeys, func(k ruleKey) bool { return k.key == key && k.label != "" }) {
			all = append(all, says)
		}
	}
	slices.Sort(all)
	return all
}

// write answers with the form.
func (e *ruleEdit) write(w http.ResponseWriter, s *Settings, status int) {
	t := e.sentenceTexts
	e.Actions = actions
	switch {
	case e.IsLimit() && !e.New():
		e.Actions = nil
	case !e.New():
		e.Actions = actions[:len(actions)-1]
	}
	if e.IsLimit() && e.New() {
		e.Fields.set("action", []string{limitAction})
	}
	e.Minutes = minutesOf(e.Fields.One("time"))
	if n := megabytesOf(e.Fields.One("bytes")); n > 0 {
		e.Megabytes = strconv.Itoa(n)
	}
	if e.Text == "" {
		e.Text = e.original
	}
	e.Categories = s.categoryChoices(t, e.Fields.Values["category"])
	for _, x := range service.All() {
		e.Services = append(e.Services, choice{x.ID, x.Name, "", slices.ContainsFunc(e.Fields.Values["service"], func(id string) bool { return strings.EqualFold(id, x.ID) })})
	}
	slices.SortStableFunc(e.Services, func(a, b choice) int { return rank(a) - rank(b) })
	for _, k := range ruleKeys {
		if k.label != "" {
			e.Conditions = append(e.Conditions, k)
		}
	}
	for d := range e.Days {
		e.Days[d] = t.Say([...]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}[d])
	}
	web.WritePage(w, s.rulePage, status, e)
}

// categoryChoices are the categories that lists and checks know, and those of a rule. Categories whose
// name is translated come first.
func (s *Settings) categoryChoices(t *text.Texts, on []string) (all []choice) {
	known := slices.Clone(on)
	if s.Categories != nil {
		known = append(known, s.Categories()...)
	}
	for i, c := range known {
		if slices.ContainsFunc(all, func(x choice) bool { return strings.EqualFold(x.Value, c) }) {
			continue
		}
		x := choice{Value: c, Name: categoryName(t, c), Icon: "list", On: i < len(on)}
		for _, k := range kinds {
			if strings.EqualFold(k.kind, c) {
				x.Icon = k.icon
			}
		}
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b choice) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)))
	})
	return all
}

// rank puts what is chosen before what has a name, and that before the rest.
func rank(c choice) int {
	switch {
	case c.On:
		return 0
	case !strings.EqualFold(c.Name, c.Value):
		return 1
	}
	return 2
}
