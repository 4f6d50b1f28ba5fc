package test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/admin/clients"
	"shuultuur/admin/remote"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

// writePair writes a certificate of this machine that is right from yesterday on, and its key.
func writePair(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gate.example"}, DNSNames: []string{"gate.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*pem.Block{"gate.pem": {Type: "CERTIFICATE", Bytes: der}, "gate.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return pool
}

// TestEveryListenerServesIn1970: a machine without a clock starts before anything that it has was made. All
// that it listens on answers, and when the clock is right, it decrypts, without a restart.
func TestEveryListenerServesIn1970(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"1970": time.Until(time.Unix(60, 0)), "a week before the root": -7 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newMovedHouse(t)
			roots := writePair(t, h.dir)
			at := map[string]string{}
			for _, what := range []string{"transparent", "icap", "icaps", "portal", "portal-tls", "sinkhole", "dns", "dot", "doh"} {
				at[what] = "127.0.0.1:" + peer.Port(t)
			}
			settings := fmt.Sprintf(`
listen: {proxy: %q, admin: %q, transparent: %q, icap: %q, icaps: %q, portal: %q, portal-tls: %q, sinkhole: %q, radius: "127.0.0.1:0", squid: squid.sock, tls: {cert: gate.pem, key: gate.key}}
data: data
intercept: {root: root.pem}
identity: {accounting: {clients: {127.0.0.1: "a long secret of radius"}}, sign-in: {networks: [192.0.2.0/24]}, basic: {file: people, networks: [192.0.2.0/24]}}
dns: {listen: [%q], tls: [%q], https: [%q], name: gate.example, cert: gate.pem, key: gate.key, hosts: {own.example: 192.0.2.7}, forward: {upstreams: ["127.0.0.1:9"], validate: true}}
policies: [{name: everyone, decrypt: true, rules: [{name: betting, action: block, host: [bet.example]}]}]
events: {sqlite: events.db, keep: 90d}
proxy: {parent: %q}
`, h.proxy, h.pages, at["transparent"], at["icap"], at["icaps"], at["portal"], at["portal-tls"], at["sinkhole"], at["dns"], at["dot"], at["doh"], h.origin.URL)
			for name, text := range map[string]string{"shuultuur.yaml": settings, "people": "anna:$2y$04$abcdefghijklmnopqrstuuH6nS6kLXFm3dUTRFJFzWfK5Fq9SWfZO\n"} {
				if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h.start(by)
			h.ask("http://news.example/", 200)
			h.ask("http://bet.example/", 403)
			trust := &tls.Config{RootCAs: roots, ServerName: "gate.example"}
			for _, what := range []string{"transparent", "icap", "portal", "sinkhole", "dns"} {
				c, err := net.DialTimeout("tcp", at[what], 5*time.Second)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				c.Close()
			}
			for _, what := range []string{"icaps", "portal-tls", "dot", "doh"} {
				c, err := tls.Dial("tcp", at[what], trust)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				c.Close()
			}
			// An A query for own.example.
			query := append([]byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3, 'o', 'w', 'n', 7}, "example\x00\x00\x01\x00\x01"...)
			u, err := net.Dial("udp", at["dns"])
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			answer := make([]byte, 512)
			u.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err := u.Write(query); err != nil {
				t.Error(err)
			}
			if n, err := u.Read(answer); err != nil || !strings.Contains(string(answer[:n]), "\xc0\x00\x02\x07") {
				t.Errorf("the name server answers %x, %v", answer[:n], err)
			}
			health := func() string {
				res, err := http.Get("http://" + h.pages + "/health")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				b, _ := io.ReadAll(res.Body)
				return string(b)
			}
			waittest.Until(t, "/health names the clock", func() bool { return strings.Contains(health(), "clock") })
			decrypts := func() bool {
				c := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: h.proxy}), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 5 * time.Second}
				defer c.CloseIdleConnections()
				res, err := c.Get("https://bet.example/")
				if err != nil {
					return false
				}
				res.Body.Close()
				return res.StatusCode == 403
			}
			if by < -365*24*time.Hour && decrypts() {
				t.Error("in 1970 it decrypts, with a root that begins in years")
			}
			h.clock.move(0)
			waittest.Until(t, "it decrypts when the clock is right", decrypts)
			h.stop()
		})
	}
}

const bedtimeSettings = `
listen: {proxy: "%s", admin: "%s"}
data: data
checks:
  category: {lists: [games]}
lists:
  games: {format: domains, path: games.txt, category: games}
intercept: {root: root.pem}
policies:
  - name: everyone
    decrypt: true
    quotas: [{category: [games], time: 1h}]
    rules: [{name: bedtime, action: block, schedule: {hours: "%s-%s"}}]
state: {file: state.db}
events: {sqlite: events.db, every: 50ms}
proxy: {parent: "%s"}
`

