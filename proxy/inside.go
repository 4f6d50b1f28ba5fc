package proxy

import (
	"net/netip"
	"shuultuur/filter"
	"shuultuur/proxy/upstream"
	"sync/atomic"
)

// A tlsState is the state of a connection that was decrypted, was redirected to the
// gateway, or is a tunnel with unencrypted requests. Every request on it is a separate
// transaction.
type tlsState struct {
	scheme   string
	asked    string // in a tunnel without TLS: the host of CONNECT
	dial     string // the host to connect to: that of CONNECT
	host     string // the judged name: that of the hello, or else of CONNECT
	port     uint16
	tls      upstream.TLS   // properties of the client's hello
	orig     netip.AddrPort // original destination, according to the firewall
	client   filter.Client
	ja4      string           // of the hello, if needed
	opening  filter.Opening   // what was said first in the tunnel
	ech      bool             // the hello contained encrypted_client_hello
	findings []filter.Finding // faults of the origin's certificate, and findings of rules in the handshakes
	streams  bool             // the client uses HTTP/2
	errSeen  *atomic.Bool     // err was already sent as a response; shared by all streams
	err      error            // why the origin is unreachable, for the first request
	stranger bool             // the client still had to sign in when the connection began
	admitted error            // why the client is not identified; it reaches only hosts that need no sign-in. nil if it is
}

// name returns the name for our certificate.
func (d *tlsState) name() string {
	if d.tls.ServerName != "" {
		return d.tls.ServerName
	}
	return d.host
}

// addFindings stores findings in the handshakes for the following requests, which do not contain
// them.
func (d *tlsState) addFindings(found []filter.Finding) {
	for _, f := range found {
		if f.Check == filter.Signature {
			d.findings = append(d.findings, f)
		}
	}
}

// echAdvice explains a refusal if the name in the hello may not be the one that the client
// meant.
func (d *tlsState) echAdvice() string {
	if !d.ech {
		return ""
	}
	return "; its hello carried ECH: where that is not noise, the name was the outer one, and a name server that refuses HTTPS records with ech makes clients show the true one"
}

func (d *tlsState) pin() pin { return pin{d.client.Addr, d.name()} }
