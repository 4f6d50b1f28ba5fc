package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"shuultuur/filter"
	"shuultuur/identity/ocsp"
	"shuultuur/lib/setting"
)

// Headers are the fields in which a proxy in front of us names its client.
type Headers struct {
	User   setting.OneOrMore[string] `yaml:"user"`   // such as X-Forwarded-User; fields that differ name nobody
	Groups setting.OneOrMore[string] `yaml:"groups"` // such as X-Authenticated-Groups: names separated by commas
}

// Certificates are those of clients that speak TLS to the proxy.
type Certificates struct {
	CA setting.File `yaml:"ca"` // PEM file with the roots of the clients' certificates
	// CRL are files with the certificates that the authorities of CA, and those below them, have
	// revoked. With them, a certificate counts only if a list of its authority is in force.
	CRL setting.OneOrMore[setting.File] `yaml:"crl"`
	// OCSP asks the authorities whether a certificate is revoked, unless a list says so.
	OCSP *ocsp.Config `yaml:"ocsp"`
	// Required refuses connections without a certificate.
	Required bool `yaml:"required"`
	// User names the parts of a certificate that may have the user: upn, email,
	// dns, uri, cn. The first one present is used. Default upn, email, cn.
	User setting.OneOrMore[string] `yaml:"user"`
	// Groups is "ou" if the units of the subject are groups; default none.
	Groups string `yaml:"groups"`
}

// certificates is Certificates in the form in which it is used.
type certificates struct {
	roots    *x509.CertPool
	required bool
	user     []string
	units    bool
	crl      []*revocations
	ocsp     *ocsp.Client // nil if nobody is asked
}

// readOthers reads the settings of the other ways to identify clients.
func (id *Identity) readOthers(cfg Config, b *builder, parts Parts) (err error) {
	if k := cfg.Kerberos; k != nil {
		if id.kerberos, err = newNegotiate(k, &parts); err != nil {
			return setting.At("kerberos", err)
		}
		id.nowhere.login = id.nowhere.login || len(k.Networks) == 0
		for i, s := range k.Networks {
			p, err := parseNetwork(s)
			if err != nil {
				return setting.At(fmt.Sprintf("kerberos.networks[%d]", i), err)
			}
			b.login[p] = true
		}
	}
	var realms []string
	if id.kerberos != nil {
		realms = id.kerberos.acceptor.Realms()
	}
	if id.spelling, err = newSpeller(cfg.Spelling, realms); err != nil {
		return setting.At("spelling", err)
	}
	if id.basic != nil {
		id.basic.spelling = id.spelling
	}
	for key, names := range map[string][]string{"user": cfg.Headers.User, "groups": cfg.Headers.Groups} {
		for i, n := range names {
			if n == "" || strings.Trim(n, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
				return setting.At(fmt.Sprintf("headers.%s[%d]", key, i), fmt.Errorf("%q is not the name of a field, such as X-Forwarded-User", n))
			}
		}
	}
	if len(cfg.Headers.Groups) > 0 && len(cfg.Headers.User) == 0 {
		return setting.At("headers.user", errors.New("the field with the user is not named, and groups alone are nobody's"))
	}
	id.headers, id.fields = cfg.Headers, slices.Concat(cfg.Headers.User, cfg.Headers.Groups)
	if id.certificates, err = newCertificates(cfg.Certificates, parts.Previous); err != nil {
		return setting.At("certificates", err)
	}
	id.anyUser = parts.Others || len(cfg.Headers.User) > 0 || cfg.Accounting != nil || cfg.SignIn != nil || id.certificates != nil || id.kerberos != nil
	id.anyGroup = parts.Groups || cfg.Accounting != nil || cfg.SignIn != nil && cfg.SignIn.OIDC != nil || len(cfg.Headers.Groups) > 0 || id.certificates != nil && id.certificates.units
	return nil
}

func newCertificates(cfg *Certificates, old *Identity) (*certificates, error) {
	if cfg == nil {
		return nil, nil
	}
	if cfg.CA == "" {
		return nil, setting.At("ca", errors.New("the file with the roots of the clients' certificates is not named"))
	}
	roots, err := cfg.CA.Roots()
	if err != nil {
		return nil, setting.At("ca", err)
	}
	c := &certificates{roots: roots, required: cfg.Required, user: cfg.User}
	if c.crl, err = readRevocations(cfg.CRL, cfg.CA); err != nil {
		return nil, err
	}
	if cfg.OCSP != nil {
		var before *ocsp.Client
		if old != nil && old.certificates != nil {
			before = old.certificates.ocsp
		}
		if c.ocsp, err = ocsp.New(*cfg.OCSP, before); err != nil {
			return nil, setting.At("ocsp", err)
		}
	}
	if len(c.user) == 0 {
		c.user = []string{"upn", "email", "cn"}
	}
	for i, u := range c.user {
		if !slices.Contains([]string{"upn", "email", "dns", "uri", "cn"}, u) {
			return nil, setting.At(fmt.Sprintf("user[%d]", i), fmt.Errorf("%q is not a place for a user in a certificate: write upn, email, dns, uri or cn", u))
		}
	}
	switch cfg.Groups {
	case "", "ou":
		c.units = cfg.Groups == "ou"
	default:
		return nil, setting.At("groups", fmt.Errorf("%q is not a place for groups in a certificate: write ou, or leave it out", cfg.Groups))
	}
	return c, nil
}

