// Package unbound imports unbound.conf section by section: local zones become lists, views and tags
// policies, and options of the server settings of ours.
package unbound

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
	"shuultuur/zone"
)

// optionFiles reads the options of unbound.conf.
func optionFiles() *input.OptionFiles {
	section := func(key string) bool { return slices.Contains(sections, key) }
	return &input.OptionFiles{Separator: ":", Section: section, Included: func(dir, key, value string) ([]string, bool) {
		if key != "include" && key != "include-toplevel" {
			return nil, false
		}
		return input.Glob(dir, strings.Trim(value, `"`)), true
	}}
}

// An reader reads unbound.conf section by section.
type reader struct {
	Options
	files  *input.OptionFiles
	kinds  map[string]string // kinds of local zones
	secure []bool            // by section: whether its servers are asked over TLS
	number int               // number of the section being read

	section, zone string // its kind, and its name
	views         map[string]*view
	rpz, own      []filledZone
	tags          tags
	blocked       []report.Place // names that are refused to everybody
	addresses     []report.Place // networks; answers that lead there are refused
}

// An view is the set of additional settings for clients of some networks.
type view struct {
	networks []policy.Network
	names    []report.Place
	first    bool // evaluated before everybody's settings, not in their place
}

// An filledZone is a zone that has a file or an address.
type filledZone struct {
	at              report.Place
	name, file, url string
	tags            []string // tags of the clients that it is for; empty for all clients
	off             bool     // it refuses nothing
}

// sections are the names of sections.
var sections = []string{"server", "forward-zone", "stub-zone", "remote-control", "auth-zone", "python", "view", "rpz", "dnscrypt", "cachedb", "dnstap", "dynlib"}

// unquote removes quotes of both kinds.
func unquote(value string) string {
	if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
		return value[1 : len(value)-1]
	}
	return value
}

// fields returns the words of a value, each of which may be in quotes.
func fields(value string) []string {
	return strings.Fields(strings.NewReplacer(`"`, " ", "'", " ").Replace(value))
}

// readAhead reads what has to be known beforehand: the kinds of local zones by name, for
// each section whether its servers are asked over TLS, and the tags of zones.
func readAhead(file string) (kinds map[string]string, secure []bool, tags map[string][]string) {
	kinds, secure, tags = map[string]string{}, []bool{false}, map[string][]string{}
	view := false
	_ = optionFiles().Each(file, func(_ report.Place, key, value string) { // the reader of the settings reports syntax errors
		switch f := fields(value); {
		case value == "" && slices.Contains(sections, key):
			secure, view = append(secure, false), key == "view"
		case len(f) == 2 && key == "local-zone" && !view:
			kinds[strings.ToLower(strings.TrimSuffix(f[0], "."))] = f[1]
		case len(f) > 1 && key == "local-zone-tag":
			tags[strings.ToLower(strings.Trim(f[0], "."))] = f[1:]
		case value == "yes" && strings.HasSuffix(key, "-upstream") && (strings.Contains(key, "-tls-") || strings.Contains(key, "-ssl-")):
			secure[len(secure)-1] = true
		}
	})
	return kinds, secure, tags
}

func Import(w *build.Work, file string) error {
	file = input.In(file, "unbound.conf")
	r := &reader{Options: Options{port: "53", dir: filepath.Dir(file)}, files: optionFiles(), views: map[string]*view{}}
	r.kinds, r.secure, r.tags.of = readAhead(file)
	r.tags.file = file
	err := build.ReadOptions(w, file, r.files, func(p *build.Plain, _ report.Place, key, value string) *report.Note {
		if value == "" && slices.Contains(sections, key) {
			r.section, r.zone = key, ""
			r.number++
			return report.Same("dns")
		}
		n := r.option(p, key, value)
		r.blocked = p.Blocked
		return n
	})
	if err != nil {
		return err
	}
	r.listeners(w)
	if err := r.finish(w); err != nil {
		return err
	}
	if len(w.Set.UseDNS().Forward.Upstreams) == 0 {
		w.Report.Add(noServer(file))
	}
	return nil
}

