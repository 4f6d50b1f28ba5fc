package zone

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// A builder compiles a zone into a table.
type builder struct {
	z      *Zone
	t      *table
	seed   uint64
	nodes  map[string]*node
	sorted []*node
	proofs map[string]*node // owners of NSEC3
	fixups []fixup
	buf    []byte
}

// A node is a name being compiled.
type node struct {
	key   string
	name  []byte // without the origin
	sets  []*set
	flags uint16
	kids  uint32
	wild  *node
	alias int // number of its alias, from 1; 0 for none
	at    uint32
}

// A set is an RRset being compiled.
type set struct {
	typ     uint16
	ttl     uint32
	rdata   [][]byte
	sigs    [][]byte
	sigTTL  []uint32
	choice  int // number of its choice, from 1; 0 for none
	size    int // approximate size in bytes
	literal bool
	unknown bool // it exists but cannot be served
}

// A fixup is a place in the arena to fill in with the offset of a node.
type fixup struct {
	at uint32
	to *node
}

// maxTypes bounds the types that a name may have.
const maxTypes = 1000

// lineOf returns the line of a record, to begin an error about it.
func (b *builder) lineOf(i int) string {
	if i < len(b.z.places) {
		return b.z.places[i].String() + ": "
	}
	return ""
}

// owner returns the node of a name, which must be in the zone.
func (b *builder) owner(name []byte) (*node, error) {
	prefix, ok := bytes.CutSuffix(name, b.t.origin)
	if ok { // at a label boundary?
		var at [128]uint8
		ok = len(dns.Labels(at[:0], name)) == b.t.depth+len(dns.Labels(make([]uint8, 0, 128), prefix))
	}
	if !ok {
		return nil, fmt.Errorf("name %q is outside the zone", dns.Text(name))
	}
	key := dns.SortKey(prefix)
	n := b.nodes[key]
	if n == nil {
		n = &node{key: key, name: bytes.Clone(prefix)}
		b.nodes[key] = n
	}
	return n, nil
}

func (n *node) set(typ uint16) *set {
	for _, s := range n.sets {
		if s.typ == typ {
			return s
		}
	}
	return nil
}

// gather groups the records into nodes and sets.
func (b *builder) gather() error {
	chosen := map[string]bool{}
	for _, c := range b.z.Choices {
		chosen[miekg.CanonicalName(c.Name)+"/"+miekg.TypeToString[c.Type]] = true
	}
	type sig struct {
		*node
		covers uint16
		rdata  []byte
		ttl    uint32
	}
	sigs := make([]sig, 0, len(b.z.Records)/2)
	var n *node // of the previous record
	for i, rr := range b.z.Records {
		h := rr.Header()
		if h.Name == "" {
			return fmt.Errorf("%sa %s record has no owner", b.lineOf(i), typeName(h.Rrtype))
		}
		end, err := miekg.PackRR(rr, b.buf, 0, nil, false)
		if err != nil {
			return fmt.Errorf("%s%s %s: %w", b.lineOf(i), h.Name, miekg.TypeToString[h.Rrtype], err)
		}
		msg := b.buf[:end]
		split := dns.NameLen(msg)
		dns.ToLower(msg[:split])
		if class := binary.BigEndian.Uint16(msg[split+2:]); class != miekg.ClassINET {
			return fmt.Errorf("%s%s: class %d is not served, only IN is", b.lineOf(i), h.Name, class)
		}
		if n == nil || len(n.name)+len(b.t.origin) != split || !bytes.HasPrefix(msg, n.name) || !bytes.HasPrefix(msg[len(n.name):], b.t.origin) {
			if n, err = b.owner(msg[:split]); err != nil {
				return fmt.Errorf("%s%w", b.lineOf(i), err)
			}
		}
		typ, ttl, rdata := binary.BigEndian.Uint16(msg[split:]), binary.BigEndian.Uint32(msg[split+4:]), bytes.Clone(msg[split+10:])
		if err := wellFormed(typ, msg, rdata); err != nil {
			return fmt.Errorf("%s%s %s: %w", b.lineOf(i), h.Name, typeName(typ), err)
		}
		if ttl > math.MaxInt32 { // RFC 2181 section 8
			ttl = 0
		}
		b.t.count++
		switch typ {
		case miekg.TypeRRSIG:
			if len(rdata) < 18 {
				return fmt.Errorf("%s%s: RRSIG of %d bytes", b.lineOf(i), h.Name, len(rdata))
			}
			sigs = append(sigs, sig{n, binary.BigEndian.Uint16(rdata), rdata, ttl})
			continue
		case miekg.TypeNone, miekg.TypeOPT, miekg.TypeANY, miekg.TypeAXFR, miekg.TypeIXFR, miekg.TypeTSIG, miekg.TypeTKEY, miekg.TypeMAILA, miekg.TypeMAILB:
			return fmt.Errorf("%s%s: a zone has no records of type %d", b.lineOf(i), h.Name, typ)
		}
		s := n.set(typ)
		if s == nil {
			s = &set{typ: typ, ttl: ttl}
			n.sets = append(n.sets, s)
		}
		if s.size += 12 + len(rdata); s.size > 2*maxSet || len(n.sets) > maxTypes {
			return fmt.Errorf("%s%s: more records than any message holds", b.lineOf(i), h.Name)
		}
		s.ttl = min(s.ttl, ttl) // RFC 2181 section 5.2: a set has one TTL
		if slices.ContainsFunc(s.rdata, func(have []byte) bool { return bytes.Equal(have, rdata) }) && !chosen[h.Name+"/"+miekg.TypeToString[typ]] {
			b.t.count--
			continue
		}
		s.rdata = append(s.rdata, rdata)
	}
	for _, g := range sigs {
		if s := g.set(g.covers); s != nil {
			s.sigs, s.sigTTL = append(s.sigs, g.rdata), append(s.sigTTL, g.ttl)
		}
	}
	return nil
}

