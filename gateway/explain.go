package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"shuultuur/admin"
	"shuultuur/filter"
	"shuultuur/identity"
	"shuultuur/policy"
)

// Explain builds the engine of the settings in file to say whether a gateway
// could start with it, and what it would decide. Nothing listens, nothing is
// recorded or remembered, and a pause counts that is kept in the data folder.
// The returned function lets go of it.
func Explain(ctx context.Context, file string) (*Engine, func(), error) {
	s, err := Read(file)
	if err != nil {
		return nil, nil, err
	}
	s.Checks.Full()
	log := slog.New(slog.DiscardHandler)
	e, err := build(ctx, s, nil, nil, log)
	if err != nil {
		return nil, nil, err
	}
	return e, func() { e.drop(nil, log) }, nil
}

// As returns the decider of the engine, or one that judges everybody by the
// policy called name.
func (e *Engine) As(name string) (filter.Decider, error) {
	if name == "" {
		return e.policies.Engine, nil
	}
	return e.policies.As(name)
}

// Picture says in lines for a person what the checks see in a picture.
func (e *Engine) Picture(ctx context.Context, b []byte) []string { return e.checks.Explain(ctx, b) }

// Identify says who is at addr when nobody has logged in.
func (e *Engine) Identify(ctx context.Context, addr netip.Addr) (filter.Client, error) {
	return e.identity.Identify(ctx, addr, nil)
}

// Left says what a client has left of the quotas of a policy, by asking the
// gateway that runs with the same settings. A policy without quotas has none.
func (e *Engine) Left(ctx context.Context, name string, c *filter.Client) ([]filter.Balance, error) {
	some := false
	for i := range e.settings.Policies {
		p := &e.settings.Policies[i]
		some = some || p.Name == name && len(p.Quotas) > 0
	}
	if !some {
		return nil, nil
	}
	left, err := e.settings.client().Quotas(ctx, name, c.Addr, c.User)
	if errors.Is(err, admin.ErrOff) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("what is left of the quotas only a running gateway knows: %w", err)
	}
	return left, nil
}

// AskPauses takes the pauses of the gateway that runs with the same settings, if
// one answers, and returns those that hold. Where none answers those in the data
// folder count.
func (e *Engine) AskPauses(ctx context.Context) []policy.Pause {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if all, err := e.settings.client().Pause(ctx, "", ""); err == nil {
		e.pauses.Pauses.Set(all)
	}
	return e.pauses.At(time.Now())
}

// Reachable says whether the proxy connects to where t leads, as far as that is
// known without asking a name server.
func (e *Engine) Reachable(t *filter.Transaction) error {
	return e.settings.Proxy.Reachable(t)
}

// identify says who a client is, or what keeps it from being known in the words of
// the proxy, which does not know identities.
func (e *Engine) identify() func(context.Context, netip.Addr, []byte) (filter.Client, error) {
	id, at := e.identity, e.settings.portalURL()+"/sign-in"
	return func(ctx context.Context, addr netip.Addr, authorization []byte) (filter.Client, error) {
		c, err := id.Identify(ctx, addr, authorization)
		if login := (*identity.Challenge)(nil); errors.As(err, &login) && login.SignIn {
			return c, stranger{id, at, err}
		}
		return c, inWords(err)
	}
}

// A stranger is to sign in on a page.
type stranger struct {
	id    *identity.Identity
	at    string
	cause error
}

func (s stranger) Error() string { return s.cause.Error() }

// SignIn returns the address of the page.
func (s stranger) SignIn() string { return s.at }

// OpenHost says whether a host is reached without a sign-in.
func (s stranger) OpenHost(host string) bool { return s.id.OpenHost(host) }

// inWords is an error of identity in the words of the proxy.
func inWords(err error) error {
	var login *identity.Challenge
	var wait *identity.Wait
	switch {
	case errors.As(err, &login):
		return challenge{login}
	case errors.As(err, &wait):
		return later{wait}
	}
	return err
}

// A challenge asks the client to log in.
type challenge struct{ to *identity.Challenge }

func (c challenge) Error() string { return c.to.Error() }

// Challenges returns the values for Proxy-Authenticate.
func (c challenge) Challenges() []string { return c.to.Headers() }

// Advice is what the page says besides.
func (c challenge) Advice() string { return c.to.Advice() }

// A later asks the client to come back.
type later struct{ wait *identity.Wait }

func (l later) Error() string { return l.wait.Error() }

// Later returns the status of the answer and the time for Retry-After.
func (l later) Later() (status int, after time.Duration) { return l.wait.Status, l.wait.For }
