package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/identity/directory"
	"shuultuur/identity/session"
	"shuultuur/lib/problem"
	"shuultuur/state"
)

// A flakyDirectory is a directory that can fail.
type flakyDirectory struct {
	mu     sync.Mutex
	down   bool
	asked  int
	groups []string
}

func (f *flakyDirectory) Verify(_ context.Context, name, password string) (string, []string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	switch {
	case f.down:
		return "", nil, errors.New("connect: refused")
	case password != "secret":
		return "", nil, directory.ErrRefused
	}
	return name, []string{"pupils", "choir"}, nil
}

func TestKnownUsersDoNotNoticeAnAbsentDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, err := New(Config{Basic: &Basic{RADIUS: &directory.RADIUS{Servers: []string{"127.0.0.1"}, Secret: "x"}}}, Parts{})
		if err != nil {
			t.Fatal(err)
		}
		f := &flakyDirectory{}
		id.basic.source = f
		login := func(user, password string) (string, []string, error) {
			c, err := id.Identify(t.Context(), netip.MustParseAddr("192.0.2.1"), []byte("Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password))))
			return c.User + " by " + c.Source, c.Groups, err
		}
		if user, groups, err := login("bold", "secret"); err != nil || user != "bold by radius" || !slices.Equal(groups, []string{"choir", "pupils"}) {
			t.Fatalf("verifying the password returned %q, %q, %v; want bold by radius in choir and pupils", user, groups, err)
		}
		f.set(true)
		time.Sleep(time.Hour)
		if user, _, err := login("bold", "secret"); err != nil || user != "bold by radius" {
			t.Errorf("while the directory is away, the known password returned %q, %v", user, err)
		}
		_, _, err = login("saran", "secret")
		if w := (*Wait)(nil); !errors.As(err, &w) || w.Status != 503 || w.For == 0 || !strings.Contains(err.Error(), `the password of "saran": connect: refused`) {
			t.Errorf("while the directory was away, a new user got %v", err)
		}
		f.set(false)
		time.Sleep(time.Hour)
		n := f.times()
		if _, _, err := login("bold", "secret"); err != nil || f.times() != n+1 {
			t.Errorf("after its return the directory was asked %d times, error %v; want once", f.times()-n, err)
		}
		if _, _, err := login("bold", "guess"); err == nil {
			t.Error("a wrong password was accepted")
		}
	})
}

func (f *flakyDirectory) Find(ctx context.Context, name string) (directory.Found, error) {
	f.mu.Lock()
	f.asked++
	down, groups := f.down, slices.Clone(f.groups)
	f.mu.Unlock()
	switch {
	case down:
		time.Sleep(5 * time.Second) // it hangs
		return directory.Found{}, errors.New("connect: timeout")
	case name == "stranger":
		return directory.Found{}, directory.ErrRefused
	}
	return directory.Found{User: name, Groups: groups}, nil
}

// times returns how often the directory was queried.
func (f *flakyDirectory) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// set changes its answers.
func (f *flakyDirectory) set(down bool, groups ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down, f.groups = down, groups
}

// A sessionStore keeps sessions in memory.
type sessionStore struct{}

func (sessionStore) Issue(...state.Instruction) error         { return nil }
func (sessionStore) InForce(topic string) []state.Instruction { return nil }