// wellFormed checks a record whose fields may come from code: some records can be packed but
// not read by others.
func wellFormed(typ uint16, msg, rdata []byte) error {
	switch typ {
	case miekg.TypeA, miekg.TypeAAAA:
		if typ == miekg.TypeA && len(rdata) != net.IPv4len || typ == miekg.TypeAAAA && len(rdata) != net.IPv6len {
			return errors.New("there is no address")
		}
		return nil
	case miekg.TypeNULL, miekg.TypeAPL:
		return nil
	case miekg.TypeRRSIG: // half of the records of a signed zone
		if end := nameIn(rdata, 18); end < 0 || end == len(rdata) {
			return errors.New("there is no signature")
		}
		return nil
	}
	skip, names, _ := namesIn(typ)
	if names == 0 {
		if _, _, err := miekg.UnpackRR(msg, 0); err != nil {
			return err
		}
		if _, known := miekg.TypeToRR[typ]; known && len(rdata) == 0 {
			return errors.New("there is no data")
		}
		return nil
	}
	rest := rdata[min(skip, len(rdata)):]
	for range names {
		end := nameIn(rest, 0)
		if end < 0 {
			return errors.New("there is no name")
		}
		rest = rest[end:]
	}
	tail := 0
	if typ == miekg.TypeSOA {
		tail = 20
	}
	if len(rest) != tail {
		return fmt.Errorf("%d bytes follow the name, not %d", len(rest), tail)
	}
	return nil
}

// nameIn returns where the name at a place in data ends, -1 if there is none.
func nameIn(data []byte, at int) int {
	for at < len(data) && data[at] != 0 {
		at += 1 + int(data[at])
	}
	if at >= len(data) {
		return -1
	}
	return at + 1
}

// alter adds choices, aliases and names without records.
func (b *builder) alter() error {
	if err := b.bare(); err != nil {
		return err
	}
	for _, c := range b.z.Choices {
		n, err := b.named(c.Name)
		if err != nil {
			return fmt.Errorf("choice: %w", err)
		}
		s := n.set(c.Type)
		switch {
		case s == nil:
			return fmt.Errorf("choice among %s %s: there are no records", c.Name, miekg.TypeToString[c.Type])
		case s.choice != 0 || s.unknown:
			return fmt.Errorf("choice among %s %s: there are two, or it is unknown", c.Name, miekg.TypeToString[c.Type])
		case c.Pick == nil:
			return fmt.Errorf("choice among %s %s: nobody picks", c.Name, miekg.TypeToString[c.Type])
		}
		b.t.picks = append(b.t.picks, c.Pick)
		s.choice = len(b.t.picks)
	}
	for _, a := range b.z.Aliases {
		n, err := b.named(a.Name)
		if err != nil {
			return fmt.Errorf("alias: %w", err)
		}
		target, err := dns.Name(a.Target)
		if err != nil {
			return fmt.Errorf("alias %s: target: %w", a.Name, err)
		}
		if n.alias != 0 {
			return fmt.Errorf("alias %s: there are two aliases", a.Name)
		}
		b.t.aliases = append(b.t.aliases, alias{target, dns.Labels(nil, target), miekg.CanonicalName(a.Target)})
		n.alias = len(b.t.aliases)
	}
	return nil
}

