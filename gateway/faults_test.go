package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"shuultuur/admin/system"
	"shuultuur/lib/wait/waittest"
	"shuultuur/list/source"
	"shuultuur/test/cert"
	"shuultuur/test/peer"
)

// A server is one that the gateway asks and that may be gone for a while, at the same address.
type server struct {
	t     *testing.T
	at    string
	serve func(net.Conn)

	mu    sync.Mutex
	l     net.Listener
	conns []net.Conn
}

func newServer(t *testing.T, serve func(net.Conn)) *server {
	s := &server{t: t, at: "127.0.0.1:0", serve: serve}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) start() {
	s.t.Helper()
	l, err := net.Listen("tcp", s.at)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.l, s.at = l, l.Addr().String()
	s.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			go func() {
				defer c.Close()
				s.serve(c)
			}()
		}
	}()
}

func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.l.Close()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

// answerClamd answers as clamd does that finds nothing.
func answerClamd(c net.Conn) {
	r, number := bufio.NewReader(c), ""
	for n := 0; ; {
		line, err := r.ReadString(0)
		switch {
		case err != nil:
			return
		case strings.Contains(line, "IDSESSION"):
			n = 1
			continue
		case n > 0:
			number = fmt.Sprintf("%d: ", n)
			n++
		}
		answer := "PONG\x00"
		if strings.Contains(line, "INSTREAM") {
			for size := [4]byte{1}; size != [4]byte{}; {
				if _, err := io.ReadFull(r, size[:]); err != nil {
					return
				}
				if _, err := r.Discard(int(size[2])<<8 | int(size[3])); err != nil {
					return
				}
			}
			answer = "stream: OK\x00"
		}
		_, _ = io.WriteString(c, number+answer)
	}
}

// answerICAP answers as a scanner does that finds nothing.
func answerICAP(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		first, err := r.ReadString('\n')
		if err != nil {
			return
		}
		for line := first; strings.TrimSpace(line) != ""; {
			if line, err = r.ReadString('\n'); err != nil {
				return
			}
		}
		answer := "ICAP/1.0 200 OK\r\nMethods: RESPMOD\r\nISTag: \"x\"\r\nAllow: 204\r\nEncapsulated: null-body=0\r\n\r\n"
		if !strings.HasPrefix(first, "OPTIONS") {
			for !strings.HasSuffix(first, "0\r\n") {
				if first, err = r.ReadString('\n'); err != nil {
					return
				}
			}
			_, _ = r.ReadString('\n')
			answer = "ICAP/1.0 204 No modifications\r\nISTag: \"x\"\r\nEncapsulated: null-body=0\r\n\r\n"
		}
		_, _ = io.WriteString(c, answer)
	}
}

const faultySettings = `
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0", tls: {cert: cert.pem, key: key.pem}}
lists: {own: {format: domains, path: own.txt}, ads: {url: "ORIGIN/ads.txt", format: domains}}
checks:
  category: {lists: [own, ads]}
  phrase: {banned: [phrases]}
  virus: {clamd: "CLAMD", skip: none/none, remember: "off"}
  icap: {servers: "icap://ICAP/scan"}
policies: [{name: all, on-error: pass, rules: [{name: own, action: block, category: [own, ads]}, {name: scan, action: block, category: [virus, icap/virus]}, {name: ends, action: block, extension: ["@extensions"]}]}]
pages: {templates: pages}
proxy: {private: [127.0.0.0/8], parent: "ORIGIN"}
events: {syslog: {to: "tcp://LOGS"}}
dns: {listen: ["127.0.0.1:0"], hosts-files: [hosts], forward: {timeout: 200ms, upstreams: ["UPSTREAM"], routes: {corp.example: ["ROUTE"]}}, zones: {reread: 100ms, files: [{path: own.example.zone}]}}
`

// A faulty gateway has parts of which each can be made to fail.
type faulty struct {
	*Gateway
	t      *testing.T
	dir    string
	client *http.Client
	pages  atomic.Int64
	log    struct {
		sync.Mutex
		strings.Builder
	}
}

// Write implements [io.Writer] for the log.
func (f *faulty) Write(line []byte) (int, error) {
	f.log.Lock()
	defer f.log.Unlock()
	return f.log.Write(line)
}

// browse loads a page that nothing has seen before.
func (f *faulty) browse() {
	res, err := f.client.Get(fmt.Sprintf("http://open.example/%d", f.pages.Add(1)))
	if err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

// ask asks for a name that nothing has asked for before.
func (f *faulty) ask(below string) {
	m := new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.%s.", f.pages.Add(1), below), dns.TypeA)
	_, _, _ = (&dns.Client{}).Exchange(m, f.DNSAddr()) // there may be no answer
}

func (f *faulty) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// healthy returns the problems at the admin address.
func (f *faulty) healthy() (all []string) {
	f.t.Helper()
	res, err := http.Get("http://" + f.AdminAddr() + "/health")
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	var h system.Health
	if err := json.NewDecoder(res.Body).Decode(&h); err != nil {
		f.t.Fatal(err)
	}
	for _, p := range h.All() {
		all = append(all, string(p.Kind)+": "+p.Text)
	}
	return all
}

// firstPage returns the page that people see first.
func (f *faulty) firstPage() string {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), "GET", "http://"+f.AdminAddr()+"/", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(page)
}

