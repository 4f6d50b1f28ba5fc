package test

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/event"
	"shuultuur/intercept"
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

// newHTTPSHouse is a house that looks into TLS, and whose origin speaks it as
// www.example.com.
func newHTTPSHouse(t *testing.T, pages map[string]string) *house {
	t.Helper()
	h := newHouse(t, nil)
	tls := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, pages[r.URL.Path])
	}))
	t.Cleanup(tls.Close)
	parent := connector(t, tls.Listener.Addr().String())
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

// connector is a proxy whose tunnels all lead to one address. It returns its
// own.
func connector(t *testing.T, to string) string {
	t.Helper()
	parent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.NotFound(w, r)
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

// newHome is a home folder of somebody whose browser trusts a root.
func newHome(t *testing.T, root string) string {
	t.Helper()
	certutil, err := exec.LookPath("certutil")
	if err != nil {
		t.Skip("certutil is not installed (package libnss3-tools); \"make test\" installs it on Debian")
	}
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
	h := newHTTPSHouse(t, map[string]string{
		"/":     `<!doctype html><title>News</title><p>The ferry sails at nine.`,
		"/rude": `<!doctype html><title>Rude</title><p>Blimey, said he. <b>Cri</b>key, said she.</p>`,
		"/salt": `<!doctype html><title>Salty</title><h1>A salty tale</h1><p>Blimey, said the captain.`,
	})
	home := newHome(t, filepath.Join(filepath.Dir(h.file), "client-root.pem"))
	t.Setenv("HOME", home)
	b := newBrowser(t, h.g.ProxyAddr())

	b.open("https://www.example.com/")
	b.shows("The ferry sails at nine.")
	b.picture("https-passing")
	row := h.recorded(event.Filter{Host: "www.example.com"}, func(r event.Row) bool { return r.URL == "https://www.example.com/" })
	if row.Status != 200 || row.Action.String() != "pass" {
		t.Errorf("on record: %d %s", row.Status, row.Action)
	}

	b.open("https://www.bet.example/odds")
	b.shows("www.bet.example")
	b.shows("gambling")
	b.picture("https-category-block")
	row = h.recorded(event.Filter{Host: "bet.example", Action: "block"})
	if row.URL != "https://www.bet.example/odds" || row.Rule != "betting" {
		t.Errorf("on record: %q by %q", row.URL, row.Rule)
	}
	b.open("https://www.example.com/rude")
	b.shows("bad words")
	b.picture("https-phrase-block")

	b.open("https://www.example.com/salt")
	b.shows("some words")
	b.click(".button")
	b.shows("A salty tale")

	// A name the origin's certificate is not for.
	b.open("https://elsewhere.test/")
	b.shows("has a certificate for other names than elsewhere.test")
	b.picture("https-wrong-host")
}

func TestCurlThroughADecryptedTunnel(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	h := newHTTPSHouse(t, map[string]string{"/": "The ferry sails at nine."})
	root := filepath.Join(filepath.Dir(h.file), "client-root.pem")
	for _, version := range []string{"--http1.1", "--http2"} {
		for url, want := range map[string]string{
			"https://www.example.com/": "The ferry sails at nine.200",
			"https://bet.example/":     "403",
		} {
			out, err := exec.Command(curl, version, "-sS", "--max-time", "20", "--cacert", root, "-x", "http://"+h.g.ProxyAddr(), "-w", "%{http_code}", url).CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), want) {
				t.Errorf("curl %s %s: %v, %s", version, url, err, out)
			}
		}
	}
}
