package forward

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	miekg "github.com/miekg/dns"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/release"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
)

// An authority is a certificate authority for one test.
type authority struct {
	file string // its certificate
	leaf tls.Certificate
	pin  string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	must(err)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	rootDER, err := x509.CreateCertificate(crand.Reader, root, root, &rootKey.PublicKey, rootKey)
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	must(err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{"dns.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(crand.Reader, leaf, root, &key.PublicKey, rootKey)
	must(err)
	parsed, err := x509.ParseCertificate(der)
	must(err)
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem"), leaf: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
	a.pin = fmt.Sprintf("%x", sha256.Sum256(parsed.RawSubjectPublicKeyInfo))
	must(os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}), 0o600))
	return a
}

func (a *authority) config(protocols ...string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.leaf}, NextProtos: protocols}
}

// A secured is a server of one encrypted transport.
type secured struct {
	addr  string
	conns atomic.Int64
	odd   atomic.Int64 // queries whose length is not padded, or whose ID is not 0 where it must be
	stop  func()
}

func (s *secured) answer(t testing.TB, msg []byte, wantZero bool, h func(*miekg.Msg, bool) *miekg.Msg) []byte {
	var q miekg.Msg
	if err := q.Unpack(msg); err != nil {
		t.Errorf("server: %d bytes: %v", len(msg), err)
		return nil
	}
	if len(msg)%padBlock != 0 || wantZero && q.Id != 0 {
		s.odd.Add(1)
	}
	out, err := h(&q, true).Pack()
	if err != nil {
		t.Errorf("server: %v", err)
	}
	return out
}

func serveTLS(t testing.TB, ca *authority, h func(*miekg.Msg, bool) *miekg.Msg) *secured {
	ln, err := tls.Listen("tcp", "127.0.0.1:0", ca.config("dot"))
	if err != nil {
		t.Fatal(err)
	}
	s := &secured{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	var open sync.Map
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			open.Store(c, nil)
			wg.Go(func() {
				defer c.Close()
				for {
					var size [2]byte
					if _, err := io.ReadFull(c, size[:]); err != nil {
						return
					}
					msg := make([]byte, binary.BigEndian.Uint16(size[:]))
					if _, err := io.ReadFull(c, msg); err != nil {
						return
					}
					out := s.answer(t, msg, false, h)
					c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
				}
			})
		}
	})
	s.stop = sync.OnceFunc(func() {
		ln.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		wg.Wait()
	})
	t.Cleanup(s.stop)
	return s
}

// handler answers DNS over HTTPS.
func (s *secured) handler(t testing.TB, major int, h func(*miekg.Msg, bool) *miekg.Msg) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != major || r.URL.Path != "/dns-query" || r.Header.Get("Content-Type") != messageType {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		msg, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		w.Header().Set("Content-Type", messageType)
		w.Write(s.answer(t, msg, true, h))
	})
}

func serveHTTPS(t testing.TB, ca *authority, h func(*miekg.Msg, bool) *miekg.Msg) *secured {
	s := &secured{}
	ts := httptest.NewUnstartedServer(s.handler(t, 2, h))
	ts.Config.ErrorLog = log.New(io.Discard, "", 0)
	ts.TLS, ts.EnableHTTP2 = ca.config("h2"), true
	ts.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	ts.StartTLS()
	s.addr = ts.Listener.Addr().String()
	s.stop = sync.OnceFunc(func() { ts.CloseClientConnections(); ts.Close() })
	t.Cleanup(s.stop)
	return s
}

func serveHTTP3(t testing.TB, ca *authority, h func(*miekg.Msg, bool) *miekg.Msg) *secured {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &secured{addr: pc.LocalAddr().String()}
	srv := &http3.Server{TLSConfig: http3.ConfigureTLSConfig(ca.config()), Handler: s.handler(t, 3, h), ConnContext: func(ctx context.Context, _ *quic.Conn) context.Context {
		s.conns.Add(1)
		return ctx
	}}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(pc) }()
	s.stop = sync.OnceFunc(func() { srv.Close(); <-ended; pc.Close() })
	t.Cleanup(s.stop)
	return s
}

func serveQUIC(t testing.TB, ca *authority, h func(*miekg.Msg, bool) *miekg.Msg) *secured {
	return serveQUICAt(t, "127.0.0.1:0", ca, h)
}

