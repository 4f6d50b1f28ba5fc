package state

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/rueidis"

	"shuultuur/filter"
)

// Redis says how to reach a Redis or Valkey: one server, the master that
// Sentinels name, or a cluster.
type Redis struct {
	// Addresses are host:port of the server, or of some Sentinels, or of some
	// nodes of the cluster: the others are learned from these.
	Addresses []string `yaml:"addresses"`
	Sentinel  string   `yaml:"sentinel"` // name of the master that the Sentinels watch
	Cluster   bool     `yaml:"cluster"`
	Username  string   `yaml:"username"` // of an ACL; "" is the default user
	Password  string   `yaml:"password"`
	DB        int      `yaml:"db"`  // number of the database; a cluster has 0 only
	TLS       *TLS     `yaml:"tls"` // plain TCP unless given
	// Prefix stands before every key, so that several fleets can use one
	// server; "shuultuur:" unless given.
	Prefix string `yaml:"prefix"`
	// Wait bounds what one request waits for an answer; 20 ms unless given.
	Wait time.Duration `yaml:"wait"`
}

// TLS says whom to trust. An empty one trusts whom the system trusts.
type TLS struct {
	CA   string `yaml:"ca"`   // PEM file: who signed the server's certificate
	Cert string `yaml:"cert"` // PEM files: who we are, where the server asks
	Key  string `yaml:"key"`
	Name string `yaml:"name"` // in the server's certificate, when it is not its address
}

const (
	// dialTimeout and silence bound how long a server that does not answer is
	// waited for before its connection is given up, and with it what waits.
	dialTimeout = 2 * time.Second
	silence     = 2 * time.Second
	// connBuffer is for each direction of a connection; the library's half a
	// MiB is for more than we send.
	connBuffer = 64 << 10
)

// Option checks the settings and makes the library's of them. Paths in them
// are relative to dir. A mistake is a [filter.SettingError].
func (r Redis) Option(dir string) (o rueidis.ClientOption, err error) {
	if len(r.Addresses) == 0 {
		return o, filter.Setting("addresses", errors.New(`give where Redis listens, like ["127.0.0.1:6379"]`))
	}
	for i, a := range r.Addresses {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return o, filter.Setting(fmt.Sprintf("addresses[%d]", i), fmt.Errorf(`%q is not host:port, like "127.0.0.1:6379"`, a))
		}
	}
	if r.Wait < 0 || r.Wait > time.Second {
		return o, filter.Setting("wait", fmt.Errorf("%v: nobody wants to wait longer than a second for each request", r.Wait))
	}
	switch {
	case r.Sentinel != "" && r.Cluster:
		return o, filter.Setting("cluster", errors.New("a cluster has no Sentinels; leave out one of cluster and sentinel"))
	case len(r.Addresses) > 1 && !r.Cluster && r.Sentinel == "":
		return o, filter.Setting("addresses", errors.New("several addresses are those of a cluster or of Sentinels: write cluster: true, or sentinel: with the name of the master"))
	case r.DB < 0 || r.DB > 0 && r.Cluster:
		return o, filter.Setting("db", fmt.Errorf("there is no database %d; a cluster has 0 only", r.DB))
	}
	o = rueidis.ClientOption{
		InitAddress:         r.Addresses,
		Username:            r.Username,
		Password:            r.Password,
		SelectDB:            r.DB,
		ClientName:          "shuultuur",
		Sentinel:            rueidis.SentinelOption{MasterSet: r.Sentinel, TopologyRefreshInterval: 5 * time.Second},
		ForceSingleClient:   !r.Cluster && r.Sentinel == "",
		Dialer:              net.Dialer{Timeout: dialTimeout, KeepAlive: silence / 2},
		ConnWriteTimeout:    silence,
		ReadBufferEachConn:  connBuffer,
		WriteBufferEachConn: connBuffer,
		CacheSizeEachConn:   defaultSize,
		PipelineMultiplex:   -1, // one connection to a node: what many ask goes in one write
		AlwaysPipelining:    true,
	}
	if r.TLS != nil {
		if o.TLSConfig, err = r.TLS.config(dir); err != nil {
			return o, filter.Setting("tls", err)
		}
		o.Sentinel.TLSConfig = o.TLSConfig
	}
	return o, nil
}

func (t *TLS) config(dir string) (*tls.Config, error) {
	path := func(p string) string { return within(dir, p) }
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.Name}
	if t.CA != "" {
		pem, err := os.ReadFile(path(t.CA))
		if err != nil {
			return nil, filter.Setting("ca", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, filter.Setting("ca", fmt.Errorf("%q holds no certificate in PEM", t.CA))
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, filter.Setting("cert", errors.New("a certificate needs its key, and a key its certificate: give cert and key"))
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(path(t.Cert), path(t.Key))
		if err != nil {
			return nil, filter.Setting("cert", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// within makes a relative path stand on dir.
func within(dir, p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(dir, p)
}

// Connect connects. It fails when nothing answers; who has to go on without
// tries again later. Paths in the settings are relative to dir.
func (r Redis) Connect(dir string) (rueidis.Client, error) {
	o, err := r.Option(dir)
	if err != nil {
		return nil, err
	}
	c, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("connecting to Redis at %v: %w", r.Addresses, err)
	}
	return c, nil
}
