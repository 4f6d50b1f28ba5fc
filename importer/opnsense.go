package importer

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/arrange"
	"shuultuur/filter"
	"shuultuur/nameserver"
	"shuultuur/policy"
	"shuultuur/setting"
)

// An xmlNode is an element with its contents.
type xmlNode struct {
	name  string
	id    string // the attribute uuid
	line  int    // line on which it ends
	text  string
	raw   []byte // the text while it is read
	nodes []*xmlNode
}

// readXML reads an XML file. It bounds the depth of nesting.
func readXML(data []byte) (*xmlNode, error) {
	d := xml.NewDecoder(bytes.NewReader(data))
	open := []*xmlNode{{}}
	for {
		t, err := d.Token()
		top := open[len(open)-1]
		switch {
		case errors.Is(err, io.EOF):
			return open[0], nil
		case err != nil:
			return nil, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			if len(open) > 2*maxDepth {
				return nil, fmt.Errorf("elements are nested deeper than %d", 2*maxDepth)
			}
			n := &xmlNode{name: t.Name.Local}
			for _, a := range t.Attr {
				if a.Name.Local == "uuid" {
					n.id = a.Value
				}
			}
			top.nodes = append(top.nodes, n)
			open = append(open, n)
		case xml.CharData:
			top.raw = append(top.raw, t...)
		case xml.EndElement:
			top.line, _ = d.InputPos()
			top.text, top.raw = string(bytes.TrimSpace(top.raw)), nil
			open = open[:len(open)-1]
		}
	}
}

// at returns the element at a path, or an empty one.
func (n *xmlNode) at(path ...string) *xmlNode {
	for _, name := range path {
		i := slices.IndexFunc(n.nodes, func(x *xmlNode) bool { return strings.EqualFold(x.name, name) })
		if i < 0 {
			return &xmlNode{}
		}
		n = n.nodes[i]
	}
	return n
}

// eachChild calls take with every element of a name.
func (n *xmlNode) eachChild(name string, take func(*xmlNode)) {
	for _, x := range n.nodes {
		if strings.EqualFold(x.name, name) {
			take(x)
		}
	}
}

// eachLeaf calls take with every element that has a text, and its path.
func (n *xmlNode) eachLeaf(path string, take func(path string, n *xmlNode)) {
	for _, x := range n.nodes {
		at := strings.TrimPrefix(path+"."+strings.ToLower(x.name), ".")
		if len(x.nodes) == 0 {
			take(at, x)
		}
		x.eachLeaf(at, take)
	}
}

// isBreak reports whether a character separates the values of a text.
func isBreak(r rune) bool { return r == ',' || r == '\n' }

// values returns the parts of a comma-separated text.
func (n *xmlNode) values() (all []string) {
	for v := range strings.FieldsFuncSeq(n.text, isBreak) {
		if v = strings.TrimSpace(v); v != "" {
			all = append(all, v)
		}
	}
	return all
}

// An opnSense is the name server and the proxy of a config.xml.
type opnSense struct {
	*plain
	root, interfaces, unbound, squid *xmlNode

	banned     []policy.Network // clients that may not use the proxy
	stayClosed []policy.Rule
	scoped     []*opnScoped
	seen       map[*xmlNode]bool // settings that are reported
}

// readOPNsense reads config.xml: the name server with its overrides and lists,
// and the proxy with its rules.
func readOPNsense(w *work, file string) error {
	file = fileIn(file, "config.xml")
	data, err := readWhole(file)
	if err != nil {
		return err
	}
	root, err := readXML(data)
	if err != nil {
		return err
	}
	w.set.dns()
	firewall := root.at("opnsense")
	ours := firewall.at("OPNsense")
	o := &opnSense{root: firewall, interfaces: firewall.at("interfaces"), plain: &plain{work: w, at: place{file: file}}, unbound: ours.at("unboundplus"), squid: ours.at("proxy"), seen: map[*xmlNode]bool{}}
	o.general()
	o.overrides()
	o.blocklists()
	o.advanced()
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
				o.addNote(n, path, &Note{Kind: Default})
			case slices.Contains([]string{"enabled", "description", "uuid", "mxprio", "mx", "rr"}, leaf):
				o.addNote(n, path, &Note{Kind: Default, Why: "with its neighbours"})
			default:
				o.addNote(n, path, lost(opnSenseWhy(path)))
			}
		})
	}
	o.at.line = 0
	if err := o.addToSettings(); err != nil {
		return err
	}
	if err := o.clients(); err != nil {
		return err
	}
	o.safety()
	return nil
}

