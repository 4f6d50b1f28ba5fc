package squid

import (
	"slices"
	"strings"

	"shuultuur/check/icap"
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
