package proxy

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/lib/setting"
	"shuultuur/proxy/upstream"
	"shuultuur/test/peer"
)

// A world is a root for clients, and an authority that signs the certificates of
// origins.
type world struct {
	in    *Interception
	ours  *x509.CertPool // what clients trust
	ca    *x509.Certificate
	caKey *ecdsa.PrivateKey
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{ours: x509.NewCertPool(), in: &Interception{Wanted: func(*filter.Transaction) bool { return true }}}
	w.ours.AddCert(root.Certificate)
	if w.in.Authority, err = intercept.NewAuthority(root, intercept.Config{}); err != nil {
		t.Fatal(err)
	}
	w.caKey, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Origins"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-100 * time.Hour), NotAfter: time.Now().Add(100 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &w.caKey.PublicKey, w.caKey)
	if err != nil {
		t.Fatal(err)
	}
	w.ca, _ = x509.ParseCertificate(der)
	theirs := x509.NewCertPool()
	theirs.AddCert(w.ca)
	if w.in.Verifier, err = intercept.NewVerifier(intercept.VerifierConfig{Roots: theirs}); err != nil {
		t.Fatal(err)
	}
	return w
}

// leaf makes a certificate of an origin; change may spoil it.
func (w *world) leaf(t *testing.T, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames:    []string{"localhost", "good.test", "other.test", "bank2.test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, w.ca, &key.PublicKey, w.caKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// origin starts an HTTPS server; it returns its host:port under localhost.
func (w *world) origin(t *testing.T, cert tls.Certificate, h http.HandlerFunc) (*httptest.Server, string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, strings.Replace(strings.TrimPrefix(s.URL, "https://"), "127.0.0.1", "localhost", 1)
}

// browser is a client that trusts our root and goes through the proxy.
func (r *rig) browser(w *world) *http.Client {
	tr := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: r.addr}), DisableCompression: true,
		TLSClientConfig: &tls.Config{RootCAs: w.ours},
	}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func TestRequestsInsideOfTLSAreJudgedAndPassedOn(t *testing.T) {
	w := newWorld(t)
	var conns atomic.Int32
	var from sync.Map
	_, host := w.origin(t, w.leaf(t, nil), func(rw http.ResponseWriter, q *http.Request) {
		if _, known := from.LoadOrStore(q.RemoteAddr, true); !known {
			conns.Add(1)
		}
		if q.TLS.ServerName != "localhost" {
			t.Errorf("server name in the hello to the origin: got %q, want localhost", q.TLS.ServerName)
		}
		rw.Header().Set("Alt-Svc", `h3=":443"`)
		b, _ := io.ReadAll(q.Body)
		fmt.Fprintf(rw, "%s %s %s %s", q.Method, q.Host, q.URL, b)
	})
	var mu sync.Mutex
	var stages []string
	r := start(t, Config{}, Engine{Intercept: w.in, Decider: judge{
		wants: func(x *filter.Transaction, s filter.Stage) bool { return s == filter.ResponseBody },
		decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
			mu.Lock()
			defer mu.Unlock()
			stages = append(stages, x.Proto.String()+" "+s.String()+" "+strings.ReplaceAll(x.URL, host, "H"))
			if s == filter.Request && strings.Contains(x.URL, "/bad") {
				return block("adult")
			}
			if s == filter.ResponseBody && strings.Contains(x.URL, "/words") {
				return block("words")
			}
			return filter.Verdict{}
		}}})
	c := r.browser(w)
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/a?b=c", "", 200, "GET " + host + " /a?b=c "},
		{"POST", "/up", "some text", 200, "POST " + host + " /up some text"},
		{"GET", "/bad", "", 403, "category adult"},
		{"GET", "/words", "", 403, "category words"},
		{"GET", "/again", "", 200, "GET " + host + " /again "},
	} {
		q, _ := http.NewRequest(tt.method, "https://"+host+tt.path, strings.NewReader(tt.body))
		q.Header.Set("Accept", "text/html")
		res, err := c.Do(q)
		if err != nil {
			t.Fatalf("%s: %v", tt.path, err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != tt.status || !strings.Contains(string(b), tt.want) {
			t.Errorf("GET %s: got %d %q", tt.path, res.StatusCode, b)
		}
		if res.Header.Get("Alt-Svc") != "" {
			t.Errorf("GET %s: the response to the client has an Alt-Svc field", tt.path)
		}
	}
	if n := conns.Load(); n > 2 { // a refused body costs its connection
		t.Errorf("%d connections to the origin, want at most 2, because connections are kept", n)
	}
	got := r.wait(6)
	if got[0].Proto != filter.TLS || got[0].URL != host || got[0].Note != "decrypted" || got[0].Status != 200 {
		t.Errorf("record of CONNECT: got %+v", got[0])
	}
	if got[1].Proto != filter.HTTP || got[1].URL != "https://"+host+"/a?b=c" || got[1].Status != 200 || got[3].Action != filter.Block {
		t.Errorf("records of the decrypted requests: got %+v", got[1:4])
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"tls name H", "http name https://H/a?b=c", "http request https://H/a?b=c", "http response https://H/a?b=c", "http response-body https://H/a?b=c"}
	if len(stages) < 5 || strings.Join(stages[:5], "\n") != strings.Join(want, "\n") {
		t.Errorf("the decider was called for %q, want %q", stages, want)
	}
}

func TestNamesDecideWhetherTLSIsLookedInto(t *testing.T) {
	w := newWorld(t)
	cert := w.leaf(t, nil)
	_, host := w.origin(t, cert, func(rw http.ResponseWriter, q *http.Request) { fmt.Fprint(rw, "secret") })
	r := start(t, Config{}, Engine{Intercept: w.in, Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
		switch {
		case x.Host == "bank.test", x.Host == "bank2.test", x.Host == "127.0.0.1":
			return filter.Verdict{Action: filter.Allow}
		case x.Host == "bad.test" || x.Host == "blocked.test":
			return block("adult")
		}
		return filter.Verdict{}
	}}})
	ask := func(connect, sni, header string, roots *x509.CertPool) (issuer, answer string, err error) {
		c, br := r.tunnelTo(connect)
		defer c.Close()
		tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: sni, InsecureSkipVerify: roots == nil, RootCAs: roots})
		if err := tc.Handshake(); err != nil {
			return "", "", err
		}
		fmt.Fprintf(tc, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", header)
		b, _ := io.ReadAll(tc)
		return tc.ConnectionState().PeerCertificates[0].Issuer.CommonName, string(b), nil
	}
	port := host[strings.IndexByte(host, ':'):]
	r.resolve("bank.test", "127.0.0.1")
	r.resolve("bank2.test", "192.0.2.1")
	for _, tt := range []struct {
		name, connect, sni, host string
		issuer, answer           string
	}{
		{"passes, decrypted", host, "good.test", "good.test", intercept.DefaultName, "secret"},
		{"allowed by the hello, an address of it: untouched", host, "bank.test", "bank.test", "Origins", "secret"},
		{"allowed by the hello, no address of it", host, "bank2.test", "bank2.test", intercept.DefaultName, "secret"},
		{"allowed by CONNECT, blocked by the hello", "127.0.0.1" + port, "bad.test", "bad.test", "", ""},
		{"allowed by CONNECT: untouched", "127.0.0.1" + port, "good.test", "good.test", "Origins", "secret"},
		{"blocked by the hello: a page inside", host, "bad.test", "bad.test", intercept.DefaultName, "category adult"},
		{"blocked by CONNECT: a page inside", "blocked.test:443", "blocked.test", "blocked.test", intercept.DefaultName, "category adult"},
		{"another Host inside is judged too", host, "good.test", "bad.test", intercept.DefaultName, "category adult"},
		{"an allowed Host inside is not enough", host, "good.test", "bank.test", intercept.DefaultName, "secret"},
		{"no name in the hello", host, "", "localhost", intercept.DefaultName, "secret"},
	} {
		issuer, answer, err := ask(tt.connect, tt.sni, tt.host, nil)
		if (err != nil) != (tt.issuer == "") || issuer != tt.issuer || !strings.Contains(answer, tt.answer) {
			t.Errorf("%s: issuer %q, answer %q, error %v", tt.name, issuer, answer, err)
		}
	}
	// A client that does not trust our certificate is counted, and tunnelled if the settings
	// want that.
	for range 2 {
		if _, _, err := ask(host, "good.test", "good.test", x509.NewCertPool()); err == nil {
			t.Fatal("a client without our root accepted our certificate")
		}
	}
	for r.Stats().CertRefused < 2 {
		time.Sleep(time.Millisecond)
	}
	e := *r.engine.Load()
	in := *w.in
	in.ExceptAfter = 2
	e.Intercept = &in
	if err := r.Use(&e); err != nil {
		t.Fatal(err)
	}
	if issuer, answer, err := ask(host, "good.test", "good.test", nil); err != nil || issuer != "Origins" || !strings.Contains(answer, "secret") {
		t.Errorf("tunnelled connection of the pinned client: issuer %q, answer %q, error %v", issuer, answer, err)
	}
	if s := r.Stats(); s.CertRefused != 2 {
		t.Errorf("%d refusals counted, want 2", s.CertRefused)
	}
}

