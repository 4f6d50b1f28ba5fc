package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/admin"
	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/setting"
)

// Expectations says which expectations of the settings (policies: expect) the
// engine does not meet: [setting.Mistakes] with their lines, nil when it meets
// all. It judges what a request shows, without a page. Ask an engine of
// [Explain]: one that serves has learned, and counts.
func (e *Engine) Expectations(ctx context.Context) error {
	var errs []error
	for i := range e.settings.Policies {
		p := &e.settings.Policies[i]
		for j := range p.Expect {
			for _, url := range p.Expect[j].URL {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := e.expect(ctx, p.Name, &p.Expect[j], url); err != nil {
					errs = append(errs, setting.At(fmt.Sprintf("policies[%d].expect[%d]", i, j), err))
				}
			}
		}
	}
	return e.settings.text.Mistakes(errors.Join(errs...))
}

// expects says whether there is anything to check.
func (s *Settings) expects() bool {
	return slices.ContainsFunc(s.Policies, func(p policy.Policy) bool { return len(p.Expect) > 0 })
}

// expect says in what one URL is not judged as it should be.
func (e *Engine) expect(ctx context.Context, of string, x *policy.Expectation, url string) error {
	q := admin.Question{URL: url}
	t, err := asked(&q)
	if err != nil {
		return setting.At("url", err)
	}
	if t.Start, err = x.Moment(time.Now()); err != nil {
		return setting.At("at", err)
	}
	d, err := e.asking(ctx, of, x.As, t)
	if err != nil {
		return setting.At("as", err)
	}
	if looks, ok := d.(decrypts); ok && t.Proto == filter.TLS && looks.Decrypts(t) {
		t.Proto = filter.HTTP
	}
	judge(ctx, d, t, &q)
	v := &t.Verdict
	if x.Meets(v.Action) {
		return nil
	}
	by := "no rule fits"
	if v.Reason.Rule != "" {
		by = fmt.Sprintf("rule %q of policy %q decides", v.Reason.Rule, v.Reason.Policy)
		if c := v.Reason.Finding.Category; c != "" {
			by += " by the category " + c
		}
	} else if v.Reason.Policy == "" && x.As != "" {
		by = "no policy covers " + x.As
	}
	return fmt.Errorf("%s is expected to be %s and is %s: %s", url, x.Is, v.Action, by)
}

// decrypts is a decider that says whose connections are looked into.
type decrypts interface {
	Decrypts(*filter.Transaction) bool
}

// asking makes t a question of whom an expectation of the policy of names, and
// returns what decides it.
func (e *Engine) asking(ctx context.Context, of, as string, t *filter.Transaction) (filter.Decider, error) {
	if as == "" {
		return e.policies.As(of)
	}
	if addr, err := netip.ParseAddr(as); err == nil {
		t.Client, _ = e.Identify(ctx, addr.Unmap()) // who would have to log in has the groups of the address
		return e.policies.Engine, nil
	}
	isPolicy, isGroup, isUser := false, false, e.identity.Knows(as)
	for i := range e.settings.Policies {
		p := &e.settings.Policies[i]
		isPolicy = isPolicy || p.Name == as
		isGroup = isGroup || slices.Contains(p.Groups, as)
		isUser = isUser || slices.Contains(p.Users, as)
	}
	if _, named := e.settings.Identity.Groups[as]; named {
		isGroup = true
	}
	switch {
	case isGroup:
		t.Client = filter.Client{Groups: []string{as}}
	case isPolicy && !slices.ContainsFunc(e.settings.Policies, func(p policy.Policy) bool { return slices.Contains(p.Users, as) }):
		return e.policies.As(as)
	case isUser || e.identity.HasGroup(as): // or others know who there is
		t.Client = e.identity.Named(netip.Addr{}, as, nil, "")
	default:
		return nil, fmt.Errorf("%q is not an address, a user, a group or a policy of the settings", strings.TrimSpace(as))
	}
	return e.policies.Engine, nil
}

// unmet says in lines for the operator which expectations the settings in use
// do not meet: a list that was renewed may be the reason.
func (g *Gateway) unmet(ctx context.Context) (problems []string) {
	run := g.engine.Load()
	if !run.settings.expects() {
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
