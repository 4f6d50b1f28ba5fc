package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A Pebble says how Let's Encrypt's server for tests behaves. Ports are those of 127.0.0.1.
type Pebble struct {
	HTTP, TLS string            // where it looks for answers to challenges
	DNS       string            // whom it asks for names
	Life      time.Duration     // of certificates; default 90 days
	Customers map[string]string // keys of accounts to which others must be bound; nil: none must

	Directory string // URL
	Root      string // file with the certificate of its own server
	manage    string
	client    *http.Client
	settings  string // file
	running   *exec.Cmd
}

// Start starts the server. One that was killed returns where it was, and knows nobody.
func (p *Pebble) Start(t testing.TB) {
	t.Helper()
	if p.settings == "" {
		p.prepare(t)
	}
	args := []string{"-config", p.settings}
	if p.DNS != "" {
		args = append(args, "-dnsserver", p.DNS)
	}
	p.running = command(Built(t, "pebble"), args...)
	p.running.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=20") // per cent of good nonces are refused
	start(t, p.running)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if res, err := p.client.Get(p.Directory); err == nil {
			res.Body.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal("pebble does not answer")
		}
	}
}

// Kill kills the server.
func (p *Pebble) Kill() {
	_ = p.running.Process.Kill()
	_, _ = p.running.Process.Wait() // its status does not matter
	p.client.CloseIdleConnections()
}

// prepare writes what the server reads.
func (p *Pebble) prepare(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p.Root = filepath.Join(dir, "root.pem")
	write := func(name string, data []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("root.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	life := p.Life
	if life == 0 {
		life = 90 * 24 * time.Hour
	}
	at := net.JoinHostPort("127.0.0.1", Port(t))
	p.manage = net.JoinHostPort("127.0.0.1", Port(t))
	settings, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": at, "managementListenAddress": p.manage, "certificate": p.Root, "privateKey": write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
		"httpPort": number(p.HTTP), "tlsPort": number(p.TLS), "externalAccountBindingRequired": p.Customers != nil, "externalAccountMACKeys": p.Customers,
		"retryAfter": map[string]int{"authz": 1, "order": 1}, "keyAlgorithm": "ecdsa",
		"profiles": map[string]any{"default": map[string]any{"description": "of tests", "validityPeriod": int(life.Seconds())}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.settings = write("settings.json", settings)
	roots := x509.NewCertPool()
	roots.AddCert(must(x509.ParseCertificate(der)))
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	p.Directory = "https://" + at + "/dir"
}

// Roots returns the root of the certificates that it gives.
func (p *Pebble) Roots(t testing.TB) *x509.CertPool {
	t.Helper()
	res, err := p.client.Get("https://" + p.manage + "/roots/0")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("pebble shows no root: %v", err)
	}
	return roots
}

func number(port string) json.Number {
	if port == "" {
		return "1"
	}
	return json.Number(port)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