// TestEveryFaultIsSeen: each fault in turn comes into /health, into the log and on the first page, and
// goes when it is repaired.
func TestEveryFaultIsSeen(t *testing.T) {
	t.Parallel()
	peer.NotQuick(t, "more than a minute")
	var fetchFails atomic.Bool
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "ads.txt") && fetchFails.Load() {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "ads.example\n")
	}))
	defer origin.Close()
	clamd, scanner := newServer(t, answerClamd), newServer(t, answerICAP)
	logs := newServer(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	names := func(c net.Conn) { // DNS over TCP
		conn := &dns.Conn{Conn: c}
		for {
			q, err := conn.ReadMsg()
			if err != nil || conn.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeNameError)) != nil {
				return
			}
		}
	}
	upstream, route := newServer(t, names), newServer(t, names)
	files := map[string]string{
		"shuultuur.yaml":   strings.NewReplacer("ORIGIN", origin.URL, "CLAMD", clamd.at, "ICAP", scanner.at, "LOGS", logs.at, "UPSTREAM", "tcp://"+upstream.at, "ROUTE", "tcp://"+route.at).Replace(faultySettings),
		"own.txt":          "own.example\n",
		"phrases":          "<forbidden>\n",
		"extensions":       "exe\n",
		"hosts":            "192.0.2.1 host.example\n",
		"pages/block.html": "<p>no",
		"own.example.zone": strings.NewReplacer("%d", "1").Replace(zoneText),
	}
	f := &faulty{t: t, dir: filepath.Dir(folder(t, files))}
	cert.Files(t, f.dir, "gateway.example")
	certificate, err := os.ReadFile(filepath.Join(f.dir, "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	files["cert.pem"] = string(certificate)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if f.Gateway, err = New(ctx, filepath.Join(f.dir, "shuultuur.yaml"), slog.New(slog.NewTextHandler(f, nil))); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	f.client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: f.ProxyAddr()})}}
	defer f.client.CloseIdleConnections()
	update := func() {
		_, _ = f.engine.Load().Lists.Update(ctx, source.NewClient(nil, func(string) bool { return false }, (&net.Dialer{}).DialContext), "ads")
	}
	waittest.Until(t, "the list is fetched", func() bool { return len(f.healthy()) == 0 })
	empty := func(name string) func() { return func() { f.write(name, "") } }
	again := func(name string) func() { return func() { f.write(name, files[name]) } }
	nothing := func() {}
	const aside = "data/alerts.json.damaged-20261129T194442.762Z"
	for _, c := range []struct {
		part, kind, want      string
		begin, during, repair func() // during is what clients do meanwhile, again and again
	}{
		{"lists", "lists", "lists.own: ", empty("own.txt"), nothing, again("own.txt")},
		{"fetched lists", "lists", "list ads: ", func() { fetchFails.Store(true); update() }, nothing, func() { fetchFails.Store(false); update() }},
		{"checks", "settings", "phrases", empty("phrases"), nothing, again("phrases")},
		{"policies", "settings", "extensions", empty("extensions"), nothing, again("extensions")},
		{"pages", "settings", "block.html", func() { f.write("pages/block.html", "{{.Nothing") }, nothing, again("pages/block.html")},
		{"certificate", "settings", "cert.pem", func() { f.write("cert.pem", "no certificate") }, nothing, again("cert.pem")},
		{"resolver", "settings", "hosts", empty("hosts"), nothing, again("hosts")},
		{"zones", "zones", "own.example.zone", empty("own.example.zone"), nothing, again("own.example.zone")},
		{"forwarder", "names", "dns.forward.upstreams: ", upstream.stop, func() { f.ask("example") }, upstream.start},
		{"route of the forwarder", "names", "dns.forward.routes: corp.example", route.stop, func() { f.ask("corp.example") }, route.start},
		{"clamd", "checks", "clamd at " + clamd.at, clamd.stop, f.browse, clamd.start},
		{"icap", "checks", "checks.icap: ", scanner.stop, f.browse, scanner.start},
		{"events", "log", "events: syslog is not written", logs.stop, f.browse, logs.start},
		{"data", "damaged-file", aside, func() { f.write(aside, "") }, nothing, func() {
			if err := os.Remove(filepath.Join(f.dir, aside)); err != nil {
				t.Error(err)
			}
		}},
	} {
		seen := func() bool {
			return slices.ContainsFunc(f.healthy(), func(p string) bool { return strings.HasPrefix(p, c.kind+": ") && strings.Contains(p, c.want) })
		}
		c.begin()
		waittest.Until(t, c.part+": the fault is in /health", func() bool { c.during(); return seen() })
		waittest.Until(t, c.part+": the fault is in the log", func() bool {
			f.log.Lock()
			defer f.log.Unlock()
			return strings.Contains(f.log.String(), "a problem begins") && strings.Contains(f.log.String(), c.want)
		})
		if page := f.firstPage(); !strings.Contains(page, c.want) {
			t.Errorf("%s: the fault is not on the first page:\n%s", c.part, page)
		}
		c.repair()
		waittest.Until(t, c.part+": the fault is gone", func() bool { c.during(); return !seen() })
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
