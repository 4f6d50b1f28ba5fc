package zone

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"sync/atomic"

	"shuultuur/lib/dns"
)

// A table is a compiled zone. It is immutable. It has few pointers however many names there
// are: names, RRsets and links are bytes of arena, referred to by offset; offset 0 means none.
// A changed zone is another table, whose arena extends that of the previous one (see Change).
//
// The arena is a sequence of nodes. A node is a name:
//
//	flags u16, name length u8, sets u16, children u32, wildcard u32, proof u32,
//	the name without the origin, the sets, [bitmap length u16, bitmap]
//
// A set is an RRset:
//
//	type u16, records u16, signatures u8, choice u32 (from 1), length of the
//	records u32, of the signatures u32, patches u16, additionals u16,
//	records, signatures, patches (u32 each), additionals (u32 and u64 each)
//
// The proof of a node is the node of its NSEC3 record; 0 is none.
//
// Records have the form of a message, with the owner c00c. Names in their data that end in the
// origin end in a pointer that is patched when they are copied. An additional is a name in the
// data that may have addresses in the zone: its place, and its hash.
type table struct {
	origin   []byte // wire form, lower case
	originH  uint64
	depth    int // labels of origin
	view     string
	clients  []netip.Prefix
	slots    []uint64 // low half of the hash (the high half selects the slot), offset of the node
	arena    []byte
	apex     uint32
	negative uint32 // set: SOA with the TTL for negative answers
	negTTL   uint32
	serial   uint32

	picks    []Picker
	aliases  []alias
	resolver Resolver
	signer   Signer

	order  []uint32 // nodes with NSEC in canonical order
	nsec3  *nsec3
	nodes  int
	count  int // records
	dead   int // approximate bytes of arena that are obsolete
	signed bool

	traits
	lineage
}

// traits are unusual properties of a zone.
type traits struct {
	climbCAA    bool
	unavailable string        // why the zone cannot be served; the table has no arena then
	expires     *atomic.Int64 // see Zone.Expires
	bare        bool          // it has or had names without records
}

// lineage relates a version of a table to the one it was made from.
type lineage struct {
	id      *byte    // of this version
	base    *byte    // of the version from which a change made this one; otherwise nil
	changed []string // names that the change moved, added or removed, without the origin
}

type alias struct {
	wire   []byte
	labels []uint8
	text   string
}

const (
	nodeFlags = 0
	nodeLen   = 2
	nodeSets  = 3
	nodeKids  = 5
	nodeWild  = 9
	nodeProof = 13
	nodeName  = 17

	setType   = 0
	setCount  = 2
	setSigs   = 4
	setChoice = 5
	setSize   = 9
	setSigLen = 13
	setPatch  = 17
	setAdds   = 19
	setData   = 21
)

// Flags of a node.
const (
	isDelegation = 1 << iota // NS below the apex
	isBelow                  // below a cut or a DNAME
	hasCNAME
	hasDNAME
	hasAlias
	hasBitmap
	isNSEC3
	isNegative // not a name: the SOA for negative answers
	isNamed    // exists, possibly without records
	isUnknown  // may have further records that could not be read
)

const (
	arenaStart = 8  // offset of the first node: offset 0 means none
	addSize    = 12 // bytes of an additional
)

// maxSet bounds an RRset, in bytes: the room in a message beside the longest
// question.
const maxSet = 65535 - 12 - 259 - 11

func u16(b []byte, at uint32) uint16 { return binary.LittleEndian.Uint16(b[at:]) }
func u32(b []byte, at uint32) uint32 { return binary.LittleEndian.Uint32(b[at:]) }

func (t *table) flags(n uint32) uint16 { return u16(t.arena, n) }

// name returns the name of a node without the origin.
func (t *table) name(n uint32) []byte {
	return t.arena[n+nodeName : n+nodeName+uint32(t.arena[n+nodeLen])]
}

// set returns the RRset of a type.
func (t *table) set(n uint32, typ uint16) uint32 {
	a := t.arena
	at := n + nodeName + uint32(a[n+nodeLen])
	for left := u16(a, n+nodeSets); left > 0; left-- {
		if u16(a, at) == typ {
			return at
		}
		at = t.next(at)
	}
	return 0
}

// unknownChoice replaces the choice of a set that cannot be served.
const unknownChoice = math.MaxUint32

// isUnknownSet reports whether the set at s exists but cannot be served.
func isUnknownSet(arena []byte, s uint32) bool { return u32(arena, s+setChoice) == unknownChoice }

