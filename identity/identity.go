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
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"time"

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
	// Shared are networks with addresses of many people each, such as terminal servers and
	// gateways with NAT: sessions of addresses do not count there, only what a request proves.
	Shared []string `yaml:"shared" names:"people"`
	// Session is for sessions of addresses.
	Session SessionConfig `yaml:"session"`
	// SignIn makes clients sign in on a page of the portal.
	SignIn *SignIn `yaml:"sign-in" role:"owner"`
	// Open are hosts, with their subdomains (but for "=host"), that clients reach without signing in, whatever they
	// are asked for: a password, a ticket, or the page. Updates cannot sign in.
	Open  setting.OneOrMore[string] `yaml:"open"`
	Names NamesConfig               `yaml:"names"` // names of devices
	// Spelling says how others write the names of people and groups.
	Spelling Spelling `yaml:"spelling"`
}

// SessionConfig sets how long sessions of addresses count.
type SessionConfig struct {
	// Idle is after how long without a request a session does not count any more; default
	// never.
	Idle setting.Duration `yaml:"idle"`
}

// Basic asks clients for a name and a password.
type Basic struct {
	// File has a user on each line, in the format of htpasswd -B: name, colon,
	// hash. Hashes are bcrypt ($2a$, $2b$, $2y$) or Argon2id in PHC form, or those that other
	// programs have left there.
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
	open openHosts // hosts that are reachable without a sign-in
	// Negotiate reports that Kerberos tickets are accepted.
	Negotiate bool
	// Answer is the token that lets the client go on with a negotiation it has begun, or nil.
	Answer []byte
	// Refused is the name that came with a wrong password, or "". The client wrote
	// it: quote it.
	Refused string
	Why     string // the directory's reason to refuse the password, if it gave one
	Proven  bool   // the password was right: the person may know the reason
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
	if c.Proven {
		switch c.Why {
		case directory.PasswordExpired:
			return "Your password has expired. Change it, and sign in again."
		case directory.MustChange:
			return "Your password has to be changed before you can sign in."
		case directory.Disabled, directory.AccountExpired:
			return "Your account is disabled or has expired. Ask your administrator."
		default:
			return "Your name and password are right, but your groups cannot be found out. Tell your administrator."
		}
	}
	if errors.Is(c.Err, kerberos.ErrClock) {
		return "The clock of your device is wrong, or that of the proxy. Set it, and try again."
	}
	if errors.Is(c.Err, kerberos.ErrNTLM) {
		return "Your device offered NTLM, which is not taken. Sign in to the domain, and enter the proxy by its full name, not by its address."
	}
	if c.Err != nil && c.Answer == nil {
		return "Your ticket was not taken. Sign out and in again; if that does not help, tell your administrator the time and the number below."
	}
	return ""
}

// SignIn returns the address of the page to sign in on, or "".
func (c *Challenge) SignIn() string { return c.Page }

// OpenHost reports whether a host is reachable without a sign-in.
func (c *Challenge) OpenHost(host string) bool { return c.open.has(host) }

