package identity

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// Spelling says how others write the names of our people and groups. Nothing is guessed: amlt may be
// somebody's name, or jim in base64, and a user of another domain is another person.
type Spelling struct {
	// Domains are domains and realms whose people and groups have names of their own here:
	// SCHOOL\anna and anna@school.example are anna. Default the realms of the keytab.
	Domains setting.OneOrMore[string] `yaml:"domains"`
	Base64  bool                      `yaml:"base64"` // names that proxies send are in base64
	URI     bool                      `yaml:"uri"`    // names that proxies send may be URIs, such as WinNT://SCHOOL/anna
}

// A speller undoes what [Spelling] says.
type speller struct {
	domains []string
	Spelling
}

func newSpeller(cfg Spelling, realms []string) (s speller, err error) {
	s = speller{domains: cfg.Domains, Spelling: cfg}
	for i, d := range cfg.Domains {
		if d == "" || strings.ContainsAny(d, `\/@+ `) || !isName(d) {
			return s, setting.At(fmt.Sprintf("domains[%d]", i), fmt.Errorf("%q is not a domain: write SCHOOL or school.example", d))
		}
	}
	if len(s.domains) == 0 {
		s.domains = realms
	}
	return s, nil
}

// plain returns a name without a domain that is ours.
func (s *speller) plain(name string) string {
	if len(s.domains) == 0 {
		return name
	}
	if i := strings.IndexAny(name, `\/+`); i > 0 && i+1 < len(name) && s.ours(name[:i]) {
		return name[i+1:]
	}
	if i := strings.LastIndexByte(name, '@'); i > 0 && s.ours(name[i+1:]) {
		return name[:i]
	}
	return name
}

func (s *speller) ours(domain string) bool {
	return slices.ContainsFunc(s.domains, func(d string) bool { return strings.EqualFold(d, domain) })
}

// decode undoes the base64 of a field.
func (s *speller) decode(value string) (string, error) {
	if !s.Base64 || value == "" {
		return value, nil
	}
	b, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(value, "="))
	if err != nil || !utf8.Valid(b) {
		return "", fmt.Errorf("%.60q is not base64 of a name, as identity.spelling says", value)
	}
	return strings.TrimSpace(string(b)), nil
}

// user returns the user that a field names, "" for none.
func (s *speller) user(value string) (string, error) {
	if value = strings.TrimSpace(value); value == "-" {
		return "", nil
	}
	name, err := s.decode(value)
	if err != nil || name == "" || name == "-" {
		return "", err
	}
	if name = s.plain(s.account(name)); !isName(name) {
		return "", fmt.Errorf("%.60q is not a name of up to 256 bytes in UTF-8", name)
	}
	return name, nil
}

// groups returns the groups that a field names.
func (s *speller) groups(value string) ([]string, error) {
	if value = strings.TrimSpace(value); value == "-" {
		return nil, nil
	}
	names, err := s.decode(value)
	if err != nil {
		return nil, err
	}
	all := strings.FieldsFunc(names, func(c rune) bool { return c == ',' || c == ';' })
	if s.URI {
		all = slices.DeleteFunc(all, func(g string) bool { // the rest of a distinguished name
			return strings.Contains(g, "=") && !strings.Contains(g, "://")
		})
	}
	for i, g := range all {
		all[i] = s.plain(s.account(strings.TrimSpace(g)))
	}
	return validNames(all), nil
}

// account returns the name in a URI: of WinNT://SCHOOL/anna with its domain, SCHOOL\anna; of
// Local://anna and LDAP://host/CN=anna,OU=people without the place where it was found.
func (s *speller) account(name string) string {
	if !s.URI {
		return name
	}
	scheme, rest, ok := strings.Cut(name, "://")
	if !ok {
		return name
	}
	at := strings.LastIndexByte(rest, '/')
	name = rest[at+1:]
	if attr, value, ok := strings.Cut(name, "="); ok && (strings.EqualFold(attr, "cn") || strings.EqualFold(attr, "uid")) {
		name, _, _ = strings.Cut(value, ",")
		return name
	}
	if strings.EqualFold(scheme, "WinNT") && at > 0 {
		domain := rest[:at]
		return domain[strings.LastIndexByte(domain, '/')+1:] + `\` + name
	}
	return name
}

// SentClient returns the client at addr whose user and groups a proxy names in fields with these
// values. Values that name different people, or that cannot be read, name nobody: who it is is not
// known then.
func (id *Identity) SentClient(ctx context.Context, addr netip.Addr, users, groups []string, source string) filter.Client {
	user, err := onlyName(users, id.spelling.user)
	if err != nil || user == "" {
		return unknownClient(id.NamedClient(addr, "", nil, ""), cmp.Or(err, errNoName))
	}
	var all []string
	for _, value := range groups {
		some, err := id.spelling.groups(value)
		if err != nil {
			return unknownClient(id.NamedClient(addr, user, nil, source), err)
		}
		all = append(all, some...)
	}
	return id.ReportedClient(ctx, addr, user, all, source)
}

var errNoName = errors.New("the proxy names no user")

func unknownClient(c filter.Client, why error) filter.Client {
	c.Unknown, c.Note = true, why.Error()
	return c
}

// onlyName returns the one name that all values give that give one.
func onlyName(values []string, read func(string) (string, error)) (name string, err error) {
	for _, v := range values {
		n, err := read(v)
		switch {
		case err != nil:
			return "", err
		case n == "" || strings.EqualFold(n, name):
		case name != "":
			return "", fmt.Errorf("two fields name different users, %.60q and %.60q", name, n)
		default:
			name = n
		}
	}
	return name, nil
}
