// Package syslog sends events to a log server (RFC 5424), over UDP (RFC 5426), TCP (RFC 6587,
// octet counting or lines) or TLS (RFC 5425), as structured data, as CEF or as JSON of the Elastic
// Common Schema.
//
// Data moves as follows: [Store.Write] formats a batch (format.go) and sends it on a connection
// that is made on demand. If the server cannot be reached, the whole batch fails, and the log
// keeps it for the next attempt, within its queue and its spool. The server does not
// acknowledge events over TCP. So events sent in the last half minute before a connection ended
// are sent again on the next one ([Store.sent]), and may arrive twice; receivers recognise them
// by their IDs. A connection is given up if the server's system acknowledges nothing. Events
// lost over UDP are lost.
package syslog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/lib/setting"
)

const (
	wait       = 5 * time.Second  // timeout for connecting, and for a batch
	facility   = 13               // log audit
	maxMessage = 8 << 10          // most bytes of a message, the default of rsyslog; longer values are cut
	maxAgain   = 8 << 20          // bytes that are kept for sending again …
	sentFor    = 30 * time.Second // … and how long the server may leave received bytes unread
)

// Config sets the log server to which events are sent.
type Config struct {
	To     string       `yaml:"to"`     // udp://host:port, tcp://host:port or tls://host:port
	Format string       `yaml:"format"` // rfc5424, which is the default, cef or ecs
	CA     setting.File `yaml:"ca"`     // PEM file with the roots of the server's certificate; default the system's
	// Framing says where a message in a stream ends (RFC 6587 section 3.4): octets, which is the
	// default, puts its length before it, lines a line feed behind it, for servers that know no lengths.
	Framing string `yaml:"framing"`
}

// Open implements [event.Setting]. It does not connect.
func (c *Config) Open(event.Opening) ([]event.Store, error) { return event.Only(Open(*c)) }

// A Store sends events to one server.
type Store struct {
	network, address string
	format           func(dst []byte, r *event.Row) []byte
	tls              *tls.Config // nil: plain
	roots            *setting.Renewed[*x509.CertPool]
	host             string
	lines            bool // a line feed ends a message
	conn             net.Conn
	buf, msg         []byte
	sent             []batch   // sent over TCP, oldest first: the server may not have read them
	stuck            time.Time // since when the server's system has unacknowledged bytes; zero if it has none
}

// A batch is the data of one write.
type batch struct {
	at    time.Time
	bytes []byte
}

// Open reads the settings. It does not connect.
func Open(cfg Config) (*Store, error) {
	u, err := url.Parse(cfg.To)
	if err != nil || u.Hostname() == "" {
		return nil, setting.At("to", fmt.Errorf(`%q is not a log server; write it like "tcp://logs.example:514"`, cfg.To))
	}
	s := &Store{network: u.Scheme}
	port := u.Port()
	switch u.Scheme {
	case "udp", "tcp":
		if port == "" {
			port = "514"
		}
	case "tls":
		if port == "" {
			port = "6514"
		}
		s.network, s.tls = "tcp", &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	default:
		return nil, setting.At("to", fmt.Errorf("%q begins with none of udp://, tcp:// and tls://", cfg.To))
	}
	s.address = net.JoinHostPort(u.Hostname(), port)
	if cfg.CA != "" && s.tls == nil {
		return nil, setting.At("ca", errors.New("certificates are for tls:// only"))
	}
	if s.roots, err = setting.Renew(cfg.CA.Roots, cfg.CA); err != nil {
		return nil, setting.At("ca", err)
	}
	switch cfg.Format {
	case "", "rfc5424":
		s.format = appendStructured
	case "cef":
		s.format = appendCEF
	case "ecs":
		s.format = appendECS
	default:
		return nil, setting.At("format", fmt.Errorf("%q is none of rfc5424, cef and ecs", cfg.Format))
	}
	switch cfg.Framing {
	case "", "octets":
	case "lines":
		s.lines = true
	default:
		return nil, setting.At("framing", fmt.Errorf("%q is neither octets nor lines", cfg.Framing))
	}
	if cfg.Framing != "" && s.network == "udp" {
		return nil, setting.At("framing", errors.New("over udp:// each packet is a message; framing is for tcp:// and tls://"))
	}
	if s.host, err = os.Hostname(); err != nil || s.host == "" {
		s.host = "-"
	}
	return s, nil
}

// Name implements [event.Store].
func (s *Store) Name() string { return "syslog" }

