// Package redis is a client for Redis and Valkey: one server, the master that
// Sentinels name, or a cluster. It speaks RESP3 (Redis 6.0 and later).
//
// Data moves through it as follows. A [Batch] holds commands, already encoded.
// [Client.Do] finds the server that has their keys and appends the bytes to the
// output of the connection to it. One goroutine writes the commands that many
// callers have appended, a second one reads replies and hands them to the batches
// in the order in which the commands were sent. Replies stay as the bytes that
// arrived; a [Reply] decodes them when the caller asks. [Client.Subscribe] and
// [Client.Session] use separate connections, the first for Pub/Sub, the second to
// read large values piece by piece.
//
// A server is not trusted. The length of a line, the nesting and the size of a
// reply are bounded, and memory is taken as bytes arrive, not as lengths announce
// them. A reply that breaks the protocol, or that no command asked for, ends its
// connection with a [ProtocolError]. So does a server that is silent, or that
// sends a reply too slowly. Connections are opened again, with growing pauses
// between failures.
package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"shuultuur/lib/setting"
)

// Config sets how to reach a Redis or Valkey.
type Config struct {
	// Addresses are host:port of the server, or of some Sentinels, or of some
	// nodes of a cluster. The other ones are learned from these.
	Addresses setting.OneOrMore[string] `yaml:"addresses" secret:"url"`
	Sentinel  string                    `yaml:"sentinel"` // name of the master that the Sentinels watch
	Cluster   bool                      `yaml:"cluster"`
	Username  string                    `yaml:"username"` // of an ACL; default "default"
	Password  string                    `yaml:"password" secret:"yes"`
	DB        int                       `yaml:"db"`  // number of the database; a cluster has 0 only
	TLS       *TLS                      `yaml:"tls"` // default plain TCP
	// Prefix precedes every key, so that several users can share one server.
	Prefix string `yaml:"prefix"`
}

// TLS sets which certificates to trust and to present. By default the system's roots are
// trusted.
type TLS struct {
	CA   setting.File `yaml:"ca"`   // PEM file of the authorities for the server's certificate
	Cert setting.File `yaml:"cert"` // PEM files of our certificate, if the server requests one
	Key  setting.File `yaml:"key"`
	Name string       `yaml:"name"` // name in the server's certificate, if it differs from the address
}

// clientName is shown by CLIENT LIST on the server.
const clientName = "shuultuur"

// Check finds mistakes, also in files. Errors name the key.
func (c *Config) Check() error {
	_, err := c.tls()
	return err
}

// tls returns the TLS settings, built again when their files have changed; nil
// without TLS.
func (c *Config) tls() (*setting.Renewed[*tls.Config], error) {
	if len(c.Addresses) == 0 {
		return nil, setting.At("addresses", errors.New(`give where Redis listens, such as ["127.0.0.1:6379"]`))
	}
	for i, a := range c.Addresses {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return nil, setting.At(fmt.Sprintf("addresses[%d]", i), fmt.Errorf(`%.100q is not host:port, such as "127.0.0.1:6379"`, a))
		}
	}
	switch {
	case c.Sentinel != "" && c.Cluster:
		return nil, setting.At("cluster", errors.New("a cluster has no Sentinels; leave out one of cluster and sentinel"))
	case len(c.Addresses) > 1 && !c.Cluster && c.Sentinel == "":
		return nil, setting.At("addresses", errors.New("several addresses need cluster: true, or sentinel: with the name of the master"))
	case c.DB < 0 || c.DB > 0 && c.Cluster:
		return nil, setting.At("db", fmt.Errorf("there is no database %d; a cluster has only database 0", c.DB))
	case c.TLS == nil:
		return nil, nil
	}
	t, err := setting.Renew(c.TLS.config, c.TLS.CA, c.TLS.Cert, c.TLS.Key)
	return t, setting.At("tls", err)
}

func (t *TLS) config() (*tls.Config, error) {
	roots, err := t.CA.Roots()
	if err != nil {
		return nil, setting.At("ca", err)
	}
	cfg := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, ServerName: t.Name}
	if (t.Cert == "") != (t.Key == "") {
		return nil, setting.At("cert", errors.New("a certificate needs its key, and a key its certificate: give cert and key"))
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(string(t.Cert), string(t.Key))
		if err != nil {
			return nil, setting.At("cert", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// Limits of waiting and buffering. A server that exceeds one loses its connection.
const (
	// dialTime bounds connecting, TLS and the first commands together.
	dialTime = 2 * time.Second
	// silence bounds the wait for a reply, and for each further 64 KiB of it.
	silence = 2 * time.Second
	// maxLine bounds a line of the protocol, such as an error.
	maxLine = 16 << 10
	// maxDepth bounds nesting. CLUSTER SLOTS has five levels.
	maxDepth = 8
	// maxReply bounds one reply, maxReplies those of one batch.
	maxReply   = 8 << 20
	maxReplies = 64 << 20
	// maxQueue bounds the batches that wait on a connection, maxOutput their unwritten bytes.
	maxQueue  = 10_000
	maxOutput = 64 << 20
	// readBuffer is the size of a read from the socket.
	readBuffer = 64 << 10
)

// An Error is a server's refusal of a command.
type Error struct {
	Code string // the first word, such as "WRONGTYPE"
	Text string // the whole text
}

func (e *Error) Error() string { return e.Text }

// Code returns the code of the [Error] in err, "" if there is none.
func Code(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// A ProtocolError is a reply that breaks the protocol or exceeds a limit.
type ProtocolError struct{ Text string }

func (e *ProtocolError) Error() string { return "not a valid reply of Redis: " + e.Text }

var (
	// ErrBusy means that too many commands are waiting for a server.
	ErrBusy = errors.New("too many commands wait for Redis")
	// ErrClosed means that the client is closed.
	ErrClosed = errors.New("the Redis client is closed")

	errSilent = fmt.Errorf("no reply within %v", silence)
)
