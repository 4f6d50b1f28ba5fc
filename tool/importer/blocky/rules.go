package blocky

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
)

// Rules reads the local lists of Blocky's config.yml. An entry is for the name alone,
// "*.name" for a name with its subdomains, "/x/" for an expression. A group that has only
// allowed names refuses all others.
func Rules(s *original.Source, file string) (original.Rules, error) {
	file = input.In(file, "config.yml")
	data, err := input.Whole(file)
	if err != nil {
		return nil, err
	}
	type lists map[string][]string
	var cfg struct {
		CustomDNS struct {
			Mapping map[string]any `yaml:"mapping"`
		} `yaml:"customDNS"`
		Blocking struct {
			Deny     lists               `yaml:"denylists"`
			Allow    lists               `yaml:"allowlists"`
			OldDeny  lists               `yaml:"blackLists"`
			OldAllow lists               `yaml:"whiteLists"`
			Groups   map[string][]string `yaml:"clientGroupsBlock"`
		} `yaml:"blocking"`
	}
	if err := setting.LoadYAML(data, &cfg); err != nil {
		return nil, err
	}
	z := original.NewNames()
	for name := range cfg.CustomDNS.Mapping {
		z.Allowed[strings.ToLower(name)] = "customDNS of " + name
	}
	standard := cfg.Blocking.Groups["default"]
	if len(cfg.Blocking.Groups) > 1 {
		s.Untested("blocking.clientGroupsBlock: only the group default is tried")
	}
	take := func(all lists, refuse bool) {
		for _, group := range slices.Sorted(maps.Keys(all)) {
			if !slices.Contains(standard, group) {
				continue
			}
			for _, text := range all[group] {
				addList(z, s, group, source(filepath.Dir(file), text), refuse)
			}
		}
	}
	take(cfg.Blocking.Deny, true)
	take(cfg.Blocking.OldDeny, true)
	take(cfg.Blocking.Allow, false)
	take(cfg.Blocking.OldAllow, false)
	return z, nil
}

// addList reads a list: its text, a file, or an address, whose content is not here.
func addList(z *original.Names, s *original.Source, group, text string, refuse bool) {
	line := func(entry string) {
		entry, _, _ = strings.Cut(entry, "#")
		f := strings.Fields(strings.ToLower(entry))
		if len(f) == 0 {
			return
		}
		entry = f[len(f)-1] // behind the address of a hosts file
		name, below := strings.CutPrefix(entry, "*.")
		switch {
		case strings.HasPrefix(entry, "/"):
			s.Untested("list %s: expression %s", group, entry)
		case below && refuse:
			z.Zones[name] = original.Decision{Refuse: true, By: group}
		case below:
			z.Allowed[name] = group
		default:
			if d, ok := z.Exact[entry]; !ok || d.Refuse {
				z.Exact[entry] = original.Decision{Refuse: refuse, By: group}
			}
		}
	}
	switch {
	case input.IsURL(text):
		s.Untested("list %s: %s is fetched", group, text)
	case strings.Contains(text, "\n"):
		for l := range strings.Lines(text) {
			line(l)
		}
	default:
		if err := s.LinesOf(text, func(_ int, l string) { line(l) }); err != nil {
			s.Untested("list %s: %v", group, err)
		}
	}
}
