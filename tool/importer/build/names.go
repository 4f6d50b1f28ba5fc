package build

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/tool/importer/report"
)

// RefuseType refuses queries for a type of records.
func (p *Plain) RefuseType(value string) *report.Note {
	const name = "types of records"
	all := p.Work.MainPolicy()
	i := slices.IndexFunc(all.Rules, func(r policy.Rule) bool { return r.Name == name })
	if i < 0 {
		all.Rules = append([]policy.Rule{{Name: name, Action: "block", Answer: filter.NoData}}, all.Rules...)
		i = 0
	}
	all.Rules[i].Query = append(all.Rules[i].Query, strings.ToUpper(value))
	return report.Same(fmt.Sprintf("rule %q", name))
}

// Host gives a local name an address or another name. Our settings have either addresses or one
// other name.
func (w *Work) Host(at report.Place, name, to string) {
	hosts := w.Set.UseDNS().Names.Hosts
	name, to = strings.ToLower(strings.TrimSuffix(name, ".")), strings.TrimSuffix(to, ".")
	_, err := netip.ParseAddr(to)
	known := hosts[name]
	if name == "" || to == "" || strings.ContainsAny(name+to, " \t\x00/") {
		w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q leads to %q", name, to), Why: "left out: that is no name"})
		return
	}
	if len(known) > 0 {
		if _, before := netip.ParseAddr(known[0]); err != nil || before != nil {
			w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: name + " leads to " + to, Why: fmt.Sprintf("it already leads to %s; a name has addresses or one other name", known[0])})
			return
		}
	}
	if len(known) == 0 && len(hosts) == MaxNetworks {
		w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: name + " leads to " + to, Ours: "dns: hosts-files", Why: fmt.Sprintf("there are %d names: write the others in a hosts file", MaxNetworks)})
		return
	}
	var ok bool
	if hosts[name], ok = AddServer(w, at, known, to); !ok {
		return
	}
	w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: name + " leads to " + to, Ours: "dns: hosts"})
}

// AddServer adds a server or an address to others of the same name, if it is not there. ok is
// false, and reported, if there are too many.
func AddServer[S ~[]string](w *Work, at report.Place, all S, server string) (more S, ok bool) {
	switch {
	case slices.Contains(all, server):
	case len(all) == maxServers:
		w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: server, Why: fmt.Sprintf("there are %d already", maxServers)})
		return all, false
	default:
		all = append(all, server)
	}
	return all, true
}

// RefuseAnswers adds a rule for answers that lead to some networks.
func RefuseAnswers(w *Work, to *policy.Policy, networks []report.Place) error {
	if len(networks) == 0 {
		return nil
	}
	const name = "refused-addresses"
	path, err := w.OwnLines(name, networks)
	if err != nil {
		return err
	}
	made, err := w.AddList(name, list.Config{Path: setting.Source(path), Category: name, Format: list.Networks, Match: list.Boundary}, report.Place{File: networks[0].File, Text: "addresses in answers"})
	if err == nil && made != "" {
		to.Rules = append(to.Rules, policy.Rule{Name: name, Action: "block", Category: []string{"category/" + name}})
	}
	return err
}

// HostsLine converts a line of a hosts file: an address and its names.
func (w *Work) HostsLine(at report.Place, s string) {
	s, _, _ = strings.Cut(s, "#")
	fields := strings.Fields(s)
	if len(fields) == 1 {
		w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q has an address without a name", s), Why: "left out"})
	}
	for _, name := range fields[min(1, len(fields)):] {
		w.Host(at, name, fields[0])
	}
}

// Route sends a domain or network to a separate server. A domain stands for what is below it, with
// or without a dot or "*." before it; "." is every name.
func (w *Work) Route(at report.Place, domain, server string) {
	key, err := routeOf(domain)
	if server = upstream(server); server == "" {
		err = errors.New("its server is no address")
	}
	if err != nil {
		w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: domain, Why: err.Error()})
		return
	}
	routes := w.Set.UseDNS().Forward.Routes
	var ok bool
	if routes[key], ok = AddServer(w, at, routes[key], server); !ok {
		return
	}
	w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: key + " is asked at " + server, Ours: "dns: forward: routes"})
}

// routeOf returns the key of our routes for a domain or network.
func routeOf(domain string) (string, error) {
	domain = strings.TrimSpace(domain)
	if p, err := netip.ParsePrefix(domain); err == nil {
		return p.Masked().String(), nil
	}
	if domain == "." {
		return domain, nil
	}
	if domain = domainOf(domain); domain == "" {
		return "", errors.New("it names no domain")
	}
	if _, err := dns.Name(domain); err != nil {
		return "", err
	}
	return domain, nil
}

// ServerAddress converts "192.0.2.1#5353" to our syntax; "" if it is not an
// address.
func ServerAddress(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "@") // the interface that queries leave by
	addr, port, has := strings.Cut(s, "#")
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return ""
	}
	if !has || port == "53" {
		return a.String()
	}
	return net.JoinHostPort(a.String(), port)
}

// PrivateRefused is the note on refusing answers with private addresses.
func PrivateRefused() *report.Note {
	return report.Differs("dns: private", "private addresses of foreign names are refused")
}

// PrivateNames converts domains that may have private addresses.
func (p *Plain) PrivateNames(domains []string) *report.Note {
	n := &p.Work.Set.UseDNS().Names
	for _, d := range domains {
		if d = strings.TrimSpace(d); d != "" {
			n.Private = append(n.Private, d)
		}
	}
	return report.Same("dns: private")
}