// A line is about an option of any section.
type line = report.Row[*reader, string]

// anywhere has options that are read before those of a section.
var anywhere = report.Rows(
	line{Keys: "name", Take: func(r *reader, value string) *report.Note {
		r.zone = strings.TrimSuffix(unquote(value), ".")
		return report.Same("dns: forward, zones, lists or policies")
	}},
	line{Keys: "include include-toplevel", Take: func(r *reader, value string) *report.Note { return r.p.Included(r.files, "include", value) }},
	line{Keys: "local-zone", Take: (*reader).localZone},
	line{Keys: "local-data", Take: (*reader).localData},
	line{Keys: "local-data-ptr", Take: func(r *reader, value string) *report.Note {
		f := strings.Fields(unquote(value))
		if len(f) < 2 {
			return report.None("it has no address and name")
		}
		r.p.Work.Host(r.p.At, f[len(f)-1], f[0])
		return report.Same("dns: hosts")
	}},
	line{Keys: "forward-addr stub-addr", Take: (*reader).server},
	line{Keys: "response-ip", Take: (*reader).answers},
	line{Keys: "access-control", Take: (*reader).access},
	line{Keys: "access-control-view", Take: func(r *reader, value string) *report.Note {
		f := strings.Fields(value)
		n, err := input.Network(cmp.Or(append(f, "")...))
		if err != nil || len(f) < 2 {
			return report.ByHand("policies", "it contains no valid network and view")
		}
		v := r.view(unquote(f[1]))
		v.networks = append(v.networks, policy.Network{Prefix: n})
		return report.Same("policies: networks")
	}},
	line{Keys: "define-tag local-zone-tag", Note: report.Same("policies of the clients with these tags")},
	line{Keys: "access-control-tag-data", Note: report.ByHand("dns: hosts", "names of one's own are the same for all clients, so these are refused: dns: block: answer: sinkhole leads them to an address")},
	line{Keys: "access-control-tag", Take: func(r *reader, value string) *report.Note { return r.tags.take("access-control-tag", value) }},
	line{Keys: "access-control-tag-action", Take: func(r *reader, value string) *report.Note { return r.tags.take("access-control-tag-action", value) }},
	line{Keys: "local-zone-override", Take: func(r *reader, value string) *report.Note { return r.tags.take("local-zone-override", value) }},
	line{Keys: "module-config", Take: func(r *reader, value string) *report.Note {
		if !strings.Contains(value, "validator") {
			return nil
		}
		return r.p.Validate("yes")
	}},
	line{Keys: "auto-trust-anchor-file trust-anchor-file trust-anchor", Take: func(r *reader, _ string) *report.Note {
		r.p.Validate("yes")
		return report.Differs("dns: forward: validate", "the keys of the root are in the program; those of other zones are not asked for")
	}},
)

// rest has options that are read after those of a section.
var rest = report.Rows(
	line{Keys: "verbosity use-syslog logfile log-queries statistics-interval extended-statistics", Note: report.Differs("events", "all queries are in the record, counters at /metrics")},
	line{Keys: "forward-tls-upstream forward-ssl-upstream", Note: report.Differs("dns: forward: upstreams", "servers with port 853 are asked over TLS")},
	line{Keys: "username directory chroot pidfile num-threads so-reuseport", Note: report.Needless("the service manager and the program do that")},
)

