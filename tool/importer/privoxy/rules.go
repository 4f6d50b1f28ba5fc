package privoxy

import (
	"cmp"
	"context"
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
	rules []rule // the last one first
}

type rule struct {
	block bool
	at    report.Place
	ports []string
	host  *regexp.Regexp
	path  *regexp.Regexp // nil for all
}

func Rules(s *original.Source, file string) (original.Rules, error) {
	all, err := readSections(file, func(at report.Place, key, value string) {
		switch {
		case key == "actionsfile" && !filepath.IsAbs(value), key == "trustfile", key == "permit-access", key == "deny-access":
			s.Untested("%s: %s", at, at.Text)
		}
	})
	if err != nil {
		return nil, err
	}
	p := &rules{}
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
