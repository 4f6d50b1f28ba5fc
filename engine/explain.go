package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"shuultuur/admin/remote"
	"shuultuur/admin/web"
	"shuultuur/admin/why"
	"shuultuur/engine/configuration"
	"shuultuur/filter"
	"shuultuur/identity/directory"
	"shuultuur/identity/session"
	"shuultuur/lib/setting"
	"shuultuur/list/collection"
	"shuultuur/policy"
	"shuultuur/state"
	"shuultuur/whatif"
)

// Explain builds the engine of the settings in file, to find out whether a gateway could start
// with it and what it would decide. It does not listen, record or remember, but pauses in the
// data folder apply. The returned function releases it.
func Explain(ctx context.Context, file string) (*Engine, func(), error) {
	s, err := configuration.Read(file)
	if err != nil {
		return nil, nil, err
	}
	return Try(ctx, s)
}

// Try builds an engine that only answers questions: it gives all evidence, and does not
// listen, count or remember. The returned function releases it.
func Try(ctx context.Context, s *configuration.Settings) (*Engine, func(), error) {
	return TryFrom(ctx, nil, s)
}

// TryFrom is Try with the parts of base, which answers questions too, that are unchanged. The
// returned function releases the others.
func TryFrom(ctx context.Context, base *Engine, s *configuration.Settings) (*Engine, func(), error) {
	return try(ctx, &builder{base: base}, s)
}

// TryChange is TryFrom with lists that alter changes, unless it is nil, and with pauses and
// decisions that are not those of base.
func TryChange(ctx context.Context, base *Engine, s *configuration.Settings, alter func(*collection.Collection)) (*Engine, func(), error) {
	b := &builder{base: base, alter: alter, fresh: []string{"pauses", "decisions"}}
	if alter != nil {
		b.fresh = append(b.fresh, "lists")
	}
	return try(ctx, b, s)
}

func try(ctx context.Context, b *builder, s *configuration.Settings) (*Engine, func(), error) {
	s.Checks.ReportAll()
	b.log = slog.New(slog.DiscardHandler)
	e, err := build(ctx, b, s)
	if err != nil {
		return nil, nil, err
	}
	return e, func() { e.Drop(b.base, b.log) }, nil
}

// As returns the decider of the engine, or one that judges every client by the policy called
// name.
func (e *Engine) As(name string) (filter.Decider, error) {
	if name == "" {
		return e.Policies.Engine, nil
	}
	return e.Policies.As(name)
}

// Picture describes the findings in a picture, in lines for people.
func (e *Engine) Picture(ctx context.Context, b []byte) []string { return e.Checks.Explain(ctx, b) }

// Identify returns the client at addr without a login.
func (e *Engine) Identify(ctx context.Context, addr netip.Addr) (filter.Client, error) {
	return e.Identity.Identify(ctx, addr, nil)
}

// NormaliseWho normalises an address, network, user or group to the form of the settings.
func (e *Engine) NormaliseWho(who string) (string, error) {
	if n := (policy.Network{}); n.UnmarshalText([]byte(who)) == nil {
		if n.IsSingleIP() {
			return n.Addr().String(), nil
		}
		return n.String(), nil
	}
	if !e.Identity.Has(who) {
		return "", &web.BadChange{Err: fmt.Errorf("%q is neither an address, a network nor a user or group of the settings", who)}
	}
	return who, nil
}

// Balances returns the remainders of a client's quotas in a policy, from the gateway that runs
// with the same settings. A policy without quotas has none.
func (e *Engine) Balances(ctx context.Context, name string, c *filter.Client) ([]filter.Balance, error) {
	some := false
	for i := range e.Settings.Policies {
		p := &e.Settings.Policies[i]
		some = some || p.Name == name && len(p.Quotas) > 0
	}
	if !some {
		return nil, nil
	}
	left, err := e.Settings.Client().Quotas(ctx, name, c.Addr, c.User)
	if errors.Is(err, remote.ErrOff) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("only a running gateway knows what is left of the quotas: %w", err)
	}
	return left, nil
}

// AskPauses applies and returns the pauses of the gateway that runs with the same settings. If
// none answers, those in the data folder apply.
func (e *Engine) AskPauses(ctx context.Context) []policy.Pause {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if all, err := e.Settings.Client().Pause(ctx, "", ""); err == nil {
		e.Pauses.Pauses.Set(all)
	}
	return e.Pauses.At(time.Now())
}

// AskSession applies the session that an address has in the gateway that runs with the same
// settings, if one answers.
func (e *Engine) AskSession(ctx context.Context, addr netip.Addr) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	all, _ := e.Settings.Client().Sessions(ctx, addr) // without a gateway there are none
	for _, s := range all {
		if text, err := json.Marshal(s); err == nil {
			e.Sessions.Receive([]state.Instruction{{Topic: session.Topic, Key: s.Addr.String(), Value: string(text), Until: s.Until}})
		}
	}
}