// option converts an option of the current section.
func (r *reader) option(p *build.Plain, key, value string) *report.Note {
	r.p = p
	if n := anywhere[key].Convert(r, value, value); n != nil {
		return n
	}
	switch text := unquote(value); {
	case r.section == "rpz" || r.section == "auth-zone":
		return r.ofZone(p, key, text)
	case r.section == "view" && key == "view-first":
		r.view(r.zone).first = text == "yes"
		return report.Same("rules of the policy")
	case r.section == "server" || r.section == "":
		if n, ok := r.Take(p, key, text); ok {
			return n
		}
	}
	n := rest[key].Convert(r, value, value)
	if n == nil && r.section == "remote-control" {
		n = report.Differs("listen.admin", "the gateway is controlled at its admin address")
	}
	return cmp.Or(n, report.None(whyNot(key)))
}

// localData converts a local record, in a zone of some kind.
func (r *reader) localData(value string) *report.Note {
	text := unquote(value)
	f := slices.DeleteFunc(strings.Fields(text), func(word string) bool { return strings.EqualFold(word, "IN") })
	name := strings.ToLower(strings.TrimSuffix(cmp.Or(append(f, "")...), "."))
	if r.section == "view" {
		v := r.view(r.zone)
		v.names = append(v.names, r.p.Entry(name))
		return report.ByHand("dns: hosts", "local names are the same for all clients; those of the view are refused the name").Closing()
	}
	zone := input.FirstParent(name, func(n string) bool { return r.kinds[n] != "" })
	kind := r.kinds[zone]
	if strings.HasPrefix(kind, "always_") && kind != "always_transparent" {
		return report.Needless("its zone refuses it anyway")
	}
	for i, x := range f {
		if x = strings.ToUpper(x); (x == "A" || x == "AAAA" || x == "CNAME") && i+1 < len(f) && i > 0 {
			r.p.Work.Host(r.p.At, name, f[i+1])
			if strings.HasSuffix(kind, "redirect") && zone == name {
				r.p.Work.Host(r.p.At, "*."+name, f[i+1])
			}
			if input.FirstParent(name, func(n string) bool { return r.tags.of[n] != nil }) != "" {
				return report.Differs("dns: hosts", "for all clients, those without the tags of its zone too")
			}
			return report.Same("dns: hosts")
		}
	}
	return report.None("other records are kept in a zone file: dns: zones")
}

// answers converts a network of addresses in answers, and what becomes of such answers.
func (r *reader) answers(value string) *report.Note {
	f := fields(value)
	if len(f) != 2 {
		return report.None("it contains no valid network and action")
	}
	n, err := input.Network(f[0])
	if err != nil {
		return report.None(err.Error())
	}
	switch f[1] {
	case "inform", "always_transparent", "static", "transparent":
		return report.Needless("such answers pass")
	}
	r.addresses = append(r.addresses, r.p.Entry(n.String()))
	return report.Same("a rule for answers with these addresses")
}

// view returns the view with a name.
func (r *reader) view(name string) *view {
	if r.views[name] == nil {
		r.views[name] = &view{}
	}
	return r.views[name]
}

// localZone converts a local zone: name and kind.
func (r *reader) localZone(value string) *report.Note {
	f := fields(value)
	if len(f) != 2 {
		return report.None("it contains no valid name and kind")
	}
	blocks, known := kindOf(f[1])
	switch name := strings.ToLower(strings.Trim(f[0], ".")); {
	case !known:
		return report.None("names of this kind are resolved like others")
	case r.section == "view":
		v := r.view(r.zone)
		v.names = append(v.names, r.p.Entry(build.ZoneRule(blocks, f[0])))
		return report.Same("a list of the policy")
	case r.tags.of[name] != nil:
		r.tags.zones = append(r.tags.zones, tagged{name, f[1]})
		return report.Same("lists of the clients with its tags")
	case f[1] == "static" || f[1] == "redirect" || f[1] == "inform_redirect":
		r.p.Zone(true, f[0])
		return report.Differs("lists.blocked", "names below it that have local-data are under dns: hosts, and answer")
	}
	return r.p.Zone(blocks, f[0])
}