// Write implements [event.Store].
func (s *Store) Write(ctx context.Context, rows []event.Row) error {
	if len(rows) == 0 {
		return nil
	}
	if err := s.send(ctx, rows); err != nil {
		if s.conn != nil {
			s.conn.Close()
			s.conn = nil
		}
		return fmt.Errorf("send %d events to the log server %s: %w", len(rows), s.address, err)
	}
	return nil
}

func (s *Store) send(ctx context.Context, rows []event.Row) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	s.buf = s.buf[:0]
	for i := range rows {
		s.msg = s.message(s.msg[:0], &rows[i])
		if s.network == "udp" {
			if _, err := s.conn.Write(s.msg); err != nil {
				return err
			}
			continue
		}
		if s.lines {
			s.buf = append(append(s.buf, s.msg...), '\n') // no format has one in a message
			continue
		}
		s.buf = append(strconv.AppendInt(s.buf, int64(len(s.msg)), 10), ' ')
		s.buf = append(s.buf, s.msg...)
	}
	if s.network == "udp" {
		return nil
	}
	if _, err := s.conn.Write(s.buf); err != nil {
		return err
	}
	s.remember(s.buf)
	return nil
}

// message appends an event as one message. If it is too long, its longest
// values are cut.
func (s *Store) message(dst []byte, r *event.Row) []byte {
	msg := s.format(s.header(dst, r), r)
	if len(msg)-len(dst) <= maxMessage {
		return msg
	}
	short := *r
	for most := maxMessage / 4; len(msg)-len(dst) > maxMessage && most > 0; most /= 2 {
		for _, v := range []*string{&short.URL, &short.Evidence, &short.Note, &short.Rule} {
			if len(*v) > most {
				*v = strings.ToValidUTF8((*v)[:most], "") + "…"
			}
		}
		msg = s.format(s.header(dst, &short), &short)
	}
	return msg
}

// remember keeps a sent batch, and drops batches that the server must have read by
// now, and the oldest if there are too many.
func (s *Store) remember(b []byte) {
	now := time.Now()
	s.sent = append(s.sent, batch{now, slices.Clone(b)})
	size := 0
	for _, b := range s.sent {
		size += len(b.bytes)
	}
	for len(s.sent) > 0 && (size > maxAgain || s.stuck.IsZero() && now.Sub(s.sent[0].at) > sentFor) {
		size -= len(s.sent[0].bytes)
		s.sent = slices.Delete(s.sent, 0, 1)
	}
}

// isClosed reports whether the server has closed a connection. Log servers send
// nothing, so anything to read is the end.
func isClosed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// watch returns an error if the server's system has stopped acknowledging: a host that is gone
// sends nothing at all.
func (s *Store) watch() error {
	switch n := unacknowledged(s.conn); {
	case n == 0:
		s.stuck = time.Time{}
	case s.stuck.IsZero():
		s.stuck = time.Now()
	case time.Since(s.stuck) > wait:
		return fmt.Errorf("%d bytes are not acknowledged since %v: the server hangs, or is gone", n, time.Since(s.stuck).Round(time.Second))
	}
	return nil
}

// connect makes sure that there is a connection that the server has not closed.
func (s *Store) connect(ctx context.Context) error {
	if s.conn != nil && s.network == "tcp" {
		if isClosed(s.conn) {
			s.conn.Close()
			s.conn = nil
		} else if err := s.watch(); err != nil {
			return err
		}
	}
	if s.conn == nil {
		if err := s.dial(ctx); err != nil {
			return err
		}
	}
	return s.conn.SetWriteDeadline(time.Now().Add(wait))
}

// dial makes a connection and repeats the events that the server may not have read.
func (s *Store) dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, s.network, s.address)
	if err != nil {
		return err
	}
	if s.tls != nil {
		secure := s.tls.Clone()
		secure.RootCAs = s.roots.Current()
		t := tls.Client(c, secure)
		if err := t.HandshakeContext(ctx); err != nil {
			c.Close()
			return fmt.Errorf("TLS: %w", err)
		}
		c = t
	}
	s.conn, s.stuck = c, time.Time{}
	for i := range s.sent {
		_ = c.SetWriteDeadline(time.Now().Add(wait)) // the next write returns the error
		if _, err := c.Write(s.sent[i].bytes); err != nil {
			return err
		}
		s.sent[i].at = time.Now()
	}
	return nil
}

// Close implements [event.Store].
func (s *Store) Close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}
