package session

import (
	"net/netip"
	"testing"
	"time"
)

const (
	phone  = "02:00:00:00:00:01"
	tablet = "02:00:00:00:00:02"
	router = "02:00:00:00:00:03"
)

func macs(pairs ...string) map[netip.Addr]string {
	m := map[netip.Addr]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[netip.MustParseAddr(pairs[i])] = pairs[i+1]
	}
	return m
}

// TestASessionEndsWhenAnotherDeviceHasItsAddress: leases are compared with leases, and neighbours
// with neighbours; what is not known takes nothing away.
func TestASessionEndsWhenAnotherDeviceHasItsAddress(t *testing.T) {
	const at = "10.0.0.1"
	for _, tt := range []struct {
		name         string
		before       *Devices // when the session begins
		after, later *Devices
		want         bool // the session goes on
	}{
		{"another lease", NewDevices(macs(at, phone), nil), NewDevices(macs(at, tablet), nil), nil, false},
		{"the same lease", NewDevices(macs(at, phone), nil), NewDevices(macs(at, phone), nil), nil, true},
		{"no lease any more", NewDevices(macs(at, phone), nil), NewDevices(nil, nil), nil, true},
		{"another neighbour", NewDevices(nil, macs(at, phone)), NewDevices(nil, macs(at, tablet)), nil, false},
		{"a neighbour that is gone", NewDevices(nil, macs(at, phone)), NewDevices(nil, nil), nil, true},
		{"gone, and another comes", NewDevices(nil, macs(at, phone)), NewDevices(nil, nil), NewDevices(nil, macs(at, tablet)), false},
		{"a repeater between", NewDevices(macs(at, phone), nil), NewDevices(macs(at, phone), macs(at, router)), nil, true},
		{"known later, and then another one", NewDevices(nil, nil), NewDevices(macs(at, phone), nil), NewDevices(macs(at, tablet), nil), false},
		{"nobody has looked", nil, NewDevices(macs(at, phone), nil), NewDevices(macs(at, phone), nil), true},
		{"another address", NewDevices(macs(at, phone), nil), NewDevices(macs(at, phone, "10.0.0.2", tablet), nil), nil, true},
	} {
		dir := t.TempDir()
		a, s := table(t, dir)
		see := func(d *Devices) {
			t.Helper()
			if d == nil {
				return
			}
			if err := a.See(d); err != nil {
				t.Fatal(err)
			}
		}
		see(tt.before)
		if err := a.Start(of(at, "anna", time.Hour)); err != nil {
			t.Fatal(err)
		}
		see(tt.after)
		see(tt.later)
		if got := a.Lookup(netip.MustParseAddr(at)) != nil; got != tt.want {
			t.Errorf("%s: the session goes on: %v, want %v", tt.name, got, tt.want)
		}
		if again := New(s, a.log); again.Lookup(netip.MustParseAddr(at)) != nil != tt.want {
			t.Errorf("%s: after a restart it is otherwise", tt.name)
		}
	}
}

// TestADeviceSignsInOnce: with both families, and nobody else with it.
func TestADeviceSignsInOnce(t *testing.T) {
	lease := macs("10.0.0.1", phone, "10.0.0.2", tablet)
	near := macs("10.0.0.1", phone, "10.0.0.2", tablet, "2001:db8::1", phone, "2001:db8::a", phone, "2001:db8::2", tablet)
	for _, tt := range []struct {
		name        string
		lease, near map[netip.Addr]string
		signed      string // where anna has signed in
		by          string
		ask         string
		want        bool
	}{
		{"IPv6 after IPv4", lease, near, "10.0.0.1", "portal", "2001:db8::1", true},
		{"IPv4 after IPv6", lease, near, "2001:db8::1", "portal", "10.0.0.1", true},
		{"a second IPv6 address", lease, near, "2001:db8::1", "portal", "2001:db8::a", true},
		{"another device", lease, near, "10.0.0.1", "portal", "2001:db8::2", false},
		{"another device by IPv4", lease, near, "2001:db8::1", "portal", "10.0.0.2", false},
		{"an access point has said so", lease, near, "10.0.0.1", "10.9.9.9", "2001:db8::1", false},
		{"no lease", nil, near, "10.0.0.1", "portal", "2001:db8::1", false},
		{"no neighbour", lease, nil, "10.0.0.1", "portal", "2001:db8::1", false},
		{"behind a repeater", lease, macs("10.0.0.1", router, "2001:db8::1", router), "10.0.0.1", "portal", "2001:db8::1", false},
		{"a router that answers for all", macs("10.0.0.1", router, "10.0.0.2", router), macs("10.0.0.1", router, "10.0.0.2", router, "2001:db8::1", router), "10.0.0.1", "portal", "2001:db8::1", false},
		{"a router with a lease", macs("10.0.0.1", router), macs("10.0.0.1", router, "10.0.0.2", router, "2001:db8::1", router), "10.0.0.1", "portal", "2001:db8::1", false},
	} {
		a, _ := table(t, "")
		if err := a.See(NewDevices(tt.lease, tt.near)); err != nil {
			t.Fatal(err)
		}
		s := of(tt.signed, "anna", time.Hour)
		s.By = tt.by
		if err := a.Start(s); err != nil {
			t.Fatal(err)
		}
		got := a.OfDevice(netip.MustParseAddr(tt.ask))
		if (got != nil) != tt.want || got != nil && got.User != "anna" {
			t.Errorf("%s: %+v, want anna: %v", tt.name, got, tt.want)
		}
	}
	a, _ := table(t, "")
	if err := a.See(NewDevices(lease, near)); err != nil {
		t.Fatal(err)
	}
	for addr, user := range map[string]string{"10.0.0.1": "anna", "2001:db8::1": "ben"} {
		s := of(addr, user, time.Hour)
		s.By = "portal"
		if err := a.Start(s); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.OfDevice(netip.MustParseAddr("2001:db8::a")); got != nil {
		t.Errorf("two people at one device: the third address is %s's", got.User)
	}
}
