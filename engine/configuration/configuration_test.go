package configuration

import (
	"bytes"
	"embed"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// written writes a settings file, and further files, into a new folder.
func written(t *testing.T, text string, more map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if more == nil {
		more = map[string]string{}
	}
	more["shuultuur.yaml"] = text
	for name, text := range more {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "shuultuur.yaml")
}

const policies = "policies: [{name: everyone, rules: []}]\n"

func TestAddressesOfAGatewayAreFoundInItsSettings(t *testing.T) {
	for listen, want := range map[string]struct{ proxy, admin string }{
		"":                                 {"http://127.0.0.1:8080", "http://127.0.0.1:8081"},
		`listen: {proxy: "10.0.0.1:3128"}`: {"http://10.0.0.1:3128", "http://127.0.0.1:8081"},
		`listen: {proxy: ":3128", admin: ":9000"}`:          {"http://127.0.0.1:3128", "https://localhost:9000"},
		`listen: {proxy: "[::]:3128", admin: "[::1]:9000"}`: {"http://127.0.0.1:3128", "http://[::1]:9000"},
		`listen: {admin: off}`:                              {"http://127.0.0.1:8080", ""},
	} {
		file := written(t, listen+"\n"+policies, nil)
		u, err := ProxyURL(file)
		if err != nil || u.String() != want.proxy {
			t.Errorf("%s: the proxy is at %v, %v; want %s", listen, u, err, want.proxy)
		}
		c, err := Client(file)
		if err != nil || c.URL != want.admin {
			t.Errorf("%s: the pages are at %q, %v; want %q", listen, c.URL, err, want.admin)
		}
	}
	if _, err := ProxyURL(written(t, "listen: {proxy: off}\n"+policies, nil)); err == nil {
		t.Error("settings without a proxy have its address")
	}
}

// Commands beside a running gateway read what it reads, and write nothing.
func TestCommandsReadWhatAGatewayReads(t *testing.T) {
	file := written(t, `listen: {squid: helpers.sock}
lists: {games: {path: games.list, format: domains, category: games}}
checks: {category: {lists: [games]}}
`+policies, map[string]string{"games.list": "play.example\nfun.example\n"})
	before := files(t, filepath.Dir(file))
	view, err := ReadLists(file)
	if err != nil || view == nil {
		t.Errorf("lists: %v, %v", view, err)
	}
	lists, err := OpenLists(t.Context(), file)
	if err != nil || lists["games"] == nil {
		t.Errorf("open lists: %v, %v", lists, err)
	}
	if socket, err := SquidSocket(file); err != nil || !strings.HasSuffix(socket, "helpers.sock") {
		t.Errorf("the socket is %q, %v", socket, err)
	}
	if h, err := HolderOf(file); err == nil {
		t.Errorf("nothing runs, and the holder is %+v", h)
	}
	if _, items, err := ReadRules(file); err != nil || len(items) != 0 {
		t.Errorf("rules: %v, %v", items, err)
	}
	if after := files(t, filepath.Dir(file)); !slices.Equal(before, after) {
		t.Errorf("before %q, after %q", before, after)
	}
	broken := written(t, "lists: {games: {path: none.list}}\nchecks: {category: {lists: [other]}}\n"+policies+"nothing: 1\n", nil)
	for what, read := range map[string]func() error{
		"lists":   func() error { _, err := ReadLists(broken); return err },
		"open":    func() error { _, err := OpenLists(t.Context(), broken); return err },
		"rules":   func() error { _, _, err := ReadRules(broken); return err },
		"names":   func() error { _, err := ClientNames(broken); return err },
		"client":  func() error { _, err := Client(broken); return err },
		"holder":  func() error { _, err := HolderOf(broken); return err },
		"events":  func() error { _, _, err := Events(broken); return err },
		"squid":   func() error { _, err := SquidSocket(broken); return err },
		"proxy":   func() error { _, err := ProxyURL(broken); return err },
		"backup":  func() error { _, err := Backup(&bytes.Buffer{}, broken); return err },
		"missing": func() error { _, err := Read(broken + "x"); return err },
	} {
		if err := read(); err == nil || what != "missing" && !strings.Contains(err.Error(), "shuultuur.yaml:4: ") {
			t.Errorf("%s of broken settings: %v, want the line of the mistake", what, err)
		}
	}
}

func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestDevicesHaveTheirNames(t *testing.T) {
	file := written(t, "dns: {listen: [\"127.0.0.1:0\"], hosts-files: [hosts]}\n"+policies, map[string]string{"hosts": "10.0.0.7 printer.lan\n"})
	names, err := ClientNames(file)
	if err != nil {
		t.Fatal(err)
	}
	printer, other := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.8")
	got := names(t.Context(), []netip.Addr{printer, other})
	if !strings.HasPrefix(got[printer], "printer") || got[other] != "" {
		t.Errorf("names %v", got)
	}
}

func TestServersHaveDistinctAddresses(t *testing.T) {
	for text, want := range map[string]string{
		`listen: {proxy: "127.0.0.1:3128", admin: "127.0.0.1:3129"}`:                         "",
		`listen: {proxy: "127.0.0.1:3128", admin: "127.0.0.1:3128"}`:                         "listen.admin",
		`listen: {proxy: ":3128", portal: "10.0.0.1:3128"}`:                                  "listen.portal",
		"dns: {listen: [\"127.0.0.1:5300\"]}\nlisten: {proxy: \"127.0.0.1:5300\"}":           "dns.listen",
		"dns: {listen: [\"127.0.0.1:5300\"]}\nlisten: {proxy: \"127.0.0.2:5300\"}":           "",
		"listen: {proxy: \"127.0.0.1:1812\", radius: \"127.0.0.1:1812\"}":                    "", // TCP and UDP
		"dns: {listen: [\"127.0.0.1:5300\"], quic: [\"127.0.0.1:5300\"], cert: a, key: b}\n": "dns.",
	} {
		s, err := Parse("shuultuur.yaml", []byte(text+"\n"+policies))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err := s.Distinct(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestTheSchemaHasEveryKey(t *testing.T) {
	text, err := Schema(embed.FS{})
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"listen", "policies", "lists", "dns", "mail"} {
		if schema.Properties[key] == nil {
			t.Errorf("the schema lacks %s", key)
		}
	}
}

// Settings for another place have every path moved, and the same text.
func TestSettingsAreReadWithOtherPaths(t *testing.T) {
	s, err := Read(written(t, "lists: {games: {path: games.list}}\n"+policies, nil))
	if err != nil {
		t.Fatal(err)
	}
	moved, err := s.WithPaths(func(path string) string { return filepath.Join("/elsewhere", filepath.Base(path)) })
	if err != nil || !strings.HasPrefix(string(moved.Lists["games"].Path), "/elsewhere/") || strings.HasPrefix(string(s.Lists["games"].Path), "/elsewhere/") {
		t.Errorf("moved %v, %v", moved.Lists, err)
	}
	if p := s.PortalPlace(); len(p.Proxy) == 0 {
		t.Errorf("the portal does not know the proxy: %+v", p)
	}
	if v := s.Versions(); filepath.Base(v.Dir) != "versions" {
		t.Errorf("versions are in %s", v.Dir)
	}
}
