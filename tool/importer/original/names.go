package original

import (
	"cmp"
	"context"
	"strings"

	"shuultuur/filter"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// Names decides about names by zones: the longest zone that covers a name decides, unless
// the name is allowed.
type Names struct {
	Zones   map[string]Decision // "" is the root
	Exact   map[string]Decision // for the names alone; before zones
	Allowed map[string]string   // including subdomains
}

func NewNames() *Names {
	return &Names{Zones: map[string]Decision{}, Exact: map[string]Decision{}, Allowed: map[string]string{}}
}

func (z *Names) Decide(_ context.Context, t *filter.Transaction, stage filter.Stage) (Decision, bool) {
	if stage != filter.Name {
		return Decision{}, false
	}
	if name := input.FirstParent(t.Host, func(n string) bool { return z.Allowed[n] != "" }); name != "" {
		return Decision{By: z.Allowed[name]}, true
	}
	if d, ok := z.Exact[t.Host]; ok {
		return d, true
	}
	if name := input.FirstParent(t.Host, func(n string) bool { _, ok := z.Zones[n]; return ok }); name != "" {
		return z.Zones[name], true
	}
	d := z.Zones[""]
	return Decision{d.Refuse, cmp.Or(d.By, NoRule)}, true
}

// NoRule is what decides where no rule does.
const NoRule = "no rule"

// Options calls take with each option of a file and of those that it includes, and names
// missing includes.
func (s *Source) Options(file string, files *input.OptionFiles, take func(at, key, value string)) error {
	return files.Each(file, func(at report.Place, key, value string) {
		if found, is := files.Included(files.Dir, key, value); is && len(found) == 0 {
			s.Untested("%s: %s: no such file", at, at.Text)
		}
		take(at.String(), key, value)
	})
}

// These programs have lists for all clients. They refuse a name with its
// subdomains, unless the name or a parent of it is allowed.

// Below decides about a name and its subdomains.
func (z *Names) Below(name, by string, refuse bool) {
	name = strings.ToLower(strings.Trim(strings.TrimPrefix(name, "*."), "."))
	if refuse {
		z.Zones[name] = Decision{true, by}
		return
	}
	z.Allowed[name] = by
}
