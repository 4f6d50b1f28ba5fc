package importer

import (
	"cmp"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy"
	"shuultuur/setting"
	"shuultuur/zone"
)

// An unboundReader reads unbound.conf section by section.
type unboundReader struct {
	unboundOptions
	files  *optionFiles
	kinds  map[string]string // kinds of local zones
	secure []bool            // by section: whether its servers are asked over TLS
	number int               // number of the section being read

	section, zone string // its kind, and its name
	views         map[string]*unboundView
	rpz, own      []unboundZone
	tags          unboundTags
	blocked       []place // names that are refused to everybody
}

// An unboundView is the set of additional settings for clients of some networks.
type unboundView struct {
	networks []policy.Network
	names    []place
	first    bool // evaluated before everybody's settings, not in their place
}

// An unboundZone is a zone that has a file or an address.
type unboundZone struct {
	at              place
	name, file, url string
	tags            []string // tags of the clients that it is for; empty for all clients
	off             bool     // it refuses nothing
}

// unboundSections are the names of sections.
var unboundSections = []string{"server", "forward-zone", "stub-zone", "remote-control", "auth-zone", "python", "view", "rpz", "dnscrypt", "cachedb", "dnstap", "dynlib"}

// unboundText removes quotes of both kinds.
func unboundText(value string) string {
	if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
		return value[1 : len(value)-1]
	}
	return value
}

// unboundFields returns the words of a value, each of which may be in quotes.
func unboundFields(value string) []string {
	return strings.Fields(strings.NewReplacer(`"`, " ", "'", " ").Replace(value))
}

