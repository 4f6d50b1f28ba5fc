//go:build !small

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	reasons "shuultuur/admin/why"
	"shuultuur/test/peer"
	"shuultuur/test/race"
)

// guardianEntries are lines of lists of each kind.
var guardianEntries = map[string][]string{
	"site":      {"ads.example", "www.ads.example", "games.example", "OTHER.example", "a.games.example # why", "192.0.2.77", "example", " www.other.example", "# nothing", ".Include<DIR/lists/more>"},
	"url":       {"other.example/play", "ads.example/Play", "games.example/1.gif", "www.other.example/a", "192.0.2.77/play", "ads.example/play/"},
	"regexp":    {`play`, `\.gif$`, `ads\.example/`, `^[a-z]*\.games`, `[?]x=1$`, `(Play|gif)`, `\d\.gif`, "a.games.example/.*/a"},
	"extension": {".gif", ".GIF", ".exe"},
}

// guardianLists are the lists whose lines are generated, and their kinds.
var guardianLists = map[string]string{"bannedsitelist": "site", "exceptionsitelist": "site", "greysitelist": "site", "bannedurllist": "url", "exceptionurllist": "url", "greyurllist": "url", "bannedregexpurllist": "regexp",
	"exceptionregexpurllist": "regexp", "localbannedsitelist": "site", "localexceptionsitelist": "site", "localgreysitelist": "site", "bannedextensionlist": "extension", "bannedsiteiplist": "ip", "exceptionfilesitelist": "site"}

// guardianFolder writes Debian's settings with the lists of some groups, and the settings of each group
// alone. A client of 127.0.N.1 is in group N.
func guardianFolder(t *testing.T, count, seed int, port, parent string) (dir string, texts []string) {
	t.Helper()
	dir = t.TempDir()
	openFolder(t, dir)
	if err := os.CopyFS(dir, os.DirFS("/etc/e2guardian")); err != nil {
		t.Skipf("e2guardian has no settings here: %v", err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Skipf("the settings files of this e2guardian are not Debian's: %v", err)
		}
		return strings.ReplaceAll(string(b), "/etc/e2guardian", dir)
	}
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	with := func(text string, values map[string]string) string {
		var b strings.Builder
		for line := range strings.Lines(text) {
			key, _, _ := strings.Cut(line, "=")
			if _, ours := values[strings.TrimSpace(key)]; !ours {
				b.WriteString(line)
			}
		}
		for key, value := range values {
			fmt.Fprintf(&b, "%s = '%s'\n", key, value)
		}
		return b.String()
	}
	_, parentPort, err := net.SplitHostPort(parent)
	if err != nil {
		t.Fatal(err)
	}
	global, group := read("e2guardian.conf"), read("e2guardianf1.conf")
	for _, name := range []string{"examplef1.story", "site.story", "common.story", "preauth.story"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			write(name, read(name))
		}
	}
	values := map[string]string{"filterip": "", "filterports": port, "transparenthttpsport": peer.Port(t), "proxyip": "127.0.0.1", "proxyport": parentPort, "httpworkers": "20",
		"loglocation": dir + "/access.log", "pidfilename": dir + "/pid", "ipcfilename": dir + "/ipc", "urlipcfilename": dir + "/urlipc", "statlocation": dir + "/stats", "daemonuser": "root", "daemongroup": "root"}
	write("lists/more", "other.example\n")
	groups := ""
	for i := range count {
		r := rand.New(rand.NewPCG(55, uint64(seed+i)))
		text, all := group, ""
		for _, name := range slices.Sorted(maps.Keys(guardianLists)) {
			lines := ""
			for range r.IntN(3) {
				if some := guardianEntries[guardianLists[name]]; len(some) > 0 && r.IntN(2) == 0 {
					lines += strings.ReplaceAll(pick(r, some...), "DIR", dir) + "\n"
				}
			}
			if name == "bannedsitelist" && r.IntN(6) == 0 {
				lines += "**\n"
			}
			if name == "bannedsiteiplist" && r.IntN(4) == 0 {
				lines = "192.0.2.77\n"
			}
			file := fmt.Sprintf("lists/g%d/%s", i+1, name)
			write(file, lines)
			text = strings.ReplaceAll(text, dir+"/lists/"+name+"'", dir+"/"+file+"'")
			if lines != "" {
				all += "-- " + name + " --\n" + lines
			}
		}
		text = with(text, map[string]string{"groupname": fmt.Sprintf("g%d", i+1)})
		write(fmt.Sprintf("e2guardianf%d.conf", i+1), text)
		groups += fmt.Sprintf("127.0.%d.1 = filter%[1]d\n", i+1)
		alone := fmt.Sprintf("alone%d/", i+1)
		write(alone+"e2guardianf1.conf", text)
		values["filtergroups"], values["authplugin"] = "1", dir+"/"+alone+"ip.conf"
		write(alone+"e2guardian.conf", with(global, values))
		write(alone+"ip.conf", "plugname = 'ip'\nipgroups = '"+dir+"/"+alone+"ipgroups'\n")
		write(alone+"ipgroups", fmt.Sprintf("127.0.%d.1 = filter1\n", i+1))
		texts = append(texts, all)
	}
	values["filtergroups"], values["authplugin"] = strconv.Itoa(count), dir+"/authplugins/ip.conf"
	write("e2guardian.conf", with(global, values))
	write("authplugins/ip.conf", "plugname = 'ip'\nipgroups = '"+dir+"/lists/ipgroups'\n")
	write("lists/ipgroups", groups)
	for _, name := range []string{"bannediplist", "exceptioniplist", "filtergroupslist", "bannedphraselist", "weightedphraselist", "exceptionphraselist", "bannedmimetypelist"} {
		write("lists/"+name, "")
	}
	return dir, texts
}

