//go:build !small

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/engine/configuration"
	"shuultuur/policy"
	"shuultuur/test/peer"
	"shuultuur/tool/importer"
)

func TestImportOfOtherPrograms(t *testing.T) {
	for _, tt := range []struct {
		program, folder string
		blocked, taken  string   // names
		settings        []string // in the settings made
		report          []string
	}{
		{"blocky", "", "tracker.example", "good.tracker.example", []string{"https://lists.example/ads.txt", "printer.home.example", "tls://dns.quad9.net:853", "nxdomain", ":5353"}, []string{"Was at its default", "log.level"}},
		{"unbound", "", "www.ads.example", "other.example", []string{"nas.home.example", "corp.example", "tls://9.9.9.9:853", "192.168.1.2:5353", "fd00::7", "cam.home.example", "secret.example: ['tls://10.1.0.54']", "192.168.1.192/26", "recursion: [192.168.1.0/24, 203.0.113.0/24, 127.0.0.0/8, '::1/128']", "format: rpz", "view kids", "udp-size: \"1400\"", "path: /dns-query"}, []string{"num-threads 4"}},
		{"dnsmasq", "", "www.ads.example", "corp.example", []string{"nas.home.example", "corp.example", ":5353", "files.home.example: [nas.home.example]", "box: [192.168.1.9", "printer.home.example: [192.168.1.20]", "149.112.112.112", "udp-size: \"1400\""}, []string{"dhcp-range", "leases", "address /#/"}},
		{"squid", "alone", "ads.films.example", "", []string{"parent.example:8080", "192.168.20.0/24", "connect-ports"}, []string{"ssl_bump", "ca init", "auth_param"}},
		{"privoxy", "alone", "www.ads.example", "good.ads.example", nil, []string{"+filter", "ad*.example"}},
		{"privoxy", "", "other.example", "", []string{"10.4.9.0/24", "http://parent.example:3128", "office.example, partner.example", "upstream-idle: 1m", "held: 8MiB", "connect-ports", "google: [office.example]", "to: http://intranet.office.example/"}, []string{"client-header-order", "hide-referrer", ":8080/", "links.example"}},
		{"technitium", "", "www.ads.example", "other.example", []string{"tls://9.9.9.9", "nxdomain", "https://lists.example/good.txt", "udp-size: \"1400\"", "rate: 100", "every: 12h", "size: 20000KiB", "10.5.0.9/32", "keep: 30d", "stale: 12h", "10.9.0.0/16", "unfiltered", "10.1.7.0/24"}, []string{"webServiceHttpPort"}},
		{"nextdns", "", "www.ads.example", "good.ads.example", []string{"safesearch: true", "youtube: strict", "nas.home.example", "keep: 90d", "anonymise: 1d", "service: [google-chat]", "ut1-doh", "Europe/Berlin", "00:00-10:00,18:00-24:00"}, []string{"nextdns-recommended", "switched off", "tiktok"}},
		{"opnsense", "", "www.games.example", "good.ads.example", []string{"files.home.example", "corp.example", "https://lists.example/ads.txt", "https://lists.example/shops.tar.gz", "tls://9.9.9.9", "nxdomain", "192.168.9.0/24", "hagezi-normal", "unfiltered", "192.168.1.1:3128", "transparent: [':3129']", "192.168.1.1:53", "printer.home.example", "9.9.9.10", "safesearch: true", "youtube: strict", "google: [home.example]",
			"size: 64MiB", "negative-ttl: 10m", "memory: 512MiB", "disk: 2000MiB", "larger: 20MiB", "http://home:p%40ss@10.9.0.1:8080", "no-parent: [home.example]", "banned hosts", "agent: [curl]", "type: [video/x-flv]", "icap://127.0.0.1:1344/avscan", "decrypt: true", "contact: help@home.example", "dial: 20s", "via: \"on\""}, []string{"Lost, and what to do", "switched off", "numqueriesperthread", "perhosttrotteling", "allowedSubnets"}},
	} {
		t.Run(tt.program, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "new")
			var out, errs bytes.Buffer
			status := importCommand(t.Context(), env{stdout: &out, stderr: &errs}, []string{tt.program, filepath.Join(configurationOf(tt.program), tt.folder), "-to", to})
			settings, _ := os.ReadFile(filepath.Join(to, "shuultuur.yaml"))
			report, _ := os.ReadFile(filepath.Join(to, "report.txt"))
			if status != 0 {
				t.Fatalf("import ends with status %d: %s%s\n%s", status, out.String(), errs.String(), settings)
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

// TestImportKeepsClientsOfNameServers asks as clients for which Blocky has groups, and Unbound
// views.
func TestImportKeepsClientsOfNameServers(t *testing.T) {
	for program, questions := range map[string][][3]string{
		"blocky": {
			{"192.168.1.9", "http://tracker.example/", "block"}, {"192.168.1.9", "http://games.example/", "block"}, {"192.168.1.9", "http://good.tracker.example/", "allow"},
			{"192.168.1.30", "http://games.example/", "block"}, {"192.168.1.30", "http://a.play.example/", "block"}, {"192.168.1.30", "http://tracker.example/", "block"},
			{"192.168.1.40", "http://school.example/", "allow"}, {"192.168.1.40", "http://other.example/", "block"},
			{"192.168.2.9", "http://tracker.example/", "block"}, {"192.168.2.9", "http://games.example/", "block"}, // any client may be tv.fritz.box, whose address is not known

			{"192.168.2.200", "http://games.example/", "block"}, {"192.168.2.200", "http://tracker.example/", "block"}, // it is in both networks
			{"192.168.1.30", "http://never.example/", "pass"},
		},
		"unbound": {
			{"192.168.1.9", "http://a.games.example/", "pass"}, {"192.168.1.9", "http://a.quoted.example/", "block"}, {"192.168.1.70", "http://a.games.example/", "block"}, {"192.168.1.70", "http://a.ads.example/", "block"},
		},
	} {
		to := filepath.Join(t.TempDir(), "new")
		var out bytes.Buffer
		if status := importCommand(t.Context(), env{stdout: &out, stderr: &out}, []string{program, configurationOf(program), "-to", to}); status != 0 {
			t.Fatalf("importing %s: status %d: %s", program, status, out.String())
		}
		verdicts(t, filepath.Join(to, "shuultuur.yaml"), questions)
	}
}

// TestImportOfE2guardianRefusesWhatScannersFind wants a rule for each scanner after the
// exceptions.
func TestImportOfE2guardianRefusesWhatScannersFind(t *testing.T) {
	to := filepath.Join(t.TempDir(), "new")
	if _, err := importer.Run(t.Context(), "e2guardian", copyOf(t, "e2guardian"), to); err != nil {
		t.Fatal(err)
	}
	s, err := configuration.Read(filepath.Join(to, importer.SettingsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Policies {
		rule := func(name string) int {
			return slices.IndexFunc(p.Rules, func(r policy.Rule) bool { return r.Name == name })
		}
		if len(p.Rules) > 1 && (rule("viruses") < 0 || rule("viruses") < rule("exceptions")) {
			t.Errorf("policy %q has its rule for viruses at %d, want it after the exceptions", p.Name, rule("viruses"))
		}
	}
}

// TestImportOfPrivoxyKeepsClientsAndTrust asks for trusted sites and others, from addresses
// that may use the proxy and others. The wanted answers are those of a real Privoxy.
func TestImportOfPrivoxyKeepsClientsAndTrust(t *testing.T) {
	to := filepath.Join(t.TempDir(), "new")
	var out bytes.Buffer
	if status := importCommand(t.Context(), env{stdout: &out, stderr: &out}, []string{"privoxy", configurationOf("privoxy"), "-to", to}); status != 0 {
		t.Fatalf("importing Privoxy's files: status %d: %s", status, out.String())
	}
	verdicts(t, filepath.Join(to, "shuultuur.yaml"), [][3]string{
		{"10.4.0.1", "http://office.example/x", "pass"},
		{"10.4.0.1", "http://elsewhere.example/", "block"},
		{"10.4.0.1", "http://www.news.example/", "pass"},
		{"10.4.0.1", "http://closed.news.example/", "block"},
		{"10.4.0.1", "http://links.example/", "pass"},
		{"10.4.0.1", "http://hosted.example/", "block"},
		{"10.4.0.1", "http://www.ads.example/", "block"},
		{"10.4.0.1", "http://good.ads.example/", "allow"},
		{"10.4.0.1", "http://web12.spam.example/a", "block"},
		{"10.4.0.1", "http://other.spam.example/a", "pass"},
		{"10.4.0.1", "http://old.office.example/", "redirect"},
		{"10.4.9.1", "http://office.example/x", "block"},
		{"10.4.9.7", "http://office.example/x", "pass"},
		{"10.5.0.1", "http://office.example/x", "block"},
	})
}

// verdicts asks for URLs as clients, and compares the decisions.
func verdicts(t *testing.T, file string, all [][3]string) {
	t.Helper()
	for _, x := range all {
		got, err := question{config: file, client: x[0], method: "GET", url: x[1]}.ask(t.Context(), env{})
		if err != nil || got.Action != x[2] {
			t.Errorf("%s asks for %s: %+v, %v, want %s", x[0], x[1], got, err, x[2])
		}
	}
}

// TestImportReadsWhatTeleporterExports reads the archives of versions 6 and 5, which have the
// addresses of lists but not their names.
func TestImportReadsWhatTeleporterExports(t *testing.T) {
	six := map[string]string{
		"etc/pihole/pihole.toml":    "[dns]\n  upstreams = [ \"9.9.9.9\" ]\n[misc]\n  etc_dnsmasq_d = true\n",
		"etc/dnsmasq.d/99-own.conf": "address=/zap.example/\n", "etc/hosts": "127.0.0.1 localhost\n",
	}
	five := map[string]string{
		"adlist.json":          `[{"id": 1, "address": "https://lists.example/hosts.txt", "enabled": 1}, {"id": 2, "address": "https://lists.example/kids.txt", "enabled": "1"}]`,
		"adlist_by_group.json": `[{"adlist_id": 1, "group_id": 0}, {"adlist_id": 2, "group_id": 1}]`,
		"group.json":           `[{"id": 0, "enabled": 1, "name": "Default"}, {"id": 1, "enabled": 1, "name": "Kids"}]`,
		"client.json":          `[{"id": 1, "ip": "192.168.1.21"}]`, "client_by_group.json": `[{"client_id": 1, "group_id": 1}]`,
		"blacklist.exact.json": `[{"id": 1, "domain": "denied.example", "enabled": 1}]`, "blacklist.regex.json": `[{"id": 2, "domain": "^track[0-9]", "enabled": 1}]`,
		"domainlist_by_group.json": `[{"domainlist_id": 1, "group_id": 0}, {"domainlist_id": 2, "group_id": 1}]`,
		"setupVars.conf":           "PIHOLE_DNS_1=9.9.9.9\nREV_SERVER=true\nREV_SERVER_CIDR=192.168.1.0/24\nREV_SERVER_TARGET=192.168.1.1\nREV_SERVER_DOMAIN=lan\n",
		"custom.list":              "192.168.1.7 nas.lan # disks\n", "dnsmasq.d/07-own.conf": "address=/zap.example/\n",
	}
	for version, make := range map[string]func(io.Writer) error{
		"6": func(to io.Writer) error {
			z := zip.NewWriter(to)
			for name, text := range six {
				f, err := z.Create(name)
				if err != nil {
					return err
				}
				if _, err := io.WriteString(f, text); err != nil {
					return err
				}
			}
			return z.Close()
		},
		"5": func(to io.Writer) error {
			g := gzip.NewWriter(to)
			w := tar.NewWriter(g)
			for name, text := range five {
				if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
					return err
				}
				if _, err := io.WriteString(w, text); err != nil {
					return err
				}
			}
			return errors.Join(w.Close(), g.Close())
		},
	} {
		var archive bytes.Buffer
		if err := make(&archive); err != nil {
			t.Fatal(err)
		}
		file, to := filepath.Join(t.TempDir(), "teleporter"), filepath.Join(t.TempDir(), "new")
		if err := os.WriteFile(file, archive.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(log, []byte("1 1 192.168.1.21 TCP_MISS/200 1 GET http://denied.example/ - HIER_NONE/- text/html\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if status := importCommand(t.Context(), env{stdout: &out, stderr: &out}, []string{"pihole", file, "-to", to, "-compare", log}); status != 0 {
			t.Fatalf("importing the export of version %s: %s", version, &out)
		}
		settings := filepath.Join(to, "shuultuur.yaml")
		verdicts(t, settings, [][3]string{{"192.168.1.21", "http://zap.example/", "block"}, {"192.168.1.21", "http://other.example/", "pass"}})
		if version == "6" {
			continue
		}
		verdicts(t, settings, [][3]string{
			{"192.168.1.21", "http://denied.example/", "pass"}, {"192.168.1.22", "http://denied.example/", "block"},
			{"192.168.1.21", "http://track7.example/", "block"}, {"192.168.1.22", "http://track7.example/", "pass"},
		})
		text, err := os.ReadFile(settings)
		for _, want := range []string{"https://lists.example/hosts.txt", "https://lists.example/kids.txt", "category: denied-1", "192.168.1.0/24: [192.168.1.1]", "lan: [192.168.1.1]", "nas.lan"} {
			if err != nil || !bytes.Contains(text, []byte(want)) {
				t.Errorf("%q is not in the settings (%v):\n%s", want, err, text)
			}
		}
	}
}

// TestImportKeepsSquidsOrder asks for decisions that lines of http_access make.
func TestImportKeepsSquidsOrder(t *testing.T) {
	to := filepath.Join(t.TempDir(), "new")
	var out bytes.Buffer
	if status := importCommand(t.Context(), env{stdout: &out, stderr: &out}, []string{"squid", filepath.Join(configurationOf("squid"), "alone"), "-to", to}); status != 0 {
		t.Fatalf("importing Squid's files: status %d: %s", status, out.String())
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

// TestImportReadsTechnitiumsCertificate: the certificate of encrypted DNS is a PKCS #12 file
// with a password, which the API hides and a backup does not have.
func TestImportReadsTechnitiumsCertificate(t *testing.T) {
	openssl := peer.Program(t, "openssl")
	key, cert := serverCertificate(t)
	for _, tt := range []struct {
		name, made, password string // with which the file is made, and which the settings have
		legacy, missing      bool
		settings, report     string
	}{
		{name: "with a password", made: "se cret", password: "se cret", settings: `tls: ['10.0.0.9:853']`, report: "dnsTlsCertificatePassword → dns: key"},
		{name: "in the old format", made: "", password: "************", legacy: true, settings: `https: ['10.0.0.9:8443']`, report: "enableDnsOverQuic: true → dns: quic"},
		{name: "with a password that is hidden", made: "secret", password: "************", report: "which the API shows as asterisks"},
		{name: "not there", password: "x", missing: true, report: "openssl pkcs12 -in FILE -nodes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeAll(t, dir, map[string][]byte{"cert.pem": cert, "key.pem": key, "settings.json": fmt.Appendf(nil, `{"response": {
"dnsServerLocalEndPoints": ["10.0.0.9:53"], "enableDnsOverTls": true, "enableDnsOverHttps": true, "enableDnsOverQuic": true, "dnsOverHttpsPort": 8443,
"dnsTlsCertificatePath": "/etc/dns/server.pfx", "dnsTlsCertificatePassword": %q}}`, tt.password)})
			args := []string{"pkcs12", "-export", "-in", filepath.Join(dir, "cert.pem"), "-inkey", filepath.Join(dir, "key.pem"), "-out", filepath.Join(dir, "server.pfx"), "-passout", "pass:" + tt.made}
			if tt.legacy {
				args = append(args, "-legacy")
			}
			if !tt.missing {
				if out, err := exec.Command(openssl, args...).CombinedOutput(); err != nil {
					t.Skipf("this openssl does not write the file: %s", out)
				}
			}
			to := filepath.Join(t.TempDir(), "new")
			var out bytes.Buffer
			status := importCommand(t.Context(), env{stdout: &out, stderr: &out}, []string{"technitium", "-to", to, filepath.Join(dir, "settings.json")})
			settings, err := os.ReadFile(filepath.Join(to, "shuultuur.yaml"))
			report, _ := os.ReadFile(filepath.Join(to, "report.txt"))
			if status != 0 || err != nil || !strings.Contains(string(report), tt.report) || strings.Contains(string(report), "se cret") {
				t.Errorf("status %d, %v, want %q in the report\n%s\n%s", status, err, tt.report, &out, report)
			}
			if has := strings.Contains(string(settings), "cert: cert.pem"); has != (tt.settings != "") || !strings.Contains(strings.Join(strings.Fields(string(settings)), " "), tt.settings) {
				t.Errorf("want %q in the settings\n%s", tt.settings, settings)
			}
			if _, err := tls.LoadX509KeyPair(filepath.Join(to, "cert.pem"), filepath.Join(to, "key.pem")); (err == nil) != (tt.settings != "") {
				t.Errorf("certificate and key: %v", err)
			}
		})
	}
}
