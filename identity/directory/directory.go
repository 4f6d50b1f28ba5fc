// Package directory verifies names and passwords with servers of others, and
// asks them for the groups of a user: LDAP directories (ldap.go) and RADIUS
// servers (radius.go).
//
// Data moves as follows: [Source.Verify] tries the servers in order until one answers.
// Answers are not kept here: package identity does that, and goes on with them
// while no server answers.
package directory

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Source verifies a name and a password. It is safe for many goroutines.
type Source interface {
	// Verify returns the user's name as the server writes it and its groups.
	// ErrRefused reports that the password is wrong or that there is no such user;
	// every other error that no server could say.
	Verify(ctx context.Context, name, password string) (user string, groups []string, err error)
}

// ErrRefused reports that a server does not know the name with that password.
var ErrRefused = errors.New("wrong name or password")

// A Refusal is an ErrRefused for a reason that the server has told.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return r.Why }

// Is makes it an ErrRefused.
func (r *Refusal) Is(err error) bool { return err == ErrRefused }

// A Finder returns the groups of an authenticated user.
type Finder interface {
	// Find is [Source.Verify] without a password.
	Find(ctx context.Context, name string) (user string, groups []string, err error)
}

// leftOut is how long a server that did not answer is asked after the others.
const leftOut = 10 * time.Second

// An order is that in which servers are asked: as they stand in the settings, but
// those that did not answer lately come last.
type order struct {
	mu     sync.Mutex
	failed map[string]time.Time
}

// of returns the servers in order.
func (o *order) of(servers []string) []string {
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

// note notes whether a server has answered.
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
