package portal

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"shuultuur/identity/oidc"
	"shuultuur/lib/atomicfile"
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
	file string // keeps them over a restart; "" for none

	mu      sync.Mutex
	of      map[string]*renewal
	running bool
	changed bool // since the file was written
	read    bool // the file has been read
}

type renewal struct {
	ask    renewer
	groups []string // sorted
	next   time.Time
	until  time.Time // end of the session
}

// A renewer requests the groups of a person.
type renewer interface {
	// renew returns the groups, and the renewer for the next time.
	renew(ctx context.Context) (groups []string, next renewer, err error)
	// seal returns what a renewer can be made of after a restart.
	seal() (string, error)
}

// A provided is a renewer that asks the provider.
type provided struct{ who *oidc.User }

func (p provided) renew(ctx context.Context) ([]string, renewer, error) {
	now, err := p.who.Renew(ctx)
	if err != nil {
		return nil, nil, err
	}
	return now.Groups, provided{now}, nil
}

func (p provided) seal() (string, error) { return p.who.Seal() }

// remember lets a person's groups be renewed until the session ends.
func (s *Server) remember(user string, ask renewer, groups []string, until time.Time) {
	s.renewFrom(user, &renewal{ask: ask, groups: groups, next: time.Now().Add(renewEvery), until: until})
}

// renewFrom lets a person's groups be renewed.
func (s *Server) renewFrom(user string, n *renewal) {
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
	r.of[user], r.changed = n, true
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
				s.keepRenewals()
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

// withdraw ends the sessions of a person whom the provider signs in no more.
func (s *Server) withdraw(user string, why error) {
	s.renewals.mu.Lock()
	delete(s.renewals.of, user)
	s.renewals.changed = true
	s.renewals.mu.Unlock()
	s.log.Warn("sessions end: the provider has withdrawn the sign-in", "user", user, "error", why)
	if e := s.engine.Load(); e.Withdraw != nil {
		if err := e.Withdraw(user, "oidc"); err != nil {
			s.log.Error("sessions do not end", "user", user, "error", err)
		}
	}
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
			s.renewals.changed = true
		case !now.Before(n.next):
			n.next = now.Add(renewEvery)
			due[user] = n
		}
	}
	s.renewals.mu.Unlock()
	for user, n := range due {
		begin := time.Now()
		groups, next, err := n.ask.renew(ctx)
		if err != nil {
			if errors.Is(err, oidc.ErrWithdrawn) {
				s.withdraw(user, err)
				continue
			}
			s.log.Info("groups are not renewed: those of before count", "user", user, "error", err)
			if ctx.Err() != nil || time.Since(begin) > 5*time.Second {
				return // the provider does not answer: the remaining people are renewed next time
			}
			continue
		}
		groups = s.fitting(s.engine.Load(), user, groups)
		s.renewals.mu.Lock()
		changed := !slices.Equal(n.groups, groups)
		n.ask, n.groups, s.renewals.changed = next, groups, true
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

// A keptRenewal is a person in the file.
type keptRenewal struct {
	User   string    `json:"user"`
	Groups []string  `json:"groups"`
	Until  time.Time `json:"until"`
	Sealed string    `json:"sealed"`
}

// maxRenewals bounds the file, in bytes.
const maxRenewals = 256 << 20

// keepRenewals writes the file, if something has changed. The tokens in it are sealed.
func (s *Server) keepRenewals() {
	r := &s.renewals
	if r.file == "" {
		return
	}
	r.mu.Lock()
	if !r.changed {
		r.mu.Unlock()
		return
	}
	r.changed = false
	all := map[string]renewal{}
	for user, n := range r.of {
		all[user] = *n
	}
	r.mu.Unlock()
	kept := make([]keptRenewal, 0, len(all))
	for user, n := range all {
		sealed, err := n.ask.seal()
		if err != nil {
			s.log.Error("a person's groups will not be renewed after a restart", "user", user, "error", err)
			continue
		}
		kept = append(kept, keptRenewal{user, n.groups, n.until, sealed})
	}
	err := atomicfile.Write(r.file, 0o600, func(f *os.File) error { return json.NewEncoder(f).Encode(kept) })
	if err != nil {
		s.log.Error("groups will not be renewed after a restart", "file", r.file, "error", err)
		r.mu.Lock()
		r.changed = true // tried again
		r.mu.Unlock()
	}
}

// readRenewals reads the people whom a run before has remembered, once. The provider is asked
// for all of them soon: what it has withdrawn meanwhile ends.
func (s *Server) readRenewals(p *oidc.Provider) {
	r := &s.renewals
	r.mu.Lock()
	done := r.read || r.file == "" || p == nil
	r.read = r.read || !done
	r.mu.Unlock()
	if done {
		return
	}
	f, err := os.Open(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var kept []keptRenewal
	if err == nil {
		defer f.Close()
		if err = json.NewDecoder(io.LimitReader(f, maxRenewals)).Decode(&kept); err != nil {
			err = errors.Join(err, atomicfile.SetAside(r.file))
		}
	}
	if err != nil {
		s.log.Error("the groups of those who have signed in before are not renewed", "file", r.file, "error", err)
		return
	}
	now := time.Now()
	for _, k := range kept {
		if !now.Before(k.Until) {
			continue
		}
		who, err := p.OpenUser(k.Sealed)
		if err != nil {
			s.log.Warn("groups are not renewed before the next sign-in", "user", k.User, "error", err)
			continue
		}
		s.renewFrom(k.User, &renewal{ask: provided{who}, groups: k.Groups, next: now, until: k.Until})
	}
}