// TLS returns the TLS settings between clients and the proxy. It requests
// certificates if the settings ask for them.
func (id *Identity) TLS(t *tls.Config) *tls.Config {
	if id.certificates == nil || t == nil {
		return t
	}
	t = t.Clone()
	t.ClientCAs, t.ClientAuth = id.certificates.roots, tls.VerifyClientCertIfGiven
	if id.certificates.required {
		t.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if len(id.certificates.crl) > 0 || id.certificates.ocsp != nil {
		t.VerifyConnection = id.certificates.checkConnection // of resumed ones, too
	}
	return t
}

// CertifiedClient returns the client at addr with a verified certificate. ok is false
// if the certificate names no user.
func (id *Identity) CertifiedClient(ctx context.Context, addr netip.Addr, c *x509.Certificate) (who filter.Client, ok bool) {
	if id.certificates == nil || c == nil || id.certificates.revokedSince(ctx, c) {
		return who, false
	}
	for _, place := range id.certificates.user {
		user := ""
		switch place {
		case "upn":
			user = principalName(c)
		case "email":
			user = first(c.EmailAddresses)
		case "dns":
			user = first(c.DNSNames)
		case "uri":
			if len(c.URIs) > 0 {
				user = c.URIs[0].String()
			}
		case "cn":
			user = c.Subject.CommonName
		}
		if !isName(user) {
			continue
		}
		var groups []string
		if id.certificates.units {
			groups = validNames(c.Subject.OrganizationalUnit)
		}
		return id.ReportedClient(ctx, addr, user, groups, "certificate"), true
	}
	return who, false
}

// principalName returns the user's name (UPN) that Active Directory writes into
// certificates, or "".
func principalName(c *x509.Certificate) string {
	upn := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3}
	for _, e := range c.Extensions {
		if !e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			continue
		}
		var all []asn1.RawValue
		if _, err := asn1.Unmarshal(e.Value, &all); err != nil {
			return ""
		}
		for _, v := range all {
			if v.Class != asn1.ClassContextSpecific || v.Tag != 0 {
				continue
			}
			var kind asn1.ObjectIdentifier
			rest, err := asn1.Unmarshal(v.Bytes, &kind)
			if err != nil || !kind.Equal(upn) {
				continue
			}
			var value asn1.RawValue
			var name string
			if _, err := asn1.Unmarshal(rest, &value); err != nil {
				continue
			}
			if _, err := asn1.UnmarshalWithParams(value.Bytes, &name, "utf8"); err == nil {
				return name
			}
		}
	}
	return ""
}

// FieldNames returns the fields in which a trusted proxy names clients. They
// are not forwarded.
func (id *Identity) FieldNames() []string {
	return id.fields
}

// ForwardedClient returns the client at addr as named by a trusted proxy. field
// returns the values of a field. ok is false if no user is named; note says why, where a
// field is there: then the client may be anybody.
func (id *Identity) ForwardedClient(ctx context.Context, addr netip.Addr, field func(name string) []string) (who filter.Client, note string, ok bool) {
	value, _, note := onlyValue(id.headers.User, field)
	if note != "" {
		return who, note + ", so it names no user: let the proxy in front remove those of clients", false
	}
	user, err := id.spelling.user(value)
	switch {
	case err != nil:
		return who, "a field names no user: " + err.Error(), false
	case user == "":
		return who, "", false
	}
	value, there, note := onlyValue(id.headers.Groups, field)
	if note != "" {
		c := id.NamedClient(addr, user, nil, "header")
		c.Unknown, c.Note = true, note+", so it names no groups: let the proxy in front remove those of clients"
		return c, "", true
	}
	var groups []string
	if there {
		if groups, err = id.spelling.groups(value); err != nil {
			return unknownClient(id.NamedClient(addr, user, nil, "header"), err), "", true
		}
	}
	return id.ReportedClient(ctx, addr, user, groups, "header"), "", true
}

// onlyValue returns the value of the fields with these names, "" if none says anything. A note
// says that they are there more than once and differ: the client may have sent one of them.
func onlyValue(names []string, field func(name string) []string) (value string, there bool, note string) {
	for _, n := range names {
		values := field(n)
		if len(values) > 1 {
			return "", true, fmt.Sprintf("the field %s is there %d times", n, len(values))
		}
		if len(values) == 0 {
			continue
		}
		v := strings.TrimSpace(values[0])
		switch {
		case v == "" || v == "-":
		case value == "":
			value, there = v, true
		case v != value:
			return "", true, fmt.Sprintf("the field %s differs from another that is there", n)
		}
	}
	return value, there, ""
}

// validNames returns the valid names among all.
func validNames(all []string) (list []string) {
	for _, g := range all {
		if g = strings.TrimSpace(g); isName(g) && len(list) < 1024 {
			list = append(list, g)
		}
	}
	return list
}

// isName reports whether s is a valid name of a user or group.
func isName(s string) bool {
	return s != "" && len(s) <= 256 && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}
