package test

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"shuultuur/intercept"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
)

const httpsSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
lists:
  own: {format: domains, path: own.txt, category: gambling}
checks:
  category: {lists: [own]}
  phrase: {weighted: [weighted], naughtynesslimit: 50}
pages: {contact: "the librarian, desk 3"}
intercept: {root: root.pem, trust: [origin.pem]}
policies:
  - name: readers
    decrypt: true
    rules:
      - {name: betting, action: block, category: [gambling]}
      - {name: bad words, action: block, category: [phrase], over: 100}
      - {name: some words, action: warn, category: [phrase], over: 50}
events: {sqlite: events.db, every: 100ms}
proxy: {parent: "http://%s"}
`

// newHTTPSHouse returns a house that decrypts TLS, with an origin that uses TLS
// as www.example.com.
func newHTTPSHouse(t *testing.T, pages map[string]string) *house {
	t.Helper()
	h := newHouse(t, nil)
	tls := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, pages[r.URL.Path])
	}))
	t.Cleanup(tls.Close)
	parent := connector(t, tls.Listener.Addr().String(), tls.Listener.Addr().String())
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(h.file)
	if err := root.Write(filepath.Join(dir, "root.pem"), false); err != nil {
		t.Fatal(err)
	}
	export, err := root.Export("pem", "")
	if err != nil {
		t.Fatal(err)
	}
	h.write("client-root.pem", string(export))
	h.write("origin.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw})))
	h.write("shuultuur.yaml", fmt.Sprintf(httpsSettings, parent))
	h.restart()
	return h
}

// connector starts a proxy of which all requests and tunnels lead to one address, and tunnels to port
// 443 to another. It returns the proxy's address.
func connector(t *testing.T, plain, secure string) string {
	t.Helper()
	parent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := plain
		if strings.HasSuffix(r.Host, ":443") {
			to = secure
		}
		if r.Method != http.MethodConnect {
			(&httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Director: func(r *http.Request) { r.URL.Scheme, r.URL.Host = "http", plain }}).ServeHTTP(w, r)
			return
		}
		o, err := net.Dial("tcp", to)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer o.Close()
		c, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(o, buf); o.Close() }()
		_, _ = io.Copy(c, o)
	}))
	t.Cleanup(parent.Close)
	return parent.Listener.Addr().String()
}

// newHome creates a home folder whose browser trusts a root.
func newHome(t *testing.T, root string) string {
	t.Helper()
	certutil := peer.Program(t, "certutil")
	home := t.TempDir()
	store := filepath.Join(home, ".pki", "nssdb")
	if err := os.MkdirAll(store, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-N", "--empty-password"}, {"-A", "-t", "C,,", "-n", "shuultuur", "-i", root}} {
		if out, err := exec.Command(certutil, append([]string{"-d", "sql:" + store}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("certutil: %v: %s", err, out)
		}
	}
	return home
}

func TestBrowserSeesBlockPagesOnHTTPS(t *testing.T) {
	t.Parallel()
	h := newHTTPSHouse(t, map[string]string{
		"/":     `<!doctype html><title>News</title><p>The ferry sails at nine.`,
		"/rude": `<!doctype html><title>Rude</title><p>Blimey, said he. <b>Cri</b>key, said she.</p>`,
		"/salt": `<!doctype html><title>Salty</title><h1>A salty tale</h1><p>Blimey, said the captain.`,
	})
	b := newBrowserAt(t, newHome(t, filepath.Join(filepath.Dir(h.file), "client-root.pem")), h.g.ProxyAddr())

	b.open("https://www.example.com/")
	b.shows("The ferry sails at nine.")
	b.picture("https-passing")
	row := h.recorded("host:www.example.com", of("https://www.example.com/"))
	if row.Status != 200 || row.Action.String() != "pass" {
		t.Errorf("a page that passes: status %d, action %s on record; want 200, pass", row.Status, row.Action)
	}

	b.open("https://www.bet.example/odds")
	b.shows("www.bet.example")
	b.shows("gambling")
	b.picture("https-category-block")
	row = h.recorded("host:bet.example action:block", of("https://www.bet.example/odds"))
	if row.Rule != "betting" {
		t.Errorf("%q was blocked by rule %q on record, want betting", row.URL, row.Rule)
	}
	b.open("https://www.example.com/rude")
	b.shows("is closed here")
	b.unfold()
	b.shows("bad words")
	b.picture("https-phrase-block")

	b.open("https://www.example.com/salt")
	b.shows("Do you want to go on to www.example.com?")
	b.click("a.button")
	b.shows("A salty tale")

	// The origin's certificate is not valid for this name.
	b.open("https://elsewhere.test/")
	b.shows("has a certificate for other names than elsewhere.test")
	b.picture("https-wrong-host")
}

func TestCurlThroughADecryptedTunnel(t *testing.T) {
	curl := peer.Program(t, "curl")
	h := newHTTPSHouse(t, map[string]string{"/": "The ferry sails at nine."})
	root := filepath.Join(filepath.Dir(h.file), "client-root.pem")
	for _, version := range []string{"--http1.1", "--http2"} {
		for url, want := range map[string]string{
			"https://www.example.com/": "The ferry sails at nine.200",
			"https://bet.example/":     "403",
		} {
			out, err := exec.Command(curl, version, "-sS", "--max-time", "60", "--cacert", root, "-x", "http://"+h.g.ProxyAddr(), "-w", "%{http_code}", url).CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), want) {
				t.Errorf("curl %s %s: %v, %s", version, url, err, out)
			}
		}
	}
}

func TestAReloadKeepsCertificatesAndTickets(t *testing.T) {
	h := newHTTPSHouse(t, map[string]string{"/": "The ferry sails at nine."})
	text, err := os.ReadFile(filepath.Join(filepath.Dir(h.file), "client-root.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	cache := tls.NewLRUClientSessionCache(4)
	ask := func() tls.ConnectionState {
		t.Helper()
		l := forwarder(t, h.g.ProxyAddr(), "www.example.com")
		c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{ServerName: "www.example.com", RootCAs: roots, ClientSessionCache: cache})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n")
		if b, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(b), "nine.") {
			t.Fatalf("%q, %v", b, err)
		}
		return c.ConnectionState()
	}
	first := ask()
	settings, err := os.ReadFile(h.file)
	if err != nil {
		t.Fatal(err)
	}
	h.write("shuultuur.yaml", strings.Replace(string(settings), "name: betting", "name: bets", 1))
	if err := h.g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := ask()
	if first.DidResume || !again.DidResume || !again.PeerCertificates[0].Equal(first.PeerCertificates[0]) {
		t.Errorf("TLS session resumed before the reload: %v, want false; after it: %v, want true", first.DidResume, again.DidResume)
	}
	// When a new root replaces the old one, old clients continue to work.
	file := filepath.Join(filepath.Dir(h.file), "root.pem")
	root, err := intercept.ReadRoot(file)
	if err != nil {
		t.Fatal(err)
	}
	next, err := root.Rotate(intercept.RootConfig{Name: "Next"})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Write(file, true); err != nil {
		t.Fatal(err)
	}
	if err := h.g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := ask(); s.DidResume || s.PeerCertificates[0].Issuer.CommonName != "Next" {
		t.Errorf("after the root was rotated: session resumed %v, certificate issued by %s", s.DidResume, s.PeerCertificates[0].Issuer)
	}
}

func TestKeysStayWhereTheyBelong(t *testing.T) {
	h := newHTTPSHouse(t, map[string]string{"/": "The ferry sails at nine."})
	h.end()
	defer h.start() // the house ends a running gateway
	dir := filepath.Dir(h.file)
	settings, err := os.ReadFile(h.file)
	if err != nil {
		t.Fatal(err)
	}
	h.write("shuultuur.yaml", strings.Replace(string(settings), "events: {", "events: {jsonl: events.jsonl, ", 1))
	curl := peer.Program(t, "curl")
	for _, args := range [][]string{nil, {"-keylog", filepath.Join(dir, "keys"), "-cores"}} {
		var logged lockedBuffer
		cmd := peer.Command(t, filepath.Join(bin, "shuultuur"), append([]string{"run", "-config", h.file}, args...)...)
		cmd.Stdout, cmd.Stderr = &logged, &logged
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		proxy := regexp.MustCompile(`serving proxy=(\S+)`)
		waittest.Until(t, "the gateway to serve", func() bool { return proxy.MatchString(logged.String()) })
		addr := proxy.FindStringSubmatch(logged.String())[1]
		if out, err := exec.Command(curl, "-sS", "--max-time", "60", "--cacert", filepath.Join(dir, "client-root.pem"), "-x", "http://"+addr, "https://www.example.com/").CombinedOutput(); err != nil || string(out) != "The ferry sails at nine." {
			t.Errorf("curl: %v, %s", err, out)
		}
		if limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", cmd.Process.Pid)); err == nil && args == nil &&
			!regexp.MustCompile(`Max core file size +[01] +[01] `).Match(limits) {
			t.Errorf("the limits of the process permit a core dump after a crash:\n%s", limits)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, logged.String())
		}
		if warned := strings.Contains(logged.String(), "THE KEYS OF ALL"); warned != (args != nil) {
			t.Errorf("running with %q: warned that keys are written: %v", args, warned)
		}
		h.write("output", logged.String())
		if args == nil {
			noKeys(t, dir)
		}
	}
	keys, err := os.ReadFile(filepath.Join(dir, "keys"))
	if err != nil || !strings.Contains(string(keys), "CLIENT_TRAFFIC_SECRET_0") {
		t.Errorf("reading the key log: %v, content %q", err, keys)
	}
	if info, err := os.Stat(filepath.Join(dir, "keys")); err == nil && info.Mode().Perm() != 0o600 {
		t.Errorf("the key log has mode %v, want that only its owner can read it", info.Mode())
	}
}

// noKeys checks that no file below dir except the root has key material.
func noKeys(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "root.pem"))
	if err != nil {
		t.Fatal(err)
	}
	key, _ := pem.Decode(text)
	parsed, err := x509.ParsePKCS8PrivateKey(key.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	scalar, err := parsed.(*ecdsa.PrivateKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "root.pem" {
			return err
		}
		b, err := os.ReadFile(path)
		seen++
		for _, secret := range []string{string(scalar), hex.EncodeToString(scalar), base64.StdEncoding.EncodeToString(key.Bytes)[:60], "PRIVATE KEY", "TRAFFIC_SECRET"} {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s contains key material", path)
			}
		}
		return err
	})
	if err != nil || seen < 4 {
		t.Errorf("searched %d files for keys: %v", seen, err)
	}
}

// A lockedBuffer collects the output of a process while it is read.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
