package test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/test/peer"
)

// guardianLists are the lists of the two filter groups below. All other shipped lists are
// emptied.
var guardianLists = map[string]string{
	"lists/bannedsitelist": "ads.example\nstrong.example\n", "lists/exceptionsitelist": "good.ads.example\n", "lists/greysitelist": "www.strong.example\n",
	"lists/bannedurllist": "other.example/play\nbare.example/a\n", "lists/exceptionurllist": "other.example/play/now\n", "lists/bannedregexpurllist": "casino\\.html\n/banners/\n",
	"lists/exceptionfilesitelist": "", "lists/localbannedsitelist": "www2.games.example\n", "lists/localexceptionsitelist": "ad.kids.example\n", "lists/bannedextensionlist": ".gif\n",
	"lists/two/bannedsitelist": "games.example\nkids.example\n", "lists/two/exceptionsitelist": "www.kids.example\n", "lists/two/bannedurllist": "hosted.example/Banners\n",
	"lists/two/bannedextensionlist": ".html\n", "lists/two/bannedregexpurllist": "[?]x=1$\n",
	"lists/filtergroupslist": "", "lists/ipgroups": "127.0.0.3 = filter2\n127.0.1.0/255.255.255.0 = filter2\n", "lists/bannediplist": "127.0.0.4\n", "lists/exceptioniplist": "127.0.0.5\n",
}

// guardianFolder returns Debian's configuration of e2guardian with the lists
// above, a second filter group, and a parent.
func guardianFolder(t *testing.T, port, parent string) string {
	t.Helper()
	dir := shared(t, nil)
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
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set := func(text string, values map[string]string) string {
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
	_, parentPort, _ := net.SplitHostPort(parent)
	write("e2guardian.conf", set(read("e2guardian.conf"), map[string]string{
		"filterip": "", "filterports": port, "transparenthttpsport": peer.Port(t), "proxyip": "127.0.0.1", "proxyport": parentPort, "filtergroups": "2", "httpworkers": "20",
		"loglocation": dir + "/access.log", "pidfilename": dir + "/pid", "ipcfilename": dir + "/ipc", "urlipcfilename": dir + "/urlipc", "statlocation": dir + "/stats",
		"daemonuser": "root", "daemongroup": "root", "authplugin": dir + "/authplugins/ip.conf",
	}))
	group := read("e2guardianf1.conf")
	write("e2guardianf1.conf", group)
	for _, name := range []string{"bannedsitelist", "exceptionsitelist", "bannedurllist", "bannedextensionlist", "bannedregexpurllist"} {
		group = strings.ReplaceAll(group, dir+"/lists/"+name+"'", dir+"/lists/two/"+name+"'")
	}
	write("e2guardianf2.conf", set(group, map[string]string{"groupname": "two"}))
	for _, name := range []string{"examplef1.story", "examplef2.story", "site.story", "common.story", "preauth.story", "authplugins/ip.conf"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			write(name, read(name))
		}
	}
	write("authplugins/ip.conf", "plugname = 'ip'\nipgroups = '"+dir+"/lists/ipgroups'\n")
	for name, text := range guardianLists {
		write(name, text)
	}
	return dir
}

// TestImportOfE2guardianDecidesAsE2guardianDoes asks a real e2guardian for a thousand pages, as
// clients of two groups, and as clients that may do everything or nothing.
func TestImportOfE2guardianDecidesAsE2guardianDoes(t *testing.T) {
	peer.Program(t, "e2guardian")
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "the origin")
	}))
	defer origin.Close()
	port := peer.Port(t)
	dir := guardianFolder(t, port, origin.Listener.Addr().String())
	peer.Start(t, "e2guardian", "-N", "-c", filepath.Join(dir, "e2guardian.conf"))
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Skip("e2guardian does not start here")
		}
	}
	clients := map[string]*http.Client{}
	for _, ip := range []string{"127.0.0.1", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.1.9"} {
		from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		clients[ip] = &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:" + port}), DialContext: from.DialContext}, Timeout: time.Minute}
	}
	r := rand.New(rand.NewPCG(22, 5))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	var log strings.Builder
	refused := 0
	for range asks {
		ip := pick("127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.3", "127.0.0.3", "127.0.1.9", "127.0.0.4", "127.0.0.5")
		path := somePath(r)
		if r.IntN(2) == 0 {
			path = pick("/pic.gif", "/doc.html", "/get?x=pic.gif", "/banners", "/BANNERS/", "/%62anners/", "/a//banners/", "/Play", "/play/../a")
		}
		target := "http://" + someName(r) + path
		res, err := clients[ip].Get(target)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		no := string(body) != "the origin"
		if no {
			refused++
		}
		log.WriteString(squidLine(ip, target, "-", no))
	}
	agrees(t, "e2guardian", dir, log.String(), refused)
}
