package nameserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	miekg "github.com/miekg/dns"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// zone is a responder for test. with a fixed few names.
type zone struct {
	gate    chan struct{} // later.test. is answered when it can be read from
	entered chan struct{} // notified when a worker waits
}

func (z *zone) Answer(q *dns.Query, r *dns.Reply, judged *filter.Transaction) dns.Outcome {
	var text [300]byte
	name := string(dns.AppendText(text[:0], q.Name))
	if !strings.HasSuffix(name, "test.") {
		return dns.Declined
	}
	r.AA = true
	switch label, _, _ := strings.Cut(name, "."); {
	case label == "later", strings.HasPrefix(label, "later"):
		return dns.Later
	case label == "drop":
		return dns.Dropped
	case label == "panic":
		panic("on purpose")
	case label == "gone", strings.HasPrefix(label, "gone"):
		r.Rcode = 3
		soa(r)
	case label == "blocked":
		r.Rcode, r.HasEDE, r.EDE, r.EDEText = 3, true, 15, adsText
		judged.Host, judged.Verdict.Action = "blocked.test", filter.Block
		soa(r)
	case label == "big" && q.Type == miekg.TypeTXT:
		for range 20 {
			m := r.Mark()
			r.Record(nil, miekg.TypeTXT, 1, 60, append([]byte{200}, bytes.Repeat([]byte{'x'}, 200)...))
			if r.Answers++; r.Overflows() {
				r.Undo(m)
				r.TC = true
				break
			}
		}
	case q.Type == miekg.TypeSOA:
		r.Record(nil, miekg.TypeSOA, 1, 60, soaData)
		r.Answers++
	case q.Type == miekg.TypeA:
		if strings.HasSuffix(name, ".wild.test.") {
			r.Wildcard = len(q.Name) - len("\x04wild\x04test\x00")
		}
		r.Record(nil, miekg.TypeA, 1, 300, addrData)
		r.Answers++
	default:
		soa(r)
	}
	return dns.Answered
}

var (
	soaData  = append([]byte{0, 0}, bytes.Repeat([]byte{0, 0, 0, 30}, 5)...)
	addrData = []byte{192, 0, 2, 1}
	adsText  = []byte("category ads")
	apex     = []byte("\x04test\x00")
)

func soa(r *dns.Reply) {
	r.Record(apex, miekg.TypeSOA, 1, 60, soaData)
	r.Authorities++
}

func (z *zone) Wait(ctx context.Context, q *dns.Query, r *dns.Reply, _ *filter.Transaction) dns.Outcome {
	if z.entered != nil {
		z.entered <- struct{}{}
	}
	select {
	case <-z.gate:
	case <-ctx.Done():
		r.Rcode = 2
		return dns.Answered
	}
	r.Record(nil, miekg.TypeA, 1, 300, []byte{192, 0, 2, 2})
	r.Answers++
	return dns.Answered
}

// certificate makes a certificate for 127.0.0.1 and returns its files and a
// pool that trusts it.
func certificate(t testing.TB) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "dns.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"dns.test"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &priv.PublicKey, priv)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	x, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(x)
	return cert, key, pool
}

// start runs a server with the zone until the test ends; then it must be gone
// soon.
func start(t testing.TB, cfg Config, record Record, rs ...Responder) *Server {
	t.Helper()
	if len(cfg.Listen)+len(cfg.TLS)+len(cfg.HTTPS)+len(cfg.QUIC) == 0 {
		cfg.Listen = []string{"127.0.0.1:0"}
	}
	s, err := New(cfg, slog.New(slog.DiscardHandler), record)
	if err != nil {
		t.Fatal(err)
	}
	if len(rs) == 0 {
		rs = []Responder{&zone{}}
	}
	s.SetResponders(nil, rs...)
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the server does not stop within a minute")
		}
	})
	return s
}

func (s *Server) at(t dns.Transport) string { return s.Addrs(t)[0].String() }

func query(name string, typ uint16) *miekg.Msg {
	m := new(miekg.Msg).SetQuestion(name, typ)
	m.RecursionDesired = false
	return m
}

// exchange sends a query over UDP or TCP.
func exchange(t testing.TB, s *Server, network string, m *miekg.Msg) *miekg.Msg {
	t.Helper()
	c := &miekg.Client{Net: network, Timeout: time.Minute, UDPSize: 4096}
	r, _, err := c.Exchange(m, s.at(dns.UDP))
	if err != nil {
		t.Fatalf("%s %s: %v", network, m.Question[0].Name, err)
	}
	return r
}

// lost returns how often a reason was counted.
func (s *Server) lost(why reason) uint64 { return s.sums().drops[why] }