// TestBedtimeEndsAllThatGoesOn: the program runs under a clock that a test moves by minutes. What goes on,
// whatever it is, costs the minutes in which it moved, once, in the quota and in the record, and ends within a
// minute of bedtime.
func TestBedtimeEndsAllThatGoesOn(t *testing.T) {
	t.Parallel()
	h := newMovedHouse(t)
	over := make(chan struct{})
	t.Cleanup(sync.OnceFunc(func() { close(over) }))
	drip := func(w io.Writer, flush func(), every time.Duration) {
		for {
			select {
			case <-over:
				return
			case <-time.After(every):
			}
			if _, err := io.WriteString(w, "a byte or more of it\n"); err != nil {
				return
			}
			flush()
		}
	}
	// The parent proxy of the program is the origin of all requests, and of what tunnels lead to.
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := func() { _ = http.NewResponseController(w).Flush() }
		switch {
		case r.Method == "CONNECT", r.Header.Get("Upgrade") != "":
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			if r.Method == "CONNECT" {
				io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			} else {
				fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
				for {
					select {
					case <-over:
						return
					case <-time.After(50 * time.Millisecond):
					}
					if _, err := c.Write([]byte{0x81, 5, 'h', 'e', 'l', 'l', 'o'}); err != nil {
						return
					}
				}
			}
			if strings.HasPrefix(r.Host, "silent.") {
				io.WriteString(c, "once\n")
				<-over
				return
			}
			drip(c, func() {}, 50*time.Millisecond)
		case strings.HasPrefix(r.URL.Path, "/drip"):
			if strings.HasSuffix(r.URL.Path, ".html") {
				w.Header().Set("Content-Type", "text/html")
			} else {
				w.Header().Set("Content-Type", "video/mp4")
			}
			flush()
			drip(w, flush, 50*time.Millisecond)
		case r.URL.Path == "/take":
			io.Copy(io.Discard, r.Body)
		default:
			io.WriteString(w, "<p>A page.")
		}
	}))
	t.Cleanup(func() { o.CloseClientConnections(); o.Close() })
	begin := time.Now()
	bed := begin.Add(5 * time.Minute).Truncate(time.Minute)
	if err := os.WriteFile(filepath.Join(h.dir, "shuultuur.yaml"), fmt.Appendf(nil, bedtimeSettings, h.proxy, h.pages, bed.Format("15:04"), bed.Add(3*time.Hour).Format("15:04"), o.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "games.txt"), []byte("game.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start(0)
	for begin = time.Now(); begin.Second() > 40; begin = time.Now() { // all begin in one minute
		time.Sleep(100 * time.Millisecond)
	}
	ended := map[string]chan struct{}{}
	goesOn := func(name, ask string) {
		t.Helper()
		c, err := net.Dial("tcp", h.proxy)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, ask)
		if name == "an upload" {
			go drip(c, func() {}, 50*time.Millisecond)
		}
		if strings.HasPrefix(name, "a tunnel") {
			go func() { time.Sleep(200 * time.Millisecond); io.WriteString(c, "\x00\x01\x02\x03\x04") }()
		}
		done := make(chan struct{})
		ended[name] = done
		go func() {
			defer close(done)
			if name == "an upload" {
				r := bufio.NewReader(c)
				_, _ = r.ReadByte()
				return
			}
			_, _ = io.Copy(io.Discard, c)
		}()
	}
	goesOn("a film", "GET http://film.game.example/drip HTTP/1.1\r\nHost: film.game.example\r\n\r\n")
	goesOn("a page", "GET http://page.game.example/drip.html HTTP/1.1\r\nHost: page.game.example\r\n\r\n")
	goesOn("a tunnel", "CONNECT tunnel.game.example:443 HTTP/1.1\r\nHost: tunnel.game.example:443\r\n\r\n")
	goesOn("a tunnel in which nothing moves", "CONNECT silent.game.example:443 HTTP/1.1\r\nHost: silent.game.example:443\r\n\r\n")
	goesOn("a WebSocket", "GET http://chat.game.example/ HTTP/1.1\r\nHost: chat.game.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	goesOn("an upload", "POST http://up.game.example/take HTTP/1.1\r\nHost: up.game.example\r\nContent-Length: 10000000\r\n\r\n")
	time.Sleep(500 * time.Millisecond)
	still := func() (all []string) {
		for name, done := range ended {
			select {
			case <-done:
			default:
				all = append(all, name)
			}
		}
		return all
	}
	if n := len(still()); n != len(ended) {
		t.Fatalf("only %q go on", still())
	}
	shown := func(by time.Duration) time.Time { return time.Now().Add(by) }
	var by time.Duration
	for shown(by + time.Minute).Before(bed) {
		by += time.Minute
		h.clock.move(by)
		time.Sleep(500 * time.Millisecond)
		if n := len(still()); n != len(ended) {
			t.Fatalf("before bedtime only %q go on", still())
		}
	}
	last := shown(by)
	minutes := int(last.Unix()/60-begin.Unix()/60) + 1
	by += time.Minute // bedtime has begun
	h.clock.move(by)
	waittest.Until(t, "all ends", func() bool { return len(still()) == 0 })
	if begin.YearDay() == last.Add(time.Minute).YearDay() {
		var got clients.Quotas
		res, err := http.Get("http://" + h.pages + "/quotas?policy=everyone&client=127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(res.Body).Decode(&got)
		res.Body.Close()
		if err != nil || len(got.Quotas) != 1 || got.Quotas[0].Used < int64(minutes) || got.Quotas[0].Used > int64(minutes)+1 {
			t.Errorf("quotas are %+v, %v, want %d minutes of use", got, err, minutes)
		}
	}
	h.clock.move(0)
	rows := map[string]string{}
	waittest.Until(t, "the record", func() bool {
		for r, err := range (remote.Client{URL: "http://" + h.pages}).Events(t.Context(), "", 100, false) {
			if err == nil && strings.Contains(r.Note, "ended: ") {
				rows[r.Host] = r.Minutes
			}
		}
		return len(rows) == len(ended)
	})
	for host, used := range rows {
		want := fmt.Sprintf("0-%d", minutes-1)
		if host == "silent.game.example" {
			want = ""
		}
		if used != want && used != fmt.Sprintf("0-%d", minutes) && !(want == "" && used == "0") {
			t.Errorf("%s was used in the minutes %q, want %q", host, used, want)
		}
	}
	h.stop()
}
