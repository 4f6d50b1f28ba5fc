// Package opnsense imports config.xml of OPNsense: its name server, which is Unbound, and its proxy,
// which is Squid.
package opnsense

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/nameserver"
	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
	"shuultuur/tool/importer/unbound"
)

// An config is the name server and the proxy of a config.xml.
type config struct {
	p                                *build.Plain
	root, interfaces, unbound, squid *xmlNode

	banned     []policy.Network // clients that may not use the proxy
	stayClosed []policy.Rule
	scoped     []*scoped
	seen       map[*xmlNode]bool // settings that are reported
}

// Import reads config.xml: the name server with its overrides and lists,
// and the proxy with its rules.
func Import(w *build.Work, file string) error {
	file = input.In(file, "config.xml")
	data, err := input.Whole(file)
	if err != nil {
		return err
	}
	root, err := readXML(data)
	if err != nil {
		return err
	}
	w.Set.UseDNS()
	firewall := root.at("opnsense")
	ours := firewall.at("OPNsense")
	o := &config{root: firewall, interfaces: firewall.at("interfaces"), p: &build.Plain{Work: w, At: report.Place{File: file}}, unbound: nameServer(firewall), squid: ours.at("proxy"), seen: map[*xmlNode]bool{}}
	o.general()
	o.overrides()
	o.blocklists()
	o.advanced()
	names := o.p
	o.p = &build.Plain{Work: w, At: report.Place{File: file}, Suffix: "-sites"} // the lists of the proxy, which are not for names alone
	o.proxy()
	for _, part := range []struct {
		name string
		node *xmlNode
	}{{"unboundplus", o.unbound}, {"proxy", o.squid}} {
		part.node.eachLeaf(part.name, func(path string, n *xmlNode) {
			if o.seen[n] {
				return
			}
			switch leaf := path[strings.LastIndexByte(path, '.')+1:]; {
			case n.text == "":
				o.addNote(n, path, &report.Note{Kind: report.Default})
			case slices.Contains([]string{"enabled", "description", "uuid", "mxprio", "mx", "rr"}, leaf):
				o.addNote(n, path, &report.Note{Kind: report.Default, Why: "with its neighbours"})
			default:
				o.addNote(n, path, report.None(whyNot(path)))
			}
		})
	}
	o.p.At.Line = 0
	if err := o.p.AddToSettings(); err != nil {
		return err
	}
	if err := o.refuseNames(names); err != nil {
		return err
	}
	if err := o.clients(); err != nil {
		return err
	}
	o.safety()
	return nil
}

// whyNot returns the reason why an element has no equivalent.
func whyNot(path string) string {
	if option, ok := strings.CutPrefix(path, "unboundplus.advanced."); ok {
		for _, x := range unbound.Reasons {
			if strings.HasPrefix(option, strings.ReplaceAll(x.Prefix, "-", "")) {
				return x.Why
			}
		}
		return unbound.Sized
	}
	return cmp.Or(proxyReasons.Of(path), "not about filtering names or pages; leave it to the firewall")
}

// addNote reports an element.
func (o *config) addNote(n *xmlNode, path string, note *report.Note) {
	o.seen[n] = true
	o.p.At.Line = n.line
	o.p.Note(o.p.At, path, n.text, note)
}

// take reports an element that is not empty.
func (o *config) take(n *xmlNode, path string, note func(value string) *report.Note) {
	if n.text == "" {
		return
	}
	o.p.At.Line = n.line
	o.addNote(n, path, note(n.text))
}

