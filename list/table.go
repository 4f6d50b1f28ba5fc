package list

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"sort"

	"github.com/zeebo/xxh3"
)

// An entryTable is the hosts and URLs of a list file: records in buckets by their hashes, with
// a filter in front. Parts that Open does not verify are verified on use.
type entryTable struct {
	records, index, bloom, more []byte

	count           int
	sets            setTable
	seed            uint64
	buckets, blocks uint64
	prefix          bool
	posSize         int // bytes of a record's line
	maxPath         int
	damaged         error
}

// A setTable is the distinct sets of categories.
type setTable struct {
	ends []byte // end of each set in ids
	ids  []byte
	n    uint32
}

// read reads the section, and verifies that every category is below names.
func (s *setTable) read(data []byte, names int) error {
	if len(data) < 4 {
		return errTable
	}
	s.n = binary.LittleEndian.Uint32(data)
	if uint64(len(data)-4) < 4*uint64(s.n) {
		return errTable
	}
	s.ends, s.ids = data[4:4+4*s.n], data[4+4*s.n:]
	from := uint32(0)
	for i := range s.n {
		end := binary.LittleEndian.Uint32(s.ends[4*i:])
		if end < from || uint64(end)*2 > uint64(len(s.ids)) {
			return errTable
		}
		from = end
	}
	for i := range uint32(len(s.ids) / 2) {
		if int(s.category(i)) >= names {
			return errTable
		}
	}
	return nil
}

// of returns the range of the categories of a set, which read has verified.
func (s *setTable) of(id uint64) (from, to uint32, ok bool) {
	if id >= uint64(s.n) {
		return 0, 0, false
	}
	if id > 0 {
		from = binary.LittleEndian.Uint32(s.ends[4*id-4:])
	}
	return from, binary.LittleEndian.Uint32(s.ends[4*id:]), true
}

// category returns the category at an index.
func (s *setTable) category(i uint32) uint16 { return binary.LittleEndian.Uint16(s.ids[2*i:]) }

// categories returns those of a range.
func (s *setTable) categories(from, to uint32) []int {
	ids := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		ids = append(ids, int(s.category(i)))
	}
	return ids
}

