// Package cache keeps answers as bytes: the part of a message after the question, ready to
// be copied after the same question of another client.
//
// [Cache.Put] appends an entry to the page that its shard is writing. [Cache.Get] finds it by
// the keyed hash of its key, compares the key, and copies the answer with the remaining TTLs.
// Memory consists of pages of a fixed size without pointers, in two rings. When all pages are
// full, the oldest is reused.
//
// New entries go to the young ring, a quarter of the memory. When its page is reused, entries
// that were requested again move to the old ring, and so do positive answers while that has
// room; the others are dropped. The old ring keeps answers requested since their page was
// last reused. So a flood of names that are never queried again passes through the young
// ring, and if the names do not exist it takes no more memory.
package cache

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"
)

const (
	pageSize = 32 << 10
	// maxEntry bounds an entry, so that one does not displace all others of a page; longer
	// answers are not cached.
	maxEntry = pageSize / 2
	shards   = 32
	// MinSize is the minimum memory of a cache.
	MinSize = shards * 4 * pageSize
)

// Flags describe an answer.
type Flags uint16

const (
	AD       Flags = 1 << iota // validated (DNSSEC)
	Aliases                    // has CNAME or DNAME records, whose targets must be judged
	Address                    // has address records
	Private                    // an address is one of a private network
	Negative                   // NXDOMAIN or NODATA
	Failure                    // upstreams gave no answer
	Mapped                     // an AAAA record contains an IPv4 address (::ffff:0:0/96)
	Open                       // ends in an alias, and says nothing about what that leads to
)

// A Key identifies a question. Name is in wire form, lower case. Variant distinguishes answers
// to one question that differ by policy; 0 is the unchanged one. Set is the number of the upstreams
// that answered, below 64.
type Key struct {
	Name        []byte
	Type, Class uint16
	DO, CD      bool
	Set         uint8
	Variant     uint64
}

// An Entry is an answer. Body is the part after the question; its compression
// pointers are those of a message whose question begins at offset 12.
type Entry struct {
	Body                              []byte
	TTLs                              []uint16 // offsets of the TTLs in Body
	Answers, Authorities, Additionals uint16
	Rcode                             uint16
	EDE                               uint16 // 0: none
	Flags                             Flags
	TTL                               uint32 // lifetime in seconds
}

// A State is the result of Get.
type State uint8

const (
	Miss    State = iota
	Fresh         // a valid answer
	Refresh       // a popular answer that expires soon: fetch it again. Returned once per entry
	Stale         // expired, but not yet too old
)

// A Cache is safe for concurrent use.
type Cache struct {
	seed  uint64
	start time.Time
	stale uint32 // seconds an entry is kept beyond its TTL
	shard [shards]shard

	evicted atomic.Int64
}

type shard struct {
	mu      sync.Mutex
	table   []uint64 // 32 bits of hash, 32 of offset+1; 0 is free
	n       int
	pages   [][]byte
	rings   [2]ring
	hits    int64
	denials int64 // hits that were negative answers
	misses  int64
	_       [64]byte
}

// A ring is a sequence of pages, written one after another.
type ring struct {
	own     []int // pages, as indexes in shard.pages
	current int   // the page being written, as an index in own
	at      int   // offset in it
	max     int   // maximum number of pages
}

const (
	young = iota
	old
)

// hasRoom reports whether a ring will get another page before it reuses one.
func (r *ring) hasRoom() bool { return len(r.own) < r.max }

// An entry in a page, little endian:
//
//	 0  hash                 8
//	 8  bytes of all, a multiple of 8   4
//	12  when it was stored, seconds since the start   4
//	16  TTL                  4
//	20  flags                2
//	22  rcode                2
//	24  answers, authorities, additionals   2 each
//	30  EDE                  2
//	32  body's length        2
//	34  number of TTLs       2
//	36  hits since written   1
//	37  refreshing           1
//	38  key's length         2
//	40  variant              8
//	48  when the last attempt to refresh failed   4
//	52  key: type, class, bits, name; places of TTLs, 2 each; body
const entryHead = 52