func TestFaultsOfTheOriginsCertificateAreFindings(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name   string
		change func(*x509.Certificate)
		rule   filter.Action // the policy's decision on it
		issuer string
		answer string
	}{
		{"expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, filter.Block, intercept.DefaultName, "has expired"},
		{"not-yet-valid", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, filter.Block, intercept.DefaultName, "not valid yet"},
		{"wrong-host", func(c *x509.Certificate) { c.DNSNames = []string{"else.test"} }, filter.Block, intercept.DefaultName, "certificate for other names"},
		{"expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, filter.Allow, "Origins", "secret"},
		{"expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, filter.Pass, intercept.DefaultName, "secret"},
	} {
		t.Run(tt.name+" "+tt.rule.String(), func(t *testing.T) {
			_, host := w.origin(t, w.leaf(t, tt.change), func(rw http.ResponseWriter, q *http.Request) { fmt.Fprint(rw, "secret") })
			r := start(t, Config{}, Engine{Intercept: w.in, Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
				for _, f := range x.Findings {
					if f.Check == "certificate" && f.Category == tt.name {
						return filter.Verdict{Action: tt.rule, Reason: filter.Reason{Policy: "p", Rule: "r", Finding: f}}
					}
				}
				return filter.Verdict{}
			}}})
			c, br := r.tunnelTo(host)
			tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: "localhost", InsecureSkipVerify: true})
			fmt.Fprintf(tc, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
			b, _ := io.ReadAll(tc)
			if st := tc.ConnectionState(); len(st.PeerCertificates) == 0 || st.PeerCertificates[0].Issuer.CommonName != tt.issuer || !strings.Contains(string(b), tt.answer) {
				t.Errorf("answer on the decrypted connection: got %q", b)
			}
		})
	}
}