// bare adds names that exist without records, or whose records cannot be served.
func (b *builder) bare() error {
	for _, name := range b.z.Empty {
		n, err := b.named(name)
		if err != nil {
			return fmt.Errorf("empty name: %w", err)
		}
		n.flags |= isNamed
	}
	for _, u := range b.z.Unknown {
		n, err := b.named(u.Name)
		if err != nil {
			return fmt.Errorf("unknown records: %w", err)
		}
		n.flags |= isNamed
		switch u.Type {
		case miekg.TypeNone, miekg.TypeNS, miekg.TypeCNAME, miekg.TypeDNAME: // these types determine the whole name
			n.flags |= isUnknown
		default:
			if n.set(u.Type) == nil {
				n.sets = append(n.sets, &set{typ: u.Type, unknown: true})
			}
		}
	}
	return nil
}

func (b *builder) named(name string) (*node, error) {
	wire, err := dns.Name(name)
	if err != nil {
		return nil, err
	}
	return b.owner(wire)
}

// verify refuses a zone without an SOA record, and names that cannot be served.
func (b *builder) verify() error {
	apex := b.nodes[""]
	if apex == nil || apex.set(miekg.TypeSOA) == nil {
		return errors.New("there is no SOA record at the origin")
	}
	return b.refuseConflicts(apex)
}

// refuseConflicts refuses names whose records contradict one another.
func (b *builder) refuseConflicts(apex *node) error {
	for _, n := range b.nodes {
		for _, s := range n.sets {
			if s.typ == miekg.TypeSOA && (n != apex || len(s.rdata) > 1) {
				return fmt.Errorf("name %q: a zone has one SOA record, at its origin", b.print(n))
			}
			if (s.typ == miekg.TypeCNAME || s.typ == miekg.TypeDNAME) && len(s.rdata) > 1 && s.choice == 0 {
				return fmt.Errorf("name %q has more than one %s", b.print(n), miekg.TypeToString[s.typ])
			}
		}
		if n.set(miekg.TypeCNAME) == nil {
			continue
		}
		for _, s := range n.sets {
			if s.typ != miekg.TypeCNAME && s.typ != miekg.TypeNSEC {
				return fmt.Errorf("name %q has a CNAME and a %s (RFC 1034 3.6.2 allows no other data)", b.print(n), typeName(s.typ))
			}
		}
		if n.alias != 0 {
			return fmt.Errorf("name %q has a CNAME and an alias", b.print(n))
		}
	}
	return nil
}

// print returns the name of a node as text.
func (b *builder) print(n *node) string { return dns.Text(append(bytes.Clone(n.name), b.t.origin...)) }

// typeName returns how a zone file writes a type.
func typeName(t uint16) string {
	if t == miekg.TypeReserved { // the codec has a word for it that no server reads
		return "TYPE65535"
	}
	return miekg.Type(t).String()
}

// shape adds empty non-terminals, finds cuts and wildcards, and sorts.
func (b *builder) shape() error {
	for key, n := range b.nodes {
		if len(n.sets) == 1 && n.sets[0].typ == miekg.TypeNSEC3 {
			// Owners of NSEC3 records are not names of the zone (RFC 5155 section 7.2.8).
			b.proofs[key] = n
			delete(b.nodes, key)
		}
	}
	all := make([]*node, 0, len(b.nodes))
	for _, n := range b.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, func(x, y *node) int { return strings.Compare(x.key, y.key) })
	b.sorted = make([]*node, 0, len(all))
	var line []*node // the path from the apex to the previous name
	for i, n := range all {
		for len(line) > 0 && !strings.HasPrefix(n.key, line[len(line)-1].key) {
			line = line[:len(line)-1]
		}
		if i > 0 {
			for _, between := range emptyAbove(n, line[len(line)-1]) {
				line = b.place(between, line)
			}
		}
		line = b.place(n, line)
	}
	return nil
}

