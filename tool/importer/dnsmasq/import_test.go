package dnsmasq

import (
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/tool/importer/importertest"
)

func TestWhatIsMadeOfAConfiguration(t *testing.T) {
	importertest.Golden(t, "dnsmasq", Import, Rules)
}

// What an import of one option makes.
func TestOptionsOneByOne(t *testing.T) {
	for name, tt := range map[string]struct{ conf, has, lacks string }{
		"local with a server":       {"local=/corp.example/10.0.0.53\n", "corp.example: [10.0.0.53]", ""},
		"local without one":         {"local=/corp.example/\n", "action: block", "10.0.0.53"},
		"a dot before a domain":     {"server=/.corp.example/10.0.0.53\n", "corp.example: [10.0.0.53]", ".corp.example"},
		"a star before a domain":    {"server=/*.Corp.example/10.0.0.53\n", "corp.example: [10.0.0.53]", "*"},
		"a server for any name":     {"server=/#/10.0.0.53\nserver=9.9.9.9\n", ".: [10.0.0.53]", "'#'"},
		"a server of bare names":    {"server=//10.0.0.53\nserver=9.9.9.9\n", "upstreams: [9.9.9.9]", "10.0.0.53"},
		"bare names stay here":      {"local=//\n", "category/without-dot", ""},
		"no name goes out":          {"server=/#/\nserver=/good.example/9.9.9.9\n", "unless: [category/resolved]", ""},
		"a network":                 {"rev-server=10.1.2.3/8,10.0.0.53\n", "10.0.0.0/8: [10.0.0.53]", ""},
		"no domain":                 {"server=/a..b/10.0.0.53\nserver=9.9.9.9\n", "upstreams: [9.9.9.9]", "a..b"},
		"all names":                 {"address=/#/192.0.2.1\nserver=/good.example/9.9.9.9\n", "unless: [category/resolved]", ""},
		"an interface":              {"interface=eth0\n", "127.0.0.1:53", "':53'"},
		"all but an interface":      {"except-interface=wan\nlisten-address=10.0.0.1\n", "10.0.0.1:53", "':53'"},
		"port 0":                    {"port=0\naddress=/a.example/\n", "category/blocked", "dns:"},
		"a file that is not there":  {"conf-file=none.conf\n", "what is not known", ""},
		"no file in a folder":       {"conf-dir=none.d\nserver=9.9.9.9\n", "9.9.9.9", "what is not known"},
		"answers that are none":     {"bogus-nxdomain=192.0.2.7\n", "category/refused-addresses", ""},
		"names without a dot":       {"domain-needed\n", "category/without-dot", ""},
		"settings of comments only": {"# Configuration file for dnsmasq.\n#port=5353\n", "listen: [':53']", "5353"},
	} {
		dir := importertest.Folder(t, map[string]string{"dnsmasq.conf": tt.conf})
		got := importertest.Settings(t, "dnsmasq", Import, filepath.Join(dir, "dnsmasq.conf"))
		if !strings.Contains(got, tt.has) || tt.lacks != "" && strings.Contains(got, tt.lacks) {
			t.Errorf("%s: want %q and not %q in\n%s", name, tt.has, tt.lacks, got)
		}
	}
}