// Why returns the engine's decision on a request, and the reason. Engines of [Explain] give all
// evidence. Nothing is fetched, recorded or remembered.
func (e *Engine) Why(ctx context.Context, q why.Question) (*why.Explanation, error) {
	t, err := why.RequestOf(&q)
	if err != nil {
		return nil, err
	}
	d, err := e.As(q.As)
	if err != nil {
		return nil, &web.BadChange{Err: err}
	}
	if q.User == "" {
		if c, err := e.Identify(ctx, t.Client.Addr); err == nil {
			c.Groups = append(c.Groups[:len(c.Groups):len(c.Groups)], q.Groups...)
			t.Client = c
		}
	}
	x := why.Judge(ctx, d, t, &q)
	x.Settings, x.Line, x.QuotaLeft = e.Settings.Text.File, e.line(&t.Verdict.Reason), e.QuotaLeft(ctx, t)
	if len(e.Pauses.At(time.Now())) > 0 && t.Verdict.After > 0 {
		x.Paused = "until " + time.Now().Add(t.Verdict.After).Format(time.DateTime)
	}
	if err := e.Settings.Proxy.Reachable(t); err != nil && !t.Verdict.Final() {
		x.Refused, x.Action = err.Error(), "refused"
	}
	return x, nil
}

// line returns the line of the rule that decided, or of its policy; 0 if no policy covers the
// client.
func (e *Engine) line(r *filter.Reason) int {
	if place := e.Settings.Policies.Place(r.Policy, r.Rule); place != "" {
		return e.Settings.Text.Line("policies" + place)
	}
	return 0
}

// QuotaLeft returns the remainders of the quotas of t's client.
func (e *Engine) QuotaLeft(ctx context.Context, t *filter.Transaction) (l why.QuotaLeft) {
	var err error
	if l.Quotas, err = e.Balances(ctx, t.Verdict.Reason.Policy, &t.Client); err != nil {
		l.Unknown = err.Error()
	}
	return l
}

// Expectations returns which expectations of the settings (policies: expect) the engine does
// not meet, as setting.Mistakes with their lines, or nil. Use an engine of [Explain]: one
// that serves has learned verdicts, and counts.
func (e *Engine) Expectations(ctx context.Context) error {
	x := why.Expectations{Policies: e.Settings.Policies, Groups: e.Settings.Identity.Groups, Identity: e.Identity, Decider: e.Policies.Engine}
	return e.Settings.Text.Mistakes(errors.Join(e.ambiguousGroups(ctx), x.Unmet(ctx)))
}

// askDirectory bounds how long the directory is asked for its groups when settings are checked.
const askDirectory = 5 * time.Second

// ambiguousGroups reports policies for groups whose names several groups of the directory have,
// if the directory answers.
func (e *Engine) ambiguousGroups(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askDirectory)
	defer cancel()
	var names []string
	for _, p := range e.Settings.Policies {
		names = append(names, p.Groups...)
	}
	found, err := e.Identity.AmbiguousGroups(ctx, names, true)
	if err != nil {
		return nil // that it does not answer is a problem of its running
	}
	var errs []error
	for i, p := range e.Settings.Policies {
		for j, g := range p.Groups {
			if n := slices.IndexFunc(found, func(a *directory.AmbiguousError) bool { return a.Name == g }); n >= 0 {
				errs = append(errs, setting.At(fmt.Sprintf("policies[%d].groups[%d]", i, j), found[n]))
			}
		}
	}
	return errors.Join(errs...)
}

// JudgeInOrder is [Engine.Judge] for events in the order of their time: limits and quotas count
// them.
func (e *Engine) JudgeInOrder(name string) whatif.Judge {
	j := e.Judge(name)
	past := new(state.PastUse)
	p := e.Policies.Engine.Counting(past)
	if p == nil {
		return j
	}
	j.Decider = p
	j.Begin = func(at time.Time) { past.Now = at }
	j.End = func(ctx context.Context, t *filter.Transaction) {
		if t.Proto == filter.DNS {
			p.Query(t)
		} else {
			p.Done(ctx, t)
		}
	}
	return j
}

// Judge returns a function that judges recorded events. An event has the name of a logged-in
// user; the groups are those that the settings give this user now.
func (e *Engine) Judge(name string) whatif.Judge {
	groups := map[string][]string{}
	for name, members := range e.Settings.Identity.Groups {
		for _, m := range members {
			groups[m] = append(groups[m], name)
		}
	}
	return whatif.Judge{Name: name, Decider: e.Policies.Engine, Unseen: e.Policies.Engine.Unlogged, Client: func(ctx context.Context, r *whatif.Entry) filter.Client {
		// An address that requires a login gives an error together with its groups.
		c, _ := e.Identify(ctx, r.Client)
		if r.User != "" && r.User != c.User {
			c.User = r.User
			c.Groups = slices.Concat(c.Groups, groups[r.User])
		}
		return c
	}}
}
