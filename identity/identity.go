// Package identity finds out who a client is: a user, known by address or by name and
// password, and the groups of that user.
//
// Data moves as follows: [New] reads the settings and the password file and computes
// user and groups of each network. [Identity.Identify] looks up the address of a
// request. If a login is required, it verifies the Proxy-Authorization field (Basic,
// RFC 7617) against the file. If it cannot identify the client, it returns a
// [Challenge] or a [Wait] with the reason. An Identity is immutable: a changed file
// makes a new one.
package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"github.com/gaissmai/bart"

	"shuultuur/filter"
	"shuultuur/identity/accounting"
	"shuultuur/identity/directory"
	"shuultuur/identity/kerberos"
	"shuultuur/identity/session"
	"shuultuur/lib/setting"
)

// Config sets how clients are identified.
type Config struct {
	// Addresses are users with fixed addresses or networks. The narrowest network
	// that contains a client applies.
	Addresses map[string][]string `yaml:"addresses" names:"people"`
	// ClientIDs are users with the identifiers that their DNS clients send, in the
	// path of DNS over HTTPS or before the server's name in TLS. They take
	// precedence over addresses. Nothing proves them, so choose unguessable ones
	// for users with more rights.
	ClientIDs map[string][]string `yaml:"client-ids" names:"people"`
	// Groups have members: names of users, addresses and networks.
	Groups map[string][]string `yaml:"groups" names:"people"`
	Basic  *Basic              `yaml:"basic" role:"owner"`
	// Kerberos lets clients sign in with tickets from a directory.
	Kerberos *Kerberos `yaml:"kerberos" role:"owner"`
	// Accounting receives the addresses of users from access points and VPNs.
	Accounting *accounting.Config `yaml:"accounting"`
	// Headers are trusted from the proxies in proxy.trusted.
	Headers Headers `yaml:"headers"`
	// Certificates identify clients that speak TLS to the proxy.
	Certificates *Certificates `yaml:"certificates"`
	// SignIn makes clients sign in on a page of the portal.
	SignIn *SignIn     `yaml:"sign-in" role:"owner"`
	Names  NamesConfig `yaml:"names"` // names of devices
}

// Basic asks clients for a name and a password.
type Basic struct {
	// File has a user on each line, in the format of htpasswd -B: name, colon,
	// hash. Hashes are bcrypt ($2a$, $2b$, $2y$) or Argon2id in PHC form.
	File  setting.File `yaml:"file"`
	Realm string       `yaml:"realm"` // shown by browsers; default "Shuultuur"
	// Networks are those whose clients must log in; default all. A client whose
	// address belongs to a user is not asked.
	Networks []string `yaml:"networks" names:"people"`
	// LDAP or RADIUS verifies names that are not in the file, and provides groups.
	LDAP   *directory.LDAP   `yaml:"ldap"`
	RADIUS *directory.RADIUS `yaml:"radius"`
}

// A Challenge reports that the client must log in. The answer is 407 with its
// Challenges as Proxy-Authenticate, or a redirect to the page of SignIn.
type Challenge struct {
	Realm string // of Basic; "" if no password is accepted
	// Page is the portal page to sign in on, or "".
	Page string
	open func(host string) bool // reports whether a host is reachable without a sign-in
	// Negotiate reports that Kerberos tickets are accepted.
	Negotiate bool
	// Refused is the name that came with a wrong password, or "". The client wrote
	// it: quote it.
	Refused string
	Why     string // the directory's reason to refuse the password, if it gave one
	Err     error  // why a ticket was refused
}

func (c *Challenge) Error() string {
	switch {
	case c.Err != nil:
		return "kerberos: " + c.Err.Error()
	case c.Refused != "" && c.Why != "":
		return fmt.Sprintf("user %q: %s", c.Refused, c.Why)
	case c.Refused != "":
		return fmt.Sprintf("user %q: wrong name or password", c.Refused)
	case c.Page != "":
		return "nobody has signed in at this address"
	case c.Realm == "":
		return "no ticket was sent"
	}
	return "no name and password were sent"
}

