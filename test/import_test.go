package test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/test/peer"
)

// squidRules has lines in which the order, overlapping clients, and combinations of and, or and
// not decide.
const squidRules = `
acl everyone src 127.0.0.0/8
acl school src 127.1.0.0/16
acl pupils src 127.1.1.0/24 127.1.2.0/24
acl lab src 127.1.1.10-127.1.1.40
acl guests src 127.2.0.0/255.255.0.0
acl Web_ports port 80 8080 1025-65535
acl games dstdomain .games.example chess.example
acl club dstdomain .chess.games.example .club.example chess.example
acl learning dstdomain .learning.games.example
acl ads dstdom_regex -i ^ads?[0-9]*\. \.tracker\.
acl movies url_regex -i ^http://[a-z]+\.films\.example/
acl programs urlpath_regex -i \.(exe|msi)$
acl posts method POST PUT
acl reading method GET HEAD
acl always time SMTWHFA 00:00-23:59
acl never time S 00:00-00:01
acl numbers dst -n 192.0.2.0/24
acl toys any-of games movies
acl kidsgames all-of pupils games
acl labclub all-of lab club
http_access deny !Web_ports
http_access deny everyone programs !lab
http_access allow lab learning
http_access deny kidsgames !labclub
http_access deny pupils toys
http_access deny school games club
http_access deny school numbers
http_access deny guests !reading
http_access deny guests ads always
http_access deny guests movies !always
http_access allow guests club !games
http_access deny guests club
http_access allow school !ads
http_access deny school posts
http_access allow school
http_access allow guests !toys
http_access allow localhost
http_access deny all
`

// TestImportOfSquidDecidesAsSquidDoes requests a thousand names from a real Squid, as clients
// that its lines distinguish. It compares Squid's log with the imported settings, and these
// with Squid's rules as the importer reads them.
func TestImportOfSquidDecidesAsSquidDoes(t *testing.T) {
	peer.Program(t, "squid")
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "here") }))
	defer origin.Close()
	_, port, _ := net.SplitHostPort(origin.Listener.Addr().String())
	addr, log := startSquid(t, squidRules+"cache_peer 127.0.0.1 parent "+port+" 0 no-query default\nnever_direct allow all\n")

	r := rand.New(rand.NewPCG(22, 1))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	const requests = 1000
	refused := 0
	for range requests {
		from := pick("127.0.0.1", "127.1.1.5", "127.1.1.10", "127.1.1.33", "127.1.1.41", "127.1.2.7", "127.1.9.9", "127.2.3.4", "127.3.0.1")
		host := pick("", "www.", "a.b.", "ads1.", "x.tracker.", "learning.", "chess.") + pick("games.example", "learning.games.example", "chess.example", "chess.games.example", "club.example", "films.example", "other.example", "192.0.2.7", "198.51.100.7")
		at := pick("", "", "", ":8080", ":81")
		target := "http://" + host + at + pick("/", "/a", "/setup.exe", "/setup.exe?x", "/a/b.MSI") + pick("", "?q=1")
		if status := askFrom(t, addr, from, pick("GET", "GET", "HEAD", "POST", "PUT"), target); status == 403 {
			refused++
		}
	}
	if refused < requests/5 || refused > requests*4/5 {
		t.Errorf("Squid refused %d of %d requests: too few or too many to try the rules", refused, requests)
	}
	end := time.Now().Add(time.Minute)
	for lines := 0; lines < requests; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(log)
		if lines = strings.Count(string(text), "\n"); err != nil || time.Now().After(end) {
			t.Fatalf("Squid's log has %d lines: %v", lines, err)
		}
	}
	to := filepath.Join(t.TempDir(), "new")
	program := filepath.Join(bin, "shuultuur")
	conf := filepath.Join(filepath.Dir(log), "squid.conf")
	out, err := exec.Command(program, "import", "squid", conf, "-to", to, "-compare", log).CombinedOutput()
	want := fmt.Sprintf("%d judged, 0 verdicts change", requests)
	if err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "the log has another verdict") {
		settings, _ := os.ReadFile(filepath.Join(to, "shuultuur.yaml"))
		t.Errorf("the import does not print %q, or decides otherwise than the log: %v\n%s\n%s", want, err, out, settings)
	}
	if !strings.Contains(string(out), fmt.Sprintf("%12d", refused)) {
		t.Errorf("Squid refused %d requests; the report has another number:\n%s", refused, out)
	}
}

// askFrom asks a proxy from an address of this machine and returns the status.
func askFrom(t *testing.T, proxy, from, method, target string) int {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	c, err := d.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	host, _, _ := strings.Cut(strings.TrimPrefix(target, "http://"), "/")
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", method, target, host)
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	answer, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s from %s: %v", method, target, from, err)
	}
	answer.Body.Close()
	return answer.StatusCode
}
