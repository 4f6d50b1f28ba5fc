package importer

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"shuultuur/filter"
)

// nameSource decides about names by zones: the longest zone that covers a name decides, unless
// the name is allowed.
type nameSource struct {
	zones   map[string]decision // "" is the root
	exact   map[string]decision // for the names alone; before zones
	allowed map[string]string   // including subdomains
}

func newNameSource() *nameSource {
	return &nameSource{zones: map[string]decision{}, exact: map[string]decision{}, allowed: map[string]string{}}
}

func (z *nameSource) decide(_ context.Context, t *filter.Transaction, stage filter.Stage) (decision, bool) {
	if stage != filter.Name {
		return decision{}, false
	}
	if name := firstParent(t.Host, func(n string) bool { return z.allowed[n] != "" }); name != "" {
		return decision{by: z.allowed[name]}, true
	}
	if d, ok := z.exact[t.Host]; ok {
		return d, true
	}
	if name := firstParent(t.Host, func(n string) bool { _, ok := z.zones[n]; return ok }); name != "" {
		return z.zones[name], true
	}
	d := z.zones[""]
	return decision{d.refuse, cmp.Or(d.by, "no rule")}, true
}

// options calls take with each option of a file and of those that it includes, and names
// missing includes.
func (s *Source) options(file string, files *optionFiles, take func(at, key, value string)) error {
	return files.eachOption(file, func(at place, key, value string) {
		if found, is := files.included(files.dir, key, value); is && len(found) == 0 {
			s.noteUntested("%s: %s: no such file", at, at.what)
		}
		take(at.String(), key, value)
	})
}

// newUnboundSource reads local-zone and local-data of unbound.conf. Data answer within a zone,
// except within those that always refuse.
func newUnboundSource(s *Source, file string) (sourceRules, error) {
	z, data, redirected, view := newNameSource(), map[string]string{}, map[string]bool{}, false
	err := s.options(file, unboundFiles(), func(at, key, value string) {
		if value == "" && slices.Contains(unboundSections, key) {
			view = key == "view"
		} else if view {
			return // which is for some clients
		}
		f := strings.Fields(strings.ReplaceAll(value, `"`, " "))
		switch key {
		case "local-zone":
			if len(f) < 2 {
				return
			}
			name := strings.ToLower(strings.TrimSuffix(f[0], "."))
			switch f[1] {
			case "static", "refuse", "deny", "redirect", "inform_deny", "inform_redirect":
				z.zones[name], redirected[name] = decision{true, at}, strings.HasSuffix(f[1], "redirect")
			case "always_nxdomain", "always_refuse", "always_null", "always_deny", "always_nodata":
				z.zones[name] = decision{true, at + " always"}
			default: // transparent and similar kinds, nodefault
				z.zones[name] = decision{by: at}
			}
		case "local-data":
			if len(f) > 1 {
				data[strings.ToLower(strings.TrimSuffix(f[0], "."))] = at
			}
		case "rpz", "view", "local-zone-tag", "local-zone-override":
			s.noteUntested("%s: %s %s", at, key, value)
		}
	})
	for name, at := range data {
		zone := firstParent(name, func(n string) bool { _, ok := z.zones[n]; return ok })
		if d := z.zones[zone]; !strings.HasSuffix(d.by, " always") {
			z.exact[name] = decision{by: at}
			if zone == name && redirected[name] { // its data include the names below it
				z.zones[name] = decision{by: at}
			}
		}
	}
	return z, err
}

// newDnsmasqSource reads address, local and server of dnsmasq.conf. The longest of their names
// that covers a name counts.
func newDnsmasqSource(s *Source, file string) (sourceRules, error) {
	z := newNameSource()
	return z, s.options(file, dnsmasqFiles(), func(at, key, value string) {
		switch key {
		case "address", "local", "server":
			parts := strings.Split(value, "/")
			if len(parts) < 3 {
				return
			}
			to := parts[len(parts)-1]
			null := to == "0.0.0.0" || to == "::"
			for _, name := range parts[1 : len(parts)-1] {
				name = strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(name, "*"), "."))
				z.zones[name] = decision{null || to == "" || to == "#" && key == "address", at}
			}
		case "host-record", "cname":
			names := strings.Split(value, ",")
			for _, name := range names[:max(1, len(names)-1)] {
				z.exact[strings.ToLower(strings.TrimSpace(name))] = decision{by: at}
			}
		case "addn-hosts":
			s.noteUntested("%s: %s=%s", at, key, value)
		}
	})
}

// newBlockySource reads the local lists of Blocky's config.yml. An entry is for the name alone,
// "*.name" for a name with its subdomains, "/x/" for an expression. A group that has only
// allowed names refuses all others.
func newBlockySource(s *Source, file string) (sourceRules, error) {
	file = fileIn(file, "config.yml")
	data, err := readWhole(file)
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
	if err := loadYAML(data, &cfg); err != nil {
		return nil, err
	}
	z := newNameSource()
	for name := range cfg.CustomDNS.Mapping {
		z.allowed[strings.ToLower(name)] = "customDNS of " + name
	}
	standard := cfg.Blocking.Groups["default"]
	if len(cfg.Blocking.Groups) > 1 {
		s.noteUntested("blocking.clientGroupsBlock: only the group default is tried")
	}
	take := func(all lists, refuse bool) {
		for _, group := range sortedKeys(all) {
			if !slices.Contains(standard, group) {
				continue
			}
			for _, text := range all[group] {
				z.blocky(s, group, text, refuse)
			}
		}
	}
	take(cfg.Blocking.Deny, true)
	take(cfg.Blocking.OldDeny, true)
	take(cfg.Blocking.Allow, false)
	take(cfg.Blocking.OldAllow, false)
	return z, nil
}

// blocky reads a list: its text, a file, or an address, whose content is not here.
func (z *nameSource) blocky(s *Source, group, text string, refuse bool) {
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
			s.noteUntested("list %s: expression %s", group, entry)
		case below && refuse:
			z.zones[name] = decision{true, group}
		case below:
			z.allowed[name] = group
		default:
			if d, ok := z.exact[entry]; !ok || d.refuse {
				z.exact[entry] = decision{refuse, group}
			}
		}
	}
	switch path := strings.TrimPrefix(text, "file://"); {
	case isURL(text):
		s.noteUntested("list %s: %s is fetched", group, text)
	case strings.Contains(text, "\n") || !strings.Contains(path, "/"):
		for l := range strings.Lines(text) {
			line(l)
		}
	default:
		if err := s.linesOf(path, func(_ int, l string) { line(l) }); err != nil {
			s.noteUntested("list %s: %v", group, err)
		}
	}
}
