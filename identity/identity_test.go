package identity

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"

	"shuultuur/filter"
	"shuultuur/identity/directory"
	"shuultuur/lib/fair"
	"shuultuur/lib/setting"
)

func bcryptOf(t testing.TB, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func argonOf(password string) string {
	salt := []byte("saltsalt")
	sum := argon2.IDKey([]byte(password), salt, 1, 64, 1, 32)
	e := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=19$m=64,t=1,p=1$%s$%s", e.EncodeToString(salt), e.EncodeToString(sum))
}

func passwordFile(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newIdentity(t testing.TB, cfg Config) *Identity {
	t.Helper()
	id, err := New(cfg, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func login(user, password string) []byte {
	return []byte("Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

func TestIdentifyByAddress(t *testing.T) {
	id := newIdentity(t, Config{
		Addresses: map[string][]string{
			"anna":  {"10.1.2.3", "2001:db8::7"},
			"kiosk": {"10.1.2.0/24"},
		},
		Groups: map[string][]string{
			"pupils": {"anna", "10.1.0.0/16"},
			"house":  {"10.0.0.0/8"},
			"early":  {"anna"},
		},
	})
	tests := map[string]struct {
		addr   string
		user   string
		groups []string
	}{
		"an address of a user":               {"10.1.2.3", "anna", []string{"early", "house", "pupils"}},
		"the narrowest network names a user": {"10.1.2.4", "kiosk", []string{"house", "pupils"}},
		"a group by network":                 {"10.1.9.9", "", []string{"house", "pupils"}},
		"the wider network only":             {"10.9.9.9", "", []string{"house"}},
		"an IPv6 address":                    {"2001:db8::7", "anna", []string{"early", "pupils"}},
		"an IPv4 address in IPv6":            {"::ffff:10.1.2.3", "anna", []string{"early", "house", "pupils"}},
		"nobody we know":                     {"192.0.2.1", "", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			addr := netip.MustParseAddr(test.addr)
			got, err := id.Identify(t.Context(), addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := filter.Client{Addr: addr.Unmap(), User: test.user, Groups: test.groups}
			if test.user != "" {
				want.Source = "address"
			}
			if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
				t.Error("client (-want +got):\n" + d)
			}
		})
	}
}

func TestIdentifyByAddressAllocatesNothing(t *testing.T) {
	id := newIdentity(t, Config{
		Addresses: map[string][]string{"anna": {"10.1.2.3"}},
		Groups:    map[string][]string{"pupils": {"anna", "10.1.0.0/16"}},
	})
	addr := netip.MustParseAddr("10.1.2.3")
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if c, err := id.Identify(ctx, addr, nil); err != nil || c.User != "anna" {
			t.Fatalf("identifying %v: got %+v, %v, want anna", addr, c, err)
		}
	}); n != 0 {
		t.Errorf("Identify allocates %v times, want 0", n)
	}
}

func TestIdentifyByPassword(t *testing.T) {
	id := newIdentity(t, Config{
		Addresses: map[string][]string{"kiosk": {"10.1.0.1"}},
		Groups:    map[string][]string{"pupils": {"anna"}, "lab": {"10.1.0.0/16"}, "staff": {"berta"}},
		Basic: &Basic{
			File: setting.File(passwordFile(t, "# users", "", "anna:"+bcryptOf(t, "secret"), "berta:"+argonOf("geheim"),
				"carl:$2y"+bcryptOf(t, "x:y")[3:])),
			Realm:    `the "school"`,
			Networks: []string{"10.1.0.0/16", "2001:db8::/32"},
		},
	})
	const challenge = `Basic realm="the \"school\"", charset="UTF-8"`
	tests := map[string]struct {
		addr   string
		field  []byte
		user   string
		groups []string
		asked  bool
	}{
		"bcrypt":                              {addr: "10.1.2.3", field: login("anna", "secret"), user: "anna", groups: []string{"lab", "pupils"}},
		"bcrypt once more, from memory":       {addr: "10.1.2.3", field: login("anna", "secret"), user: "anna", groups: []string{"lab", "pupils"}},
		"Argon2id":                            {addr: "2001:db8::1", field: login("berta", "geheim"), user: "berta", groups: []string{"staff"}},
		"$2y$ and a colon in the password":    {addr: "10.1.2.3", field: login("carl", "x:y"), user: "carl", groups: []string{"lab"}},
		"the scheme in any case":              {addr: "10.1.2.3", field: append([]byte("bASIC  "), login("anna", "secret")[6:]...), user: "anna", groups: []string{"lab", "pupils"}},
		"a wrong password":                    {addr: "10.1.2.4", field: login("anna", "Secret"), groups: []string{"lab"}, asked: true},
		"a user who is not there":             {addr: "10.1.2.4", field: login("dora", "secret"), groups: []string{"lab"}, asked: true},
		"nothing sent":                        {addr: "10.1.2.4", groups: []string{"lab"}, asked: true},
		"another scheme":                      {addr: "10.1.2.4", field: []byte("Bearer abc"), groups: []string{"lab"}, asked: true},
		"broken base64":                       {addr: "10.1.2.4", field: []byte("Basic %%%"), groups: []string{"lab"}, asked: true},
		"too long to look at":                 {addr: "10.1.2.4", field: login("anna", strings.Repeat("x", 2000)), groups: []string{"lab"}, asked: true},
		"an address with a user is not asked": {addr: "10.1.0.1", user: "kiosk", groups: []string{"lab"}},
		"a network that need not log in":      {addr: "192.0.2.1", field: login("anna", "wrong")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := id.Identify(t.Context(), netip.MustParseAddr(test.addr), test.field)
			var c *Challenge
			if errors.As(err, &c) != test.asked || err != nil && c == nil {
				t.Fatalf("Identify returned %v, want a challenge: %v", err, test.asked)
			}
			if c != nil && c.Header() != challenge {
				t.Errorf("Proxy-Authenticate is %s, want %s", c.Header(), challenge)
			}
			if c != nil && strings.Contains(c.Error(), "ecret") {
				t.Errorf("the challenge contains the password: %v", c)
			}
			if got.User != test.user || !cmp.Equal(got.Groups, test.groups) {
				t.Errorf("user %q of %q, want %q of %q", got.User, got.Groups, test.user, test.groups)
			}
		})
	}
}

// A countingHash is a hash that counts comparisons, each of which blocks until it is
// released.
type countingHash struct {
	mu    sync.Mutex
	asked int
	right string
	hold  chan struct{}
	takes time.Duration
}

func (h *countingHash) matches(password []byte) bool {
	if h.hold != nil {
		<-h.hold
	}
	time.Sleep(h.takes)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	return string(password) == h.right
}

func (h *countingHash) cost() uint64 { return 1 }

// withHash makes an Identity whose only user has the hash.
func withHash(t *testing.T, h *countingHash) *Identity {
	id := newIdentity(t, Config{Basic: &Basic{File: setting.File(passwordFile(t, "anna:"+bcryptOf(t, "x")))}})
	id.basic.accounts["anna"].hash = h
	id.basic.nobody = h
	return id
}

var client = netip.MustParseAddr("10.1.2.3")

func TestVerifyingIsDoneOnceInTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &countingHash{right: "secret"}
		id := withHash(t, h)
		for range 5 {
			if _, err := id.Identify(t.Context(), client, login("anna", "secret")); err != nil {
				t.Fatal(err)
			}
		}
		if h.asked != 1 {
			t.Errorf("the password was compared %d times, want once", h.asked)
		}
		time.Sleep(11 * time.Minute)
		if _, err := id.Identify(t.Context(), client, login("anna", "secret")); err != nil || h.asked != 2 {
			t.Errorf("after 11 minutes: verified %d times, %v; want twice", h.asked, err)
		}
	})
}

