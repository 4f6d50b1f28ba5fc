package gateway

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"shuultuur/filter"
	"shuultuur/identity"
)

// identify asks id who a client is, and says what it answers in the words of
// the proxy, which does not know identities.
func identify(id *identity.Identity) func(context.Context, netip.Addr, []byte) (filter.Client, error) {
	return func(ctx context.Context, addr netip.Addr, authorization []byte) (filter.Client, error) {
		c, err := id.Identify(ctx, addr, authorization)
		if err == nil {
			return c, nil
		}
		var login *identity.Challenge
		var wait *identity.Wait
		switch {
		case errors.As(err, &login):
			return c, challenge{login}
		case errors.As(err, &wait):
			return c, later{wait}
		}
		return c, err
	}
}

// A challenge asks the client to log in.
type challenge struct{ to *identity.Challenge }

func (c challenge) Error() string { return c.to.Error() }

// Challenge returns the value for Proxy-Authenticate.
func (c challenge) Challenge() string { return c.to.Header() }

// A later asks the client to come back.
type later struct{ wait *identity.Wait }

func (l later) Error() string { return l.wait.Error() }

// Later returns the status of the answer and the time for Retry-After.
func (l later) Later() (status int, after time.Duration) { return l.wait.Status, l.wait.For }
