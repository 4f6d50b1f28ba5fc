package settings

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/policy"
)

// A ruleChange is what a form of the pages about rules asks for.
type ruleChange struct {
	Changes []setting.Change
	Why     string // for the history
	What    string // for its reader; "" is Why
	Then    string // the page that follows
}

// apply checks the changes of a form, shows their effect where it must be seen first, and saves them.
// It returns the mistakes that are in the way.
func (v *view) apply(w http.ResponseWriter, r *http.Request, c *ruleChange) error {
	real, err := v.tried(r, c.Changes)
	if broken := unmetIn(err); len(broken) > 0 && !slices.ContainsFunc(broken, func(u unmet) bool { return !slices.Contains(r.PostForm["yield"], u.Value) }) {
		real, err = v.tried(r, append(slices.Clone(c.Changes), yielded(broken, v)...))
	}
	if err != nil {
		return err
	}
	what := c.What
	if what == "" {
		what = c.Why
	}
	answered, err := v.s.site.ShowEffect(w, r, web.PendingChange{What: what, Back: c.Then, Trial: web.Trial{Text: real}})
	if answered || err != nil {
		return err
	}
	var out web.ChangeResult
	if !slices.Equal(real, v.now) {
		if out.Remarks, err = v.save(r, real, c.Why); err != nil {
			return err
		}
	}
	if out.Saved = true; !web.IsPage(r) {
		web.WriteJSON(w, http.StatusOK, out)
		return nil
	}
	http.Redirect(w, r, addQuery(c.Then, "saved", v.s.newest()), http.StatusSeeOther)
	return nil
}

// tried returns the settings with changes if they have no mistakes.
func (v *view) tried(r *http.Request, changes []setting.Change) ([]byte, error) {
	all, err := setting.Edit(v.shown, changes...)
	if err != nil {
		return nil, &web.BadChange{Err: err}
	}
	return v.check(r, all)
}

func addQuery(page, key, value string) string {
	page, part, _ := strings.Cut(page, "#")
	sep := "?"
	if strings.Contains(page, "?") {
		sep = "&"
	}
	if part != "" {
		part = "#" + part
	}
	return page + sep + url.Values{key: {value}}.Encode() + part
}

// newest returns the identifier of the version in use, "yes" if it is not known.
func (s *Settings) newest() string {
	if all, err := s.Versions.Names(); err == nil && len(all) > 0 {
		return all[0]
	}
	return "yes"
}

// before returns the version before one that was just saved, "" if that is not the newest any more, so that
// nobody takes back more than the last change.
func (s *Settings) before(saved string) string {
	all, err := s.Versions.Names()
	if err != nil || len(all) < 2 || all[0] != saved {
		return ""
	}
	return all[1]
}

// undo takes the last change back: what was in use before is in use again.
func (v *view) undo(w http.ResponseWriter, r *http.Request, saved, then string) error {
	id := v.s.before(saved)
	if id == "" {
		return &web.BadChange{Err: errors.New("the settings were changed again meanwhile; go back to a version under Settings")}
	}
	x, err := v.s.Versions.One(id)
	if err != nil {
		return &web.BadChange{Err: err}
	}
	shown, err := v.hide([]byte(x.Text))
	if err != nil {
		return err
	}
	real, err := v.check(r, shown)
	if err != nil {
		return err
	}
	if web.DryRun(r.Form) {
		_, err = v.s.site.ShowEffect(w, r, web.PendingChange{What: "undo", Back: then, Trial: web.Trial{Text: real}})
		return err
	}
	if _, err = v.save(r, real, "the last change is taken back"); err != nil {
		return err
	}
	if !web.IsPage(r) {
		web.WriteJSON(w, http.StatusOK, web.ChangeResult{Saved: true})
		return nil
	}
	http.Redirect(w, r, addQuery(then, "undone", "yes"), http.StatusSeeOther)
	return nil
}

// An unmet is an expectation that a change would break.
type unmet struct {
	Text  string
	Value string // of the field yield: place of the policy, of the expectation, and the URL
}

// expectKey matches the key of an expectation in a mistake.
var expectKey = regexp.MustCompile(`^policies\[(\d+)\]\.expect(?:\[(\d+)\])?(?:\.\w+)?$`)

// unmetIn returns the expectations that the mistakes of a change are about, nil if one is about something
// else.
func unmetIn(err error) (all []unmet) {
	var mistakes setting.Mistakes
	if !errors.As(err, &mistakes) {
		return nil
	}
	for _, m := range mistakes {
		at := expectKey.FindStringSubmatch(m.Key)
		site, _, said := strings.Cut(m.Text, " is expected to be ")
		if at == nil || !said {
			return nil
		}
		all = append(all, unmet{m.Text, at[1] + " " + at[2] + " " + site})
	}
	return all
}

// yielded returns the changes that take expectations away, which a form gives up.
func yielded(broken []unmet, v *view) (all []setting.Change) {
	policies, err := v.s.Policies()
	if err != nil {
		return nil
	}
	for i := range policies {
		if policies[i].Of == nil {
			continue
		}
		for j := range slices.Backward(policies[i].Of.Expect) {
			rest := slices.DeleteFunc(slices.Clone(policies[i].Of.Expect[j].URL), func(u string) bool {
				return slices.ContainsFunc(broken, func(x unmet) bool { return x.Value == fmt.Sprintf("%d %d %s", i, j, u) })
			})
			path := []any{"policies", i, "expect", j}
			switch {
			case len(rest) == len(policies[i].Of.Expect[j].URL):
			case len(rest) == 0:
				all = append(all, setting.Change{Path: path, Remove: true})
			default:
				all = append(all, setting.Change{Path: append(path, "url"), Value: []string(rest)})
			}
		}
	}
	return all
}

// expectText is an expectation in a line.
func expectText(x *policy.Expectation) string { return strings.Join(x.URL, ", ") }

// place reads a number of a form, -1 if it is empty or none.
func place(f url.Values, key string, below int) int {
	n, err := strconv.Atoi(f.Get(key))
	if err != nil || n < 0 || n >= below {
		return -1
	}
	return n
}
