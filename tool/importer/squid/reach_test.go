package squid

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/tool/importer/importertest"
)

// TestNamesThatLeadToRefusedNetworksAreRefused: a line that refuses a network of destinations does so
// for names, too, whatever stands before it or beside it.
func TestNamesThatLeadToRefusedNetworksAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		lines   string
		refused bool
	}{
		"alone":                         {"http_access deny inside\nhttp_access allow all\n", true},
		"with all":                      {"http_access deny inside all\nhttp_access allow all\n", true},
		"after some were allowed":       {"http_access allow one\nhttp_access deny inside\nhttp_access allow all\n", true},
		"for some clients":              {"http_access deny inside !one\nhttp_access allow all\n", true},
		"with a method":                 {"http_access deny CONNECT inside\nhttp_access allow all\n", true},
		"of several":                    {"acl both any-of inside other\nhttp_access deny both\nhttp_access allow all\n", true},
		"after all were allowed":        {"http_access allow all\nhttp_access deny inside\n", false},
		"left out of what is allowed":   {"http_access allow one !inside\nhttp_access deny all\n", true},
		"left out, and others are not":  {"http_access allow one !inside\nhttp_access allow CONNECT\nhttp_access deny all\n", true},
		"left out with others":          {"acl both any-of inside other\nhttp_access allow one !both\nhttp_access deny all\n", true},
		"left out after all":            {"http_access allow all\nhttp_access allow one !inside\n", false},
		"all but it":                    {"http_access allow inside\nhttp_access deny all\n", false},
		"named and not used":            {"http_access allow all\n", false},
		"refused where it is not meant": {"http_access deny other !inside\nhttp_access allow all\n", false},
	} {
		dir := importertest.Folder(t, map[string]string{"squid.conf": "acl inside dst 10.0.0.0/8\nacl other dst 192.0.2.0/24\nacl one src 192.168.1.1\nacl CONNECT method CONNECT\n" + tt.lines})
		got := importertest.Settings(t, "squid", Import, filepath.Join(dir, "squid.conf"))
		reached := false
		_, private, _ := strings.Cut(got, "private:")
		for _, f := range strings.FieldsFunc(private, func(r rune) bool { return strings.ContainsRune(" \n[],'", r) }) {
			p, err := netip.ParsePrefix(f)
			reached = reached || err == nil && p.Contains(netip.MustParseAddr("10.1.2.3"))
		}
		if reached == tt.refused {
			t.Errorf("%s: refused is %v, want %v:\n%s", name, !reached, tt.refused, got)
		}
	}
}
