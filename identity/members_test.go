package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/identity/directory"
	"shuultuur/identity/session"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
)

// a delayedDirectory answers after a time, and not at all while it is silent.
type delayedDirectory struct {
	mu     sync.Mutex
	after  time.Duration
	silent bool
}

func (d *delayedDirectory) set(after time.Duration, silent bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.after, d.silent = after, silent
}

func (d *delayedDirectory) Find(ctx context.Context, name string) (directory.Found, error) {
	d.mu.Lock()
	after, silent := d.after, d.silent
	d.mu.Unlock()
	if silent {
		after = 5 * time.Second
	}
	select {
	case <-time.After(after):
	case <-ctx.Done():
	}
	switch {
	case silent:
		return directory.Found{}, context.DeadlineExceeded
	case name == "stranger":
		return directory.Found{}, directory.ErrRefused
	case name == "twin":
		return directory.Found{}, &directory.PersonError{Err: errors.New("two entries are called so")}
	case name == "loner":
		return directory.Found{User: name}, nil
	}
	return directory.Found{User: name, Groups: []string{"pupils"}}, nil
}

func (d *delayedDirectory) Close() {}

// ldapConfig has a directory of which nobody asks the servers: tests put another in its place.
func ldapConfig() Config {
	return Config{
		Headers: Headers{User: []string{"X-User"}, Groups: []string{"X-Groups"}},
		Basic:   &Basic{LDAP: &directory.LDAP{Servers: []string{"ldap://127.0.0.1"}, Base: "dc=x"}},
	}
}

func withDirectory(t *testing.T, d directory.Finder, parts Parts) *Identity {
	t.Helper()
	id, err := New(ldapConfig(), parts)
	if err != nil {
		t.Fatal(err)
	}
	id.members.source = d
	return id
}

// TestUnknownGroupsAreNotNone: the groups of a user are known, or there are none, or they cannot
// be had now. The third is said, and waits for no longer than its time.
func TestUnknownGroupsAreNotNone(t *testing.T) {
	for name, tt := range map[string]struct {
		user    string
		after   time.Duration
		silent  bool
		groups  string
		unknown bool
		note    string
		within  time.Duration
		answers bool // though not about this user
	}{
		"known":      {user: "anna", groups: "pupils"},
		"far away":   {user: "anna", after: 2 * time.Second, groups: "pupils", within: 2 * time.Second},
		"no groups":  {user: "loner"},
		"no user":    {user: "stranger", note: `the directory has no user "stranger"`},
		"two people": {user: "twin", unknown: true, note: `the groups of "twin" are not known now: two entries are called so`, answers: true},
		"silent":     {user: "anna", silent: true, unknown: true, note: `the groups of "anna" are not known now: the directory has not answered yet`, within: atMostNew},
		"too slowly": {user: "anna", after: 4 * time.Second, unknown: true, note: "not known now", within: atMostNew},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				id := withDirectory(t, &delayedDirectory{after: tt.after, silent: tt.silent}, Parts{})
				begin := time.Now()
				c := id.ReportedClient(t.Context(), netip.MustParseAddr("192.0.2.1"), tt.user, nil, "header")
				if strings.Join(c.Groups, " ") != tt.groups || c.Unknown != tt.unknown || !strings.Contains(c.Note, tt.note) || tt.note == "" && c.Note != "" {
					t.Errorf("the client is %+v, want groups %q, unknown %v, note %q", c, tt.groups, tt.unknown, tt.note)
				}
				if took := time.Since(begin); took > tt.within {
					t.Errorf("it took %v, want at most %v", took, tt.within)
				}
				if problems := problem.Texts(id.Problems()); (len(problems) > 0) != (tt.unknown && !tt.answers) {
					t.Errorf("the problems are %q", problems)
				}
				time.Sleep(time.Minute)
				if tt.answers {
					id.Close()
					return
				}
				if !tt.silent {
					if c = id.ReportedClient(t.Context(), c.Addr, tt.user, nil, "header"); c.Unknown || len(id.Problems()) > 0 {
						t.Errorf("after the answer the client is %+v, the problems %q", c, id.Problems())
					}
				} else {
					begin = time.Now()
					if c = id.ReportedClient(t.Context(), c.Addr, "ben", nil, "header"); !c.Unknown || time.Since(begin) > atMost {
						t.Errorf("another user of a silent directory waited %v: %+v", time.Since(begin), c)
					}
				}
				id.Close()
			})
		})
	}
}