// server converts a server for all names, or for those of the zone.
func (r *reader) server(value string) *report.Note {
	addr, name, named := strings.Cut(unquote(value), "#")
	secure := r.secure[min(r.number, len(r.secure)-1)]
	a, port, ok := strings.Cut(addr, "@")
	if ok && !(secure && port == "853") {
		a = net.JoinHostPort(a, port)
	}
	if ip, err := netip.ParseAddr(a); err == nil && ip.Is6() && (secure || port == "853") {
		a = "[" + a + "]"
	}
	if secure || port == "853" {
		a = "tls://" + a
	}
	n := report.Same("dns: forward: routes")
	if r.zone != "" {
		r.p.Work.Route(r.p.At, r.zone, a)
	} else {
		n = r.p.Upstream(a)
	}
	if named && n.Kind == report.Carried {
		n = report.Differs(n.Ours, "write the name "+name+" instead of the address, and the address under bootstrap, to have that name verified")
	}
	return n
}

// access converts the rules about who may ask. Of nested networks the narrowest counts.
func (r *reader) access(value string) *report.Note {
	f := strings.Fields(value)
	n, err := input.Network(cmp.Or(append(f, "")...))
	if err != nil || len(f) < 2 {
		return report.ByHand("dns: allow", "it contains no valid network and action")
	}
	r.tags.client(n)
	if strings.HasPrefix(f[1], "allow") {
		r.allowed = append(r.allowed, n)
		return report.Same("dns: allow, recursion")
	}
	r.refused = append(r.refused, n)
	return report.Same("dns: allow, deny: clients that are not allowed are refused")
}

// ofZone converts an option of a zone with a file or an address.
func (r *reader) ofZone(p *build.Plain, key, text string) *report.Note {
	all := &r.rpz
	if r.section == "auth-zone" {
		all = &r.own
	}
	if n := len(*all); n == 0 || (*all)[n-1].name != r.zone {
		*all = append(*all, filledZone{at: p.At, name: r.zone})
	}
	z := &(*all)[len(*all)-1]
	switch {
	case key == "zonefile":
		if z.file = cmp.Or(append(input.Glob(r.dir, text), "")...); z.file == "" && z.url == "" && r.section != "rpz" {
			return report.ByHand("zones: files", "no such file: copy it beside the settings and import again")
		}
		return report.Same("lists, zones: files")
	case key == "url" && r.section == "rpz" && input.IsURL(text):
		z.url = text
		return report.Same("lists: url")
	case key == "rpz-action-override":
		if z.off = text == "passthru" || text == "disabled"; z.off {
			return report.Same("no rule")
		}
		return report.Differs("dns: block: answer", "all that is refused is answered alike")
	case key == "tags" && r.section == "rpz":
		z.tags = fields(text)
		return report.Same("policies of the clients with these tags")
	case r.section == "rpz":
		return report.Differs("lists", "it is fetched like other lists, and everything refused is recorded")
	case key == "primary" || key == "master" || key == "url":
		return report.ByHand("zones: transfer", "write there the zone and the server that has it")
	}
	return &report.Note{Kind: report.Default, Why: "zones are served, and also used when names below them are resolved"}
}

