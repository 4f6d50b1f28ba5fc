// Package disk keeps objects in a few large files.
//
// Objects are appended to the newest segment, a file of fixed size that is mapped into memory
// (segment.go). When the segments are full, the oldest one is deleted; objects in it that were
// used often are appended again. A table in memory (index.go) has the place of each object, in
// 24 bytes plus room to grow. [Store.Get] returns slices of the mapping after comparing
// checksums (or having done so a moment ago), so that damage on the disk is not served. A full
// segment gets a list of its content in another file, so that the next start reads the lists
// instead of the segments. The last segment, and any whose list is damaged, is read record by
// record. Incomplete records are skipped and counted.
//
// Removing an object overwrites the head of its record, which persists across a restart. A
// power cut loses everything written since the last [Store.Sync], and may undo removals since then.
package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/platform"
)

// A Key is the hash of an object's name.
type Key = xxh3.Uint128

// keptUses is the number of uses from which on an object is worth writing again: that must
// cost less than fetching it.
const keptUses = 3

// segments is the number of segments that share the size of a store.
const segments = 64

// A Store holds objects. It is safe for concurrent use.
type Store struct {
	dir     string
	segment int64 // bytes of a segment
	most    int   // limit of segments

	mu      sync.Mutex
	index   index
	all     []*segment // oldest first; the last one is appended to
	changed bool       // other segments are there than at the last sync of the folder
	closed  bool

	filled atomic.Bool // the oldest was deleted for room once

	Writes, WrittenBytes, Rewrites atomic.Int64 // objects and bytes appended; Rewrites are among them
	Damaged, Failed                atomic.Int64 // objects with a wrong checksum or unreadable; failed writes
}

// Open opens the store in dir, which it makes if needed, for size bytes.
func Open(dir string, size int64) (*Store, error) {
	if !platform.MapsWrites {
		return nil, errors.New("this system cannot replace files that are mapped into memory, as the cache needs to: set \"disk: off\" and keep objects in memory")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the cache's folder: %w", err)
	}
	// What a process wrote that was killed may not be on the disk yet.
	s := &Store{dir: dir, segment: max(size/segments, 1<<20) &^ 4095, most: segments, changed: true}
	s.most = max(2, int(size/s.segment))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the cache's folder: %w", err)
	}
	var nums []uint64
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".segment"); ok {
			if n, err := strconv.ParseUint(name, 10, 64); err == nil {
				nums = append(nums, n)
			}
		}
	}
	slices.Sort(nums)
	for _, n := range nums {
		g, err := openSegment(dir, n)
		if err != nil { // not ours, or unreadable: its objects will be fetched again
			s.Damaged.Add(1)
			removeSegment(dir, n)
			continue
		}
		s.all = append(s.all, g)
		g.load(s)
	}
	for len(s.all) > s.most {
		s.dropOldest()
	}
	s.filled.Store(len(s.all) == s.most)
	if len(s.all) > 0 {
		err = s.newest().clear()
	} else if err = s.open(); errors.Is(err, platform.ENOSPC) {
		s.Failed.Add(1)
		err = nil // there may be room later
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("opening the cache's folder: %w", err)
	}
	return s, nil
}

// open begins a new segment. The caller holds mu, or is Open.
func (s *Store) open() error {
	num := uint64(1)
	if n := len(s.all); n > 0 {
		num = s.all[n-1].num + 1
	}
	g, err := newSegment(s.dir, num, s.segment)
	if err == nil {
		s.all = append(s.all, g)
		s.changed = true
	}
	return err
}

func (s *Store) newest() *segment { return s.all[len(s.all)-1] }

// find returns the segment with a short number.
func (s *Store) find(short uint16) *segment {
	for _, g := range s.all {
		if uint16(g.num) == short {
			return g
		}
	}
	return nil
}

// Len returns the number of objects.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index.n
}

// Bytes returns the size of the segments.
func (s *Store) Bytes() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.all {
		n += g.end
	}
	return n
}

// IndexBytes returns the size of the table in bytes.
func (s *Store) IndexBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index.bytes()
}

// Unfilled reports whether there is room that was never used.
func (s *Store) Unfilled() bool { return !s.filled.Load() }

// A Record is an object on the disk. Its slices are valid until Release.
type Record struct {
	Meta, Body []byte
	s          *Store
	g          *segment
	off        int64 // of the record
	length     int64 // of the record
}

// File returns the file with the body, and the offset of the body. It is valid until Release.
func (r *Record) File() (f *os.File, off int64) {
	return r.g.file, r.off + recordHead + int64(len(r.Meta))
}

// Release releases the record.
func (r *Record) Release() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.g.refs--
	r.g.unmap()
}

// Get returns an object and counts its use. It removes a damaged one.
func (s *Store) Get(k Key) (*Record, bool) {
	s.mu.Lock()
	e := s.index.get(k)
	if e == nil {
		s.mu.Unlock()
		return nil, false
	}
	g := s.find(e.seg)
	if g == nil {
		s.index.remove(k)
		s.mu.Unlock()
		return nil, false
	}
	r := &Record{s: s, g: g, off: int64(e.off) * align, length: int64(e.len) * align}
	last := r.use(e)
	g.refs++
	s.mu.Unlock()
	var ok bool
	if r.Meta, r.Body, ok = r.read(k, last); !ok {
		r.Release()
		return nil, false
	}
	return r, true
}