func TestUDPAndTCPAnswerTheSame(t *testing.T) {
	s := start(t, Config{}, nil)
	for _, network := range []string{"udp", "tcp"} {
		for _, x := range []struct {
			name  string
			typ   uint16
			rcode int
			n     int
		}{
			{"www.test.", miekg.TypeA, 0, 1}, {"WWW.Test.", miekg.TypeA, 0, 1}, {"www.test.", miekg.TypeMX, 0, 0},
			{"gone.test.", miekg.TypeA, 3, 0}, {"www.example.org.", miekg.TypeA, 5, 0}, {".", miekg.TypeNS, 5, 0},
		} {
			r := exchange(t, s, network, query(x.name, x.typ))
			if r.Rcode != x.rcode || len(r.Answer) != x.n || r.Authoritative != (x.rcode != 5) || r.Question[0].Name != x.name || r.IsEdns0() != nil {
				t.Errorf("%s %s: got %v", network, x.name, r)
			}
		}
	}
	if got := s.sums(); got.requests[dns.UDP][0][0] != 4 || got.rcodes[0] != 6 || got.rcodes[3] != 2 || got.rcodes[5] != 4 {
		t.Errorf("counted requests %v and rcodes %v", got.requests[0], got.rcodes)
	}
}

func TestIPv6AndEveryAddress(t *testing.T) {
	s := start(t, Config{Listen: []string{"[::1]:0"}}, nil)
	if r := exchange(t, s, "udp", query("www.test.", miekg.TypeA)); len(r.Answer) != 1 {
		t.Errorf("www.test. on every address: got %v, want one record", r)
	}
	if got := s.sums(); got.requests[dns.UDP][1][0] != 1 {
		t.Errorf("the query was not counted as IPv6: %v", got.requests)
	}
	all := start(t, Config{Listen: []string{":0"}}, nil)
	c := &miekg.Client{Timeout: time.Minute}
	for _, a := range all.Addrs(dns.UDP) {
		host := "127.0.0.3"
		if a.Addr().Is6() {
			host = "::1"
		}
		if r, _, err := c.Exchange(query("www.test.", miekg.TypeA), netip.AddrPortFrom(netip.MustParseAddr(host), a.Port()).String()); err != nil || len(r.Answer) != 1 {
			t.Errorf("query to %s: got %v %v, want 1 record", a, r, err)
		}
	}
}

func TestRepliesOverUDPAreTruncatedByRRset(t *testing.T) {
	s := start(t, Config{}, nil)
	for _, x := range []struct {
		size uint16
		max  int
	}{{0, 512}, {512, 512}, {1232, 1232}, {4096, 1232}} {
		m := query("big.test.", miekg.TypeTXT)
		if x.size > 0 {
			m.SetEdns0(x.size, true)
		}
		r := exchange(t, s, "udp", m)
		b, err := r.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if !r.Truncated || len(b) > x.max || (r.IsEdns0() != nil) != (x.size > 0) {
			t.Errorf("EDNS size %d: TC %v, %d bytes, OPT %v", x.size, r.Truncated, len(b), r.IsEdns0())
		}
	}
	if r := exchange(t, s, "tcp", query("big.test.", miekg.TypeTXT)); r.Truncated || len(r.Answer) != 20 {
		t.Errorf("TCP: TC %v, %d records; want all 20", r.Truncated, len(r.Answer))
	}
}

func TestLateAnswersGoToTheirClients(t *testing.T) {
	z := &zone{gate: make(chan struct{})}
	close(z.gate)
	s := start(t, Config{}, nil, z)
	for _, network := range []string{"udp", "tcp"} {
		m := query("later.test.", miekg.TypeA)
		m.SetEdns0(1232, false)
		r := exchange(t, s, network, m)
		if len(r.Answer) != 1 || r.Answer[0].(*miekg.A).A.String() != "192.0.2.2" || r.IsEdns0() == nil {
			t.Errorf("deferred query over %s: got %v, want 1 record", network, r)
		}
	}
}

func TestADeclinedWaitGoesOnToTheNextResponder(t *testing.T) {
	s := start(t, Config{}, nil, undecided{}, &zone{})
	if r := exchange(t, s, "udp", query("www.test.", miekg.TypeA)); len(r.Answer) != 1 {
		t.Errorf("a name of the next responder: got %v, want one record", r)
	}
	if r := exchange(t, s, "udp", query("www.example.org.", miekg.TypeA)); r.Rcode != miekg.RcodeRefused {
		t.Errorf("a name of no responder: got %v, want REFUSED", r)
	}
}

// undecided defers every query and then has no answer.
type undecided struct{}

func (undecided) Answer(*dns.Query, *dns.Reply, *filter.Transaction) dns.Outcome { return dns.Later }
func (undecided) Wait(context.Context, *dns.Query, *dns.Reply, *filter.Transaction) dns.Outcome {
	return dns.Declined
}

func TestAPanicCostsOneQuery(t *testing.T) {
	s := start(t, Config{}, nil)
	c := &miekg.Client{Timeout: 50 * time.Millisecond}
	if r, _, err := c.Exchange(query("panic.test.", miekg.TypeA), s.at(dns.UDP)); err == nil {
		t.Errorf("query that panics: got %v, want no reply", r)
	}
	for _, network := range []string{"udp", "tcp"} {
		if r := exchange(t, s, network, query("www.test.", miekg.TypeA)); len(r.Answer) != 1 {
			t.Errorf("after a panic, www.test. over %s: got %v, want one record", network, r)
		}
	}
	if s.lost(panicked) == 0 {
		t.Error("the panic was not counted")
	}
}