func TestAnOriginThatCannotBeReachedIsExplainedInside(t *testing.T) {
	w := newWorld(t)
	ln, _ := net.Listen("tcp", "127.0.0.1:0")
	host := strings.Replace(ln.Addr().String(), "127.0.0.1", "localhost", 1)
	ln.Close()
	r := start(t, Config{}, Engine{Intercept: w.in})
	res, body := get(t, r.browser(w), "https://"+host+"/")
	if res.StatusCode != 502 || !strings.Contains(body, "refused the connection") {
		t.Errorf("origin without the requested certificate: got %d %q, want 502 with the reason", res.StatusCode, body)
	}
}

func TestWebSocketInsideOfTLS(t *testing.T) {
	w := newWorld(t)
	_, host := w.origin(t, w.leaf(t, nil), func(rw http.ResponseWriter, q *http.Request) {
		c, buf, _ := rw.(http.Hijacker).Hijack()
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(c, buf)
	})
	r := start(t, Config{}, Engine{Intercept: w.in})
	c, br := r.tunnelTo(host)
	tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: "localhost", RootCAs: w.ours})
	fmt.Fprintf(tc, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", host)
	tr := bufio.NewReader(tc)
	if head := readHead(tr); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("upgrade on a decrypted connection: got %q, want 101", head)
	}
	io.WriteString(tc, "ping\n")
	if s, err := tr.ReadString('\n'); s != "ping\n" {
		t.Errorf("echo after the upgrade: got %q, %v, want ping", s, err)
	}
}

