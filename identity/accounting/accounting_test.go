//go:build !small

package accounting

import (
	"context"
	"crypto/md5"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2866"

	"shuultuur/identity/session"
	"shuultuur/lib/setting"
	"shuultuur/state"
	"shuultuur/test/peer"
)

// running starts a server and returns its address and its sessions.
func running(t *testing.T, cfg Config) (string, *session.Table) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st, err := state.Open(state.Config{}, t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	table := session.New(st, log)
	s, err := New(&cfg, []setting.Address{"127.0.0.1:0"}, table, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
		st.Close()
	})
	return s.Addr(), table
}

var school = Config{Clients: map[string]string{"127.0.0.0/8": "secret", "10.0.0.0/8": "other"}}

// packet returns a packet which reports that a user has an address.
func packet(kind rfc2866.AcctStatusType, user, addr, id string, class ...string) *radius.Packet {
	p := radius.New(radius.CodeAccountingRequest, []byte("secret"))
	_ = rfc2866.AcctStatusType_Set(p, kind)
	if user != "" {
		_ = rfc2865.UserName_SetString(p, user)
	}
	if addr != "" {
		_ = rfc2865.FramedIPAddress_Set(p, net.ParseIP(addr))
	}
	_ = rfc2866.AcctSessionID_SetString(p, id)
	for _, c := range class {
		_ = rfc2865.Class_AddString(p, c)
	}
	return p
}

// send sends a packet and waits for its acknowledgement.
func send(t *testing.T, to string, p *radius.Packet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := radius.Client{Retry: time.Second}
	s, err := c.Exchange(ctx, p, to)
	if err != nil || s.Code != radius.CodeAccountingResponse {
		t.Fatalf("sending the packet: %v, %v", s, err)
	}
}

func TestAccountingAssignsAddressesToUsers(t *testing.T) {
	classes := school
	classes.Groups = []string{"class"}
	to, table := running(t, classes)
	addr := netip.MustParseAddr("192.0.2.7")
	start, interim, stop := rfc2866.AcctStatusType_Value_Start, rfc2866.AcctStatusType_Value_InterimUpdate, rfc2866.AcctStatusType_Value_Stop

	send(t, to, packet(start, "anna", "", "s1")) // before DHCP
	if len(table.All()) != 0 {
		t.Fatalf("a packet without an address began the sessions %+v", table.All())
	}
	send(t, to, packet(interim, "anna", "192.0.2.7", "s1", "OU=pupils;", "choir"))
	got := table.Lookup(addr)
	if got == nil || got.User != "anna" || got.Source != "radius" || !slices.Equal(got.Groups, []string{"choir", "pupils"}) {
		t.Fatalf("the session is %+v, want anna's with the groups choir and pupils", got)
	}
	send(t, to, packet(start, "bold", "192.0.2.7", "s2"))
	send(t, to, packet(stop, "anna", "192.0.2.7", "s1"))
	if got := table.Lookup(addr); got == nil || got.User != "bold" {
		t.Errorf("the late end of another session ended this one: %+v", got)
	}
	send(t, to, packet(stop, "bold", "192.0.2.7", "s2"))
	if got := table.Lookup(addr); got != nil {
		t.Errorf("the session continues after its end: %+v", got)
	}
	send(t, to, packet(interim, "bold", "192.0.2.7", "s2"))
	if got := table.Lookup(addr); got != nil {
		t.Errorf("a late packet began an ended session again: %+v", got)
	}
	send(t, to, packet(start, "carl", "192.0.2.8", "s3"))
	send(t, to, packet(rfc2866.AcctStatusType_Value_AccountingOn, "", "", ""))
	if all := table.All(); len(all) != 0 {
		t.Errorf("after a restart of the access point the sessions are %+v, want none", all)
	}
}

