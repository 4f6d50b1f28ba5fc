package zone

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// A Change replaces the records of some names of a zone.
type Change struct {
	Origin, View string
	// Names are fully qualified. All of their records are removed, and those of the change,
	// which has only these names, are added.
	Names   []string
	Records []miekg.RR
	Choices []Choice
	Aliases []Alias
	Empty   []string
	Unknown []Unknown
}

// ErrWhole reports that a zone cannot be changed name by name: it is not served, it was signed
// elsewhere, or the change is so large that signing the whole zone is less work. Use Replace.
var ErrWhole = errors.New("the zone can only be replaced as a whole")

// Change replaces the records of some names. Its cost depends on the number of changed names,
// not on the size of the zone, with three exceptions. A table of 12 bytes per name is copied.
// When a delegation or DNAME is added or removed, all names are checked for those below it.
// When a quarter of the compiled form is obsolete, it is compacted, after the change is
// answered.
//
// If the zone has a Signer, it signs the changes and repairs the NSEC chain, which copies 4
// more bytes per name. A zone with an NSEC3 chain gives ErrWhole. After an error the zone is
// unchanged.
func (z *Responder) Change(c *Change) error {
	origin, err := dns.Name(c.Origin)
	if err != nil {
		return fmt.Errorf("change zone: origin: %w", err)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	tables := z.origins(z.hash(origin), origin)
	i := slices.IndexFunc(tables, func(t *table) bool { return t.view == c.View })
	if i < 0 {
		return ErrWhole
	}
	t, err := tables[i].change(c)
	if err != nil {
		return err
	}
	z.swap(t)
	if t.dead > len(t.arena)/4+1<<16 {
		z.swap(t.compact())
	}
	return nil
}

// swap replaces the table with the same origin and view. The caller holds the lock.
func (z *Responder) swap(t *table) {
	z.change(t.originH, string(t.origin), func(old []*table) []*table {
		kept := slices.Clone(old)
		kept[slices.IndexFunc(kept, func(o *table) bool { return o.view == t.view })] = t
		return kept
	})
}

// An edit is a table being changed into its next version. New nodes go to the end of the
// arena, where no reader of earlier versions looks, and into slots of the edit. Data before
// base is shared: a node is copied before it is marked.
type edit struct {
	*table
	from    *table // the previous version
	base    uint32
	cuts    [][]byte        // names that became cuts or DNAMEs, or ceased to be
	touched map[string]bool // names whose nodes were moved, added or removed
}

// change returns the table with other records at some names.
func (t *table) change(c *Change) (*table, error) {
	if t.signed && t.signer == nil || t.unavailable != "" {
		return nil, ErrWhole // we cannot repair its chain
	}
	for _, rr := range c.Records {
		switch typ := rr.Header().Rrtype; {
		case typ == miekg.TypeNSEC3PARAM && t.signer != nil: // made by the signer
		case typ == miekg.TypeNSEC, typ == miekg.TypeNSEC3, typ == miekg.TypeNSEC3PARAM, typ == miekg.TypeRRSIG:
			return nil, ErrWhole
		}
	}
	next := *t
	next.slots = slices.Clone(t.slots)
	next.lineage = lineage{id: new(byte), base: t.id}
	next.bare = t.bare || len(c.Empty)+len(c.Unknown) > 0
	b := &builder{t: &next, buf: make([]byte, 65536), nodes: map[string]*node{}, z: &Zone{Records: c.Records, Choices: c.Choices, Aliases: c.Aliases, Empty: c.Empty, Unknown: c.Unknown}}
	e := &edit{table: &next, from: t, base: uint32(len(t.arena)), touched: map[string]bool{}}
	if err := e.apply(b, c); err != nil {
		return nil, fmt.Errorf("zone %q: %w", c.Origin, err)
	}
	next.changed = slices.Collect(maps.Keys(e.touched))
	return &next, nil
}

func (e *edit) apply(b *builder, c *Change) error {
	for _, name := range c.Names {
		if _, err := b.named(name); err != nil {
			return err
		}
	}
	named := len(b.nodes)
	for _, step := range []func() error{b.gather, b.alter, func() error { return b.refuseConflicts(b.nodes[""]) }} {
		if err := step(); err != nil {
			return err
		}
	}
	if len(b.nodes) > named {
		return errors.New("a change has records of a name that it does not list")
	}
	for _, n := range b.nodes {
		b.sorted = append(b.sorted, n)
	}
	// Ancestors are added before descendants.
	slices.SortFunc(b.sorted, func(x, y *node) int { return strings.Compare(x.key, y.key) })
	for _, n := range b.sorted {
		if err := e.put(b, n); err != nil {
			return err
		}
	}
	if apex := b.nodes[""]; apex != nil {
		if apex.set(miekg.TypeSOA) == nil {
			return errors.New("there is no SOA record at the origin")
		}
		if err := e.putNegative(b, apex); err != nil {
			return err
		}
	}
	flipped := e.mark()
	if e.signer != nil {
		names := make([][]byte, 0, len(b.sorted))
		for _, n := range b.sorted {
			names = append(names, n.name)
		}
		if err := e.resign(b, names, flipped); err != nil {
			return err
		}
		if b.nodes[""] != nil { // with its signature
			if err := e.putNegative(b, e.load(e.apex)); err != nil {
				return err
			}
		}
	}
	e.reorder()
	if uint64(len(e.arena)) > math.MaxUint32 {
		return errors.New("it is larger than 4 GB")
	}
	return nil
}

// putNegative rewrites the SOA for negative answers.
func (e *edit) putNegative(b *builder, apex *node) error {
	e.dead += int(e.next(e.negative) - e.negative)
	return b.writeNegative(apex)
}

// put gives a name the records of n, of which there may be none.
func (e *edit) put(b *builder, n *node) error {
	b.mark(n, len(n.name) == 0)
	old := e.node(n.name)
	var was uint16
	var wild uint32
	if old != 0 {
		was, n.kids, wild = e.flags(old), u32(e.arena, old+nodeKids), u32(e.arena, old+nodeWild)
		e.count -= e.recordCount(old)
	}
	if len(n.sets) == 0 && n.alias == 0 && n.kids == 0 && n.flags&isNamed == 0 && len(n.name) > 0 {
		if old != 0 {
			e.drop(old)
		}
		return nil
	}
	if old == 0 {
		n.flags |= e.attach(n.name)
	} else {
		n.flags |= was & isBelow
	}
	if err := b.writeNode(n); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(e.arena[n.at+nodeWild:], wild)
	e.place(old, n.at)
	if was&(isDelegation|hasDNAME) != n.flags&(isDelegation|hasDNAME) && n.kids > 0 {
		e.cuts = append(e.cuts, n.name)
	}
	return nil
}

// node finds the node of a name without the origin.
func (t *table) node(prefix []byte) uint32 { return t.lookup(t.hash(prefix), prefix) }

// live reports whether a node belongs to this version: replaced nodes are still in the arena.
func (t *table) live(n uint32) bool {
	f := t.flags(n)
	switch {
	case f&isNegative != 0:
		return false
	case t.dead == 0:
		return true
	}
	return t.node(t.name(n)) == n
}

// recordCount returns the number of records of a node, signatures included.
func (e *edit) recordCount(n uint32) (count int) {
	at := n + nodeName + uint32(e.arena[n+nodeLen])
	for left := u16(e.arena, n+nodeSets); left > 0; left-- {
		count += int(u16(e.arena, at+setCount)) + int(e.arena[at+setSigs])
		at = e.next(at)
	}
	return count
}

// attach links a new name to its parent, creating that if needed, and returns the flags that
// the name inherits.
func (e *edit) attach(name []byte) uint16 {
	above := name[1+int(name[0]):]
	p := e.node(above)
	if p == 0 {
		flags := e.attach(above)
		p = uint32(len(e.arena))
		e.arena = binary.LittleEndian.AppendUint16(e.arena, flags)
		e.arena = append(e.arena, byte(len(above)))
		e.arena = append(append(e.arena, make([]byte, nodeName-nodeSets)...), above...)
		e.place(0, p)
	}
	p = e.ownCopy(p)
	binary.LittleEndian.PutUint32(e.arena[p+nodeKids:], u32(e.arena, p+nodeKids)+1)
	if e.flags(p)&(isBelow|isDelegation|hasDNAME) != 0 {
		return isBelow
	}
	return 0
}

// place enters a node instead of the old one, if any.
func (e *edit) place(old, n uint32) {
	name := e.name(n)
	e.touched[string(name)] = true
	h := e.hash(name)
	if old != 0 {
		e.slots[e.slot(h, old)] = h<<32 | uint64(n)
		e.dead += int(e.end(old) - old)
	} else {
		if e.nodes++; e.nodes > len(e.slots)/5*4 {
			e.rehash(e.nodes + e.nodes/2 + 1)
		}
		e.enter(h, n)
	}
	switch {
	case len(name) == 0:
		e.apex = n
	case isWild(name):
		p := e.ownCopy(e.node(name[2:]))
		binary.LittleEndian.PutUint32(e.arena[p+nodeWild:], n)
	}
}

// ownCopy returns a writable copy of a node.
func (e *edit) ownCopy(n uint32) uint32 {
	if n >= e.base {
		return n
	}
	at := uint32(len(e.arena))
	e.arena = append(e.arena, e.arena[n:e.end(n)]...)
	e.place(n, at)
	return at
}

// drop removes a name, and the empty non-terminals that it leaves.
func (e *edit) drop(n uint32) {
	name := e.name(n)
	e.touched[string(name)] = true
	e.vacate(e.slot(e.hash(name), n))
	e.nodes--
	e.dead += int(e.end(n) - n)
	p := e.ownCopy(e.node(name[1+int(name[0]):]))
	kids := u32(e.arena, p+nodeKids) - 1
	binary.LittleEndian.PutUint32(e.arena[p+nodeKids:], kids)
	if isWild(name) {
		binary.LittleEndian.PutUint32(e.arena[p+nodeWild:], 0)
	}
	if kids == 0 && u16(e.arena, p+nodeSets) == 0 && e.flags(p)&isNamed == 0 && p != e.apex {
		e.drop(p)
	}
}

// slot returns the slot of a node.
func (t *table) slot(h uint64, n uint32) uint64 {
	i := t.home(h)
	for t.slots[i] != h<<32|uint64(n) {
		if i++; i == uint64(len(t.slots)) {
			i = 0
		}
	}
	return i
}

// vacate frees a slot, and moves entries that the search would no longer find.
func (t *table) vacate(i uint64) {
	size := uint64(len(t.slots))
	for j := i; ; {
		if j++; j == size {
			j = 0
		}
		v := t.slots[j]
		if v == 0 {
			break
		}
		home := t.home(t.hash(t.name(uint32(v))))
		if (j+size-home)%size >= (j+size-i)%size {
			t.slots[i], i = v, j
		}
	}
	t.slots[i] = 0
}

// rehash enters all nodes in a table of another size.
func (t *table) rehash(size int) {
	old := t.slots
	t.slots = make([]uint64, size)
	for _, v := range old {
		if v != 0 {
			t.enter(t.hash(t.name(uint32(v))), uint32(v))
		}
	}
}

// mark checks names below those that became cuts or ceased to be. It returns those that are
// now below a cut and were not before, or the reverse.
func (e *edit) mark() (wrong [][]byte) {
	const many = 8 // with more, checking all names is less work
	if len(e.cuts) == 0 {
		return nil
	}
	for n := uint32(arenaStart); n < uint32(len(e.arena)); n = e.end(n) {
		name := e.name(n)
		if len(name) == 0 || len(e.cuts) < many && !slices.ContainsFunc(e.cuts, func(cut []byte) bool { return len(name) > len(cut) && bytes.HasSuffix(name, cut) }) {
			continue
		}
		if e.live(n) && e.under(name) != (e.flags(n)&isBelow != 0) {
			wrong = append(wrong, name)
		}
	}
	for _, name := range wrong { // to own one may move another
		n := e.ownCopy(e.node(name))
		binary.LittleEndian.PutUint16(e.arena[n:], e.flags(n)^isBelow)
	}
	return wrong
}

// under reports whether a name is below a cut or a DNAME.
func (t *table) under(name []byte) bool {
	for len(name) > 0 {
		name = name[1+int(name[0]):]
		if t.flags(t.node(name))&(isDelegation|hasDNAME) != 0 {
			return true
		}
	}
	return false
}

// compact returns the table without data of earlier versions.
func (t *table) compact() *table {
	next := *t
	next.dead, next.picks, next.aliases = 0, nil, nil
	next.arena = make([]byte, arenaStart, len(t.arena)-t.dead+(len(t.arena)-t.dead)/8+1<<10)
	next.slots = make([]uint64, t.nodes+t.nodes/2+1)
	for n := uint32(arenaStart); n < uint32(len(t.arena)); n = t.end(n) {
		if !t.live(n) && n+nodeName != t.negative {
			continue
		}
		at := uint32(len(next.arena))
		next.arena = append(next.arena, t.arena[n:t.end(n)]...)
		next.renumber(t, at)
		switch {
		case t.flags(n)&isNegative != 0:
			next.negative = at + nodeName
			continue
		case n == t.apex:
			next.apex = at
		}
		next.enter(next.hash(next.name(at)), at)
	}
	if len(t.order) > 0 {
		next.order = make([]uint32, len(t.order))
		for i, n := range t.order {
			next.order[i] = next.node(t.name(n))
		}
	}
	for _, v := range next.slots {
		if name := next.name(uint32(v)); v != 0 && isWild(name) {
			binary.LittleEndian.PutUint32(next.arena[next.node(name[2:])+nodeWild:], uint32(v))
		}
	}
	return &next
}

// renumber gives a node's choices and aliases their numbers in this table.
func (t *table) renumber(before *table, n uint32) {
	at := n + nodeName + uint32(t.arena[n+nodeLen])
	for left := u16(t.arena, n+nodeSets); left > 0; left-- {
		switch choice := u32(t.arena, at+setChoice); {
		case choice == 0 || choice == unknownChoice:
		case u16(t.arena, at) == 0:
			t.aliases = append(t.aliases, before.aliases[choice-1])
			binary.LittleEndian.PutUint32(t.arena[at+setChoice:], uint32(len(t.aliases)))
		default:
			t.picks = append(t.picks, before.picks[choice-1])
			binary.LittleEndian.PutUint32(t.arena[at+setChoice:], uint32(len(t.picks)))
		}
		at = t.next(at)
	}
}
