//go:build !small

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/test/cert"
)

func TestPortsOfSquidThatSpeakTLSAreImported(t *testing.T) {
	dir := t.TempDir()
	crt, key := cert.Files(t, dir, "proxy.example")
	both := filepath.Join(dir, "both.pem")
	var text []byte
	for _, f := range []string{key, crt} {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	if err := os.WriteFile(both, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ options, cert, says string }{
		{"tls-cert=" + crt + " tls-key=" + key, crt, "all ports of the proxy speak TLS too"},
		{"cert=" + both, both, "all ports of the proxy speak TLS too"},
		{"tls-cert=" + crt + " tls-key=" + both + ".gone", "", "write listen: tls"},
		{"", "", "write listen: tls"},
	} {
		file := filepath.Join(t.TempDir(), "squid.conf")
		if err := os.WriteFile(file, []byte("http_port 3128\nhttps_port 3129 "+tt.options+"\nhttp_access allow all\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		settings, report := importFrom(t, "squid", file)
		yaml, err := os.ReadFile(settings)
		if err != nil {
			t.Fatal(err)
		}
		if want := "cert: " + tt.cert; strings.Contains(string(yaml), "cert: ") != (tt.cert != "") || tt.cert != "" && !strings.Contains(string(yaml), want) {
			t.Errorf("port options %q: the settings lack %q:\n%s", tt.options, want, yaml)
		}
		if !strings.Contains(report, tt.says) {
			t.Errorf("port options %q: the report lacks %q:\n%s", tt.options, tt.says, report)
		}
	}
}