func TestABurstIsAcknowledgedWhole(t *testing.T) {
	to, table := running(t, school)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 25 {
				a := netip.AddrFrom4([4]byte{10, 9, byte(i), byte(n + 1)})
				send(t, to, packet(rfc2866.AcctStatusType_Value_Start, "u"+a.String(), a.String(), a.String()))
			}
		})
	}
	wg.Wait()
	if n := len(table.All()); n != 200 {
		t.Errorf("got %d sessions, want 200", n)
	}
}

// A countingStore counts the writes of a store.
type countingStore struct {
	session.Store
	writes int
}

func (c *countingStore) Issue(all ...state.Instruction) error {
	c.writes++
	return c.Store.Issue(all...)
}

// TestABurstOfPacketsCostsOneWriteToTheDisk: so does a burst of ends, as when an access point
// goes down. A refused packet does not delay the others.
func TestABurstOfPacketsCostsOneWriteToTheDisk(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	kept, err := state.Open(state.Config{}, t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	st := &countingStore{Store: kept}
	table := session.New(st, log)
	s, err := New(&school, []setting.Address{"127.0.0.1:0"}, table, log)
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	burst := func(kind session.Kind) (all []change) {
		for n := range 200 {
			a := netip.AddrFrom4([4]byte{192, 0, 2, byte(n + 1)})
			all = append(all, change{Event: session.Event{Kind: kind, User: "anna", Nets: []netip.Prefix{netip.PrefixFrom(a, 32)}, ID: a.String(), At: time.Now(), Until: time.Now().Add(time.Hour)}, back: func([]byte) { acknowledged++ }})
		}
		return all
	}
	after := func(what string, all []change, sessions, writes, answers int) {
		t.Helper()
		st.writes, acknowledged = 0, 0
		s.apply(all)
		if n := len(table.All()); n != sessions || acknowledged != answers || st.writes != writes {
			t.Errorf("%s: %d sessions, %d packets acknowledged, %d writes; want %d, %d, %d", what, n, acknowledged, st.writes, sessions, answers, writes)
		}
	}
	after("beginnings", burst(session.Begins), 200, 1, 200)
	after("ends", burst(session.Ends), 0, 1, 200)
	mixed := burst(session.Begins)
	for n := range mixed {
		mixed[n].ID = "mixed " + mixed[n].ID
		if n%2 == 1 {
			mixed[n].Kind, mixed[n].Nets, mixed[n].ID = session.Ends, mixed[n-1].Nets, mixed[n-1].ID
		}
	}
	after("beginnings and ends by turns", mixed, 0, 1, 200)
	bad := burst(session.Continues)
	for n := range bad {
		bad[n].ID = "another"
		if n > 0 {
			bad[n].ID += bad[n].Nets[0].String()
		}
	}
	bad[7].User = ""
	for n := range 60 { // more than a session can hold
		bad[9].Groups = append(bad[9].Groups, fmt.Sprint(strings.Repeat("g", 200), n))
	}
	after("renewals with two that begin nothing", bad, 198, 1, 200)
	after("an access point that starts anew between others", append(burst(session.Continues)[:100], change{Event: session.Event{Kind: session.Restarts, At: time.Now()}, back: func([]byte) { acknowledged++ }}), 0, 1, 101)
}

func TestPacketsThatProveNothingAreRefused(t *testing.T) {
	s, err := New(&school, []setting.Address{"127.0.0.1:0"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	strict := s.rules
	strict.unsigned = false
	good, err := packet(rfc2866.AcctStatusType_Value_Start, "anna", "192.0.2.7", "s").Encode()
	if err != nil {
		t.Fatal(err)
	}
	changed := func(at int, to byte) []byte {
		b := slices.Clone(good)
		b[at] = to
		return b
	}
	access, _ := radius.New(radius.CodeAccessRequest, []byte("secret")).Encode()
	long := append(slices.Clone(good), 0, 0, 0)
	local := netip.MustParseAddr("127.0.0.1")
	for _, test := range []struct {
		name  string
		rules rules
		from  netip.Addr
		b     []byte
		want  string
	}{
		{"good", s.rules, local, good, ""},
		{"padded", s.rules, local, long, ""},
		{"stranger", s.rules, netip.MustParseAddr("192.0.2.1"), good, "not among identity.accounting.clients"},
		{"another client's secret", s.rules, netip.MustParseAddr("10.1.1.1"), good, "not that of the shared secret"},
		{"changed", s.rules, local, changed(len(good)-1, 'x'), "not that of the shared secret"},
		{"short", s.rules, local, good[:19], "no packet of RADIUS"},
		{"length", s.rules, local, changed(2, 0xff), "its length field says"},
		{"attribute", s.rules, local, changed(21, 200), "attributes do not end"},
		{"attribute of no length", s.rules, local, changed(21, 0), "attributes do not end"},
		{"password", s.rules, local, access, "takes accounting only"},
		{"unsigned", strict, local, good, "no Message-Authenticator"},
	} {
		ch, err := test.rules.read(test.b, test.from, time.Now())
		if test.want == "" && (err != nil || ch.User != "anna") || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: read returned %+v, %v; want an error with %q", test.name, ch, err, test.want)
		}
	}
}

func TestSettingsOfAccountingAreChecked(t *testing.T) {
	at := []setting.Address{"127.0.0.1:0"}
	for want, cfg := range map[string]Config{
		"no client is named": {},
		"is not an address":  {Clients: map[string]string{"ap": "x"}},
		"secret is empty":    {Clients: map[string]string{"10.0.0.1": ""}},
		"write class":        {Clients: map[string]string{"10.0.0.1": "x"}, Groups: []string{"vlan"}},
	} {
		if _, err := New(&cfg, at, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New returned %v, want an error with %q", err, want)
		}
	}
	if _, err := New(&school, nil, nil, nil); err == nil || !strings.Contains(err.Error(), "listen.radius") {
		t.Error(err)
	}
}

func TestRadclientIsUnderstood(t *testing.T) {
	radclient := peer.Program(t, "radclient")
	strict := school
	no := false
	strict.Unsigned = &no
	to, table := running(t, strict)
	c := exec.Command(radclient, "-x", "-t", "5", to, "acct", "secret")
	c.Stdin = strings.NewReader(`Acct-Status-Type = Start, User-Name = "anna", Framed-IP-Address = 192.0.2.9, Acct-Session-Id = "7", Filter-Id = "teachers", Message-Authenticator = 0x00` + "\n")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("radclient: %v: %s", err, out)
	}
	if got := table.Lookup(netip.MustParseAddr("192.0.2.9")); got == nil || got.User != "anna" || !slices.Equal(got.Groups, []string{"teachers"}) {
		t.Errorf("the session is %+v, want anna's with the group teachers; radclient printed %s", got, out)
	}
}

func FuzzPacket(f *testing.F) {
	s, err := New(&school, []setting.Address{"127.0.0.1:0"}, nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	good, _ := packet(rfc2866.AcctStatusType_Value_Start, "anna", "192.0.2.7", "s", "a,b").Encode()
	f.Add(good, true)
	f.Add([]byte{4, 1, 0, 20}, false)
	f.Fuzz(func(t *testing.T, b []byte, resign bool) {
		if resign && len(b) >= 20 && len(b) < maxPacket {
			b = signed(b)
		}
		ch, err := s.rules.read(b, netip.MustParseAddr("127.0.0.1"), time.Now())
		if err != nil {
			return
		}
		if !utf8.ValidString(ch.User+ch.ID+ch.By.Name) || ch.At.After(time.Now()) || len(ch.Nets) > 16 || ch.answer == nil {
			t.Errorf("the packet is read as %+v", ch)
		}
	})
}

// signed sets the right authenticator of a packet.
func signed(b []byte) []byte {
	b = slices.Clone(b)
	b[2], b[3] = byte(len(b)>>8), byte(len(b))
	clear(b[4:20])
	h := md5.New()
	h.Write(b)
	h.Write([]byte("secret"))
	copy(b[4:20], h.Sum(nil))
	return b
}
