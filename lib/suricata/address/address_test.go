package address

import (
	"net/netip"
	"testing"
)

// FuzzAddresses compares a packed set and its networks with the original ranges.
func FuzzAddresses(f *testing.F) {
	f.Add([]byte{1, 5, 3, 9, 20, 20}, byte(4))
	f.Add([]byte{0, 255, 7, 7}, byte(255))
	f.Fuzz(func(t *testing.T, bounds []byte, x byte) {
		addr := func(b byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, b}) }
		a := &Set{}
		want := false
		for i := 0; i+1 < len(bounds) && i < 64; i += 2 {
			lo, hi := min(bounds[i], bounds[i+1]), max(bounds[i], bounds[i+1])
			a.ranges = append(a.ranges, [2]netip.Addr{addr(lo), addr(hi)})
			want = want || lo <= x && x <= hi
		}
		if len(a.ranges) == 0 {
			return
		}
		a.pack()
		if got := a.Has(addr(x), false); got != want {
			t.Errorf("the set %v contains %v: %v, want %v", a.ranges, addr(x), got, want)
		}
		ps, ok := a.Prefixes()
		got := false
		for _, p := range ps {
			got = got || p.Contains(addr(x))
		}
		if !ok || got != want {
			t.Errorf("the set %v as networks %v contains %v: %v, want %v", a.ranges, ps, addr(x), got, want)
		}
	})
}
