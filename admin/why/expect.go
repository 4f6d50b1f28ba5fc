package why

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/identity"
	"shuultuur/lib/setting"
	"shuultuur/policy"
)

// Expectations are the expectations of policies (policies: expect), with what
// decides whether they are met.
type Expectations struct {
	Policies policy.Config
	Groups   map[string][]string // of the settings
	Identity *identity.Identity
	Decider  *policy.Engine
}

// Unmet returns the expectations that are not met, as errors with the keys of settings. It
// judges what a request shows, without a page.
func (e *Expectations) Unmet(ctx context.Context) error {
	var errs []error
	for i := range e.Policies {
		p := &e.Policies[i]
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
	return errors.Join(errs...)
}

// expect returns an error if one URL is not judged as expected.
func (e *Expectations) expect(ctx context.Context, of string, x *policy.Expectation, url string) error {
	q := Question{URL: url}
	t, err := RequestOf(&q)
	if err != nil {
		return setting.At("url", err)
	}
	if label := func(l string) bool { return l == "" || len(l) > 63 }; slices.ContainsFunc(strings.Split(t.Host, "."), label) {
		return setting.At("url", fmt.Errorf("%q is not the address of a host: the labels of a name have 1 to 63 characters", url))
	}
	if t.Start, err = x.Moment(time.Now()); err != nil {
		return setting.At("at", err)
	}
	d, err := e.setClient(ctx, of, x.As, t)
	if err != nil {
		return setting.At("as", err)
	}
	judge(ctx, d, t, &q, entersTunnel(d, t))
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

// setClient sets the client of t for an expectation of a policy, and returns the
// decider.
func (e *Expectations) setClient(ctx context.Context, of, as string, t *filter.Transaction) (filter.Decider, error) {
	if as == "" {
		return e.Decider.As(of)
	}
	if addr, err := setting.Client(as); err == nil {
		t.Client, _ = e.Identity.Identify(ctx, addr, nil) // a client that must log in has the groups of the address
		return e.Decider, nil
	}
	isPolicy, isGroup, isUser := false, false, e.Identity.Has(as)
	for i := range e.Policies {
		p := &e.Policies[i]
		isPolicy = isPolicy || p.Name == as
		isGroup = isGroup || slices.Contains(p.Groups, as)
		isUser = isUser || slices.Contains(p.Users, as)
	}
	if _, named := e.Groups[as]; named {
		isGroup = true
	}
	switch {
	case isGroup:
		t.Client = filter.Client{Groups: []string{as}}
	case isPolicy && !slices.ContainsFunc(e.Policies, func(p policy.Policy) bool { return slices.Contains(p.Users, as) }):
		return e.Decider.As(as)
	case isUser || e.Identity.HasGroup(as): // or others identify the client
		t.Client = e.Identity.NamedClient(netip.Addr{}, as, nil, "")
	default:
		return nil, fmt.Errorf("%q is not an address, a user, a group or a policy of the settings", strings.TrimSpace(as))
	}
	return e.Decider, nil
}
