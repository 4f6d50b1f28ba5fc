//go:build !small

package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"shuultuur/engine"
	"shuultuur/filter"
	"shuultuur/tool/importer"
)

// goodSettings imports a configuration: the resulting settings must be valid,
// and the program's own rules must decide.
func goodSettings(t *testing.T, program, path string) {
	if s, ok, err := importer.NewSource(t.Context(), program, path); ok && err == nil {
		for _, host := range []string{"www.example.com", "192.0.2.7", "x", ""} {
			x := &filter.Transaction{Host: host, Last: filter.Name, Client: filter.Client{Addr: netip.MustParseAddr("10.0.0.5")}}
			s.Decide(t.Context(), x, filter.Name)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	to := t.TempDir()
	if _, err := importer.Run(t.Context(), program, path, to); err != nil {
		return
	}
	file := filepath.Join(to, importer.SettingsFile)
	_, done, err := engine.Explain(t.Context(), file)
	if err != nil {
		yaml, _ := os.ReadFile(file)
		t.Fatalf("checking the imported settings: %v\n%s", err, yaml)
	}
	done()
}

func FuzzImportE2guardian(f *testing.F) {
	files := txtar.Parse([]byte(e2guardianFolder)).Files
	var group string
	for _, x := range files {
		if x.Name == "e2guardianf1.conf" {
			group = string(x.Data)
		}
	}
	f.Add("filtergroups = 1\niplist = 'name=bannedclient,path=lists/a'\nauthplugin = 'lists/b'\n", group, "**\nexample.com\n.Include<b>\n", "<a>,<b><10>\n10.0.0.0-10.0.0.9 = filter2\n.exe\n")
	f.Add("filterports = 8080\nproxyip = 10.0.0.1\nproxyport = 3128\n", "bypass = 5\nsitelist = 'name=banned,path=lists/a'\nfileextlist = 'name=bannedextension,path=lists/a'\nmimelist = 'name=bannedmime,path=lists/a'\nregexpboollist = 'name=banned,path=lists/b'\ntimelist = 'name=bannedtimes,path=lists/b'\n", ".exe\ntext/html\n", "0 0 24 0 0123456\n(a|\n")
	f.Add("", "searchlist = 'name=banned,path=lists/a'\nregexpboollist = 'name=bannedheader,path=lists/b'\nregexpboollist = 'name=banneduseragent,path=lists/b'\nregexpreplacelist = 'name=redirect,path=lists/a'\nsitelist = 'name=refererexception,path=lists/a'\n", "girl+naked\n\"^http://a/\"->\"http://b.example/{x}\"\n", "Cookie: .*\n^X-A: \n")
	f.Add("", "weightedphraselist = 'lists/a'\nnaughtynesslimit = -5\nweightedphrasemode = 7\n", "<a><10%>\n.Include<a>\n.Include<b>\n#listcategory: \"phrase\"\n", "#time: 1 2 3 4 5\n<x><y>\n")
	f.Fuzz(func(t *testing.T, main, group, a, b string) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "lists"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"e2guardian.conf": main, "e2guardianf1.conf": group, "lists/a": a, "lists/b": b} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		goodSettings(t, "e2guardian", dir)
	})
}

func FuzzImportSquidGuard(f *testing.F) {
	for _, x := range txtar.Parse([]byte(squidGuardFolder)).Files {
		if x.Name == "squidGuard.conf" {
			f.Add(string(x.Data), "example.com\n")
		}
	}
	f.Add("dbhome .\ndest a { domainlist a\n urllist a\n expressionlist a\n redirect http://x/{ }\ntime t { weekly sundays 04:00-08:00 09:00-25:00 }\nsrc s { ip ::1 10.0.0.0/8\n user x within t }\nacl { s outside t { pass !a none } else { pass any }\n default { pass in-addr a\n redirect http://%a/ } }\n", "a.com/x\n.b\n([\n")
	f.Fuzz(func(t *testing.T, conf, a string) {
		dir := t.TempDir()
		for name, text := range map[string]string{"squidGuard.conf": conf, "a": a} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		goodSettings(t, "squidguard", filepath.Join(dir, "squidGuard.conf"))
	})
}

func FuzzImportAdGuardHome(f *testing.F) {
	f.Add("filters: [{enabled: true, name: x, id: 1}]\nuser_rules: ['@@||a.example^', '||b.example^']\n", "||a.example^\n")
	f.Add("dns: {safesearch_enabled: true}\nclients: {}\n", "0.0.0.0 a.example\n")
	f.Fuzz(func(t *testing.T, conf, a string) {
		if strings.Count(conf, "*") > 20 { // aliases
			return
		}
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "data", "filters"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"AdGuardHome.yaml": conf, "data/filters/1.txt": a} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		goodSettings(t, "adguardhome", filepath.Join(dir, "AdGuardHome.yaml"))
	})
}

func FuzzImportPiholesTextFiles(f *testing.F) {
	f.Add("good.example\n", "bad.example\n", "(^|\\.)ads[0-9]$\n")
	f.Fuzz(func(t *testing.T, allow, deny, expressions string) {
		dir := t.TempDir()
		for name, text := range map[string]string{"whitelist.txt": allow, "blacklist.txt": deny, "regex.list": expressions} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		goodSettings(t, "pihole", dir)
	})
}
