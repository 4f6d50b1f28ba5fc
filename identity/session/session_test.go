package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/state"
)

func table(t testing.TB, dir string) (*Table, state.Store) {
	t.Helper()
	s, err := state.Open(state.Config{}, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return New(s, slog.New(slog.DiscardHandler)), s
}

func of(addr, user string, long time.Duration, groups ...string) Session {
	return Session{Addr: netip.MustParseAddr(addr), User: user, Groups: groups, Until: time.Now().Add(long)}
}

func TestSessionsBeginEndAndOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	a, s := table(t, dir)
	if err := a.Start(of("::ffff:10.1.2.3", "anna", time.Hour, "pupils", "choir", "pupils"), of("2001:db8::7", "bold", time.Hour)); err != nil {
		t.Fatal(err)
	}
	got := a.Lookup(netip.MustParseAddr("10.1.2.3"))
	if got == nil || got.User != "anna" || !slices.Equal(got.Groups, []string{"choir", "pupils"}) || got.Source != "session" {
		t.Fatalf("the session is %+v, want anna's with the groups choir and pupils", got)
	}
	if n, err := a.End(EndRequest{Addr: netip.MustParseAddr("2001:db8::7")}, EndRequest{Addr: netip.MustParseAddr("10.9.9.9")}); n != 1 || err != nil {
		t.Errorf("End returned %d, %v; want 1", n, err)
	}
	s.Close()
	b, _ := table(t, dir)
	if all := b.All(); len(all) != 1 || all[0].User != "anna" {
		t.Errorf("after a restart the sessions are %+v, want anna's", all)
	}
	if err := b.Start(of("10.1.2.3", "carl", time.Hour)); err != nil || b.Lookup(netip.MustParseAddr("10.1.2.3")).User != "carl" {
		t.Errorf("starting the session of an address's next user: %v, %+v", err, b.All())
	}
}

func TestASessionEndsByItself(t *testing.T) {
	a, _ := table(t, "")
	if err := a.Start(of("10.1.2.3", "anna", time.Hour)); err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr("10.1.2.3")
	a.put(&Session{Addr: addr, User: "anna", Until: time.Now().Add(-time.Second)})
	if a.Lookup(addr) != nil || len(a.All()) != 0 {
		t.Error("an expired session is still found")
	}
	a.sweep(time.Now(), true)
	if a.n.Load() != 0 {
		t.Errorf("after the sweep %d sessions are left, want none", a.n.Load())
	}
}

// TestAWrongClockSignsNobodyOut: a session that seems over counts again when the clock is right. One that
// stays over is removed after a while, and one that seems to last for ever is named.
func TestAWrongClockSignsNobodyOut(t *testing.T) {
	a, _ := table(t, "")
	if err := a.Start(of("10.1.2.3", "anna", time.Hour)); err != nil {
		t.Fatal(err)
	}
	addr, now := netip.MustParseAddr("10.1.2.3"), time.Now()
	for _, step := range []time.Duration{2 * time.Hour, 24 * time.Hour, 365 * 24 * time.Hour, -time.Hour, -365 * 24 * time.Hour} {
		a.sweep(now.Add(step), false)
		a.sweep(now.Add(step), false)
		if a.Lookup(addr) == nil {
			t.Fatalf("a clock that was %v ahead for a while ended the session", step)
		}
		a.sweep(now, false)
		if len(a.over) != 0 {
			t.Error("it is remembered as over although the clock is right")
		}
	}
	late := now.Add(2 * time.Hour)
	a.sweep(late, false)
	for n := range a.over {
		a.over[n] = time.Now().Add(-overFor)
	}
	a.sweep(late, false)
	if n := a.n.Load(); n != 0 {
		t.Errorf("%d sessions are kept for good after their end", n)
	}
	if all := a.Problems(); len(all) != 0 {
		t.Errorf("problems: %q", all)
	}
	a.put(&Session{Addr: addr, User: "anna", Until: now.Add(365 * 24 * time.Hour)})
	if all := a.Problems(); len(all) != 1 || !strings.Contains(all[0], "1 sessions do not count, such as that of 10.1.2.3") {
		t.Errorf("problems: %q", all)
	}
}

