// Package preset changes requests as the settings of a policy want it for well-known services:
// SafeSearch, YouTube's restricted mode, and the tenants whose accounts may sign in.
//
// [New] makes a table of edits by host, and [Presets.Edits] returns those for a transaction.
package preset

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/ascii"
	"shuultuur/lib/setting"
	"shuultuur/policy/search"
)

// edits are the changes to requests for one host.
type edits struct {
	always []filter.Edit
	search []filter.Edit // always, followed by those of the query
	paths  []string      // the paths to which search applies
}

// Presets are the edits of a policy, by host.
type Presets struct {
	exact   map[string]*edits // this host, or "google." for google and www.google of any country
	below   map[string]*edits // this host and its subdomains, except those in exact
	nothing bool
}

// Edits are the same at every stage, except for the query, which must be known first.
func (p *Presets) Edits(t *filter.Transaction) []filter.Edit {
	if p.nothing {
		return nil
	}
	e := p.find(t.Host)
	if e == nil {
		return nil
	}
	if e.search != nil && t.Request != nil {
		for _, path := range e.paths {
			if leads(t.Request.Path, path) {
				return e.search
			}
		}
	}
	return e.always
}

// leads reports whether a path begins with another one, which is in lower case, as servers read it:
// without case, with escapes decoded, and with slashes in a row as one.
func leads(path []byte, with string) bool {
	before := byte(0)
	for len(path) > 0 && with != "" {
		c := path[0]
		path = path[1:]
		if c == '%' && len(path) >= 2 {
			var b [1]byte
			if _, err := hex.Decode(b[:], path[:2]); err == nil {
				c, path = b[0], path[2:]
			}
		}
		if c == '/' && before == '/' {
			continue
		}
		if before = ascii.Lower(c); before != with[0] {
			return false
		}
		with = with[1:]
	}
	return with == ""
}

// doors are names of an engine in a country before its domain.
var doors = []string{"www.", "images.", "encrypted.", "ipv4.", "ipv6."}

func (p *Presets) find(host string) *edits {
	if e, ok := p.exact[host]; ok {
		return e
	}
	domain := host
	for _, door := range doors {
		if rest, ok := strings.CutPrefix(host, door); ok {
			domain = rest
			break
		}
	}
	if base := search.CountryBase(domain); base != "" {
		if e, ok := p.exact[base]; ok {
			return e
		}
	}
	for {
		if e, ok := p.below[host]; ok {
			return e
		}
		i := strings.IndexByte(host, '.')
		if i < 0 {
			return nil
		}
		host = host[i+1:]
	}
}

// New makes the edits for the settings of a policy.
func New(safeSearch bool, youTube string, tenants *Tenants) (Presets, error) {
	p := Presets{exact: map[string]*edits{}, below: map[string]*edits{}}
	if safeSearch {
		for _, e := range search.Known() {
			p.addEngine(&e)
		}
	}
	if err := p.addYouTube(youTube); err != nil {
		return p, err
	}
	if err := p.addTenants(tenants); err != nil {
		return p, setting.At("tenants", err)
	}
	p.nothing = len(p.exact) == 0 && len(p.below) == 0
	return p, nil
}

func (p *Presets) addEngine(e *search.Engine) {
	hosts := slices.Clone(e.Hosts)
	if e.Country != "" && len(e.Safe) > 0 {
		p.exact[e.Country] = &edits{paths: e.Paths, search: e.Safe}
	}
	if len(e.Safe) > 0 {
		for _, h := range hosts {
			p.below[h] = &edits{paths: e.Paths, search: e.Safe}
		}
	}
	for _, d := range e.Dial {
		to := []filter.Edit{{Kind: filter.DialHost, Value: d.To}}
		p.exact[d.Host] = &edits{always: to, paths: e.Paths, search: slices.Concat(to, e.Safe)}
	}
}

func (p *Presets) addYouTube(mode string) error {
	to, header := "restrict.youtube.com", "Strict"
	switch mode {
	case "", "off":
		return nil
	case "moderate":
		to, header = "restrictmoderate.youtube.com", "Moderate"
	case "strict":
	default:
		return setting.At("youtube", fmt.Errorf("%q is not one of off, moderate and strict", mode))
	}
	for _, h := range []string{"www.youtube.com", "m.youtube.com", "youtubei.googleapis.com", "youtube.googleapis.com", "www.youtube-nocookie.com"} {
		p.exact[h] = &edits{always: []filter.Edit{
			{Kind: filter.DialHost, Value: to},
			{Kind: filter.SetHeader, Name: "YouTube-Restrict", Value: header},
		}}
	}
	p.below["youtube.com"] = &edits{always: []filter.Edit{{Kind: filter.SetHeader, Name: "YouTube-Restrict", Value: header}}}
	return nil
}

// addHeaders sets header fields for a host, its subdomains, and those subdomains that already
// have edits, such as www.google.com.
func (p *Presets) addHeaders(host string, es ...filter.Edit) {
	if host == "google.com" {
		// The table covers this host by "google.", which includes countries where the field means
		// nothing.
		for _, h := range []string{"google.com", "www.google.com"} {
			if e, ok := p.exact["google."]; ok {
				c := *e
				p.exact[h] = &c
			}
		}
	}
	if _, ok := p.below[host]; !ok {
		p.below[host] = &edits{}
	}
	for _, m := range []map[string]*edits{p.exact, p.below} {
		for h, e := range m {
			if h != host && !strings.HasSuffix(h, "."+host) {
				continue
			}
			e.always = slices.Concat(e.always, es)
			if e.search != nil {
				e.search = slices.Concat(e.search, es)
			}
		}
	}
}