// opnSenseWhy returns the reason why an element has no equivalent.
func opnSenseWhy(path string) string {
	if option, ok := strings.CutPrefix(path, "unboundplus.advanced."); ok {
		for _, x := range unboundReasons {
			if strings.HasPrefix(option, strings.ReplaceAll(x.prefix, "-", "")) {
				return x.why
			}
		}
		return unboundSized
	}
	return cmp.Or(opnProxyReasons.of(path), "not about filtering names or pages; leave it to the firewall")
}

// addNote reports an element.
func (o *opnSense) addNote(n *xmlNode, path string, note *Note) {
	o.seen[n] = true
	o.at.line = n.line
	o.plain.addNote(o.at, path, n.text, note)
}

// take reports an element that is not empty.
func (o *opnSense) take(n *xmlNode, path string, note func(value string) *Note) {
	if n.text == "" {
		return
	}
	o.at.line = n.line
	o.addNote(n, path, note(n.text))
}

// general converts settings one by one. Long because each option has a case.
func (o *opnSense) general() {
	g := o.unbound.at("general")
	o.take(g.at("port"), "unboundplus.general.port", func(v string) *Note {
		return o.listen(v)
	})
	o.take(g.at("dnssec"), "unboundplus.general.dnssec", o.validate)
	o.take(g.at("active_interface"), "unboundplus.general.active_interface", func(string) *Note {
		port := cmp.Or(g.at("port").text, "53")
		addresses := o.addresses(g.at("active_interface"))
		if addresses[0] == "" {
			return differs("dns: listen", "an interface has no address of its own in the file: all addresses are listened at")
		}
		listen := []string{"127.0.0.1:" + port}
		for _, a := range addresses {
			listen = append(listen, net.JoinHostPort(a, port))
		}
		o.set.dns().Server.Listen = listen
		return carried("dns: listen")
	})
	o.take(g.at("safesearch"), "unboundplus.general.safesearch", func(v string) *Note {
		if o.mainPolicy().SafeSearch = v == "1"; v != "1" {
			return &Note{Kind: Default}
		}
		return carried("safesearch: true")
	})
	o.take(g.at("enable_wpad"), "unboundplus.general.enable_wpad", func(v string) *Note {
		if v != "1" {
			return &Note{Kind: Default}
		}
		return lostOurs("portal", "the portal serves a proxy configuration: write dns: hosts: wpad, and portal: pac")
	})
	o.take(g.at("dns64"), "unboundplus.general.dns64", func(v string) *Note {
		if v != "1" {
			return &Note{Kind: Default}
		}
		prefix := cmp.Or(g.at("dns64prefix").text, "true")
		if err := o.set.dns().Names.DNS64.UnmarshalText([]byte(prefix)); err != nil {
			return lostOurs("dns: dns64", err.Error())
		}
		return carried("dns: dns64")
	})
	o.take(g.at("dns64prefix"), "unboundplus.general.dns64prefix", func(string) *Note { return carried("dns: dns64") })
	o.take(g.at("regdhcp"), "unboundplus.general.regdhcp", func(v string) *Note {
		if v != "1" {
			return &Note{Kind: Default}
		}
		return lostOurs("identity: names: leases", "name the file with the leases of the DHCP server there")
	})
	o.take(g.at("regdhcpstatic"), "unboundplus.general.regdhcpstatic", func(v string) *Note {
		if v != "1" {
			return &Note{Kind: Default}
		}
		domain := cmp.Or(g.at("regdhcpdomain").text, o.root.at("system", "domain").text)
		for _, subnet := range o.root.at("dhcpd").nodes {
			subnet.eachChild("staticmap", func(n *xmlNode) {
				if name := n.at("hostname").text; name != "" {
					o.at.line = n.line
					o.host(o.at, strings.Trim(name+"."+domain, "."), n.at("ipaddr").text)
				}
			})
		}
		return carried("dns: hosts")
	})
	o.take(g.at("regdhcpdomain"), "unboundplus.general.regdhcpdomain", func(string) *Note { return carried("dns: hosts") })
	o.take(g.at("stats"), "unboundplus.general.stats", func(string) *Note {
		return differs("events", "statistics are computed from the record")
	})
	forwarding := o.unbound.at("forwarding", "enabled")
	o.take(forwarding, "unboundplus.forwarding.enabled", func(v string) *Note {
		if v != "1" {
			return differs("dns: forward: upstreams", "Unbound asks the servers of each zone itself; here the system's are asked unless upstreams are named")
		}
		o.root.at("system").eachChild("dnsserver", func(n *xmlNode) {
			if n.text != "" {
				o.at.line = n.line
				o.plain.addNote(o.at, "system.dnsserver", n.text, o.upstream(n.text))
			}
		})
		return carried("dns: forward: upstreams, which are those of the system")
	})
}

