package portal

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// told is somebody whose provider says groups.
type told struct {
	groups []string
	err    error
	asked  int
}

func (m *told) renew(context.Context) ([]string, renewer, error) {
	m.asked++
	return m.groups, m.renew, m.err
}

// TestSessionsGetTheGroupsOfNow: and keep those of before while the provider does
// not say any.
func TestSessionsGetTheGroupsOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(slog.New(slog.DiscardHandler))
		defer s.Close()
		given := map[string][]string{}
		s.engine.Store(&Engine{Regroup: func(user, source string, groups []string) error {
			given[user+" by "+source] = groups
			return nil
		}})
		m := &told{groups: []string{"staff"}}
		s.remember("anna", m.renew, []string{"pupils"}, time.Now().Add(time.Hour))
		if got := s.groupsOf(membership{User: "anna", Groups: []string{"old"}, Source: "oidc"}); !slices.Equal(got, []string{"pupils"}) {
			t.Errorf("after the sign-in: %q", got)
		}
		time.Sleep(renewEvery - time.Minute)
		synctest.Wait()
		if m.asked > 0 {
			t.Errorf("the provider is asked before the time")
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if m.asked != 1 || m.err != nil || !slices.Equal(given["anna by oidc"], []string{"staff"}) {
			t.Errorf("asked %d times, given %q", m.asked, given)
		}
		// A cookie of before brings no old groups back, but for users of passwords.
		if got := s.groupsOf(membership{User: "anna", Groups: []string{"pupils"}, Source: "oidc"}); !slices.Equal(got, []string{"staff"}) {
			t.Errorf("by a cookie: %q", got)
		}
		if got := s.groupsOf(membership{User: "anna", Groups: []string{"pupils"}, Source: "basic"}); !slices.Equal(got, []string{"pupils"}) {
			t.Errorf("of a local account: %q", got)
		}
		m.err = errors.New("away")
		clear(given)
		time.Sleep(3 * renewEvery)
		synctest.Wait()
		if m.asked < 3 || len(given) > 0 || !slices.Equal(s.groupsOf(membership{User: "anna", Source: "oidc"}), []string{"staff"}) {
			t.Errorf("while it is away: asked %d times, given %q", m.asked, given)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := m.asked; len(s.renewals.of) != 0 || n > 7 {
			t.Errorf("after the session: %d are renewed, asked %d times", len(s.renewals.of), n)
		}
	})
}
