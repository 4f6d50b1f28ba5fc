// Package identity says who is asking: a user by the address a client has, or
// by the name and password it sends, and the groups that makes them one of.
//
// Data moves as follows: [New] reads the settings and the password file and works out
// for every network in them which user and groups stand for it. For a request
// [Identity.Identify] looks the address up; where a login is needed it checks
// the Proxy-Authorization field (Basic, RFC 7617) against the file, and says
// with a [Challenge] or a [Wait] why it cannot tell who it is. Identities
// never change: a new file makes a new one.
package identity

import (
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
	"shuultuur/setting"
)

// Config sets how clients are identified.
type Config struct {
	// Addresses are the users who are known by where they sit: a name, and
	// addresses or networks. The narrowest network that holds a client counts.
	Addresses map[string][]string `yaml:"addresses"`
	// ClientIDs are the users that DNS clients know a name for, which they have
	// in the path of DNS over HTTPS or before the server's name in TLS: a user,
	// and identifiers. They count before the address. Nothing proves them: choose
	// what nobody guesses where it gives more than others have.
	ClientIDs map[string][]string `yaml:"client-ids"`
	// Groups have members: users by name, and addresses or networks.
	Groups map[string][]string `yaml:"groups"`
	Basic  *Basic              `yaml:"basic"`
	// Kerberos lets clients sign in with the ticket that they have of a directory.
	Kerberos *Kerberos `yaml:"kerberos"`
	// Accounting receives from access points and VPNs which user has which address.
	Accounting *accounting.Config `yaml:"accounting"`
	// Headers are believed where proxy.trusted says so.
	Headers Headers `yaml:"headers"`
	// Certificates of clients that speak TLS to the proxy say who they are.
	Certificates *Certificates `yaml:"certificates"`
	// SignIn has clients sign in on a page of the portal.
	SignIn *SignIn     `yaml:"sign-in"`
	Names  NamesConfig `yaml:"names"` // what devices are called
}

// Basic asks clients for a name and a password.
type Basic struct {
	// File holds a user on each line, as htpasswd -B writes it: name, colon,
	// hash. Hashes are bcrypt ($2a$, $2b$, $2y$) or Argon2id in PHC form.
	File  setting.File `yaml:"file"`
	Realm string       `yaml:"realm"` // what the browser shows; "Shuultuur" unless given
	// Networks are those whose clients have to log in; all unless given. A
	// client whose address belongs to a user is not asked.
	Networks []string `yaml:"networks"`
	// LDAP or RADIUS verifies names that are not in the file, and gives groups.
	LDAP   *directory.LDAP   `yaml:"ldap"`
	RADIUS *directory.RADIUS `yaml:"radius"`
}

