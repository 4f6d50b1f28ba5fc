package importer

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestSquidsRulesForTheMethodPurgeSayWhoMayPurge(t *testing.T) {
	for _, c := range []struct {
		lines string
		want  []string
	}{
		{"acl purge method PURGE\nhttp_access allow purge localhost\nhttp_access deny purge\nhttp_access allow all", []string{"::1/128", "127.0.0.1/32"}},
		{"acl purge method PURGE\nacl admins src 10.1.0.0/16\nhttp_access allow admins purge\nhttp_access deny purge\nhttp_access allow all", []string{"10.1.0.0/16"}},
		{"acl purge method PURGE\nhttp_access deny purge\nhttp_access allow all", nil},
		{"acl purge method GET\nhttp_access allow purge localhost\nhttp_access deny all", nil},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "squid.conf")
		if err := os.WriteFile(file, []byte("cache_mem 64 MB\n"+c.lines+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, "new")
		if _, err := Run(t.Context(), Squid, file, to); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(to, "shuultuur.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		part := regexp.MustCompile(`(?m)^cache:\n(?:[ ].*\n)*`).FindString(string(b))
		_, purge, _ := strings.Cut(part, "purge:")
		if got := strings.Join(regexp.MustCompile(`[0-9a-f.:]+/\d+`).FindAllString(purge, -1), " "); got != strings.Join(c.want, " ") {
			t.Errorf("%s: cache.purge is %q, want %q of\n%s", c.lines, got, c.want, b)
		}
	}
}
