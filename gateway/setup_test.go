package gateway

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"shuultuur/admin/setup"
	"shuultuur/intercept"
)

// TestTheFirstStepsKeepTheKeyApart: root.pem may be given away; its key is readable by its owner alone.
// The root is limited as the answers say, and signs for the address of its own pages all the same.
func TestTheFirstStepsKeepTheKeyApart(t *testing.T) {
	dir := t.TempDir()
	f := &firstSteps{gateway: &Gateway{file: filepath.Join(dir, "shuultuur.yaml")}}
	at := netip.MustParseAddr("192.168.1.20")
	unmake, err := f.makeRoot(setup.Answers{At: at, Domains: []string{"school.example"}, Final: true})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "root.pem")
	text, err := os.ReadFile(file)
	if err != nil || bytes.Contains(text, []byte("PRIVATE")) {
		t.Errorf("root.pem has a key, or is not there: %v", err)
	}
	if info, err := os.Stat(intercept.KeyFile(file)); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the file with the key: %v, %v; want one for its owner alone", info, err)
	}
	block, _ := pem.Decode(text)
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !root.MaxPathLenZero || len(root.PermittedDNSDomains) != 1 {
		t.Errorf("the root is not limited: %v", err)
	}
	a, err := intercept.New(intercept.Config{Root: file})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{"192.168.1.20": true, "www.school.example": true, "192.168.1.21": false, "bank.example": false} {
		if _, err := a.Certificate(host); (err == nil) != want {
			t.Errorf("a certificate for %s: %v", host, err)
		}
	}
	again, err := f.makeRoot(setup.Answers{})
	if err != nil {
		t.Fatal(err)
	}
	again() // which takes away only what it has made
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, text) {
		t.Errorf("a root that is there was replaced or removed: %v", err)
	}
	unmake()
	if all, _ := os.ReadDir(dir); len(all) > 0 {
		t.Errorf("after settings that are refused, there are %v", all)
	}
}
