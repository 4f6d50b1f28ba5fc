package settings

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/text"
)

// groupKeys are the keys of a policy that its form knows.
var groupKeys = []ruleKey{
	{"name", oneWord, ""}, {"base", oneWord, ""},
	{"networks", names, ""}, {"users", oneALine, ""}, {"groups", oneALine, ""},
	{"safesearch", yesOrNo, ""}, {"youtube", oneWord, ""},
}

// maxExpectRows bounds the rows of a form.
const maxExpectRows = 1000

// groupRoutes returns the routes about whom a policy is for.
//
//	GET /policies/group    the form of a policy: name=NAME, or of a new one
//	POST /policies/group   tag=ETAG, policy=I for one that is there, its keys as fields, and
//	                       expectations as url.N, is.N, as.N, at.N
func (s *Settings) groupRoutes(site *web.Site) []web.Route {
	s.groupPage = site.Page("group.html")
	return []web.Route{
		{Method: "GET", Path: "/policies/group", Role: web.Operator,
			Does: "the form of a policy: whom it is for, what it builds on, what is expected", Gives: "text/html", Query: []web.Field{web.Optional("name", "name")},
			Handler: func(w http.ResponseWriter, r *http.Request) {
				v, err := s.view(r)
				var e *groupEdit
				if err == nil {
					e, err = s.groupOf(v, r.URL.Query().Get("name"), web.TextsOf(w))
				}
				if err != nil {
					http.Error(w, err.Error(), web.StatusOf(err))
					return
				}
				web.WritePage(w, s.groupPage, http.StatusOK, e)
			}},
		{Method: "POST", Path: "/policies/group", Role: web.Operator,
			Does: "save a policy, or add one; what alters nothing of the last day is saved at once, else a page shows it first", Gives: web.PageOrJSON,
			Form: []web.Field{web.Required("tag", "ETag of the settings"), web.Optional("policy", "its place, from 0"), web.Optional("name", "name"), web.Optional("base", "name"), web.Optional("networks", "several, one a line"), web.Optional("users", "several, one a line"), web.Optional("groups", "several, one a line"),
				web.Optional("safesearch", "true | false"), web.Optional("youtube", "off | moderate | strict"), web.OnTrial},
			Effect:  web.Judged,
			Handler: s.saveGroup},
	}
}

// A groupEdit is a policy in its form.
type groupEdit struct {
	Tag    string
	Index  int // -1: it is new
	Name   string
	Bases  []string // policies that it may build on
	Fields *ruleFields
	Expect []policy.Expectation
	Wrong  map[string]string
	Broken []unmet
	Above  []string // mistakes that no field shows
	Days   [7]string
	path   []any
	shown  []byte // the text of the settings
	was    *ruleFields
	of     *policy.Policy
}

// Rows are the times, and an empty row for another.
func (e *groupEdit) Rows() []timeRow {
	return append(slices.Clone(e.Fields.Times), timeRow{To: wholeDay})
}

// Expected are the expectations, and an empty row for another.
func (e *groupEdit) Expected() []policy.Expectation {
	return append(slices.Clone(e.Expect), policy.Expectation{Is: "block"})
}

// YouTube and Verdicts are the values of their fields.
func (*groupEdit) YouTube() []string  { return []string{"off", "moderate", "strict"} }
func (*groupEdit) Verdicts() []string { return []string{"block", "pass", "warn", "redirect"} }

// Example is a time as expectations have it.
func (*groupEdit) Example() string { return "mon 10:30" }

// New reports whether the policy is not in the settings yet.
func (e *groupEdit) New() bool { return e.Index < 0 }

