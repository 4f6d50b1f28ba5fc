package state

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/peertest"
	"shuultuur/state/redistest"
)

func TestConnects(t *testing.T) {
	t.Parallel()
	files := certificate(t)
	for name, make := range map[string]func(t *testing.T) Redis{
		"to one server": func(t *testing.T) Redis {
			return Redis{Addresses: []string{redistest.Start(t).Addr}, DB: 3}
		},
		"with a password": func(t *testing.T) Redis {
			return Redis{Addresses: []string{redistest.Start(t, "--requirepass", "secret").Addr}, Password: "secret"}
		},
		"as a user of an ACL": func(t *testing.T) Redis {
			s := redistest.Start(t)
			s.Do(t, "ACL", "SETUSER", "gateway", "on", ">secret", "~shuultuur:*", "&shuultuur:*", "+@all", "-@dangerous")
			return Redis{Addresses: []string{s.Addr}, Username: "gateway", Password: "secret"}
		},
		"through a Sentinel": func(t *testing.T) Redis {
			return Redis{Addresses: []string{redistest.StartSentinel(t, redistest.Start(t), "fleet").Addr}, Sentinel: "fleet"}
		},
		"to a cluster": func(t *testing.T) Redis {
			return Redis{Addresses: []string{redistest.StartCluster(t, 3)[1].Addr}, Cluster: true}
		},
		"over TLS that wants a certificate": func(t *testing.T) Redis {
			port := peertest.Port(t)
			redistest.Start(t, "--tls-port", port, "--tls-cert-file", files.Cert, "--tls-key-file", files.Key, "--tls-ca-cert-file", files.CA, "--tls-auth-clients", "yes")
			return Redis{Addresses: []string{"127.0.0.1:" + port}, TLS: files}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := make(t).Connect("")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Do(t.Context(), c.B().Set().Key("shuultuur:a").Value("b").Build()).Error(); err != nil {
				t.Fatal(err)
			}
			if got, err := c.Do(t.Context(), c.B().Get().Key("shuultuur:a").Build()).ToString(); err != nil || got != "b" {
				t.Errorf("got %q, %v; want b", got, err)
			}
		})
	}
}

func TestRefusesToConnect(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	for name, r := range map[string]Redis{
		"where nothing listens":      {Addresses: []string{"127.0.0.1:" + peertest.Port(t)}},
		"with the wrong password":    {Addresses: []string{s.Addr}, Password: "guess"},
		"in plain where TLS is said": {Addresses: []string{s.Addr}, TLS: &TLS{}},
	} {
		t.Run(name, func(t *testing.T) {
			if c, err := r.Connect(""); err == nil {
				c.Close()
				t.Error("connected")
			}
		})
	}
}

func TestMistakesInSettingsAreNamed(t *testing.T) {
	one := []string{"127.0.0.1:6379"}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "empty.pem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]Redis{
		"addresses: ":           {},
		"addresses[0]: ":        {Addresses: []string{"127.0.0.1"}},
		"addresses: several":    {Addresses: []string{"a:1", "b:2"}},
		"cluster: ":             {Addresses: one, Cluster: true, Sentinel: "x"},
		"db: ":                  {Addresses: one, Cluster: true, DB: 1},
		"tls.ca: open":          {Addresses: one, TLS: &TLS{CA: "none.pem"}},
		"tls.ca: \"empty.pem\"": {Addresses: one, TLS: &TLS{CA: "empty.pem"}},
		"tls.cert: a":           {Addresses: one, TLS: &TLS{Cert: "a.pem"}},
		"tls.cert: open":        {Addresses: one, TLS: &TLS{Cert: "a.pem", Key: "a.key"}},
	} {
		if _, err := r.Option(dir); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: error %v, want %s…", r, err, want)
		}
	}
}

// certificate makes a certificate for 127.0.0.1 that signs itself.
func certificate(t *testing.T) *TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert := write("cert.pem", "CERTIFICATE", der)
	return &TLS{CA: cert, Cert: cert, Key: write("key.pem", "PRIVATE KEY", pkcs)}
}
