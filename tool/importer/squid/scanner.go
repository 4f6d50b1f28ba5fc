package squid

import (
	"slices"
	"strings"
	"time"

	"shuultuur/check/icap"
	"shuultuur/lib/setting"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/report"
)

// scanners has the servers that Squid asks by ICAP.
type scanners struct {
	icap.Config
	on     bool
	strict bool            // refuse bodies that they cannot scan
	points map[string]bool // points at which a server is already used
	set    bool            // some servers replace each other
}

// take converts an option about ICAP.
func (s *scanners) take(f []string) (n *report.Note, is bool) {
	value := ""
	if len(f) > 1 {
		value = f[1]
	}
	switch f[0] {
	case "icap_enable":
		s.on = value == "on"
		if !s.on {
			return &report.Note{Kind: report.Default}, true
		}
		return report.Same("checks.icap"), true
	case "icap_service":
		return s.service(f[1:]), true
	case "icap_send_client_ip", "adaptation_send_client_ip", "icap_send_client_username", "adaptation_send_username":
		s.Clients = s.Clients || value == "on"
		return report.Same("checks.icap.clients"), true
	case "icap_connect_timeout":
		return takeTime("checks.icap.connect", 30*time.Second, f[1:], func() *setting.Duration { return &s.Connect }), true
	case "icap_io_timeout":
		return takeTime("checks.icap.timeout", 15*time.Minute, f[1:], func() *setting.Duration { return &s.Timeout }), true
	case "adaptation_service_set":
		s.set = true
		return report.Same("checks.icap.servers"), true
	case "adaptation_access", "icap_access":
		if len(f) > 3 && f[2] == "allow" && !slices.Equal(f[3:], []string{"all"}) || len(f) > 2 && f[2] == "deny" {
			return report.Differs("checks.icap", "it gets everything that no earlier rule decides: a rule with action: allow in front exempts the rest"), true
		}
		return report.Same("checks.icap"), true
	}
	if strings.HasPrefix(f[0], "icap_") || strings.HasPrefix(f[0], "adaptation_") {
		return report.Same("checks.icap, which asks each server by OPTIONS how it wants to be asked"), true
	}
	return n, false
}

// service converts a server: name, point, whether it may fail, and its address last.
func (s *scanners) service(f []string) *report.Note {
	if len(f) < 3 || !strings.HasPrefix(f[len(f)-1], "icap") {
		return report.ByHand("checks.icap.servers", "it contains no valid address of an ICAP server")
	}
	point, address := f[1], f[len(f)-1]
	if !slices.Contains(f, "bypass=on") && !slices.Contains(f, "bypass=1") && f[2] != "1" {
		s.strict = true
	}
	n := report.Same("checks.icap.servers")
	if s.points[point] && !s.set {
		n = report.Differs("checks.icap.servers", "it is asked when the one before it fails, and not besides")
	}
	if s.points == nil {
		s.points = map[string]bool{}
	}
	if s.points[point] = true; point == "reqmod_precache" {
		s.Requests = true
	}
	if !slices.Contains(s.Servers, address) {
		s.Servers = append(s.Servers, address)
	}
	return n
}

// use adds the servers to our settings, unless ICAP is switched off.
func (s *scanners) use(w *build.Work, dir string) {
	switch {
	case len(s.Servers) == 0:
	case !s.on:
		w.Report.Add(&report.Note{Kind: report.Default, Place: report.Place{File: dir}, What: "icap_service", Why: "icap_enable is off"})
	default:
		build.AskByICAP(w, s.Config, s.strict)
	}
}
