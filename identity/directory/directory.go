// Package directory verifies names and passwords with servers of others, and
// asks them for the groups of a user: LDAP directories (ldap.go) and RADIUS
// servers (radius.go).
//
// Data moves so: [Source.Verify] tries the servers in order until one answers.
// Answers are not kept here: package identity does that, and goes on with them
// while no server answers.
package directory

import (
	"context"
	"errors"
)

// A Source verifies a name and a password. It is safe for many goroutines.
type Source interface {
	// Verify returns the user's name as the server writes it and its groups.
	// ErrRefused says that the password is wrong or that there is no such user;
	// every other error that no server could say.
	Verify(ctx context.Context, name, password string) (user string, groups []string, err error)
}

// ErrRefused says that a server does not know the name with that password.
var ErrRefused = errors.New("wrong name or password")

// A Refusal is an ErrRefused for a reason that the server has told.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return r.Why }

// Is makes it an ErrRefused.
func (r *Refusal) Is(err error) bool { return err == ErrRefused }

// A Finder says which groups a user has who has proved already who it is.
type Finder interface {
	// Find is [Source.Verify] without a password.
	Find(ctx context.Context, name string) (user string, groups []string, err error)
}