func TestSessionsAreResumedOnBothSides(t *testing.T) {
	w := newWorld(t)
	var resumed atomic.Int32
	_, host := w.origin(t, w.leaf(t, nil), func(rw http.ResponseWriter, q *http.Request) {
		if q.TLS.DidResume {
			resumed.Add(1)
		}
		rw.Header().Set("Connection", "close")
		fmt.Fprint(rw, "x")
	})
	r := start(t, Config{}, Engine{Intercept: w.in})
	cache := tls.NewLRUClientSessionCache(4)
	again := 0
	for range 3 {
		c, br := r.tunnelTo(host)
		tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: "localhost", RootCAs: w.ours, ClientSessionCache: cache})
		fmt.Fprintf(tc, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
		io.ReadAll(tc)
		if tc.ConnectionState().DidResume {
			again++
		}
		c.Close()
	}
	if again < 2 || resumed.Load() < 2 {
		t.Errorf("%d sessions resumed with clients, %d with the origin; want at least 2 of 3 each", again, resumed.Load())
	}
}

func TestAnIdleTLSConnectionIsUsedAgainAfterItsTickets(t *testing.T) {
	w := newWorld(t)
	_, host := w.origin(t, w.leaf(t, nil), func(rw http.ResponseWriter, q *http.Request) { fmt.Fprint(rw, "x") })
	r := start(t, Config{}, Engine{Intercept: w.in})
	c := r.browser(w)
	for range 5 {
		get(t, c, "https://"+host+"/")
	}
	if s := r.Stats(); s.UpstreamNew != 1 || s.Decrypted != 1 {
		t.Errorf("%d connections to the origin and %d from the client, want 1", s.UpstreamNew, s.Decrypted)
	}
}

// halves splits its first write in two.
type halves struct {
	net.Conn
	begun bool
}

func (h *halves) Write(p []byte) (int, error) {
	if h.begun {
		return h.Conn.Write(p)
	}
	h.begun = true
	n, err := h.Conn.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	m, err := h.Conn.Write(p[len(p)/2:])
	return n + m, err
}

func TestAPostQuantumHelloInTwoSegments(t *testing.T) {
	w := newWorld(t)
	_, host := w.origin(t, w.leaf(t, nil), func(rw http.ResponseWriter, q *http.Request) { fmt.Fprint(rw, "x") })
	for _, look := range []bool{true, false} {
		e := Engine{Intercept: w.in}
		if !look {
			e.Intercept = nil
		}
		r := start(t, Config{}, e)
		c, br := r.tunnelTo(host)
		tc := tls.Client(&halves{Conn: &buffered{c, br}}, &tls.Config{ServerName: "localhost", InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}})
		fmt.Fprintf(tc, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
		if b, err := io.ReadAll(tc); err != nil || !strings.HasSuffix(string(b), "x") || tc.ConnectionState().CurveID != tls.X25519MLKEM768 {
			t.Errorf("hello in two pieces, decrypted %v: got %q, %v", look, b, err)
		}
	}
}

func TestARequestForAClientCertificateIsReported(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		version uint16
		http2   bool
	}{{tls.VersionTLS12, false}, {tls.VersionTLS13, false}, {tls.VersionTLS13, true}} {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.EnableHTTP2 = tt.http2
		s.TLS = &tls.Config{Certificates: []tls.Certificate{w.leaf(t, nil)}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tt.version, MaxVersion: tt.version}
		s.StartTLS()
		t.Cleanup(s.Close)
		r := start(t, Config{}, Engine{Intercept: w.in})
		c := r.browser(w)
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = tt.http2
		res, body := get(t, c, strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/")
		if res.StatusCode != 502 || !strings.Contains(body, "asks for a certificate of the client") {
			t.Errorf("%s, HTTP/2 %v: got %d, want 502 with the reason: %q", tls.VersionName(tt.version), tt.http2, res.StatusCode, body)
		}
		if got := r.wait(2)[1]; !strings.Contains(got.Note, "client certificate") {
			t.Errorf("%s: the note %q does not mention the client certificate", tls.VersionName(tt.version), got.Note)
		}
	}
}

