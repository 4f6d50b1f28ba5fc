package engine

import "net/netip"

// An addressTable finds rules by their addresses. It is for rules that test nothing but
// addresses and ports, of which public sets have thousands.
type addressTable struct {
	src, dst map[netip.Prefix][]int32
	bits     [2][]int // lengths of the prefixes in use, of src and dst
	rest     []int32  // rules without such an address
}

// maxPrefixes limits the prefixes under which one rule is filed.
const maxPrefixes = 4096

// add files a rule under the addresses of one of its ends.
func (t *addressTable) add(c *compiledRule, n int32) {
	for i, end := range []*addresses{c.ends.src, c.ends.dst} {
		ps, ok := end.prefixes()
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

// prefixes returns the networks that make up a set. ok is false if it does not consist of
// networks alone, or of too many.
func (a *addresses) prefixes() (ps []netip.Prefix, ok bool) {
	if !a.plain() {
		return nil, false
	}
	for _, r := range a.ranges {
		for first := r[0]; ; {
			p := netip.PrefixFrom(first, first.BitLen())
			for p.Bits() > 0 { // the largest that begins here and ends in the range
				q := netip.PrefixFrom(first, p.Bits()-1)
				if q.Masked().Addr() != first || r[1].Less(span(q)[1]) {
					break
				}
				p = q
			}
			if ps = append(ps, p); len(ps) > maxPrefixes {
				return nil, false
			}
			last := span(p)[1]
			if !last.Less(r[1]) {
				break
			}
			first = last.Next()
		}
	}
	return ps, true
}