func serveQUICAt(t testing.TB, addr string, ca *authority, h func(*miekg.Msg, bool) *miekg.Msg) *secured {
	pc, err := net.ListenPacket("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	tr := &quic.Transport{Conn: pc}
	ln, err := tr.Listen(ca.config("doq"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &secured{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			c, err := ln.Accept(ctx)
			if err != nil {
				return
			}
			s.conns.Add(1)
			wg.Go(func() {
				defer c.CloseWithError(0, "")
				for {
					str, err := c.AcceptStream(ctx)
					if err != nil {
						return
					}
					msg, err := io.ReadAll(str)
					if err != nil || len(msg) < 2+headerSize {
						continue
					}
					out := s.answer(t, msg[2:], true, h)
					str.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
					str.Close()
				}
			})
		}
	})
	s.stop = sync.OnceFunc(func() { cancel(); wg.Wait(); ln.Close(); tr.Close(); pc.Close() })
	t.Cleanup(s.stop)
	return s
}

type encryptedTransport struct {
	scheme string
	serve  func(testing.TB, *authority, func(*miekg.Msg, bool) *miekg.Msg) *secured
}

var encryptedTransports = func() []encryptedTransport {
	all := []encryptedTransport{{"tls", serveTLS}, {"https", serveHTTPS}, {"h3", serveHTTP3}, {"quic", serveQUIC}}
	if release.Small { // which lacks QUIC
		return all[:2]
	}
	return all
}()

func TestEncryptedTransports(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	for _, x := range encryptedTransports {
		t.Run(x.scheme, func(t *testing.T) {
			s := x.serve(t, ca, says("192.0.2.1"))
			f := start(t, Config{Upstreams: []string{x.scheme + "://" + s.addr + "#dns.test"}, CA: setting.File(ca.file)})
			var wg sync.WaitGroup
			get(f, "first.example") // connects
			for i := range 50 {
				wg.Go(func() {
					if got := get(f, fmt.Sprintf("h%d.example.com", i)); got != "192.0.2.1" {
						t.Errorf("got address %s, want 192.0.2.1", got)
					}
				})
			}
			wg.Wait()
			if n := s.conns.Load(); n != 1 {
				t.Errorf("%d connections for 51 queries, want 1", n)
			}
			if n := s.odd.Load(); n != 0 {
				t.Errorf("%d queries without padding, or with an ID other than 0", n)
			}
			for what, c := range map[string]Config{
				"another root":   {Upstreams: []string{x.scheme + "://" + s.addr + "#dns.test"}, CA: setting.File(other.file)},
				"another name":   {Upstreams: []string{x.scheme + "://" + s.addr + "#dns.example"}, CA: setting.File(ca.file)},
				"no name at all": {Upstreams: []string{x.scheme + "://" + s.addr}, CA: setting.File(ca.file)},
				"another key":    {Upstreams: []string{x.scheme + "://" + s.addr + "?pin=" + other.pin}},
			} {
				if got := get(start(t, c), "example.com"); !strings.HasPrefix(got, "error: ") {
					t.Errorf("%s: got %s, want an error", what, got)
				}
			}
			if got := get(start(t, Config{Upstreams: []string{x.scheme + "://" + s.addr + "?pin=" + ca.pin}}), "example.com"); got != "192.0.2.1" {
				t.Errorf("server with the pinned key: got %s, want 192.0.2.1", got)
			}
		})
	}
}

func TestLostConnectionsAreMadeAgain(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, x := range encryptedTransports {
		t.Run(x.scheme, func(t *testing.T) {
			t.Parallel()
			s := x.serve(t, ca, says("192.0.2.1"))
			where := x.scheme + "://" + s.addr + "#dns.test"
			f := start(t, Config{Upstreams: []string{where}, CA: setting.File(ca.file), Timeout: setting.Duration(500 * time.Millisecond)})
			waittest.Until(t, "an answer", func() bool { return get(f, "example.com") == "192.0.2.1" })
			s.stop()
			get(f, "while.it.is.gone.example")
			if x.scheme == "quic" {
				serveQUICAt(t, s.addr, ca, says("192.0.2.2"))
				waittest.Until(t, "an answer of the new server", func() bool { return get(f, "example.com") == "192.0.2.2" })
			}
			if x.scheme == "tls" { // the same port again
				ln, err := net.Listen("tcp", s.addr)
				if err != nil {
					t.Fatal(err)
				}
				tl := tls.NewListener(ln, ca.config("dot"))
				srv := &miekg.Server{Listener: tl, Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, q *miekg.Msg) { w.WriteMsg(says("192.0.2.2")(q, true)) })}
				ended := make(chan error, 1)
				go func() { ended <- srv.ActivateAndServe() }()
				t.Cleanup(func() { srv.Shutdown(); <-ended })
				waittest.Until(t, "an answer of the new server", func() bool { return get(f, "example.com") == "192.0.2.2" })
			}
		})
	}
}

func TestNamesOfUpstreamsAreLookedUpAtBootstrap(t *testing.T) {
	ca := newAuthority(t)
	up := serveTLS(t, ca, says("192.0.2.1"))
	boot := serve(t, func(q *miekg.Msg, tcp bool) *miekg.Msg {
		if q.Question[0].Qtype == miekg.TypeA && strings.EqualFold(q.Question[0].Name, "dns.test.") {
			return says("127.0.0.1")(q, tcp)
		}
		return new(miekg.Msg).SetRcode(q, miekg.RcodeNameError)
	})
	_, port, _ := net.SplitHostPort(up.addr)
	f := start(t, Config{Upstreams: []string{"tls://dns.test:" + port}, Bootstrap: []string{boot.addr}, CA: setting.File(ca.file)})
	for range 3 {
		if got := get(f, "example.com"); got != "192.0.2.1" {
			t.Fatalf("upstream by name: got %s, want 192.0.2.1", got)
		}
	}
	if n := boot.queries.Load(); n != 2 {
		t.Errorf("%d questions to the bootstrap server, want 2 (A and AAAA)", n)
	}
	// A host given with its address needs no lookup.
	fixed := start(t, Config{Upstreams: []string{"tls://dns.test:" + port + "#127.0.0.1"}, Bootstrap: []string{boot.addr}, CA: setting.File(ca.file)})
	if got := get(fixed, "example.com"); got != "192.0.2.1" || boot.queries.Load() != 2 {
		t.Errorf("host with its address: got %s, and %d queries to the bootstrap server", got, boot.queries.Load())
	}
}
