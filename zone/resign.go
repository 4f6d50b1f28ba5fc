package zone

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// A change to a zone that is signed here signs the changed records and repairs the chain: the
// links of names that are added, removed or get other types, and the links before them. All
// other signatures stay, since they are in the table.

// resign signs the names that an edit of a table changed. names are those with other
// records; flipped are those that moved below a cut or DNAME, or out from under one. All
// are without the origin.
func (e *edit) resign(b *builder, names, flipped [][]byte) error {
	typ := e.signer.Chain()
	if typ == miekg.TypeNSEC3 {
		return ErrWhole // one changed name changes links all over the chain
	}
	if len(names)+len(flipped) > manyNames && len(names)+len(flipped) > e.nodes/8 {
		return ErrWhole // signing the whole zone uses all processors
	}
	if typ != 0 && e.negTTL != e.from.negTTL {
		return ErrWhole // it is the TTL of the chain's records
	}
	all := map[string]bool{}
	for _, name := range slices.Concat(names, flipped) {
		all[string(name)] = true
	}
	for name := range all {
		if err := e.resignName(b, []byte(name)); err != nil {
			return err
		}
	}
	if typ == miekg.TypeNSEC {
		return e.relink(b, all)
	}
	return nil
}

// manyNames bounds the names of a change, whatever the size of the zone.
const manyNames = 1000

// isAuthoritative reports whether a name (by its node, which may be 0) has authoritative data: it
// exists, and is not below a cut or DNAME.
func (t *table) isAuthoritative(n uint32) bool {
	return n != 0 && t.flags(n)&isBelow == 0 && (u16(t.arena, n+nodeSets) > 0 || t.flags(n)&isNamed != 0)
}

// resignName gives the sets of a name their signatures: the previous ones where the sets are
// unchanged, else new ones. It removes links of the chain.
func (e *edit) resignName(b *builder, name []byte) error {
	owner := append(bytes.Clone(name), e.origin...)
	var had *node
	if on := e.from.node(name); on != 0 {
		had = e.from.load(on)
	}
	kept := map[uint16]bool{}
	if at := e.node(name); at != 0 {
		n := e.load(at)
		n.sets = slices.DeleteFunc(n.sets, func(s *set) bool { return s.typ == miekg.TypeNSEC })
		slices.SortFunc(n.sets, func(x, y *set) int { return int(x.typ) - int(y.typ) }) // in the order in which the whole zone is signed
		ours := e.isAuthoritative(at)
		for _, s := range n.sets {
			s.sigs, s.sigTTL = nil, nil
			if !ours || s.unknown || n.flags&isDelegation != 0 && s.typ != miekg.TypeDS {
				continue
			}
			if had != nil {
				if was := had.set(s.typ); was != nil && len(was.sigs) > 0 && was.equal(s) {
					s.sigs, s.sigTTL = was.sigs, was.sigTTL
					kept[s.typ] = true
					continue
				}
			}
			if err := e.signSet(s, owner); err != nil {
				return err
			}
		}
		if err := e.rewrite(b, n, at); err != nil {
			return err
		}
	}
	if had != nil {
		for _, s := range had.sets {
			if len(s.sigs) > 0 && !kept[s.typ] && s.typ != miekg.TypeNSEC {
				e.signer.Forget(e.view, owner, s.typ, s.ttl, s.rdata)
			}
		}
	}
	return nil
}

func (e *edit) signSet(s *set, owner []byte) error {
	sigs, err := e.signer.SignSet(e.view, owner, s.typ, s.ttl, s.rdata)
	if err != nil {
		return err
	}
	s.sigs, s.sigTTL = sigs, make([]uint32, len(sigs))
	for i := range s.sigTTL {
		s.sigTTL[i] = s.ttl
	}
	return nil
}

// equal reports whether two sets have the same records in the same order.
func (s *set) equal(o *set) bool {
	return s.ttl == o.ttl && slices.EqualFunc(s.rdata, o.rdata, bytes.Equal)
}

// load reads a node from the table.
func (t *table) load(at uint32) *node {
	n := &node{name: t.name(at), flags: t.flags(at), kids: u32(t.arena, at+nodeKids)}
	owner := len(n.name) + len(t.origin)
	s := at + nodeName + uint32(len(n.name))
	var buf []byte
	for left := u16(t.arena, at+nodeSets); left > 0; left-- {
		typ, choice := u16(t.arena, s+setType), int(u32(t.arena, s+setChoice))
		if typ == 0 {
			n.alias = choice
			s = t.next(s)
			continue
		}
		one := &set{typ: typ, choice: choice}
		if isUnknownSet(t.arena, s) {
			one.choice, one.unknown = 0, true
		}
		t.eachRecord(at, s, &buf, func(wire []byte) bool {
			ttl, data := binary.BigEndian.Uint32(wire[owner+4:]), bytes.Clone(wire[owner+10:])
			if len(one.rdata) < int(u16(t.arena, s+setCount)) {
				one.ttl, one.rdata = ttl, append(one.rdata, data)
			} else {
				one.sigs, one.sigTTL = append(one.sigs, data), append(one.sigTTL, ttl)
			}
			return true
		})
		n.sets = append(n.sets, one)
		s = t.next(s)
	}
	return n
}

