package identity

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shuultuur/filter"
	"shuultuur/identity/directory"
	"shuultuur/identity/kerberos"
	"shuultuur/lib/setting"
)

// Kerberos lets clients sign in with a ticket (Negotiate).
type Kerberos struct {
	kerberos.Config `yaml:",inline"`
	// Networks are those whose clients must sign in; default all.
	Networks []string `yaml:"networks" names:"people"`
	// Groups gives names to the SIDs in tickets of Active Directory, such as
	// S-1-5-21-1004336348-1177238915-682003330-512.
	Groups map[string][]string `yaml:"groups" names:"people"`
	// LDAP provides the groups of users, so that changes apply without a new
	// ticket. Without it, the groups in the ticket apply.
	LDAP *directory.LDAP `yaml:"ldap"`
}

// negotiate accepts tickets.
type negotiate struct {
	acceptor *kerberos.Acceptor
	names    map[string][]string // names of groups, by SID
	given    map[string]bool     // the set of those names
	members  *members            // nil: the groups come from tickets

	mu     sync.Mutex
	signed map[string]ticketUser // users who have signed in
}

// A ticketUser holds the contents of a user's last ticket.
type ticketUser struct {
	groups []string // sorted
	until  time.Time
}

func newNegotiate(cfg *Kerberos, parts *Parts) (*negotiate, error) {
	n := &negotiate{names: map[string][]string{}, given: map[string]bool{}, signed: map[string]ticketUser{}}
	var seen *kerberos.Replays
	if old := parts.Previous; old != nil && old.kerberos != nil {
		seen = old.kerberos.acceptor.SeenTokens()
	} else {
		seen = kerberos.NewReplays(parts.Tickets)
	}
	var err error
	if n.acceptor, err = kerberos.New(cfg.Config, seen); err != nil {
		return nil, err
	}
	for _, g := range sortedKeys(cfg.Groups) {
		n.given[g] = true
		for i, sid := range cfg.Groups[g] {
			if len(sid) < 6 || sid[:2] != "S-" {
				return nil, setting.At(fmt.Sprintf("groups.%s[%d]", g, i), fmt.Errorf(`%q is not a SID; "Get-ADGroup %s" shows it`, sid, g))
			}
			n.names[sid] = append(n.names[sid], g)
		}
	}
	if cfg.LDAP != nil {
		d, err := directory.NewLDAP(*cfg.LDAP)
		if err != nil {
			return nil, setting.At("ldap", err)
		}
		if !d.Finds() {
			return nil, setting.At("ldap.bind", fmt.Errorf("%q needs passwords, which tickets have not: name a service account", cfg.LDAP.Bind))
		}
		n.members = newMembers(d)
	}
	return n, nil
}

// mayHaveGroup reports whether a group of this name is possible.
func (n *negotiate) mayHaveGroup(name string) bool {
	return n.members != nil || n.given[name] || len(name) > 2 && name[:2] == "S-"
}

// negotiated returns the token in a Proxy-Authorization of Negotiate, or of NTLM.
func negotiated(field []byte) (token []byte, sent bool) {
	scheme, rest, _ := bytes.Cut(field, []byte(" "))
	if !isTicket(scheme) {
		return nil, false
	}
	rest = bytes.TrimSpace(rest)
	b := make([]byte, base64.StdEncoding.DecodedLen(len(rest)))
	k, err := base64.StdEncoding.Decode(b, rest)
	if err != nil {
		return nil, true
	}
	return b[:k], true
}

// isTicket reports whether credentials of this scheme are given to the verifier of tickets. It
// refuses NTLM with a reason.
func isTicket(scheme []byte) bool {
	return bytes.EqualFold(scheme, []byte("Negotiate")) || bytes.EqualFold(scheme, []byte("NTLM"))
}

// challenge asks for a ticket, and for a password if passwords are accepted.
func (id *Identity) challenge(err error) *Challenge {
	c := &Challenge{Negotiate: id.kerberos != nil, Err: err}
	if id.basic != nil {
		c.Realm = id.basic.realm
	}
	if next, ok := errors.AsType[*kerberos.Continue](err); ok {
		c.Answer = next.Answer
	}
	return c
}

// ticket identifies a client by its ticket.
func (id *Identity) ticket(ctx context.Context, c filter.Client, token []byte) (filter.Client, error) {
	n := id.kerberos
	l, err := n.acceptor.Accept(c.Addr, token)
	if err != nil {
		return c, id.challenge(err)
	}
	t := ticketUser{until: l.Until}
	for _, sid := range l.SIDs {
		t.groups = append(append(t.groups, sid), n.names[sid]...)
	}
	slices.Sort(t.groups)
	t.groups = slices.Compact(t.groups)
	c = id.member(ctx, c, l.User, t)
	n.mu.Lock()
	makeRoom(n.signed, func(t ticketUser) bool { return time.Now().After(t.until) })
	n.signed[c.User] = t
	n.mu.Unlock()
	if l.Answer != nil {
		c.Proof = "Negotiate " + base64.StdEncoding.EncodeToString(l.Answer)
	}
	return c, nil
}

// member returns the client of a user with the user's present groups.
func (id *Identity) member(ctx context.Context, c filter.Client, user string, t ticketUser) filter.Client {
	user = id.spelling.plain(user)
	who := filter.Client{Addr: c.Addr, User: user, Groups: union(union(c.Groups, id.groupsIn(user)), t.groups), Source: "kerberos"}
	if m := id.kerberos.members; m != nil {
		id.addMember(&who, m.groupsOf(ctx, user), nil)
	}
	return who
}

// IdentifyAgain identifies a client that signed in with a ticket on its connection and
// sends no ticket with its next request. It has the present groups of the user.
// ok is false if the client must sign in again.
func (id *Identity) IdentifyAgain(ctx context.Context, was filter.Client) (c filter.Client, ok bool) {
	if id.kerberos == nil || was.Source != "kerberos" {
		return was, false
	}
	id.kerberos.mu.Lock()
	t, ok := id.kerberos.signed[was.User]
	id.kerberos.mu.Unlock()
	if !ok || time.Now().After(t.until) {
		return was, false
	}
	if id.kerberos.members == nil {
		return was, true
	}
	return id.member(ctx, filter.Client{Addr: was.Addr, Groups: id.place(was.Addr).around}, was.User, t), true
}
