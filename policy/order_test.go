package policy

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// A drawnOrder is a random policy with checks, and a request to judge by it.
type drawnOrder struct {
	rules  []Rule
	checks []filter.Check
	by     map[string]*fake        // check, by category
	at     map[string]filter.Stage // of each category that is found
	page   page
}

var allStages = []filter.Stage{filter.Name, filter.Request, filter.RequestBody, filter.Response, filter.ResponseBody}

func drawOrder(rt *rapid.T) *drawnOrder {
	d := &drawnOrder{by: map[string]*fake{}, at: map[string]filter.Stage{}}
	d.page = page{
		method:   rapid.SampledFrom([]string{"GET", "POST", "DELETE"}).Draw(rt, "method"),
		upload:   rapid.Bool().Draw(rt, "upload"),
		response: []string{"Content-Type", "text/html", "Content-Disposition", "attachment; filename=a.exe"},
	}
	var known []string
	for i := range rapid.IntRange(1, 4).Draw(rt, "checks") {
		f := &fake{name: fmt.Sprint("check", i), finds: map[filter.Stage][]filter.Finding{}}
		for j, s := range rapid.SliceOfNDistinct(rapid.SampledFrom(allStages), 1, 3, rapid.ID).Draw(rt, "stages") {
			name := fmt.Sprintf("c%d.%d", i, j)
			known = append(known, name)
			d.by[name] = f
			f.known = append(f.known, filter.Category{Name: name})
			f.wants = append(f.wants, s)
			if rapid.Bool().Draw(rt, "found") {
				if s != filter.RequestBody || d.page.upload {
					d.at[name] = s
				}
				f.finds[s] = append(f.finds[s], filter.Finding{Check: f.name, Category: name})
			}
		}
		d.checks = append(d.checks, f)
	}
	some := func(least int, label string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(known), least, 2, rapid.ID).Draw(rt, label)
	}
	for i := range rapid.IntRange(1, 6).Draw(rt, "rules") {
		r := Rule{Name: fmt.Sprint(i), Action: rapid.SampledFrom([]string{"allow", "warn", "block", "redirect"}).Draw(rt, "action")}
		if r.Action == "redirect" {
			r.To = "http://intra.test/"
		}
		r.Category = some(0, "category")
		if rapid.Bool().Draw(rt, "has unless") {
			r.Unless = some(0, "unless")
		}
		switch rapid.IntRange(0, 5).Draw(rt, "condition") {
		case 0:
			r.Host = []string{"other.test"}
		case 1:
			r.Extension = []string{"exe"} // by Content-Disposition
		case 2:
			r.Type = []string{"image/*"} // known at the response, and not this
		}
		d.rules = append(d.rules, r)
	}
	return d
}

// state says whether a rule matches by what is known until a stage, and whether a later stage could
// change that.
func (d *drawnOrder) state(r Rule, until filter.Stage) answer {
	found := func(c string) bool { s, ok := d.at[c]; return ok && s <= until }
	toCome := func(c string) bool {
		return slices.ContainsFunc(d.by[c].wants, func(s filter.Stage) bool { return s > until })
	}
	switch {
	case r.Host != nil, slices.ContainsFunc(r.Unless, found):
		return no
	case len(r.Category) > 0 && !slices.ContainsFunc(r.Category, found) && !slices.ContainsFunc(r.Category, toCome):
		return no
	case until == filter.ResponseBody && r.Type != nil:
		return no
	case until < filter.Response && (r.Type != nil || r.Extension != nil),
		len(r.Category) > 0 && !slices.ContainsFunc(r.Category, found),
		slices.ContainsFunc(r.Unless, toCome):
		return maybe
	}
	return yes
}

// outcome returns the action that is right, and whether it is due before the request leaves.
func (d *drawnOrder) outcome() (action string, early bool) {
	if d.page.upload || !message.Safe(d.page.method) {
		for _, r := range d.rules {
			if d.state(r, filter.RequestBody) != yes {
				continue
			}
			if r.Action != "allow" {
				return r.Action, true
			}
			break // what follows is not asked
		}
	}
	for _, r := range d.rules {
		if d.state(r, filter.ResponseBody) == yes {
			return r.Action, false
		}
	}
	return "pass", false
}

// For any findings at any stages, the outcome is that of the first rule that matches when
// everything is known. Only if that rule blocks may another refusing rule have decided earlier. But a
// request that has an effect at the origin does not leave once a rule is known to refuse it, whatever
// waits for its response before that rule.
func TestStagesDoNotChangeTheOutcome(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drawOrder(rt)
		want, early := d.outcome()
		e := newEngine(t, d.rules, d.checks...)
		tr, s := d.page.judge(t, e)
		got := tr.Verdict.Action.String()
		if got != want && !(want == "block" && tr.Verdict.Final()) {
			rt.Fatalf("%s %v: %s by %q at %v, want %s\nrules %+v\nfound %v", d.page.method, d.page.upload, got, tr.Verdict.Reason.Rule, s, want, d.rules, d.at)
		}
		if early && s > filter.RequestBody {
			rt.Fatalf("%s %v: %s by %q at %v, when the request had left\nrules %+v\nfound %v", d.page.method, d.page.upload, got, tr.Verdict.Reason.Rule, s, d.rules, d.at)
		}
		if r := tr.Verdict.Reason.Rule; r != "" {
			i := slices.IndexFunc(d.rules, func(q Rule) bool { return q.Name == r })
			if d.state(d.rules[i], filter.ResponseBody) != yes && !(early && d.state(d.rules[i], filter.RequestBody) == yes) {
				rt.Fatalf("rule %q decided although it does not match\nrules %+v\nfound %v", r, d.rules, d.at)
			}
		}
	})
}