// groupOf returns the form of a policy, or of a new one.
func (s *Settings) groupOf(v *view, name string, t *text.Texts) (*groupEdit, error) {
	all, err := s.Policies()
	if err != nil {
		return nil, err
	}
	e := &groupEdit{Tag: v.tag(v.now), Index: -1, Name: name, Wrong: map[string]string{}, Fields: &ruleFields{Values: url.Values{}}, path: []any{"policies", len(all)}}
	for i := range all {
		if all[i].Name == name {
			e.Index, e.of = i, all[i].Of
		} else {
			e.Bases = append(e.Bases, all[i].Name)
		}
	}
	for d := range e.Days {
		e.Days[d] = t.Say([...]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}[d])
	}
	switch {
	case e.New() && name != "":
		return nil, &web.BadChange{Err: errGone}
	case e.New():
		if len(e.Bases) > 0 { // a new group is never laxer by accident
			e.Fields.set("base", []string{e.Bases[len(e.Bases)-1]})
		}
		e.was = &ruleFields{Values: url.Values{}}
		return e, nil
	case !bytes.Equal(v.inUse(), v.now) || e.of == nil:
		return nil, errNotInUse
	}
	file, err := v.file()
	if err != nil {
		return nil, err
	}
	e.path[1] = e.Index
	part, err := file.Part(e.path...)
	if err != nil {
		return nil, err
	}
	e.was, err = fieldsIn(string(part), groupKeys)
	if err != nil {
		return nil, err
	}
	e.was.Others = slices.DeleteFunc(e.was.Others, func(k string) bool { return k == "rules" || k == "quotas" || k == "expect" })
	e.Fields, e.Expect, e.shown = e.was, e.of.Expect, v.shown
	return e, nil
}

// saveGroup saves a policy.
func (s *Settings) saveGroup(w http.ResponseWriter, r *http.Request) {
	v := s.formOf(w, r)
	if v == nil {
		return
	}
	f := r.PostForm
	all, err := s.Policies()
	name := ""
	if i := place(f, "policy", len(all)); err == nil && i >= 0 {
		name = all[i].Name
	}
	var e *groupEdit
	if err == nil {
		e, err = s.groupOf(v, name, web.TextsOf(w))
	}
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	changes, err := e.read(f, all)
	if err == nil {
		why := "the policy " + e.Name
		then := "/policies?" + url.Values{"name": {e.Name}}.Encode()
		err = v.apply(w, r, &ruleChange{Changes: changes, Why: why, Then: then})
	}
	if err == nil {
		return
	}
	web.ChangedNothing(w)
	if !web.IsPage(r) {
		writeMistakes(w, err)
		return
	}
	e.fail(err)
	web.WritePage(w, s.groupPage, http.StatusUnprocessableEntity, e)
}

// rename adds the changes that give the policy another name, wherever the settings name it.
func (e *groupEdit) rename(changes []setting.Change, to string, all []PolicyView) ([]setting.Change, error) {
	switch {
	case to == "":
		return nil, setting.At("name", errors.New("give the group a name"))
	case slices.ContainsFunc(all, func(p PolicyView) bool { return p.Name != e.Name && strings.EqualFold(p.Name, to) }):
		return nil, setting.At("name", fmt.Errorf("there is a policy %q already", to))
	}
	text, err := setting.Edit(e.shown, changes...)
	if err != nil {
		return nil, err
	}
	more, err := renamePolicy(text, e.Index, e.Name, to)
	if err != nil {
		return nil, err
	}
	e.Name = to
	return append(changes, more...), nil
}

