package account

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/atomicfile"
)

// A Session is a browser in which a user has signed in.
type Session struct {
	ID      string     `json:"id"`
	Digest  string     `json:"digest,omitempty"` // digest of the cookie
	Account string     `json:"account"`
	Stamp   string     `json:"stamp,omitempty"` // the account's mark when it began
	Method  string     `json:"method"`          // password, passkey, oidc
	Addr    netip.Addr `json:"addr"`
	Agent   string     `json:"agent,omitempty"`
	Created time.Time  `json:"created"`
	Seen    time.Time  `json:"seen"`
}

const (
	maxSessions = 10_000
	maxOfOne    = 20 // sessions of one account; the oldest is dropped
	maxAgent    = 200
	seenEvery   = time.Minute // precision with which the last use is kept on disk
)

type sessions struct {
	all     []Session
	written time.Time
}

func fill(b []byte) { _, _ = rand.Read(b) } // never fails

func (b *Book) sessionFile() string { return filepath.Join(b.dir, "sessions.json") }

func (b *Book) readSessions() error {
	data, err := os.ReadFile(b.sessionFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading sessions: %w", err)
	}
	if json.Unmarshal(data, &b.session.all) != nil { // everybody signs in again
		b.session.all = nil
		return atomicfile.SetAside(b.sessionFile())
	}
	return nil
}

// keepSessions writes the sessions; mu is held.
func (b *Book) keepSessions() error {
	data, err := json.Marshal(b.session.all)
	if err != nil {
		return err
	}
	b.session.written = b.now()
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	err = atomicfile.WriteBytes(b.sessionFile(), 0o600, data)
	giveToOwner(b.dir, "", "sessions.json")
	return err
}

// Origin is the client's address and browser.
type Origin struct {
	Addr  netip.Addr
	Agent string
}

// SignIn begins a session with a password, and a code if the account requires
// one. It returns the secret for the cookie.
func (b *Book) SignIn(ctx context.Context, name, password, code string, from Origin) (secret string, err error) {
	name = strings.TrimSpace(name)
	key := strings.ToLower(name)
	guess, err := b.guess(ctx, key)
	if err != nil {
		return "", err
	}
	defer func() { guess.End(errors.Is(err, ErrWrong)) }()
	b.mu.Lock()
	if err := b.read(); err != nil {
		b.mu.Unlock()
		return "", err
	}
	var a Account
	if i := b.kept.at(name); i >= 0 {
		a = b.kept.Accounts[i]
	}
	b.mu.Unlock()
	if !verify(a.Password, password) {
		return "", ErrWrong
	}
	if a.TOTP != "" {
		if code == "" {
			return "", ErrCode
		}
		if err := b.useCode(a.Name, code); err != nil {
			return "", err
		}
	}
	b.wrong.Forget(key)
	return b.begin(a.Name, a.Stamp, "password", from)
}

// Begin begins a session for a user whom another service, or a passkey, has
// identified.
func (b *Book) Begin(name, method string, from Origin) (secret string, err error) {
	b.mu.Lock()
	err = b.read()
	i := b.kept.at(name)
	var a Account
	if i >= 0 {
		a = b.kept.Accounts[i]
	}
	b.mu.Unlock()
	if err != nil {
		return "", err
	}
	if i < 0 {
		return "", fmt.Errorf("%q: %w", name, ErrNone)
	}
	return b.begin(a.Name, a.Stamp, method, from)
}

// SignInAs begins a session for the user whom an OpenID provider identifies by
// subject, with the role that the settings assign. The first sign-in creates the
// account; each sign-in updates its role and groups. A changed role ends earlier
// sessions. An existing account of another kind is not used.
func SignInAs(b *Book, subject, name string, role Role, groups []string, from Origin) (secret string, err error) {
	if role != Helper {
		groups = nil
	}
	fresh := Account{Name: name, Role: role, Groups: groups, Subject: subject, Handle: random(32), Stamp: random(12), Created: b.now().UTC().Truncate(time.Second)}
	if err := fresh.check(); err != nil {
		return "", err
	}
	var a Account
	err = b.change(func(k *accountFile) error {
		i := slices.IndexFunc(k.Accounts, func(a Account) bool { return a.Subject == subject })
		switch {
		case i >= 0:
			if old := &k.Accounts[i]; old.Role != role || !slices.Equal(old.Groups, groups) {
				if old.Role == Owner && k.owners() == 1 {
					return ErrLast
				}
				old.Role, old.Groups, old.Stamp = role, groups, fresh.Stamp
			}
			a = k.Accounts[i]
			return nil
		case k.at(name) >= 0:
			return fmt.Errorf("%q: %w, which is not of the provider: an owner may remove it", name, ErrExists)
		case len(k.Accounts) >= maxAccounts:
			return fmt.Errorf("there are %d accounts already", maxAccounts)
		case len(k.Accounts) == 0 && role != Owner:
			return errors.New("the first account is an owner's: nobody else could add more")
		}
		a = fresh
		k.Accounts = append(k.Accounts, fresh)
		return nil
	})
	if err != nil {
		return "", err
	}
	return b.begin(a.Name, a.Stamp, "oidc", from)
}

