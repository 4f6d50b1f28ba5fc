package dnsmasq

import (
	"net"
	"net/netip"
	"strings"

	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// HostRecord converts names and the addresses that follow them.
func HostRecord(w *build.Work, at report.Place, value string) {
	var names []string
	for s := range strings.SplitSeq(value, ",") {
		s = strings.TrimSpace(s)
		if _, err := netip.ParseAddr(s); err == nil {
			for _, name := range names {
				w.Host(at, name, s)
			}
		} else if strings.Trim(s, "0123456789") != "" { // not a TTL
			names = append(names, s)
		}
	}
}

// TakeName converts an option of dnsmasq if it has an equivalent.
func TakeName(w *build.Work, at report.Place, key, value string) {
	f := &w.Set.UseDNS().Forward
	switch key {
	case "cname":
		names := strings.Split(value, ",")
		if last := len(names) - 1; last > 1 && strings.Trim(names[last], " 0123456789") == "" {
			names = names[:last] // a TTL
		}
		for _, name := range names[:len(names)-1] {
			w.Host(at, strings.TrimSpace(name), strings.TrimSpace(names[len(names)-1]))
		}
	case "server", "rev-server":
		domains, server, named := "", value, false
		if rest, ok := strings.CutPrefix(value, "/"); ok { // /domain/domain/server
			i := strings.LastIndexByte(rest, '/')
			domains, server, named = rest[:max(i, 0)], rest[i+1:], true
		} else if net, to, ok := strings.Cut(value, ","); ok { // network,server
			w.Route(at, net, build.ServerAddress(to))
			return
		}
		if server = build.ServerAddress(server); server == "" {
			w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: key + "=" + value, Why: "it names no server"})
			return
		}
		if !named {
			var ok bool
			if f.Upstreams, ok = build.AddServer(w, at, f.Upstreams, server); !ok {
				return
			}
			w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: key + "=" + value, Ours: "dns: forward: upstreams"})
			return
		}
		for d := range strings.SplitSeq(domains, "/") {
			switch d {
			case "#":
				w.Route(at, ".", server) // names that no other line has
			case "":
				w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: key + "=" + value, Why: "names without a dot are asked at the upstreams"})
			default:
				w.Route(at, d, server)
			}
		}
	}
}

// StaticLease splits a line about a device: its MAC, address, name, and more, in any order.
func StaticLease(lease string) (addr, name, mac string) {
	for f := range strings.SplitSeq(lease, ",") {
		f = strings.Trim(strings.TrimSpace(f), "[]")
		if a, err := netip.ParseAddr(f); err == nil {
			addr = a.String()
		} else if m, err := net.ParseMAC(f); err == nil {
			mac = m.String()
		} else if input.IsLabel(f) && name == "" && f != "infinite" && f != "ignore" && strings.Trim(f, "0123456789hmd") != "" {
			name = f
		}
	}
	return addr, name, mac
}