// lookup appends the entries of f that match q.
func (t *entryTable) lookup(f *File, q *Query, dst []Match) ([]Match, error) {
	if t.blocks == 0 {
		return dst, nil // closed
	}
	if q.seed != t.seed {
		q.hash(t.seed)
	}
	var err error
	for i := range q.n {
		if t.maybe(q.sums[i]) {
			if dst, err = t.bucket(f, q.sums[i], q.suffix(i), nil, i == q.n-1, dst); err != nil {
				return dst, err
			}
		}
	}
	if t.maxPath > 0 && len(q.path) > 0 {
		if dst, err = t.lookupURL(f, q, dst); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (t *entryTable) lookupURL(f *File, q *Query, dst []Match) ([]Match, error) {
	first := 0
	if t.prefix { // the host itself, and without www
		first = max(0, q.n-1)
		if rest, ok := withoutWWW(q.host); ok && q.n > 1 && len(rest) == int(q.sizes[q.n-2]) {
			first = q.n - 2
		}
	}
	var err error
	for i := first; i < q.n; i++ {
		if !t.maybe(gate(q.sums[i])) {
			continue
		}
		if t.prefix {
			dst, err = t.prefixes(f, q.sums[i], q.suffix(i), q.path, dst)
		} else {
			dst, err = t.boundaries(f, q.sums[i], q.suffix(i), q.path, dst)
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// boundaries looks up every prefix of path that ends at a boundary. A path is at most one byte
// longer than any entry's, so its own end is known to be a boundary when it is reached.
func (t *entryTable) boundaries(f *File, h uint64, host string, path []byte, dst []Match) ([]Match, error) {
	var err error
	from := 0
	for e := 1; e <= min(len(path), t.maxPath); e++ {
		if e < len(path) && !boundary(path[e]) {
			continue
		}
		h = xxh3.HashSeed(path[from:e], h)
		from = e
		if t.maybe(h) {
			if dst, err = t.bucket(f, h, host, path[:e], true, dst); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}

// prefixes looks up every prefix of path.
func (t *entryTable) prefixes(f *File, h uint64, host string, path []byte, dst []Match) ([]Match, error) {
	var err error
	from := 0
	for e := 1; e <= min(len(path), t.maxPath); e++ {
		if e-from > prefixPiece {
			h = xxh3.HashSeed(path[from:from+prefixPiece], h)
			from += prefixPiece
		}
		if sum := xxh3.HashSeed(path[from:e], h); t.maybe(sum) {
			if dst, err = t.bucket(f, sum, host, path[:e], true, dst); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}

// maybe queries the filter: false means that there is no entry with this hash.
func (t *entryTable) maybe(h uint64) bool {
	at, _ := bits.Mul64(h, t.blocks)
	b := t.bloom[at*64:]
	if len(b) < 64 {
		return false
	}
	b = b[:64]
	g := bloomMix(h)
	// All six at once: separate branches would be mispredicted two times in five, which costs
	// more than the bits.
	hit := b[g>>58&63] >> (g >> 55 & 7) &
		(b[g>>49&63] >> (g >> 46 & 7)) &
		(b[g>>40&63] >> (g >> 37 & 7)) &
		(b[g>>31&63] >> (g >> 28 & 7)) &
		(b[g>>22&63] >> (g >> 19 & 7)) &
		(b[g>>13&63] >> (g >> 10 & 7))
	return hit&1 != 0
}

// bucket appends the entries with key host+path from the bucket of hash h. whole says that
// host is the queried host, not a parent domain. Every offset is checked, because the file is
// not trusted.
func (t *entryTable) bucket(f *File, h uint64, host string, path []byte, whole bool, dst []Match) ([]Match, error) {
	at, _ := bits.Mul64(h, t.buckets)
	if uint64(len(t.index)) < at*4+8 {
		return dst, t.damaged
	}
	from := binary.LittleEndian.Uint32(t.index[at*4:])
	to := binary.LittleEndian.Uint32(t.index[at*4+4:])
	if from > to || uint64(to) > uint64(len(t.records)) {
		return dst, t.damaged
	}
	for b := t.records[from:to]; len(b) > 0; {
		r, n := t.record(b)
		if n == 0 {
			return dst, t.damaged
		}
		if len(r.key) == len(host)+len(path) &&
			string(r.key[:len(host)]) == host && string(r.key[len(host):]) == string(path) &&
			r.set&covers(whole) == 0 {
			var err error
			if dst, err = t.matches(f, r, to-uint32(len(b)), path != nil, dst); err != nil {
				return dst, err
			}
		}
		b = b[n:]
	}
	return dst, nil
}

// covers returns the flag that keeps an entry from matching the host itself, or a subdomain of
// it.
func covers(whole bool) uint64 {
	if whole {
		return flagBelow
	}
	return flagExact
}

// matches appends one Match for each name of each category of r.
func (t *entryTable) matches(f *File, r record, at uint32, url bool, dst []Match) ([]Match, error) {
	from, to, ok := t.sets.of(r.set >> flagBits)
	if !ok {
		return dst, t.damaged
	}
	for i := from; i < to; i++ {
		for _, name := range f.names[t.sets.category(i)] {
			dst = append(dst, Match{
				List: f, Category: name, Exception: r.set&flagException != 0, Important: r.set&flagImportant != 0,
				URL: url, record: at, nth: uint16(i - from), size: uint16(len(r.key)),
			})
		}
	}
	return dst, nil
}

type record struct {
	key []byte
	set uint64 // and flags
	pos uint32
}

// record reads the record at the beginning of b and returns its length, 0 if it is damaged.
func (t *entryTable) record(b []byte) (r record, n int) {
	size, i := uint64(b[0]), 1
	if size >= 0x80 {
		size, i = binary.Uvarint(b)
		if i <= 0 {
			return r, 0
		}
	}
	set, j := binary.Uvarint(b[i:])
	if j <= 0 {
		return r, 0
	}
	i += j
	if size > maxKey || len(b)-i < t.posSize+int(size) {
		return r, 0
	}
	r.set, r.pos = set, uint32(b[i])|uint32(b[i+1])<<8|uint32(b[i+2])<<16
	if t.posSize == 4 {
		r.pos |= uint32(b[i+3]) << 24
	}
	i += t.posSize
	r.key = b[i : i+int(size)]
	return r, i + int(size)
}

// written returns the key and line of a match.
func (t *entryTable) written(m Match) (text string, line uint64, ok bool) {
	r, from, to, ok := t.at(m)
	if !ok {
		return "", 0, false
	}
	line = uint64(r.pos)
	if to-from > 1 {
		i := (line + uint64(m.nth)) * 4
		if i+4 > uint64(len(t.more)) {
			return string(r.key), 0, false
		}
		line = uint64(binary.LittleEndian.Uint32(t.more[i:]))
	}
	return string(r.key), line, true
}

// at returns the record of a match, and the range of its categories.
func (t *entryTable) at(m Match) (r record, from, to uint32, ok bool) {
	if uint64(m.record) >= uint64(len(t.records)) {
		return r, 0, 0, false
	}
	r, n := t.record(t.records[m.record:])
	from, to, ok = t.sets.of(r.set >> flagBits)
	return r, from, to, ok && n > 0
}

// key returns the key of a match, nil if there is none.
func (t *entryTable) key(m Match) []byte {
	r, _, _, _ := t.at(m)
	return r.key
}

// A networkTable is the sorted networks of a list file.
type networkTable []byte

func (t networkTable) lookup(f *File, addr netip.Addr, dst []Match) ([]Match, error) {
	as := addr.As16()
	i := sort.Search(len(t)/networkSize, func(i int) bool {
		return bytes.Compare(t[i*networkSize:][:16], as[:]) > 0
	})
	// The index decreases at every step, so the loop ends.
	for at := uint32(i - 1); i > 0 && at != noParent; {
		n, parent, ok := t.network(at)
		if !ok || parent != noParent && parent >= at || int(n.cat) >= len(f.names) {
			return dst, f.damaged
		}
		// ::/0 does not include IPv4, although IPv4 is written inside it.
		if n.has(as) && (!addr.Is4() || n.bits >= 96) {
			for _, name := range f.names[n.cat] {
				dst = append(dst, Match{List: f, Category: name, record: at, kind: networkKind})
			}
		}
		at = parent
	}
	return dst, nil
}

func (t networkTable) network(i uint32) (n network, parent uint32, ok bool) {
	if uint64(i)*networkSize+networkSize > uint64(len(t)) {
		return n, 0, false
	}
	b := t[uint64(i)*networkSize:][:networkSize]
	n = network{[16]byte(b[:16]), b[26], binary.LittleEndian.Uint16(b[24:]), binary.LittleEndian.Uint32(b[20:])}
	return n, binary.LittleEndian.Uint32(b[16:]), n.bits <= 128
}

func (t networkTable) written(m Match) (text string, line uint64, ok bool) {
	n, _, ok := t.network(m.record)
	if !ok {
		return "", 0, false
	}
	addr, bits := netip.AddrFrom16(n.addr), int(n.bits)
	if addr.Is4In6() && bits >= 96 {
		addr, bits = addr.Unmap(), bits-96
	}
	return netip.PrefixFrom(addr, bits).String(), uint64(n.line), true
}