// A Challenge says that the client has to log in: the answer is 407 with its
// Challenges as Proxy-Authenticate, or leads to the page of SignIn.
type Challenge struct {
	Realm string // of Basic, "" where no password is taken
	// Page is where the client signs in on a page of the portal, "" when it does not.
	Page string
	open func(host string) bool // reached without a sign-in
	// Negotiate says that a ticket of Kerberos is taken.
	Negotiate bool
	// Refused is the name that was sent with a wrong password, "" when none
	// was sent. It is what the client wrote: quote it.
	Refused string
	Why     string // the password of Refused was not taken, where a directory has told
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

// Advice is what the person at the client may do, "" for nothing but to log in.
func (c *Challenge) Advice() string {
	if errors.Is(c.Err, kerberos.ErrNTLM) {
		return "Your device offered NTLM, which is not taken. Sign in to the domain, and enter the proxy by its full name, not by its address."
	}
	if c.Err != nil {
		return "Your ticket was not taken. Sign out and in again; if that does not help, tell your administrator the time and the number below."
	}
	return ""
}

// SignIn returns the address of the page to sign in on, "" for none.
func (c *Challenge) SignIn() string { return c.Page }

// OpenHost reports whether a host is reached without a sign-in on the page.
func (c *Challenge) OpenHost(host string) bool { return c.Page != "" && c.open(host) }

// Challenges returns the values for Proxy-Authenticate, the better ones first.
func (c *Challenge) Challenges() (all []string) {
	if c.Negotiate {
		all = append(all, "Negotiate")
	}
	if c.Realm != "" {
		all = append(all, c.Header())
	}
	return all
}

// Header returns the value for Proxy-Authenticate that asks for a password.
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

// An Identity tells clients apart. It is safe for many goroutines.
type Identity struct {
	nets    *bart.Table[*place] // nil when the settings name no network
	nowhere place               // for addresses in none of them
	groups  map[string][]string // of users, sorted
	known   map[string]bool     // users with addresses, and groups
	named   map[string]bool     // groups
	basic   *basic              // nil when nobody logs in
	ids     map[string]string   // users by ClientID in lower case

	kerberos     *negotiate     // nil when no tickets are taken
	sessions     *session.Table // nil for none
	headers      Headers
	certificates *certificates // nil when none are asked for
	signIn       *signIn       // nil when nobody signs in on a page
	members      *members      // groups of users that a directory has; nil for none
	anyGroup     bool          // somebody else says what groups there are
}

// A place is what an address alone says.
type place struct {
	user   string
	groups []string // sorted; those of the user too
	login  bool     // has to log in
	signIn bool     // signs in on a page
}

// Parts are what an Identity works with, besides its settings.
type Parts struct {
	Sessions *session.Table // which user has which address at present; nil for none
	Key      []byte         // seals what browsers keep of a sign-in
	Portal   string         // URL of the portal, which has the page to sign in on
	Previous *Identity      // the one before, whose memory of tickets goes on; nil for none
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
	if err := id.others(cfg, b, parts.Previous); err != nil {
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

// Close releases the connections to directories.
func (id *Identity) Close() {
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

// HasGroup reports whether the settings have a group of this name.
// A directory may have any.
func (id *Identity) HasGroup(name string) bool {
	return id.named[name] || id.anyGroup || id.basic != nil && id.basic.source != nil || id.kerberos != nil && id.kerberos.gives(name)
}

// Knows reports whether there is a user or group of this name.
func (id *Identity) Knows(name string) bool {
	return id.known[name] || id.basic != nil && id.basic.accounts[name] != nil
}

// Identify says who a client is. An error is a *Challenge, a *Wait, or that of
// ctx. When ctx is over, it returns what is known without waiting. For a client known by its address alone it allocates nothing; the
// groups it returns are shared: read only.
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
	if at.signIn && len(proxyAuthorization) == 0 {
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

// place is what an address says.
func (id *Identity) place(addr netip.Addr) *place {
	if id.nets != nil && addr.IsValid() {
		if p, ok := id.nets.Lookup(addr); ok {
			return p
		}
	}
	return &id.nowhere
}

// clientIDs notes which users identifiers stand for.
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

// ByClientID returns the client with an identifier in lower case, which is at
// addr. Its groups are its user's and those of the address. ok is false where
// the settings do not have the identifier.
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

// Named returns the client at addr whom somebody else has identified as a user:
// a proxy in front of us, a directory, a certificate. source says who. Its groups
// are those given and those that the settings have for the user and the address.
func (id *Identity) Named(addr netip.Addr, user string, groups []string, source string) filter.Client {
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

// current returns the groups that a user has by now. Those that the source of
// the user has said count; where that is the directory, or has named none, those
// that the directory has. While that does not answer, nobody waits for it.
func (id *Identity) current(ctx context.Context, user, source string, groups []string) []string {
	if id.members == nil || len(groups) > 0 && source != "ldap" {
		return groups
	}
	if groups, ok := id.members.withoutWaiting(ctx, user); ok {
		return groups
	}
	return groups
}

// Reported is Named with the groups that the directory has for the user, where the
// source has named none.
func (id *Identity) Reported(ctx context.Context, addr netip.Addr, user string, groups []string, source string) filter.Client {
	return id.Named(addr, user, id.current(ctx, user, source, groups), source)
}

// Member is Named with the groups that the directory of the settings has for the
// user, or the session of the address. While no directory answers, those that it
// said within a day count; an error says that there are none.
func (id *Identity) Member(ctx context.Context, addr netip.Addr, user, source string) (filter.Client, error) {
	c := id.Named(addr, user, nil, source)
	if s := id.sessions.Lookup(c.Addr); s != nil && s.User == user {
		c.Groups = union(c.Groups, s.Groups)
	}
	if id.members == nil {
		return c, nil
	}
	more, err := id.members.of(ctx, user)
	if err != nil {
		return c, unanswered(fmt.Errorf("look up the groups of %q: %w", user, err))
	}
	c.Groups = union(c.Groups, more)
	return c, nil
}

// union joins two sorted lists; it allocates only when both hold something.
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

// builder gathers what the settings say of each network.
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

// group adds the members of a group.
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
		known = known || id.anyGroup || id.kerberos != nil
		if !known && (id.basic == nil || id.basic.accounts[m] == nil && id.basic.source == nil) {
			return setting.At(fmt.Sprintf("[%d]", i), fmt.Errorf("%q is neither a user in addresses, client-ids or the password file nor a network", m))
		}
		if !slices.Contains(id.groups[m], name) {
			id.groups[m] = append(id.groups[m], name)
		}
	}
	return nil
}

// table works out, for each network, what it and all wider ones say together.
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
		for wider := range nets.Supernets(p) { // p first, the widest last
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