// TestAnswersOfADirectoryAreKept: over a reload, and on disk over a restart, for a day, and only
// for the same directory.
func TestAnswersOfADirectoryAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "answers.json")
	synctest.Test(t, func(t *testing.T) {
		d := &delayedDirectory{}
		ask := func(id *Identity, user string) string {
			c := id.ReportedClient(t.Context(), netip.MustParseAddr("192.0.2.1"), user, nil, "header")
			if c.Unknown {
				return "unknown"
			}
			return strings.Join(c.Groups, " ") + c.Note
		}
		first := withDirectory(t, d, Parts{Answers: file})
		for _, user := range []string{"anna", "stranger"} {
			if got := ask(first, user); got == "unknown" {
				t.Fatalf("%s is unknown to a directory that answers", user)
			}
		}
		d.set(0, true)
		reloaded := withDirectory(t, d, Parts{Previous: first, Answers: file})
		first.Close()
		if got := ask(reloaded, "anna"); got != "pupils" {
			t.Errorf("after a reload, a known user is in %q, want pupils", got)
		}
		if got := ask(reloaded, "ben"); got != "unknown" {
			t.Errorf("after a reload, a new user is in %q", got)
		}
		reloaded.Close()
		restarted := withDirectory(t, d, Parts{Answers: file})
		if got := ask(restarted, "anna"); got != "pupils" {
			t.Errorf("after a restart, a known user is in %q, want pupils", got)
		}
		if got := ask(restarted, "stranger"); !strings.Contains(got, "no user") {
			t.Errorf("after a restart, a user whom the directory lacks is %q", got)
		}
		restarted.Close()
		other, err := New(Config{Basic: &Basic{LDAP: &directory.LDAP{Servers: []string{"ldap://127.0.0.1"}, Base: "dc=y"}}}, Parts{Answers: file})
		if err != nil {
			t.Fatal(err)
		}
		other.members.source = d
		if got := ask(other, "anna"); got != "unknown" {
			t.Errorf("another directory says %q of a user whom it was never asked about", got)
		}
		other.Close()
		time.Sleep(25 * time.Hour)
		late := withDirectory(t, d, Parts{Answers: file})
		if got := ask(late, "anna"); got != "unknown" {
			t.Errorf("after a day, a known user is in %q", got)
		}
		late.Close()
	})
}

// TestTheGroupsOfASignInCountForADay: those that a directory gave when a session began are no more than
// its last answer.
func TestTheGroupsOfASignInCountForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr("192.0.2.1")
		sessions := session.New(sessionStore{}, slog.New(slog.DiscardHandler))
		if err := sessions.Start(session.Session{Addr: addr, User: "anna", Groups: []string{"pupils"}, Source: "ldap", Until: time.Now().Add(6 * 24 * time.Hour)}); err != nil {
			t.Fatal(err)
		}
		id := withDirectory(t, &delayedDirectory{silent: true}, Parts{Sessions: sessions})
		for _, tt := range []struct {
			after   time.Duration
			unknown bool
		}{{0, false}, {23 * time.Hour, false}, {2 * time.Hour, true}, {24 * time.Hour, true}} {
			time.Sleep(tt.after)
			c, err := id.Identify(t.Context(), addr, nil)
			if err != nil || c.User != "anna" || c.Unknown != tt.unknown || slices.Contains(c.Groups, "pupils") == tt.unknown {
				t.Errorf("%v later: %+v, %v; want unknown groups: %v", tt.after, c, err, tt.unknown)
			}
		}
		time.Sleep(time.Minute)
		id.Close()
	})
}