// rewrite writes a loaded node in place of the one at old.
func (e *edit) rewrite(b *builder, n *node, old uint32) error {
	b.mark(n, len(n.name) == 0)
	wild := u32(e.arena, old+nodeWild)
	if err := b.writeNode(n); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(e.arena[n.at+nodeWild:], wild)
	e.count += e.recordCount(n.at) - e.recordCount(old)
	e.place(old, n.at)
	return nil
}

// links returns the types in a name's link of the chain.
func (e *edit) links(n *node) []uint16 {
	var types []uint16
	cut := n.flags&isDelegation != 0
	for _, s := range n.sets {
		if s.typ != miekg.TypeNSEC && !s.unknown && (!cut || s.typ == miekg.TypeNS || s.typ == miekg.TypeDS) {
			types = append(types, s.typ)
		}
	}
	if n.alias != 0 && !cut {
		types = append(types, miekg.TypeA, miekg.TypeAAAA)
	}
	return types
}

// relink repairs the chain of NSEC records; names are those that were signed again.
func (e *edit) relink(b *builder, names map[string]bool) error {
	sorted := make([][]byte, 0, len(names))
	for name := range names {
		sorted = append(sorted, []byte(name))
	}
	slices.SortFunc(sorted, dns.Compare)
	order := e.merge(sorted, func(n uint32) bool { return e.isAuthoritative(n) })
	if len(order) == 0 {
		return ErrWhole
	}
	due := map[int]bool{} // indexes in the order
	for _, name := range sorted {
		n := e.node(name)
		in, was := e.isAuthoritative(n), e.from.linked(name)
		at, _ := e.placeOf(order, name)
		if in {
			due[at] = true
		}
		if in != was {
			due[(at+len(order)-1)%len(order)] = true
		}
	}
	places := make([]int, 0, len(due))
	for at := range due {
		places = append(places, at)
	}
	slices.Sort(places)
	for _, at := range places {
		name := bytes.Clone(e.name(order[at]))
		next := append(bytes.Clone(e.name(order[(at+1)%len(order)])), e.origin...)
		old := e.node(name)
		n := e.load(old)
		data := append(next, makeBitmap(append(e.links(n), miekg.TypeRRSIG, miekg.TypeNSEC))...)
		n.sets = slices.DeleteFunc(n.sets, func(s *set) bool { return s.typ == miekg.TypeNSEC })
		link := &set{typ: miekg.TypeNSEC, ttl: e.negTTL, rdata: [][]byte{data}}
		if err := e.link(link, append(bytes.Clone(name), e.origin...), e.from.linkOf(name)); err != nil {
			return err
		}
		n.sets = append(n.sets, link)
		if err := e.rewrite(b, n, old); err != nil {
			return err
		}
	}
	for _, name := range sorted {
		if was := e.from.linkOf(name); was != nil && !e.isAuthoritative(e.node(name)) {
			e.signer.Forget(e.view, append(bytes.Clone(name), e.origin...), was.typ, was.ttl, was.rdata)
		}
	}
	return nil
}

// link gives a link of the chain its signatures: those of the previous link, if it is the
// same.
func (e *edit) link(s *set, owner []byte, was *set) error {
	if was != nil {
		if was.equal(s) && len(was.sigs) > 0 {
			s.sigs, s.sigTTL = was.sigs, was.sigTTL
			return nil
		}
		e.signer.Forget(e.view, owner, was.typ, was.ttl, was.rdata)
	}
	return e.signSet(s, owner)
}

// linked reports whether a name has an NSEC record.
func (t *table) linked(name []byte) bool {
	n := t.node(name)
	return n != 0 && t.set(n, miekg.TypeNSEC) != 0
}

// linkOf returns the NSEC record of a name, nil if it has none.
func (t *table) linkOf(name []byte) *set {
	if n := t.node(name); n != 0 {
		return t.load(n).set(miekg.TypeNSEC)
	}
	return nil
}

// placeOf returns the index of a name among nodes in canonical order, or where to insert it.
func (t *table) placeOf(order []uint32, name []byte) (int, bool) {
	i := sort.Search(len(order), func(i int) bool { return dns.Compare(t.name(order[i]), name) >= 0 })
	return i, i < len(order) && bytes.Equal(t.name(order[i]), name)
}

// merge returns the order of the chain after some names, which are sorted, were added or
// removed.
func (e *edit) merge(names [][]byte, in func(n uint32) bool) []uint32 {
	old := e.from.order
	out := make([]uint32, 0, len(old)+len(names))
	for _, name := range names {
		i, there := e.placeOf(old, name)
		out = append(out, old[:i]...)
		if there {
			i++
		}
		if old = old[i:]; in(e.node(name)) {
			out = append(out, e.node(name))
		}
	}
	return append(out, old...)
}

// reorder updates the chain's offsets of nodes that an edit moved.
func (e *edit) reorder() {
	if len(e.from.order) == 0 {
		return
	}
	names := make([][]byte, 0, len(e.touched))
	for name := range e.touched {
		names = append(names, []byte(name))
	}
	slices.SortFunc(names, dns.Compare)
	e.order = e.merge(names, func(n uint32) bool { return n != 0 && e.set(n, miekg.TypeNSEC) != 0 })
}
