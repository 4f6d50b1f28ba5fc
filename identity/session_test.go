package identity

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/identity/directory"
	"shuultuur/identity/oidc"
	"shuultuur/identity/session"
	"shuultuur/lib/setting"
)

// TestWhatARequestProvesOutranksItsAddress: at the address of a session, or of a user in the
// settings, a right password is another person, and a wrong one nobody.
func TestWhatARequestProvesOutranksItsAddress(t *testing.T) {
	file := setting.File(passwordFile(t, "otto:"+bcryptOf(t, "secret")))
	sessions := session.New(sessionStore{}, slog.New(slog.DiscardHandler))
	id, err := New(Config{Basic: &Basic{File: file}, Addresses: map[string][]string{"carl": {"192.0.2.2"}}, Groups: map[string][]string{"staff": {"carl"}},
		Shared: []string{"192.0.2.8/29"}}, Parts{Sessions: sessions})
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{"192.0.2.1", "192.0.2.9"} {
		if err := sessions.Start(session.Session{Addr: netip.MustParseAddr(addr), User: "anna", Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		addr, user, password string
		want                 string // "" for a challenge
	}{
		{"192.0.2.1", "", "", "anna"},
		{"192.0.2.1", "otto", "secret", "otto"},
		{"192.0.2.1", "otto", "guess", ""},
		{"192.0.2.1", "anna", "guess", ""},
		{"192.0.2.2", "", "", "carl"},
		{"192.0.2.2", "otto", "secret", "otto"},
		{"192.0.2.2", "otto", "guess", ""},
		{"192.0.2.3", "", "", ""},
		{"192.0.2.3", "otto", "secret", "otto"},
		{"192.0.2.9", "", "", ""}, // shared: the session does not count
		{"192.0.2.9", "otto", "secret", "otto"},
	} {
		var field []byte
		if tt.user != "" {
			field = login(tt.user, tt.password)
		}
		c, err := id.Identify(t.Context(), netip.MustParseAddr(tt.addr), field)
		asked := (*Challenge)(nil)
		if c.User != tt.want || (tt.want == "") != errors.As(err, &asked) {
			t.Errorf("%s with %q, %q: user %q, error %v; want %q", tt.addr, tt.user, tt.password, c.User, err, tt.want)
		}
		if c.User != "carl" && len(c.Groups) > 0 {
			t.Errorf("%s with %q is in %q, carl's groups", tt.addr, tt.user, c.Groups)
		}
	}
}

// TestTheSessionOfASharedAddressIsOfNoDevice: a terminal server with an address of another family, which
// nobody has named as shared, is no person's there either.
func TestTheSessionOfASharedAddressIsOfNoDevice(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9")
	for _, shared := range [][]string{nil, {"192.0.2.8/29"}, {"2001:db8::/64"}} {
		sessions := session.New(sessionStore{}, slog.New(slog.DiscardHandler))
		file := setting.File(passwordFile(t, "anna:"+bcryptOf(t, "secret")))
		id, err := New(Config{Shared: shared, Basic: &Basic{File: file, Networks: []string{"198.51.100.0/24"}}, SignIn: &SignIn{}}, Parts{Sessions: sessions, Portal: "http://gate.example"})
		if err != nil {
			t.Fatal(err)
		}
		mac := "02:00:00:00:00:09"
		if err := sessions.See(session.NewDevices(map[netip.Addr]string{four: mac}, map[netip.Addr]string{four: mac, six: mac})); err != nil {
			t.Fatal(err)
		}
		if err := sessions.Start(session.Session{Addr: four, User: "anna", Source: "basic", By: "portal", ID: id.SignInID("anna", "basic"), Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if c, _ := id.Identify(t.Context(), six, nil); (c.User == "anna") != (shared == nil) {
			t.Errorf("with %q shared, the other address of the device is %q's", shared, c.User)
		}
	}
}

func TestAnIdleSessionDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr("192.0.2.1")
		for _, idle := range []time.Duration{0, 10 * time.Minute} {
			sessions := session.New(sessionStore{}, slog.New(slog.DiscardHandler))
			id, err := New(Config{Session: SessionConfig{Idle: setting.Duration(idle)}}, Parts{Sessions: sessions})
			if err != nil {
				t.Fatal(err)
			}
			if err := sessions.Start(session.Session{Addr: addr, User: "anna", Until: time.Now().Add(10 * time.Hour)}); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				time.Sleep(9 * time.Minute)
				if c, _ := id.Identify(t.Context(), addr, nil); c.User != "anna" {
					t.Fatalf("idle %v: a session in use does not count", idle)
				}
			}
			time.Sleep(11 * time.Minute)
			for range 2 {
				if c, _ := id.Identify(t.Context(), addr, nil); (c.User == "anna") != (idle == 0) {
					t.Errorf("idle %v: after 11 minutes without a request the user is %q", idle, c.User)
				}
			}
		}
		if _, err := New(Config{Session: SessionConfig{Idle: setting.Duration(time.Second)}}, Parts{}); err == nil {
			t.Error("New accepts an idle time of a second")
		}
	})
}

