//go:build !small

package signature

import (
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/list/source"
)

// tree returns what a folder contains: each name with its mode, and the content of its files and
// links.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			content, err = os.Readlink(p)
		case e.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(p)
			content = string(data)
		}
		all[p] = fmt.Sprint(info.Mode(), " ", content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func differences(before, after map[string]string) (all []string) {
	for p, was := range before {
		if is, there := after[p]; !there || is != was {
			all = append(all, fmt.Sprintf("%s was %.60q and is %.60q", p, was, is))
		}
	}
	for p := range after {
		if _, was := before[p]; !was {
			all = append(all, p+" is new")
		}
	}
	return all
}

// hostileNames are names of files that rules from outside must not use. OUTSIDE stands for a
// folder of the machine.
var hostileNames = []string{
	"OUTSIDE/secret.key", "OUTSIDE/new.lst", "/no/such/folder/x.lst", "/dev/stdin", "/proc/self/environ", "//OUTSIDE/secret.key",
	"../secret.key", "../../outside/secret.key", "rules/../../outside/secret.key", "sub/../../x.lst", "..", "../", "./../x", "a/..", "a/../b.lst",
	`..\secret.key`, `C:\secret.key`, `\\server\share\x`, `a\b`, "C:secret.key", "C:/secret.key", "x.lst:stream", "file:///no/such/folder/x.lst",
	".", "./", "a/", "a/.", "NUL", "con", "com1.lst", "LPT9", "a/aux.txt", "x.", "a./b", "a\x01b", "a\x7f", strings.Repeat("a", 300), strings.Repeat("a/", 600) + "b",
}

// hostileRules name a file, NAME, with each keyword that can. A request for /touch makes the ones
// with datasets change them.
var hostileRules = map[string]string{
	"dataset save":        `http.uri; dataset:set,SET,type string,save NAME;`,
	"dataset state":       `http.uri; dataset:set,SET,type string,state NAME;`,
	"dataset load":        `http.uri; dataset:isset,SET,type string,load NAME;`,
	"dataset load, save":  `http.uri; dataset:set,SET,type string,load NAME,save good.lst;`,
	"dataset load JSON":   `http.uri; dataset:isset,SET,type string,load NAME,format json,value_key v;`,
	"dataset unset state": `http.uri; dataset:unset,SET,type string,state NAME;`,
	"datarep load":        `http.uri; datarep:SET,>,1,type string,load NAME;`,
	"datarep state":       `http.uri; datarep:SET,>,1,type string,state NAME;`,
	"lua":                 `content:"touch"; lua:NAME;`,
	"lua negated":         `content:"touch"; lua:!NAME;`,
	"luajit":              `content:"touch"; luajit:NAME;`,
	"lua on a buffer":     `http.uri; lua:NAME;`,
	"luaxform":            `http.uri; luaxform:NAME; content:"touch";`,
	"luaxform arguments":  `http.uri; luaxform:NAME, a; content:"touch";`,
	"filemd5":             `filemd5:NAME;`,
	"filesha1":            `filesha1:!NAME;`,
	"filesha256":          `filesha256:NAME;`,
}

func TestNamesInRulesDoNotLeaveTheirFolder(t *testing.T) {
	const good = `alert http any any -> any any (http.uri; content:"/touch"; sid:%d;)` + "\n"
	for _, kind := range []string{"file", "tarball", "local file", "local folder", "local tarball"} {
		t.Run(kind, func(t *testing.T) {
			machine := t.TempDir()
			outside := filepath.Join(machine, "outside")
			data := filepath.Join(machine, "data")
			own := filepath.Join(machine, "rules")
			for name, text := range map[string]string{
				"outside/secret.key": "secret", "secret.key": "secret", "data/secret.key": "secret", "data/sources/secret.key": "secret",
				"x.lst": "", "b.lst": "", "rules/secret.key": "secret", "outside/script.lua": "function init() return {} end function match() return 1 end",
			} {
				name = filepath.Join(machine, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(data) // relative names would be resolved here
			var rules strings.Builder
			want := map[int]string{} // by line
			for _, keyword := range slices.Sorted(maps.Keys(hostileRules)) {
				for _, name := range append(hostileNames, "") {
					line := len(want) + 1
					name = strings.ReplaceAll(name, "OUTSIDE", outside)
					fmt.Fprintf(&rules, "alert http any any -> any any (msg:\"x\"; %s sid:%d;)\n", strings.NewReplacer("NAME", name, "SET", fmt.Sprint("set", line)).Replace(hostileRules[keyword]), line)
					want[line] = keyword + " " + name
				}
			}
			hostile := len(want)
			for n := range 2 * hostile { // otherwise the source is refused as a whole
				fmt.Fprintf(&rules, good, hostile+1+n)
			}
			cfg := Config{}
			var content []byte
			switch kind {
			case "file", "local file":
				content = []byte(rules.String())
			default:
				content = tarball(t, "rules/a.rules", rules.String(), "rules/good.lst", "L2JhZA==\n")
			}
			switch kind {
			case "file", "tarball":
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
				defer srv.Close()
				cfg.Sources = map[string]source.Config{"own": {URL: []string{srv.URL + "/rules"}}}
				all, err := Fetch(cfg.Sources)
				if err != nil {
					t.Fatal(err)
				}
				store := source.In(data, source.NewClient(nil, func(string) bool { return false }, (&net.Dialer{}).DialContext))
				if _, err := store.Update(t.Context(), "own", all["own"]); err != nil {
					t.Fatal(err)
				}
			case "local folder":
				if err := os.WriteFile(filepath.Join(own, "a.rules"), []byte(rules.String()), 0o600); err != nil {
					t.Fatal(err)
				}
				cfg.Rules = []setting.File{setting.File(own)}
			default:
				file := filepath.Join(own, "a.rules")
				if err := os.WriteFile(file, content, 0o600); err != nil {
					t.Fatal(err)
				}
				cfg.Rules = []setting.File{setting.File(file)}
			}
			before := tree(t, machine)
			c, err := New(cfg, Parts{Now: time.Now, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			judge(t, c, nil, "x", conversation{request: "GET /touch HTTP/1.1\nHost: a.example\n\n"})
			c.Close()
			for _, d := range differences(before, tree(t, machine)) {
				t.Error("outside the rules' own folders:", d)
			}
			for _, m := range c.Mistakes() {
				if !strings.Contains(m.Error(), "is refused") && !strings.Contains(m.Error(), "is missing") {
					t.Errorf("%s is refused for another reason: %v", want[m.Line], m)
				}
				if m.File == "" {
					t.Errorf("%s: the mistake names no file: %v", want[m.Line], m)
				}
				delete(want, m.Line)
			}
			for _, what := range want {
				t.Errorf("%q is taken", what)
			}
			if p := strings.Join(c.Problems(), "\n"); !strings.Contains(p, "left out because of files that they name") {
				t.Errorf("/health does not name the rules: %q", p)
			}
		})
	}
}

// TestLinksInAFolderOfRulesDoNotLeadOut: neither what rules read nor what they save.
func TestLinksInAFolderOfRulesDoNotLeadOut(t *testing.T) {
	machine := t.TempDir()
	own, outside, data := filepath.Join(machine, "rules"), filepath.Join(machine, "outside"), filepath.Join(machine, "data")
	for _, dir := range []string{own, outside, data, filepath.Join(own, "sub")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"outside/x.lst": "L3RvdWNo\n", "outside/x.lua": "function init() return {} end function match() return 1 end", "rules/sub/in.lst": "L3RvdWNo\n"} {
		if err := os.WriteFile(filepath.Join(machine, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"dir": outside, "up.lst": "../outside/x.lst", "x.lst": filepath.Join(outside, "x.lst"), "x.lua": filepath.Join(outside, "x.lua"), "in.lst": "sub/in.lst"} {
		if err := os.Symlink(to, filepath.Join(own, link)); err != nil {
			t.Fatal(err)
		}
	}
	rules := []string{
		`http.uri; dataset:isset,a,type string,load x.lst;`,
		`http.uri; dataset:isset,b,type string,load up.lst;`,
		`http.uri; dataset:isset,c,type string,load dir/x.lst;`,
		`http.uri; dataset:set,SET,type string,state x.lst;`,
		`content:"touch"; lua:x.lua;`,
		`content:"touch"; lua:dir/x.lua;`,
		`http.uri; dataset:isset,e,type string,load in.lst;`, // leads to the same folder
	}
	for _, local := range []string{own, filepath.Join(own, "a.rules")} {
		var text strings.Builder
		for n, r := range rules {
			fmt.Fprintf(&text, "alert http any any -> any any (%s sid:%d;)\n", r, n+1)
		}
		if err := os.WriteFile(filepath.Join(own, "a.rules"), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := New(Config{Rules: []setting.File{setting.File(local)}}, Parts{Now: time.Now, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		got := judge(t, c, nil, "x", conversation{request: "GET /touch HTTP/1.1\nHost: a.example\n\n"})
		c.Close()
		if len(c.Mistakes()) != len(rules)-1 {
			t.Errorf("%s: %d mistakes, want %d: %v", local, len(c.Mistakes()), len(rules)-1, c.Mistakes())
		}
		for _, m := range c.Mistakes() {
			if !strings.Contains(m.Error(), "a link leads out of the folder") {
				t.Errorf("%s: %v", local, m)
			}
		}
		if !has(got, "7") {
			t.Errorf("%s: the rule with a link inside its folder did not match: %q", local, got)
		}
	}
}

// TestDatasetsOfEachSourceAreKept: what rules save is below the data folder, in a place of its own
// for each source, and there again after a restart.
func TestDatasetsOfEachSourceAreKept(t *testing.T) {
	const rules = `alert http any any -> any any (http.method; content:"GET"; http.uri; content:"/touch"; dataset:set,NAME,type string,state seen.lst; sid:1;)
alert http any any -> any any (http.method; content:"HEAD"; http.uri; dataset:isset,NAME; sid:2;)
`
	own := t.TempDir()
	data := t.TempDir()
	var content []byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	defer srv.Close()
	fetch := func(name string) Config {
		cfg := Config{Sources: map[string]source.Config{name: {URL: []string{srv.URL + "/rules"}}}}
		all, err := Fetch(cfg.Sources)
		if err != nil {
			t.Fatal(err)
		}
		store := source.In(data, source.NewClient(nil, func(string) bool { return false }, (&net.Dialer{}).DialContext))
		if _, err := store.Update(t.Context(), name, all[name]); err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	file := filepath.Join(own, "a.rules")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(rules, "NAME", "local")), 0o600); err != nil {
		t.Fatal(err)
	}
	content = []byte(strings.ReplaceAll(rules, "NAME", "one"))
	one := fetch("one")
	content = tarball(t, "a.rules", strings.ReplaceAll(rules, "NAME", "two"))
	two := fetch("two")
	untouched := tree(t, own)
	for n, cfg := range []Config{{Rules: []setting.File{setting.File(file)}}, one, two} {
		build := func() *Check {
			c, err := New(cfg, Parts{Now: time.Now, Data: data})
			if err != nil || len(c.Mistakes()) > 0 {
				t.Fatal(err, c.Mistakes())
			}
			return c
		}
		touch := fmt.Sprintf("/touch%d", n)
		c := build()
		judge(t, c, nil, "x", conversation{request: "GET " + touch + " HTTP/1.1\nHost: a.example\n\n"})
		c.Close()
		c = build()
		if got := judge(t, c, nil, "y", conversation{request: "HEAD " + touch + " HTTP/1.1\nHost: a.example\n\n"}); !has(got, "2") {
			t.Errorf("source %d: the saved value is not known after a restart: %q", n, got)
		}
		if other := judge(t, c, nil, "z", conversation{request: fmt.Sprintf("HEAD /touch%d HTTP/1.1\nHost: a.example\n\n", (n+2)%3)}); has(other, "2") {
			t.Errorf("source %d knows what another one has saved", n)
		}
		if _, err := os.Stat(filepath.Join(data, "datasets")); err != nil {
			t.Error(err)
		}
	}
	for _, d := range differences(untouched, tree(t, own)) {
		t.Error(d)
	}
}

func TestClientsOfProxiesInASuricataYAML(t *testing.T) {
	for text, want := range map[string]*Forwarded{
		"outputs:\n  - eve-log: {xff: {enabled: yes}}\n":                                                                 {Header: "X-Forwarded-For"},
		"outputs:\n  - eve-log: {xff: {enabled: no, mode: overwrite}}\n":                                                 nil,
		"outputs:\n  - eve-log: {enabled: yes}\n":                                                                        nil,
		"outputs:\n  - fast: {xff: {enabled: yes}}\n  - eve-log: {}\n":                                                   nil,
		"outputs:\n  - eve-log: {types: [http, {alert: {xff: {enabled: yes, mode: overwrite, deployment: forward}}}]}\n": {Header: "X-Forwarded-For", Overwrite: true, First: true},
		"outputs:\n  - eve-log: {types: [alert]}\n":                                                                      nil,
		"outputs:\n  - eve-log: {xff: {enabled: true, deployment: reverse, header: X-Real-IP}}\n":                        {Header: "X-Real-IP"},
		"vars: {}\n": nil,
	} {
		name := filepath.Join(t.TempDir(), "suricata.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSuricata(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Forwarded; (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
