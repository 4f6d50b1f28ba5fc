package importer

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/tool/importer/importertest"
	"shuultuur/tool/importer/report"
)

// usual are the names of the files that programs read first.
var usual = map[string]string{"e2guardian": "e2guardian.conf", "dansguardian": "dansguardian.conf", "squidguard": "squidGuard.conf", "pihole": "pihole.toml",
	"adguardhome": "AdGuardHome.yaml", "blocky": "config.yml", "unbound": "unbound.conf", "dnsmasq": "dnsmasq.conf", "squid": "squid.conf", "privoxy": "config",
	"technitium": "settings.json", "nextdns": "nextdns.json", "opnsense": "config.xml"}

func TestFilesOfNoProgramAreRefused(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "comment": "# nothing\n", "text": "This is a letter.\nIt has two lines.\n", "zeros": strings.Repeat("\x00", 4096),
		"UTF-16": "\xff\xfed\x00n\x00s\x00=\x001\x00\n\x00", "page": "<!DOCTYPE html><html><body>404 Not Found</body></html>\n"} {
		for _, program := range Names() {
			r, err := Run(t.Context(), program, importertest.Folder(t, map[string]string{usual[program]: text}), t.TempDir())
			if defaults := name == "comment" && (program == "dnsmasq" || program == "unbound"); defaults { // as distributions ship it
				if err != nil {
					t.Errorf("%s with comments alone: %v", program, err)
				}
			} else if err == nil {
				t.Errorf("%s, %s: the import succeeds with %v", program, name, r.Notes)
			}
		}
	}
}

// TestOddFilesAreNamed: what cannot be read or counts only in part is in the report or the error,
// with its file and line.
func TestOddFilesAreNamed(t *testing.T) {
	const guard = "filtergroups = 1\nfilterports = 8080\n"
	const rules = "dest bad { domainlist bad }\nacl { default { pass !bad all } }\n"
	const upstream = "[dns]\nupstreams = [\"192.0.2.1\"]\n"
	long := strings.Repeat("a", 1<<20+1)
	for name, tt := range map[string]struct {
		program string
		files   map[string]string
		want    string
	}{
		"a long line of e2guardian":   {"e2guardian", map[string]string{"e2guardian.conf": guard + "x = " + long}, "e2guardian.conf:3: the line is longer than 1 MiB"},
		"zeros in a group":            {"e2guardian", map[string]string{"e2guardian.conf": guard, "e2guardianf1.conf": "a\n\x00"}, "e2guardianf1.conf:2: the file is not text"},
		"an include of itself":        {"e2guardian", map[string]string{"e2guardian.conf": guard + ".Include<e2guardian.conf>\n"}, "e2guardian.conf: too many settings files"},
		"many options":                {"e2guardian", map[string]string{"e2guardian.conf": strings.Repeat(guard, 100_000)}, "e2guardian.conf:100001: there are more than"},
		"many statements":             {"squidguard", map[string]string{"squidGuard.conf": strings.Repeat("}\n", 200_002)}, "squidGuard.conf:200002: there are more than"},
		"an open block":               {"squidguard", map[string]string{"squidGuard.conf": rules + "acl {\n"}, "squidGuard.conf:3: the block is not closed"},
		"a long line of addresses":    {"squidguard", map[string]string{"squidGuard.conf": rules + "src a { iplist ips }\n", "bad": "bad.example\n", "ips": "10.0.0.1\n" + long}, "ips:2: the line is longer"},
		"too many networks":           {"squidguard", map[string]string{"squidGuard.conf": rules + "src a { iplist ips }\nacl { a { pass !bad all } }\n", "bad": "bad.example\n", "ips": strings.Repeat("10.0.0.1-10.0.0.254\n", 10_000)}, "the first 100000 are there"},
		"a table that is not closed":  {"pihole", map[string]string{"pihole.toml": upstream + "[dhcp\n", "custom.list": "10.0.0.1 a.example\n"}, "pihole.toml: line 3:"},
		"an array that is not closed": {"pihole", map[string]string{"pihole.toml": "[dns]\nhosts = [\n\"10.0.0.1 a\"\n[webserver]\n", "custom.list": "10.0.0.1 a.example\n"}, "line 2: the array of dns.hosts is not closed"},
		"a text that is not closed":   {"pihole", map[string]string{"pihole.toml": "[dns]\nhosts = [\"10.0.0.1 a\n]\n", "custom.list": "10.0.0.1 a.example\n"}, "line 2: dns.hosts: a text has no \""},
		"a key that is set twice":     {"pihole", map[string]string{"pihole.toml": upstream + "upstreams = [\"192.0.2.2\"]\n"}, "pihole.toml:2: dns.upstreams: has no effect: it is set again in line 3"},
		"a value that is no array":    {"pihole", map[string]string{"pihole.toml": upstream + "hosts = 5\n"}, "pihole.toml:3: dns.hosts: 5 → dns: it is not an array"},
		"a record without a target":   {"pihole", map[string]string{"pihole.toml": upstream + "cnameRecords = [\"a\"]\n"}, "pihole.toml:3: \"a\" names no target"},
		"an address without a name":   {"pihole", map[string]string{"pihole.toml": upstream, "custom.list": "10.0.0.1\n"}, "custom.list:1: \"10.0.0.1\" has an address without a name"},
		"too many addresses":          {"pihole", map[string]string{"pihole.toml": upstream, "custom.list": manyAddresses(1001)}, "custom.list:1001: 10.0.3.232: there are 1000 already"},
		"zeros in a file":             {"pihole", map[string]string{"pihole.toml": upstream, "custom.list": "10.0.0.1 a.example\n\x00"}, "custom.list:2: the file is not text"},
	} {
		dir := importertest.Folder(t, tt.files)
		r, err := Run(t.Context(), tt.program, dir, t.TempDir())
		text := fmt.Sprintln(err)
		if err == nil {
			for _, n := range r.Notes {
				text += n.String() + "\n"
			}
		}
		if text = strings.ReplaceAll(text, dir+"/", ""); !strings.Contains(text, tt.want) {
			t.Errorf("%s: the report and the error do not have %q: %.2000s", name, tt.want, text)
		}
	}
}

func manyAddresses(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "10.0.%d.%d a.example\n", i/256, i%256)
	}
	return b.String()
}

// TestFoldersInPlaceOfFilesAreNamed: what is there and is no file is not passed over.
func TestFoldersInPlaceOfFilesAreNamed(t *testing.T) {
	for _, name := range []string{"custom.list", "adlists.list", "blacklist.exact.txt", "setupVars.conf", "gravity.db"} {
		dir := importertest.Folder(t, map[string]string{"pihole.toml": "[dns]\nupstreams = [\"192.0.2.1\"]\n"})
		if err := os.Mkdir(filepath.Join(dir, name), fs.ModePerm); err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), "pihole", dir, t.TempDir())
		if err != nil || r.Count[report.Lost] != 1 || !strings.Contains(fmt.Sprint(r.Notes), name+" is not a file") {
			t.Errorf("%s is a folder: %v, %v", name, r, err)
		}
	}
}
