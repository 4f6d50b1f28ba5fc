package settings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/policy/schedule"
	"shuultuur/text"
)

// A PolicyView is a policy as the page shows it.
type PolicyView struct {
	Name   string     `json:"name"`
	Base   string     `json:"base,omitempty"`
	Whom   []string   `json:"whom,omitempty"`
	Says   []string   `json:"says,omitempty"` // other keys
	Quotas []string   `json:"quotas,omitempty"`
	Rules  []RuleView `json:"rules"` // in order: its own, then those of its base
	// Of is the policy itself, with what it has from its base.
	Of *policy.Policy `json:"-"`
	Times

	limits []*ruleFields // quotas
}

// Own returns how many rules the policy itself has. Those of its base follow.
func (p PolicyView) Own() int {
	if i := slices.IndexFunc(p.Rules, func(r RuleView) bool { return r.From != "" }); i >= 0 {
		return i
	}
	return len(p.Rules)
}

// A RuleView is a rule as the page shows it.
type RuleView struct {
	Name   string   `json:"name"`
	Action string   `json:"action"`
	When   []string `json:"when"`
	From   string   `json:"from,omitempty"` // the policy whose rule it is, if that is a base
	Off    bool     `json:"off,omitempty"`  // the rule is switched off, or without an action switches that of the base off
	Times
	Sentence string `json:"sentence,omitempty"`
	Text     string `json:"-"` // its text in the settings

	fields *ruleFields
}

// Times shows when a policy or a rule applies.
type Times struct {
	Schedule policy.Schedule        `json:"-"`
	Week     *[7][]schedule.Stretch `json:"week,omitempty"`  // from Monday on; nil: always
	Dates    []string               `json:"dates,omitempty"` // dates on which windows apply, or do not
}

// NewTimes draws a schedule.
func NewTimes(s policy.Schedule) Times {
	if len(s) == 0 {
		return Times{}
	}
	week, err := s.Week()
	if err != nil {
		return Times{Schedule: s} // cannot fail: the settings in use have no mistakes
	}
	t := Times{Schedule: s, Week: &week}
	for _, w := range s {
		if w.Dates != "" && !slices.Contains(t.Dates, w.Dates) {
			t.Dates = append(t.Dates, w.Dates)
		}
	}
	return t
}

// policyRoutes returns the routes about policies.
//
//	GET /policies         policies and rules; HTML for browsers, else JSON;
//	                      name=NAME: the page shows the rules of this one
//	POST /policies        tag=ETAG&policy=I and what=move&rule=J&to=K,
//	                      what=edit&rule=J&text=YAML, what=add&text=YAML,
//	                      what=remove&rule=J, what=first&to=K (a policy moves),
//	                      what=window[&rule=J]&day=mon…&from=8:00&until=16:00,
//	                      what=always[&rule=J], what=off&rule=J (also one of
//	                      the base), what=on&rule=J, what=unlimit&quota=J,
//	                      what=drop (the policy goes), what=undo&saved=ID
func (s *Settings) policyRoutes(site *web.Site) []web.Route {
	s.rulesPage = site.Page("policies.html")
	return []web.Route{
		{Method: "GET", Path: "/policies", Role: web.Viewer,
			Link: web.LinkIn(web.Rules, text.Mark("Rules")),
			Does: "policies and rules in use", Query: []web.Field{web.Optional("name", "name"), web.Optional("view", "sentences | week")}, Gives: web.PageOrJSON,
			Handler: s.showRules},
		{Method: "POST", Path: "/policies", Role: web.Operator,
			Does: "move, edit, add or remove a rule, or change times; what alters nothing of the last day is saved at once, else a page shows it first", Gives: web.PageOrJSON, Form: []web.Field{web.Required("tag", "ETag of the settings"), web.Required("policy", "its place, from 0"), web.Required("what", "first | move | edit | add | remove | window | always | off | on | unlimit | drop | undo"), web.Optional("rule", "its place, from 0"), web.Optional("quota", "its place, from 0"), web.Optional("saved", "identifier"), web.Optional("to", "new place, from 0"), web.Optional("text", "the rule as YAML"), web.Optional("day", "mon to sun; several times"), web.Optional("from", "hour"), web.Optional("until", "hour"), web.OnTrial},
			Effect: web.Judged,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				s.editPolicies(w, r)
			}},
	}
}