// emptyAbove returns the names between a name and the lowest ancestor that exists, from the top.
// Their keys and names are parts of those of the name: a name of many labels needs no more memory
// for them, and they need not be sorted.
func emptyAbove(n, ancestor *node) []*node {
	var at [128]uint8
	labels := dns.Labels(at[:0], n.name)
	depth := strings.Count(ancestor.key, "\x00")
	if len(labels)-depth < 2 {
		return nil
	}
	nodes := make([]node, len(labels)-depth-1)
	all := make([]*node, len(nodes))
	end := len(ancestor.key)
	for i := range nodes {
		end += strings.IndexByte(n.key[end:], 0) + 1 // a label ends with a zero byte
		nodes[i] = node{key: n.key[:end], name: n.name[labels[len(labels)-depth-1-i]:]}
		all[i] = &nodes[i]
	}
	return all
}

// place appends a node to the sorted ones, and returns the path to it from that to its parent.
func (b *builder) place(n *node, line []*node) []*node {
	if len(line) > 0 {
		b.join(n, line[len(line)-1])
	}
	b.mark(n, len(line) == 0)
	b.sorted = append(b.sorted, n)
	return append(line, n)
}

// join links a node and its parent.
func (b *builder) join(n, parent *node) {
	parent.kids++
	if isWild(n.name) {
		parent.wild = n
	}
	if parent.flags&(isBelow|isDelegation|hasDNAME) != 0 {
		n.flags |= isBelow
	}
}

func isWild(name []byte) bool { return len(name) > 1 && name[0] == 1 && name[1] == '*' }

func (b *builder) mark(n *node, apex bool) {
	for _, s := range n.sets {
		switch {
		case s.typ == miekg.TypeNS && !apex:
			n.flags |= isDelegation
		case s.typ == miekg.TypeCNAME:
			n.flags |= hasCNAME
		case s.typ == miekg.TypeDNAME:
			n.flags |= hasDNAME
		}
		// A set that is signed on demand is passed to the signer as written, so it must have no
		// compression pointers.
		s.literal = b.t.signer != nil && len(s.sigs) == 0
	}
	if n.alias != 0 {
		n.flags |= hasAlias
	}
	if b.t.signer != nil {
		n.flags |= hasBitmap
	}
}

// write writes the nodes to the arena and enters them in the slots.
func (b *builder) write() error {
	size := 0
	for _, n := range b.sorted {
		size += nodeName + len(n.name)
	}
	b.t.arena = slices.Grow(b.t.arena, size)
	for _, n := range b.sorted {
		if err := b.writeNode(n); err != nil {
			return err
		}
	}
	t := b.t
	keys := make([]string, 0, len(b.proofs))
	for key := range b.proofs {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		n := b.proofs[key]
		n.flags |= isNSEC3
		if err := b.writeNode(n); err != nil {
			return err
		}
	}
	t.apex = b.sorted[0].at
	if err := b.writeNegative(b.sorted[0]); err != nil {
		return err
	}
	if uint64(len(t.arena)) > math.MaxUint32 {
		return errors.New("it is larger than 4 GB")
	}
	for _, f := range b.fixups {
		binary.LittleEndian.PutUint32(t.arena[f.at:], f.to.at)
	}
	t.nodes = len(b.sorted)
	t.slots = make([]uint64, len(b.sorted)+len(b.sorted)/2+1)
	for _, n := range b.sorted {
		t.enter(t.hash(n.name), n.at)
	}
	return nil
}

func (b *builder) writeNode(n *node) error {
	t := b.t
	a := t.arena
	n.at = uint32(len(a))
	a = binary.LittleEndian.AppendUint16(a, n.flags)
	a = append(a, byte(len(n.name)))
	sets := n.sets
	if n.alias != 0 {
		sets = append(slices.Clip(sets), &set{choice: n.alias})
	}
	a = binary.LittleEndian.AppendUint16(a, uint16(len(sets)))
	a = binary.LittleEndian.AppendUint32(a, n.kids)
	a = b.link(a, n.wild)
	a = binary.LittleEndian.AppendUint32(a, 0)
	t.arena = append(a, n.name...)
	for _, s := range sets {
		if err := b.writeSet(n, s); err != nil {
			return err
		}
	}
	if n.flags&hasBitmap != 0 {
		bits := typeBitmap(sets)
		t.arena = binary.LittleEndian.AppendUint16(t.arena, uint16(len(bits)))
		t.arena = append(t.arena, bits...)
	}
	return nil
}

func (b *builder) link(a []byte, to *node) []byte {
	if to != nil {
		b.fixups = append(b.fixups, fixup{uint32(len(a)), to})
	}
	return binary.LittleEndian.AppendUint32(a, 0)
}