func TestReloadChangesRulesAndResponders(t *testing.T) {
	s := start(t, Config{}, nil)
	cfg := Config{Listen: []string{"127.0.0.1:0"}, Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	if err := s.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if r := exchange(t, s, "udp", query("www.test.", miekg.TypeA)); r.Rcode != miekg.RcodeRefused {
		t.Errorf("client outside the allowed networks: got %v, want REFUSED", r)
	}
	bad := cfg
	bad.Allow, bad.Cookies.Mode = nil, "perhaps"
	if err := s.Reload(bad); err == nil {
		t.Error("Reload accepted bad settings")
	}
	if r := exchange(t, s, "udp", query("www.test.", miekg.TypeA)); r.Rcode != miekg.RcodeRefused {
		t.Error("bad settings changed the running ones")
	}
	cfg.Allow = nil
	if err := s.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	s.SetResponders(nil)
	if r := exchange(t, s, "udp", query("www.test.", miekg.TypeA)); r.Rcode != miekg.RcodeRefused {
		t.Errorf("without responders: got %v, want REFUSED", r)
	}
}

// A watcher is a responder that examines answers made by the server itself.
type watcher struct {
	zone
	seen chan []byte
}

func (w *watcher) SeeRefused(q *dns.Query, t *filter.Transaction) {
	w.seen <- bytes.Clone(q.Msg)
	t.ID, t.Findings = "seen", append(t.Findings, filter.Finding{Check: "watcher"})
}

func TestQueriesTheServerAnswersByItselfAreExamined(t *testing.T) {
	w := &watcher{seen: make(chan []byte, 1)}
	recorded := make(chan int, 1)
	s := start(t, Config{}, func(_ *dns.Query, _ *dns.Reply, judged *filter.Transaction, _ time.Duration) {
		recorded <- len(judged.Findings)
	}, w)
	question := "\x01x\x04test\x00\x00\x01\x00\x01"
	for name, x := range map[string]struct {
		message string
		rcode   byte
		seen    bool
	}{
		"notify":          {"\x00\x01\x20\x00\x00\x01\x00\x00\x00\x00\x00\x00" + question, dns.RcodeNotAuth, true},
		"another opcode":  {"\x00\x01\x28\x00\x00\x01\x00\x00\x00\x00\x00\x00" + question, dns.RcodeNotImp, true},
		"a cut question":  {"\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x3fabc", dns.RcodeFormErr, true},
		"a later EDNS":    {"\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x01" + question + "\x00\x00\x29\x04\xd0\x00\x01\x00\x00\x00\x00", 0, true},
		"an ordinary one": {"\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00" + question, 0, false},
	} {
		for _, network := range []string{"udp", "tcp"} {
			at, message := s.at(dns.UDP), x.message
			if network == "tcp" {
				at, message = s.at(dns.TCP), string([]byte{0, byte(len(message))})+message
			}
			c, err := net.Dial(network, at)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			if _, err := c.Write([]byte(message)); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 512)
			n, err := c.Read(got)
			c.Close()
			if got = got[:n]; network == "tcp" && n >= 2 {
				got = got[2:]
			}
			if err != nil || len(got) < 12 || got[3]&15 != x.rcode {
				t.Errorf("%s over %s: got the reply %x, %v", name, network, got, err)
			}
			if found := <-recorded; found != 0 != x.seen {
				t.Errorf("%s over %s: %d findings recorded", name, network, found)
			}
			select {
			case m := <-w.seen:
				if !x.seen || string(m) != x.message {
					t.Errorf("%s over %s: the witness examined %x", name, network, m)
				}
			default:
				if x.seen {
					t.Errorf("%s over %s: the witness was not asked", name, network)
				}
			}
		}
	}
}

func TestSettingsThatCannotBeAreNamed(t *testing.T) {
	listen := []string{"127.0.0.1:0"}
	for key, cfg := range map[string]Config{
		"listen":         {},
		"listen[1]":      {Listen: []string{"127.0.0.1", "localhost:53"}},
		"cert":           {TLS: listen},
		"udp-size":       {Listen: listen, UDPSize: 100},
		"rrl.slip":       {Listen: listen, RRL: RRL{Slip: 2000}},
		"rate":           {Listen: listen, Rate: 2e6},
		"workers":        {Listen: listen, Workers: -1},
		"path":           {Listen: listen, Path: "dns"},
		"wait":           {Listen: listen, Wait: setting.Duration(2 * time.Hour)},
		"version":        {Listen: listen, Version: strings.Repeat("x", 200)},
		"name":           {Listen: listen, Name: "a b"},
		"nsid":           {Listen: listen, NSID: strings.Repeat("x", 200)},
		"cookies.mode":   {Listen: listen, Cookies: Cookies{Mode: "no"}},
		"cookies.secret": {Listen: listen, Cookies: Cookies{Secret: "abc"}},
	} {
		_, err := New(cfg, slog.New(slog.DiscardHandler), nil)
		bad, ok := errors.AsType[*setting.Error](err)
		if !ok || bad.Key != key {
			t.Errorf("%s: got %v", key, err)
		}
	}
}
