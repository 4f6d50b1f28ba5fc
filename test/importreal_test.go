package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/test/peer"
)

// asks is the number of questions to each program.
const asks = 1000

// agrees imports the settings of a program and its log of decisions. Three must agree: the
// rules as the importer reads them, the imported settings, and the log.
func agrees(t *testing.T, program, path, log string, refused int) {
	t.Helper()
	if refused < asks/5 || refused > asks*4/5 {
		t.Errorf("the program refused %d of %d requests: too few or too many to try the rules", refused, asks)
	}
	to, file := filepath.Join(t.TempDir(), "new"), filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(bin, "shuultuur"), "import", program, path, "-to", to, "-compare", file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("%d judged, 0 verdicts change", asks)) || strings.Contains(string(out), "another verdict") {
		settings, _ := os.ReadFile(filepath.Join(to, "shuultuur.yaml"))
		t.Errorf("importing: %v\n%s\n%s", err, out, settings)
	}
}

// shared makes a folder that programs which give up root can read.
func shared(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// someName and somePath return names and paths that the rules below are about.
func someName(r *rand.Rand) string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	return pick("", "", "www.", "a.b.", "good.", "ads7.", "ad.", "www2.") +
		pick("ads.example", "good.ads.example", "games.example", "hosted.example", "strong.example", "spam12.example", "kids.example", "bare.example", "other.example", "other.example")
}

func somePath(r *rand.Rand) string {
	all := []string{"/", "/banners/x.gif", "/Banners", "/play/now?x=1", "/a/casino.html", "/a", "/play/?x=1"}
	return all[r.IntN(len(all))]
}

// squidLine returns a request in the format of Squid's log.
func squidLine(client, target, user string, refused bool) string {
	result := "TCP_MISS/200"
	if refused {
		result = "TCP_DENIED/403"
	}
	return fmt.Sprintf("%d.000 1 %s %s 10 GET %s %s HIER_NONE/- text/html\n", time.Now().Unix(), client, result, target, user)
}

// TestImportOfPrivoxyDecidesAsPrivoxyDoes asks a real Privoxy for a thousand
// pages.
func TestImportOfPrivoxyDecidesAsPrivoxyDoes(t *testing.T) {
	peer.Program(t, "privoxy")
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "the origin") }))
	defer origin.Close()
	addr := "127.0.0.1:" + peer.Port(t)
	dir := shared(t, map[string]string{
		"config": "confdir DIR\nlogdir DIR\ntempldir /etc/privoxy/templates\nactionsfile user.action\nlisten-address " + addr + "\ntoggle 1\nforward / " + origin.Listener.Addr().String() + "\n",
		"user.action": `{{alias}}
shut = +block{by alias}
fragile = -block -crunch-incoming-cookies
{ +block{advertising} }
.ads.example
hosted.example
spam*.example
/banners/
.other.example/(.*/)?casino
ad.
{ -block }
good.ads.example
.spam12.example/play
{ +crunch-incoming-cookies }
/
{ shut }
www.
ad[0-9s]*.kids.example
games.example/play/.*\?x=1$
{ fragile }
www.kids.
www2.ads.example
{ +block{the last} }
bare.example:80/
www.strong.example
`})
	peer.Start(t, "privoxy", "--no-daemon", filepath.Join(dir, "config"))
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Skip("privoxy does not start here")
		}
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addr})}, Timeout: time.Minute}
	r := rand.New(rand.NewPCG(22, 2))
	var log strings.Builder
	refused := 0
	for range asks {
		target := "http://" + someName(r) + somePath(r)
		res, err := client.Get(target)
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
		log.WriteString(squidLine("127.0.0.1", target, "-", no))
	}
	agrees(t, "privoxy", filepath.Join(dir, "user.action"), log.String(), refused)
}

