package traffic

import (
	"fmt"
	"strings"
	"time"

	"shuultuur/lib/suricata/rule"
)

// A TLSHandshake is a TLS handshake in the form that rules inspect.
type TLSHandshake struct {
	SNI                           []byte
	JA3, JA3S                     string // as text; digests are made from them
	JA3Hash, JA3SHash, JA4        string
	Version                       uint16 // of the server's hello, or before that the client's
	ALPN                          [2][][]byte
	Random                        [2][]byte
	Certs                         [2][]*Certificate
	Events                        map[string]bool
	State                         string // client_hello, server_hello, client_keyx, unknown
	Now                           time.Time
	ClientHello, ServerHello, Any bool
}

func (t *TLSHandshake) cert(dir rule.Direction) *Certificate {
	if cs := t.Certs[dir.Index()]; len(cs) > 0 {
		return cs[0]
	}
	return nil
}

// Buffer returns element i of a buffer as one side sent it.
func (t *TLSHandshake) Buffer(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	d := dir.Index()
	text := func(s string) ([]byte, bool) { return []byte(s), s != "" && i == 0 }
	switch b {
	case rule.SNI:
		return t.SNI, t.SNI != nil && i == 0
	case rule.JA3Hash:
		return text(t.JA3Hash)
	case rule.JA3String:
		return text(t.JA3)
	case rule.JA3SHash:
		return text(t.JA3SHash)
	case rule.JA3SString:
		return text(t.JA3S)
	case rule.JA4Hash:
		return text(t.JA4)
	case rule.ALPN:
		if i < len(t.ALPN[d]) {
			return t.ALPN[d][i], true
		}
		return nil, false
	case rule.Random, rule.RandomTime, rule.RandomBytes:
		r := t.Random[d]
		if len(r) != 32 || i > 0 {
			return nil, false
		}
		switch b {
		case rule.RandomTime:
			return r[:4], true
		case rule.RandomBytes:
			return r[4:], true
		}
		return r, true
	case rule.Certs:
		if i < len(t.Certs[d]) {
			return t.Certs[d][i].DER, true
		}
		return nil, false
	}
	c := t.cert(dir)
	if c == nil {
		return nil, false
	}
	switch b {
	case rule.CertSubject:
		return text(c.Subject)
	case rule.CertIssuer:
		return text(c.Issuer)
	case rule.CertSerial:
		return text(c.Serial)
	case rule.CertFingerprint:
		return text(c.Fingerprint)
	case rule.CertAltName:
		if i < len(c.AltNames) {
			return []byte(c.AltNames[i]), true
		}
	}
	return nil, false
}

// Numbers returns the values for an integer keyword.
func (t *TLSHandshake) Numbers(dir rule.Direction, keyword string) ([]uint64, bool) {
	if keyword == "tls.cert_chain_len" {
		n := len(t.Certs[dir.Index()])
		return []uint64{uint64(n)}, n > 0
	}
	return nil, false
}

var tlsNames = map[uint16][]string{
	2: {"sslv2", "2"}, 0x300: {"sslv3", "3"}, 0x301: {"tls1.0", "1.0", "tls1"}, 0x302: {"tls1.1", "1.1"}, 0x303: {"tls1.2", "1.2"}, 0x304: {"tls1.3", "1.3"},
}

// Word reports whether a keyword with words matches.
func (t *TLSHandshake) Word(dir rule.Direction, keyword, value string) bool {
	value = strings.ToLower(value)
	switch keyword {
	case "app-layer-protocol":
		value, _, _ = strings.Cut(value, ",")
		return value == "tls" || value == "ssl"
	case "tls.version", "ssl_version":
		if n, ok := strings.CutPrefix(value, "0x"); ok {
			return fmt.Sprintf("%04x", t.Version) == n
		}
		for v := range strings.SplitSeq(value, ",") {
			v = strings.TrimSpace(v)
			v, not := strings.CutPrefix(v, "!")
			for _, n := range tlsNames[t.Version] {
				if (n == v) != not {
					return true
				}
			}
		}
		return false
	case "ssl_state":
		for s := range strings.SplitSeq(strings.ReplaceAll(value, ",", "|"), "|") {
			switch strings.TrimSpace(s) {
			case "client_hello":
				if t.ClientHello && dir == rule.ToServer {
					return true
				}
			case "server_hello":
				if t.ServerHello && dir == rule.ToClient {
					return true
				}
			}
		}
		return false
	}
	c := t.cert(dir)
	if c == nil {
		return false
	}
	switch keyword {
	case "tls.subject":
		return strings.Contains(strings.ToLower(c.Subject), value)
	case "tls.issuerdn":
		return strings.Contains(strings.ToLower(c.Issuer), value)
	case "tls.fingerprint":
		return c.Fingerprint == value
	case "tls_cert_expired", "tls.cert_expired":
		return t.Now.After(c.NotAfter)
	case "tls_cert_valid", "tls.cert_valid":
		return !t.Now.After(c.NotAfter) && !t.Now.Before(c.NotBefore)
	case "tls_cert_notbefore", "tls.cert_notbefore":
		return dateFits(c.NotBefore, value)
	case "tls_cert_notafter", "tls.cert_notafter":
		return dateFits(c.NotAfter, value)
	}
	return false
}

// dateFits compares a date with >2015, <2015-10-22 or 2015<>2016.
func dateFits(at time.Time, value string) bool {
	parse := func(s string) time.Time {
		s = strings.TrimSpace(s)
		for _, layout := range []string{"2006", "2006-01", "2006-01-02", "2006-01-02 15", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02t15:04:05"} {
			if d, err := time.Parse(layout, s); err == nil {
				return d
			}
		}
		return time.Time{}
	}
	if a, b, ok := strings.Cut(value, "<>"); ok {
		return at.After(parse(a)) && at.Before(parse(b))
	}
	switch {
	case strings.HasPrefix(value, ">"):
		return at.After(parse(value[1:]))
	case strings.HasPrefix(value, "<"):
		return at.Before(parse(value[1:]))
	}
	return at.Equal(parse(value))
}

// Event reports whether an anomaly was seen.
func (t *TLSHandshake) Event(kind, name string) bool {
	return kind == "app-layer-event" && t.Events[name]
}

// Files returns none.
func (t *TLSHandshake) Files(rule.Direction) []*File { return nil }