func TestOldOriginsAreReachedByHost(t *testing.T) {
	w := newWorld(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(3), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, w.ca, &key.PublicKey, w.caKey)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) { fmt.Fprint(rw, "old") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
		CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA},
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	for _, tt := range []struct {
		old  []string
		want int
	}{{nil, 502}, {[]string{"other.test"}, 502}, {[]string{"localhost"}, 200}} {
		r := start(t, Config{Upstream: upstream.Config{OldTLS: tt.old}}, Engine{Intercept: w.in})
		res, body := get(t, r.browser(w), strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/")
		if res.StatusCode != tt.want || (tt.want == 200) != (body == "old") {
			t.Errorf("old-tls: %v: got %d %q, want %d", tt.old, res.StatusCode, body, tt.want)
		}
		if tt.want == 502 && !strings.Contains(body, "administrator can allow old TLS for it") {
			t.Errorf("old-tls: %v: the page does not say what the administrator can do: %s", tt.old, body)
		}
	}
	// This request needs an unsupported version whatever old-tls says.
	s.TLS.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA} // for its RSA key: none
	for _, tt := range []struct {
		old        []string
		page, note string
	}{{nil, "can allow old TLS for it", "proxy.old-tls"}, {[]string{"localhost"}, "can let it through undecrypted", "DHE"}} {
		r := start(t, Config{Upstream: upstream.Config{OldTLS: tt.old}}, Engine{Intercept: w.in})
		res, body := get(t, r.browser(w), strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/")
		if res.StatusCode != 502 || !strings.Contains(body, tt.page) {
			t.Errorf("old-tls: %v: got %d %s, want %q", tt.old, res.StatusCode, body, tt.page)
		}
		if got := r.wait(2)[1]; !strings.Contains(got.Note, tt.note) {
			t.Errorf("old-tls: %v: note %q, want %q", tt.old, got.Note, tt.note)
		}
	}
}

func FuzzInside(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"GET https://other.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"CONNECT x.test:443 HTTP/1.1\r\nHost: x.test\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: good.test\r\nMax-Forwards: 0\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	p, err := New(Config{Via: "fuzz", HeadTime: setting.Duration(time.Second), Idle: setting.Duration(time.Second), Upstream: upstream.Config{Answer: setting.Duration(time.Second)}}, &Engine{Identify: anybody, Decider: judge{decide: func(x *filter.Transaction, _ filter.Stage) filter.Verdict {
		return block("all")
	}}}, nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte, secure bool) {
		near, far := net.Pipe()
		c := p.conns.Get().(*conn)
		c.open(&listener{p: p, ctx: t.Context()}, far, new(upstream.Session))
		c.x.inside = &tlsState{scheme: "https", dial: "good.test", host: "good.test", tls: upstream.TLS{ServerName: "good.test", Name: "good.test"}, port: 443}
		if !secure {
			c.x.inside = &tlsState{scheme: "http", dial: "192.0.2.1", host: "192.0.2.1", port: 80, orig: netip.MustParseAddrPort("192.0.2.1:80")}
		}
		go func() { near.Write(b); near.Close() }()
		go io.Copy(io.Discard, near)
		for c.await() && c.request() == another {
		}
		c.close()
		if s := p.Stats(); s.Panics != 0 || s.Held != 0 || p.turns.Used() != 0 {
			t.Fatalf("counters after the input: %+v; want no panic, no held bytes, no turn in use", s)
		}
	})
}

