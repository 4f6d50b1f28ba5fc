package pihole

import (
	"fmt"
	"path/filepath"
	"strings"

	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/dnsmasq"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// convertNames reads the names and upstreams of Pi-hole: custom.list, and the
// files of dnsmasq in its folder or beside it; for version 6, pihole.toml.
func convertNames(w *build.Work, dir string) {
	w.Lines(filepath.Join(dir, "custom.list"), w.HostsLine)
	for _, in := range []string{dir, filepath.Join(dir, "dnsmasq.d"), filepath.Join(filepath.Dir(dir), "dnsmasq.d")} {
		for _, name := range []string{"01-pihole.conf", "05-pihole-custom-cname.conf"} {
			w.Lines(filepath.Join(in, name), func(at report.Place, s string) {
				key, value, _ := strings.Cut(s, "=")
				dnsmasq.TakeName(w, at, strings.TrimSpace(key), strings.TrimSpace(value))
			})
		}
	}
	convertTOMLNames(w, filepath.Join(dir, "pihole.toml"))
	file := filepath.Join(dir, "setupVars.conf")
	_ = input.Lines(file, func(n int, s []byte) error { // the conversion of all settings reports an error
		key, value, _ := strings.Cut(string(s), "=")
		if strings.HasPrefix(key, "PIHOLE_DNS_") {
			dnsmasq.TakeName(w, report.Place{File: file, Line: n}, "server", value)
		}
		return nil
	})
}

// convertTOMLNames reads the names and upstreams of Pi-hole 6.
func convertTOMLNames(w *build.Work, file string) {
	data, err := input.Text(file)
	if err != nil {
		return
	}
	values, err := readTOML(data)
	if err != nil {
		return // the conversion of all settings reports it
	}
	for _, v := range values {
		at := report.Place{File: file, Line: v.line}
		if v.again > 0 {
			continue
		}
		for _, s := range v.list {
			switch v.path {
			case "dns.hosts":
				w.HostsLine(at, s)
			case "dns.cnameRecords":
				names := strings.Split(s, ",") // name, target and perhaps a TTL
				if len(names) < 2 {
					w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: fmt.Sprintf("%q names no target", s), Why: "left out"})
					continue
				}
				w.Host(at, strings.TrimSpace(names[0]), strings.TrimSpace(names[1]))
			case "dns.upstreams":
				dnsmasq.TakeName(w, at, "server", s)
			case "dns.revServers": // enabled, network, server and perhaps a domain
				f := strings.Split(s, ",")
				if len(f) < 3 || strings.TrimSpace(f[0]) != "true" {
					n := &report.Note{Kind: report.Default, Place: at, What: fmt.Sprintf("reverse server %q", s), Why: "it is switched off"}
					if len(f) < 3 {
						n.Kind, n.Why = report.Line, "left out: it is not whether it is on, a network and a server"
					}
					w.Report.Add(n)
					continue
				}
				dnsmasq.TakeName(w, at, "rev-server", strings.TrimSpace(f[1])+","+f[2])
				if len(f) > 3 && strings.TrimSpace(f[3]) != "" {
					dnsmasq.TakeName(w, at, "server", "/"+strings.TrimSpace(f[3])+"/"+f[2])
				}
			}
		}
	}
}
