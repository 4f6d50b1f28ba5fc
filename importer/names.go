package importer

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/filter"
)

// host gives a local name an address or another name. Our settings have either addresses or one
// other name.
func (w *work) host(at place, name, to string) {
	hosts := w.set.dns().Names.Hosts
	name, to = strings.ToLower(strings.TrimSuffix(name, ".")), strings.TrimSuffix(to, ".")
	_, err := netip.ParseAddr(to)
	known := hosts[name]
	if name == "" || to == "" || strings.ContainsAny(name+to, " \t\x00/") {
		w.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q leads to %q", name, to), Why: "left out: that is no name"})
		return
	}
	if len(known) > 0 {
		if _, before := netip.ParseAddr(known[0]); err != nil || before != nil {
			w.rep.add(&Note{Kind: Lost, place: at, What: name + " leads to " + to, Why: fmt.Sprintf("it already leads to %s; a name has addresses or one other name", known[0])})
			return
		}
	}
	if len(known) == 0 && len(hosts) == maxNetworks {
		w.rep.add(&Note{Kind: Lost, place: at, What: name + " leads to " + to, Ours: "dns: hosts-files", Why: fmt.Sprintf("there are %d names: write the others in a hosts file", maxNetworks)})
		return
	}
	var ok bool
	if hosts[name], ok = addServer(w, at, known, to); !ok {
		return
	}
	w.rep.add(&Note{Kind: Carried, place: at, What: name + " leads to " + to, Ours: "dns: hosts"})
}

// addServer adds a server or an address to others of the same name, if it is not there. ok is
// false, and reported, if there are too many.
func addServer[S ~[]string](w *work, at place, all S, server string) (more S, ok bool) {
	switch {
	case slices.Contains(all, server):
	case len(all) == maxServers:
		w.rep.add(&Note{Kind: Lost, place: at, What: server, Why: fmt.Sprintf("there are %d already", maxServers)})
		return all, false
	default:
		all = append(all, server)
	}
	return all, true
}

// hostsLine converts a line of a hosts file: an address and its names.
func (w *work) hostsLine(at place, s string) {
	s, _, _ = strings.Cut(s, "#")
	fields := strings.Fields(s)
	if len(fields) == 1 {
		w.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q has an address without a name", s), Why: "left out"})
	}
	for _, name := range fields[min(1, len(fields)):] {
		w.host(at, name, fields[0])
	}
}

// piholeNames reads the names and upstreams of Pi-hole: custom.list, and the
// files of dnsmasq in its folder or beside it; for version 6, pihole.toml.
func (w *work) piholeNames(dir string) {
	w.lines(filepath.Join(dir, "custom.list"), w.hostsLine)
	for _, in := range []string{dir, filepath.Join(dir, "dnsmasq.d"), filepath.Join(filepath.Dir(dir), "dnsmasq.d")} {
		for _, name := range []string{"01-pihole.conf", "05-pihole-custom-cname.conf"} {
			w.lines(filepath.Join(in, name), func(at place, s string) {
				key, value, _ := strings.Cut(s, "=")
				w.dnsmasqOption(at, strings.TrimSpace(key), strings.TrimSpace(value))
			})
		}
	}
	w.piholeTOML(filepath.Join(dir, "pihole.toml"))
	file := filepath.Join(dir, "setupVars.conf")
	_ = textLines(file, func(n int, s []byte) error { // the conversion of all settings reports an error
		key, value, _ := strings.Cut(string(s), "=")
		if strings.HasPrefix(key, "PIHOLE_DNS_") {
			w.dnsmasqOption(place{file: file, line: n}, "server", value)
		}
		return nil
	})
}

// lines calls take with the lines of a file, if it exists.
func (w *work) lines(file string, take func(at place, s string)) {
	unread(w, file, textLines(file, func(n int, s []byte) error {
		take(place{file: file, line: n}, string(s))
		return nil
	}))
}

