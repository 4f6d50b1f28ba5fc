package nameserver

import (
	"crypto/tls"
	"net"
	"time"
)

// tlsConfigs are the settings of TLS for each transport. All connections of a
// transport share one, because it has the keys that resume sessions.
type tlsConfigs struct{ tls, https, quic *tls.Config }

func newTLSConfigs(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) tlsConfigs {
	return tlsConfigs{
		tls:   &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate, NextProtos: []string{"dot"}},
		https: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate, NextProtos: []string{"h2", "http/1.1", "acme-tls/1"}}, // the last for the challenges of a certificate's authority
		quic:  &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: certificate},
	}
}

// handshake reads the PROXY header and the TLS handshake of a connection.
func (s *Server) handshake(x *conn, cfg *tls.Config) (*tls.Conn, bool) {
	x.once.Do(x.header)
	if x.err != nil {
		return nil, false
	}
	x.gather = true
	c := tls.Server(x, cfg)
	x.Conn.SetReadDeadline(time.Now().Add(s.rules.Load().idle))
	if err := c.Handshake(); err != nil {
		s.drop(badFrame)
		return nil, false
	}
	x.Conn.SetReadDeadline(time.Time{})
	x.named = s.rules.Load().clientIDIn(c.ConnectionState().ServerName)
	return c, true
}

// port is the port that the client connected to.
func (x *conn) port() uint16 {
	a, _ := x.Conn.LocalAddr().(*net.TCPAddr)
	return a.AddrPort().Port()
}