// New makes a cache of at most size bytes that keeps entries for stale after they expire.
func New(size int, stale time.Duration) (*Cache, error) {
	if size < MinSize {
		return nil, fmt.Errorf("%d bytes are too few for a cache; give %d or more", size, MinSize)
	}
	if stale < 0 || stale > 7*24*time.Hour {
		return nil, errors.New("an answer may be kept for at most 7 days after it expires")
	}
	c := &Cache{start: time.Now(), stale: uint32(stale / time.Second)}
	var seed [8]byte
	rand.Read(seed[:]) // never fails
	c.seed = binary.LittleEndian.Uint64(seed[:])
	for i := range c.shard {
		pages := size / shards / pageSize
		c.shard[i].rings[young].max = max(pages/4, 2)
		c.shard[i].rings[old].max = pages - max(pages/4, 2)
	}
	return c, nil
}

func (c *Cache) hash(k *Key) uint64 {
	h := xxh3.HashSeed(k.Name, c.seed^k.Variant)
	m := uint64(k.Type)<<32 | uint64(k.Class)<<16 | uint64(keyBits(k))
	hi, lo := bits.Mul64(h^m*0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}

func keyBits(k *Key) byte {
	b := k.Set << 2
	if k.DO {
		b |= 1
	}
	if k.CD {
		b |= 2
	}
	return b
}

func (c *Cache) seconds(now time.Time) uint32 {
	if d := now.Sub(c.start); d > 0 {
		return uint32(d / time.Second)
	}
	return 0
}

// Get appends the answer for k to dst. With the State Miss nothing is appended and e is empty.
// TTLs are the remaining ones; those of a Stale answer are staleTTL. failedAgo is how long ago
// Fail was called for a Stale answer, negative if it was not. e.Body and e.TTLs are nil.
func (c *Cache) Get(k *Key, now time.Time, staleTTL uint32, dst []byte) (body []byte, e Entry, st State, failedAgo time.Duration) {
	h := c.hash(k)
	s := &c.shard[h>>59]
	at := c.seconds(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.find(h, k)
	if x == nil {
		s.misses++
		return dst, e, Miss, 0
	}
	stored, ttl := u32(x, 12), u32(x, 16)
	age := uint32(0)
	if at > stored {
		age = at - stored
	}
	st = Fresh
	failedAgo = -1
	switch {
	case age > ttl+c.stale:
		s.misses++
		return dst, e, Miss, 0
	case age >= ttl:
		s.misses++
		st = Stale
		if f := u32(x, 48); f != 0 {
			failedAgo = time.Duration(at+1-f) * time.Second
		}
	default:
		s.hits++
		if Flags(u16(x, 20))&Negative != 0 {
			s.denials++
		}
		if x[36] < 255 {
			x[36]++
		}
		if left := ttl - age; x[36] >= 3 && x[37] == 0 && (left <= ttl/10 || left <= 2) && ttl >= 10 {
			x[37] = 1
			st = Refresh
		}
	}
	e = Entry{
		Flags: Flags(u16(x, 20)), Rcode: u16(x, 22), Answers: u16(x, 24), Authorities: u16(x, 26), Additionals: u16(x, 28),
		EDE: u16(x, 30), TTL: ttl - min(age, ttl),
	}
	nttl := int(u16(x, 34))
	ttls := entryHead + int(u16(x, 38))
	from := ttls + 2*nttl
	base := len(dst)
	dst = append(dst, x[from:from+int(u16(x, 32))]...)
	for i := range nttl {
		p := dst[base+int(u16(x, ttls+2*i)):]
		left := staleTTL
		if st != Stale {
			left = binary.BigEndian.Uint32(p)
			left -= min(left, age)
		}
		binary.BigEndian.PutUint32(p, left)
	}
	return dst, e, st, failedAgo
}

// Put stores e for k, replacing an earlier entry.
func (c *Cache) Put(k *Key, now time.Time, e *Entry) {
	key := 5 + len(k.Name)
	n := entryHead + key + 2*len(e.TTLs) + len(e.Body)
	n = (n + 7) &^ 7
	if n > maxEntry || len(k.Name) > 255 {
		return
	}
	h := c.hash(k)
	s := &c.shard[h>>59]
	s.mu.Lock()
	defer s.mu.Unlock()
	into := &s.rings[young]
	if i := s.slot(h, k); i >= 0 {
		if s.rings[old].has(uint32(s.table[i])) {
			into = &s.rings[old]
		}
		s.free(uint32(i))
	}
	x, place := c.room(s, into, n)
	le := binary.LittleEndian
	clear(x[:entryHead])
	le.PutUint64(x, h)
	le.PutUint32(x[8:], uint32(n))
	le.PutUint32(x[12:], c.seconds(now))
	le.PutUint32(x[16:], e.TTL)
	for i, v := range [...]uint16{uint16(e.Flags), e.Rcode, e.Answers, e.Authorities, e.Additionals, e.EDE, uint16(len(e.Body)), uint16(len(e.TTLs))} {
		le.PutUint16(x[20+2*i:], v)
	}
	le.PutUint16(x[38:], uint16(key))
	le.PutUint64(x[40:], k.Variant)
	p := x[entryHead:]
	le.PutUint16(p, k.Type)
	le.PutUint16(p[2:], k.Class)
	p[4] = keyBits(k)
	copy(p[5:], k.Name)
	p = p[key:]
	for i, t := range e.TTLs {
		le.PutUint16(p[2*i:], t)
	}
	copy(p[2*len(e.TTLs):], e.Body)
	s.insert(h, place)
}

// Fail notes that no answer for k was available, so that a stale one is returned for a while
// without another attempt, and that a refresh has ended.
func (c *Cache) Fail(k *Key, now time.Time) {
	h := c.hash(k)
	s := &c.shard[h>>59]
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.find(h, k); x != nil {
		binary.LittleEndian.PutUint32(x[48:], c.seconds(now)+1)
		x[37] = 0
	}
}

// Flush drops everything, including the memory.
func (c *Cache) Flush() {
	for i := range c.shard {
		s := &c.shard[i]
		s.mu.Lock()
		s.table, s.n, s.pages = nil, 0, nil
		for j := range s.rings {
			r := &s.rings[j]
			r.own, r.current, r.at = nil, 0, 0
		}
		s.mu.Unlock()
	}
}

// Stats are counts since the start, and the contents.
type Stats struct {
	Hits, Misses int64
	Denials      int64 // hits that were negative answers
	Entries      int
	Bytes        int64 // of pages and tables
	Evicted      int64
}

// Stats sums the counts of all shards.
func (c *Cache) Stats() (st Stats) {
	for i := range c.shard {
		s := &c.shard[i]
		s.mu.Lock()
		st.Hits += s.hits
		st.Denials += s.denials
		st.Misses += s.misses
		st.Entries += s.n
		st.Bytes += int64(len(s.pages))*pageSize + int64(len(s.table))*8
		s.mu.Unlock()
	}
	st.Evicted = c.evicted.Load()
	return st
}

func u16(b []byte, i int) uint16 { return binary.LittleEndian.Uint16(b[i:]) }
func u32(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }

// tag is the part of a hash kept in a slot: the top bits have selected the shard.
func tag(h uint64) uint32 { return uint32(h>>27) | 1 }

func (s *shard) entry(place uint32) []byte {
	place--
	return s.pages[place/pageSize][place%pageSize:]
}

// find returns the entry of k, nil if there is none.
func (s *shard) find(h uint64, k *Key) []byte {
	if i := s.slot(h, k); i >= 0 {
		return s.entry(uint32(s.table[i]))
	}
	return nil
}

func (s *shard) slot(h uint64, k *Key) int {
	if len(s.table) == 0 {
		return -1
	}
	mask := uint32(len(s.table) - 1)
	t := tag(h)
	for i := t & mask; s.table[i] != 0; i = (i + 1) & mask {
		if uint32(s.table[i]>>32) != t {
			continue
		}
		if x := s.entry(uint32(s.table[i])); matches(x, h, k) {
			return int(i)
		}
	}
	return -1
}

func matches(x []byte, h uint64, k *Key) bool {
	if binary.LittleEndian.Uint64(x) != h || int(u16(x, 38)) != 5+len(k.Name) || binary.LittleEndian.Uint64(x[40:]) != k.Variant {
		return false
	}
	p := x[entryHead:]
	return u16(p, 0) == k.Type && u16(p, 2) == k.Class && p[4] == keyBits(k) && string(p[5:5+len(k.Name)]) == string(k.Name)
}

// has reports whether an offset is in one of the ring's pages.
func (r *ring) has(place uint32) bool { return slices.Contains(r.own, int((place-1)/pageSize)) }

// free empties a slot and moves displaced entries after it closer to their home slot, so that
// a search may stop at the first free slot.
func (s *shard) free(i uint32) {
	mask := uint32(len(s.table) - 1)
	s.n--
	for j := i; ; {
		j = (j + 1) & mask
		v := s.table[j]
		if v == 0 {
			break
		}
		if home := uint32(v>>32) & mask; (j-home)&mask >= (j-i)&mask {
			s.table[i] = v
			i = j
		}
	}
	s.table[i] = 0
}

func (s *shard) insert(h uint64, place uint32) {
	if 4*(s.n+1) > 3*len(s.table) {
		old := s.table
		s.table = make([]uint64, max(64, 2*len(old)))
		for _, v := range old {
			if v != 0 {
				s.put(v)
			}
		}
	}
	s.put(uint64(tag(h))<<32 | uint64(place))
	s.n++
}

func (s *shard) put(v uint64) {
	mask := uint32(len(s.table) - 1)
	i := uint32(v>>32) & mask
	for s.table[i] != 0 {
		i = (i + 1) & mask
	}
	s.table[i] = v
}

// room returns n bytes of a ring for an entry, and their offset.
func (c *Cache) room(s *shard, r *ring, n int) (x []byte, place uint32) {
	if len(r.own) == 0 {
		s.grow(r)
	}
	for r.at+n > pageSize {
		s.endPage(r)
		if r.hasRoom() {
			s.grow(r)
			continue
		}
		c.reclaim(s, r)
	}
	page := r.own[r.current]
	x = s.pages[page][r.at : r.at+n : r.at+n]
	place = uint32(page*pageSize+r.at) + 1
	r.at += n
	return x, place
}

// grow gives a ring another page to write to.
func (s *shard) grow(r *ring) {
	s.pages = append(s.pages, make([]byte, pageSize))
	r.own = append(r.own, len(s.pages)-1)
	r.current, r.at = len(r.own)-1, 0
}

// endPage marks the rest of the current page as empty.
func (s *shard) endPage(r *ring) {
	if r.at+8 < pageSize {
		binary.LittleEndian.PutUint32(s.pages[r.own[r.current]][r.at+8:], 0)
	}
}

// reclaim makes the oldest page of a ring the current one. Kept entries of the young ring move
// to the old one; the old ring keeps up to half of the page for another round.
func (c *Cache) reclaim(s *shard, r *ring) {
	r.current = (r.current + 1) % len(r.own)
	page := s.pages[r.own[r.current]]
	base := uint32(r.own[r.current] * pageSize)
	elder := &s.rings[old]
	to, dropped := 0, int64(0)
	for from := 0; from+entryHead <= pageSize; {
		n := int(u32(page, from+8))
		if n == 0 {
			break
		}
		x := page[from : from+n]
		h := binary.LittleEndian.Uint64(x)
		if i := s.slotOf(h, base+uint32(from)+1); i >= 0 {
			asked := x[36] > 0
			place := uint32(0)
			switch {
			case r == elder && asked && to+n <= pageSize/2:
				copy(page[to:], x)
				x, place = page[to:to+n], base+uint32(to)+1
				to += n
			case r != elder && (asked || elder.hasRoom() && Flags(u16(x, 20))&(Negative|Failure) == 0):
				var into []byte
				into, place = c.room(s, elder, n)
				copy(into, x)
				x, i = into, s.slotOf(h, base+uint32(from)+1) // making space may have moved it
			}
			if place != 0 {
				x[36] = 0
				s.table[i] = s.table[i]&^uint64(1<<32-1) | uint64(place)
			} else {
				s.free(uint32(i))
				dropped++
			}
		}
		from += n
	}
	r.at = to
	c.evicted.Add(dropped)
}

// slotOf returns the slot that refers to an offset, or -1 if the entry there was replaced.
func (s *shard) slotOf(h uint64, place uint32) int {
	mask := uint32(len(s.table) - 1)
	t := tag(h)
	want := uint64(t)<<32 | uint64(place)
	for i := t & mask; s.table[i] != 0; i = (i + 1) & mask {
		if s.table[i] == want {
			return int(i)
		}
	}
	return -1
}