// writeSet appends an RRset to the arena.
func (b *builder) writeSet(n *node, s *set) error {
	var data, sigs []byte
	var patches []uint32
	var adds []byte
	var added map[string]bool // each target is added once
	for _, rdata := range s.rdata {
		data = append(data, 0xc0, 12)
		data = binary.BigEndian.AppendUint16(data, s.typ)
		data = binary.BigEndian.AppendUint16(data, miekg.ClassINET)
		data = binary.BigEndian.AppendUint32(data, s.ttl)
		data = append(data, 0, 0)
		at := len(data)
		data, patches = b.appendData(data, s, rdata, patches)
		binary.BigEndian.PutUint16(data[at-2:], uint16(len(data)-at))
		if a, ok := b.target(s, rdata, at); ok && !added[a.name] {
			if added == nil {
				added = map[string]bool{}
			}
			added[a.name] = true
			adds = binary.LittleEndian.AppendUint32(adds, a.at)
			adds = binary.LittleEndian.AppendUint64(adds, a.hash)
		}
	}
	for i, rdata := range s.sigs {
		sigs = append(sigs, 0xc0, 12, 0, byte(miekg.TypeRRSIG), 0, miekg.ClassINET)
		sigs = binary.BigEndian.AppendUint32(sigs, s.sigTTL[i])
		sigs = binary.BigEndian.AppendUint16(sigs, uint16(len(rdata)))
		sigs = append(sigs, rdata...)
	}
	if len(s.sigs) > 255 || len(data)+len(sigs) > maxSet || len(s.rdata) > math.MaxUint16 {
		return fmt.Errorf("%s %s: an RRset of %d bytes does not fit in a message", dns.Text(append(bytes.Clone(n.name), b.t.origin...)), typeName(s.typ), len(data)+len(sigs))
	}
	a := b.t.arena
	a = binary.LittleEndian.AppendUint16(a, s.typ)
	a = binary.LittleEndian.AppendUint16(a, uint16(len(s.rdata)))
	a = append(a, byte(len(s.sigs)))
	choice := uint32(s.choice)
	if s.unknown {
		choice = unknownChoice
	}
	a = binary.LittleEndian.AppendUint32(a, choice)
	a = binary.LittleEndian.AppendUint32(a, uint32(len(data)))
	a = binary.LittleEndian.AppendUint32(a, uint32(len(sigs)))
	a = binary.LittleEndian.AppendUint16(a, uint16(len(patches)))
	a = binary.LittleEndian.AppendUint16(a, uint16(len(adds)/addSize))
	a = append(append(a, data...), sigs...)
	for _, p := range patches {
		a = binary.LittleEndian.AppendUint32(a, p)
	}
	b.t.arena = append(a, adds...)
	return nil
}

// namesIn says where the data of a type has names that may be compressed (RFC 3597 section 4),
// or for SRV a name: after skip bytes, count of them.
func namesIn(typ uint16) (skip, count int, compress bool) {
	switch typ {
	case miekg.TypeNS, miekg.TypeCNAME, miekg.TypePTR, miekg.TypeMB, miekg.TypeMG, miekg.TypeMR, miekg.TypeMD, miekg.TypeMF:
		return 0, 1, true
	case miekg.TypeMX:
		return 2, 1, true
	case miekg.TypeSOA, miekg.TypeMINFO:
		return 0, 2, true
	case miekg.TypeSRV:
		return 6, 1, false
	case miekg.TypeDNAME:
		return 0, 1, false
	}
	return 0, 0, false
}

// appendData appends a record's data, and its patches to patches.
func (b *builder) appendData(data []byte, s *set, rdata []byte, patches []uint32) (_ []byte, _ []uint32) {
	skip, count, compress := namesIn(s.typ)
	// A pointer takes two bytes and so does not shorten the root.
	compress = compress && !s.literal && s.choice == 0 && len(b.t.origin) > 1
	data = append(data, rdata[:skip]...)
	rest := rdata[skip:]
	for range count {
		end := dns.NameLen(rest)
		name := rest[:end]
		rest = rest[end:]
		if cut := len(name) - len(b.t.origin); compress && cut >= 0 && dns.EqualFold(name[cut:], b.t.origin) && edge(name, cut) {
			data = append(data, name[:cut]...)
			patches = append(patches, uint32(len(data)))
			data = append(data, 0xc0, 0)
			continue
		}
		data = append(data, name...)
	}
	return append(data, rest...), patches
}

// edge reports whether a label starts at cut.
func edge(name []byte, cut int) bool {
	i := 0
	for i < cut {
		i += 1 + int(name[i])
	}
	return i == cut
}