func TestUnknownUsersCostTheSame(t *testing.T) {
	h := &countingHash{right: "secret"}
	id := withHash(t, h)
	if _, err := id.Identify(t.Context(), client, login("nobody", "secret")); err == nil {
		t.Error("a user who is not in the file was accepted")
	}
	if h.asked != 1 {
		t.Errorf("an unknown user cost %d comparisons, want 1", h.asked)
	}
}

func TestGuessingHasToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &countingHash{right: "secret"}
		id := withHash(t, h)
		for i := range maxFailures {
			_, err := id.Identify(t.Context(), client, login("anna", fmt.Sprint(i)))
			if c := (*Challenge)(nil); !errors.As(err, &c) {
				t.Fatalf("wrong password %d: %v, want a challenge", i, err)
			}
		}
		_, err := id.Identify(t.Context(), client, login("anna", "secret"))
		w := (*Wait)(nil)
		if !errors.As(err, &w) || w.Status != 429 || w.For <= 0 || w.For > failuresIn {
			t.Fatalf("after %d wrong passwords: %v, want a Wait", maxFailures, err)
		}
		if _, err := id.Identify(t.Context(), netip.MustParseAddr("10.9.9.9"), login("anna", "secret")); err != nil {
			t.Errorf("another client got %v, want no error", err)
		}
		time.Sleep(w.For)
		if _, err := id.Identify(t.Context(), netip.MustParseAddr("10.9.9.8"), login("anna", "secret")); err != nil {
			t.Errorf("after the wait the right password returned %v", err)
		}
	})
}