// TestASessionEndsWithItsAccount: with the account in the file, and with the password with which
// it began.
func TestASessionEndsWithItsAccount(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	sessions := session.New(sessionStore{}, slog.New(slog.DiscardHandler))
	with := func(lines ...string) *Identity {
		id, err := New(Config{Basic: &Basic{File: setting.File(passwordFile(t, lines...)), Networks: []string{"198.51.100.0/24"}}}, Parts{Sessions: sessions})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	anna, other := "anna:"+bcryptOf(t, "secret"), "otto:"+bcryptOf(t, "secret")
	first := with(anna, other)
	signIn := first.SignInID("anna", "basic")
	if err := sessions.Start(session.Session{Addr: addr, User: "anna", Source: "basic", By: "portal", ID: signIn, Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		id   *Identity
		want bool
	}{
		"same file":        {first, true},
		"another account":  {with(anna), true},
		"account removed":  {with(other), false},
		"another password": {with("anna:"+bcryptOf(t, "new"), other), false},
	} {
		c, _ := tt.id.Identify(t.Context(), addr, nil)
		if stands := tt.id.Stands("anna", "basic", signIn); stands != tt.want || (c.User == "anna") != tt.want {
			t.Errorf("%s: the sign-in stands: %v, the user is %q; want %v", name, stands, c.User, tt.want)
		}
	}
	if err := sessions.SignOut(signIn, time.Now().Add(time.Hour)); err != nil || sessions.Lookup(addr) != nil {
		t.Errorf("signing out (%v) leaves the session", err)
	}
}

// A registry is a directory of one user.
type registry struct {
	mu    sync.Mutex
	found directory.Found
	err   error
}

func (r *registry) Find(context.Context, string) (directory.Found, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.found, r.err
}

func (r *registry) Close() {}

// TestASessionEndsWithItsAccountInTheDirectory: within ten minutes of what an administrator does there, at
// every node, and after a restart too; and never because the directory is silent.
func TestASessionEndsWithItsAccountInTheDirectory(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	anna := directory.Found{User: "anna", Groups: []string{"pupils"}, Stamp: "1"}
	other := anna
	other.Stamp = "2"
	disabled := anna
	disabled.Disabled = true
	unsaid := anna
	unsaid.Stamp = ""
	for name, tt := range map[string]struct {
		before, now directory.Found
		err         error
		want        bool
	}{
		"nothing":              {anna, anna, nil, true},
		"another password":     {anna, other, nil, false},
		"disabled":             {anna, disabled, nil, false},
		"removed":              {anna, directory.Found{}, directory.ErrRefused, false},
		"the directory silent": {anna, directory.Found{}, errors.New("no route"), true},
		"stamps are not said":  {unsaid, unsaid, nil, true},
		"stamps begin":         {unsaid, anna, nil, true},
		"stamps end":           {anna, unsaid, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &registry{found: tt.before}
				answers := filepath.Join(t.TempDir(), "answers")
				sessions := session.New(sessionStore{}, slog.New(slog.DiscardHandler))
				first := withDirectory(t, r, Parts{Sessions: sessions, Answers: answers})
				signIn := first.SignInID("anna", "ldap")
				if err := sessions.Start(session.Session{Addr: addr, User: "anna", Groups: []string{"pupils"}, Source: "ldap", By: "portal", ID: signIn, Until: time.Now().Add(3 * time.Hour)}); err != nil {
					t.Fatal(err)
				}
				if c, _ := first.Identify(t.Context(), addr, nil); c.User != "anna" {
					t.Fatalf("before it ends the user is %q", c.User)
				}
				r.mu.Lock()
				r.found, r.err = tt.now, tt.err
				r.mu.Unlock()
				time.Sleep(11 * time.Minute)
				_, _ = first.Identify(t.Context(), addr, nil) // asks
				time.Sleep(time.Second)
				check := func(where string, id *Identity) {
					t.Helper()
					c, _ := id.Identify(t.Context(), addr, nil)
					if stands := id.Stands("anna", "ldap", signIn); stands != tt.want || (c.User == "anna") != tt.want {
						t.Errorf("%s: the sign-in stands: %v, the user is %q; want %v", where, stands, c.User, tt.want)
					}
					id.Close()
				}
				check("there", first)
				check("after a restart", withDirectory(t, r, Parts{Sessions: sessions, Answers: answers}))
				node := withDirectory(t, r, Parts{Sessions: sessions}) // that has asked nothing yet
				_, _ = node.Identify(t.Context(), addr, nil)
				check("another node", node)
			})
		})
	}
}

