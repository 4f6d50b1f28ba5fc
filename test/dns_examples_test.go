package test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestExamplesOfTheNameServerWork runs "shuultuur check" on the settings in the pages of the
// name server.
func TestExamplesOfTheNameServerWork(t *testing.T) {
	ours := (*issuer)(nil).issue(t, "dns.example.com", nil)
	der, err := x509.MarshalPKCS8PrivateKey(ours.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := []byte(ours.pem()), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for _, page := range []string{"nameserver/README.md", "resolver/README.md", "zone/README.md", "zone/redins/README.md", "docs/encrypted-dns.md"} {
		text, err := os.ReadFile("../" + page)
		if err != nil {
			t.Fatal(err)
		}
		examples := yamlBlock.FindAllSubmatch(text, -1)
		if len(examples) == 0 {
			t.Errorf("%s has no examples of settings", page)
		}
		for i, example := range examples {
			dir := t.TempDir()
			for name, text := range map[string][]byte{
				"shuultuur.yaml": example[1], "dns.pem": cert, "dns.key": key,
				"example.com.zone": []byte("$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 300\n@ NS ns1\nns1 A 192.0.2.1\n"),
			} {
				if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			check := exec.Command(filepath.Join(bin, "shuultuur"), "check", "-config", "shuultuur.yaml")
			check.Dir = dir
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s, example %d: %v:\n%s%s", page, i+1, err, example[1], out)
			}
		}
	}
}
