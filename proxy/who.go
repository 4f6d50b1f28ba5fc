package proxy

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"net/netip"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// A proof is a client's credentials on its connection. Browsers send a Kerberos ticket with
// the first request of a connection, and expect it to be valid for the following ones (RFC
// 4559).
type proof struct {
	certificate *x509.Certificate // of TLS to the proxy, verified
	ticket      [sha256.Size]byte // of the field with the ticket
	client      filter.Client     // the proved client; its Addr is invalid if there is none
	ours        string            // proves us to the client, in the response to this request
}

// append appends the field that proves us to the client (RFC 4559 section 4.1), if the client
// requested it.
func (p *proof) append(head []byte) []byte {
	if p.ours == "" {
		return head
	}
	return append(append(append(head, "Proxy-Authenticate: "...), p.ours...), "\r\n"...)
}

// identifyClient returns the client: as named by the trusted proxy in front, by the
// certificate or ticket of the connection, or by address and password.
func identifyClient(x *request, addr netip.Addr) (filter.Client, error) {
	known, auth := x.eng.Identifier, x.q.Get("Proxy-Authorization")
	if known == nil {
		return x.eng.Identify(x.ctx, addr, auth)
	}
	ambiguous := false
	if x.trusted && len(x.ex.Private) > 0 {
		c, note, ok := known.ForwardedClient(x.ctx, addr, func(name string) []string { return values(x.q, name) })
		if ok {
			return c, nil
		}
		if ambiguous = note != ""; ambiguous {
			x.ex.Note(note)
		}
	}
	if p := x.proof.certificate; p != nil {
		if c, ok := known.CertifiedClient(x.ctx, addr, p); ok {
			return c, nil
		}
	}
	if was := &x.proof.client; was.Addr.IsValid() {
		if was.Addr == addr && (auth == nil || sha256.Sum256(auth) == x.proof.ticket) {
			if c, ok := known.IdentifyAgain(x.ctx, *was); ok {
				return c, nil
			}
		}
		x.proof.client = filter.Client{}
	}
	c, err := x.eng.Identify(x.ctx, addr, auth)
	x.proof.ours, c.Proof = c.Proof, ""
	c.Unknown = c.Unknown || ambiguous && c.User == "" // it is somebody, and nobody knows who
	// A connection of a trusted proxy carries requests of many clients.
	if err == nil && c.Source == "kerberos" && !x.trusted && len(auth) > 9 && bytes.EqualFold(auth[:9], []byte("Negotiate")) {
		x.proof.client, x.proof.ticket = c, sha256.Sum256(auth)
	}
	return c, err
}

// values returns the values of a field of the request.
func values(q *message.Request, name string) (all []string) {
	for _, f := range q.Fields {
		if len(f.Name) == len(name) && strings.EqualFold(string(f.Name), name) {
			all = append(all, string(f.Value))
		}
	}
	return all
}