// general converts settings one by one. Long because each option has a case.
func (o *config) general() {
	g := o.unbound.at("general")
	o.take(g.at("port"), "unboundplus.general.port", func(v string) *report.Note {
		return o.p.Listen(v)
	})
	o.take(g.at("dnssec"), "unboundplus.general.dnssec", o.p.Validate)
	o.take(g.at("active_interface"), "unboundplus.general.active_interface", func(string) *report.Note {
		port := cmp.Or(g.at("port").text, "53")
		addresses := o.addresses(g.at("active_interface"))
		if addresses[0] == "" {
			return report.Differs("dns: listen", "an interface has no address of its own in the file: all addresses are listened at")
		}
		listen := []string{"127.0.0.1:" + port}
		for _, a := range addresses {
			listen = append(listen, net.JoinHostPort(a, port))
		}
		o.p.Work.Set.UseDNS().Server.Listen = listen
		return report.Same("dns: listen")
	})
	o.take(o.unbound.at("advanced", "custom_options"), "unbound.custom_options", func(text string) *report.Note {
		lines := strings.TrimSpace(customOptions(text))
		if lines == "" {
			return &report.Note{Kind: report.Default}
		}
		return report.ByHand("dns", fmt.Sprintf("save the %d lines as a file, and import that: import unbound FILE", strings.Count(lines, "\n")+1)).Opening()
	})
	o.take(g.at("safesearch"), "unboundplus.general.safesearch", func(v string) *report.Note {
		if o.p.Work.MainPolicy().SafeSearch = v == "1"; v != "1" {
			return &report.Note{Kind: report.Default}
		}
		return report.Same("safesearch: true")
	})
	o.take(g.at("enable_wpad"), "unboundplus.general.enable_wpad", func(v string) *report.Note {
		if v != "1" {
			return &report.Note{Kind: report.Default}
		}
		return report.ByHand("portal", "the portal serves a proxy configuration: write dns: hosts: wpad, and portal: pac")
	})
	o.take(g.at("dns64"), "unboundplus.general.dns64", func(v string) *report.Note {
		if v != "1" {
			return &report.Note{Kind: report.Default}
		}
		prefix := cmp.Or(g.at("dns64prefix").text, "true")
		if err := o.p.Work.Set.UseDNS().Names.DNS64.UnmarshalText([]byte(prefix)); err != nil {
			return report.ByHand("dns: dns64", err.Error())
		}
		return report.Same("dns: dns64")
	})
	o.take(g.at("dns64prefix"), "unboundplus.general.dns64prefix", func(string) *report.Note { return report.Same("dns: dns64") })
	o.take(g.at("regdhcp"), "unboundplus.general.regdhcp", func(v string) *report.Note {
		if v != "1" {
			return &report.Note{Kind: report.Default}
		}
		return report.ByHand("identity: names: leases", "name the file with the leases of the DHCP server there")
	})
	o.take(g.at("regdhcpstatic"), "unboundplus.general.regdhcpstatic", func(v string) *report.Note {
		if v != "1" {
			return &report.Note{Kind: report.Default}
		}
		domain := cmp.Or(g.at("regdhcpdomain").text, o.root.at("system", "domain").text)
		for _, subnet := range o.root.at("dhcpd").nodes {
			subnet.eachChild("staticmap", func(n *xmlNode) {
				if name := n.at("hostname").text; name != "" {
					o.p.At.Line = n.line
					o.p.Work.Host(o.p.At, strings.Trim(name+"."+domain, "."), n.at("ipaddr").text)
				}
			})
		}
		return report.Same("dns: hosts")
	})
	o.take(g.at("regdhcpdomain"), "unboundplus.general.regdhcpdomain", func(string) *report.Note { return report.Same("dns: hosts") })
	o.take(g.at("stats"), "unboundplus.general.stats", func(string) *report.Note {
		return report.Differs("events", "statistics are computed from the record")
	})
	forwarding := o.unbound.at("forwarding", "enabled")
	o.take(forwarding, "unboundplus.forwarding.enabled", func(v string) *report.Note {
		if v != "1" {
			return report.Differs("dns: forward: upstreams", "Unbound asks the servers of each zone itself; here the system's are asked unless upstreams are named")
		}
		o.root.at("system").eachChild("dnsserver", func(n *xmlNode) {
			if n.text != "" {
				o.p.At.Line = n.line
				o.p.Note(o.p.At, "system.dnsserver", n.text, o.p.Upstream(n.text))
			}
		})
		return report.Same("dns: forward: upstreams, which are those of the system")
	})
}