// TestImportOfE2guardianOpensNothingThatE2guardianRefuses imports generated filter groups and asks a
// real e2guardian and the result the same.
//
// CONFIGURATIONS in the environment is their number.
func TestImportOfE2guardianOpensNothingThatE2guardianRefuses(t *testing.T) {
	race.Without(t)
	peer.Program(t, "e2guardian")
	count, seed := generated(8)
	count = min(count, 90)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Origin-Answers", "yes") }))
	defer origin.Close()
	port := peer.Port(t)
	dir, texts := guardianFolder(t, count, seed, port, origin.Listener.Addr().String())
	peer.Start(t, "e2guardian", "-N", "-c", filepath.Join(dir, "e2guardian.conf"))
	if !listensWithin("127.0.0.1:"+port, 20*time.Second) {
		t.Skip("e2guardian does not start here")
	}
	allowed, refused, differ := 0, 0, 0
	for i := range count {
		result := importResultOf(t, "e2guardian", filepath.Join(dir, fmt.Sprintf("alone%d", i+1)), fmt.Sprintf("group %d", seed+i), texts[i])
		if result == nil {
			continue
		}
		ip := fmt.Sprintf("127.0.%d.1", i+1)
		from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:" + port}), DialContext: from.DialContext}, Timeout: time.Minute}
		r := rand.New(rand.NewPCG(56, uint64(seed+i)))
		for range 60 {
			a := someSquidAsk(r)
			a.port, a.method, a.client, a.user = "80", "GET", ip, ""
			a.path, _, _ = strings.Cut(a.path, "?") // extensions before a query are refused here, and the report says so
			x, err := result.engine.Why(t.Context(), reasons.Question{URL: "http://" + a.host + a.path, Client: netip.MustParseAddr(ip), Method: "GET", Agent: a.agent, Referer: a.referer})
			if err != nil {
				t.Fatal(err)
			}
			ok := x.Action == "pass" || x.Action == "allow"
			switch theirs := askSquid(t, client, 0, a); {
			case ok && !theirs:
				t.Errorf("group %d: http://%s%s passes by rule %q, and e2guardian refuses it\n%s", seed+i, a.host, a.path, x.Rule, texts[i])
			case theirs && !ok:
				differ++
				t.Logf("group %d: http://%s%s is refused by rule %q, and e2guardian lets it through\n%s", seed+i, a.host, a.path, x.Rule, texts[i])
			case ok:
				allowed++
			default:
				refused++
			}
		}
		client.CloseIdleConnections()
		result.done()
	}
	t.Logf("%d groups: %d requests allowed, %d refused by both; %d refused by the import alone", count, allowed, refused, differ)
	if all := allowed + refused + differ; differ*100 > all || allowed == 0 || refused == 0 {
		t.Errorf("of %d requests %d are allowed, %d refused, and %d refused by the import alone", all, allowed, refused, differ)
	}
}
