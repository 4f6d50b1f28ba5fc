package input

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
		got, ok := Networks(c.in)
		if !slices.Equal(got, c.want) || ok != (c.want != nil) {
			t.Errorf("Networks(%q) = %q, %v, want %q", c.in, got, ok, c.want)
		}
	}
}

// Our settings can read whatever networks returns.
func FuzzNetworks(f *testing.F) {
	for _, s := range []string{"10.0.0.1-10.0.1.7", "::-ffff::", "255.255.255.255-255.255.255.255", "1.2.3.4/0.0.0.0", "fe80::1%eth0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		nets, _ := Networks(s)
		for _, n := range nets {
			if _, err := netip.ParseAddr(n); err == nil {
				continue
			}
			if p, err := netip.ParsePrefix(n); err != nil || p != p.Masked() {
				t.Errorf("Networks(%q) has %q: %v", s, n, err)
			}
		}
	})
}

func TestSmallValues(t *testing.T) {
	for s, want := range map[string]bool{"phone": true, "a-1": true, "": false, "-a": false, "a-": false, "a.b": false, "aa:bb:cc:dd:ee:ff": false, "aa-bb-cc-dd-ee-ff": false} {
		if got := IsLabel(s); got != want {
			t.Errorf("IsLabel(%q) = %v, want %v", s, got, want)
		}
	}
	for s, want := range map[string]string{"a # note": "a", "a\t#note": "a", "a#b": "a#b", "#note": "", " # x": ""} {
		if got := string(CutNote([]byte(s))); got != want {
			t.Errorf("without its note, %q is %q, want %q", s, got, want)
		}
	}
	for _, c := range []struct {
		ports string
		port  uint16
		want  bool
	}{{"80", 80, true}, {"80", 81, false}, {"1-80", 80, true}, {"80-90", 79, false}, {"90-80", 85, false}, {"", 0, false}, {"-80", 1, false}, {"70000", 80, false}} {
		if got := HasPort(c.ports, c.port); got != c.want {
			t.Errorf("HasPort(%q, %d) = %v, want %v", c.ports, c.port, got, c.want)
		}
	}
	for s, want := range map[[2]string]bool{{"0", "00"}: true, {"23", "59"}: true, {"24", "00"}: true, {"24", "01"}: false, {"12", "60"}: false, {"", "00"}: false} {
		if got := IsClock(s[0], s[1]); got != want {
			t.Errorf("IsClock(%q) = %v, want %v", s, got, want)
		}
	}
	if got := Minute("13", "05"); got != 785 {
		t.Errorf("13:05 is minute %d, want 785", got)
	}
	for name, want := range map[string]string{"a.b.example": "example", "example": "example", "a.test": "", "": ""} {
		if got := FirstParent(name, func(s string) bool { return s == "example" }); got != want {
			t.Errorf("the first parent of %q is %q, want %q", name, got, want)
		}
	}
	for s, want := range map[string]string{"10.1.2.3": "10.1.2.3/32", "10.1.2.3/16": "10.1.0.0/16", "2001:db8::1/32": "2001:db8::/32", "x": ""} {
		if got, err := Network(s); (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("Network(%q) = %v, %v, want %q", s, got, err, want)
		}
	}
}
