package portal

import (
	"context"
	"slices"
	"sync"
	"time"

	"shuultuur/identity/oidc"
)

// The gateway asks the provider again for the groups of people who signed in there, so that
// changes apply without a new sign-in.
const (
	renewEvery = 10 * time.Minute
	renewLook  = time.Minute // interval at which due renewals are looked for
	maxRenewed = 10_000      // most people; others keep the groups of their sign-in
)

// renewals are the people who signed in at a provider, by name.
type renewals struct {
	mu      sync.Mutex
	of      map[string]*renewal
	running bool
}

type renewal struct {
	ask    renewer
	groups []string // sorted
	next   time.Time
	until  time.Time // end of the session
}

// A renewer requests the groups of a person and returns the renewer for the next
// time.
type renewer func(ctx context.Context) (groups []string, next renewer, err error)

// renewerOf returns a renewer that asks the provider.
func renewerOf(who *oidc.User) renewer {
	return func(ctx context.Context) ([]string, renewer, error) {
		now, err := who.Renew(ctx)
		if err != nil {
			return nil, nil, err
		}
		return now.Groups, renewerOf(now), nil
	}
}

// remember lets a person's groups be renewed until the session ends.
func (s *Server) remember(user string, ask renewer, groups []string, until time.Time) {
	r := &s.renewals
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]*renewal{}
	}
	if r.of[user] == nil && len(r.of) >= maxRenewed {
		s.log.Warn("groups are not renewed before the next sign-in: too many people have signed in", "user", user, "most", maxRenewed)
		return
	}
	r.of[user] = &renewal{ask: ask, groups: groups, next: time.Now().Add(renewEvery), until: until}
	if r.running {
		return
	}
	r.running = true
	s.devices.work.Go(func() {
		tick := time.NewTicker(renewLook)
		defer tick.Stop()
		for {
			select {
			case <-s.devices.ctx.Done():
				return
			case <-tick.C:
				s.renew(s.devices.ctx)
			}
		}
	})
}

// groupsOf returns the latest known groups of a member, or those of the sign-in.
func (s *Server) groupsOf(m membership) []string {
	if m.Source != "oidc" {
		return m.Groups
	}
	s.renewals.mu.Lock()
	defer s.renewals.mu.Unlock()
	if n := s.renewals.of[m.User]; n != nil {
		return n.groups
	}
	return m.Groups
}

// renew renews the groups of people for whom this is due.
func (s *Server) renew(ctx context.Context) {
	now := time.Now()
	due := map[string]*renewal{}
	s.renewals.mu.Lock()
	for user, n := range s.renewals.of {
		switch {
		case now.After(n.until):
			delete(s.renewals.of, user)
		case !now.Before(n.next):
			n.next = now.Add(renewEvery)
			due[user] = n
		}
	}
	s.renewals.mu.Unlock()
	for user, n := range due {
		begin := time.Now()
		groups, next, err := n.ask(ctx)
		if err != nil {
			s.log.Info("groups are not renewed: those of before count", "user", user, "error", err)
			if ctx.Err() != nil || time.Since(begin) > 5*time.Second {
				return // the provider does not answer: the remaining people are renewed next time
			}
			continue
		}
		groups = s.fitting(user, groups)
		s.renewals.mu.Lock()
		changed := !slices.Equal(n.groups, groups)
		n.ask, n.groups = next, groups
		s.renewals.mu.Unlock()
		if !changed {
			continue
		}
		s.log.Info("groups have changed", "user", user, "groups", groups)
		if err := s.engine.Load().Regroup(user, "oidc", groups); err != nil {
			s.log.Warn("a session does not get its new groups", "user", user, "error", err)
		}
	}
}