// Challenges returns the values for Proxy-Authenticate, strongest scheme first.
func (c *Challenge) Challenges() (all []string) {
	switch {
	case c.Answer != nil:
		return append(all, "Negotiate "+base64.StdEncoding.EncodeToString(c.Answer)) // alone: another choice would end the negotiation
	case c.Negotiate:
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
	groups  map[string][]string // of users in lower case, sorted
	known   map[string]bool     // users with addresses, and groups
	named   map[string]bool     // groups
	basic   *basic              // nil if there is no sign-in
	ids     map[string]string   // users by ClientID in lower case

	kerberos     *negotiate     // nil if no tickets are accepted
	sessions     *session.Table // nil if there are none
	headers      Headers
	fields       []string      // of headers
	certificates *certificates // nil if none are requested
	signIn       *signIn       // nil if there is no page to sign in on
	open         openHosts     // reachable without a sign-in
	members      *members      // groups of users in a directory, or nil
	anyGroup     bool          // groups may come from outside the settings
	anyUser      bool          // users may

	spelling speller
	shared   *bart.Lite    // addresses of many people each, where sessions do not count; nil for none
	idle     time.Duration // after which an unused session does not count; 0 for never
}

// A place holds everything that the address alone determines.
type place struct {
	user   string
	groups []string // sorted, including those of the user
	around []string // sorted, those of everybody here: without the user's and those of the user's device
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
	Previous *Identity      // the Identity before, whose answers are kept; nil if there is none
	Tickets  string         // file that keeps used tickets for the next start; "" for none
	Answers  string         // file that keeps the directory's answers for the next start; "" for none
}

// New reads the settings and the password file.
func New(cfg Config, parts Parts) (*Identity, error) {
	id := &Identity{groups: map[string][]string{}, known: map[string]bool{}, named: map[string]bool{}, sessions: parts.Sessions}
	for user := range cfg.Addresses {
		id.known[user] = true
	}
	for group := range cfg.Groups {
		id.known[group], id.named[strings.ToLower(group)] = true, true
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
		if id.basic, err = newBasic(cfg.Basic, parts.Previous); err != nil {
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
	id.open = openHosts{}
	if err := id.open.add(cfg.Open); err != nil {
		return nil, err
	}
	if err := id.signIns(cfg.SignIn, b, parts); err != nil {
		return nil, setting.At("sign-in", err)
	}
	if err := id.readOthers(cfg, b, parts); err != nil {
		return nil, err
	}
	if err := id.sharedAddresses(&cfg); err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(cfg.Groups) {
		if err := b.group(id, name, cfg.Groups[name], cfg.Addresses); err != nil {
			return nil, setting.At("groups."+name, err)
		}
	}
	b.owners(id)
	id.nets = b.table(id)
	if id.kerberos != nil && id.kerberos.members != nil {
		id.members = id.kerberos.members
	} else if id.basic != nil {
		if d, ok := id.basic.source.(*directory.Directory); ok && d.Finds() {
			id.members = newMembers(d)
		}
	}
	id.keepAnswers(cfg, parts)
	return id, nil
}

// sharedAddresses reads where sessions do not count, and for how long.
func (id *Identity) sharedAddresses(cfg *Config) error {
	if id.idle = cfg.Session.Idle.Or(0); id.idle != 0 && id.idle < time.Minute {
		return setting.At("session.idle", fmt.Errorf("%v: write 1m or more", id.idle))
	}
	for i, n := range cfg.Shared {
		p, err := parseNetwork(n)
		if err != nil {
			return setting.At(fmt.Sprintf("shared[%d]", i), err)
		}
		if id.shared == nil {
			id.shared = new(bart.Lite)
		}
		id.shared.Insert(p)
	}
	return nil
}

// Close waits for questions to directories, and closes the connections to them.
func (id *Identity) Close() {
	if id.members != nil {
		id.members.close()
	}
	if id.basic != nil {
		id.basic.asking.End(lastAnswers)
	}
	if id.signIn != nil && id.signIn.provider != nil {
		id.signIn.provider.Close()
	}
	if id.certificates != nil && id.certificates.ocsp != nil {
		id.certificates.ocsp.Close()
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
	return id.named[strings.ToLower(name)] || id.anyGroup || id.basic != nil && id.basic.source != nil || id.kerberos != nil && id.kerberos.mayHaveGroup(name)
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
	proxyAuthorization = bytes.Trim(proxyAuthorization, " \t") // what else Unicode calls blanks is text in HTTP
	// What a request proves outranks what is known of its address. Credentials that nobody
	// verifies here are no credentials.
	if at.login && len(proxyAuthorization) > 0 && id.verifies(proxyAuthorization) {
		client, err := id.prove(ctx, addr, at, proxyAuthorization)
		id.letIn(err)
		return client, err
	}
	if at.user != "" {
		client.Source = "address"
		return client, nil
	}
	if open := id.session(addr); open != nil {
		client.User, client.Source = id.spelling.plain(open.User), open.Source
		client.Groups = union(at.groups, id.groupsIn(client.User))
		groups := open.Groups
		if open.Source == "ldap" && id.members != nil && time.Since(open.At) > outage {
			groups = nil // what a directory has said counts for a day
		}
		id.addCurrent(ctx, &client, groups)
		return client, nil
	}
	switch {
	case at.signIn:
		return client, &Challenge{Page: id.signIn.page, open: id.open}
	case at.login:
		err := id.challenge(nil)
		id.letIn(err)
		return client, err
	}
	return client, nil
}

// letIn tells an error which hosts are reachable in spite of it.
func (id *Identity) letIn(err error) {
	if err == nil || len(id.open) == 0 {
		return
	}
	if c, ok := errors.AsType[*Challenge](err); ok {
		c.open = id.open
	} else if w, ok := errors.AsType[*Wait](err); ok {
		w.open = id.open
	}
}

// session returns the session of an address, nil if there is none, or if the address is one of
// many people's.
func (id *Identity) session(addr netip.Addr) *session.Session {
	if id.isShared(addr) {
		return nil
	}
	open := id.sessions.Active(addr, id.idle)
	if open == nil && id.signIn != nil {
		if open = id.sessions.OfDevice(addr); open != nil {
			if id.isShared(open.Addr) { // the device is one of many people, too
				return nil
			}
			open = id.sessions.Active(open.Addr, id.idle)
		}
	}
	if open != nil && open.By == "portal" && !id.Stands(open.User, open.Source, open.ID) {
		return nil
	}
	return open
}

// isShared reports whether an address is one of many people's.
func (id *Identity) isShared(addr netip.Addr) bool {
	return id.shared != nil && id.shared.Contains(addr)
}

// prove identifies a client by its credentials, and by nothing else: who sends wrong ones is not
// the person of the address.
func (id *Identity) prove(ctx context.Context, addr netip.Addr, at *place, proxyAuthorization []byte) (filter.Client, error) {
	client := filter.Client{Addr: addr, Groups: at.around}
	if token, sent := negotiated(proxyAuthorization); sent {
		return id.ticket(ctx, client, token)
	}
	user, err := id.basic.verify(ctx, addr, proxyAuthorization)
	if err != nil {
		if login := (*Challenge)(nil); errors.As(err, &login) {
			login.Negotiate = id.kerberos != nil
		}
		return client, err
	}
	client.User, client.Source = id.spelling.plain(user.name), "basic"
	if user.hash == nil {
		client.Source = id.basic.origin
	}
	client.Groups = union(union(client.Groups, id.groupsIn(client.User)), user.groups)
	return client, nil
}

// verifies reports whether the settings have something that verifies credentials of this kind,
// where a login is required.
func (id *Identity) verifies(proxyAuthorization []byte) bool {
	scheme, _, _ := bytes.Cut(proxyAuthorization, []byte(" "))
	switch {
	case bytes.EqualFold(scheme, []byte("Basic")):
		return id.basic != nil
	case isTicket(scheme):
		return id.kerberos != nil
	}
	return false
}

// groupsIn returns the groups that the settings have for a user, in whatever case the name is
// written. It does not copy a name in lower case.
func (id *Identity) groupsIn(user string) []string {
	if len(id.groups) == 0 {
		return nil
	}
	return id.groups[strings.ToLower(user)]
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
	c = filter.Client{Addr: addr.Unmap(), User: user, Groups: id.groupsIn(user), Source: "client-id"}
	c.Groups = union(id.place(c.Addr).around, c.Groups)
	return c, true
}

// NamedClient returns the client at addr that another party has identified as a user: a
// proxy in front of us, a directory, a certificate. source names this party. The
// groups are those given and those that the settings have for user and address.
func (id *Identity) NamedClient(addr netip.Addr, user string, groups []string, source string) filter.Client {
	user = id.spelling.plain(user)
	c := filter.Client{Addr: addr.Unmap(), User: user, Source: source}
	if len(groups) > 0 {
		c.Groups = slices.Clone(groups)
		slices.Sort(c.Groups)
		c.Groups = slices.Compact(c.Groups)
	}
	c.Groups = union(c.Groups, id.groupsIn(user))
	c.Groups = union(id.place(c.Addr).around, c.Groups)
	return c
}

// addCurrent adds the present groups of the client's user: those from the source of the user,
// or those of the directory if the source is the directory or gave none. While the directory
// does not answer, they are unknown, unless it gave them when the user signed in.
func (id *Identity) addCurrent(ctx context.Context, c *filter.Client, groups []string) {
	if id.members == nil || len(groups) > 0 && c.Source != "ldap" && c.Source != session.RADIUS {
		c.Groups = union(c.Groups, groups)
		return
	}
	if c.Source == session.RADIUS { // what an access point says is never all
		c.Groups, groups = union(c.Groups, groups), nil
	}
	id.addMember(c, id.members.groupsOf(ctx, c.User), groups)
}

// addMember adds what the directory says of the client's user; last are the groups that it
// has said before.
func (id *Identity) addMember(c *filter.Client, m membership, last []string) {
	switch {
	case m.unknown == nil:
		if user := id.spelling.plain(m.user); user != "" && user != c.User { // one person, one name
			c.User = user
			c.Groups = union(c.Groups, id.groupsIn(user))
		}
		c.Groups = union(c.Groups, m.groups)
		if m.absent {
			c.Note = fmt.Sprintf("the directory has no user %q, and so no groups", c.User)
			c.Unknown = c.Source == "ldap" // the account has been there, and was removed
		}
	case len(last) > 0:
		c.Groups = union(c.Groups, last)
	default:
		c.Unknown, c.Note = true, fmt.Sprintf("the groups of %q are not known now: %v", c.User, m.unknown)
	}
}

// ReportedClient is NamedClient, but if the source gave no groups, it adds those of the
// directory.
func (id *Identity) ReportedClient(ctx context.Context, addr netip.Addr, user string, groups []string, source string) filter.Client {
	c := id.NamedClient(addr, user, groups, source)
	if len(groups) == 0 {
		id.addCurrent(ctx, &c, nil)
	}
	return c
}

// DirectoryClient is NamedClient with the groups that the configured directory has for the
// user, or those of the address's session. While no directory answers, answers
// of the last day are used; an error reports that there are none.
func (id *Identity) DirectoryClient(ctx context.Context, addr netip.Addr, user, source string) (filter.Client, error) {
	c := id.NamedClient(addr, user, nil, source)
	if s := id.sessions.Lookup(c.Addr); s != nil && id.spelling.plain(s.User) == c.User {
		c.Groups = union(c.Groups, s.Groups)
	}
	if id.members == nil {
		return c, nil
	}
	m := id.members.groupsOf(ctx, c.User)
	if m.unknown != nil {
		c.Unknown = true // the caller may judge all the same
		return c, unanswered(fmt.Errorf("look up the groups of %q: %w", c.User, m.unknown))
	}
	id.addMember(&c, m, nil)
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
			if !slices.Contains(b.groups[p], name) {
				b.groups[p] = append(b.groups[p], name)
			}
			continue
		}
		_, known := addresses[m]
		for _, user := range id.ids {
			known = known || user == m
		}
		if !known && !id.anyUser && (id.basic == nil || id.basic.accounts[m] == nil && id.basic.source == nil) {
			return setting.At(fmt.Sprintf("[%d]", i), fmt.Errorf("%q is neither a user in addresses, client-ids or the password file nor a network", m))
		}
		if m = strings.ToLower(id.spelling.plain(m)); !slices.Contains(id.groups[m], name) {
			id.groups[m] = append(id.groups[m], name)
		}
	}
	return nil
}

// owners makes whoever a device belongs to a member of the device's groups: with another device,
// too. Else a person would lose a group when the device gets its owner's name.
func (b *builder) owners(id *Identity) {
	for device, user := range b.users {
		user = strings.ToLower(id.spelling.plain(user))
		id.groups[user] = union(id.groups[user], b.groups[device])
	}
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
			owned := at.user == "" && b.users[wider] != ""
			if owned {
				at.user = b.users[wider]
			}
			if !owned || !wider.IsSingleIP() {
				at.around = append(at.around, b.groups[wider]...)
			}
			at.groups = append(at.groups, b.groups[wider]...)
			at.login = at.login || b.login[wider]
			at.signIn = at.signIn || b.signIn[wider]
		}
		at.groups = append(at.groups, id.groupsIn(at.user)...)
		for _, groups := range []*[]string{&at.groups, &at.around} {
			slices.Sort(*groups)
			*groups = slices.Compact(*groups)
		}
		nets.Insert(p, at)
	}
	return nets
}

func parseNetwork(s string) (netip.Prefix, error) {
	var n setting.Network
	err := n.UnmarshalText([]byte(s))
	return n.Prefix, err
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