// IsCurrent reports whether the record, which must not be released yet, is still what Get returns
// for its key, and counts a use. It removes a damaged one.
func (r *Record) IsCurrent(k Key) bool {
	r.s.mu.Lock()
	e := r.s.index.get(k)
	if e == nil || e.seg != uint16(r.g.num) || int64(e.off)*align != r.off || int64(e.len)*align != r.length || r.g.dead {
		r.s.mu.Unlock()
		return false
	}
	last := r.use(e)
	r.s.mu.Unlock()
	_, _, ok := r.read(k, last)
	return ok
}

// use counts a use and returns when the record's checksum was last verified. The caller holds
// mu.
func (r *Record) use(e *entry) verifiedSum {
	if e.uses < keptUses {
		e.uses++
	}
	return r.g.sums[r.off]
}

// read returns the content of the record if its checksums are right; last is the last
// known state of them. It removes a record with wrong ones.
func (r *Record) read(k Key, last verifiedSum) (meta, body []byte, ok bool) {
	s, g := r.s, r.g
	sum := verifiedSum{at: time.Now()}
	if r.length >= leastTrusted {
		sum.changed = g.lastWrite()
	}
	trusted := last.holds(sum)
	meta, body, err := g.read(k, r.off, r.length, !trusted)
	if err != nil {
		if !errors.Is(err, errWiped) { // that was after its list had been written
			s.Damaged.Add(1)
		}
		_ = s.Remove(k) // an unreadable record need not be removed
		return nil, nil, false
	}
	if r.length >= leastTrusted && !trusted {
		s.trust(g, r.off, sum)
	}
	return meta, body, true
}

// The checksum of a body costs more than sending it, so a verified one is trusted for a while:
// as long as nothing was written to the segment, the body is in the system's page cache.
// Damage on the disk is noticed only when that memory was needed for something else.
const (
	trustFor     = 10 * time.Second
	leastTrusted = 16 << 10
	mostTrusted  = 4096 // in a segment
)

// A verifiedSum records that a checksum was verified.
type verifiedSum struct {
	at      time.Time
	changed int64 // last write to the segment before that, in Unix nanoseconds
}

// holds reports whether a checksum need not be verified again at now. File times are coarse:
// two writes may have the same.
func (last verifiedSum) holds(now verifiedSum) bool {
	return last.changed > 0 && last.changed == now.changed && now.at.Sub(last.at) < trustFor && last.at.UnixNano()-last.changed > int64(time.Second)
}

// trust records that the checksum of the record at off is right.
func (s *Store) trust(g *segment, off int64, sum verifiedSum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.sums == nil || len(g.sums) >= mostTrusted {
		g.sums = map[int64]verifiedSum{}
	}
	g.sums[off] = sum
}

// Has reports whether there is an object, without reading it.
func (s *Store) Has(k Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index.get(k) != nil
}

// ErrTooLarge reports an object that does not fit into a segment.
var ErrTooLarge = errors.New("cache: the object is larger than a segment of the disk")