// EndSubject removes the account of a user whom the OpenID provider names in no group
// that has a role any longer, with its sessions and tokens. The last owner's account
// stays, without them: an address without accounts would be open to this machine.
func EndSubject(b *Book, subject string) error {
	return b.change(func(k *accountFile) error {
		i := slices.IndexFunc(k.Accounts, func(a Account) bool { return a.Subject == subject })
		if i < 0 {
			return nil
		}
		if a := &k.Accounts[i]; a.Role == Owner && k.owners() == 1 {
			a.Stamp = random(12)
			k.Tokens = slices.DeleteFunc(k.Tokens, func(t Token) bool { return t.Account == a.Name })
			return nil
		}
		return k.remove(i)
	})
}

func (b *Book) begin(name, stamp, method string, from Origin) (secret string, err error) {
	secret = random(32)
	now := b.now().UTC().Truncate(time.Second)
	s := Session{ID: random(9), Digest: digest(secret), Account: name, Stamp: stamp, Method: method, Addr: from.Addr, Agent: from.Agent[:min(len(from.Agent), maxAgent)], Created: now, Seen: now}
	s.Agent = strings.ToValidUTF8(s.Agent, "")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session.all = slices.DeleteFunc(b.session.all, func(s Session) bool { return b.hasExpired(&s) })
	mine := 0
	for i := len(b.session.all) - 1; i >= 0; i-- {
		if b.session.all[i].Account == name {
			if mine++; mine >= maxOfOne {
				b.session.all = slices.Delete(b.session.all, i, i+1)
			}
		}
	}
	if len(b.session.all) >= maxSessions {
		return "", fmt.Errorf("there are %d sessions already; end some", maxSessions)
	}
	b.session.all = append(b.session.all, s)
	return secret, b.keepSessions()
}

// hasExpired reports whether a session has come to its end; mu is held.
func (b *Book) hasExpired(s *Session) bool {
	r, now := b.rules(), b.now()
	i := b.kept.at(s.Account)
	return i < 0 || b.kept.Accounts[i].Stamp != s.Stamp || now.Sub(s.Seen) >= r.Idle || now.Sub(s.Created) >= r.Total
}

// BySession returns the user of the session with a secret. used is false for requests that a
// page makes by itself, which keep no session alive.
func (b *Book) BySession(secret string, used bool) (who Who, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(secret) > 100 || b.read() != nil {
		return who, false
	}
	d := digest(secret)
	i := slices.IndexFunc(b.session.all, func(s Session) bool { return s.Digest == d })
	if i < 0 {
		return who, false
	}
	s := &b.session.all[i]
	if b.hasExpired(s) {
		b.session.all = slices.Delete(b.session.all, i, i+1)
		return who, false
	}
	if used {
		s.Seen = b.now().UTC().Truncate(time.Second)
	}
	if used && b.now().Sub(b.session.written) >= seenEvery {
		_ = b.keepSessions() // a restart may then forget a minute of use
	}
	a := &b.kept.Accounts[b.kept.at(s.Account)]
	return Who{Name: a.Name, Role: a.Role, Groups: slices.Clone(a.Groups), Via: "session", Session: s.ID}, true
}

// Sessions returns the sessions of an account, or all for "", newest first.
func (b *Book) Sessions(name string) []Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := []Session{}
	for _, s := range slices.Backward(b.session.all) {
		if !b.hasExpired(&s) && (name == "" || s.Account == name) {
			s.Digest, s.Stamp = "", ""
			all = append(all, s)
		}
	}
	return all
}

// End ends a session of an account, or of any account for "". It reports
// whether there was one.
func (b *Book) End(id, name string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.session.all)
	b.session.all = slices.DeleteFunc(b.session.all, func(s Session) bool { return s.ID == id && (name == "" || s.Account == name) })
	if len(b.session.all) == n {
		return false, nil
	}
	return true, b.keepSessions()
}

// Has reports whether an account has this password.
func (b *Book) Has(ctx context.Context, name, password string) bool {
	guess, err := b.guess(ctx, strings.ToLower(name))
	if err != nil {
		return false
	}
	b.mu.Lock()
	kept := ""
	if i := b.kept.at(name); b.read() == nil && i >= 0 {
		kept = b.kept.Accounts[i].Password
	}
	b.mu.Unlock()
	ok := verify(kept, password)
	guess.End(!ok)
	return ok
}
