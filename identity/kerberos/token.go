package kerberos

import (
	"bytes"
	"encoding/asn1"
	"errors"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
	der "golang.org/x/crypto/cryptobyte/asn1"
)

var (
	oidSPNEGO = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 2}
	oidKRB5   = asn1.ObjectIdentifier{1, 2, 840, 113554, 1, 2, 2}
	oidMSKRB5 = asn1.ObjectIdentifier{1, 2, 840, 48018, 1, 2, 2} // a mistake of Windows 2000 that is still in use
	oidNTLM   = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 2, 10}
)

var (
	context0    = der.Tag(0).ContextSpecific().Constructed()
	context1    = der.Tag(1).ContextSpecific().Constructed()
	context2    = der.Tag(2).ContextSpecific().Constructed()
	context3    = der.Tag(3).ContextSpecific().Constructed()
	application = der.Tag(0x60)

	application15 = der.Tag(0x60 | 15)
	application27 = der.Tag(0x60 | 27)
)

// unwrap returns the AP-REQ in a token of "Negotiate". The token is SPNEGO, or
// plain Kerberos from some clients.
func unwrap(token []byte) ([]byte, wrapping, error) {
	var w wrapping
	switch {
	case len(token) == 0:
		return nil, w, errors.New("the token is empty")
	case len(token) > maxToken:
		return nil, w, fmt.Errorf("the token has %d bytes, at most %d are read", len(token), maxToken)
	case bytes.HasPrefix(token, []byte("NTLMSSP\x00")):
		return nil, w, ErrNTLM
	case token[0] == 0xa1:
		return resume(token)
	}
	oid, body, ok := mechanism(token)
	if !ok {
		return nil, w, errors.New("the token is neither SPNEGO nor Kerberos")
	}
	if !oid.Equal(oidSPNEGO) {
		raw, err := request(oid, body)
		return raw, wrapping{mechanism: oid}, err
	}
	var init, seq, mechs, inner cryptobyte.String
	s := cryptobyte.String(body)
	if !s.ReadASN1(&init, context0) || !init.ReadASN1(&seq, der.SEQUENCE) || !seq.ReadASN1(&mechs, context0) || !mechs.ReadASN1(&inner, der.SEQUENCE) {
		return nil, w, errors.New("the token does not say what it offers (SPNEGO NegTokenInit)")
	}
	var first asn1.ObjectIdentifier
	var offered asn1.ObjectIdentifier // of Kerberos
	ntlm := false
	for n := 0; !inner.Empty() && n < 32; n++ {
		var m asn1.ObjectIdentifier
		if !inner.ReadASN1ObjectIdentifier(&m) {
			return nil, w, errors.New("the token offers mechanisms that cannot be read")
		}
		if n == 0 {
			first = m
		}
		if m.Equal(oidKRB5) || m.Equal(oidMSKRB5) && offered == nil {
			offered = m
		}
		ntlm = ntlm || m.Equal(oidNTLM)
	}
	switch {
	case offered == nil && ntlm:
		return nil, w, ErrNTLM
	case offered == nil:
		return nil, w, errors.New("the token does not offer Kerberos")
	case !first.Equal(oidKRB5) && !first.Equal(oidMSKRB5): // the token in it is not ours
		return nil, w, counterProposal(offered, requestMIC)
	}
	for !seq.Empty() {
		var part, mech cryptobyte.String
		var tag der.Tag
		if !seq.ReadAnyASN1(&part, &tag) {
			break
		}
		if tag != context2 {
			continue
		}
		if !part.ReadASN1(&mech, der.OCTET_STRING) {
			break
		}
		if bytes.HasPrefix(mech, []byte("NTLMSSP\x00")) {
			return nil, w, ErrNTLM
		}
		oid, body, ok := mechanism(mech)
		if !ok {
			return nil, w, errors.New("the token in SPNEGO is not one of Kerberos")
		}
		raw, err := request(oid, body)
		return raw, wrapping{mechanism: oid, offered: first}, err
	}
	return nil, w, counterProposal(first, acceptIncomplete)
}

// States of a negotiation (RFC 4178, 4.2.2).
const (
	acceptCompleted  = 0
	acceptIncomplete = 1
	requestMIC       = 3 // the mechanism is not the client's first
)

// A Continue is the answer to a client that has begun to negotiate without a ticket: it says
// that Kerberos is taken. The client goes on with a token that has one.
type Continue struct{ Answer []byte }

func (c *Continue) Error() string {
	return "the client offers Kerberos and has sent no ticket yet: it is asked to go on"
}

// counterProposal returns the Continue that chooses a mechanism.
func counterProposal(mechanism asn1.ObjectIdentifier, state int64) error {
	b, err := build(func(b *cryptobyte.Builder) {
		b.AddASN1(context1, func(b *cryptobyte.Builder) { // NegTokenResp
			b.AddASN1(der.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1(context0, func(b *cryptobyte.Builder) { b.AddASN1Enum(state) })
				b.AddASN1(context1, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(mechanism) })
			})
		})
	})
	if err != nil {
		return err
	}
	return &Continue{b}
}

// resume returns the AP-REQ in the token of a client that goes on (NegTokenResp). Which mechanisms
// it has offered before is not remembered: its ticket proves as much as one in a first token.
func resume(token []byte) ([]byte, wrapping, error) {
	var resp, seq cryptobyte.String
	s := cryptobyte.String(token)
	if !s.ReadASN1(&resp, context1) || !resp.ReadASN1(&seq, der.SEQUENCE) {
		return nil, wrapping{}, errors.New("the token goes on with a negotiation and cannot be read (SPNEGO NegTokenResp)")
	}
	for !seq.Empty() {
		var part, mech cryptobyte.String
		var tag der.Tag
		if !seq.ReadAnyASN1(&part, &tag) {
			break
		}
		if tag != context2 {
			continue
		}
		if !part.ReadASN1(&mech, der.OCTET_STRING) {
			break
		}
		if bytes.HasPrefix(mech, []byte("NTLMSSP\x00")) {
			return nil, wrapping{}, ErrNTLM
		}
		oid, body, ok := mechanism(mech)
		if !ok {
			return nil, wrapping{}, errors.New("the token in SPNEGO is not one of Kerberos")
		}
		raw, err := request(oid, body)
		return raw, wrapping{mechanism: oid, resumed: true}, err
	}
	return nil, wrapping{}, errors.New("the token goes on with a negotiation and holds no ticket: the client has none for this service")
}

// mechanism parses a GSSAPI token (RFC 2743, 3.1).
func mechanism(token []byte) (oid asn1.ObjectIdentifier, body []byte, ok bool) {
	s := cryptobyte.String(token)
	var in cryptobyte.String
	if !s.ReadASN1(&in, application) || !in.ReadASN1ObjectIdentifier(&oid) {
		return nil, nil, false
	}
	return oid, in, true
}

// request returns the AP-REQ after its token identifier (RFC 4121, 4.1).
func request(oid asn1.ObjectIdentifier, body []byte) ([]byte, error) {
	switch {
	case oid.Equal(oidNTLM):
		return nil, ErrNTLM
	case !oid.Equal(oidKRB5) && !oid.Equal(oidMSKRB5):
		return nil, fmt.Errorf("the token is one of %v and not of Kerberos", oid)
	case len(body) < 2 || body[0] != 1 || body[1] != 0:
		return nil, errors.New("the token of Kerberos is no request to a service (AP-REQ)")
	}
	return body[2:], nil
}
