//go:build !small

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/intercept"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/tool/importer"
	imports "shuultuur/tool/importer/report"
)

// imported has the programs that the table in docs/import.md counts.
var imported = []string{"e2guardian", "squid", "squidguard", "pihole", "adguardhome", "blocky", "unbound", "dnsmasq", "privoxy", "technitium", "nextdns", "opnsense"}

// configurationOf returns the folder of a configuration of a program.
func configurationOf(program string) string {
	return filepath.Join("..", "..", "tool", "importer", program, "testdata")
}

// copyOf copies a configuration of another program, and adds the files that the
// repository does not contain: keys, and Pi-hole's database.
func copyOf(t *testing.T, program string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(configurationOf(program))); err != nil {
		t.Fatal(err)
	}
	switch program {
	case "adguardhome":
		key, cert := serverCertificate(t)
		writeAll(t, to, map[string][]byte{"cert.pem": cert, "key.pem": key})
	case "squid":
		root, err := intercept.NewRoot(intercept.RootConfig{Name: "School"})
		if err != nil {
			t.Fatal(err)
		}
		if err := root.Write(filepath.Join(to, "ca.pem"), false); err != nil {
			t.Fatal(err)
		}
	case "pihole":
		text, err := os.ReadFile(filepath.Join(to, "gravity.sql"))
		if err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", filepath.Join(to, "gravity.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func writeAll(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func serverCertificate(t *testing.T) (key, cert []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"dns.home.example"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestImportCarriesNearlyAllThatWeHave imports each configuration, checks the
// settings, and compares the counts with the table in the documentation.
func TestImportCarriesNearlyAllThatWeHave(t *testing.T) {
	var table strings.Builder
	table.WriteString("| program | carried over | with a difference | at its default | lost, though we have the like | lost, as we have nothing like it | of what we have |\n|--|--|--|--|--|--|--|\n")
	for _, program := range imported {
		to := filepath.Join(t.TempDir(), "new")
		r, err := importer.Run(t.Context(), program, copyOf(t, program), to)
		if err != nil {
			t.Fatalf("copying the configuration of %s: %v", program, err)
		}
		_, done, err := engine.Explain(t.Context(), filepath.Join(to, importer.SettingsFile))
		if err != nil {
			var text bytes.Buffer
			settings, _ := os.ReadFile(filepath.Join(to, importer.SettingsFile))
			_ = r.Text(&text)
			t.Fatalf("importing %s: %v\n%s\n%s", program, err, settings, &text)
		}
		done()
		ours, none := countLost(r)
		have := r.Count[imports.Carried] + r.Count[imports.Changed]
		share := 100 * have / max(1, have+ours)
		fmt.Fprintf(&table, "| %s | %d | %d | %d | %d | %d | %d %% |\n", program, r.Count[imports.Carried], r.Count[imports.Changed], r.Count[imports.Default], ours, none, share)
		if share < 95 {
			var text bytes.Buffer
			_ = r.Text(&text)
			t.Errorf("%s: only %d %% of the options that have an equivalent are carried over:\n%s", program, share, &text)
		}
		for _, n := range r.Notes {
			if n.Kind == imports.Lost && n.Why == "" || n.What == "" {
				t.Errorf("%s: a note gives no reason, or no option: %+v", program, n)
			}
		}
	}
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "import.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(doc, []byte(table.String())) {
		t.Errorf("docs/import.md lacks the table\n%s", table.String())
	}
}

// TestImportOfSquidKeepsTLSUsersAndScanner reads the settings made from a proxy with all of
// these.
func TestImportOfSquidKeepsTLSUsersAndScanner(t *testing.T) {
	to := filepath.Join(t.TempDir(), "new")
	if _, err := importer.Run(t.Context(), "squid", copyOf(t, "squid"), to); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(to, importer.SettingsFile)
	s, err := configuration.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if s.Intercept == nil || filepath.Base(string(s.Intercept.Root)) != "root.pem" || s.Identity.Basic == nil || s.Identity.Basic.Realm != "School" || s.Checks.ICAP == nil || len(s.Checks.ICAP.Servers) != 1 ||
		len(s.Listen.Transparent) != 1 || s.Cache == nil || s.Cache.Memory != 512<<20 || len(s.Proxy.Trusted) == 0 || s.Pages.Contact == "" {
		text, _ := os.ReadFile(file)
		t.Errorf("the settings lack TLS, users, scanner, ports or cache:\n%s", text)
	}
	for _, p := range s.Policies {
		if office := strings.Contains(p.Name, "office"); p.Decrypt == office {
			t.Errorf("policy %q decrypts TLS: %v, want the opposite", p.Name, p.Decrypt)
		}
		if pupils := strings.Contains(p.Name, "pupils"); !slices.Equal(p.Tenants.Google, []string{"school.example"}) || (p.YouTube == "strict") != pupils {
			t.Errorf("policy %q has tenants %v and YouTube %q", p.Name, p.Tenants.Google, p.YouTube)
		}
	}
	if c := s.Cache.Rules; len(c) != 1 || !slices.Equal(c[0].Host, []string{"radio.example"}) || *c[0].Store || s.Proxy.PerClient != 200 && s.Proxy.PerClient != 60 || s.Proxy.Upstream.Idle != setting.Duration(90*time.Second) {
		t.Errorf("the cache rules, connections or timeouts are %+v, %+v", s.Cache.Rules, s.Proxy)
	}
	if !slices.ContainsFunc(s.Policies, func(p policy.Policy) bool { return slices.Equal(p.Groups, []string{"Head Office", "Teachers"}) }) {
		t.Error("no policy has the groups Head Office and Teachers")
	}
	for _, x := range []struct{ client, url, want string }{
		{"10.1.0.9", "http://a.learning.games.example/", "allow"},
		{"10.1.0.9", "http://a.films.example/x", "block"},
		{"10.1.0.9", "http://b.example/setup.exe", "block"},
		{"10.3.0.9", "http://192.0.2.9/", "block"},
		{"10.3.0.9", "http://other.example/", "allow"},
		{"203.0.113.9", "http://other.example/", "block"},
		{"10.1.0.9", "http://www.more.example/", "block"},
		{"10.3.0.9", "http://www.more.example/", "allow"},
		{"10.3.0.9", "https://mail7.example/", "block"},
		{"10.3.0.9", "https://www.bank.example/setup.exe", "allow"}, // which are not decrypted
		{"10.3.0.9", "https://a.clinic.example/setup.exe", "allow"},
		{"10.3.5.9", "https://other.example/setup.exe", "allow"},
		{"10.3.0.9", "https://other.example/setup.exe", "block"},
		{"203.0.113.9", "https://www.bank.example/", "block"}, // http_access comes before ssl_bump
	} {
		got, err := question{config: file, client: x.client, method: "GET", url: x.url}.ask(t.Context(), env{})
		if err != nil || got.Action != x.want && !(x.want == "allow" && got.Action == "pass") {
			t.Errorf("%s asks for %s: %+v, %v, want %s", x.client, x.url, got, err, x.want)
		}
	}
}

// TestImportedListsAreFetchedFromWhereTheyCame: every list whose address is known is fetched
// from there, and starts with the local copy.
func TestImportedListsAreFetchedFromWhereTheyCame(t *testing.T) {
	for program, urls := range map[string][]string{
		"pihole":      {"https://lists.example/hosts.txt", "https://lists.example/kids.txt", "https://lists.example/allow.txt"},
		"adguardhome": {"https://lists.example/filter.txt", "https://lists.example/hosts.txt", "https://lists.example/allowed.txt"},
	} {
		to := filepath.Join(t.TempDir(), "new")
		if _, err := importer.Run(t.Context(), program, copyOf(t, program), to); err != nil {
			t.Fatal(err)
		}
		s, err := configuration.Read(filepath.Join(to, importer.SettingsFile))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range urls {
			found := false
			for name, l := range s.Lists {
				if !slices.Contains(l.Fetch.URL, u) {
					continue
				}
				found = true
				if versions, err := os.ReadDir(filepath.Join(to, "data", "sources", name)); err != nil || len(versions) == 0 || l.Path != "" {
					t.Errorf("%s: %s has no first version: %v, path %q", program, u, err, l.Path)
				}
			}
			if !found {
				t.Errorf("%s: no list is fetched from %s", program, u)
			}
		}
	}
}

// countLost returns the numbers of lost options: those that have an equivalent, and the others.
func countLost(r *imports.Report) (ours, none int) {
	for _, n := range r.Notes {
		switch {
		case n.Kind != imports.Lost:
		case n.Ours != "":
			ours++
		default:
			none++
		}
	}
	return ours, none
}