// unboundAhead reads what has to be known beforehand: the kinds of local zones by name, for
// each section whether its servers are asked over TLS, and the tags of zones.
func unboundAhead(file string) (kinds map[string]string, secure []bool, tags map[string][]string) {
	kinds, secure, tags = map[string]string{}, []bool{false}, map[string][]string{}
	view := false
	_ = unboundFiles().eachOption(file, func(_ place, key, value string) { // the reader of the settings reports syntax errors
		switch f := unboundFields(value); {
		case value == "" && slices.Contains(unboundSections, key):
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

func readUnbound(w *work, file string) error {
	file = fileIn(file, "unbound.conf")
	r := &unboundReader{unboundOptions: unboundOptions{port: "53", dir: filepath.Dir(file)}, files: unboundFiles(), views: map[string]*unboundView{}}
	r.kinds, r.secure, r.tags.of = unboundAhead(file)
	r.tags.file = file
	err := readOptions(w, file, r.files, func(p *plain, _ place, key, value string) *Note {
		if value == "" && slices.Contains(unboundSections, key) {
			r.section, r.zone = key, ""
			r.number++
			return carried("dns")
		}
		n := r.option(p, key, value, unboundText(value))
		r.blocked = p.blocked
		return n
	})
	if err != nil {
		return err
	}
	r.listeners(w)
	if err := r.finish(w); err != nil {
		return err
	}
	if len(w.set.dns().Forward.Upstreams) == 0 {
		w.rep.add(unboundAsks(file))
	}
	return nil
}

// option converts an option of the current section.
func (r *unboundReader) option(p *plain, key, value, text string) *Note {
	if n, ok := r.tags.take(key, value); ok {
		return n
	}
	switch key {
	case "name":
		r.zone = strings.TrimSuffix(text, ".")
		return carried("dns: forward, zones, lists or policies")
	case "include", "include-toplevel":
		return included(r.files, key, value)
	case "local-zone":
		return r.localZone(p, unboundFields(value))
	case "local-data":
		if r.section == "view" {
			return lostOurs("dns: hosts", "local names are the same for all clients")
		}
		n := p.unboundData(p.at, strings.Fields(strings.ReplaceAll(text, " IN ", " ")), r.kinds)
		if name, _, _ := strings.Cut(text, " "); firstParent(strings.ToLower(strings.TrimSuffix(name, ".")), func(s string) bool { return r.tags.of[s] != nil }) != "" && n.Kind == Carried {
			n = differs(n.Ours, "for all clients, those without the tags of its zone too")
		}
		return n
	case "local-data-ptr":
		f := strings.Fields(text)
		if len(f) < 2 {
			return lost("it has no address and name")
		}
		p.host(p.at, f[len(f)-1], f[0])
		return carried("dns: hosts")
	case "forward-addr", "stub-addr":
		return r.server(p, text)
	case "access-control":
		return r.access(p.work, strings.Fields(value))
	case "access-control-view":
		f := strings.Fields(value)
		n, err := network(cmp.Or(append(f, "")...))
		if err != nil || len(f) < 2 {
			return lostOurs("policies", "it contains no valid network and view")
		}
		v := r.view(unboundText(f[1]))
		v.networks = append(v.networks, policy.Network{Prefix: n})
		return carried("policies: networks")
	case "module-config":
		if strings.Contains(value, "validator") {
			return p.validate("yes")
		}
	case "auto-trust-anchor-file", "trust-anchor-file", "trust-anchor":
		p.validate("yes")
		return differs("dns: forward: validate", "the keys of the root are in the program; those of other zones are not asked for")
	}
	if r.section == "rpz" || r.section == "auth-zone" {
		return r.ofZone(p, key, text)
	}
	if r.section == "view" && key == "view-first" {
		r.view(r.zone).first = text == "yes"
		return carried("rules of the policy")
	}
	if r.section == "server" || r.section == "" {
		if n, ok := r.take(p, key, text); ok {
			return n
		}
	}
	return unboundOther(r.section, key)
}

// view returns the view with a name.
func (r *unboundReader) view(name string) *unboundView {
	if r.views[name] == nil {
		r.views[name] = &unboundView{}
	}
	return r.views[name]
}

// localZone converts a local zone: name and kind.
func (r *unboundReader) localZone(p *plain, f []string) *Note {
	if len(f) != 2 {
		return lost("it contains no valid name and kind")
	}
	blocks, known := unboundKind(f[1])
	switch name := strings.ToLower(strings.Trim(f[0], ".")); {
	case !known:
		return lost("names of this kind are resolved like others")
	case r.section == "view":
		v := r.view(r.zone)
		v.names = append(v.names, p.entry(zoneRule(blocks, f[0])))
		return carried("a list of the policy")
	case r.tags.of[name] != nil:
		r.tags.zones = append(r.tags.zones, unboundTagged{name, f[1]})
		return carried("lists of the clients with its tags")
	case f[1] == "static" || f[1] == "redirect" || f[1] == "inform_redirect":
		p.zone(true, f[0])
		return differs("lists.blocked", "names below it that have local-data are under dns: hosts, and answer")
	}
	return p.zone(blocks, f[0])
}

// server converts a server for all names, or for those of the zone.
func (r *unboundReader) server(p *plain, text string) *Note {
	addr, name, named := strings.Cut(text, "#")
	secure := r.secure[min(r.number, len(r.secure)-1)]
	a, port, ok := strings.Cut(addr, "@")
	if ok && !(secure && port == "853") {
		a = net.JoinHostPort(a, port)
	}
	if secure || port == "853" {
		a = "tls://" + a
	}
	n := carried("dns: forward: routes")
	if r.zone != "" {
		p.route(p.at, r.zone, a)
	} else {
		n = p.upstream(a)
	}
	if named && n.Kind == Carried {
		n = differs(n.Ours, "write the name "+name+" instead of the address, and the address under bootstrap, to have that name verified")
	}
	return n
}

// access converts the rules about who may ask. Of nested networks the narrowest counts.
func (r *unboundReader) access(w *work, f []string) *Note {
	n, err := network(cmp.Or(append(f, "")...))
	if err != nil || len(f) < 2 {
		return lostOurs("dns: allow", "it contains no valid network and action")
	}
	r.tags.client(n)
	if strings.HasPrefix(f[1], "allow") {
		r.allowed = append(r.allowed, n)
		return carried("dns: allow, recursion")
	}
	r.refused = append(r.refused, n)
	return carried("dns: allow, deny: clients that are not allowed are refused")
}

// ofZone converts an option of a zone with a file or an address.
func (r *unboundReader) ofZone(p *plain, key, text string) *Note {
	all := &r.rpz
	if r.section == "auth-zone" {
		all = &r.own
	}
	if n := len(*all); n == 0 || (*all)[n-1].name != r.zone {
		*all = append(*all, unboundZone{at: p.at, name: r.zone})
	}
	z := &(*all)[len(*all)-1]
	switch {
	case key == "zonefile":
		if z.file = cmp.Or(append(filesOf(r.dir, text), "")...); z.file == "" && z.url == "" && r.section != "rpz" {
			return lostOurs("zones: files", "no such file: copy it beside the settings and import again")
		}
		return carried("lists, zones: files")
	case key == "url" && r.section == "rpz" && isURL(text):
		z.url = text
		return carried("lists: url")
	case key == "rpz-action-override":
		if z.off = text == "passthru" || text == "disabled"; z.off {
			return carried("no rule")
		}
		return differs("dns: block: answer", "all that is refused is answered alike")
	case key == "tags" && r.section == "rpz":
		z.tags = unboundFields(text)
		return carried("policies of the clients with these tags")
	case r.section == "rpz":
		return differs("lists", "it is fetched like other lists, and everything refused is recorded")
	case key == "primary" || key == "master" || key == "url":
		return lostOurs("zones: transfer", "write there the zone and the server that has it")
	}
	return &Note{Kind: Default, Why: "zones are served, and also used when names below them are resolved"}
}

// finish makes lists from zones that refuse, policies from views, and zones from files.
func (r *unboundReader) finish(w *work) error {
	some, tagged := false, map[string][]string{}
	for _, z := range r.rpz {
		category := "rpz"
		if z.tags != nil {
			category = w.freeName("rpz-" + z.name)
			tagged[category] = z.tags
		}
		switch {
		case z.off:
			delete(tagged, category)
		case z.url != "":
			name := w.freeName(cmp.Or(addressName(z.url), "rpz"))
			w.lists[name] = list.Config{Category: category}
			l := collection.List{Config: list.Config{Category: category, Format: list.RPZ}}
			l.Fetch.URL = z.url
			if w.set.Lists == nil {
				w.set.Lists = collection.Config{}
			}
			w.set.Lists[name], some = l, some || z.tags == nil
		case z.file != "":
			at := z.at
			at.what = "rpz " + z.name
			name, err := w.addList(z.name, list.Config{Path: setting.Source(z.file), Category: category, Format: list.RPZ, Match: list.Boundary}, at)
			if err != nil {
				return err
			}
			some = some || name != "" && z.tags == nil
			if name == "" {
				delete(tagged, category)
			}
		default:
			delete(tagged, category)
			w.rep.add(&Note{Kind: Lost, place: z.at, What: "rpz " + z.name, Ours: "lists", Why: "it has neither a file that is there nor an address: name it under lists with format: rpz"})
		}
	}
	everyone := w.mainPolicy()
	if some {
		everyone.Rules = append(everyone.Rules, policy.Rule{Name: "rpz", Action: "block", Category: []string{"category/rpz"}})
	}
	for _, z := range r.own {
		if d := w.set.dns(); z.file != "" {
			if d.Zones == nil {
				d.Zones = &zones{}
			}
			d.Zones.Files = append(d.Zones.Files, zone.File{Path: setting.Source(z.file), Origin: z.name})
		}
	}
	rules := everyone.Rules
	own, err := r.tags.policies(w, r.tags.file, r.blocked, rules, tagged)
	if err != nil {
		return err
	}
	w.set.Policies = append(own, w.set.Policies...)
	return r.policies(w, rules)
}

// policies makes a policy for each view that some clients have.
func (r *unboundReader) policies(w *work, everyone []policy.Rule) error {
	for _, name := range sortedKeys(r.views) {
		v := r.views[name]
		if len(v.networks) == 0 {
			w.rep.add(&Note{Kind: Lost, place: place{file: r.dir}, What: "view " + name, Ours: "policies", Why: "no client uses it"})
			continue
		}
		p := policy.Policy{Name: "view " + name, Networks: v.networks}
		if len(v.names) > 0 {
			category := "view-" + name
			path, err := w.ownLines(category, v.names)
			if err != nil {
				return err
			}
			at := v.names[0]
			at.what = "names of view " + name
			made, err := w.addList(category, listOfZones(path, category), at)
			if err != nil {
				return err
			}
			if made != "" {
				p.Rules = append(p.Rules, policy.Rule{Name: "view", Action: "block", Category: []string{"category/" + category}})
			}
		}
		for _, r := range everyone {
			if v.first || len(v.names) == 0 || r.Name == "rpz" { // all clients have it
				p.Rules = append(p.Rules, r)
			}
		}
		w.set.Policies = slices.Insert(w.set.Policies, 0, p)
	}
	return nil
}

// readClients sets which clients may ask.
func (o *unboundOptions) readClients(w *work) {
	s := &w.set.dns().Server
	for _, n := range o.allowed {
		s.Allow, s.Recursion = append(s.Allow, n), append(s.Recursion, n)
	}
	for _, n := range o.refused {
		within := func(a netip.Prefix) bool { return a.Bits() < n.Bits() && a.Contains(n.Addr()) }
		around := func(a netip.Prefix) bool { return n.Bits() <= a.Bits() && n.Contains(a.Addr()) }
		switch {
		case slices.ContainsFunc(o.allowed, around) && slices.ContainsFunc(o.allowed, within):
			w.rep.add(&Note{Kind: Lost, place: place{file: o.dir}, What: "access-control: " + n.String(), Ours: "dns: deny", Why: "a network inside it is allowed: name the remaining parts there"})
		case slices.ContainsFunc(o.allowed, within):
			s.Deny = append(s.Deny, n)
		}
	}
}
