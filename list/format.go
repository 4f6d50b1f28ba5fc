package list

import (
	"bufio"
	"bytes"
	"slices"

	"shuultuur/list/adblock"
)

// A Format is a form in which lists come: a row of the table below, and functions of the file
// that reads it. Help, completion, the schema of the settings and the tables of the manual follow
// from it.
type Format struct {
	Name    FormatName
	Aliases []FormatName // other names in the settings
	// Line and What describe it in the manual: one line of it, and what that means.
	Line, What string

	exact  bool // names cover the host alone, unless the settings say otherwise
	tree   bool // it is a folder, or an archive of one
	shared bool // its files include others
	free   bool // its lines may have nearly any character

	categories bool // its lines may name categories

	line    func(p *parser, line []byte)              // reads a line
	file    func(p *parser, file *bufio.Reader) error // reads a file that does not consist of lines
	ignored func(p *parser)                           // reports the lines of a file that were ignored
	likely  func(line []byte) bool                    // of a format that accepts nearly any line: whether one is like an entry

	// How a file is recognised: it begins like this, it has a line that declares the format, or
	// most of its lines suggest it.
	begins, declares, suggests func(text []byte) bool
}

// A FormatName is the name of a format in the settings.
type FormatName string

// Choices returns every name, for the schema.
func (FormatName) Choices() []string {
	names := FormatNames()
	for _, f := range Formats() {
		for _, a := range f.Aliases {
			names = append(names, string(a))
		}
	}
	return names
}

// The names of formats that this module names.
const (
	Auto             FormatName = "auto"
	UT1              FormatName = "ut1"
	Domains          FormatName = "domains"
	Hosts            FormatName = "hosts"
	Adblock          FormatName = "adblock"
	RPZ              FormatName = "rpz"
	Networks         FormatName = "networks"
	E2guardian       FormatName = "e2guardian"
	E2guardianRegexp FormatName = "e2guardian-regexp"
	Pihole           FormatName = "pihole"
	Expressions      FormatName = "expressions"
)

// Formats is the table of formats. A line that suggests several suggests the last of them; a file
// of which no line suggests one is of the first that lines can suggest.
func Formats() []Format {
	return []Format{
		{Name: UT1, Aliases: []FormatName{"squidguard"}, Line: "`adult/domains`, `adult/urls`, `adult/expressions`", What: "a folder for each category; links are other names of one. Expressions are POSIX",
			tree: true},
		{Name: Domains, Line: "`example.com/foo`", What: "a host or URL; `.xxx` is a whole top-level domain",
			line: (*parser).domainLine, suggests: isDomainLine},
		{Name: Hosts, Line: "`0.0.0.0 ads.example.com`", What: "the exact host",
			exact: true, line: (*parser).hostsLine, suggests: isHostsLine},
		{Name: Adblock, Line: "`||ads.example.com^$third-party`", What: "rules of EasyList, uBlock Origin, AdGuard",
			free: true, line: (*parser).adblockLine, likely: adblock.IsLikely, ignored: (*parser).unusedRules, declares: namesBlocker, suggests: isRule},
		{Name: "wildcard", Line: "`*.example.com`", What: "the same as `example.com`",
			line: (*parser).domainLine, suggests: isWildcardLine},
		{Name: "dnsmasq", Line: "`address=/example.com/0.0.0.0`", What: "also `server=/…/` and `local=/…/`",
			line: (*parser).dnsmasqLine, suggests: isDnsmasqLine},
		{Name: "unbound", Line: "`local-zone: \"example.com\" always_nxdomain`", What: "with subdomains; `local-data` with an address that reaches no host covers the exact host",
			free: true, line: (*parser).unboundLine, suggests: isUnboundLine},
		{Name: RPZ, Line: "`*.example.com CNAME .`", What: "a response policy zone: a name stands for itself, `*.name` for its subdomains; `rpz-passthru.` is an exception, `24.0.2.0.192.rpz-ip` a network",
			free: true, line: (*parser).rpzLine, suggests: isRPZLine},
		{Name: Networks, Line: "`10.0.0.0/8`, `10.0.0.1-10.0.0.9`, `2001:db8::/32`", What: "addresses, networks, ranges; `#` and `;` begin comments",
			line: (*parser).networkLine, suggests: isNetworkLine},
		{Name: "json", Line: "`[\"example.com\", {\"entry\": \"example.org/foo\", \"category\": \"games\"}]`", What: "an array, or values one after the other. The fields of an object are `entry` (or `host`, `domain`, `url`), `category`, `exact` (the exact host) and `exception`",
			categories: true, file: (*parser).json, begins: isJSON},
		{Name: "csv", Line: "`domain,category`", What: "the same in columns; the first line names them, otherwise the first column is the entry. Commas or semicolons, quotes as in RFC 4180",
			categories: true, line: (*parser).csvLine},
		{Name: E2guardian, Line: "`.Include</etc/e2guardian/lists/more>`", What: "site, URL and IP lists of e2guardian and DansGuardian",
			shared: true, categories: true, line: (*parser).itemLine, declares: hasDirective},
		{Name: E2guardianRegexp, Line: "`(^|[/.])casino(/|$)`", What: "their regular expressions for URLs, in Perl's syntax",
			free: true, shared: true, categories: true, line: (*parser).perlLine, likely: isLikelyExpression},
		{Name: Pihole, Line: "`(^|\\.)ads[0-9]+\\.;querytype=AAAA`", What: "regular expressions of Pi-hole, for names: see below",
			free: true, line: (*parser).piholeLine, likely: isLikelyExpression, suggests: isPiholeLine},
		{Name: Expressions, Line: "`(^|[-./])casino`", What: "POSIX regular expressions",
			free: true, line: (*parser).posixLine, likely: isLikelyExpression, ignored: (*parser).restrictive},
	}
}

// formatOf returns the format with a name or another name.
func formatOf(name FormatName) (Format, bool) {
	all := Formats()
	i := slices.IndexFunc(all, func(f Format) bool { return f.Name == name || slices.Contains(f.Aliases, name) })
	if i < 0 {
		return Format{}, false
	}
	return all[i], true
}

// FormatNames returns the names that the settings may have, without other names of the same.
func FormatNames() []string {
	names := []string{string(Auto)}
	for _, f := range Formats() {
		names = append(names, string(f.Name))
	}
	return names
}

// NamesCategories reports whether content in the format may name categories, as far as is known.
func (f FormatName) NamesCategories() bool {
	known, ok := formatOf(f)
	return !ok || known.tree || known.categories
}

// guess detects the format of a file by its beginning: the one that it has or declares, or the
// one that most lines suggest.
func guess(head []byte) FormatName {
	all := Formats()
	for _, f := range all {
		if f.begins != nil && f.begins(bytes.TrimSpace(head)) {
			return f.Name
		}
	}
	votes := make([]int, len(all))
	seen := 0
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		for _, f := range all {
			if f.declares != nil && f.declares(line) {
				return f.Name
			}
		}
		for i, f := range slices.Backward(all) {
			if len(line) > 0 && line[0] != ';' && f.suggests != nil && f.suggests(line) {
				votes[i]++
				seen++
				break
			}
		}
		if seen == 500 {
			break
		}
	}
	best := slices.IndexFunc(all, func(f Format) bool { return f.suggests != nil })
	for i, n := range votes {
		if n > votes[best] {
			best = i
		}
	}
	return all[best].Name
}