// overrides converts host overrides, and upstreams.
func (o *config) overrides() {
	o.unbound.at("hosts").eachChild("host", func(h *xmlNode) {
		if o.isOff(h) {
			return
		}
		name := strings.Trim(h.at("hostname").text+"."+h.at("domain").text, ".")
		server := cmp.Or(h.at("server").text, h.at("mxprio").text)
		note := report.Same("dns: hosts")
		if rr := h.at("rr").text; rr == "MX" || rr == "TXT" {
			note = report.ByHand("dns: zones", "records other than addresses are kept in a zone file")
		} else {
			o.p.At.Line = h.line
			o.p.Work.Host(o.p.At, name, server)
		}
		o.entry(h, "unboundplus.hosts.host", note)
	})
	o.unbound.at("aliases").eachChild("alias", func(a *xmlNode) {
		if o.isOff(a) {
			return
		}
		to := o.hostOf(a.at("host").text)
		name := strings.Trim(a.at("hostname").text+"."+a.at("domain").text, ".")
		if to == "" {
			o.entry(a, "unboundplus.aliases.alias", report.ByHand("dns: hosts", "its host is not there"))
			return
		}
		o.p.At.Line = a.line
		o.p.Work.Host(o.p.At, name, to)
		o.entry(a, "unboundplus.aliases.alias", report.Same("dns: hosts"))
	})
	o.unbound.at("domains").eachChild("domain", func(d *xmlNode) {
		if len(d.nodes) == 0 || o.isOff(d) {
			return
		}
		o.p.At.Line = d.line
		o.p.Work.Route(o.p.At, d.at("domain").text, d.at("server").text)
		o.entry(d, "unboundplus.domains.domain", report.Same("dns: forward: routes"))
	})
	o.unbound.at("dots").eachChild("dot", func(d *xmlNode) {
		if o.isOff(d) {
			return
		}
		server, port := d.at("server").text, d.at("port").text
		encrypted := d.at("type").text != "forward"
		if port != "" && !(encrypted && port == "853") && !(!encrypted && port == "53") {
			server = net.JoinHostPort(server, port)
		}
		if encrypted {
			server = "tls://" + server
		}
		o.p.At.Line = d.line
		if domain := d.at("domain").text; domain != "" {
			o.p.Work.Route(o.p.At, domain, server)
			o.entry(d, "unboundplus.dots.dot", report.Same("dns: forward: routes"))
			return
		}
		note := o.p.Upstream(server)
		if name := d.at("verify").text; encrypted && name != "" && note.Kind == report.Carried {
			note = report.Differs("dns: forward: upstreams", "write the name "+name+" instead of the address, and the address under bootstrap, to have that name verified")
		}
		o.entry(d, "unboundplus.dots.dot", note)
	})
}

// hostOf returns the name in the override with an identifier, or "".
func (o *config) hostOf(id string) (name string) {
	o.unbound.at("hosts").eachChild("host", func(h *xmlNode) {
		if id != "" && h.id == id {
			name = strings.Trim(h.at("hostname").text+"."+h.at("domain").text, ".")
		}
	})
	return name
}

// isOff reports whether a group is switched off. If so, it adds a note.
func (o *config) isOff(n *xmlNode) bool {
	if n.at("enabled").text != "0" {
		return false
	}
	o.entry(n, n.name, &report.Note{Kind: report.Default, Why: "it is switched off"})
	return true
}

// entry reports a group as one setting.
func (o *config) entry(n *xmlNode, path string, note *report.Note) {
	var texts []string
	n.eachLeaf("", func(_ string, x *xmlNode) {
		o.seen[x] = true
		if x.text != "" && x.name != "enabled" {
			texts = append(texts, x.text)
		}
	})
	o.p.At.Line = n.line
	o.p.Note(o.p.At, path, strings.Join(texts, " "), note)
}

// lists has the lists of the catalogue for OPNsense's short names.
var lists = map[string]string{
	"aa": "adaway", "ag": "adguard-dns", "el": "easylist", "ep": "easyprivacy", "sb": "stevenblack", "yy": "peter-lowe",
	"hgz001": "hagezi-light", "hgz002": "hagezi-normal", "hgz003": "hagezi-pro", "hgz011": "hagezi-tif", "oisd0": "oisd-small", "oisd1": "oisd-big", "oisd2": "oisd-nsfw",
}

