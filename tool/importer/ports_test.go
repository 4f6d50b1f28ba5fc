package importer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBesideMovesEveryPort(t *testing.T) {
	dir := t.TempDir()
	file, moved := filepath.Join(dir, "shuultuur.yaml"), filepath.Join(dir, "beside.yaml")
	text := "listen: {proxy: ['[::]:3128', '127.0.0.1:60000'], icap: '127.0.0.1:1344'}\ndns: {listen: [':53'], tls: ['192.0.2.1:853']}\npolicies: [{name: all}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := WithOtherPorts(file, moved)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(moved)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[::]:13128", "127.0.0.1:50000", "127.0.0.1:11344", ":10053", "192.0.2.1:10853", "127.0.0.1:18081", "name: all"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	if len(lines) != 6 || !strings.Contains(strings.Join(lines, "\n"), "dns.listen: :10053 instead of :53") {
		t.Errorf("the new places of the addresses are %q, want six", lines)
	}
}
