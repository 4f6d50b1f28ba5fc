package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/why"
	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/setting"
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

// Why says what the engine would do with a request, and why. Engines of
// [Explain] name all evidence. Nothing is fetched, recorded or remembered.
func (e *Engine) Why(ctx context.Context, q admin.Question) (*admin.Explanation, error) {
	t, err := why.Asked(&q)
	if err != nil {
		return nil, err
	}
	d, err := e.As(q.As)
	if err != nil {
		return nil, &admin.BadChange{Err: err}
	}
	if q.User == "" {
		if c, err := e.Identify(ctx, t.Client.Addr); err == nil {
			c.Groups = append(c.Groups[:len(c.Groups):len(c.Groups)], q.Groups...)
			t.Client = c
		}
	}
	x := why.Judge(ctx, d, t, &q)
	x.Settings, x.QuotaLeft = e.settings.text.File, e.QuotaLeft(ctx, t)
	if len(e.pauses.At(time.Now())) > 0 && t.Verdict.After > 0 {
		x.Paused = "until " + time.Now().Add(t.Verdict.After).Format(time.DateTime)
	}
	if err := e.Reachable(t); err != nil && !t.Verdict.Final() {
		x.Refused, x.Action = err.Error(), "refused"
	}
	return x, nil
}

// QuotaLeft says what the client of t has left of its quotas.
func (e *Engine) QuotaLeft(ctx context.Context, t *filter.Transaction) (l admin.QuotaLeft) {
	var err error
	if l.Quotas, err = e.Left(ctx, t.Verdict.Reason.Policy, &t.Client); err != nil {
		l.Unknown = err.Error()
	}
	return l
}

// Expectations says which expectations of the settings (policies: expect) the
// engine does not meet: [setting.Mistakes] with their lines, nil when it meets
// all. Ask an engine of [Explain]: one that serves has learned, and counts.
func (e *Engine) Expectations(ctx context.Context) error {
	x := why.Expectations{Policies: e.settings.Policies, Groups: e.settings.Identity.Groups, Identity: e.identity, Decider: e.policies.Engine}
	return e.settings.text.Mistakes(x.Unmet(ctx))
}

// unmet says in lines for the operator which expectations the settings in use
// do not meet: a list that was renewed may be the reason.
func (g *Gateway) unmet(ctx context.Context) (problems []string) {
	run := g.engine.Load()
	if !slices.ContainsFunc(run.settings.Policies, func(p policy.Policy) bool { return len(p.Expect) > 0 }) {
		return nil
	}
	s, err := Parse(run.settings.text.File, run.settings.text.Data())
	if err != nil {
		return nil // it was read before
	}
	g.trying.Lock()
	defer g.trying.Unlock()
	e, done, err := try(ctx, s)
	if err != nil {
		return []string{fmt.Sprintf("the expectations of policies cannot be checked: %v", err)}
	}
	defer done()
	err = e.Expectations(ctx)
	var all setting.Mistakes
	if errors.As(err, &all) {
		for _, m := range all {
			problems = append(problems, m.String())
		}
	}
	return problems
}