// overrides converts host overrides, and upstreams.
func (o *opnSense) overrides() {
	o.unbound.at("hosts").eachChild("host", func(h *xmlNode) {
		if o.isOff(h) {
			return
		}
		name := strings.Trim(h.at("hostname").text+"."+h.at("domain").text, ".")
		server := cmp.Or(h.at("server").text, h.at("mxprio").text)
		note := carried("dns: hosts")
		if rr := h.at("rr").text; rr == "MX" || rr == "TXT" {
			note = lostOurs("dns: zones", "records other than addresses are kept in a zone file")
		} else {
			o.at.line = h.line
			o.host(o.at, name, server)
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
			o.entry(a, "unboundplus.aliases.alias", lostOurs("dns: hosts", "its host is not there"))
			return
		}
		o.at.line = a.line
		o.host(o.at, name, to)
		o.entry(a, "unboundplus.aliases.alias", carried("dns: hosts"))
	})
	o.unbound.at("domains").eachChild("domain", func(d *xmlNode) {
		if len(d.nodes) == 0 || o.isOff(d) {
			return
		}
		o.at.line = d.line
		o.route(o.at, d.at("domain").text, d.at("server").text)
		o.entry(d, "unboundplus.domains.domain", carried("dns: forward: routes"))
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
		o.at.line = d.line
		if domain := d.at("domain").text; domain != "" {
			o.route(o.at, domain, server)
			o.entry(d, "unboundplus.dots.dot", carried("dns: forward: routes"))
			return
		}
		note := o.upstream(server)
		if name := d.at("verify").text; encrypted && name != "" && note.Kind == Carried {
			note = differs("dns: forward: upstreams", "write the name "+name+" instead of the address, and the address under bootstrap, to have that name verified")
		}
		o.entry(d, "unboundplus.dots.dot", note)
	})
}

// hostOf returns the name in the override with an identifier, or "".
func (o *opnSense) hostOf(id string) (name string) {
	o.unbound.at("hosts").eachChild("host", func(h *xmlNode) {
		if id != "" && h.id == id {
			name = strings.Trim(h.at("hostname").text+"."+h.at("domain").text, ".")
		}
	})
	return name
}

// isOff reports whether a group is switched off. If so, it adds a note.
func (o *opnSense) isOff(n *xmlNode) bool {
	if n.at("enabled").text != "0" {
		return false
	}
	o.entry(n, n.name, &Note{Kind: Default, Why: "it is switched off"})
	return true
}

// entry reports a group as one setting.
func (o *opnSense) entry(n *xmlNode, path string, note *Note) {
	var texts []string
	n.eachLeaf("", func(_ string, x *xmlNode) {
		o.seen[x] = true
		if x.text != "" && x.name != "enabled" {
			texts = append(texts, x.text)
		}
	})
	o.at.line = n.line
	o.plain.addNote(o.at, path, strings.Join(texts, " "), note)
}

