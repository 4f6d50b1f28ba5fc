package redis_test

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

	"shuultuur/lib/redis"
	"shuultuur/lib/setting"
	"shuultuur/test/peer"
	"shuultuur/test/redistest"
)

// connect makes a client that the end of the test closes.
func connect(t testing.TB, cfg redis.Config, opt redis.Options) *redis.Client {
	t.Helper()
	c, err := redis.Connect(t.Context(), cfg, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// at returns the settings for one server.
func at(addr string) redis.Config { return redis.Config{Addresses: []string{addr}} }

// do sends one command and returns the reply. The test ends on an error.
func do(t testing.TB, c *redis.Client, words ...string) redis.Reply {
	t.Helper()
	var b redis.Batch
	b.Add(words...)
	if err := c.Do(t.Context(), &b); err != nil {
		t.Fatalf("%.200s: %v", strings.Join(words, " "), err)
	}
	return b.Reply(0)
}

func TestConnects(t *testing.T) {
	t.Parallel()
	files := certificate(t)
	for name, start := range map[string]func(t *testing.T) redis.Config{
		"to one server": func(t *testing.T) redis.Config {
			return redis.Config{Addresses: []string{redistest.Start(t).Addr}, DB: 3}
		},
		"to Valkey": func(t *testing.T) redis.Config { return at(redistest.StartValkey(t).Addr) },
		"with a password": func(t *testing.T) redis.Config {
			return redis.Config{Addresses: []string{redistest.Start(t, "--requirepass", "secret").Addr}, Password: "secret"}
		},
		"as a user of an ACL": func(t *testing.T) redis.Config {
			s := redistest.Start(t)
			s.Do(t, "ACL", "SETUSER", "gateway", "on", ">secret", "~shuultuur:*", "&shuultuur:*", "+@all", "-@dangerous")
			return redis.Config{Addresses: []string{s.Addr}, Username: "gateway", Password: "secret"}
		},
		"through a Sentinel": func(t *testing.T) redis.Config {
			return redis.Config{Addresses: []string{redistest.StartSentinel(t, redistest.Start(t), "fleet").Addr}, Sentinel: "fleet"}
		},
		"to a cluster": func(t *testing.T) redis.Config {
			return redis.Config{Addresses: []string{redistest.StartCluster(t, 3)[1].Addr}, Cluster: true}
		},
		"over TLS that wants a certificate": func(t *testing.T) redis.Config {
			port := peer.Port(t)
			redistest.Start(t, "--tls-port", port, "--tls-cert-file", string(files.Cert), "--tls-key-file", string(files.Key), "--tls-ca-cert-file", string(files.CA), "--tls-auth-clients", "yes")
			return redis.Config{Addresses: []string{"127.0.0.1:" + port}, TLS: files}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connect(t, start(t), redis.Options{})
			do(t, c, "SET", "shuultuur:a", "b")
			if got, err := do(t, c, "GET", "shuultuur:a").Text(); err != nil || got != "b" {
				t.Errorf("GET: got %q, %v; want b", got, err)
			}
			s := c.Session(t.Context(), 100)
			defer s.Close()
			if err := s.Strings(1, func(_ int, b []byte) []byte { return append(b, "shuultuur:a"...) }, func(_ int, v []byte) error {
				if string(v) != "b" {
					t.Errorf("GET in a session: got %q, want b", v)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRefusesToConnect(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	for name, c := range map[string]struct {
		cfg  redis.Config
		want string
	}{
		"where nothing listens":      {at("127.0.0.1:" + peer.Port(t)), "refused"},
		"without the password":       {at(s.Addr), "NOAUTH"},
		"with the wrong password":    {redis.Config{Addresses: []string{s.Addr}, Password: "guess"}, "WRONGPASS"},
		"in plain where TLS is said": {redis.Config{Addresses: []string{s.Addr}, TLS: &redis.TLS{}}, "connecting to Redis"},
		"as a cluster":               {redis.Config{Addresses: []string{s.Addr}, Password: "secret", Cluster: true}, "cluster"},
		"as a Sentinel":              {redis.Config{Addresses: []string{redistest.Start(t).Addr}, Sentinel: "x"}, "SENTINEL"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := redis.Connect(t.Context(), c.cfg, redis.Options{})
			if err == nil {
				got.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one about %q", err, c.want)
			}
		})
	}
}

func TestMistakesInSettingsAreNamed(t *testing.T) {
	one := []string{"127.0.0.1:6379"}
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]redis.Config{
		"addresses: ":        {},
		"addresses[0]: ":     {Addresses: []string{"127.0.0.1"}},
		"addresses: several": {Addresses: []string{"a:1", "b:2"}},
		"cluster: ":          {Addresses: one, Cluster: true, Sentinel: "x"},
		"db: ":               {Addresses: one, Cluster: true, DB: 1},
		"tls.ca: open":       {Addresses: one, TLS: &redis.TLS{CA: "none.pem"}},
		"tls.ca: \"":         {Addresses: one, TLS: &redis.TLS{CA: setting.File(empty)}},
		"tls.cert: a":        {Addresses: one, TLS: &redis.TLS{Cert: "a.pem"}},
		"tls.cert: open":     {Addresses: one, TLS: &redis.TLS{Cert: "a.pem", Key: "a.key"}},
	} {
		if err := cfg.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Check of %+v: got error %v, want %s…", cfg, err, want)
		}
	}
}

// certificate makes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T) *redis.TLS {
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
	return &redis.TLS{CA: setting.File(cert), Cert: setting.File(cert), Key: setting.File(write("key.pem", "PRIVATE KEY", pkcs))}
}