// blocklists converts the blocklists of the name server.
func (o *config) blocklists() {
	lists := []*xmlNode{o.unbound.at("dnsbl")}
	o.unbound.at("dnsbl").eachChild("blocklist", func(n *xmlNode) { lists = append(lists, n) })
	everybodys := o.p
	for i, b := range lists {
		off := b.at("enabled").text == "0"
		if o.p = everybodys; !off && b.at("source_nets").text != "" {
			o.p = &build.Plain{Work: o.p.Work, At: o.p.At, Suffix: fmt.Sprintf("-%d", i)}
			o.scoped = append(o.scoped, &scoped{p: o.p})
		}
		for _, x := range []struct {
			name string
			take func(value string) *report.Note
		}{
			{"lists", func(v string) *report.Note { return o.p.List(true, v) }},
			{"type", func(v string) *report.Note { return o.shortList(v) }},
			{"blocklists", func(v string) *report.Note { return o.blockExact(v) }},
			{"wildcards", func(v string) *report.Note { return o.p.AddNames(true, v) }},
			{"whitelists", func(v string) *report.Note { return o.nameOrExpression(false, v) }},
			{"allowlists", func(v string) *report.Note { return o.nameOrExpression(false, v) }},
			{"source_nets", func(v string) *report.Note {
				return o.networksOf("policies: networks", v, func(n netip.Prefix) {
					s := o.scoped[len(o.scoped)-1]
					s.networks = append(s.networks, policy.Network{Prefix: n})
				})
			}},
			{"address", func(v string) *report.Note { return o.sinkhole(v) }},
			{"nxdomain", func(v string) *report.Note {
				if v != "1" {
					return &report.Note{Kind: report.Default}
				}
				o.p.Work.Set.UseDNS().Names.Block.Answer = filter.NXDomain
				return report.Same("dns: block: answer")
			}},
			{"cache_ttl", func(v string) *report.Note {
				return build.TakeTime(v, "dns: block: ttl", time.Second, 24*time.Hour, &o.p.Work.Set.UseDNS().Names.Block.TTL)
			}},
		} {
			n, path := b.at(x.name), "unboundplus.dnsbl."+x.name
			if n.text == "" {
				continue
			}
			if off {
				o.addNote(n, path, &report.Note{Kind: report.Default, Why: "it is switched off"})
				continue
			}
			o.p.At.Line = n.line
			last := &report.Note{Kind: report.Default}
			for _, v := range n.values() {
				if last = x.take(v); last.Kind == report.Lost {
					o.p.Note(o.p.At, path, v, last)
				}
			}
			if last.Kind != report.Lost {
				o.addNote(n, path, last)
			}
			o.seen[n] = true
		}
	}
	o.p = everybodys
}

// An scoped is a blocklist for the clients of some networks.
type scoped struct {
	p        *build.Plain
	networks []policy.Network
}

// nameRules returns rules for a blocklist of names. What a list allows is an exception from it, and
// does not allow what the proxy refuses.
func nameRules(p *build.Plain) (rules []policy.Rule, err error) {
	all, err := p.Rules()
	if err != nil {
		return nil, err
	}
	var unless []string
	for _, r := range all {
		if r.Action == "allow" {
			unless = r.Category
			continue
		}
		r.Unless = unless
		rules = append(rules, r)
	}
	return rules, nil
}

// refuseNames puts the blocklists of the name server before the rules of all clients, also of those
// whom the proxy does not restrict.
func (o *config) refuseNames(names *build.Plain) error {
	rules, err := nameRules(names)
	if err != nil {
		return err
	}
	for i := range o.p.Work.Set.Policies {
		p := &o.p.Work.Set.Policies[i]
		p.Rules = slices.Concat(rules, p.Rules)
	}
	return nil
}

// clients makes policies for the clients with blocklists of their own, in front of everybody's
// policy. What a list allows is an exception from that list alone.
func (o *config) clients() error {
	rules := make([][]policy.Rule, len(o.scoped))
	var networks []netip.Prefix
	for i, s := range o.scoped {
		var err error
		if rules[i], err = nameRules(s.p); err != nil {
			return err
		}
		for _, n := range s.networks {
			if !slices.Contains(networks, n.Prefix) {
				networks = append(networks, n.Prefix)
			}
		}
	}
	slices.SortStableFunc(networks, func(a, b netip.Prefix) int { return b.Bits() - a.Bits() })
	var groups []*build.Clients
	for _, n := range networks {
		var lists []string
		for i, s := range o.scoped {
			if build.Covers(s.networks, n) {
				lists = append(lists, strconv.Itoa(i))
			}
		}
		groups = build.Join(groups, n, lists)
	}
	everyone := *o.p.Work.MainPolicy()
	for _, g := range groups {
		p := everyone
		p.Name, p.Networks, p.Rules = fmt.Sprintf("clients of %s", g.Networks[0].Prefix), g.Networks, nil
		for _, list := range g.Names {
			i, _ := strconv.Atoi(list) // made above
			for _, r := range rules[i] {
				if !slices.ContainsFunc(p.Rules, func(x policy.Rule) bool { return x.Name == r.Name }) {
					p.Rules = append(p.Rules, r)
				}
			}
		}
		for _, r := range everyone.Rules {
			if !slices.ContainsFunc(p.Rules, func(x policy.Rule) bool { return x.Name == r.Name }) {
				p.Rules = append(p.Rules, r)
			}
		}
		o.p.Work.Set.Policies = slices.Insert(o.p.Work.Set.Policies, len(o.p.Work.Set.Policies)-1, p)
	}
	return nil
}

