package privoxy

import (
	"cmp"
	"context"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
	"shuultuur/tool/importer/report"
)

// rules decides as Privoxy does.
type rules struct {
	rules  []rule   // the last one first
	access []access // the last one that covers a client counts; without any, all may use it
}

// An access line permits or denies the clients of a network.
type access struct {
	permit bool
	of     netip.Prefix
	at     report.Place
}

type rule struct {
	block bool
	at    report.Place
	ports []string
	host  *regexp.Regexp
	path  *regexp.Regexp // nil for all
}

func Rules(s *original.Source, file string) (original.Rules, error) {
	p := &rules{}
	all, err := readSections(file, func(at report.Place, key, value string) {
		switch {
		case key == "permit-access", key == "deny-access":
			f := strings.Fields(value)
			n, err := input.Network(cmp.Or(append(f, "")...))
			if len(f) != 1 || err != nil {
				s.Untested("%s: %s", at, at.Text)
			}
			if err == nil {
				p.access = append(p.access, access{key == "permit-access" && len(f) == 1, n, at})
			}
		case key == "actionsfile" && !filepath.IsAbs(value), key == "trustfile":
			s.Untested("%s: %s", at, at.Text)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, section := range all {
		block, says := section.blocks()
		if !says {
			continue
		}
		for _, at := range section.patterns {
			url, ok := parsePattern(at.Text)
			if !ok {
				s.Untested("%s: %s is about tags", at, at.Text)
				continue
			}
			r := rule{block: block, at: at}
			if url.port != "" {
				r.ports = strings.Split(url.port, ",")
			}
			var err, bad error
			r.host, err = regexp.Compile("(?i)" + pattern{host: url.host, expr: url.expr}.expression())
			if url.path != "" {
				r.path, bad = regexp.Compile("(?i)^(?:" + url.path + ")")
			}
			if err = cmp.Or(err, bad); err != nil {
				s.Untested("%s: %v", at, err)
				continue
			}
			p.rules = append(p.rules, r)
		}
	}
	slices.Reverse(p.rules)
	return p, nil
}

func (p *rules) Decide(_ context.Context, t *filter.Transaction, stage filter.Stage) (original.Decision, bool) {
	if stage != filter.Request && t.Last != stage {
		return original.Decision{}, false
	}
	if by, ok := p.admits(t.Client.Addr); !ok {
		return original.Decision{Refuse: true, By: by}, true
	}
	path := "/"
	if t.Request != nil {
		path = string(t.Request.Path)
	}
	for _, r := range p.rules {
		if (r.ports == nil || input.PortsOf(r.ports)[t.Port]) && r.host.MatchString(t.Host) && (r.path == nil || r.path.MatchString(path)) {
			return original.Decision{Refuse: r.block, By: r.at.String()}, true
		}
	}
	return original.Decision{By: "no pattern"}, true
}

// admits reports whether a client may use the proxy, and else what denies it.
func (p *rules) admits(client netip.Addr) (by string, ok bool) {
	for _, a := range slices.Backward(p.access) {
		if a.of.Contains(client) {
			return a.at.String(), a.permit
		}
	}
	return "no permit-access", len(p.access) == 0
}
