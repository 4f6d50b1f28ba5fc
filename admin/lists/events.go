package lists

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/list"
)

// WithCategories returns all lists, and adds their categories to categories, in lower case.
func (l *Lists) WithCategories(categories map[string]bool) []List {
	if l == nil {
		return nil
	}
	all := l.All()
	for i := range all {
		for c := range all[i].Categories {
			categories[strings.ToLower(c)] = true
		}
	}
	return all
}

// ButtonChanges has the changes that a button beside an event makes, with the message that follows
// each.
func (l *Lists) ButtonChanges(form url.Values) (changes map[string][]list.Change, done string, err error) {
	host, category := form.Get("entry"), form.Get("category")
	what := form.Get("what")
	switch name := form.Get("list"); what {
	case "block":
		return map[string][]list.Change{name: {{Entry: host, Category: category}}}, name + ": added " + host, nil
	case "unblock":
		return map[string][]list.Change{name: {{Entry: host, Category: category, Remove: true}}}, name + ": took back " + host, nil
	case "allow", "unallow":
	default:
		return nil, "", &web.BadChange{Err: fmt.Errorf("what=%q is neither allow nor block, nor takes one back", what)}
	}
	hits, err := l.Search(host)
	if err != nil {
		return nil, "", &web.BadChange{Err: err}
	}
	back := what == "unallow" // the exceptions that "allow" made
	changes = map[string][]list.Change{}
	for _, h := range hits {
		c := list.Change{Entry: host, Category: h.Category, Exception: true, Remove: back}
		if h.Exception == back && strings.EqualFold(h.Category, category) && !slices.Contains(changes[h.List], c) {
			changes[h.List] = append(changes[h.List], c)
		}
	}
	names := strings.Join(slices.Sorted(maps.Keys(changes)), ", ")
	switch {
	case len(changes) == 0 && back:
		return nil, "", &web.BadChange{Err: fmt.Errorf("no list excepts %q from %q", host, category)}
	case len(changes) == 0:
		return nil, "", &web.BadChange{Err: fmt.Errorf("no list has %q as %q: something else decided; add the host to a list that a rule allows", host, category)}
	case back:
		return changes, fmt.Sprintf("%s: %s is %s again", names, host, category), nil
	}
	return changes, fmt.Sprintf("%s: %s is no longer %s", names, host, category), nil
}
