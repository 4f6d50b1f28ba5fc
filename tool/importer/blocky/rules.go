package blocky

import (
	"context"
	"maps"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/filter"
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
		Lookup struct {
			Clients map[string][]string `yaml:"clients"`
		} `yaml:"clientLookup"`
	}
	if err := setting.LoadYAML(data, &cfg); err != nil {
		return nil, err
	}
	g := &groups{clients: cfg.Blocking.Groups, names: cfg.Lookup.Clients, deny: map[string]*original.Names{}, allow: map[string]*original.Names{}, own: original.NewNames()}
	for name := range cfg.CustomDNS.Mapping {
		g.own.Allowed[strings.ToLower(name)] = "customDNS of " + name
	}
	take := func(all lists, to map[string]*original.Names) {
		for _, group := range slices.Sorted(maps.Keys(all)) {
			if to[group] == nil {
				to[group] = original.NewNames()
			}
			for _, text := range all[group] {
				addList(to[group], s, group, source(filepath.Dir(file), text))
			}
		}
	}
	take(cfg.Blocking.Deny, g.deny)
	take(cfg.Blocking.OldDeny, g.deny)
	take(cfg.Blocking.Allow, g.allow)
	take(cfg.Blocking.OldAllow, g.allow)
	return g, nil
}

// groups decides as Blocky does: by the lists of all groups of the client.
type groups struct {
	clients     map[string][]string // names of groups by address, network, or pattern of a name
	names       map[string][]string // addresses by name
	deny, allow map[string]*original.Names
	own         *original.Names // names that are answered here
}

func (g *groups) Decide(ctx context.Context, t *filter.Transaction, stage filter.Stage) (original.Decision, bool) {
	if stage != filter.Name {
		return original.Decision{}, false
	}
	if d, _ := g.own.Decide(ctx, t, stage); d.By != original.NoRule {
		return d, true
	}
	of := g.of(t.Client.Addr)
	only := ""
	for _, name := range of {
		if allowed := g.allow[name]; allowed != nil {
			if d, _ := allowed.Decide(ctx, t, stage); d.Refuse {
				return original.Decision{By: d.By}, true
			}
			if g.deny[name] == nil {
				only = name
			}
		}
	}
	if only != "" {
		return original.Decision{Refuse: true, By: "not in " + only}, true
	}
	for _, name := range of {
		if denied := g.deny[name]; denied != nil {
			if d, _ := denied.Decide(ctx, t, stage); d.Refuse {
				return d, true
			}
		}
	}
	return original.Decision{By: original.NoRule}, true
}

// of returns the groups of a client: of all that name it, or else the default ones.
func (g *groups) of(addr netip.Addr) (all []string) {
	var names []string
	for name, addrs := range g.names {
		if slices.ContainsFunc(addrs, func(a string) bool { x, err := netip.ParseAddr(a); return err == nil && x.Unmap() == addr }) {
			names = append(names, name)
		}
	}
	for key, listed := range g.clients {
		n, err := input.Network(key)
		is := err == nil && n.Contains(addr)
		for _, name := range names {
			if ok, bad := path.Match(key, name); bad == nil && ok {
				is = true
			}
		}
		if is {
			all = append(all, listed...)
		}
	}
	if len(all) == 0 {
		return g.clients["default"]
	}
	return all
}

// addList adds a list to the names that are on it: its text, a file, or an address, whose content is
// not here.
func addList(z *original.Names, s *original.Source, group, text string) {
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
		case below:
			z.Zones[name] = original.Decision{Refuse: true, By: group}
		default:
			z.Exact[entry] = original.Decision{Refuse: true, By: group}
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
