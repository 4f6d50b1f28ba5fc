package directory

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/go-ldap/ldap/v3"
)

// withAdvice adds the remedy to an error of a server.
func withAdvice(server string, err error) error {
	advice, text := "", err.Error()
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	secure := strings.HasPrefix(server, "ldaps:")
	switch {
	case unknown || strings.Contains(text, "signed by unknown authority"):
		advice = "name the file with the root of its certificate as ca"
	case strings.Contains(text, "legacy Common Name"):
		advice = "its certificate has no subjectAltName: make one for it with its name there"
	case strings.Contains(text, "certificate has expired"):
		advice = "renew its certificate, or set the clock of this machine"
	case strings.Contains(text, "x509: "):
		advice = "write the name under servers that its certificate has"
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultStrongAuthRequired, ldap.LDAPResultConfidentialityRequired):
		advice = "it takes passwords over TLS only: write start-tls: true, or ldaps://"
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultNoSuchObject, ldap.LDAPResultInvalidDNSyntax):
		advice = "it has no such base: compare base with the names of its entries"
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultInvalidCredentials):
		advice = "compare bind and password with the service account"
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultOperationsError, ldap.LDAPResultInsufficientAccessRights):
		advice = "name a service account under bind that may search"
	case strings.Contains(text, "no such host"):
		advice = "compare its name under servers with the DNS"
	case errors.Is(err, syscall.ECONNREFUSED), strings.HasSuffix(text, "timed out"), strings.HasSuffix(text, "i/o timeout"):
		advice = "is it running, and does this machine reach its port?"
	case secure && (strings.HasSuffix(text, "EOF") || strings.Contains(text, "TLS handshake")):
		advice = "it speaks no TLS on this port: ldaps:// has 636 usually; for 389 write ldap:// and start-tls: true"
	case strings.HasSuffix(text, "EOF"):
		advice = "it ended the connection: where it speaks TLS on this port, write ldaps://"
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, advice)
}

// reasons are those for which Active Directory refuses a right password, by the
// code in its answer.
var reasons = map[string]string{
	"530": "the user may not sign in at this time",
	"531": "the user may not sign in from this machine",
	"532": PasswordExpired,
	"533": Disabled,
	"701": AccountExpired,
	"773": MustChange,
	"775": "the account is locked",
}

// locked is the one of the codes that comes with wrong passwords, too.
const locked = "775"

// refusal returns the reason why a directory refused a password, if its answer has one: a code
// of Active Directory, or the control of password policies (draft-behera-ldap-password-policy),
// as of OpenLDAP.
func refusal(err error, controls []ldap.Control) error {
	_, rest, _ := strings.Cut(err.Error(), ", data ")
	code, _, _ := strings.Cut(rest, ",")
	if why := reasons[code]; why != "" {
		return &Refusal{Why: why, Proven: code != locked}
	}
	if r := policyRefusal(controls); r != nil {
		return r
	}
	return ErrRefused
}

// policyRefusal returns the reason in the control of password policies, or nil.
func policyRefusal(controls []ldap.Control) error {
	c, _ := ldap.FindControl(controls, ldap.ControlTypeBeheraPasswordPolicy).(*ldap.ControlBeheraPasswordPolicy)
	if c == nil {
		return nil
	}
	switch c.Error {
	case ldap.BeheraPasswordExpired:
		return &Refusal{Why: PasswordExpired, Proven: true}
	case ldap.BeheraAccountLocked:
		return &Refusal{Why: reasons[locked]}
	case ldap.BeheraChangeAfterReset:
		return &Refusal{Why: MustChange, Proven: true}
	}
	return nil
}
