package portal

import (
	"context"
	"slices"
	"sync"
	"time"

	"shuultuur/identity/oidc"
)

// Groups of people who have signed in at a provider are asked for anew, so that
// changes count without a new sign-in.
const (
	renewEvery = 10 * time.Minute
	renewLook  = time.Minute // how often is looked for those whose time has come
	maxRenewed = 10_000      // people; those beyond keep the groups of their sign-in
)

// renewals are those who have signed in at a provider, by name.
type renewals struct {
	mu      sync.Mutex
	of      map[string]*renewal
	running bool
}

type renewal struct {
	ask    renewer
	groups []string // sorted
	next   time.Time
	until  time.Time // the session ends
}

// A renewer asks for the groups of somebody, and returns what asks the next time.
type renewer func(ctx context.Context) (groups []string, next renewer, err error)

// renewerOf asks a provider.
func renewerOf(who *oidc.Who) renewer {
	return func(ctx context.Context) ([]string, renewer, error) {
		now, err := who.Renew(ctx)
		if err != nil {
			return nil, nil, err
		}
		return now.Groups, renewerOf(now), nil
	}
}

// remember has the groups of somebody renewed until the session ends.
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

// groupsOf returns the groups that somebody has by now, those of the sign-in where
// nothing newer is known.
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

// renew asks for the groups of those whose time has come.
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
				return // the provider hangs: the others wait for the next time
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