// tagFor returns the tag of the settings for the forms of a page, "" if its reader may not edit them.
// It is read before the policies: a page with policies after it is refused, not taken for another.
func (s *Settings) tagFor(r *http.Request) string {
	if !web.IsPage(r) || web.UserOf(r).Role < account.Operator {
		return ""
	}
	v, err := s.view(r)
	if err != nil {
		return ""
	}
	return v.tag(v.inUse())
}

// formOf reads the form of a page about policies, which names the text that it was made for. It
// answers if it returns nil.
func (s *Settings) formOf(w http.ResponseWriter, r *http.Request) *view {
	r.Body = http.MaxBytesReader(w, r.Body, maxRuleForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	v, err := s.view(r)
	switch {
	case err != nil:
		http.Error(w, err.Error(), web.StatusOf(err))
		return nil
	case r.PostForm.Get("tag") != v.tag(v.now):
		http.Error(w, web.ErrChanged.Error(), http.StatusPreconditionFailed)
		return nil
	case !bytes.Equal(v.inUse(), v.now):
		http.Error(w, errNotInUse.Error(), http.StatusPreconditionFailed)
		return nil
	}
	return v
}

// edit makes the changes of a form. The page of the policy called name follows.
func (s *Settings) edit(w http.ResponseWriter, r *http.Request, page string, changes func(url.Values) (all []setting.Change, name, why string, err error)) {
	v := s.formOf(w, r)
	if v == nil {
		return
	}
	c, name, why, err := changes(r.PostForm)
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	v.change(w, r, why, page+"?"+url.Values{"name": {name}}.Encode(), c)
}

// editPolicies makes the changes of a form of the page of the rules. Mistakes stand above it.
func (s *Settings) editPolicies(w http.ResponseWriter, r *http.Request) {
	v := s.formOf(w, r)
	if v == nil {
		return
	}
	f := r.PostForm
	var name string
	var err error
	if f.Get("what") == "undo" {
		name = f.Get("name")
		err = v.undo(w, r, f.Get("saved"), "/policies?"+url.Values{"name": {name}}.Encode())
	} else {
		var c setting.Change
		var why string
		if c, name, why, err = s.policyChange(f); err == nil {
			then := "/policies?" + url.Values{"name": {name}}.Encode()
			switch f.Get("what") {
			case "drop":
				then = "/policies"
			case "move":
				then += "&moved=" + url.QueryEscape(f.Get("to"))
			}
			err = v.apply(w, r, &ruleChange{Changes: []setting.Change{c}, Why: why, Then: then})
		}
	}
	switch {
	case err == nil:
	case web.IsPage(r):
		web.ChangedNothing(w)
		d := settingsData{}
		s.writeRules(w, r, d.fail(err), name, err)
	default:
		writeMistakes(w, err)
	}
}

var dayNames = [7]string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// policyChange returns the change that a form of the page requests, and of which policy.
func (s *Settings) policyChange(f url.Values) (c setting.Change, name, why string, err error) {
	all, err := s.Policies()
	if err != nil {
		return c, "", "", err
	}
	number := func(key string, most int) int {
		n, bad := strconv.Atoi(f.Get(key))
		if bad != nil || n < 0 || n > most {
			err = cmp.Or(err, error(&web.BadChange{Err: fmt.Errorf("%s=%q: give 0 to %d", key, f.Get(key), most)}))
			return 0
		}
		return n
	}
	i := number("policy", len(all)-1)
	if err != nil {
		return c, "", "", err
	}
	p := all[i]
	own := p.Own()
	rule := func() int { return number("rule", own-1) }
	rules := []any{"policies", i, "rules"}
	switch what := f.Get("what"); what {
	case "first":
		c = setting.Change{Path: []any{"policies", i}, Move: true, To: number("to", len(all)-1)}
		why = "policy " + p.Name + " moves"
	case "move":
		j := rule()
		c = setting.Change{Path: append(rules, j), Move: true, To: number("to", own-1)}
		why = "a rule of " + p.Name + " moves"
	case "edit":
		j := rule()
		c = setting.Change{Path: append(rules, j), Value: setting.Snippet(strings.ReplaceAll(f.Get("text"), "\r\n", "\n"))}
		why = "a rule of " + p.Name + " changes"
	case "add":
		c = setting.Change{Path: append(rules, own), Value: setting.Snippet(strings.ReplaceAll(f.Get("text"), "\r\n", "\n"))}
		why = "a new rule of " + p.Name
	case "remove":
		c = setting.Change{Path: append(rules, rule()), Remove: true}
		why = "a rule of " + p.Name + " goes"
	case "unlimit":
		c = setting.Change{Path: []any{"policies", i, "quotas", number("quota", len(p.Quotas)-1)}, Remove: true}
		why = "a limit of " + p.Name + " goes"
	case "drop":
		c = setting.Change{Path: []any{"policies", i}, Remove: true}
		why = "the policy " + p.Name + " goes"
	case "off", "on":
		j := number("rule", len(p.Rules)-1)
		if err != nil {
			return c, "", "", err
		}
		c = switched(rules, p.Rules, j, own, what == "off")
		why = fmt.Sprintf("the rule %s of %s is %s", p.Rules[j].Name, p.Name, what)
	case "window", "always":
		path, was := []any{"policies", i, "schedule"}, p.Schedule
		if f.Get("rule") != "" {
			j := rule()
			if err != nil {
				return c, "", "", err
			}
			path, was = append(rules, j, "schedule"), p.Rules[j].Schedule
		}
		why = "the times of " + p.Name + " change"
		if c = (setting.Change{Path: path, Remove: true}); what == "always" {
			break
		}
		var window policy.Window
		if window, err = windowIn(f); err == nil {
			c = setting.Change{Path: path, Value: append(append(policy.Schedule{}, was...), window)}
		}
	default:
		err = &web.BadChange{Err: fmt.Errorf("what=%q is not known", what)}
	}
	return c, p.Name, why, err
}

// switched returns the change that switches rule j off or on. The rules from own on are those of
// the base.
func switched(rules []any, all []RuleView, j, own int, off bool) setting.Change {
	switch r := all[j]; {
	case off && r.From != "":
		return setting.Change{Path: append(rules, own), Value: setting.Snippet(fmt.Sprintf("{name: %q, off: true}", r.Name))}
	case off:
		return setting.Change{Path: append(rules, j, "off"), Value: true}
	case r.Action == "": // it is there for nothing else
		return setting.Change{Path: append(rules, j), Remove: true}
	default:
		return setting.Change{Path: append(rules, j, "off"), Remove: true}
	}
}

// windowIn reads days and hours.
func windowIn(f url.Values) (w policy.Window, err error) {
	w.Days = strings.Join(f["day"], ",")
	if len(f["day"]) == len(dayNames) {
		w.Days = ""
	}
	if from, until := f.Get("from"), f.Get("until"); from != "" || until != "" {
		w.Hours = cmp.Or(from, "00:00") + "-" + cmp.Or(until, "24:00")
	}
	if w == (policy.Window{}) && len(f["day"]) == 0 {
		return w, &web.BadChange{Err: errors.New("choose days, hours, or both")}
	}
	if _, err := (policy.Schedule{w}).Week(); err != nil {
		return w, &web.BadChange{Err: err}
	}
	return w, nil
}
