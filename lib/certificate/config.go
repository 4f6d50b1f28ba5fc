package certificate

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// LetsEncrypt is the directory of the authority that is asked unless the settings name another.
const LetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// Config says for which names which authority is asked.
type Config struct {
	Names     setting.OneOrMore[string] `yaml:"names"`     // names of this gateway; * as the first label for all below
	Directory string                    `yaml:"directory"` // URL of the authority's directory; default Let's Encrypt
	// AcceptTerms says that the administrator has read the terms of the authority and accepts them.
	AcceptTerms bool                      `yaml:"accept-terms"`
	Contact     setting.OneOrMore[string] `yaml:"contact" names:"people"` // mail addresses for the authority; default none
	// Challenge is how the authority sees that the names are ours: http-01, tls-alpn-01 or dns-01. By
	// default those are tried that our listeners and zones can answer.
	Challenge string       `yaml:"challenge"`
	Key       string       `yaml:"key"`     // of certificates: ecdsa (default) or rsa
	Profile   string       `yaml:"profile"` // kind of certificate that the authority offers, such as shortlived; default its own choice
	Binding   *Binding     `yaml:"binding"` // the account at an authority that gives certificates to its customers; default none
	Root      setting.File `yaml:"root"`    // PEM file with the root of a private authority's own server; default the system's roots
}

// A Binding names an account that exists at an authority already (RFC 8555, external account).
type Binding struct {
	ID  string `yaml:"id"`
	Key string `yaml:"key" secret:"yes"` // in base64url, as the authority shows it
}

// The challenges of RFC 8555 and RFC 8737.
const (
	byHTTP = "http-01"
	byTLS  = "tls-alpn-01"
	byDNS  = "dns-01"
)

// maxNames is how many names Let's Encrypt writes into one certificate.
const maxNames = 100

// complete checks the settings, and returns them with defaults and with names as they are compared.
func (c Config) complete() (Config, error) {
	if len(c.Names) == 0 {
		return c, setting.At("names", errors.New("name the gateway as browsers will, such as filter.example.org"))
	}
	if len(c.Names) > maxNames {
		return c, setting.At("names", fmt.Errorf("%d names are too many for one certificate, which holds %d", len(c.Names), maxNames))
	}
	c.Names = slices.Clone(c.Names)
	for i, name := range c.Names {
		host, err := hostOf(name)
		if err == nil && slices.Contains(c.Names[:i], host) {
			err = fmt.Errorf("%q is there twice", name)
		}
		if err != nil {
			return c, setting.At(fmt.Sprintf("names[%d]", i), err)
		}
		c.Names[i] = host
	}
	if c.Directory == "" {
		c.Directory = LetsEncrypt
	}
	if u, err := url.Parse(c.Directory); err != nil || u.Scheme != "https" || u.Host == "" {
		return c, setting.At("directory", fmt.Errorf("%q is not the https URL of a directory, such as %s", c.Directory, LetsEncrypt))
	}
	if c.Directory == LetsEncrypt && !c.AcceptTerms {
		return c, setting.At("accept-terms", errors.New("Let's Encrypt gives certificates to those who accept its terms: read them at https://letsencrypt.org/repository/ and write accept-terms: true"))
	}
	for i, to := range c.Contact {
		if _, domain, ok := strings.Cut(to, "@"); !ok || domain == "" || strings.ContainsAny(to, " ,?:<>") {
			return c, setting.At(fmt.Sprintf("contact[%d]", i), fmt.Errorf("%q is not a mail address", to))
		}
	}
	if !slices.Contains([]string{"", byHTTP, byTLS, byDNS}, c.Challenge) {
		return c, setting.At("challenge", fmt.Errorf("%q is not one of http-01, tls-alpn-01, dns-01", c.Challenge))
	}
	if !slices.Contains([]string{"", "ecdsa", "rsa"}, c.Key) {
		return c, setting.At("key", fmt.Errorf("%q is neither ecdsa nor rsa", c.Key))
	}
	if b := c.Binding; b != nil {
		if b.ID == "" {
			return c, setting.At("binding.id", errors.New("name the account that the authority gave you"))
		}
		if _, err := b.bytes(); err != nil {
			return c, setting.At("binding.key", err)
		}
	}
	return c, c.checkChallenge()
}

// hostOf returns a name as it is compared: in lower case and punycode.
func hostOf(name string) (string, error) {
	rest, wild := strings.CutPrefix(name, "*.")
	host, reason := dns.Host(nil, []byte(rest))
	if reason != "" {
		return "", fmt.Errorf("%q %s", name, reason)
	}
	addr, err := netip.ParseAddr(string(host))
	switch {
	case !wild:
		return string(host), nil
	case err == nil:
		return "", fmt.Errorf("%q: there is nothing below the address %s", name, addr)
	}
	return "*." + string(host), nil
}

// checkChallenge finds names that the challenge of the settings cannot prove.
func (c *Config) checkChallenge() error {
	for _, name := range c.Names {
		if _, err := netip.ParseAddr(name); err == nil && c.Challenge != "" && c.Challenge != byHTTP {
			return setting.At("challenge", fmt.Errorf("only http-01 proves that the address %s is ours", name))
		}
		if strings.HasPrefix(name, "*.") && c.Challenge != "" && c.Challenge != byDNS {
			return setting.At("challenge", fmt.Errorf("only dns-01 proves that all names below %s are ours", name[2:]))
		}
	}
	return nil
}