// TestGuessesAtOnceAreNoMore: of 80 wrong passwords at the same time, no more are tested than one
// after the other, and other clients are not kept waiting by them.
func TestGuessesAtOnceAreNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &countingHash{right: "secret", takes: time.Second}
		id := withHash(t, h)
		var all sync.WaitGroup
		var waits atomic.Int64
		for i := range 80 {
			all.Go(func() {
				_, err := id.Identify(t.Context(), client, login("anna", fmt.Sprint(i)))
				if w := (*Wait)(nil); errors.As(err, &w) && w.Status == 429 {
					waits.Add(1)
				}
			})
		}
		all.Wait()
		if h.asked != maxFailures || waits.Load() != 80-maxFailures {
			t.Errorf("%d wrong passwords were tested and %d refused; want %d and %d", h.asked, waits.Load(), maxFailures, 80-maxFailures)
		}
		if _, err := id.Identify(t.Context(), netip.MustParseAddr("10.9.9.9"), login("anna", "secret")); err != nil {
			t.Errorf("another client got %v, want no error", err)
		}
	})
}

// TestOneClientsLoginsDelayNobody: turns to verify go round among clients.
func TestOneClientsLoginsDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := withHash(t, &countingHash{right: "secret", takes: time.Second})
		id.basic.turns = fair.New(1, maxWaiting)
		var all sync.WaitGroup
		for i := range maxFailures {
			all.Go(func() { id.Identify(t.Context(), client, login("anna", fmt.Sprint(i))) })
		}
		synctest.Wait()
		began := time.Now()
		if _, err := id.Identify(t.Context(), netip.MustParseAddr("10.9.9.9"), login("anna", "secret")); err != nil {
			t.Errorf("another client got %v, want no error", err)
		}
		// The one in progress, one of the many, and its own.
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("another client waited %v behind %d logins of one", took, maxFailures)
		}
		all.Wait()
	})
}

func TestTheSameWrongPasswordCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &countingHash{right: "secret"}
		id := withHash(t, h)
		// A browser sends the same field for each resource of a page.
		for range 3 * maxFailures {
			_, err := id.Identify(t.Context(), client, login("anna", "old"))
			if c := (*Challenge)(nil); !errors.As(err, &c) {
				t.Fatal(err)
			}
		}
		if h.asked != 1 {
			t.Errorf("the password was compared %d times, want once", h.asked)
		}
	})
}

