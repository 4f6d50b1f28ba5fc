package portal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/identity/oidc"
	"shuultuur/identity/seal"
	"shuultuur/identity/session"
)

// directory stands in for a provider with groups.
type directory struct {
	mu     sync.Mutex
	groups []string
	err    error
	asked  int
}

func (m *directory) renew(context.Context) ([]string, renewer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	return m.groups, m.renew, m.err
}

// TestSessionsGetTheGroupsOfNow: sessions get new groups, and keep their groups while the
// provider does not answer.
func TestSessionsGetTheGroupsOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(slog.New(slog.DiscardHandler))
		defer s.Close()
		m := &directory{groups: []string{"staff"}}
		lock := func(do func()) {
			m.mu.Lock()
			defer m.mu.Unlock()
			do()
		}
		given := map[string][]string{}
		s.engine.Store(&Engine{Regroup: func(user, source string, groups []string) error {
			lock(func() { given[user+" by "+source] = groups })
			return nil
		}})
		s.remember("anna", m.renew, []string{"pupils"}, time.Now().Add(time.Hour))
		if got := s.groupsOf(membership{User: "anna", Groups: []string{"old"}, Source: "oidc"}); !slices.Equal(got, []string{"pupils"}) {
			t.Errorf("the groups after the sign-in are %q, want pupils", got)
		}
		time.Sleep(renewEvery - time.Minute)
		synctest.Wait()
		lock(func() {
			if m.asked > 0 {
				t.Errorf("the provider is asked too early")
			}
		})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		lock(func() {
			if m.asked != 1 || !slices.Equal(given["anna by oidc"], []string{"staff"}) {
				t.Errorf("the provider was asked %d times, the sessions got %q; want once, staff", m.asked, given)
			}
		})
		// An older cookie does not bring old groups back, except for users with passwords.
		if got := s.groupsOf(membership{User: "anna", Groups: []string{"pupils"}, Source: "oidc"}); !slices.Equal(got, []string{"staff"}) {
			t.Errorf("the groups by an older cookie are %q, want staff", got)
		}
		if got := s.groupsOf(membership{User: "anna", Groups: []string{"pupils"}, Source: "basic"}); !slices.Equal(got, []string{"pupils"}) {
			t.Errorf("the groups of a local account are %q, want pupils", got)
		}
		lock(func() {
			m.err = errors.New("away")
			clear(given)
		})
		time.Sleep(3 * renewEvery)
		synctest.Wait()
		lock(func() {
			if m.asked < 3 || len(given) > 0 {
				t.Errorf("while the provider was away it was asked %d times, the sessions got %q; want no change", m.asked, given)
			}
		})
		if got := s.groupsOf(membership{User: "anna", Source: "oidc"}); !slices.Equal(got, []string{"staff"}) {
			t.Errorf("while the provider is away the groups are %q, want staff", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		s.renewals.mu.Lock()
		defer s.renewals.mu.Unlock()
		lock(func() {
			if len(s.renewals.of) != 0 || m.asked > 7 {
				t.Errorf("after the session %d people are renewed, the provider was asked %d times", len(s.renewals.of), m.asked)
			}
		})
	})
}

// TestSomebodyInManyGroupsSignsIn: the session gets as many groups as fit. At the next address,
// the cookie brings the same.
func TestSomebodyInManyGroupsSignsIn(t *testing.T) {
	s := NewServer(slog.New(slog.DiscardHandler))
	defer s.Close()
	box, err := seal.New(make([]byte, 32), "test")
	if err != nil {
		t.Fatal(err)
	}
	var begun session.Session
	e := &Engine{Pages: &Pages{box: box}, Session: time.Hour, Start: func(n session.Session) (err error) {
		begun, err = session.Check(n, time.Now())
		return err
	}}
	who := &oidc.User{User: "anna"}
	for i := range 2000 {
		who.Groups = append(who.Groups, fmt.Sprintf("group %04d", i))
	}
	if err := s.beginProviderSession(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), e, netip.MustParseAddr("10.1.2.3"), who); err != nil {
		t.Fatal(err)
	}
	later := s.groupsOf(membership{User: "anna", Source: "oidc"})
	if len(begun.Groups) < 64 || len(begun.Groups) == len(who.Groups) || !slices.Equal(later, begun.Groups) {
		t.Errorf("%d groups in the session, %d by the cookie; want as many, at least 64, but not all", len(begun.Groups), len(later))
	}
}
