// Package syslog sends events to a log server (RFC 5424), over UDP (RFC 5426),
// TCP (RFC 6587, octets counted) or TLS (RFC 5425), as structured data, as CEF
// or as JSON of the Elastic Common Schema.
//
// Data moves so: [Store.Write] gets a batch, formats it (format.go) and sends it
// on a connection that is made when it is needed. When the server cannot be
// reached, the batch fails as a whole and the log keeps it for the next try, up
// to its queue and its spool. Nothing acknowledges events over TCP: the batch
// before a connection ended is sent again on the next one, and may arrive twice;
// events have IDs. Over UDP, what gets lost is lost.
package syslog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"shuultuur/event"
	"shuultuur/setting"
)

const (
	wait     = 5 * time.Second // to connect, and for a batch
	facility = 13              // log audit
	maxUDP   = 8 << 10         // bytes of a datagram; what is longer is cut
	maxAgain = 4 << 20         // bytes that are kept to be sent again
)

// A Store sends events to one server.
type Store struct {
	network, address string
	format           func(dst []byte, r *event.Row) []byte
	tls              *tls.Config
	host             string
	conn             net.Conn
	buf, msg         []byte
	last             []byte // what was sent last over TCP: the server may not have seen it
}

// Open reads the settings. It does not connect.
func Open(cfg event.Syslog) (*Store, error) {
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
	if cfg.CA != "" {
		if s.tls == nil {
			return nil, setting.At("ca", errors.New("certificates are for tls:// only"))
		}
		if s.tls.RootCAs, err = cfg.CA.Roots(); err != nil {
			return nil, setting.At("ca", err)
		}
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
		s.msg = s.format(s.header(s.msg[:0], &rows[i]), &rows[i])
		if s.network == "udp" {
			if _, err := s.conn.Write(s.msg[:min(len(s.msg), maxUDP)]); err != nil {
				return err
			}
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
	s.last = s.last[:0]
	if len(s.buf) <= maxAgain {
		s.last = append(s.last, s.buf...)
	}
	return nil
}

// connect makes sure that there is a connection, which the server has not
// closed meanwhile.
func (s *Store) connect(ctx context.Context) error {
	if s.conn != nil && s.network == "tcp" {
		_ = s.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := s.conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			s.conn.Close() // log servers say nothing, so this is the end
			s.conn = nil
		}
	}
	if s.conn == nil {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		var d net.Dialer
		c, err := d.DialContext(ctx, s.network, s.address)
		if err != nil {
			return err
		}
		if s.tls != nil {
			t := tls.Client(c, s.tls)
			if err := t.HandshakeContext(ctx); err != nil {
				c.Close()
				return fmt.Errorf("TLS: %w", err)
			}
			c = t
		}
		s.conn = c
		if len(s.last) > 0 { // the connection ended behind it, so nobody knows
			_ = c.SetWriteDeadline(time.Now().Add(wait)) // the write says what is wrong
			if _, err := c.Write(s.last); err != nil {
				return err
			}
		}
	}
	return s.conn.SetWriteDeadline(time.Now().Add(wait))
}

// Close implements [event.Store].
func (s *Store) Close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}