// Put appends an object. It replaces one with the same key.
func (s *Store) Put(k Key, meta []byte, body [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	s.wipe(k) // it must not return if the new one is damaged
	return s.append(k, meta, body)
}

// Remove takes an object out.
func (s *Store) Remove(k Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	return s.wipe(k)
}

// wipe removes an object from the table and overwrites the head of its record, which needs no
// room on a full disk. If that fails, it deletes the segment.
func (s *Store) wipe(k Key) error {
	e := s.index.get(k)
	if e == nil {
		return nil
	}
	i := slices.IndexFunc(s.all, func(g *segment) bool { return uint16(g.num) == e.seg })
	off := int64(e.off) * align
	s.index.remove(k)
	if i < 0 {
		return nil
	}
	if err := s.all[i].wipe(off); err != nil {
		s.Failed.Add(1)
		if i == len(s.all)-1 {
			s.all[i].close()
			if err := s.open(); err != nil {
				return fmt.Errorf("starting a segment of the cache's disk: %w", err)
			}
		}
		s.delete(i)
		return fmt.Errorf("removing an object from the cache's disk: %w; its whole segment is removed", err)
	}
	return nil
}

// wipeOlder overwrites a record that a later one replaces: a power cut may have kept both, and the older
// one must not return when the later one is removed.
func (s *Store) wipeOlder(k Key) {
	e := s.index.get(k)
	if e == nil {
		return
	}
	if g := s.find(e.seg); g == nil || g.wipe(int64(e.off)*align) != nil {
		s.Failed.Add(1)
	}
}

// append appends a record, after making room for it.
func (s *Store) append(k Key, meta []byte, body [][]byte) error {
	n := recordSize(meta, body)
	if n > s.segment-headSize {
		return ErrTooLarge
	}
	if len(s.all) == 0 {
		if err := s.open(); err != nil {
			s.Failed.Add(1)
			return fmt.Errorf("starting a segment of the cache's disk: %w", err)
		}
	}
	if s.newest().end+n > s.segment {
		if err := s.rotate(); err != nil {
			return err
		}
		if s.newest().end+n > s.segment { // filled with objects worth keeping
			if err := s.rotate(); err != nil {
				return err
			}
		}
	}
	g := s.newest()
	off, err := g.append(k, meta, body)
	if err != nil {
		s.Failed.Add(1)
		if errors.Is(err, platform.ENOSPC) && len(s.all) > 2 {
			// The disk is smaller than in the settings: make do with it.
			s.dropOldest()
			s.most = len(s.all)
			s.filled.Store(true)
		}
		return fmt.Errorf("writing to the cache's disk: %w", err)
	}
	s.Writes.Add(1)
	s.WrittenBytes.Add(n)
	s.index.put(k, entry{seg: uint16(g.num), off: uint32(off / align), len: uint32(n / align)})
	return nil
}

// rotate closes the newest segment and begins another, replacing the oldest if the limit is
// reached.
func (s *Store) rotate() error {
	s.newest().close()
	var kept []*Record
	var keys []Key
	if len(s.all) >= s.most {
		s.filled.Store(true)
		kept, keys = s.worthKeeping(s.all[0])
		s.dropOldest()
	}
	if err := s.open(); err != nil {
		s.Failed.Add(1)
		return fmt.Errorf("starting a segment of the cache's disk: %w", err)
	}
	for i, r := range kept {
		body := [][]byte{r.Body}
		if s.newest().end+recordSize(r.Meta, body) <= s.segment {
			if s.append(keys[i], r.Meta, body) == nil {
				s.Rewrites.Add(1)
			}
		}
		r.g.refs--
		r.g.unmap()
	}
	return nil
}

// worthKeeping returns the objects of a segment that were used often, up to half a segment.
func (s *Store) worthKeeping(g *segment) (kept []*Record, keys []Key) {
	room := s.segment / 2
	for _, l := range g.list {
		e := s.index.get(l.key)
		if e == nil || e.seg != uint16(g.num) || int64(e.off)*align != l.off || e.uses < keptUses {
			continue
		}
		n := int64(e.len) * align
		if room -= n; room < 0 {
			break
		}
		meta, body, err := g.read(l.key, l.off, n, true)
		if err != nil {
			s.Damaged.Add(1)
			continue
		}
		g.refs++
		kept = append(kept, &Record{Meta: meta, Body: body, s: s, g: g})
		keys = append(keys, l.key)
	}
	return kept, keys
}

// Clear removes all objects.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.all) > 0 {
		s.dropOldest()
	}
	s.filled.Store(false)
}

// dropOldest deletes the oldest segment with all its objects.
func (s *Store) dropOldest() { s.delete(0) }

// delete deletes a segment with all its objects.
func (s *Store) delete(i int) {
	g := s.all[i]
	for _, l := range g.list {
		if e := s.index.get(l.key); e != nil && e.seg == uint16(g.num) && int64(e.off)*align == l.off {
			s.index.remove(l.key)
		}
	}
	s.all = slices.Delete(s.all, i, i+1)
	s.changed = true
	removeSegment(s.dir, g.num)
	g.dead = true
	g.unmap()
}

// Sync flushes to the disk what was appended and removed, in whatever segment that is, and which
// segments there are.
func (s *Store) Sync() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	var changed []*segment
	for _, g := range s.all {
		if g.changed {
			g.changed = false
			g.refs++
			changed = append(changed, g)
		}
	}
	folder := s.changed
	s.changed = false
	s.mu.Unlock()
	var errs []error
	for _, g := range changed {
		err := atomicfile.Sync(g.file)
		errs = append(errs, err)
		s.mu.Lock()
		g.changed = g.changed || err != nil
		g.refs--
		g.unmap()
		s.mu.Unlock()
	}
	if folder {
		if err := atomicfile.SyncFolder(s.dir); err != nil {
			errs = append(errs, err)
			s.mu.Lock()
			s.changed = true
			s.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// Close closes the store. Records in use stay valid.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for _, g := range s.all {
		if !g.closed {
			g.writeList()
		}
		g.dead = true
		g.unmap()
	}
	s.all = nil
	return nil
}

// All calls f for each object until it returns false. Objects may be added and removed
// meanwhile.
func (s *Store) All(f func(Key, *Record) bool) {
	s.mu.Lock()
	keys := s.index.keys()
	s.mu.Unlock()
	for _, k := range keys {
		if r, ok := s.Get(k); ok {
			more := f(k, r)
			r.Release()
			if !more {
				return
			}
		}
	}
}

func path(dir string, num uint64, ext string) string {
	return filepath.Join(dir, fmt.Sprintf("%012d.%s", num, ext))
}

func removeSegment(dir string, num uint64) {
	os.Remove(path(dir, num, "segment"))
	os.Remove(path(dir, num, "list"))
}