func (o *config) shortList(id string) *report.Note { return o.p.Catalogued(id, lists) }

// blockExact blocks a name but not the names below it.
func (o *config) blockExact(name string) *report.Note {
	o.p.Blocked = append(o.p.Blocked, o.p.Entry(strings.ToLower(strings.Trim(name, "."))))
	return report.Same("lists.blocked")
}

func (o *config) sinkhole(value string) *report.Note {
	a, err := netip.ParseAddr(value)
	if err != nil {
		return report.ByHand("dns: block: sinkhole", err.Error())
	}
	b := &o.p.Work.Set.UseDNS().Names.Block
	if a.IsUnspecified() {
		b.Answer = filter.Zero
		return report.Same("dns: block: answer")
	}
	b.Answer, b.Sinkhole = filter.Sinkhole, append(b.Sinkhole, a)
	return report.Same("dns: block: sinkhole")
}

// advanced reports the settings of the name server that we size automatically,
// and converts those that have an equivalent.
func (o *config) advanced() {
	a, names := o.unbound.at("advanced"), &unbound.Options{}
	for _, option := range []string{"private-domain", "private-address", "domain-insecure", "serve-expired", "serve-expired-ttl", "cache-max-ttl", "cache-min-ttl",
		"cache-max-negative-ttl", "rrset-cache-size", "ip-ratelimit", "prefetch", "log-queries"} {
		name := strings.ReplaceAll(option, "-", "")
		if option == "domain-insecure" {
			name = "insecuredomain"
		}
		o.take(a.at(name), "unboundplus.advanced."+name, func(v string) *report.Note {
			if v == "0" {
				return &report.Note{Kind: report.Default}
			}
			if n, ok := names.Take(o.p, option, v); ok {
				return n
			}
			return report.Differs("events", "all queries are recorded")
		})
	}
	acls := o.unbound.at("acls")
	o.take(acls.at("default_action"), "unboundplus.acls.default_action", func(v string) *report.Note {
		if v == "allow" {
			return report.Differs("dns: recursion", "private networks are answered, and those that an access list allows")
		}
		return report.Same("dns: recursion")
	})
	acls.eachChild("acl", func(n *xmlNode) {
		if o.isOff(n) {
			return
		}
		action := n.at("action").text
		note := report.Same("dns: allow")
		for _, v := range n.at("networks").values() {
			prefix, err := input.Network(v)
			l := &o.p.Work.Set.UseDNS().Server
			switch {
			case err != nil:
				note = report.ByHand("dns: allow", err.Error())
			case strings.HasPrefix(action, "allow"):
				if len(l.Recursion) == 0 { // the firewall's own networks are allowed anyway
					l.Recursion = nameserver.PrivateNetworks()
				}
				l.Recursion = append(l.Recursion, prefix)
				note = report.Same("dns: recursion")
			default:
				l.Deny = append(l.Deny, prefix)
				note = report.Same("dns: deny")
			}
		}
		o.entry(n, "unboundplus.acls.acl", note)
	})
}

// networksOf calls take with each network of a list.
func (o *config) networksOf(ours, value string, take func(netip.Prefix)) *report.Note {
	for v := range strings.SplitSeq(value, ",") {
		n, err := input.Network(strings.TrimSpace(v))
		if err != nil {
			return report.ByHand(ours, err.Error())
		}
		take(n)
	}
	return report.Same(ours)
}