// Unwrap returns why a ticket was refused.
func (c *Challenge) Unwrap() error { return c.Err }

// Advice returns the user's remedies other than logging in, or "".
func (c *Challenge) Advice() string {
	if errors.Is(c.Err, kerberos.ErrNTLM) {
		return "Your device offered NTLM, which is not taken. Sign in to the domain, and enter the proxy by its full name, not by its address."
	}
	if c.Err != nil {
		return "Your ticket was not taken. Sign out and in again; if that does not help, tell your administrator the time and the number below."
	}
	return ""
}

// SignIn returns the address of the page to sign in on, or "".
func (c *Challenge) SignIn() string { return c.Page }

// OpenHost reports whether a host is reachable without a sign-in on the page.
func (c *Challenge) OpenHost(host string) bool { return c.Page != "" && c.open(host) }

// Challenges returns the values for Proxy-Authenticate, strongest scheme first.
func (c *Challenge) Challenges() (all []string) {
	if c.Negotiate {
		all = append(all, "Negotiate")
	}
	if c.Realm != "" {
		all = append(all, c.Header())
	}
	return all
}

// Header returns the Proxy-Authenticate value that asks for a password.
func (c *Challenge) Header() string {
	b := []byte(`Basic realm="`)
	for i := range len(c.Realm) {
		if c.Realm[i] == '"' || c.Realm[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, c.Realm[i])
	}
	return string(append(b, `", charset="UTF-8"`...))
}

// An Identity identifies clients. It is safe for concurrent use.
type Identity struct {
	nets    *bart.Table[*place] // nil if the settings name no network
	nowhere place               // for addresses outside all networks
	groups  map[string][]string // of users, sorted
	known   map[string]bool     // users with addresses, and groups
	named   map[string]bool     // groups
	basic   *basic              // nil if there is no sign-in
	ids     map[string]string   // users by ClientID in lower case

	kerberos     *negotiate     // nil if no tickets are accepted
	sessions     *session.Table // nil if there are none
	headers      Headers
	certificates *certificates // nil if none are requested
	signIn       *signIn       // nil if there is no page to sign in on
	members      *members      // groups of users in a directory, or nil
	anyGroup     bool          // groups may come from outside the settings
	anyUser      bool          // users may
}

// A place holds everything that the address alone determines.
type place struct {
	user   string
	groups []string // sorted, including those of the user
	login  bool     // a login is required
	signIn bool     // signing in on a page is required
}

// Parts are the parts that an Identity needs besides its settings.
type Parts struct {
	Sessions *session.Table // the current addresses of users, or nil
	Key      []byte         // seals the cookies of sign-ins
	Portal   string         // URL of the portal with the page to sign in on
	Others   bool           // others than these settings name users: ICAP, Squid, sessions
	Groups   bool           // and their groups: ICAP
	Previous *Identity      // the Identity before, whose caches are kept; nil if there is none
}

