//go:build !small

package signature

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"shuultuur/filter"
)

// TestRulesSeeTheHeaderOfAQuery: rules test the header of a query for a name.
func TestRulesSeeTheHeaderOfAQuery(t *testing.T) {
	const recursion, reserved = 0x100, 0x40
	for name, tc := range map[string]struct {
		options string
		flags   uint16
		want    bool
	}{
		"reserved flag":    {`app-layer-event:dns.z_flag_set;`, recursion | reserved, true},
		"no reserved flag": {`app-layer-event:dns.z_flag_set;`, recursion, false},
		"opcode":           {`dns.opcode:0; dns.query; content:"example.com";`, recursion, true},
		"other opcode":     {`dns.opcode:4;`, recursion, false},
		"no answer":        {`dns.query; content:"example.com"; bsize:11;`, recursion, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCheck(t, `alert dns any any -> any any (`+tc.options+` sid:1;)`)
			tr := &filter.Transaction{ID: "1", Proto: filter.DNS, Client: filter.Client{Addr: netip.MustParseAddr("10.0.0.1")}, Host: "example.com", Type: 1, Flags: tc.flags, Last: filter.Name}
			found, err := c.Find(context.Background(), tr, filter.Name, nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range found {
				names = append(names, f.Category)
			}
			if got := has(names, "1"); got != tc.want {
				t.Errorf("rule 1 was found: %v, want %v; found %v", got, tc.want, names)
			}
		})
	}
}

// TestRulesSeeHandshakes judges a connection as the proxy does: by the name in CONNECT, with
// the client's hello, and with the origin's certificate.
func TestRulesSeeHandshakes(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from := &x509.Certificate{SerialNumber: big.NewInt(0x1f2e), Subject: pkix.Name{CommonName: "evil.example", Organization: []string{"Acme"}}, DNSNames: []string{"c2.example"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0)}
	der, err := x509.CreateCertificate(rand.Reader, from, from, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		options string
		hello   bool // found when only the hello is known
		met     bool // found when the origin has answered
	}{
		"name":        {`tls.sni; content:"example.com"; bsize:11;`, true, true},
		"other name":  {`tls.sni; content:"example.net";`, false, false},
		"ja3":         {`ja3.hash; content:"c9394fbb129df326412031916c1608b8";`, true, true},
		"ja3 string":  {`ja3.string; content:"771,4865-4866,0-11,29,0"; bsize:23;`, true, true},
		"ja4":         {`ja4.hash; content:"t13d1516h2_8daaf6152771_e5627efa2ab1";`, true, true},
		"alpn":        {`flow:to_server; tls.alpn; content:"h2";`, true, true},
		"subject":     {`tls.cert_subject; content:"CN=evil.example";`, false, true},
		"issuer":      {`tls.cert_issuer; content:"O=Acme";`, false, true},
		"serial":      {`tls.cert_serial; content:"1F:2E";`, false, true},
		"alt name":    {`tls.subjectaltname; content:"c2.example";`, false, true},
		"fingerprint": {`tls.cert_fingerprint; content:":"; offset:2; depth:1;`, false, true},
		"version":     {`flow:to_client; tls.version:1.3;`, false, true},
		"expired":     {`flow:to_client; tls_cert_expired;`, false, true},
		"chain":       {`flow:to_client; tls.cert_chain_len:1;`, false, true},
		"threshold":   {`tls.sni; content:"example.com"; threshold:type threshold, track by_src, count 2, seconds 60;`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCheck(t, `alert tls any any -> any any (`+tc.options+` sid:1;)`)
			if !c.AsksTLS() {
				t.Error("AsksTLS returned false")
			}
			tr := &filter.Transaction{ID: "1", Proto: filter.TLS, Flow: &filter.Flow{}, Client: filter.Client{Addr: netip.MustParseAddr("10.0.0.1")}, Host: "example.com", Port: 443}
			tr.JA4, tr.TLS = "t13d1516h2_8daaf6152771_e5627efa2ab1", &filter.Handshake{JA3: "771,4865-4866,0-11,29,0", Protocols: []string{"h2"}, Version: 0x303}
			var names []string
			judge := func() bool {
				found, err := c.Find(context.Background(), tr, filter.Name, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range found {
					names = append(names, f.Category)
				}
				return has(names, "1")
			}
			if got := judge(); got != tc.hello {
				t.Errorf("after the hello: %v, want %v (%v)", got, tc.hello, names)
			}
			tr.TLS.Version, tr.TLS.Certificates = 0x304, [][]byte{der}
			if got := judge(); got != tc.met {
				t.Errorf("after the certificate: %v, want %v (%v)", got, tc.met, names)
			}
		})
	}
}
