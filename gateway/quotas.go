package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"shuultuur/admin"
	"shuultuur/filter"
)

// balance says what a client has left by the policy that covers it.
func (e *Engine) balance(ctx context.Context, c *filter.Client, now time.Time) (string, []filter.Balance) {
	return e.policy.Balance(ctx, "", c, now)
}

// quotas says what somebody has left, for the admin address.
func (g *Gateway) quotas(ctx context.Context, policy string, addr netip.Addr, user string) admin.Quotas {
	e := g.engine.Load()
	if e == nil {
		return admin.Quotas{}
	}
	c := filter.Client{Addr: addr, User: user}
	if user == "" {
		if who, err := e.Identify(ctx, addr); err == nil {
			c = who
		}
	}
	q := admin.Quotas{User: c.User}
	q.Policy, q.Quotas = e.policy.Balance(ctx, policy, &c, time.Now())
	return q
}

// Left says what a client has left of the quotas of a policy, by asking the
// gateway that runs with the same settings at its admin address. A policy
// without quotas has none.
func (e *Engine) Left(ctx context.Context, name string, c *filter.Client) ([]filter.Balance, error) {
	s := e.settings
	some := false
	for i := range s.Policies {
		some = some || s.Policies[i].Name == name && len(s.Policies[i].Quotas) > 0
	}
	at := s.admin()
	if !some || at == "" {
		return nil, nil
	}
	left, err := askLeft(ctx, at+"/quotas?"+url.Values{"policy": {name}, "client": {c.Addr.String()}, "user": {c.User}}.Encode())
	if err != nil {
		return nil, fmt.Errorf("what is left of the quotas only a running gateway knows: %w", err)
	}
	return left, nil
}

func askLeft(ctx context.Context, url string) ([]filter.Balance, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q) // not by a proxy
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, r.Status)
	}
	var said admin.Quotas
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&said); err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return said.Quotas, nil
}
