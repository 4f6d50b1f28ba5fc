package account

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Invitation lets somebody make an account of a chosen name and role, once. The owner who invites
// never knows the password.
type Invitation struct {
	ID      string    `json:"id"`
	Digest  string    `json:"digest,omitempty"` // of the secret in the link
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Groups  []string  `json:"groups,omitempty"`
	By      string    `json:"by"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

const (
	maxInvitations = 200
	// InvitedFor is how long an invitation holds.
	InvitedFor = 7 * 24 * time.Hour
	// undoTime is how long a removed account can be taken back.
	undoTime = 10 * time.Minute
)

// ErrInvitation reports that a link leads nowhere any more.
var ErrInvitation = errors.New("this invitation was used, was taken back, or has expired: ask for another one")

// withoutExpired drops invitations that have expired.
func (k *accountFile) withoutExpired(now time.Time) {
	k.Invitations = slices.DeleteFunc(k.Invitations, func(i Invitation) bool { return !now.Before(i.Expires) })
}

// Invite makes an invitation. The secret belongs into the link, and is not kept.
func (b *Book) Invite(name string, role Role, groups []string, by string) (secret string, err error) {
	a := Account{Name: name, Role: role, Groups: groups}
	if err := a.check(); err != nil {
		return "", err
	}
	secret = random(24)
	now := b.now().UTC().Truncate(time.Second)
	return secret, b.change(func(k *accountFile) error {
		k.withoutExpired(now)
		switch {
		case len(k.Accounts) == 0:
			return errors.New("make your own account first: nobody can be invited without an owner")
		case k.at(name) >= 0:
			return fmt.Errorf("%q: %w", name, ErrExists)
		case len(k.Invitations) >= maxInvitations:
			return fmt.Errorf("%d invitations are open: take some back", maxInvitations)
		}
		k.Invitations = slices.DeleteFunc(k.Invitations, func(i Invitation) bool { return strings.EqualFold(i.Name, name) }) // the last link counts
		k.Invitations = append(k.Invitations, Invitation{ID: random(9), Digest: digest(secret), Name: name, Role: role, Groups: groups, By: by, Created: now, Expires: now.Add(InvitedFor)})
		return nil
	})
}

// Invitations returns the open invitations, without their digests.
func (b *Book) Invitations() ([]Invitation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read(); err != nil {
		return nil, err
	}
	open := []Invitation{}
	for _, i := range b.kept.Invitations {
		if i.Digest = ""; b.now().Before(i.Expires) {
			open = append(open, i)
		}
	}
	return open, nil
}

// Invited returns the invitation of a link.
func (b *Book) Invited(secret string) (Invitation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read(); err != nil {
		return Invitation{}, err
	}
	if i := b.kept.invited(secret, b.now()); i >= 0 {
		found := b.kept.Invitations[i]
		found.Digest = ""
		return found, nil
	}
	return Invitation{}, ErrInvitation
}

func (k *accountFile) invited(secret string, now time.Time) int {
	want := []byte(digest(secret))
	return slices.IndexFunc(k.Invitations, func(i Invitation) bool {
		return subtle.ConstantTimeCompare([]byte(i.Digest), want) == 1 && now.Before(i.Expires)
	})
}

// Accept makes the account of an invitation, which is used up by that. It returns the name.
func (b *Book) Accept(secret, password string) (name string, err error) {
	in, err := b.Invited(secret)
	if err != nil {
		return "", err
	}
	a := Account{Name: in.Name, Role: in.Role, Groups: in.Groups, Handle: random(32), Stamp: random(12), Created: b.now().UTC().Truncate(time.Second)}
	if a.Password, err = hash(in.Name, password); err != nil {
		return "", err
	}
	return in.Name, b.change(func(k *accountFile) error {
		i := k.invited(secret, b.now())
		switch {
		case i < 0:
			return ErrInvitation
		case k.at(in.Name) >= 0:
			return fmt.Errorf("%q: %w", in.Name, ErrExists)
		case len(k.Accounts) >= maxAccounts:
			return fmt.Errorf("there are %d accounts already", maxAccounts)
		}
		k.Invitations = slices.Delete(k.Invitations, i, i+1)
		k.Accounts = append(k.Accounts, a)
		return nil
	})
}

// Uninvite takes an invitation back.
func (b *Book) Uninvite(id string) error {
	return b.change(func(k *accountFile) error {
		i := slices.IndexFunc(k.Invitations, func(i Invitation) bool { return i.ID == id })
		if i < 0 {
			return fmt.Errorf("it has ended already: %w", ErrInvitation)
		}
		k.Invitations = slices.Delete(k.Invitations, i, i+1)
		return nil
	})
}

// A removed account can be taken back for a while, as long as the gateway runs.
type removed struct {
	account Account
	tokens  []Token
	at      time.Time
}

// Removed returns the names of accounts that can be taken back.
func (b *Book) Removed() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.removed {
		if b.now().Sub(r.at) < undoTime {
			names = append(names, r.account.Name)
		}
	}
	return names
}

// TakeBack makes a removed account again, with its passkeys and tokens. Its sessions have ended.
func (b *Book) TakeBack(name string) error {
	return b.change(func(k *accountFile) error {
		i := slices.IndexFunc(b.removed, func(r removed) bool {
			return strings.EqualFold(r.account.Name, name) && b.now().Sub(r.at) < undoTime
		})
		switch {
		case i < 0:
			return fmt.Errorf("%q: %w", name, ErrNone)
		case k.at(name) >= 0:
			return fmt.Errorf("%q: %w", name, ErrExists)
		}
		r := b.removed[i]
		r.account.Stamp = random(12)
		k.Accounts = append(k.Accounts, r.account)
		k.Tokens = append(k.Tokens, r.tokens...)
		b.removed = slices.Delete(b.removed, i, i+1)
		return nil
	})
}

// Offered returns the secret that Offer has made and Confirm has not yet seen a code of, and its
// address; "" if there is none.
func (b *Book) Offered(name, issuer string) (secret, address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if secret = b.pending[strings.ToLower(name)]; secret == "" {
		return "", ""
	}
	return secret, totpAddress(secret, name, issuer)
}