// TestAReloadKeepsVerifiedPasswords: also what counts against guessing.
func TestAReloadKeepsVerifiedPasswords(t *testing.T) {
	cfg := Config{Basic: &Basic{RADIUS: &directory.RADIUS{Servers: []string{"127.0.0.1"}, Secret: "x"}}}
	first, err := New(cfg, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	f := &flakyDirectory{}
	first.basic.source = f
	verify := func(id *Identity, password string) error {
		_, err := id.Verify(t.Context(), netip.MustParseAddr("192.0.2.1"), "anna", password)
		return err
	}
	if err := verify(first, "secret"); err != nil {
		t.Fatal(err)
	}
	for i := range maxFailures {
		_ = verify(first, "guess"+string(rune('a'+i)))
	}
	f.set(true)
	cfg.Groups = map[string][]string{"staff": {"otto"}}
	second, err := New(cfg, Parts{Previous: first})
	if err != nil {
		t.Fatal(err)
	}
	second.basic.source = f
	if err := verify(second, "secret"); err != nil {
		t.Errorf("a password that was verified before the reload: %v", err)
	}
	if err := verify(second, "guess"); err == nil || !strings.Contains(err.Error(), "too many wrong passwords") {
		t.Errorf("the eleventh guess, after a reload: %v", err)
	}
}

// TestCredentialsThatNobodyVerifiesAreNone: kinds of credentials against what can verify them.
func TestCredentialsThatNobodyVerifiesAreNone(t *testing.T) {
	file := setting.File(passwordFile(t, "anna:"+bcryptOf(t, "secret")))
	here, elsewhere := []string{"192.0.2.0/24"}, []string{"198.51.100.0/24"}
	basic := func(networks []string) *Basic { return &Basic{File: file, Networks: networks} }
	right := "Basic " + base64.StdEncoding.EncodeToString([]byte("anna:secret"))
	wrong := "Basic " + base64.StdEncoding.EncodeToString([]byte("anna:guess"))
	fields := []string{"", "x", " ", "Basic", "Basic x", "Bearer x", "Digest username=anna", "Negotiate", "Negotiate x", "NTLM x", "basic\t" + right[6:], wrong, right}
	for name, tt := range map[string]struct {
		basic    *Basic
		signIn   []string // networks of the page
		verified bool     // a right password signs in
	}{
		"page only":                {&Basic{File: file, Networks: elsewhere}, nil, false},
		"page here":                {&Basic{File: file, Networks: elsewhere}, here, false},
		"page and password":        {basic(nil), nil, true},
		"page and password here":   {basic(here), here, true},
		"password without a page":  {basic(nil), elsewhere, true},
		"password here, page else": {basic(here), elsewhere, true},
	} {
		id, err := New(Config{Basic: tt.basic, SignIn: &SignIn{Networks: tt.signIn}}, Parts{Portal: "http://portal.test"})
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range fields {
			c, err := id.Identify(t.Context(), netip.MustParseAddr("192.0.2.1"), []byte(field))
			if want := tt.verified && field == right; (err == nil) != want || want != (c.User == "anna") || !want && c.User != "" {
				t.Errorf("%s: %q gave user %q, error %v", name, field, c.User, err)
			}
		}
		if c, _ := id.Identify(t.Context(), netip.MustParseAddr("192.0.2.1"), nil); !slices.Equal(c.Groups, nil) {
			t.Errorf("%s: a stranger is in %q", name, c.Groups)
		}
	}
}

// TestGroupsOfAnAccessPointDoNotReplaceTheDirectory: they count besides, and a directory that
// does not answer leaves the rest unknown.
func TestGroupsOfAnAccessPointDoNotReplaceTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := session.New(sessionStore{}, slog.New(slog.DiscardHandler))
		d := &delayedDirectory{}
		id := withDirectory(t, d, Parts{Sessions: sessions})
		for addr, s := range map[string]session.Session{
			"192.0.2.1": {User: "anna", Source: session.RADIUS, Groups: []string{"wifi"}},
			"192.0.2.2": {User: "ben", Source: session.RADIUS, Groups: []string{"wifi"}},
			"192.0.2.3": {User: "carl", Source: "oidc", Groups: []string{"wifi"}},
		} {
			s.Addr, s.Until = netip.MustParseAddr(addr), time.Now().Add(time.Hour)
			if err := sessions.Start(s); err != nil {
				t.Fatal(err)
			}
		}
		check := func(addr, groups string, unknown bool) {
			t.Helper()
			c, err := id.Identify(t.Context(), netip.MustParseAddr(addr), nil)
			if err != nil || strings.Join(c.Groups, " ") != groups || c.Unknown != unknown {
				t.Errorf("%s is %+v (%v), want groups %q, unknown %v", addr, c, err, groups, unknown)
			}
		}
		check("192.0.2.1", "pupils wifi", false)
		d.set(0, true)
		check("192.0.2.2", "wifi", true)
		check("192.0.2.3", "wifi", false)
		time.Sleep(time.Minute)
		id.Close()
	})
}

// TestOnePersonHasOneName: the directory's spelling is the person, also for groups in the
// settings.
func TestOnePersonHasOneName(t *testing.T) {
	cfg := ldapConfig()
	cfg.Groups = map[string][]string{"staff": {"Anna"}}
	id, err := New(cfg, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	id.members.source = spelling{}
	for _, name := range []string{"anna", "ANNA", `SCHOOL\anna`, "anna@school.example"} {
		if c := id.ReportedClient(t.Context(), netip.MustParseAddr("192.0.2.1"), name, nil, "header"); c.User != "anna" || !slices.Equal(c.Groups, []string{"pupils", "staff"}) {
			t.Errorf("%s is %q in %q, want anna in pupils and staff", name, c.User, c.Groups)
		}
	}
}

// spelling calls everybody anna.
type spelling struct{}

func (spelling) Find(context.Context, string) (directory.Found, error) {
	return directory.Found{User: "anna", Groups: []string{"pupils"}}, nil
}
