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