func TestAPublicProviderNeedsDomains(t *testing.T) {
	for _, domains := range [][]string{nil, {"school.example"}} {
		cfg := Config{SignIn: &SignIn{OIDC: &oidc.Config{Issuer: "https://accounts.google.com", ClientID: "gate", Domains: domains}}}
		if _, err := New(cfg, Parts{Key: make([]byte, 32)}); (err == nil) != (domains != nil) {
			t.Errorf("with the domains %q, New returned %v", domains, err)
		}
	}
}

// TestOpenHostsNeedNoSignIn: whatever is asked for, and whatever is wrong with what was sent.
func TestOpenHostsNeedNoSignIn(t *testing.T) {
	file := setting.File(passwordFile(t, "otto:"+bcryptOf(t, "secret")))
	id, err := New(Config{Basic: &Basic{File: file, Networks: []string{"192.0.2.0/28"}}, Open: []string{"updates.example", "=Alone.example"},
		SignIn: &SignIn{Networks: []string{"192.0.2.16/28"}, Open: []string{"Probe.example."}}}, Parts{Portal: "http://gate.example"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		addr string
		sent []byte
	}{{"192.0.2.1", nil}, {"192.0.2.1", login("otto", "guess")}, {"192.0.2.1", []byte("Basic junk")}, {"192.0.2.17", nil}, {"192.0.2.17", login("otto", "guess")}} {
		c, err := id.Identify(t.Context(), netip.MustParseAddr(tt.addr), tt.sent)
		asked, ok := errors.AsType[*Challenge](err)
		if !ok || c.User != "" {
			t.Fatalf("%s with %q: user %q, %v; want a challenge", tt.addr, tt.sent, c.User, err)
		}
		for host, want := range map[string]bool{"updates.example": true, "a.updates.example": true, "probe.example": true, "alone.example": true, "a.alone.example": false, "myupdates.example": false, "example": false, "": false} {
			if asked.OpenHost(host) != want {
				t.Errorf("%s with %q: %q is open: %v, want %v", tt.addr, tt.sent, host, !want, want)
			}
		}
	}
	if _, err := New(Config{Open: []string{"http://updates.example/"}}, Parts{}); err == nil || !strings.Contains(err.Error(), "open[0]") {
		t.Errorf("a URL under open: %v, want a mistake", err)
	}
}

// TestAChallengeGoesOnWithANegotiation: alone, since another choice would end it.
func TestAChallengeGoesOnWithANegotiation(t *testing.T) {
	c := &Challenge{Negotiate: true, Realm: "gate", Answer: []byte{1}}
	if got := c.Challenges(); len(got) != 1 || got[0] != "Negotiate AQ==" {
		t.Errorf("the challenges are %q", got)
	}
}
