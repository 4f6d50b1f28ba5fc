package traffic

import (
	"crypto/sha1"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"math/big"
	"strings"
	"time"
)

// lenient reads names, serial number and dates of a certificate that crypto/x509 refuses.
func (c *Certificate) lenient(der []byte) error {
	var outer, inner asn1.RawValue
	if _, err := asn1.Unmarshal(der, &outer); err != nil {
		return err
	}
	if _, err := asn1.Unmarshal(outer.Bytes, &inner); err != nil {
		return err
	}
	rest := inner.Bytes
	var parts []asn1.RawValue
	for len(rest) > 0 {
		var v asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &v); err != nil {
			break
		}
		if v.Class == asn1.ClassContextSpecific && len(parts) == 0 {
			continue // the version
		}
		parts = append(parts, v)
	}
	if len(parts) < 5 {
		return errors.New("certificate: it is truncated")
	}
	c.Serial = strings.ToUpper(colons(new(big.Int).SetBytes(parts[0].Bytes).Bytes()))
	c.Issuer, _ = distinguished(parts[2].FullBytes)
	var valid struct{ From, To time.Time }
	if _, err := asn1.Unmarshal(parts[3].FullBytes, &valid); err == nil {
		c.NotBefore, c.NotAfter = valid.From, valid.To
	}
	c.Subject, _ = distinguished(parts[4].FullBytes)
	return nil
}

// attributes are the short names of attributes in a distinguished name.
var attributes = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.7": "L", "2.5.4.8": "ST",
	"1.2.840.113549.1.9.1": "Email", "2.5.4.5": "serialNumber", "2.5.4.4": "SN", "2.5.4.42": "GN",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID", "2.5.4.12": "T", "2.5.4.9": "STREET",
	"2.5.4.17": "postalCode", "2.5.4.15": "businessCategory", "2.5.4.46": "dnQualifier",
	"1.3.6.1.4.1.311.60.2.1.3": "jurisdictionC", "1.3.6.1.4.1.311.60.2.1.2": "jurisdictionST", "1.3.6.1.4.1.311.60.2.1.1": "jurisdictionL",
}

// distinguished formats a name as "C=US, O=Example, CN=example.com", in the order of the
// certificate.
func distinguished(der []byte) (string, error) {
	var seq asn1.RawValue
	if _, err := asn1.Unmarshal(der, &seq); err != nil {
		return "", err
	}
	var out []string
	for rest := seq.Bytes; len(rest) > 0; {
		var set, pair asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &set); err != nil {
			return strings.Join(out, ", "), err
		}
		for in := set.Bytes; len(in) > 0; {
			if in, err = asn1.Unmarshal(in, &pair); err != nil {
				return strings.Join(out, ", "), err
			}
			var oid asn1.ObjectIdentifier
			value, err := asn1.Unmarshal(pair.Bytes, &oid)
			if err != nil {
				return strings.Join(out, ", "), err
			}
			var v asn1.RawValue
			if _, err := asn1.Unmarshal(value, &v); err != nil {
				return strings.Join(out, ", "), err
			}
			name := attributes[oid.String()]
			if name == "" {
				name = oid.String()
			}
			out = append(out, name+"="+string(v.Bytes))
		}
	}
	return strings.Join(out, ", "), nil
}

// A Certificate is a certificate in the text forms that rules compare.
type Certificate struct {
	DER                 []byte
	Subject, Issuer     string
	Serial, Fingerprint string
	NotBefore, NotAfter time.Time
	AltNames            []string
}

// NewCertificate reads the parts of a certificate that rules test.
func NewCertificate(der []byte) (*Certificate, error) {
	sum := sha1.Sum(der)
	c := &Certificate{DER: der, Fingerprint: colons(sum[:])}
	x, err := x509.ParseCertificate(der)
	if err != nil {
		if err = c.lenient(der); err != nil {
			return c, err
		}
		return c, nil
	}
	c.Subject, _ = distinguished(x.RawSubject)
	c.Issuer, _ = distinguished(x.RawIssuer)
	c.Serial = strings.ToUpper(colons(x.SerialNumber.Bytes()))
	c.NotBefore, c.NotAfter = x.NotBefore, x.NotAfter
	c.AltNames = x.DNSNames
	for _, ip := range x.IPAddresses {
		c.AltNames = append(c.AltNames, ip.String())
	}
	c.AltNames = append(c.AltNames, x.EmailAddresses...)
	return c, nil
}

func colons(b []byte) string {
	if len(b) == 0 {
		return "00"
	}
	out := make([]byte, 0, 3*len(b))
	for i, x := range b {
		if i > 0 {
			out = append(out, ':')
		}
		out = hex.AppendEncode(out, []byte{x})
	}
	return string(out)
}