func TestIPv6ClientsAreCountedByNetwork(t *testing.T) {
	id := withHash(t, &countingHash{right: "secret"})
	for i := range maxFailures {
		id.Identify(t.Context(), netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i)), login("anna", fmt.Sprint(i)))
	}
	_, err := id.Identify(t.Context(), netip.MustParseAddr("2001:db8::ffff"), login("anna", "secret"))
	if w := (*Wait)(nil); !errors.As(err, &w) {
		t.Errorf("another address of the same /64 got %v, want a Wait", err)
	}
}

func TestVerifyingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &countingHash{right: "secret", hold: make(chan struct{})}
		id := withHash(t, h)
		ctx, cancel := context.WithCancel(t.Context())
		turns := int(id.basic.turns.Size())
		full := turns + maxWaiting
		errs := make(chan error, full)
		for i := range full {
			go func() {
				addr := netip.AddrFrom4([4]byte{10, 0, 1, byte(i)})
				_, err := id.Identify(ctx, addr, login("anna", fmt.Sprint(i)))
				errs <- err
			}()
		}
		synctest.Wait()
		_, err := id.Identify(ctx, client, login("anna", "secret"))
		if w := (*Wait)(nil); !errors.As(err, &w) || w.Status != 503 {
			t.Errorf("with %d logins waiting, another got %v, want status 503", full, err)
		}
		cancel() // cancels the logins that wait for a turn
		synctest.Wait()
		close(h.hold)
		gone := 0
		for range full {
			if errors.Is(<-errs, context.Canceled) {
				gone++
			}
		}
		if want := full - turns; gone != want {
			t.Errorf("%d gave up when the request ended, want %d", gone, want)
		}
		if h.asked != turns {
			t.Errorf("%d passwords were compared, want %d", h.asked, turns)
		}
	})
}

func TestTablesAreBounded(t *testing.T) {
	m := map[int]bool{}
	for i := range 3 * maxKnown {
		makeRoom(m, func(over bool) bool { return over })
		m[i] = i%100 == 0
	}
	if len(m) > maxKnown {
		t.Errorf("%d entries, want at most %d", len(m), maxKnown)
	}
}

// Wrong passwords do not evict users, who could not be verified again while a
// directory is away.
func TestWrongPasswordsTakeNoRoomOfUsers(t *testing.T) {
	b := &basic{known: map[[32]byte]outcome{}, source: &flakyDirectory{}}
	key := func(i int) (k [32]byte) { binary.BigEndian.PutUint32(k[:], uint32(i)); return k }
	users := maxKnown * 3 / 4
	for i := range users {
		b.remember(key(i), &account{name: "x"}, directory.Refusal{})
	}
	for i := range 2 * maxKnown {
		b.remember(key(users+i), nil, directory.Refusal{})
	}
	for i := range users {
		if b.known[key(i)].account == nil {
			t.Fatalf("the entry of user %d was removed", i)
		}
	}
	if len(b.known) > maxKnown {
		t.Errorf("%d entries, want at most %d", len(b.known), maxKnown)
	}
}

func TestMistakesInSettings(t *testing.T) {
	good := passwordFile(t, "anna:"+bcryptOf(t, "x"))
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"not an address":        {Config{Addresses: map[string][]string{"anna": {"10.1.2"}}}, `addresses.anna[0]: "10.1.2" is not an address`},
		"bits beyond the mask":  {Config{Addresses: map[string][]string{"anna": {"10.1.2.3/16"}}}, `did you mean "10.1.0.0/16" or "10.1.2.3"?`},
		"an address of two":     {Config{Addresses: map[string][]string{"anna": {"10.1.2.3"}, "berta": {"10.1.2.3"}}}, `addresses.berta[0]: "10.1.2.3" belongs to user "anna" already`},
		"a member nobody knows": {Config{Groups: map[string][]string{"pupils": {"10.0.0.0/8", "ana"}}}, `groups.pupils[1]: "ana" is neither a user`},
		"no file":               {Config{Basic: &Basic{}}, `basic.file: the password file is not named`},
		"a file not there":      {Config{Basic: &Basic{File: setting.File(good + ".old")}}, `basic.file: read the password file: open`},
		"a bad network":         {Config{Basic: &Basic{File: setting.File(good), Networks: []string{"x"}}}, `basic.networks[0]: "x" is not an address`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.cfg, Parts{})
			if s := (*setting.Error)(nil); !errors.As(err, &s) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New returned %v, want a setting error with %s", err, test.want)
			}
		})
	}
}