// TestGroupsComeFromTheDirectoryForEverySource: the directory is queried for
// the groups of users whom another party names without groups, and again for the
// groups of sessions that began with a directory password.
func TestGroupsComeFromTheDirectoryForEverySource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := session.New(sessionStore{}, slog.New(slog.DiscardHandler))
		id, err := New(Config{
			Headers: Headers{User: []string{"X-User"}, Groups: []string{"X-Groups"}},
			Groups:  map[string][]string{"staff": {"anna"}},
			Basic:   &Basic{LDAP: &directory.LDAP{Servers: []string{"ldap://127.0.0.1"}, Base: "dc=x"}},
		}, Parts{Sessions: sessions})
		if err != nil {
			t.Fatal(err)
		}
		f := &flakyDirectory{groups: []string{"pupils"}}
		id.members = newMembers(f)
		for addr, s := range map[string]session.Session{
			"192.0.2.1": {User: "anna", Source: "ldap", Groups: []string{"staff", "teachers"}},
			"192.0.2.2": {User: "anna", Source: "radius"},
			"192.0.2.3": {User: "anna", Source: "oidc", Groups: []string{"choir"}},
			"192.0.2.4": {User: "stranger", Source: "oidc", Groups: []string{"choir"}},
			"192.0.2.5": {User: "stranger", Source: "ldap", Groups: []string{"teachers"}},
		} {
			s.Addr, s.Until = netip.MustParseAddr(addr), time.Now().Add(24*time.Hour)
			if err := sessions.Start(s); err != nil {
				t.Fatal(err)
			}
		}
		check := func(addr string, want ...string) {
			t.Helper()
			c, err := id.Identify(t.Context(), netip.MustParseAddr(addr), nil)
			if err != nil || !slices.Equal(c.Groups, want) {
				t.Errorf("the groups at %s are %q (%v), want %q", addr, c.Groups, err, want)
			}
		}
		check("192.0.2.1", "pupils", "staff")
		check("192.0.2.2", "pupils", "staff")
		check("192.0.2.3", "choir", "staff")
		check("192.0.2.4", "choir")
		check("192.0.2.5")
		forwarded := func(groups ...string) []string {
			c, _, ok := id.ForwardedClient(t.Context(), netip.MustParseAddr("192.0.2.9"), func(name string) []string {
				if name == "X-User" {
					return []string{"otto"}
				}
				return groups
			})
			if !ok {
				t.Error("the client named by the proxy in front was not identified")
			}
			return c.Groups
		}
		if got := forwarded(); !slices.Equal(got, []string{"pupils"}) {
			t.Errorf("a user named without groups has %q, want those of the directory", got)
		}
		if got := forwarded("a, b"); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("a user named with groups has %q, want these", got)
		}
		// Groups change without a new sign-in.
		f.set(false, "leavers")
		time.Sleep(verifiedFor + time.Second)
		check("192.0.2.1", "leavers", "staff")
		// The directory hangs: a known user waits briefly once, and not at all while
		// another request waits.
		f.set(true, "leavers")
		time.Sleep(verifiedFor + time.Second)
		begin := time.Now()
		for range 10 {
			check("192.0.2.1", "leavers", "staff")
			check("192.0.2.5")
		}
		if took := time.Since(begin); took > 2*atMost {
			t.Errorf("20 requests of users who are known took %v", took)
		}
		over, stop := context.WithCancel(t.Context())
		stop()
		begin = time.Now()
		if c := id.ReportedClient(over, netip.MustParseAddr("192.0.2.8"), "new", nil, "header"); c.User != "new" || len(c.Groups) > 0 || time.Since(begin) > 0 {
			t.Errorf("with a directory that hangs, Reported returned %+v after %v", c, time.Since(begin))
		}
		time.Sleep(time.Minute) // abandon the query
	})
}

// slowDirectory answers after a minute, or when it is no longer asked.
type slowDirectory struct{ slow, running atomic.Bool }

func (s *slowDirectory) Verify(ctx context.Context, name, _ string) (string, []string, error) {
	if s.slow.Load() {
		s.running.Store(true)
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
		}
		s.running.Store(false)
	}
	return name, nil, nil
}

func TestCloseWaitsForQuestionsToTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, err := New(Config{Basic: &Basic{RADIUS: &directory.RADIUS{Servers: []string{"127.0.0.1"}, Secret: "x"}}}, Parts{})
		if err != nil {
			t.Fatal(err)
		}
		d := &slowDirectory{}
		id.basic.source = d
		for range 2 {
			if _, err := id.Verify(t.Context(), netip.MustParseAddr("192.0.2.1"), "bold", "secret"); err != nil {
				t.Fatal(err)
			}
			d.slow.Store(true)
			time.Sleep(time.Hour) // the answer is old: it is used while the directory is asked again
		}
		if _, err := id.Verify(t.Context(), netip.MustParseAddr("192.0.2.1"), "bold", "secret"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !d.running.Load() {
			t.Fatal("the directory is not asked")
		}
		if id.Close(); d.running.Load() {
			t.Error("the directory is still asked after Close")
		}
	})
}

// A strictDirectory refuses right passwords of people whose names begin with "old".
type strictDirectory struct{}

func (strictDirectory) Verify(_ context.Context, name, password string) (string, []string, error) {
	switch {
	case password != "secret":
		return "", nil, directory.ErrRefused
	case strings.HasPrefix(name, "old"):
		return "", nil, &directory.Refusal{Why: directory.PasswordExpired, Proven: true}
	case strings.HasPrefix(name, "many"):
		return "", nil, &directory.PersonError{Err: errors.New("the groups are too many"), Proven: true}
	}
	return name, nil, nil
}

// TestRightPasswordsAreNoGuesses: a class behind one address whose passwords have expired does not
// keep the others out, and each is told why.
func TestRightPasswordsAreNoGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, err := New(ldapConfig(), Parts{})
		if err != nil {
			t.Fatal(err)
		}
		defer id.Close()
		id.basic.source = strictDirectory{}
		for i := range 2 * maxFailures {
			for _, who := range []struct{ name, says string }{{"old", "has expired"}, {"many", "groups cannot be found out"}} {
				_, err := id.Identify(t.Context(), client, login(fmt.Sprint(who.name, i), "secret"))
				c := (*Challenge)(nil)
				if !errors.As(err, &c) || !strings.Contains(c.Advice(), who.says) || !strings.Contains(c.Error(), who.name) {
					t.Fatalf("%s%d: %v, advice %q", who.name, i, err, c.Advice())
				}
			}
		}
		if _, err := id.Identify(t.Context(), client, login("anna", "secret")); err != nil {
			t.Errorf("a right password after them: %v", err)
		}
		if problems := problem.Texts(id.Problems()); len(problems) > 0 {
			t.Errorf("the problems are %q", problems)
		}
	})
}