// next returns where the set at s ends.
func (t *table) next(s uint32) uint32 {
	a := t.arena
	return s + setData + u32(a, s+setSize) + u32(a, s+setSigLen) + 4*uint32(u16(a, s+setPatch)) + addSize*uint32(u16(a, s+setAdds))
}

// bitmap returns the types of a node, if denials are signed.
func (t *table) bitmap(n uint32) []byte {
	if t.flags(n)&hasBitmap == 0 {
		return nil
	}
	at := n + nodeName + uint32(t.arena[n+nodeLen])
	for left := u16(t.arena, n+nodeSets); left > 0; left-- {
		at = t.next(at)
	}
	return t.arena[at+2 : at+2+uint32(u16(t.arena, at))]
}

// end returns where the node at n ends.
func (t *table) end(n uint32) uint32 {
	at := n + nodeName + uint32(t.arena[n+nodeLen])
	for left := u16(t.arena, n+nodeSets); left > 0; left-- {
		at = t.next(at)
	}
	if t.flags(n)&hasBitmap != 0 {
		at += 2 + uint32(u16(t.arena, at))
	}
	return at
}

func (t *table) records(s uint32) []byte {
	return t.arena[s+setData : s+setData+u32(t.arena, s+setSize)]
}

func (t *table) signatures(s uint32) []byte {
	at := s + setData + u32(t.arena, s+setSize)
	return t.arena[at : at+u32(t.arena, s+setSigLen)]
}

// lookup returns the node of a name with the hash h; prefix is the name without the origin.
func (t *table) lookup(h uint64, prefix []byte) uint32 {
	tag := h << 32
	i := t.home(h)
	for {
		v := t.slots[i]
		if v == 0 {
			return 0
		}
		if v&0xffffffff00000000 == tag {
			n := uint32(v)
			if string(t.name(n)) == string(prefix) {
				return n
			}
		}
		if i++; i == uint64(len(t.slots)) {
			i = 0
		}
	}
}

// hash returns the hash of a name without the origin.
func (t *table) hash(prefix []byte) uint64 {
	var at [128]uint8
	labels := dns.Labels(at[:0], prefix)
	h := t.originH
	for i := len(labels) - 1; i >= 0; i-- {
		s := int(labels[i])
		h = mix(h, prefix[s:s+1+int(prefix[s])])
	}
	return h
}

// target returns the node of a name in record data, in any case, which ends in the origin or
// in a pointer to it.
func (t *table) target(h uint64, data []byte) uint32 {
	n := 0
	for data[n] != 0 && data[n] < 0xc0 {
		n += 1 + int(data[n])
	}
	if data[n] == 0 {
		n -= len(t.origin) - 1
	}
	var buf [256]byte
	name := append(buf[:0], data[:n]...)
	dns.ToLower(name)
	return t.lookup(h, name)
}

// below reports whether a node's name is below another's.
func (t *table) below(n, top uint32) bool {
	name, above := t.name(n), t.name(top)
	cut := len(name) - len(above)
	return cut > 0 && string(name[cut:]) == string(above) && edge(name, cut)
}

// home returns the slot where the search for a hash begins.
func (t *table) home(h uint64) uint64 {
	i, _ := bits.Mul64(h, uint64(len(t.slots)))
	return i
}

// compile makes a table of a zone. Names are hashed from seed.
func compile(z *Zone, seed uint64) (*table, error) {
	origin, err := dns.Name(z.Origin)
	if err != nil {
		return nil, fmt.Errorf("compile zone: origin: %w", err)
	}
	b := &builder{z: z, seed: seed, nodes: map[string]*node{}, proofs: map[string]*node{}, buf: make([]byte, 65536)}
	b.t = &table{lineage: lineage{id: new(byte)}, origin: origin, view: z.View, clients: z.Clients, resolver: z.Resolver, signer: z.Signer, arena: make([]byte, arenaStart, 64*len(z.Records)+1024)}
	var at [128]uint8
	labels := dns.Labels(at[:0], origin)
	b.t.depth, b.t.originH = len(labels), seed
	for i := len(labels) - 1; i >= 0; i-- {
		s := int(labels[i])
		b.t.originH = mix(b.t.originH, origin[s:s+1+int(origin[s])])
	}
	b.t.climbCAA, b.t.unavailable, b.t.expires, b.t.bare = z.ClimbCAA, z.Unavailable, z.Expires, len(z.Empty)+len(z.Unknown) > 0
	if z.Unavailable != "" {
		return b.t, nil
	}
	for _, step := range []func() error{b.gather, b.alter, b.verify, b.shape, b.write, b.prove} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("zone %q: %w", z.Origin, err)
		}
	}
	return b.t, nil
}