func TestOrdersThatCannotHoldAreNamed(t *testing.T) {
	upload := Rule{Name: "upload", Action: "block", Words: []string{"secret"}}
	of := func(r Rule, change func(*Rule)) Rule { change(&r); return r }
	early := &fake{name: "early", known: []filter.Category{{Name: "shop"}}, wants: []filter.Stage{filter.Name}}
	late := &fake{name: "late", known: []filter.Category{{Name: "news"}}, wants: []filter.Stage{filter.ResponseBody}}
	both := &fake{name: "both", known: []filter.Category{{Name: "game"}}, wants: []filter.Stage{filter.RequestBody, filter.ResponseBody}}
	for name, tt := range map[string]struct {
		earlier, later Rule
		want           bool
	}{
		"a type":                      {Rule{Action: "allow", Type: []string{"image/*"}}, upload, true},
		"a warning by a type":         {Rule{Action: "warn", Type: []string{"image/*"}}, upload, true},
		"a redirect":                  {Rule{Action: "redirect", To: "http://a.test/", Type: []string{"image/*"}}, upload, true},
		"pictures":                    {Rule{Action: "placeholder", Category: cats("shop")}, upload, true},
		"words of the page":           {Rule{Action: "allow", Category: cats("news")}, upload, true},
		"words of the page or a list": {Rule{Action: "allow", Category: cats("news", "shop")}, upload, false},
		"a list":                      {Rule{Action: "allow", Category: cats("shop")}, upload, false},
		"what an upload may be, too":  {Rule{Action: "allow", Category: cats("game")}, upload, false},
		"a host, unless by the page":  {Rule{Action: "allow", Host: []string{"a.test"}, Unless: cats("news")}, upload, true},
		"a host":                      {Rule{Action: "allow", Host: []string{"a.test"}}, upload, false},
		"a block, which is a refusal": {Rule{Action: "block", Type: []string{"image/*"}}, upload, false},
		"a monitor":                   {Rule{Action: "monitor", Type: []string{"image/*"}}, upload, false},
		"a later allow":               {Rule{Action: "allow", Type: []string{"image/*"}}, of(upload, func(r *Rule) { r.Action = "allow" }), false},
		"a later warning":             {Rule{Action: "allow", Type: []string{"image/*"}}, of(upload, func(r *Rule) { r.Action = "warn" }), true},
		"a method":                    {Rule{Action: "allow", Type: []string{"image/*"}}, Rule{Name: "upload", Action: "block", Method: []string{"DELETE"}}, true},
		"a safe method, too":          {Rule{Action: "allow", Type: []string{"image/*"}}, Rule{Name: "upload", Action: "block", Method: []string{"GET", "PUT"}}, false},
		"every request":               {Rule{Action: "allow", Type: []string{"image/*"}}, Rule{Name: "upload", Action: "block", Host: []string{"a.test"}}, false},
		"another host":                {Rule{Action: "allow", Type: []string{"image/*"}, Host: []string{"b.test"}}, of(upload, func(r *Rule) { r.Host = []string{"a.test"} }), false},
		"a host below it":             {Rule{Action: "allow", Type: []string{"image/*"}, Host: []string{"x.a.test"}}, of(upload, func(r *Rule) { r.Host = []string{"a.test"} }), true},
		"another method":              {Rule{Action: "allow", Type: []string{"image/*"}, Method: []string{"GET"}}, Rule{Name: "upload", Action: "block", Method: []string{"PUT"}}, false},
	} {
		tt.earlier.Name = "earlier"
		cfg := Config{{Name: "p", Rules: []Rule{tt.earlier, {Name: "between", Action: "allow", Host: []string{"c.test"}}, tt.later}}}
		for _, cfg[0].Decrypt = range []bool{false, true} {
			e := newEngineOf(t, cfg, Parts{Watch: []Rule{{Name: "watched", Action: "monitor", Host: []string{"w.test"}}}}, early, late, both)
			got := e.Unheld(cfg)
			if tt.want != (len(got) == 1) || tt.want && got[0] != (Order{"p", "earlier", "upload"}) {
				t.Errorf("%s, decrypt %v: got %v, want one: %v", name, cfg[0].Decrypt, got, tt.want)
			}
		}
	}
}
