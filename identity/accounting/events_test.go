package accounting

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"layeh.com/radius"

	"shuultuur/identity/session"
	"shuultuur/lib/setting"
	"shuultuur/state"
)

// A desk takes packets without a network.
type desk struct {
	t     *testing.T
	s     *Server
	table *session.Table
	now   time.Time
}

func newDesk(t *testing.T, groups ...string) *desk {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st, err := state.Open(state.Config{}, t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	d := &desk{t: t, table: session.New(st, log), now: time.Now()}
	cfg := Config{Clients: map[string]string{"10.0.0.0/8": "secret"}, Groups: groups}
	if d.s, err = New(&cfg, at, d.table, log); err != nil {
		t.Fatal(err)
	}
	return d
}

var at = []setting.Address{"127.0.0.1:0"}

// take sends a packet from a sender. attributes are "user=anna id=1 addr=…", with the status
// first. It reports an unacknowledged one.
func (d *desk) take(from, attributes string) {
	d.t.Helper()
	p := radius.New(radius.CodeAccountingRequest, []byte("secret"))
	number := func(n int64) radius.Attribute { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	for i, a := range strings.Fields(attributes) {
		key, value, _ := strings.Cut(a, "=")
		if i == 0 {
			status := map[string]int64{"start": 1, "stop": 2, "interim": 3, "on": 7, "off": 8, "tunnel": 9, "failed": 15}
			p.Add(statusType, number(status[a]))
			continue
		}
		switch key {
		case "user":
			p.Add(userName, radius.Attribute(strings.ReplaceAll(value, "NUL", "\x00")))
		case "latin":
			p.Add(userName, radius.Attribute{'j', 0xf6, 'r', 'g'})
		case "id":
			p.Add(sessionID, radius.Attribute(value))
		case "nas":
			p.Add(nasIdentifier, radius.Attribute(value))
		case "ip":
			p.Add(nasAddress, netip.MustParseAddr(value).AsSlice())
		case "addr":
			a := netip.MustParseAddr(value)
			p.Add(map[bool]radius.Type{true: framedAddress, false: framedAddress6}[a.Is4()], a.AsSlice())
		case "prefix", "delegated":
			n := netip.MustParsePrefix(value)
			v := append(radius.Attribute{0, byte(n.Bits())}, n.Addr().AsSlice()[:(n.Bits()+7)/8]...)
			p.Add(map[string]radius.Type{"prefix": framedPrefix6, "delegated": delegatedPrefix}[key], v)
		case "ago", "delay": // seconds
			var n int64
			_, _ = fmt.Sscan(value, &n)
			if key == "ago" {
				p.Add(eventTimestamp, number(d.now.Unix()-n))
			} else {
				p.Add(delayTime, number(n))
			}
		case "class":
			p.Add(class, radius.Attribute(value))
		case "filter":
			p.Add(filterID, radius.Attribute(value))
		default:
			d.t.Fatalf("the attribute %q is not known", a)
		}
	}
	b, err := p.Encode()
	if err != nil {
		d.t.Fatal(err)
	}
	ch, err := d.s.rules.read(b, netip.MustParseAddr(from), d.now)
	if err != nil {
		d.t.Errorf("%s from %s: %v", attributes, from, err)
		return
	}
	acknowledged := false
	ch.back = func([]byte) { acknowledged = true }
	if d.s.apply([]change{ch}); !acknowledged {
		d.t.Errorf("%s from %s is not acknowledged", attributes, from)
	}
}

// TestEventsOfAccessPoints: each sequence of packets, and who has which address then. The sender
// is 10.0.0.1 unless another comes first.
func TestEventsOfAccessPoints(t *testing.T) {
	const a, b = "192.0.2.7", "192.0.2.8"
	for name, tt := range map[string]struct {
		packets []string
		want    string // "address=user …"
	}{
		"a stop without an address":       {[]string{"start user=anna id=1 addr=" + a, "stop id=1"}, ""},
		"a stop without a user":           {[]string{"start user=anna id=1 addr=" + a, "stop id=1 addr=" + a}, ""},
		"a stop of both families":         {[]string{"start user=anna id=1 addr=" + a + " addr=2001:db8::7", "stop user=anna id=1 addr=" + a}, ""},
		"a stop with another address":     {[]string{"start user=anna id=1 addr=" + a, "stop user=anna id=1 addr=" + b}, ""},
		"a new address":                   {[]string{"start user=anna id=1 addr=" + a, "interim user=anna id=1 addr=" + b}, b + "=anna"},
		"a new address, stop":             {[]string{"start user=anna id=1 addr=" + a, "interim user=anna id=1 addr=" + b, "stop user=anna id=1"}, ""},
		"a second family comes":           {[]string{"start user=anna id=1 addr=" + a, "interim user=anna id=1 addr=2001:db8::7"}, a + "=anna 2001:db8::7=anna"},
		"an interim without address":      {[]string{"start user=anna id=1 addr=" + a, "interim user=anna id=1"}, a + "=anna"},
		"an interim without user":         {[]string{"start user=anna id=1 addr=" + a, "interim id=1 addr=" + b}, b + "=anna"},
		"the old address comes late":      {[]string{"start user=anna id=1 addr=" + a + " ago=60", "interim user=anna id=1 addr=" + b + " ago=10", "interim user=anna id=1 addr=" + a + " ago=30"}, b + "=anna"},
		"late by delay":                   {[]string{"start user=ben id=2 addr=" + a, "start user=anna id=1 delay=3600 addr=" + a}, a + "=ben"},
		"late by timestamp":               {[]string{"start user=ben id=2 addr=" + a, "start user=anna id=1 ago=3600 addr=" + a}, a + "=ben"},
		"late interim":                    {[]string{"start user=ben id=2 addr=" + a, "interim user=anna id=1 ago=3600 addr=" + a}, a + "=ben"},
		"late, and free":                  {[]string{"start user=anna id=1 ago=3600 addr=" + a}, a + "=anna"},
		"later takes":                     {[]string{"start user=anna id=1 ago=60 addr=" + a, "start user=ben id=2 ago=30 addr=" + a}, a + "=ben"},
		"in the same second":              {[]string{"start user=anna id=1 ago=30 addr=" + a, "start user=ben id=2 ago=30 addr=" + a}, a + "=ben"},
		"a clock that was never set":      {[]string{"start user=anna id=1 addr=" + a, "start user=ben id=2 ago=1700000000 addr=" + a}, a + "=ben"},
		"a clock ahead":                   {[]string{"start user=anna id=1 ago=-7200 addr=" + a, "start user=ben id=2 addr=" + a}, a + "=ben"},
		"two points, one id":              {[]string{"start nas=ap1 user=anna id=1 addr=" + a, "start nas=ap2 user=ben id=1 addr=" + b, "stop nas=ap1 id=1"}, b + "=ben"},
		"two points, one id, later":       {[]string{"start nas=ap1 user=anna id=1 addr=" + a, "stop nas=ap1 id=1 addr=" + a, "start nas=ap2 user=ben id=1 addr=" + b}, b + "=ben"},
		"two points by address":           {[]string{"start ip=10.1.1.1 user=anna id=1 addr=" + a, "start ip=10.1.1.2 user=ben id=1 addr=" + b, "stop ip=10.1.1.1 id=1"}, b + "=ben"},
		"two points of one name":          {[]string{"start nas=ap ip=10.1.1.1 user=anna id=1 addr=" + a, "start nas=ap ip=10.1.1.2 user=ben id=1 addr=" + b, "on nas=ap ip=10.1.1.1"}, b + "=ben"},
		"on of one point":                 {[]string{"start nas=ap1 user=anna id=1 addr=" + a, "start nas=ap2 user=ben id=2 addr=" + b, "on nas=ap1"}, b + "=ben"},
		"off of one point":                {[]string{"start ip=10.1.1.1 user=anna id=1 addr=" + a, "start ip=10.1.1.2 user=ben id=2 addr=" + b, "off ip=10.1.1.2"}, a + "=anna"},
		"on that says less":               {[]string{"start nas=ap1 ip=10.1.1.1 user=anna id=1 addr=" + a, "start nas=ap2 ip=10.1.1.2 user=ben id=2 addr=" + b, "on ip=10.1.1.1"}, b + "=ben"},
		"on of the sender":                {[]string{"start user=anna id=1 addr=" + a, "on"}, ""},
		"late on":                         {[]string{"start user=anna id=1 addr=" + a, "on ago=3600"}, a + "=anna"},
		"an id again after on":            {[]string{"start user=anna id=1 addr=" + a, "stop id=1 addr=" + a, "on", "start user=ben id=1 addr=" + a}, a + "=ben"},
		"from before on":                  {[]string{"on ago=10", "interim user=anna id=1 ago=60 addr=" + a}, ""},
		"an interim just after stop":      {[]string{"start user=anna id=1 addr=" + a, "stop id=1 addr=" + a, "interim user=anna id=1 addr=" + a}, ""},
		"an interim from before stop":     {[]string{"stop id=1 ago=10", "interim user=anna id=1 ago=60 addr=" + a}, ""},
		"an id again, dated":              {[]string{"start user=anna id=1 ago=60 addr=" + a, "stop id=1 ago=40", "start user=ben id=1 ago=20 addr=" + a}, a + "=ben"},
		"a stop from before that":         {[]string{"start user=ben id=1 ago=20 addr=" + a, "stop user=anna id=1 ago=40 addr=" + a}, a + "=ben"},
		"another sender":                  {[]string{"start user=anna id=1 addr=" + a, "10.0.0.9 stop user=anna id=1 addr=" + a}, a + "=anna"},
		"another sender of one point":     {[]string{"start nas=ap user=anna id=1 addr=" + a, "10.0.0.9 stop nas=ap user=anna id=1 addr=" + a, "10.0.0.9 on nas=ap"}, a + "=anna"},
		"another point":                   {[]string{"start nas=ap1 user=anna id=1 addr=" + a, "stop nas=ap2 user=anna id=1 addr=" + a}, a + "=anna"},
		"a prefix":                        {[]string{"start user=anna id=1 prefix=2001:db8:0:7::/64"}, "2001:db8:0:7::99=anna 2001:db8:0:8::1="},
		"a delegated prefix":              {[]string{"start user=anna id=1 delegated=2001:db8:0:700::/56"}, "2001:db8:0:7ff::99=anna"},
		"prefixes within":                 {[]string{"start user=anna id=1 delegated=2001:db8:0:700::/56", "start user=ben id=2 prefix=2001:db8:0:701::/64"}, "2001:db8:0:700::1=anna 2001:db8:0:701::1=ben"},
		"a prefix ends":                   {[]string{"start user=anna id=1 prefix=2001:db8:0:7::/64", "stop id=1"}, "2001:db8:0:7::99="},
		"a prefix changes":                {[]string{"start user=anna id=1 prefix=2001:db8:0:7::/64", "interim user=anna id=1 prefix=2001:db8:0:8::/64"}, "2001:db8:0:7::1= 2001:db8:0:8::1=anna"},
		"a prefix of a whole provider":    {[]string{"start user=anna id=1 prefix=2001:db8::/32"}, "2001:db8::1="},
		"no user at all":                  {[]string{"start id=1 addr=" + a, "interim id=1 addr=" + a}, ""},
		"another status":                  {[]string{"tunnel user=anna id=1 addr=" + a, "failed user=anna id=1 addr=" + a}, ""},
		"a name that ends with zero":      {[]string{"start user=annaNUL id=1 addr=" + a}, a + "=anna"},
		"a name in Latin-1":               {[]string{"start latin id=1 addr=" + a}, a + "=jörg"},
		"no id":                           {[]string{"start user=anna addr=" + a, "stop user=anna addr=" + a}, ""},
		"no id, another user's stop":      {[]string{"start user=ben addr=" + a, "stop user=anna addr=" + a}, a + "=ben"},
		"twice":                           {[]string{"start user=anna id=1 addr=" + a, "start user=anna id=1 addr=" + a}, a + "=anna"},
		"stop twice, and another between": {[]string{"start user=anna id=1 addr=" + a, "stop id=1 addr=" + a, "start user=ben id=2 addr=" + a, "stop id=1 addr=" + a}, a + "=ben"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			for _, p := range tt.packets {
				from := "10.0.0.1"
				if sender, rest, ok := strings.Cut(p, " "); ok && strings.HasPrefix(sender, "10.") {
					from, p = sender, rest
				}
				d.take(from, p)
			}
			if !strings.Contains(tt.want, "=") || !strings.Contains(tt.want, "::") {
				var got []string
				for _, s := range d.table.All() {
					got = append(got, s.Addr.String()+"="+s.User)
				}
				if g := strings.Join(got, " "); g != tt.want {
					t.Errorf("the sessions are %q, want %q", g, tt.want)
				}
				return
			}
			for _, w := range strings.Fields(tt.want) {
				addr, user, _ := strings.Cut(w, "=")
				got := ""
				if s := d.table.Lookup(netip.MustParseAddr(addr)); s != nil {
					got = s.User
				}
				if got != user {
					t.Errorf("%s is %q's, want %q", addr, got, user)
				}
			}
		})
	}
}

// TestWhichAttributesAreGroups: Class only where the settings say so, and in which form.
func TestWhichAttributesAreGroups(t *testing.T) {
	for _, tt := range []struct {
		settings   []string
		attributes string
		want       string
	}{
		{nil, "class=pupils", ""},
		{nil, "class=OU=pupils;", ""},
		{nil, "class=ai:3f2a", ""},
		{nil, "filter=pupils", "pupils"},
		{[]string{"class"}, "class=pupils,choir", "choir pupils"},
		{[]string{"class"}, "class=OU=pupils;", "pupils"},
		{[]string{"class"}, "class=ai:3f2a", ""},
		{[]string{"class"}, "class=CACS:0a0a:ise/1/2", ""},
		{[]string{"class"}, "filter=pupils", ""},
		{[]string{"class-ou"}, "class=OU=pupils;", "pupils"},
		{[]string{"class-ou"}, "class=ou=pupils class=3f2a", "pupils"},
		{[]string{"class-ou"}, "class=3f2a", ""},
		{[]string{"class-ou", "filter-id"}, "class=OU=choir filter=pupils", "choir pupils"},
	} {
		d := newDesk(t, tt.settings...)
		d.take("10.0.0.1", "start user=anna id=1 addr=192.0.2.7 "+tt.attributes)
		s := d.table.Lookup(netip.MustParseAddr("192.0.2.7"))
		if s == nil {
			t.Fatalf("%s began no session", tt.attributes)
		}
		if got := strings.Join(slices.Sorted(slices.Values(s.Groups)), " "); got != tt.want {
			t.Errorf("with %q, %s gives the groups %q, want %q", tt.settings, tt.attributes, got, tt.want)
		}
	}
}

// TestWhatIsOfNoUseIsAcknowledgedAndCounted: its access point would send it again for ever.
func TestWhatIsOfNoUseIsAcknowledgedAndCounted(t *testing.T) {
	d := newDesk(t)
	for i, packet := range []string{"tunnel user=anna id=1 addr=192.0.2.7", "start id=1 addr=192.0.2.7", "start user=anna id=1 prefix=2001:db8::/32"} {
		d.take("10.0.0.1", packet) // which fails if it is not acknowledged
		if unused := d.s.unused.Load(); unused != uint64(i+1) || d.s.taken.Load() != 0 {
			t.Errorf("%s: %d packets count as unused and %d as taken, want %d and 0", packet, unused, d.s.taken.Load(), i+1)
		}
	}
	d.take("10.0.0.1", "start user=anna id=3 addr=192.0.2.7")
	if d.s.taken.Load() != 1 {
		t.Error("a packet that begins a session does not count as taken")
	}
}