// New reads the settings and the password file.
func New(cfg Config, parts Parts) (*Identity, error) {
	id := &Identity{groups: map[string][]string{}, known: map[string]bool{}, named: map[string]bool{}, sessions: parts.Sessions}
	for user := range cfg.Addresses {
		id.known[user] = true
	}
	for group := range cfg.Groups {
		id.known[group], id.named[group] = true, true
	}
	b := &builder{users: map[netip.Prefix]string{}, groups: map[netip.Prefix][]string{}, login: map[netip.Prefix]bool{}, signIn: map[netip.Prefix]bool{}}
	if err := b.addresses(cfg.Addresses); err != nil {
		return nil, setting.At("addresses", err)
	}
	if err := id.clientIDs(cfg.ClientIDs); err != nil {
		return nil, setting.At("client-ids", err)
	}
	if cfg.Basic != nil {
		var err error
		if id.basic, err = newBasic(cfg.Basic); err != nil {
			return nil, setting.At("basic", err)
		}
		id.nowhere.login = len(cfg.Basic.Networks) == 0
		for i, s := range cfg.Basic.Networks {
			p, err := parseNetwork(s)
			if err != nil {
				return nil, setting.At(fmt.Sprintf("basic.networks[%d]", i), err)
			}
			b.login[p] = true
		}
	}
	if err := id.signIns(cfg.SignIn, b, parts); err != nil {
		return nil, setting.At("sign-in", err)
	}
	if err := id.readOthers(cfg, b, parts); err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(cfg.Groups) {
		if err := b.group(id, name, cfg.Groups[name], cfg.Addresses); err != nil {
			return nil, setting.At("groups."+name, err)
		}
	}
	id.nets = b.table(id)
	if id.kerberos != nil && id.kerberos.members != nil {
		id.members = id.kerberos.members
	} else if id.basic != nil {
		if d, ok := id.basic.source.(*directory.Directory); ok && d.Finds() {
			id.members = newMembers(d)
		}
	}
	return id, nil
}

// Close waits for questions to directories, and closes the connections to them.
func (id *Identity) Close() {
	if id.members != nil {
		id.members.asking.End(lastAnswers)
	}
	if id.basic != nil {
		id.basic.asking.End(lastAnswers)
	}
	if id.signIn != nil && id.signIn.provider != nil {
		id.signIn.provider.Close()
	}
	if id.basic != nil {
		if d, ok := id.basic.source.(interface{ Close() }); ok {
			d.Close()
		}
	}
	if id.kerberos != nil && id.kerberos.members != nil {
		id.kerberos.members.source.(interface{ Close() }).Close()
	}
}

// HasGroup reports whether the settings have a group of this name. A directory
// may have any group.
func (id *Identity) HasGroup(name string) bool {
	return id.named[name] || id.anyGroup || id.basic != nil && id.basic.source != nil || id.kerberos != nil && id.kerberos.mayHaveGroup(name)
}

// Has reports whether a user or group of this name exists in the settings.
func (id *Identity) Has(name string) bool {
	return id.known[name] || id.basic != nil && id.basic.accounts[name] != nil
}

// Identify returns the client at addr. The error is a *Challenge, a *Wait or that of ctx. When
// ctx ends, it returns the identity known so far. For a client that is known by address alone
// it allocates nothing. The returned groups are shared and read-only.
func (id *Identity) Identify(ctx context.Context, addr netip.Addr, proxyAuthorization []byte) (filter.Client, error) {
	addr = addr.Unmap()
	at := id.place(addr)
	client := filter.Client{Addr: addr, User: at.user, Groups: at.groups}
	if at.user != "" {
		client.Source = "address"
		return client, nil
	}
	if open := id.sessions.Lookup(addr); open != nil {
		client.User, client.Source = open.User, open.Source
		client.Groups = union(union(at.groups, id.groups[open.User]), id.current(ctx, open.User, open.Source, open.Groups))
		return client, nil
	}
	// Credentials that nobody verifies here are no credentials.
	if at.signIn && !(at.login && id.verifies(proxyAuthorization)) {
		return client, &Challenge{Page: id.signIn.page, open: id.OpenHost}
	}
	if !at.login {
		return client, nil
	}
	if id.kerberos != nil {
		token, sent := negotiated(proxyAuthorization)
		if sent {
			return id.ticket(ctx, client, token)
		}
		if id.basic == nil {
			return client, id.challenge(nil)
		}
	}
	user, err := id.basic.verify(ctx, addr, proxyAuthorization)
	if err != nil {
		if login := (*Challenge)(nil); errors.As(err, &login) {
			login.Negotiate = id.kerberos != nil
		}
		return filter.Client{Addr: addr, Groups: at.groups}, err
	}
	client.User, client.Source = user.name, "basic"
	if user.hash == nil {
		client.Source = id.basic.origin
	}
	client.Groups = union(union(at.groups, id.groups[user.name]), user.groups)
	return client, nil
}