func BenchmarkIdentify(b *testing.B) {
	id := newIdentity(b, Config{
		Addresses: map[string][]string{"kiosk": {"10.1.0.1"}},
		Groups:    map[string][]string{"pupils": {"anna", "kiosk"}},
		Basic:     &Basic{File: setting.File(passwordFile(b, "anna:"+bcryptOf(b, "secret")))},
	})
	for name, addr := range map[string]string{"address": "10.1.0.1", "password": "10.1.0.2"} {
		b.Run(name, func(b *testing.B) {
			field, addr := login("anna", "secret"), netip.MustParseAddr(addr)
			b.ReportAllocs()
			for b.Loop() {
				if c, err := id.Identify(b.Context(), addr, field); err != nil || len(c.Groups) != 1 {
					b.Fatalf("identifying %v: got %+v, %v, want a client of one group", addr, c, err)
				}
			}
		})
	}
}

func TestAFieldThatNamesNoUserSaysWhy(t *testing.T) {
	id, err := New(Config{Headers: Headers{User: []string{"X-User", "X-Other"}}}, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		values     []string
		user, note string
	}{
		{[]string{" jö "}, "jö", ""},
		{nil, "", ""},
		{[]string{"-"}, "", ""},
		{[]string{"anna", "root"}, "", "is there 2 times"},
		{[]string{"j\xf6"}, "", `"j\xf6" is not a name`},
		{[]string{strings.Repeat("x", 257)}, "", "is not a name"},
	} {
		c, note, ok := id.ForwardedClient(t.Context(), netip.MustParseAddr("10.0.0.1"), func(name string) []string {
			if name == "X-User" {
				return tt.values
			}
			return nil
		})
		if ok != (tt.user != "") || c.User != tt.user || !strings.Contains(note, tt.note) || tt.note == "" && note != "" {
			t.Errorf("the fields %q gave %+v, note %q, ok %v", tt.values, c, note, ok)
		}
	}
}

// TestOthersMayNameUsers: Squid and ICAP clients name users that the settings
// do not have.
func TestOthersMayNameUsers(t *testing.T) {
	cfg := Config{Groups: map[string][]string{"pupils": {"ana"}}}
	id, err := New(cfg, Parts{Others: true, Groups: true})
	if err != nil {
		t.Fatal(err)
	}
	if c := id.NamedClient(netip.MustParseAddr("10.0.0.1"), "ana", nil, "icap"); !slices.Equal(c.Groups, []string{"pupils"}) || !id.HasGroup("teachers") {
		t.Errorf("the named user is %+v", c)
	}
	if id, err = New(cfg, Parts{Others: true}); err != nil || id.HasGroup("teachers") {
		t.Errorf("without groups in the settings: error %v, or an unknown group exists", err)
	}
	cfg.Headers.User = []string{"X-Forwarded-User"}
	if _, err := New(cfg, Parts{}); err != nil {
		t.Errorf("New with users from a header field: %v", err)
	}
}

