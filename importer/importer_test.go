package importer

import (
	"net/netip"
	"slices"
	"testing"
)

func TestNetworksReadsRangesAndMasks(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"10.0.0.1", []string{"10.0.0.1"}},
		{"10.1.2.3/255.255.0.0", []string{"10.1.0.0/16"}},
		{"10.1.2.3/24", []string{"10.1.2.0/24"}},
		{"10.2.0.1-10.2.0.6", []string{"10.2.0.1/32", "10.2.0.2/31", "10.2.0.4/31", "10.2.0.6/32"}},
		{"0.0.0.0-255.255.255.255", []string{"0.0.0.0/0"}},
		{"2001:db8::/32", []string{"2001:db8::/32"}},
		{"10.0.0.9-10.0.0.1", nil},
		{"10.0.0.0/255.0.255.0", nil},
		{"example.com", nil},
	} {
		got, ok := networks(c.in)
		if !slices.Equal(got, c.want) || ok != (c.want != nil) {
			t.Errorf("networks(%q) = %q, %v, want %q", c.in, got, ok, c.want)
		}
	}
}

// Our settings can read whatever networks returns.
func FuzzNetworks(f *testing.F) {
	for _, s := range []string{"10.0.0.1-10.0.1.7", "::-ffff::", "255.255.255.255-255.255.255.255", "1.2.3.4/0.0.0.0", "fe80::1%eth0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		nets, _ := networks(s)
		for _, n := range nets {
			if _, err := netip.ParseAddr(n); err == nil {
				continue
			}
			if p, err := netip.ParsePrefix(n); err != nil || p != p.Masked() {
				t.Errorf("networks(%q) has %q: %v", s, n, err)
			}
		}
	})
}

func TestCoverFindsTheWiderEntry(t *testing.T) {
	x := newIndex("banned")
	for i, s := range []string{"example.com", "other.org/a", "10.0.0.1"} {
		x.add(s, place{file: "list", line: i + 1})
	}
	for key, want := range map[string]string{
		"www.example.com": "example.com", "example.com/x": "example.com", "other.org/a/b": "other.org/a",
		"w.other.org/a?x": "other.org/a", "other.org/ab": "", "notexample.com": "", "example.com": "", "110.0.0.1": "",
	} {
		if got, _, _ := x.cover(key, false); got != want {
			t.Errorf("%q is covered by %q, want %q", key, got, want)
		}
	}
}
