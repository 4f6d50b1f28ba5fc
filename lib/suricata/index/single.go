package index

import (
	"net/netip"

	"shuultuur/lib/suricata/address"
)

// An addressTable finds rules by their addresses. It is for rules that test nothing but
// addresses and ports, of which public sets have thousands.
type addressTable struct {
	src, dst map[netip.Prefix][]int32
	bits     [2][]int // lengths of the prefixes in use, of src and dst
	rest     []int32  // rules without such an address
}

// add files a rule under the addresses of one of its ends.
func (t *addressTable) add(c *Entry, n int32) {
	for i, end := range []*address.Set{c.Ends.Src, c.Ends.Dst} {
		ps, ok := end.Prefixes()
		if !ok || c.Twoway {
			continue
		}
		m := &t.src
		if i == 1 {
			m = &t.dst
		}
		if *m == nil {
			*m = map[netip.Prefix][]int32{}
		}
		for _, p := range ps {
			(*m)[p] = append((*m)[p], n)
			t.length(i, p.Addr().BitLen()<<8|p.Bits())
		}
		return
	}
	t.rest = append(t.rest, n)
}

func (t *addressTable) length(end, n int) {
	for _, old := range t.bits[end] {
		if old == n {
			return
		}
	}
	t.bits[end] = append(t.bits[end], n)
}

// find appends the rules that may match two addresses.
func (t *addressTable) find(src, dst netip.Addr, hits []int32) []int32 {
	hits = append(hits, t.rest...)
	for i, x := range [2]netip.Addr{src, dst} {
		m := t.src
		if i == 1 {
			m = t.dst
		}
		for _, n := range t.bits[i] {
			if n>>8 != x.BitLen() {
				continue
			}
			if p, err := x.Prefix(n & 0xff); err == nil {
				hits = append(hits, m[p]...)
			}
		}
	}
	return hits
}