// TestImportOfSquidGuardDecidesAsSquidGuardDoes asks a real squidGuard about a
// thousand pages, by clients of several sources.
func TestImportOfSquidGuardDecidesAsSquidGuardDoes(t *testing.T) {
	program := peer.Program(t, "squidGuard")
	dir := shared(t, map[string]string{
		"squidGuard.conf": `dbhome DIR/db
logdir DIR
time lessons {
    weekly smtwhfa 00:00 - 24:00
}
time never {
    date 2001.01.01
}
src pupils {
    ip 10.2.0.0/16
}
src anna {
    user anna
}
src staff {
    ip 10.1.0.1-10.1.0.99
}
dest games {
    domainlist games/domains
    urllist games/urls
}
dest ads {
    domainlist ads/domains
    expressionlist ads/expressions
}
dest fine {
    domainlist fine/domains
}
dest late {
    domainlist late/domains
    within never
}
dest early {
    domainlist late/domains
    outside never
}
acl {
    pupils within lessons {
        pass fine !in-addr !games !ads all
        redirect http://intranet.example/pupils?u=%u
    } else {
        pass none
        redirect http://intranet.example/none
    }
    anna {
        pass all
    }
    staff { pass !ads !late games none redirect http://intranet.example/staff }
    default {
        pass fine !late !early !ads !games all
        redirect http://intranet.example/blocked?u=%u&c=%t&a=%a
    }
}
`, "db/games/domains": "games.example\nkids.example\n", "db/games/urls": "other.example/play\nbare.example/a\n", "db/ads/domains": "ads.example\nstrong.example\n",
		"db/ads/expressions": "/banners/\ncasino\\.html$\n", "db/late/domains": "hosted.example\n", "db/fine/domains": "good.ads.example\nwww.games.example\n"})
	r := rand.New(rand.NewPCG(22, 3))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	var in bytes.Buffer
	type ask struct{ target, client, user string }
	var all []ask
	for range asks {
		host := someName(r)
		if r.IntN(10) == 0 {
			host = "192.0.2.7"
		}
		a := ask{"http://" + host + somePath(r), pick("10.1.0.5", "10.2.3.4", "10.3.0.9", "10.4.0.1"), pick("-", "-", "anna", "ben")}
		all = append(all, a)
		fmt.Fprintf(&in, "%s %s/- %s GET\n", a.target, a.client, a.user)
	}
	cmd := exec.Command(program, "-c", filepath.Join(dir, "squidGuard.conf"))
	cmd.Stdin = &in
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if err != nil || len(lines) != asks {
		text, _ := os.ReadFile(filepath.Join(dir, "squidGuard.log"))
		t.Fatalf("%d answers: %v\n%s", len(lines), err, text)
	}
	var log strings.Builder
	refused := 0
	for i, a := range all {
		no := strings.HasPrefix(lines[i], "OK")
		if no {
			refused++
		}
		log.WriteString(squidLine(a.client, a.target, a.user, no))
	}
	agrees(t, "squidguard", filepath.Join(dir, "squidGuard.conf"), log.String(), refused)
}

// TestImportOfUnboundDecidesAsUnboundDoes queries a real Unbound for a thousand names. Its
// upstream has an answer for each.
func TestImportOfUnboundDecidesAsUnboundDoes(t *testing.T) {
	peer.Program(t, "unbound")
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &miekg.Server{PacketConn: conn, Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, q *miekg.Msg) {
		m := new(miekg.Msg)
		m.SetReply(q)
		m.Answer = append(m.Answer, &miekg.A{Hdr: miekg.RR_Header{Name: q.Question[0].Name, Rrtype: miekg.TypeA, Class: miekg.ClassINET, Ttl: 60}, A: net.IPv4(198, 51, 100, 1)})
		_ = w.WriteMsg(m)
	})}
	go func() { _ = s.ActivateAndServe() }()
	defer conn.Close()
	port := peer.Port(t)
	_, behind, _ := net.SplitHostPort(conn.LocalAddr().String())
	dir := shared(t, map[string]string{"unbound.conf": `server:
    interface: 127.0.0.1@` + port + `
    do-daemonize: no
    use-syslog: no
    username: ""
    chroot: ""
    directory: "DIR"
    pidfile: "DIR/pid"
    module-config: "iterator"
    do-not-query-localhost: no
    local-zone: "ads.example." always_nxdomain
    local-zone: "good.ads.example." transparent
    local-zone: "games.example" static
    local-data: "www.games.example. IN A 192.0.2.1"
    local-zone: "spam12.example" always_refuse
    local-data: "www.spam12.example. IN A 192.0.2.2"
    local-zone: "kids.example" redirect
    local-data: "kids.example. IN A 192.0.2.3"
    local-zone: "strong.example" refuse
    local-data: "bare.example. IN A 192.0.2.9"
forward-zone:
    name: "."
    forward-addr: 127.0.0.1@` + behind + "\n"})
	peer.Start(t, "unbound", "-d", "-c", filepath.Join(dir, "unbound.conf"))
	c := &miekg.Client{Timeout: 5 * time.Second}
	r := rand.New(rand.NewPCG(22, 4))
	var log bytes.Buffer
	refused := 0
	for i := range asks {
		name := someName(r)
		m := new(miekg.Msg)
		m.SetQuestion(name+".", miekg.TypeA)
		var answer *miekg.Msg
		for end := time.Now().Add(time.Minute); answer == nil; time.Sleep(10 * time.Millisecond) { // it starts
			if answer, _, err = c.Exchange(m, "127.0.0.1:"+port); err != nil && time.Now().After(end) {
				t.Fatalf("question %d: %v", i, err)
			}
			if answer != nil {
				break
			}
		}
		no := len(answer.Answer) == 0
		if no {
			refused++
		}
		_ = json.NewEncoder(&log).Encode(map[string]any{"T": time.Now(), "QH": name, "QT": "A", "IP": "127.0.0.1", "Result": map[string]any{"IsFiltered": no}})
	}
	agrees(t, "unbound", filepath.Join(dir, "unbound.conf"), log.String(), refused)
}