func TestClientIDsNameUsers(t *testing.T) {
	id, err := New(Config{
		Addresses: map[string][]string{"bob": {"192.0.2.1"}},
		ClientIDs: map[string][]string{"alice": {"alices-Phone", "tablet"}},
		Groups:    map[string][]string{"pupils": {"alice"}, "room1": {"192.0.2.0/24"}, "room2": {"198.51.100.0/24"}},
	}, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{"192.0.2.1": "alice [pupils room1]", "192.0.2.2": "alice [pupils room1]", "203.0.113.1": "alice [pupils]"} {
		c, ok := id.ByClientID(netip.MustParseAddr(addr), "alices-phone")
		if got := fmt.Sprint(c.User, " ", c.Groups); !ok || got != want {
			t.Errorf("the identifier at %s gave %s, want %s", addr, got, want)
		}
	}
	if _, ok := id.ByClientID(netip.MustParseAddr("192.0.2.1"), "other"); ok {
		t.Error("an unknown identifier was accepted")
	}
	for _, ids := range []map[string][]string{{"a": {"x"}, "b": {"X"}}, {"a": {""}}, {"a": {"a.b"}}, {"": {"x"}}, {"a": {strings.Repeat("x", 64)}}} {
		if _, err := New(Config{ClientIDs: ids}, Parts{}); err == nil {
			t.Errorf("New accepts the identifiers %v", ids)
		}
	}
}

func TestAPersonWithADeviceOfAGroupKeepsTheGroupEverywhere(t *testing.T) {
	id := newIdentity(t, Config{
		Addresses: map[string][]string{"Anna": {"10.1.2.3", "10.1.2.4"}, "kiosk": {"10.1.9.0/24"}},
		ClientIDs: map[string][]string{"Anna": {"phone"}, "berta": {"tablet"}},
		Groups: map[string][]string{
			"7a":     {"10.1.2.3", "10.1.2.3", "10.1.2.50"}, // devices
			"house":  {"10.1.0.0/16"},
			"chess":  {"berta"},
			"public": {"10.1.9.0/24"},
		},
		Basic: &Basic{
			File:     setting.File(passwordFile(t, "anna:"+bcryptOf(t, "secret"), "berta:"+bcryptOf(t, "geheim"))),
			Networks: []string{"10.1.0.0/16", "192.0.2.0/24"},
		},
	})
	by := map[string]func(addr, user string) filter.Client{
		"address": func(addr, _ string) filter.Client {
			c, _ := id.Identify(t.Context(), netip.MustParseAddr(addr), nil)
			return c
		},
		"password": func(addr, user string) filter.Client {
			c, err := id.Identify(t.Context(), netip.MustParseAddr(addr), login(user, map[string]string{"anna": "secret", "berta": "geheim"}[user]))
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		"client-id": func(addr, user string) filter.Client {
			c, _ := id.ByClientID(netip.MustParseAddr(addr), map[string]string{"anna": "phone", "berta": "tablet"}[user])
			return c
		},
		"others": func(addr, user string) filter.Client {
			return id.NamedClient(netip.MustParseAddr(addr), user, nil, "icap")
		},
	}
	for name, test := range map[string]struct {
		by         []string
		addr, user string
		groups     []string
	}{
		"with this device":                      {[]string{"address", "password", "client-id", "others"}, "10.1.2.3", "anna", []string{"7a", "house"}},
		"with another device of hers":           {[]string{"address", "password", "client-id", "others"}, "10.1.2.4", "anna", []string{"7a", "house"}},
		"elsewhere":                             {[]string{"password", "client-id", "others"}, "192.0.2.1", "anna", []string{"7a"}},
		"somebody else with her device":         {[]string{"password", "client-id", "others"}, "10.1.2.3", "berta", []string{"chess", "house"}},
		"with nobody's device of the group":     {[]string{"password", "client-id", "others"}, "10.1.2.50", "berta", []string{"7a", "chess", "house"}},
		"a device that nobody has":              {[]string{"address"}, "10.1.2.50", "", []string{"7a", "house"}},
		"where a network has a user":            {[]string{"address"}, "10.1.9.1", "kiosk", []string{"house", "public"}},
		"at a place that has a user of its own": {[]string{"password", "client-id", "others"}, "10.1.9.1", "berta", []string{"chess", "house", "public"}},
	} {
		for _, way := range test.by {
			if c := by[way](test.addr, test.user); !strings.EqualFold(c.User, test.user) || !cmp.Equal(c.Groups, test.groups) {
				t.Errorf("%s, by %s: %q of %q, want %q of %q", name, way, c.User, c.Groups, test.user, test.groups)
			}
		}
	}
}