// finish makes lists from zones that refuse, policies from views, and zones from files.
func (r *reader) finish(w *build.Work) error {
	some, unknown, tagged := false, false, map[string][]string{}
	for _, z := range r.rpz {
		category := "rpz"
		if z.tags != nil {
			category = w.FreeName("rpz-" + z.name)
			tagged[category] = z.tags
		}
		switch {
		case z.off:
			delete(tagged, category)
		case z.url != "":
			w.Fetch(cmp.Or(build.AddressName(z.url), "rpz"), z.url, list.Config{Category: category, Format: list.RPZ})
			some = some || z.tags == nil
		case z.file != "":
			at := z.at
			at.Text = "rpz " + z.name
			name, err := w.AddList(z.name, list.Config{Path: setting.Source(z.file), Category: category, Format: list.RPZ, Match: list.Boundary}, at)
			if err != nil {
				return err
			}
			some = some || name != "" && z.tags == nil
			if name == "" {
				delete(tagged, category)
			}
		default:
			delete(tagged, category)
			unknown = true
			n := report.ByHand("lists", "it has neither a file that is there nor an address: name it under lists with format: rpz; until then everything is refused")
			n.Place, n.What = z.at, "rpz "+z.name
			w.Report.Add(n.Closing())
		}
	}
	everyone := w.MainPolicy()
	if unknown {
		everyone.Rules = []policy.Rule{{Name: "rpz", Action: "block"}}
	}
	if some {
		everyone.Rules = append(everyone.Rules, policy.Rule{Name: "rpz", Action: "block", Category: []string{"category/rpz"}})
	}
	if err := build.RefuseAnswers(w, everyone, r.addresses); err != nil {
		return err
	}
	for _, z := range r.own {
		if d := w.Set.UseDNS(); z.file != "" {
			if d.Zones == nil {
				d.Zones = &build.Zones{}
			}
			d.Zones.Files = append(d.Zones.Files, zone.File{Path: setting.Source(z.file), Origin: z.name})
		}
	}
	rules := everyone.Rules
	own, err := r.tags.policies(w, r.tags.file, r.blocked, rules, tagged)
	if err != nil {
		return err
	}
	w.Set.Policies = append(own, w.Set.Policies...)
	return r.policies(w, rules)
}

// policies makes a policy for each view that some clients have.
func (r *reader) policies(w *build.Work, everyone []policy.Rule) error {
	for _, name := range slices.Sorted(maps.Keys(r.views)) {
		v := r.views[name]
		if len(v.networks) == 0 {
			w.Report.Add(&report.Note{Kind: report.Lost, Place: report.Place{File: r.dir}, What: "view " + name, Ours: "policies", Why: "no client uses it"})
			continue
		}
		p := policy.Policy{Name: "view " + name, Networks: v.networks}
		if len(v.names) > 0 {
			category := "view-" + name
			path, err := w.OwnLines(category, v.names)
			if err != nil {
				return err
			}
			at := v.names[0]
			at.Text = "names of view " + name
			made, err := w.AddList(category, build.ListOfZones(path, category), at)
			if err != nil {
				return err
			}
			if made != "" {
				p.Rules = append(p.Rules, policy.Rule{Name: "view", Action: "block", Category: []string{"category/" + category}})
			}
		}
		for _, r := range everyone {
			if v.first || len(v.names) == 0 || r.Name == "rpz" || r.Name == "what is not known" { // all clients have it
				p.Rules = append(p.Rules, r)
			}
		}
		w.Set.Policies = slices.Insert(w.Set.Policies, 0, p)
	}
	return nil
}

// readClients sets which clients may ask.
func (o *Options) readClients(w *build.Work) {
	s := &w.Set.UseDNS().Server
	for _, own := range []string{"127.0.0.0/8", "::1/128"} { // which Unbound allows unless it is told otherwise
		n := netip.MustParsePrefix(own)
		is := func(a netip.Prefix) bool { return a == n }
		if !slices.ContainsFunc(o.allowed, is) && !slices.ContainsFunc(o.refused, is) {
			o.allowed = append(o.allowed, n)
		}
	}
	for _, n := range o.allowed {
		s.Allow, s.Recursion = append(s.Allow, n), append(s.Recursion, n)
	}
	for _, n := range o.refused {
		within := func(a netip.Prefix) bool { return a.Bits() < n.Bits() && a.Contains(n.Addr()) }
		around := func(a netip.Prefix) bool { return n.Bits() <= a.Bits() && n.Contains(a.Addr()) }
		switch {
		case slices.ContainsFunc(o.allowed, around) && slices.ContainsFunc(o.allowed, within):
			s.Deny = append(s.Deny, build.Without(n, o.allowed)...)
		case slices.ContainsFunc(o.allowed, within):
			s.Deny = append(s.Deny, n)
		}
	}
}
