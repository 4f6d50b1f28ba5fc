package squid

import (
	"regexp"
	"strings"
	"testing"

	"shuultuur/tool/importer/importertest"
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
		dir := importertest.Folder(t, map[string]string{"squid.conf": "cache_mem 64 MB\n" + c.lines + "\n"})
		b := importertest.Settings(t, "squid", Import, dir)
		part := regexp.MustCompile(`(?m)^cache:\n(?:[ ].*\n)*`).FindString(b)
		_, purge, _ := strings.Cut(part, "purge:")
		if got := strings.Join(regexp.MustCompile(`[0-9a-f.:]+/\d+`).FindAllString(purge, -1), " "); got != strings.Join(c.want, " ") {
			t.Errorf("%s: cache.purge is %q, want %q of\n%s", c.lines, got, c.want, b)
		}
	}
}