// ownerTarget is the place of an additional name that is the owner itself, which is not in the
// data.
const ownerTarget = 0

// An additional is a name in a record whose addresses belong in the additional section.
type additional struct {
	at   uint32 // where the name is in the set's records, or ownerTarget
	hash uint64
	name string // without the origin
}

// target finds the name that a record points to, if the zone may have its addresses. at is
// where the record's data begins in the set.
func (b *builder) target(s *set, rdata []byte, at int) (additional, bool) {
	skip, ok := targetOf(s.typ, rdata)
	if !ok || s.choice != 0 {
		return additional{}, false
	}
	name := bytes.Clone(rdata[skip : skip+dns.NameLen(rdata[skip:])])
	dns.ToLower(name)
	if len(name) == 1 { // the root: a service without a host, or at its owner (RFC 9460 section 2.5.2)
		service := s.typ == miekg.TypeSVCB || s.typ == miekg.TypeHTTPS
		return additional{at: ownerTarget}, service && binary.BigEndian.Uint16(rdata) > 0
	}
	cut := len(name) - len(b.t.origin)
	if cut < 0 || !bytes.Equal(name[cut:], b.t.origin) || !edge(name, cut) {
		return additional{}, false
	}
	return additional{uint32(at + skip), b.t.hash(name[:cut]), string(name[:cut])}, true
}

// targetOf finds the name, in a record's data, to which clients connect next.
func targetOf(typ uint16, rdata []byte) (at int, ok bool) {
	switch typ {
	case miekg.TypeNS:
		return 0, true
	case miekg.TypeMX, miekg.TypeSVCB, miekg.TypeHTTPS:
		return 2, true
	case miekg.TypeSRV:
		return 6, true
	case miekg.TypeNAPTR: // after order, preference and three strings
		at = 4
		for range 3 {
			if at < len(rdata) {
				at += 1 + int(rdata[at])
			}
		}
		return at, nameIn(rdata, at) > 0
	}
	return 0, false
}

// writeNegative appends the SOA for negative answers (RFC 2308 section 3).
func (b *builder) writeNegative(apex *node) error {
	soa := *apex.set(miekg.TypeSOA)
	if len(soa.rdata[0]) < 22 {
		return errors.New("the SOA record is too short")
	}
	tail := soa.rdata[0][len(soa.rdata[0])-20:]
	b.t.serial = binary.BigEndian.Uint32(tail)
	soa.ttl = min(soa.ttl, binary.BigEndian.Uint32(tail[16:]))
	b.t.negTTL = soa.ttl
	soa.sigTTL = slices.Clone(soa.sigTTL)
	for i := range soa.sigTTL {
		soa.sigTTL[i] = min(soa.sigTTL[i], soa.ttl)
	}
	at := len(b.t.arena)
	b.t.arena = append(b.t.arena, make([]byte, nodeName)...)
	binary.LittleEndian.PutUint16(b.t.arena[at+nodeFlags:], isNegative)
	binary.LittleEndian.PutUint16(b.t.arena[at+nodeSets:], 1)
	b.t.negative = uint32(at + nodeName)
	return b.writeSet(apex, &soa)
}

// enter puts a node in the slots.
func (t *table) enter(h uint64, n uint32) {
	i := t.home(h)
	for t.slots[i] != 0 {
		if i++; i == uint64(len(t.slots)) {
			i = 0
		}
	}
	t.slots[i] = h<<32 | uint64(n)
}

// typeBitmap returns the bitmap (RFC 4034 section 4.1.2) of a node's types, including RRSIG
// and NSEC, and type 0 if it has an alias.
func typeBitmap(sets []*set) []byte {
	types := []uint16{miekg.TypeRRSIG, miekg.TypeNSEC}
	for _, s := range sets {
		types = append(types, s.typ)
	}
	return makeBitmap(types)
}

// makeBitmap returns the type bitmap (RFC 4034 section 4.1.2) of types in any order.
func makeBitmap(types []uint16) []byte {
	types = slices.Clone(types)
	slices.Sort(types)
	var out []byte
	window, at := -1, 0
	for _, t := range slices.Compact(types) {
		if int(t>>8) != window {
			window = int(t >> 8)
			at = len(out)
			out = append(out, byte(window), 0)
		}
		for len(out) <= at+2+int(t&0xff>>3) {
			out = append(out, 0)
		}
		out[at+2+int(t&0xff>>3)] |= 0x80 >> (t & 7)
		out[at+1] = byte(len(out) - at - 2)
	}
	return out
}
