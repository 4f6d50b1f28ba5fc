// Package directory verifies names and passwords with external servers and asks them
// for the groups of users: LDAP directories (ldap.go) and RADIUS servers (radius.go).
//
// Data moves as follows: [Source.Verify] tries the servers in order until one answers.
// This package does not keep answers. Package identity does, and uses them while no
// server answers.
package directory

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Source verifies names and passwords. It is safe for concurrent use.
type Source interface {
	// Verify returns the user's name as the server spells it, and the user's
	// groups. ErrRefused reports that the password is wrong or that the user does
	// not exist; any other error, that no server could decide.
	Verify(ctx context.Context, name, password string) (user string, groups []string, err error)
}

// ErrRefused reports that a server refused the name or password.
var ErrRefused = errors.New("wrong name or password")

// A Refusal is an ErrRefused with the reason that the server gave.
type Refusal struct {
	Why string
	// Proven says that the password was right: whoever sent it may know the reason.
	Proven bool
}

// A PersonError says why a directory that answers does not tell who somebody is, or which groups they
// have. It says nothing of other people.
type PersonError struct {
	Err    error
	Proven bool // the password was right
}

func (e *PersonError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *PersonError) Unwrap() error { return e.Err }

// NoEntry is the reason to refuse a name that nobody has. It gives away who is there, so only the
// record has it.
const NoEntry = "the directory has no such user"

// Reasons to refuse a password that was right.
const (
	PasswordExpired = "the password has expired"
	MustChange      = "the password has to be changed first"
	Disabled        = "the account is disabled"
	AccountExpired  = "the account has expired"
)

func (r *Refusal) Error() string { return r.Why }

// Is makes a Refusal match ErrRefused.
func (r *Refusal) Is(err error) bool { return err == ErrRefused }

// A Finder says what a directory has about a user.
type Finder interface {
	// Find is [Source.Verify] without a password.
	Find(ctx context.Context, name string) (Found, error)
}

// Found is what a directory has about a user.
type Found struct {
	User     string // as the directory spells it
	Groups   []string
	Stamp    string // another one whenever the password is another; "" if the directory does not say
	Disabled bool   // the account signs nobody in any more
}

// leftOut is how long a server that did not answer is tried after the others.
const leftOut = 10 * time.Second

// An order decides in which order servers are tried: that of the settings, but
// servers that did not answer lately come last.
type order struct {
	mu     sync.Mutex
	failed map[string]time.Time
}

// sorted returns the servers in order.
func (o *order) sorted(servers []string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.failed) == 0 {
		return servers
	}
	var first, last []string
	for _, s := range servers {
		if time.Since(o.failed[s]) < leftOut {
			last = append(last, s)
		} else {
			first = append(first, s)
		}
	}
	return append(first, last...)
}

// note records whether a server has answered.
func (o *order) note(server string, answered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if answered {
		delete(o.failed, server)
		return
	}
	if o.failed == nil {
		o.failed = map[string]time.Time{}
	}
	o.failed[server] = time.Now()
}
