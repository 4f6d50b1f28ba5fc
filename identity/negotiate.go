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
	"shuultuur/lib/wait"
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

func newNegotiate(cfg *Kerberos, old *Identity) (*negotiate, error) {
	n := &negotiate{names: map[string][]string{}, given: map[string]bool{}, signed: map[string]ticketUser{}}
	var seen *kerberos.Replays
	if old != nil && old.kerberos != nil {
		seen = old.kerberos.acceptor.SeenTokens()
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
	n.mu.Lock()
	makeRoom(n.signed, func(t ticketUser) bool { return time.Now().After(t.until) })
	n.signed[l.User] = t
	n.mu.Unlock()
	c, err = id.member(ctx, c, l.User, t)
	if err == nil && l.Answer != nil {
		c.Proof = "Negotiate " + base64.StdEncoding.EncodeToString(l.Answer)
	}
	return c, err
}

// member returns the client of a user with the user's present groups.
func (id *Identity) member(ctx context.Context, c filter.Client, user string, t ticketUser) (filter.Client, error) {
	groups := union(union(c.Groups, id.groups[user]), t.groups)
	if m := id.kerberos.members; m != nil {
		more, err := m.groupsOf(ctx, user)
		if err != nil {
			return c, unanswered(fmt.Errorf("look up the groups of %q: %w", user, err))
		}
		groups = union(groups, more)
	}
	return filter.Client{Addr: c.Addr, User: user, Groups: groups, Source: "kerberos"}, nil
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
	at := id.place(was.Addr)
	c, err := id.member(ctx, filter.Client{Addr: was.Addr, Groups: at.groups}, was.User, t)
	return c, err == nil
}

// members caches the groups that a directory has for users.
type members struct {
	source directory.Finder
	turn   chan struct{} // holds one element for each query in progress
	asking wait.Group

	mu    sync.Mutex
	known map[string]*member
}

type member struct {
	groups []string // sorted
	asked  time.Time
	until  time.Time
	asking chan struct{} // closed when the query in progress is answered; nil if there is none
	since  time.Time     // when that query was sent
	err    error         // of the last query
}

// atMost is how long after a query requests wait for an answer that they can do
// without. So a slow directory goes unnoticed.
const atMost = 250 * time.Millisecond

func newMembers(source directory.Finder) *members {
	return &members{source: source, turn: make(chan struct{}, maxAsking), known: map[string]*member{}}
}

// groupsOf returns the groups of a user. For a new user, it waits for the directory.
func (m *members) groupsOf(ctx context.Context, user string) ([]string, error) {
	groups, _, err := m.find(ctx, user, true)
	return groups, err
}

// withoutWaiting returns the cached groups of a user; ok is false if the directory did not
// answer in time.
func (m *members) withoutWaiting(ctx context.Context, user string) (groups []string, ok bool) {
	groups, ok, _ = m.find(ctx, user, false)
	return groups, ok
}

// find returns the groups of a user; ok is false if the directory has not
// answered. If the groups are needed, it waits for the answer, otherwise until
// atMost after the query.
func (m *members) find(ctx context.Context, user string, needed bool) (groups []string, ok bool, err error) {
	m.mu.Lock()
	k, now := m.known[user], time.Now()
	if k != nil && now.Before(k.until) {
		defer m.mu.Unlock()
		return k.groups, true, nil
	}
	if k == nil {
		makeRoom(m.known, func(k *member) bool { return k.asking == nil && now.After(k.asked.Add(outage)) })
		k = &member{}
		m.known[user] = k
	}
	if k.asking == nil {
		k.asking, k.since = make(chan struct{}), now
		m.asking.Go(func(ctx context.Context) { m.ask(ctx, user, k) })
	}
	asking, known := k.asking, !k.asked.IsZero() && now.Before(k.asked.Add(outage))
	left := k.since.Add(atMost).Sub(now)
	m.mu.Unlock()
	var patience <-chan time.Time
	if known || !needed {
		t := time.NewTimer(left)
		defer t.Stop()
		patience = t.C
	}
	select {
	case <-asking:
	case <-patience:
	case <-ctx.Done():
		err = ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !k.asked.IsZero() && now.Before(k.asked.Add(outage)) {
		return k.groups, true, nil
	}
	if err == nil {
		err = k.err
	}
	return nil, false, err
}

// ask queries the directory.
func (m *members) ask(ctx context.Context, user string, k *member) {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	_, groups, err := m.source.Find(ctx, user)
	if errors.Is(err, directory.ErrRefused) {
		groups, err = nil, nil // the directory does not have the user: no groups
	}
	slices.Sort(groups)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if k.err = err; err == nil {
		k.groups, k.asked, k.until = slices.Compact(groups), now, now.Add(verifiedFor)
	} else if !k.asked.IsZero() {
		k.until = now.Add(again)
	}
	close(k.asking)
	k.asking = nil
}
