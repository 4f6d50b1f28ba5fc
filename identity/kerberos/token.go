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
		return nil, w, errors.New("the token goes on with a negotiation that we did not begin")
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
	kerberos, ntlm := false, false
	for n := 0; !inner.Empty() && n < 32; n++ {
		var m asn1.ObjectIdentifier
		if !inner.ReadASN1ObjectIdentifier(&m) {
			return nil, w, errors.New("the token offers mechanisms that cannot be read")
		}
		if n == 0 {
			first = m
		}
		kerberos = kerberos || m.Equal(oidKRB5) || m.Equal(oidMSKRB5)
		ntlm = ntlm || m.Equal(oidNTLM)
	}
	switch {
	case !kerberos && ntlm:
		return nil, w, ErrNTLM
	case !kerberos:
		return nil, w, errors.New("the token does not offer Kerberos")
	case !first.Equal(oidKRB5) && !first.Equal(oidMSKRB5):
		return nil, w, fmt.Errorf("the token prefers %v to Kerberos", first)
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
		return raw, wrapping{oid, first}, err
	}
	return nil, w, errors.New("the token offers Kerberos and holds no ticket: the client has none for this service")
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