func TestALateEndDoesNotEndTheNextSession(t *testing.T) {
	a, _ := table(t, "")
	second := of("10.1.2.3", "bold", time.Hour)
	second.ID = "2"
	if err := a.Start(second); err != nil {
		t.Fatal(err)
	}
	if n, err := a.End(EndRequest{ID: "1", Addr: second.Addr}); n != 0 || err != nil || a.Lookup(second.Addr) == nil {
		t.Errorf("ending with the identifier of an earlier session returned %d, %v; want 0", n, err)
	}
	if n, err := a.End(EndRequest{ID: "2", Addr: second.Addr}); n != 1 || err != nil || a.Lookup(second.Addr) != nil {
		t.Errorf("ending with the identifier of the session returned %d, %v; want 1", n, err)
	}
}

func TestWrongSessionsAreRefused(t *testing.T) {
	a, _ := table(t, "")
	many := make([]string, maxGroups+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for want, s := range map[string]Session{
		"address of a client":  {User: "anna", Until: time.Now().Add(time.Hour)},
		"name of a user":       of("10.1.2.3", "a\nb", time.Hour),
		"over before":          of("10.1.2.3", "anna", -time.Hour),
		"write at most":        of("10.1.2.3", "anna", 30*24*time.Hour),
		"fit in a session":     of("10.1.2.3", "anna", time.Hour, many...),
		"the name of a group":  of("10.1.2.3", "anna", time.Hour, "x\x00"),
		"address of a client,": of("224.0.0.1", "anna", time.Hour),
	} {
		if err := a.Start(of("10.1.2.4", "good", time.Hour), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start returned %v, want an error with %q", err, want)
		}
	}
	if len(a.All()) != 0 {
		t.Errorf("one session of a refused change was started: %+v", a.All())
	}
}

// A fullStore is a store that keeps nothing.
type fullStore struct{ given int }

func (f *fullStore) Issue(all ...state.Instruction) error {
	f.given += len(all)
	return errors.New("disk full")
}
func (*fullStore) InForce(string) []state.Instruction { return nil }

func TestASessionThatTheStoreRefusesDoesNotCount(t *testing.T) {
	a := New(&fullStore{}, slog.New(slog.DiscardHandler))
	if err := a.Start(of("10.1.2.3", "anna", time.Hour)); err == nil || len(a.All()) != 0 {
		t.Errorf("with a full store, Start returned %v, and the sessions are %v", err, a.All())
	}
}

func TestARenewalThatAddsLittleIsNotWritten(t *testing.T) {
	_, s := table(t, "")
	counted := &countingStore{Store: s}
	a := New(counted, slog.New(slog.DiscardHandler))
	for range 100 {
		if err := a.Start(of("10.1.2.3", "anna", time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if counted.n != 1 {
		t.Errorf("renewing one session caused %d instructions, want 1", counted.n)
	}
	if err := a.Start(of("10.1.2.3", "anna", 3*time.Hour)); err != nil || counted.n != 2 {
		t.Errorf("with a longer session there are %d instructions (%v), want 2", counted.n, err)
	}
}

type countingStore struct {
	Store
	n int
}

func (c *countingStore) Issue(all ...state.Instruction) error {
	c.n += len(all)
	return c.Store.Issue(all...)
}

func TestReportsOfAnotherNodeAreTaken(t *testing.T) {
	a, s := table(t, t.TempDir())
	b := New(&fullStore{}, slog.New(slog.DiscardHandler))
	if err := a.Start(of("10.1.2.3", "anna", time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.Receive(s.InForce(Topic))
	if got := b.Lookup(netip.MustParseAddr("10.1.2.3")); got == nil || got.User != "anna" {
		t.Errorf("the session on the other node is %+v", got)
	}
	b.Receive([]state.Instruction{{Topic: Topic, Key: "10.1.2.3"}})
	if len(b.All()) != 0 {
		t.Error("the session did not end on the other node")
	}
	b.Receive([]state.Instruction{{Topic: Topic, Key: "x", Value: "{", Until: time.Now().Add(time.Hour)}})
}

func BenchmarkLookup(b *testing.B) {
	a := New(&fullStore{}, slog.New(slog.DiscardHandler))
	addr := netip.MustParseAddr("10.0.0.0")
	for range 10_000 {
		addr = addr.Next()
		a.put(&Session{Addr: addr, User: "anna", Until: time.Now().Add(time.Hour)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if a.Lookup(addr) == nil {
			b.Fatal("the session was not found")
		}
	}
}

// A slowStore blocks its first write until it is released.
type slowStore struct {
	began, goOn chan bool
	writes      [][]state.Instruction
}

func (s *slowStore) Issue(all ...state.Instruction) error {
	if s.writes = append(s.writes, all); len(s.writes) == 1 {
		close(s.began)
		<-s.goOn
	}
	return nil
}
func (*slowStore) InForce(string) []state.Instruction { return nil }

// Callers that come while the disk is busy share the next write, in their order.
func TestSessionsThatComeTogetherShareAWrite(t *testing.T) {
	s := &slowStore{began: make(chan bool), goOn: make(chan bool)}
	a := New(s, slog.New(slog.DiscardHandler))
	var all sync.WaitGroup
	coming := 0
	does := func(do func() error, want string) {
		all.Go(func() {
			if got := fmt.Sprint(do()); !strings.Contains(got, want) {
				t.Errorf("the caller got %q, want %q", got, want)
			}
		})
		if coming++; coming == 1 {
			<-s.began
			return
		}
		for a.changes.Waiting() != coming-1 {
			runtime.Gosched()
		}
	}
	starts := func(all ...Session) func() error { return func() error { return a.Start(all...) } }
	ends := func(addr string, id string, want int) func() error {
		return func() error {
			n, err := a.End(EndRequest{Addr: netip.MustParseAddr(addr), ID: id})
			if n != want {
				t.Errorf("%d sessions of %s ended, want %d", n, addr, want)
			}
			return err
		}
	}
	does(starts(of("10.0.0.1", "first", time.Hour)), "nil")
	for n := range 20 {
		does(starts(of(fmt.Sprint("10.0.1.", n+1), "pupil", time.Hour)), "nil")
	}
	does(starts(of("10.0.2.1", "good", time.Hour), of("10.0.2.2", "", time.Hour)), "not the name") // all or none
	does(starts(of("10.0.3.1", "anna", time.Hour)), "nil")
	does(starts(of("10.0.3.1", "bold", time.Hour)), "nil")
	does(ends("10.0.3.1", "", 1), "nil")
	does(ends("10.0.3.1", "", 0), "nil")
	does(starts(of("10.0.3.1", "carl", time.Hour)), "nil")
	close(s.goOn)
	all.Wait()
	sizes := []int{}
	for _, w := range s.writes {
		sizes = append(sizes, len(w))
	}
	if !slices.Equal(sizes, []int{1, 24}) {
		t.Errorf("writes of %v instructions, want one of the first, and one of all others", sizes)
	}
	if got := a.Lookup(netip.MustParseAddr("10.0.3.1")); got == nil || got.User != "carl" || a.Lookup(netip.MustParseAddr("10.0.2.1")) != nil || len(a.All()) != 22 {
		t.Errorf("at the end there are %d sessions, and that of 10.0.3.1 is %+v", len(a.All()), got)
	}
}

func TestASessionHasAsManyGroupsAsFitInAnInstruction(t *testing.T) {
	a, _ := table(t, "")
	short, long := make([]string, 2*maxGroups), make([]string, maxGroups)
	for i := range short {
		short[i] = fmt.Sprintf("g%d", i)
	}
	for i := range long {
		long[i] = fmt.Sprintf("%s%d", strings.Repeat("x", maxName-8), i)
	}
	for name, groups := range map[string][]string{"many": short, "long": long, "few": {"staff"}, "none": nil} {
		fit := FitGroups(groups, nil)
		if !slices.Equal(fit, groups[:len(fit)]) || len(fit) > maxGroups || len(groups) < 2 && len(fit) < len(groups) {
			t.Errorf("%s: FitGroups returned %d of %d groups", name, len(fit), len(groups))
		}
		s := of("10.1.2.3", "anna", time.Hour)
		s.Groups = fit
		if err := a.Start(s); err != nil {
			t.Errorf("%s: starting a session with the groups that fit: %v", name, err)
		}
		if got := a.Lookup(s.Addr); got == nil || len(got.Groups) != len(fit) {
			t.Errorf("%s: the session is %+v", name, got)
		}
	}
}

// TestGroupsThatPoliciesNameAreKept: whatever else somebody is in, and wherever they stand.
func TestGroupsThatPoliciesNameAreKept(t *testing.T) {
	var groups []string
	for i := range 900 {
		groups = append(groups, fmt.Sprintf("%036d", i))
	}
	wanted := map[string]bool{groups[0]: true, groups[450]: true, groups[899]: true}
	fit := FitGroups(groups, func(g string) bool { return wanted[g] })
	if len(fit) < 100 || len(fit) == len(groups) || !slices.IsSorted(fit) || len(slices.Compact(slices.Clone(fit))) != len(fit) {
		t.Fatalf("%d of %d groups fit, sorted %v", len(fit), len(groups), slices.IsSorted(fit))
	}
	for g := range wanted {
		if !slices.Contains(fit, g) {
			t.Errorf("group %s, which a policy names, is dropped", g)
		}
	}
	if all := FitGroups(groups[:100], func(string) bool { return false }); len(all) != 100 || all[0] != groups[0] {
		t.Errorf("%d of 100 groups are kept", len(all))
	}
}

// TestTwoSubjectsAreTwoPeople: a name is its first subject's, in any case and over a restart; a
// person keeps the mark, and names of another provider are taken over.
func TestTwoSubjectsAreTwoPeople(t *testing.T) {
	dir := t.TempDir()
	a, _ := table(t, dir)
	own := func(a *Table, name, issuer, subject string) string {
		t.Helper()
		got, err := a.Own(name, issuer, subject)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	const idp = "https://idp.example"
	if got := own(a, "anna", idp, "1"); got != "anna" {
		t.Errorf("the first anna is %q", got)
	}
	second := own(a, "Anna", idp, "2")
	third := own(a, "anna", idp, "3")
	if !strings.HasPrefix(second, "Anna#") || !strings.HasPrefix(third, "anna#") || strings.EqualFold(second, third) {
		t.Errorf("three subjects called anna: anna, %q, %q", second, third)
	}
	if got := own(a, "ben", idp, "2"); got != "ben" {
		t.Errorf("a subject that is called ben now is %q", got)
	}
	b := New(a.store, slog.New(slog.DiscardHandler))
	if got := own(b, "ANNA", idp, "1"); got != "ANNA" {
		t.Errorf("the first anna is %q later", got)
	}
	if got := own(b, "Anna", idp, "2"); got != second {
		t.Errorf("the second anna is %q later, want %q", got, second)
	}
	if got := own(b, "anna", "https://other.example", "9"); got != "anna" {
		t.Errorf("anna of a new provider is %q", got)
	}
	// The issuer of a longer name is not this one.
	if got := own(b, "carl", idp+".evil", "1"); got != "carl" {
		t.Errorf("carl is %q", got)
	}
	if got := own(b, "carl", idp, "1"); got != "carl" {
		t.Errorf("carl of the provider is %q", got)
	}
}

// TestIdleIsMeasuredByTheTimeThatRuns: a clock that is set ends no session, and lets none go on.
func TestIdleIsMeasuredByTheTimeThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, addr := New(noStore{}, slog.New(slog.DiscardHandler)), netip.MustParseAddr("192.0.2.1")
		time.Sleep(time.Minute)
		if err := table.Start(Session{Addr: addr, User: "anna", Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int64{60, 70, 80} {
			n := table.Active(addr, time.Minute)
			if n == nil || *n.used != want {
				t.Fatalf("a session that is used in second %d is %+v", want, n)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// TestAnIdleSessionIsNotWokenByWhatIsNoUse: by a device that is seen at its address, its groups, or
// a repeated message; a new sign-in of the same person begins it again.
func TestAnIdleSessionIsNotWokenByWhatIsNoUse(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	for name, tt := range map[string]struct {
		happens func(t *Table, s Session) error
		wakes   bool
	}{
		"a device is seen": {func(t *Table, _ Session) error {
			return t.See(NewDevices(map[netip.Addr]string{addr: "02:00:00:00:00:01"}, map[netip.Addr]string{addr: "02:00:00:00:00:01"}))
		}, false},
		"the same message again": {func(t *Table, s Session) error {
			value, err := json.Marshal(s)
			t.Receive([]state.Instruction{{Topic: Topic, Key: addr.String(), Value: string(value), Until: s.Until, Brief: true}})
			return err
		}, false},
		"other groups": {func(t *Table, _ Session) error {
			all := t.All()
			all[0].Groups = []string{"staff"}
			return t.Start(all...)
		}, false},
		"the same sign-in": {func(t *Table, s Session) error { return t.Start(s) }, true},
		"a longer session": {func(t *Table, s Session) error { s.Until = s.Until.Add(5 * time.Hour); return t.Start(s) }, true},
		"another sign-in":  {func(t *Table, s Session) error { s.ID = "2"; return t.Start(s) }, true},
		"nothing":          {func(*Table, Session) error { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := New(noStore{}, slog.New(slog.DiscardHandler))
				s := Session{Addr: addr, User: "anna", Source: "oidc", ID: "1", Until: time.Now().Add(5 * time.Hour)}
				if err := table.Start(s); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Minute)
				if err := tt.happens(table, s); err != nil {
					t.Fatal(err)
				}
				if counts := table.Active(addr, 10*time.Minute) != nil; counts != tt.wakes {
					t.Errorf("the session counts: %v, want %v", counts, tt.wakes)
				}
			})
		})
	}
}
