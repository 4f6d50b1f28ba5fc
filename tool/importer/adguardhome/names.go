package adguardhome

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// convertNames converts the name server's part of AdGuard Home's settings.
func convertNames(w *build.Work, file input.Tree, cfg config) {
	d := w.Set.UseDNS()
	rewrites, _ := cfg.Filtering["rewrites"].([]any)
	older, _ := cfg.DNS["rewrites"].([]any)
	for i, r := range append(rewrites, older...) {
		at := file.ValueAt("filtering.rewrites", i)
		if i >= len(rewrites) {
			at = file.ValueAt("dns.rewrites", i-len(rewrites))
		}
		m, _ := r.(map[string]any)
		name, _ := m["domain"].(string)
		to, _ := m["answer"].(string)
		switch {
		case m["enabled"] == false:
			w.Report.Add(&report.Note{Kind: report.Default, Place: at, What: "rewrite of " + name, Why: "it is switched off"})
		case to == name, to == "A", to == "AAAA":
			w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: fmt.Sprintf("rewrite of %s to %q", name, to), Why: "an exception from a wider rewrite; write a rule with allow, or the name's own addresses"})
		default:
			w.Host(at, name, to)
		}
	}
	convertUpstreams(w, file.At("dns.upstream_dns"), cfg.DNS["upstream_dns"])
	for i, s := range input.Strings(cfg.DNS["bootstrap_dns"]) {
		at := file.ValueAt("dns.bootstrap_dns", i)
		if a, err := netip.ParseAddr(s); err == nil {
			d.Forward.Bootstrap = append(d.Forward.Bootstrap, a.String())
			w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: "bootstrap_dns: " + s, Ours: "dns: forward: bootstrap"})
		} else {
			w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: "bootstrap_dns: " + s, Ours: "dns: forward: bootstrap", Why: "only addresses look up the names of upstreams"})
		}
	}
	d.Forward.Validate = cfg.DNS["enable_dnssec"] == true
	n := &report.Note{Kind: report.Default, Place: file.At("dns.enable_dnssec"), What: fmt.Sprint("enable_dnssec: ", cfg.DNS["enable_dnssec"])}
	if d.Forward.Validate {
		n.Kind, n.Ours = report.Carried, "dns: forward: validate"
	}
	w.Report.Add(n)
	mode, _ := cfg.DNS["blocking_mode"].(string)
	at := file.At("dns.blocking_mode")
	if m, ok := cfg.Filtering["blocking_mode"].(string); ok {
		mode, at = m, file.At("filtering.blocking_mode")
	}
	if answer, ok := map[string]filter.Answer{"nxdomain": filter.NXDomain, "refused": filter.Refused, "null_ip": filter.Zero, "default": filter.Zero}[mode]; ok {
		d.Names.Block.Answer = answer
		w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: "blocking_mode: " + mode, Ours: "dns: block: answer"})
	}
	if mode == "custom_ip" {
		for _, key := range []string{"blocking_ipv4", "blocking_ipv6"} {
			for _, in := range []map[string]any{cfg.DNS, cfg.Filtering} {
				if a, err := netip.ParseAddr(input.Plain(in[key])); err == nil && !slices.Contains(d.Names.Block.Sinkhole, a) {
					d.Names.Block.Answer, d.Names.Block.Sinkhole = filter.Sinkhole, append(d.Names.Block.Sinkhole, a)
				}
			}
		}
		w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: "blocking_mode: " + mode, Ours: "dns: block: answer: sinkhole"})
	}
}

// convertUpstreams converts upstreams, for all names or for some.
func convertUpstreams(w *build.Work, at report.Place, all any) {
	d := w.Set.UseDNS()
	for _, s := range input.Strings(all) {
		rest, ok := strings.CutPrefix(s, "[/")
		if !ok {
			if strings.HasPrefix(s, "#") || s == "" {
				continue
			}
			if strings.HasPrefix(s, "sdns://") {
				w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: "upstream " + s, Why: "this protocol is not supported; name an https or tls address of that server"})
				continue
			}
			d.Forward.Upstreams = append(d.Forward.Upstreams, strings.TrimPrefix(s, "udp://"))
			w.Report.Add(&report.Note{Kind: report.Carried, Place: at, What: "upstream " + s, Ours: "dns: forward: upstreams"})
			continue
		}
		domains, servers, ok := strings.Cut(rest, "/]")
		if !ok || strings.Contains(domains, "*") || strings.TrimSpace(servers) == "#" || domains == "" {
			w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: "upstream " + s, Why: "routes here are for a domain and all below it"})
			continue
		}
		for domain := range strings.SplitSeq(domains, "/") {
			for server := range strings.FieldsSeq(servers) {
				w.Route(at, domain, server)
			}
		}
	}
}
