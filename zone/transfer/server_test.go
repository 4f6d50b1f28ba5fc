package transfer_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/nameserver"
	"shuultuur/zone"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

const keyName = "to-peer.example."

var secret = base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two bytes, ok"))

// A server is ours, on free ports of the loopback, with UDP and TCP, and TLS.
type server struct {
	*transfer.Server
	addr netip.AddrPort
	tls  netip.AddrPort
	cert string
}

func (s *server) port() string { return fmt.Sprint(s.addr.Port()) }

// start runs a server until the test ends.
func start(t testing.TB, c transfer.Config) *server {
	t.Helper()
	s, stop := startAt(t, c, "127.0.0.1:0")
	t.Cleanup(stop)
	return s
}

// startAt runs a server at an address until it is stopped, which saves its
// state, as the gateway does.
func startAt(t testing.TB, c transfer.Config, at string) (_ *server, stop func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	zones := zone.NewResponder()
	transfers, err := transfer.New(c, zones, nil, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	settings := listening(t, at)
	names, err := nameserver.New(settings, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	names.SetResponders(transfers, answerer{transfers, zones})
	if err := names.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = transfers.Run(ctx) })
	wg.Go(func() { _ = names.Run(ctx) })
	return &server{transfers, names.Addrs(dns.TCP)[0], names.Addrs(dns.TLS)[0], string(settings.Cert)}, func() {
		cancel()
		wg.Wait()
		transfers.Save()
	}
}

// answerer combines the zones, which answer, and the publisher, which does the
// rest.
type answerer struct {
	*transfer.Server
	*zone.Responder
}

// listening returns the settings of a server at an address, with a certificate
// for serverName.
func listening(t testing.TB, at string) nameserver.Config {
	t.Helper()
	c := nameserver.Config{Listen: []string{at}, TLS: []string{"127.0.0.1:0"}}
	cert, key := certificate(t, t.TempDir())
	c.Cert, c.Key = setting.File(cert), setting.File(key)
	return c
}

const serverName = "ns.example"

// certificate writes a self-signed certificate and its key.
func certificate(t testing.TB, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = write(t, dir, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return cert, write(t, dir, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

func read(t testing.TB, origin, text string) *zone.Zone {
	t.Helper()
	z, err := zone.Read(strings.NewReader(text), origin, "")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func publish(t testing.TB, s *server, z *zone.Zone, signer *sign.Signer) {
	t.Helper()
	if signer != nil {
		z.Signer = signer
	}
	if err := s.Publish(t.Context(), z); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// query asks a server over UDP; nil when it does not answer.
func query(addr, name string, typ uint16) *miekg.Msg {
	m := new(miekg.Msg)
	m.SetQuestion(name, typ)
	m.SetEdns0(4096, false)
	m.AuthenticatedData = true // say whether it is secure
	c := miekg.Client{Timeout: time.Second}
	reply, _, err := c.Exchange(m, addr)
	if err != nil {
		return nil
	}
	return reply
}

// serial returns a server's serial number of example.com., or 0.
func serial(addr string) uint32 {
	if m := query(addr, "example.com.", miekg.TypeSOA); m != nil {
		for _, rr := range m.Answer {
			if soa, ok := rr.(*miekg.SOA); ok {
				return soa.Serial
			}
		}
	}
	return 0
}

// zoneOf returns a zone with a serial number and n names.
func zoneOf(t testing.TB, serial, n int) *zone.Zone {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "$TTL 300\n@ SOA ns1 hostmaster %d 3600 600 86400 300\n@ NS ns1\nns1 A 192.0.2.1\n*.wild TXT \"x\"\n", serial)
	for i := range n {
		fmt.Fprintf(&b, "host%d A 198.51.100.%d\n", i, i%256)
	}
	return read(t, "example.com.", b.String())
}