// opnSenseLists has the lists of the catalogue for OPNsense's short names.
var opnSenseLists = map[string]string{
	"aa": "adaway", "ag": "adguard-dns", "el": "easylist", "ep": "easyprivacy", "sb": "stevenblack", "yy": "peter-lowe",
	"hgz001": "hagezi-light", "hgz002": "hagezi-normal", "hgz003": "hagezi-pro", "hgz011": "hagezi-tif", "oisd0": "oisd-small", "oisd1": "oisd-big", "oisd2": "oisd-nsfw",
}

// blocklists converts the blocklists of the name server.
func (o *opnSense) blocklists() {
	lists := []*xmlNode{o.unbound.at("dnsbl")}
	o.unbound.at("dnsbl").eachChild("blocklist", func(n *xmlNode) { lists = append(lists, n) })
	everybodys := o.plain
	for i, b := range lists {
		off := b.at("enabled").text == "0"
		if o.plain = everybodys; !off && b.at("source_nets").text != "" {
			o.plain = &plain{work: o.work, at: o.at, suffix: fmt.Sprintf("-%d", i)}
			o.scoped = append(o.scoped, &opnScoped{plain: o.plain})
		}
		for _, x := range []struct {
			name string
			take func(value string) *Note
		}{
			{"lists", func(v string) *Note { return o.list(true, v) }},
			{"type", func(v string) *Note { return o.shortList(v) }},
			{"blocklists", func(v string) *Note { return o.blockExact(v) }},
			{"wildcards", func(v string) *Note { return o.addNames(true, v) }},
			{"whitelists", func(v string) *Note { return o.nameOrExpression(false, v) }},
			{"allowlists", func(v string) *Note { return o.nameOrExpression(false, v) }},
			{"source_nets", func(v string) *Note {
				return o.networksOf("policies: networks", v, func(n netip.Prefix) {
					s := o.scoped[len(o.scoped)-1]
					s.networks = append(s.networks, policy.Network{Prefix: n})
				})
			}},
			{"address", func(v string) *Note { return o.sinkhole(v) }},
			{"nxdomain", func(v string) *Note {
				if v != "1" {
					return &Note{Kind: Default}
				}
				o.set.dns().Names.Block.Answer = filter.NXDomain
				return carried("dns: block: answer")
			}},
			{"cache_ttl", func(v string) *Note {
				return takeDuration("dns: block: ttl", time.Second, 24*time.Hour, func(p *plain) *setting.Duration { return &p.set.dns().Names.Block.TTL })(o.plain, v, nil)
			}},
		} {
			n, path := b.at(x.name), "unboundplus.dnsbl."+x.name
			if n.text == "" {
				continue
			}
			if off {
				o.addNote(n, path, &Note{Kind: Default, Why: "it is switched off"})
				continue
			}
			o.at.line = n.line
			last := &Note{Kind: Default}
			for _, v := range n.values() {
				if last = x.take(v); last.Kind == Lost {
					o.plain.addNote(o.at, path, v, last)
				}
			}
			if last.Kind != Lost {
				o.addNote(n, path, last)
			}
			o.seen[n] = true
		}
	}
	o.plain = everybodys
}

// An opnScoped is a blocklist for the clients of some networks.
type opnScoped struct {
	*plain
	networks []policy.Network
}