// verifies reports whether the settings have something that verifies credentials of this kind,
// where a login is required.
func (id *Identity) verifies(proxyAuthorization []byte) bool {
	scheme, _, _ := bytes.Cut(bytes.TrimSpace(proxyAuthorization), []byte(" "))
	switch {
	case bytes.EqualFold(scheme, []byte("Basic")):
		return id.basic != nil
	case isTicket(scheme):
		return id.kerberos != nil
	}
	return false
}

// place returns the place of an address.
func (id *Identity) place(addr netip.Addr) *place {
	if id.nets != nil && addr.IsValid() {
		if p, ok := id.nets.Lookup(addr); ok {
			return p
		}
	}
	return &id.nowhere
}

// clientIDs stores the users of identifiers.
func (id *Identity) clientIDs(users map[string][]string) error {
	id.ids = map[string]string{}
	for _, user := range sortedKeys(users) {
		if user == "" {
			return errors.New("a user needs a name")
		}
		id.known[user] = true
		for i, s := range users[user] {
			here, key := fmt.Sprintf("%s[%d]", user, i), strings.ToLower(s)
			if s == "" || len(s) > 63 || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
				return setting.At(here, fmt.Errorf("%q is not a ClientID: write 1 to 63 letters, digits and hyphens, such as alices-phone", s))
			}
			if other, taken := id.ids[key]; taken {
				return setting.At(here, fmt.Errorf("%q belongs to user %q already", s, other))
			}
			id.ids[key] = user
		}
	}
	return nil
}

// ByClientID returns the client at addr with an identifier in lower case. Its
// groups are those of its user and of the address. ok is false if the settings
// do not have the identifier.
func (id *Identity) ByClientID(addr netip.Addr, clientID string) (c filter.Client, ok bool) {
	user, ok := id.ids[clientID]
	if !ok {
		return c, false
	}
	c = filter.Client{Addr: addr.Unmap(), User: user, Groups: id.groups[user], Source: "client-id"}
	if id.nets != nil && c.Addr.IsValid() {
		if p, found := id.nets.Lookup(c.Addr); found && p.user == "" {
			c.Groups = union(p.groups, c.Groups)
		}
	}
	return c, true
}

// NamedClient returns the client at addr that another party has identified as a user: a
// proxy in front of us, a directory, a certificate. source names this party. The
// groups are those given and those that the settings have for user and address.
func (id *Identity) NamedClient(addr netip.Addr, user string, groups []string, source string) filter.Client {
	c := filter.Client{Addr: addr.Unmap(), User: user, Source: source}
	if len(groups) > 0 {
		c.Groups = slices.Clone(groups)
		slices.Sort(c.Groups)
		c.Groups = slices.Compact(c.Groups)
	}
	c.Groups = union(c.Groups, id.groups[user])
	if id.nets != nil && c.Addr.IsValid() {
		if p, found := id.nets.Lookup(c.Addr); found && p.user == "" {
			c.Groups = union(p.groups, c.Groups)
		}
	}
	return c
}

// current returns the present groups of a user: those from the source of the
// user, or those of the directory if the source is the directory or gave none.
// It does not wait for a directory that does not answer.
func (id *Identity) current(ctx context.Context, user, source string, groups []string) []string {
	if id.members == nil || len(groups) > 0 && source != "ldap" {
		return groups
	}
	if groups, ok := id.members.withoutWaiting(ctx, user); ok {
		return groups
	}
	return groups
}

// ReportedClient is NamedClient, but if the source gave no groups, it adds those of the
// directory.
func (id *Identity) ReportedClient(ctx context.Context, addr netip.Addr, user string, groups []string, source string) filter.Client {
	return id.NamedClient(addr, user, id.current(ctx, user, source, groups), source)
}