// piholeTOML reads the names and upstreams of Pi-hole 6.
func (w *work) piholeTOML(file string) {
	data, err := readText(file)
	if err != nil {
		return
	}
	values, err := readTOML(data)
	if err != nil {
		return // the conversion of all settings reports it
	}
	for _, v := range values {
		at := place{file: file, line: v.line}
		if v.again > 0 {
			continue
		}
		for _, s := range v.list {
			switch v.path {
			case "dns.hosts":
				w.hostsLine(at, s)
			case "dns.cnameRecords":
				names := strings.Split(s, ",") // name, target and perhaps a TTL
				if len(names) < 2 {
					w.rep.add(&Note{Kind: Line, place: at, What: fmt.Sprintf("%q names no target", s), Why: "left out"})
					continue
				}
				w.host(at, strings.TrimSpace(names[0]), strings.TrimSpace(names[1]))
			case "dns.upstreams":
				w.dnsmasqOption(at, "server", s)
			case "dns.revServers": // enabled, network, server and perhaps a domain
				f := strings.Split(s, ",")
				if len(f) < 3 || strings.TrimSpace(f[0]) != "true" {
					n := &Note{Kind: Default, place: at, What: fmt.Sprintf("reverse server %q", s), Why: "it is switched off"}
					if len(f) < 3 {
						n.Kind, n.Why = Line, "left out: it is not whether it is on, a network and a server"
					}
					w.rep.add(n)
					continue
				}
				w.dnsmasqOption(at, "rev-server", strings.TrimSpace(f[1])+","+f[2])
				if len(f) > 3 && strings.TrimSpace(f[3]) != "" {
					w.dnsmasqOption(at, "server", "/"+strings.TrimSpace(f[3])+"/"+f[2])
				}
			}
		}
	}
}

// dnsmasqOption converts an option of dnsmasq if it has an equivalent.
func (w *work) dnsmasqOption(at place, key, value string) {
	f := &w.set.dns().Forward
	switch key {
	case "cname":
		names := strings.Split(value, ",")
		if last := len(names) - 1; last > 1 && strings.Trim(names[last], " 0123456789") == "" {
			names = names[:last] // a TTL
		}
		for _, name := range names[:len(names)-1] {
			w.host(at, strings.TrimSpace(name), strings.TrimSpace(names[len(names)-1]))
		}
	case "server", "rev-server":
		domains, server := "", value
		if rest, ok := strings.CutPrefix(value, "/"); ok { // /domain/domain/server
			i := strings.LastIndexByte(rest, '/')
			domains, server = rest[:max(i, 0)], rest[i+1:]
		} else if net, to, ok := strings.Cut(value, ","); ok { // network,server
			domains, server = net, to
			if p, err := netip.ParsePrefix(net); err == nil {
				w.route(at, p.Masked().String(), dnsmasqServer(server))
				return
			}
		}
		if server = dnsmasqServer(server); server == "" {
			w.rep.add(&Note{Kind: Lost, place: at, What: key + "=" + value, Why: "it names no server"})
			return
		}
		if domains == "" {
			var ok bool
			if f.Upstreams, ok = addServer(w, at, f.Upstreams, server); !ok {
				return
			}
			w.rep.add(&Note{Kind: Carried, place: at, What: key + "=" + value, Ours: "dns: forward: upstreams"})
			return
		}
		for d := range strings.SplitSeq(domains, "/") {
			if d != "" {
				w.route(at, d, server)
			}
		}
	}
}

// route sends a domain or network to a separate server.
func (w *work) route(at place, domain, server string) {
	if server == "" {
		w.rep.add(&Note{Kind: Lost, place: at, What: domain, Why: "its server is no address"})
		return
	}
	routes := w.set.dns().Forward.Routes
	var ok bool
	if routes[domain], ok = addServer(w, at, routes[domain], server); !ok {
		return
	}
	w.rep.add(&Note{Kind: Carried, place: at, What: domain + " is asked at " + server, Ours: "dns: forward: routes"})
}

