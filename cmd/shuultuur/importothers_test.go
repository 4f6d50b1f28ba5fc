//go:build !small

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestImportOfOtherPrograms(t *testing.T) {
	for _, tt := range []struct {
		program, file  string
		blocked, taken string   // names
		settings       []string // in the settings made
		report         []string
	}{
		{"blocky", "blocky.yml", "tracker.example", "good.tracker.example", []string{"https://lists.example/ads.txt", "printer.home.example", "tls://dns.quad9.net:853", "nxdomain", ":5353"}, []string{"Was at its default", "log.level"}},
		{"unbound", "unbound.conf", "www.ads.example", "other.example", []string{"nas.home.example", "corp.example", "tls://9.9.9.9:853", "192.168.1.2:5353"}, []string{"num-threads 4"}},
		{"dnsmasq", "dnsmasq.conf", "www.ads.example", "other.example", []string{"nas.home.example", "corp.example", ":5353"}, []string{"dhcp-range", "leases"}},
		{"squid", "squid.conf", "ads.films.example", "", []string{"parent.example:8080", "192.168.20.0/24", "connect-ports"}, []string{"ssl_bump", "ca init", "auth_param"}},
		{"privoxy", "user.action", "www.ads.example", "good.ads.example", nil, []string{"+filter", "ad*.example"}},
		{"technitium", "technitium.json", "www.ads.example", "other.example", []string{"tls://9.9.9.9", "nxdomain", "https://lists.example/good.txt", "udp-size: \"1400\"", "rate: 100", "keep: 30d", "stale: 12h", "10.9.0.0/16", "unfiltered", "10.1.7.0/24"}, []string{"webServiceHttpPort"}},
		{"nextdns", "nextdns.json", "www.ads.example", "good.ads.example", []string{"safesearch: true", "youtube: strict", "nas.home.example", "keep: 90d", "ut1-doh", "Europe/Berlin", "00:00-10:00,18:00-24:00"}, []string{"nextdns-recommended", "switched off", "tiktok"}},
		{"opnsense", "opnsense.xml", "www.games.example", "good.ads.example", []string{"files.home.example", "corp.example", "https://lists.example/ads.txt", "https://lists.example/shops.tar.gz", "tls://9.9.9.9", "nxdomain", "192.168.9.0/24", "hagezi-normal", "unfiltered", ":3128"}, []string{"Lost, and what to do", "switched off", "numqueriesperthread"}},
	} {
		t.Run(tt.program, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "new")
			var out, errs bytes.Buffer
			status := importCommand(t.Context(), env{stdout: &out, stderr: &errs}, []string{tt.program, filepath.Join("..", "..", "importer", "testdata", tt.file), "-to", to})
			settings, _ := os.ReadFile(filepath.Join(to, "shuultuur.yaml"))
			report, _ := os.ReadFile(filepath.Join(to, "report.txt"))
			if status != 0 {
				t.Fatalf("status %d: %s%s\n%s", status, out.String(), errs.String(), settings)
			}
			for _, want := range tt.settings {
				if !bytes.Contains(settings, []byte(want)) {
					t.Errorf("%q is not in the settings:\n%s", want, settings)
				}
			}
			for _, want := range tt.report {
				if !bytes.Contains(report, []byte(want)) {
					t.Errorf("%q is not in the report:\n%s", want, report)
				}
			}
			for name, want := range map[string]string{tt.blocked: "block", tt.taken: "pass allow"} {
				if name == "" {
					continue
				}
				x, err := question{config: filepath.Join(to, "shuultuur.yaml"), client: "192.168.30.1", method: "GET", url: "http://" + name + "/"}.ask(t.Context(), env{})
				if err != nil || !strings.Contains(want, x.Action) {
					t.Errorf("%s: %+v, %v, want %s", name, x, err, want)
				}
			}
		})
	}
}

// TestImportKeepsSquidsOrder asks what lines of http_access decide.
func TestImportKeepsSquidsOrder(t *testing.T) {
	to := filepath.Join(t.TempDir(), "new")
	var out bytes.Buffer
	if status := importCommand(t.Context(), env{stdout: &out, stderr: &out}, []string{"squid", filepath.Join("..", "..", "importer", "testdata", "squid.conf"), "-to", to}); status != 0 {
		t.Fatal(out.String())
	}
	for _, tt := range []struct{ client, url, want string }{
		{"192.168.20.1", "http://a.learning.games.example/", "allow"},
		{"192.168.20.1", "http://www.games.example/", "block"},
		{"192.168.20.1", "http://chess.example/", "block"},
		{"192.168.20.1", "http://www.chess.example/", "allow"},
		{"192.168.30.1", "http://www.games.example/", "allow"},
		{"192.168.30.1", "http://a.films.example/", "block"},
		{"10.9.9.9", "http://other.example/", "block"},
	} {
		x, err := question{config: filepath.Join(to, "shuultuur.yaml"), client: tt.client, method: "GET", url: tt.url}.ask(t.Context(), env{})
		if err != nil || x.Action != tt.want {
			t.Errorf("%s asks for %s: %+v, %v, want %s", tt.client, tt.url, x, err, tt.want)
		}
	}
}