// DirectoryClient is NamedClient with the groups that the configured directory has for the
// user, or those of the address's session. While no directory answers, answers
// of the last day are used; an error reports that there are none.
func (id *Identity) DirectoryClient(ctx context.Context, addr netip.Addr, user, source string) (filter.Client, error) {
	c := id.NamedClient(addr, user, nil, source)
	if s := id.sessions.Lookup(c.Addr); s != nil && s.User == user {
		c.Groups = union(c.Groups, s.Groups)
	}
	if id.members == nil {
		return c, nil
	}
	more, err := id.members.groupsOf(ctx, user)
	if err != nil {
		return c, unanswered(fmt.Errorf("look up the groups of %q: %w", user, err))
	}
	c.Groups = union(c.Groups, more)
	return c, nil
}

// union merges two sorted lists. It allocates only if neither is empty.
func union(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	u := slices.Concat(a, b)
	slices.Sort(u)
	return slices.Compact(u)
}

// builder collects the settings of each network.
type builder struct {
	users  map[netip.Prefix]string
	groups map[netip.Prefix][]string
	login  map[netip.Prefix]bool
	signIn map[netip.Prefix]bool
}

func (b *builder) addresses(users map[string][]string) error {
	for _, user := range sortedKeys(users) {
		if user == "" {
			return errors.New("a user needs a name")
		}
		for i, s := range users[user] {
			p, err := parseNetwork(s)
			if err != nil {
				return setting.At(fmt.Sprintf("%s[%d]", user, i), err)
			}
			if other, taken := b.users[p]; taken {
				return setting.At(fmt.Sprintf("%s[%d]", user, i), fmt.Errorf("%q belongs to user %q already", s, other))
			}
			b.users[p] = user
		}
	}
	return nil
}

// group adds members to a group.
func (b *builder) group(id *Identity, name string, members []string, addresses map[string][]string) error {
	if name == "" {
		return errors.New("a group needs a name")
	}
	for i, m := range members {
		if p, err := parseNetwork(m); err == nil {
			b.groups[p] = append(b.groups[p], name)
			continue
		}
		_, known := addresses[m]
		for _, user := range id.ids {
			known = known || user == m
		}
		if !known && !id.anyUser && (id.basic == nil || id.basic.accounts[m] == nil && id.basic.source == nil) {
			return setting.At(fmt.Sprintf("[%d]", i), fmt.Errorf("%q is neither a user in addresses, client-ids or the password file nor a network", m))
		}
		if !slices.Contains(id.groups[m], name) {
			id.groups[m] = append(id.groups[m], name)
		}
	}
	return nil
}

// table computes, for each network, the combined settings of it and all wider
// networks.
func (b *builder) table(id *Identity) *bart.Table[*place] {
	nets := new(bart.Table[*place])
	all := map[netip.Prefix]bool{}
	for p := range b.users {
		all[p] = true
	}
	for p := range b.groups {
		all[p] = true
	}
	for p := range b.login {
		all[p] = true
	}
	for p := range b.signIn {
		all[p] = true
	}
	if len(all) == 0 {
		return nil
	}
	for p := range all {
		nets.Insert(p, nil)
	}
	for p := range all {
		at := &place{login: id.nowhere.login, signIn: id.nowhere.signIn}
		for wider := range nets.Supernets(p) { // from p to the widest network
			if at.user == "" {
				at.user = b.users[wider]
			}
			at.groups = append(at.groups, b.groups[wider]...)
			at.login = at.login || b.login[wider]
			at.signIn = at.signIn || b.signIn[wider]
		}
		at.groups = append(at.groups, id.groups[at.user]...)
		slices.Sort(at.groups)
		at.groups = slices.Compact(at.groups)
		nets.Insert(p, at)
	}
	return nets
}

func parseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf(`%q is not an address or a network; write it like "10.1.0.0/16" or "2001:db8::1"`, s)
	}
	if p != p.Masked() {
		return p, fmt.Errorf("network %q has bits beyond its mask; did you mean %q or %q?", s, p.Masked(), p.Addr())
	}
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
