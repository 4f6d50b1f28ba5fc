package unbound

import (
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/tool/importer/importertest"
)

func TestWhatIsMadeOfAConfiguration(t *testing.T) {
	importertest.Golden(t, "unbound", Import, Rules)
}

// What an import of one option makes.
func TestOptionsOneByOne(t *testing.T) {
	for name, tt := range map[string]struct{ conf, has, lacks string }{
		"a server by TLS at an IPv6 address": {"forward-zone:\n  name: \".\"\n  forward-tls-upstream: yes\n  forward-addr: 2001:db8::1\n", "tls://[2001:db8::1]", ""},
		"tabs in data":                       {"server:\n  local-data: \"nas.example.\tIN\tA\t10.0.0.9\"\n", "nas.example: [10.0.0.9]", ""},
		"nobody but this machine":            {"server:\n  interface: 0.0.0.0\n", "allow: [127.0.0.0/8, '::1/128']", ""},
		"all addresses":                      {"server:\n  interface-automatic: yes\n", "0.0.0.0:53", ""},
		"an interface":                       {"server:\n  interface: eth0\n", "127.0.0.1:53", "eth0:53"},
		"a part of an allowed network":       {"server:\n  access-control: 10.0.0.0/8 allow\n  access-control: 10.1.0.0/16 refuse\n  access-control: 10.1.128.0/17 allow\n", "deny: [10.1.0.0/17]", ""},
		"addresses in answers":               {"server:\n  response-ip: 192.0.2.0/24 always_nxdomain\n", "category/refused-addresses", ""},
		"a zone that is not there":           {"rpz:\n  name: rpz.example\n  zonefile: none\n", "- name: rpz\n          action: block\n", "category/rpz"},
		"an include that is not there":       {"include: none.conf\n", "what is not known", ""},
		"no file that an include names":      {"include: \"none/*.conf\"\nserver:\n  interface: ::1\n", "[::1]:53", "what is not known"},
	} {
		dir := importertest.Folder(t, map[string]string{"unbound.conf": tt.conf})
		got := importertest.Settings(t, "unbound", Import, filepath.Join(dir, "unbound.conf"))
		if !strings.Contains(got, tt.has) || tt.lacks != "" && strings.Contains(got, tt.lacks) {
			t.Errorf("%s: want %q and not %q in\n%s", name, tt.has, tt.lacks, got)
		}
	}
}
