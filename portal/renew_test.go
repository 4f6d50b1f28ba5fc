package portal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
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
	return m.groups, m, m.err
}

func (m *directory) seal() (string, error) { return "sealed", nil }

// TestSessionsGetTheGroupsOfNow: sessions get new groups, and keep their groups while the
// provider does not answer.
func TestSessionsGetTheGroupsOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(slog.New(slog.DiscardHandler), "")
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
		s.remember("anna", m, []string{"pupils"}, time.Now().Add(time.Hour))
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
	s := NewServer(slog.New(slog.DiscardHandler), "")
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

// TestTheProviderIsAskedAgainAfterARestart: soon, for those whose session goes on, and with the
// tokens of the last answer.
func TestTheProviderIsAskedAgainAfterARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sign-ins.json")
	withdrawn := make(chan string, 10)
	var refreshed []string // guarded by lock
	var lock sync.Mutex
	idp := http.NewServeMux()
	at := httptest.NewServer(idp)
	defer at.Close()
	idp.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":"%[1]s/auth","token_endpoint":"%[1]s/token","jwks_uri":"%[1]s/keys","userinfo_endpoint":"%[1]s/userinfo"}`, at.URL)
	})
	idp.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		token := r.FormValue("refresh_token")
		lock.Lock()
		refreshed = append(refreshed, token)
		lock.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if token == "of ben" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant"}`)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":1,"refresh_token":%q}`, token, token+"+")
	})
	idp.HandleFunc("/userinfo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"sub":"1","groups":["staff"]}`) // only anna gets so far
	})
	provider, err := oidc.New(oidc.Config{Issuer: at.URL, ClientID: "gate"}, []byte("a key of sixteen bytes"))
	if err != nil {
		t.Fatal(err)
	}
	var e *Engine
	start := func() *Server {
		s := NewServer(slog.New(slog.DiscardHandler), file)
		box, err := seal.New(make([]byte, 32), "test")
		if err != nil {
			t.Fatal(err)
		}
		e = &Engine{Pages: &Pages{box: box}, Provider: provider, Session: time.Hour, Identify: func(context.Context, netip.Addr) filter.Client { return filter.Client{} },
			Start: func(session.Session) error { return nil }, Regroup: func(string, string, []string) error { return nil },
			Withdraw: func(user, source string) error { withdrawn <- user; return nil }}
		if err := s.Use(e); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start()
	for user, subject := range map[string]string{"anna": "1", "ben": "2", "carl": "3"} {
		keys, err := seal.New([]byte("a key of sixteen bytes"), "oidc login")
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := keys.Seal(map[string]any{"Issuer": at.URL, "Subject": subject, "User": user, "Token": map[string]any{"refresh_token": "of " + user}})
		if err != nil {
			t.Fatal(err)
		}
		who, err := provider.OpenUser(sealed)
		if err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(time.Hour)
		if user == "carl" {
			until = time.Now().Add(-time.Second)
		}
		s.remember(user, provided{who}, []string{"pupils"}, until)
	}
	s.Close()
	if b, err := os.ReadFile(file); err != nil || strings.Contains(string(b), "of anna") {
		t.Fatalf("the file: %s, %v; tokens must be sealed", b, err)
	}
	s = start()
	s.renew(t.Context())
	if got := s.groupsOf(membership{User: "anna", Source: "oidc"}); !slices.Equal(got, []string{"staff"}) {
		t.Errorf("after a restart the groups are %q, want staff", got)
	}
	if got := <-withdrawn; got != "ben" || len(withdrawn) > 0 {
		t.Errorf("%q is withdrawn, and %d others; want ben", got, len(withdrawn))
	}
	s.Close()
	s = start()
	s.renew(t.Context())
	s.Close()
	lock.Lock()
	defer lock.Unlock()
	slices.Sort(refreshed)
	refreshed = slices.Compact(refreshed) // a refused one is sent again, as another kind of client
	if !slices.Equal(refreshed, []string{"of anna", "of anna+", "of ben"}) {
		t.Errorf("the provider was asked with %q", refreshed)
	}
	if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	start().Close()
}
