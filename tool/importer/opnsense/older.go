package opnsense

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"shuultuur/tool/importer/input"
)

// An older config.xml, before OPNsense 21 and in part before 22.7, has the name server's settings in
// the section "unbound", with other names. nameServer returns them all under the names of today.
func nameServer(firewall *xmlNode) *xmlNode {
	today, older := firewall.at("OPNsense", "unboundplus"), firewall.at("unbound")
	if len(older.nodes) == 0 {
		return today
	}
	all := &xmlNode{name: "unboundplus", line: max(today.line, older.line), nodes: slices.Clone(today.nodes)}
	for _, n := range older.nodes {
		all.takeOlder(n)
	}
	return all
}

// flags are settings that were on by being there.
var flags = []string{"enable", "dnssec", "dns64", "forwarding", "regdhcp", "regdhcpstatic"}

func (n *xmlNode) takeOlder(old *xmlNode) {
	name := strings.ToLower(old.name)
	if old.text == "" && slices.Contains(flags, name) {
		old.text = "1"
	}
	switch name {
	case "hosts":
		h := old.renamed("host", map[string]string{"host": "hostname", "ip": "server", "descr": "description"}, "aliases")
		h.id = fmt.Sprintf("older host %d", len(n.within("hosts").nodes))
		n.within("hosts").nodes = append(n.within("hosts").nodes, h)
		old.at("aliases").eachChild("item", func(item *xmlNode) {
			a := item.renamed("alias", map[string]string{"host": "hostname", "descr": "description"})
			a.nodes = append(a.nodes, &xmlNode{name: "host", line: item.line, text: h.id})
			n.within("aliases").nodes = append(n.within("aliases").nodes, a)
		})
	case "domainoverrides":
		d := old.renamed("domain", map[string]string{"ip": "server", "descr": "description"})
		n.within("domains").nodes = append(n.within("domains").nodes, d)
	case "acls":
		a := old.renamed("acl", map[string]string{"acl_name": "name", "acl_action": "action"}, "row")
		var networks []string
		old.eachChild("row", func(row *xmlNode) {
			networks = append(networks, row.at("acl_network").text+"/"+row.at("mask").text)
		})
		a.nodes = append(a.nodes, &xmlNode{name: "networks", line: old.line, text: strings.Join(networks, ",")})
		n.within("acls").nodes = append(n.within("acls").nodes, a)
	case "forwarding":
		n.within("forwarding").add("enabled", old)
	case "enable", "port", "dnssec", "active_interface", "dns64", "dns64prefix", "regdhcp", "regdhcpstatic", "regdhcpdomain":
		if name == "enable" {
			name = "enabled"
		}
		n.within("general").add(name, old)
	default:
		n.within("advanced").add(name, old)
	}
}

// within returns the first element of a name, which it makes if there is none.
func (n *xmlNode) within(name string) *xmlNode {
	i := slices.IndexFunc(n.nodes, func(x *xmlNode) bool { return strings.EqualFold(x.name, name) })
	if i < 0 {
		i, n.nodes = len(n.nodes), append(n.nodes, &xmlNode{name: name})
	}
	return n.nodes[i]
}

// add adds an element under another name, unless today's settings have it.
func (n *xmlNode) add(name string, old *xmlNode) {
	if x := n.within(name); x.text == "" && len(x.nodes) == 0 {
		x.text, x.line, x.nodes = old.text, old.line, old.nodes
	}
}

// renamed returns an element with other names for some of its elements, and without others.
func (n *xmlNode) renamed(as string, names map[string]string, without ...string) *xmlNode {
	c := &xmlNode{name: as, line: n.line}
	for _, x := range n.nodes {
		name := strings.ToLower(x.name)
		if slices.Contains(without, name) {
			continue
		}
		if today := names[name]; today != "" {
			name = today
		}
		c.nodes = append(c.nodes, &xmlNode{name: name, line: x.line, text: x.text, nodes: x.nodes})
	}
	return c
}

// customOptions returns lines for unbound.conf, which are in the file as they are, or in base64.
func customOptions(text string) string {
	if b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err == nil && len(b) <= input.MaxFile {
		return string(b)
	}
	return text
}