// read takes what the form says, and returns the changes. A program names only what it changes.
func (e *groupEdit) read(f url.Values, all []PolicyView) ([]setting.Change, error) {
	is, err := submitted(f, groupKeys)
	if err != nil {
		return nil, setting.At("schedule", err)
	}
	for _, k := range groupKeys {
		if !f.Has(k.key) {
			is.set(k.key, e.was.Values[k.key])
		}
	}
	if !f.Has("times") {
		is.Times = e.was.Times
	}
	is.Others, e.Fields = e.was.Others, is
	was := e.Expect
	if f.Has("url.0") {
		e.Expect = expectationsIn(f)
	}
	if !e.New() {
		to := is.One("name")
		is.set("name", e.was.Values["name"])
		changes, err := e.was.changes(e.path, is, groupKeys)
		changes = append(changes, expectChanges(e.path, was, e.Expect)...)
		if err != nil || to == e.Name {
			return changes, err
		}
		return e.rename(changes, to, all)
	}
	if e.Name = is.One("name"); e.Name == "" {
		return nil, setting.At("name", errors.New("give the group a name"))
	}
	if slices.ContainsFunc(all, func(p PolicyView) bool { return strings.EqualFold(p.Name, e.Name) }) {
		return nil, setting.At("name", fmt.Errorf("there is a policy %q already", e.Name))
	}
	changes, err := e.was.changes(e.path, is, groupKeys)
	if err != nil {
		return nil, err
	}
	changes = append(changes, expectChanges(e.path, nil, e.Expect)...)
	if to := before(all, is.One("base")); to < len(all) {
		changes = append(changes, setting.Change{Path: e.path, Move: true, To: to})
	}
	return changes, nil
}

// before returns the place of a new policy: before the one that it builds on, and before the first that
// covers everybody, since no later one is ever asked.
func before(all []PolicyView, base string) int {
	for i := range all {
		if all[i].Name == base || len(all[i].Whom) == 0 {
			return i
		}
	}
	return len(all)
}

// expectationsIn reads the rows of a form.
func expectationsIn(f url.Values) (all []policy.Expectation) {
	for i := range maxExpectRows {
		n := "." + strconv.Itoa(i)
		if !f.Has("url" + n) {
			break
		}
		if urls := valuesOf(f["url"+n], names); len(urls) > 0 {
			all = append(all, policy.Expectation{URL: urls, Is: f.Get("is" + n), As: strings.TrimSpace(f.Get("as" + n)), At: strings.TrimSpace(f.Get("at" + n))})
		}
	}
	return all
}

// expectChanges returns the changes of the expectations of a policy at a path. Those that are the same stay
// as they are written.
func expectChanges(path []any, was, is []policy.Expectation) (all []setting.Change) {
	same := func(a, b policy.Expectation) bool {
		return slices.Equal(a.URL, b.URL) && a.Is == b.Is && a.As == b.As && a.At == b.At
	}
	if slices.EqualFunc(was, is, same) {
		return nil
	}
	path = append(slices.Clone(path), "expect")
	if len(is) == 0 {
		return []setting.Change{{Path: path, Remove: true}}
	}
	if n := len(was); n > 0 && len(is) > n && slices.EqualFunc(was, is[:n], same) {
		for i, x := range is[n:] {
			all = append(all, setting.Change{Path: append(slices.Clone(path), n+i), Value: expectValue(x)})
		}
		return all
	}
	var values []any
	for _, x := range is {
		values = append(values, expectValue(x))
	}
	return []setting.Change{{Path: path, Value: values}}
}

// expectValue is an expectation as the settings have it.
func expectValue(x policy.Expectation) any {
	v := map[string]any{"is": x.Is, "url": []string(x.URL)}
	if len(x.URL) == 1 {
		v["url"] = x.URL[0]
	}
	if x.As != "" {
		v["as"] = x.As
	}
	if x.At != "" {
		v["at"] = x.At
	}
	return v
}

// fail shows mistakes beside their fields.
func (e *groupEdit) fail(err error) {
	if e.Broken = unmetIn(err); e.Broken != nil {
		return
	}
	for _, m := range mistakesIn(err) {
		_, field, ok := strings.Cut(m.Key, "].")
		if !ok {
			field = m.Key
		}
		field, _, _ = strings.Cut(field, "[")
		field, _, _ = strings.Cut(field, ".")
		if !slices.ContainsFunc(groupKeys, func(k ruleKey) bool { return k.key == field }) && field != "schedule" && field != "expect" {
			e.Above = append(e.Above, m.Text)
		} else if e.Wrong[field] == "" {
			e.Wrong[field] = m.Text
		}
	}
}