// clients makes policies for the clients with blocklists of their own, in front of everybody's
// policy. What a list allows is an exception from that list alone.
func (o *opnSense) clients() error {
	rules := make([][]policy.Rule, len(o.scoped))
	var networks []netip.Prefix
	for i, s := range o.scoped {
		all, err := s.rules()
		if err != nil {
			return err
		}
		var unless []string
		for _, r := range all {
			if r.Action == "allow" {
				unless = r.Category
				continue
			}
			r.Unless = unless
			rules[i] = append(rules[i], r)
		}
		for _, n := range s.networks {
			if !slices.Contains(networks, n.Prefix) {
				networks = append(networks, n.Prefix)
			}
		}
	}
	arrange.By(networks, func(a, b netip.Prefix) int { return b.Bits() - a.Bits() })
	var groups []*squidClients
	for _, n := range networks {
		var lists []string
		for i, s := range o.scoped {
			if contains(s.networks, n) {
				lists = append(lists, strconv.Itoa(i))
			}
		}
		groups = joinNetwork(groups, n, lists)
	}
	everyone := *o.mainPolicy()
	for _, g := range groups {
		p := everyone
		p.Name, p.Networks, p.Rules = fmt.Sprintf("clients of %s", g.networks[0].Prefix), g.networks, nil
		for _, list := range g.names {
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
		o.set.Policies = slices.Insert(o.set.Policies, len(o.set.Policies)-1, p)
	}
	return nil
}

func (o *opnSense) shortList(id string) *Note { return o.catalogued(id, opnSenseLists) }

// blockExact blocks a name but not the names below it.
func (o *opnSense) blockExact(name string) *Note {
	o.blocked = append(o.blocked, o.plain.entry(strings.ToLower(strings.Trim(name, "."))))
	return carried("lists.blocked")
}

func (o *opnSense) sinkhole(value string) *Note {
	a, err := netip.ParseAddr(value)
	if err != nil {
		return lostOurs("dns: block: sinkhole", err.Error())
	}
	b := &o.set.dns().Names.Block
	if a.IsUnspecified() {
		b.Answer = filter.Zero
		return carried("dns: block: answer")
	}
	b.Answer, b.Sinkhole = filter.Sinkhole, append(b.Sinkhole, a)
	return carried("dns: block: sinkhole")
}

// advanced reports the settings of the name server that we size automatically,
// and converts those that have an equivalent.
func (o *opnSense) advanced() {
	a, names := o.unbound.at("advanced"), &unboundOptions{}
	for _, option := range []string{"private-domain", "private-address", "domain-insecure", "serve-expired", "serve-expired-ttl", "cache-max-ttl", "cache-min-ttl",
		"cache-max-negative-ttl", "rrset-cache-size", "ip-ratelimit", "prefetch", "log-queries"} {
		name := strings.ReplaceAll(option, "-", "")
		if option == "domain-insecure" {
			name = "insecuredomain"
		}
		o.take(a.at(name), "unboundplus.advanced."+name, func(v string) *Note {
			if v == "0" {
				return &Note{Kind: Default}
			}
			if n, ok := names.take(o.plain, option, v); ok {
				return n
			}
			return differs("events", "all queries are recorded")
		})
	}
	acls := o.unbound.at("acls")
	o.take(acls.at("default_action"), "unboundplus.acls.default_action", func(v string) *Note {
		if v == "allow" {
			return differs("dns: recursion", "private networks are answered, and those that an access list allows")
		}
		return carried("dns: recursion")
	})
	acls.eachChild("acl", func(n *xmlNode) {
		if o.isOff(n) {
			return
		}
		action := n.at("action").text
		note := carried("dns: allow")
		for _, v := range n.at("networks").values() {
			prefix, err := network(v)
			l := &o.set.dns().Server
			switch {
			case err != nil:
				note = lostOurs("dns: allow", err.Error())
			case strings.HasPrefix(action, "allow"):
				if len(l.Recursion) == 0 { // the firewall's own networks are allowed anyway
					l.Recursion = nameserver.PrivateNetworks()
				}
				l.Recursion = append(l.Recursion, prefix)
				note = carried("dns: recursion")
			default:
				l.Deny = append(l.Deny, prefix)
				note = carried("dns: deny")
			}
		}
		o.entry(n, "unboundplus.acls.acl", note)
	})
}

// networksOf calls take with each network of a list.
func (o *opnSense) networksOf(ours, value string, take func(netip.Prefix)) *Note {
	for v := range strings.SplitSeq(value, ",") {
		n, err := network(strings.TrimSpace(v))
		if err != nil {
			return lostOurs(ours, err.Error())
		}
		take(n)
	}
	return carried(ours)
}