// dnsmasqServer converts "192.0.2.1#5353" to our syntax; "" if it is not an
// address.
func dnsmasqServer(s string) string {
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

// adGuardNames converts the name server's part of AdGuard Home's settings.
func (w *work) adGuardNames(file yamlFile, cfg adGuard) {
	d := w.set.dns()
	rewrites, _ := cfg.Filtering["rewrites"].([]any)
	older, _ := cfg.DNS["rewrites"].([]any)
	for i, r := range append(rewrites, older...) {
		at := file.placeOf("filtering.rewrites", i)
		if i >= len(rewrites) {
			at = file.placeOf("dns.rewrites", i-len(rewrites))
		}
		m, _ := r.(map[string]any)
		name, _ := m["domain"].(string)
		to, _ := m["answer"].(string)
		switch {
		case m["enabled"] == false:
			w.rep.add(&Note{Kind: Default, place: at, What: "rewrite of " + name, Why: "it is switched off"})
		case to == name, to == "A", to == "AAAA":
			w.rep.add(&Note{Kind: Lost, place: at, What: fmt.Sprintf("rewrite of %s to %q", name, to), Why: "an exception from a wider rewrite; write a rule with allow, or the name's own addresses"})
		default:
			w.host(at, name, to)
		}
	}
	w.adGuardUpstreams(file.at("dns.upstream_dns"), cfg.DNS["upstream_dns"])
	for i, s := range words(cfg.DNS["bootstrap_dns"]) {
		at := file.placeOf("dns.bootstrap_dns", i)
		if a, err := netip.ParseAddr(s); err == nil {
			d.Forward.Bootstrap = append(d.Forward.Bootstrap, a.String())
			w.rep.add(&Note{Kind: Carried, place: at, What: "bootstrap_dns: " + s, Ours: "dns: forward: bootstrap"})
		} else {
			w.rep.add(&Note{Kind: Lost, place: at, What: "bootstrap_dns: " + s, Ours: "dns: forward: bootstrap", Why: "only addresses look up the names of upstreams"})
		}
	}
	d.Forward.Validate = cfg.DNS["enable_dnssec"] == true
	n := &Note{Kind: Default, place: file.at("dns.enable_dnssec"), What: fmt.Sprint("enable_dnssec: ", cfg.DNS["enable_dnssec"])}
	if d.Forward.Validate {
		n.Kind, n.Ours = Carried, "dns: forward: validate"
	}
	w.rep.add(n)
	mode, _ := cfg.DNS["blocking_mode"].(string)
	at := file.at("dns.blocking_mode")
	if m, ok := cfg.Filtering["blocking_mode"].(string); ok {
		mode, at = m, file.at("filtering.blocking_mode")
	}
	if answer, ok := map[string]filter.Answer{"nxdomain": filter.NXDomain, "refused": filter.Refused, "null_ip": filter.Zero, "default": filter.Zero}[mode]; ok {
		d.Names.Block.Answer = answer
		w.rep.add(&Note{Kind: Carried, place: at, What: "blocking_mode: " + mode, Ours: "dns: block: answer"})
	}
	if mode == "custom_ip" {
		for _, key := range []string{"blocking_ipv4", "blocking_ipv6"} {
			for _, in := range []map[string]any{cfg.DNS, cfg.Filtering} {
				if a, err := netip.ParseAddr(plainText(in[key])); err == nil && !slices.Contains(d.Names.Block.Sinkhole, a) {
					d.Names.Block.Answer, d.Names.Block.Sinkhole = filter.Sinkhole, append(d.Names.Block.Sinkhole, a)
				}
			}
		}
		w.rep.add(&Note{Kind: Carried, place: at, What: "blocking_mode: " + mode, Ours: "dns: block: answer: sinkhole"})
	}
}

// adGuardUpstreams converts upstreams, for all names or for some.
func (w *work) adGuardUpstreams(at place, all any) {
	d := w.set.dns()
	for _, s := range words(all) {
		rest, ok := strings.CutPrefix(s, "[/")
		if !ok {
			if strings.HasPrefix(s, "#") || s == "" {
				continue
			}
			if strings.HasPrefix(s, "sdns://") {
				w.rep.add(&Note{Kind: Lost, place: at, What: "upstream " + s, Why: "this protocol is not supported; name an https or tls address of that server"})
				continue
			}
			d.Forward.Upstreams = append(d.Forward.Upstreams, strings.TrimPrefix(s, "udp://"))
			w.rep.add(&Note{Kind: Carried, place: at, What: "upstream " + s, Ours: "dns: forward: upstreams"})
			continue
		}
		domains, servers, ok := strings.Cut(rest, "/]")
		if !ok || strings.Contains(domains, "*") || strings.TrimSpace(servers) == "#" || domains == "" {
			w.rep.add(&Note{Kind: Lost, place: at, What: "upstream " + s, Why: "routes here are for a domain and all below it"})
			continue
		}
		for domain := range strings.SplitSeq(domains, "/") {
			for server := range strings.FieldsSeq(servers) {
				w.route(at, domain, server)
			}
		}
	}
}

// words returns the texts in a YAML list.
func words(v any) (all []string) {
	list, _ := v.([]any)
	for _, x := range list {
		if s, ok := x.(string); ok {
			all = append(all, strings.TrimSpace(s))
		}
	}
	return all
}