func TestFingerprintsAreKnownToTheDecider(t *testing.T) {
	w := newWorld(t)
	_, host := w.origin(t, w.leaf(t, nil), func(rw http.ResponseWriter, q *http.Request) { fmt.Fprint(rw, "x") })
	for _, look := range []bool{true, false} {
		var mu sync.Mutex
		var seen []string
		e := Engine{JA4: true, Decider: judge{decide: func(x *filter.Transaction, s filter.Stage) filter.Verdict {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, x.Proto.String()+" "+s.String()+" "+x.JA4[:min(len(x.JA4), 3)])
			if x.JA4 == filter.NoHello {
				return block("no TLS")
			}
			return filter.Verdict{}
		}}}
		want := []string{"tls name ", "tls name t13"}
		if look {
			e.Intercept = w.in
			want = append(want, "http name t13", "http request t13", "http response t13")
		}
		r := start(t, Config{}, e)
		c, br := r.tunnelTo(host)
		tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: "localhost", InsecureSkipVerify: true})
		fmt.Fprintf(tc, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
		if b, err := io.ReadAll(tc); err != nil || !strings.HasSuffix(string(b), "x") {
			t.Errorf("decrypt %v: reading the echo through TLS: got %q, %v", look, b, err)
		}
		c, br = r.tunnelTo(host)
		io.WriteString(c, "SSH-2.0-client\r\n")
		if b, _ := io.ReadAll(br); len(b) > 0 {
			t.Errorf("decrypt %v: bytes that are not TLS got the answer %q, want none", look, b)
		}
		mu.Lock()
		if got := seen[:len(want)]; strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("decrypt %v: the decider was called for %q, want %q", look, got, want)
		}
		if last := seen[len(seen)-1]; last != "tls name non" {
			t.Errorf("decrypt %v: the last call of the decider, for bytes that are not TLS, was %q", look, last)
		}
		mu.Unlock()
	}
}

// TestAClientOfOpenSSLThatRefusesOurCertificate sends its alert in a way that Go cannot decrypt, with
// TLS 1.3; it is a refusal all the same.
func TestAClientOfOpenSSLThatRefusesOurCertificate(t *testing.T) {
	peer.Program(t, "openssl")
	w := newWorld(t)
	_, addr := w.origin(t, w.leaf(t, nil), func(http.ResponseWriter, *http.Request) {})
	r := start(t, Config{}, Engine{Intercept: w.in})
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		cmd := exec.CommandContext(t.Context(), "openssl", "s_client", version, "-proxy", r.addr, "-connect", addr, "-servername", "localhost", "-verify_return_error", "-no-CAfile", "-no-CApath", "-no-CAstore")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "verify error") {
			t.Errorf("openssl %s takes our certificate: %v, %s", version, err, out)
		}
	}
	for _, x := range r.wait(2) {
		if !strings.Contains(x.Note, "the client refused our certificate") {
			t.Errorf("the record says %q", x.Note)
		}
	}
	if s := r.Stats(); s.CertRefused != 2 {
		t.Errorf("%d refusals counted, want 2", s.CertRefused)
	}
}

func TestHostsThatRefuseOurCertificateAreListed(t *testing.T) {
	w := newWorld(t)
	_, host := w.origin(t, w.leaf(t, nil), func(rw http.ResponseWriter, q *http.Request) { fmt.Fprint(rw, "secret") })
	in := *w.in
	in.ExceptAfter = 3
	r := start(t, Config{}, Engine{Intercept: &in})
	ask := func(name string, roots *x509.CertPool) (string, error) {
		c, br := r.tunnelTo(host)
		defer c.Close()
		tc := tls.Client(&buffered{c, br}, &tls.Config{ServerName: name, RootCAs: roots})
		if _, err := fmt.Fprintf(tc, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host); err != nil {
			return "", err
		}
		b, err := io.ReadAll(tc)
		return string(b), err
	}
	theirs := x509.NewCertPool()
	theirs.AddCert(w.ca)
	for i := range 3 { // pinned
		if _, err := ask("good.test", theirs); err == nil {
			t.Error("a client without our root accepted our certificate for good.test")
		}
		r.wait(i + 1)
	}
	if _, err := ask("other.test", theirs); err == nil {
		t.Error("a client without our root accepted our certificate for other.test")
	}
	r.wait(4)
	list := r.Refusals()
	if len(list) != 2 || list[0].Host != "good.test" || list[0].Times != 3 || list[0].Clients != 1 || list[1].Host != "other.test" || list[1].Times != 1 {
		t.Errorf("Refusals: got %+v, want good.test and other.test", list)
	}
	if b, err := ask("good.test", theirs); err != nil || !strings.HasSuffix(b, "secret") { // switched on: let through unseen
		t.Errorf("good.test after three refusals, with exceptions switched on: got %q, %v; want a tunnel", b, err)
	}
	if _, err := ask("other.test", w.ours); err != nil {
		t.Error(err)
	}
	if list := r.Refusals(); len(list) != 1 || list[0].Host != "good.test" {
		t.Errorf("Refusals after other.test accepted our certificate: got %+v, want good.test only", list)
	}
}
