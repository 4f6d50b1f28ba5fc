package disk

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime/debug"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/platform"
)

// A segment begins with its head, stored twice so that a damaged bit does not make the segment
// unreadable: magic, number, a random seed, and CRC-32C of these. Records follow, each at a
// multiple of align:
//
//	magic      4 bytes
//	nothing    4 bytes, 0
//	key        16 bytes, Lo first
//	meta       4 bytes, its length
//	body       4 bytes, its length
//	body sum   4 bytes, CRC-32C of the body
//	head sum   4 bytes, CRC-32C of all before it, the segment's seed, and of meta
//	meta, body
//
// All numbers are little endian. Because the checksum includes the seed, records of an earlier
// file in the same place, and bytes of a body, which an origin may choose, are not mistaken
// for records.
const (
	headCopy   = 64
	headSize   = 2 * headCopy
	recordHead = 40
	align      = 8

	segmentMagic = "shuultuur cache 2\n"
	recordMagic  = 0x7c3e51a9
	seedSize     = 16
)

// leastReleased is the size from which on the mapped pages of a body are released after use.
const leastReleased = 1 << 20

var pageSize = int64(os.Getpagesize())

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type segment struct {
	num     uint64
	seed    [seedSize]byte
	dir     string
	file    *os.File
	data    []byte // the file, mapped
	end     int64  // offset of the next record
	list    []placedRecord
	closed  bool                  // nothing more is appended
	changed bool                  // since the last sync
	refs    int                   // records in use
	dead    bool                  // deleted, or its store is closed
	sums    map[int64]verifiedSum // of records, by offset
}

// A placedRecord is one record in a segment.
type placedRecord struct {
	key Key
	off int64
	len int64
}

func newSegment(dir string, num uint64, size int64) (*segment, error) {
	f, err := os.OpenFile(path(dir, num, "segment"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	g := &segment{num: num, dir: dir, file: f, end: headSize, changed: true}
	_, _ = rand.Read(g.seed[:]) // cannot fail
	head := g.head()
	if err = f.Truncate(size); err == nil {
		_, err = f.WriteAt(append(head, head...), 0)
	}
	if err == nil {
		err = g.mmap(size)
	}
	if err != nil {
		f.Close()
		removeSegment(dir, num)
		return nil, err
	}
	return g, nil
}

// head returns one copy of the head.
func (g *segment) head() []byte {
	b := make([]byte, headCopy)
	copy(b, segmentMagic)
	binary.LittleEndian.PutUint64(b[32:], g.num)
	copy(b[40:], g.seed[:])
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

// readHead reads the seed from a copy of the head, and reports whether it is valid.
func (g *segment) readHead(b []byte) bool {
	copy(g.seed[:], b[40:])
	return bytes.Equal(b, g.head())
}

var errNoSegment = errors.New("not a segment of the cache")

func openSegment(dir string, num uint64) (*segment, error) {
	f, err := os.OpenFile(path(dir, num, "segment"), os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	g := &segment{num: num, dir: dir, file: f, end: headSize, changed: true}
	var head [headSize]byte
	info, err := f.Stat()
	if err == nil {
		_, err = f.ReadAt(head[:], 0)
	}
	if err == nil && !g.readHead(head[:headCopy]) && !g.readHead(head[headCopy:]) {
		err = errNoSegment
	}
	if err == nil {
		err = g.mmap(info.Size())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return g, nil
}

func (g *segment) mmap(size int64) (err error) {
	g.data, err = platform.Map(g.file, int(size))
	return err
}

// unmap releases the file of a dead segment when no record of it is in use.
func (g *segment) unmap() {
	if g.dead && g.refs == 0 && g.data != nil {
		_ = platform.Unmap(g.data) // cannot fail for mapped memory
		g.data = nil
		g.file.Close()
	}
}

// recordSize returns the size of a record in bytes.
func recordSize(meta []byte, body [][]byte) int64 {
	n := int64(recordHead + len(meta))
	for _, b := range body {
		n += int64(len(b))
	}
	return (n + align - 1) &^ (align - 1)
}

// append writes a record. If that fails, the end stays unchanged.
func (g *segment) append(k Key, meta []byte, body [][]byte) (off int64, err error) {
	head := make([]byte, recordHead, recordHead+len(meta))
	length, sum := 0, uint32(0)
	for _, b := range body {
		length += len(b)
		sum = crc32.Update(sum, castagnoli, b)
	}
	le := binary.LittleEndian
	le.PutUint32(head, recordMagic)
	le.PutUint64(head[8:], k.Lo)
	le.PutUint64(head[16:], k.Hi)
	le.PutUint32(head[24:], uint32(len(meta)))
	le.PutUint32(head[28:], uint32(length))
	le.PutUint32(head[32:], sum)
	le.PutUint32(head[36:], g.headSum(head[:36], meta))
	at := g.end
	g.changed = true
	for _, b := range append([][]byte{append(head, meta...)}, body...) {
		if len(b) == 0 {
			continue
		}
		if _, err := g.file.WriteAt(b, at); err != nil {
			return 0, err
		}
		at += int64(len(b))
	}
	off = g.end
	n := (at - off + align - 1) &^ (align - 1)
	g.list = append(g.list, placedRecord{key: k, off: off, len: n})
	g.end += n
	return off, nil
}

func (g *segment) headSum(head, meta []byte) uint32 {
	return crc32.Update(crc32.Update(crc32.Update(0, castagnoli, head), castagnoli, g.seed[:]), castagnoli, meta)
}

var (
	errDamaged = errors.New("the record is damaged")
	errWiped   = errors.New("the record no longer exists")
)

// lastWrite returns the time of the last write to the segment in Unix nanoseconds; 0 if unknown.
func (g *segment) lastWrite() int64 {
	info, err := g.file.Stat()
	if err != nil {
		return 0
	}
	return info.ModTime().UnixNano()
}

// read returns the record of k and verifies its checksums, that of the body only if sum is
// true. Pages that the disk cannot read give an error instead of ending the process.
func (g *segment) read(k Key, off, length int64, sum bool) (meta, body []byte, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading the cache's disk: %v", r)
		}
	}()
	l, meta, body, err := g.record(off)
	if err != nil {
		return nil, nil, err
	}
	if l.len != length || l.key.Lo != k.Lo && k.Lo != 1 || uint32(l.key.Hi) != uint32(k.Hi) {
		return nil, nil, errDamaged
	}
	if !sum {
		return meta, body, nil
	}
	right := crc32.Checksum(body, castagnoli) == binary.LittleEndian.Uint32(g.data[off+32:])
	if len(body) >= leastReleased {
		// The kernel sends it from the page cache; this process need not keep the pages.
		first := (off + recordHead + int64(len(meta)) + pageSize - 1) &^ (pageSize - 1)
		end := (off + length) &^ (pageSize - 1)
		platform.Forget(g.data[first:end])
	}
	if !right {
		return nil, nil, errDamaged
	}
	return meta, body, nil
}

// record reads the head of the record at off and verifies its checksum, but not the body's.
func (g *segment) record(off int64) (l placedRecord, meta, body []byte, err error) {
	size := int64(len(g.data))
	if off < headSize || off+recordHead > size {
		return l, nil, nil, errDamaged
	}
	le := binary.LittleEndian
	head := g.data[off : off+recordHead]
	m, b := int64(le.Uint32(head[24:])), int64(le.Uint32(head[28:]))
	end := off + recordHead + m + b
	switch {
	case le.Uint32(head) == 0:
		return l, nil, nil, errWiped
	case le.Uint32(head) != recordMagic, end > size:
		return l, nil, nil, errDamaged
	}
	meta = g.data[off+recordHead : off+recordHead+m : off+recordHead+m]
	body = g.data[off+recordHead+m : end : end]
	if g.headSum(head[:36], meta) != le.Uint32(head[36:]) {
		return l, nil, nil, errDamaged
	}
	l = placedRecord{key: Key{Lo: le.Uint64(head[8:]), Hi: le.Uint64(head[16:])}, off: off, len: (end - off + align - 1) &^ (align - 1)}
	return l, meta, body, nil
}

// load adds the content of the segment to the index.
func (g *segment) load(s *Store) {
	if !g.readList() {
		s.Damaged.Add(g.scan())
	} else {
		s.Damaged.Add(g.scanOn())
	}
	for _, l := range g.list {
		s.wipeOlder(l.key)
		s.index.put(l.key, entry{seg: uint16(g.num), off: uint32(l.off / align), len: uint32(l.len / align)})
	}
}

// wipe overwrites the head of the record at off.
func (g *segment) wipe(off int64) error {
	g.changed = true
	var nothing [recordHead]byte
	_, err := g.file.WriteAt(nothing[:], off)
	return err
}

// scan reads the records one after another.
func (g *segment) scan() (damaged int64) {
	g.list, g.end = g.list[:0], headSize
	return g.scanOn()
}

// scanOn reads the records after the end. It skips a damaged one, so that later ones, which
// may be removals, still count.
func (g *segment) scanOn() (damaged int64) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil { // an unreadable page ends the segment
			damaged++
		}
	}()
	for at, next := g.end, g.end; at+recordHead <= int64(len(g.data)); {
		l, _, _, err := g.record(at)
		if err == nil {
			g.list = append(g.list, l)
			at += l.len
			g.end, next = at, at
			continue
		}
		// Bytes that resemble a record in a damaged one are not counted.
		if err != errWiped && at >= next {
			damaged++
			next = g.nextRecord(at)
		}
		if at = g.nextMagic(at + align); at < 0 {
			break
		}
	}
	return damaged
}

// nextRecord returns where the record after a damaged one may begin, as far as its lengths are
// credible.
func (g *segment) nextRecord(at int64) int64 {
	if at+recordHead > int64(len(g.data)) {
		return at
	}
	le := binary.LittleEndian
	return at + recordHead + int64(le.Uint32(g.data[at+24:])) + int64(le.Uint32(g.data[at+28:]))
}

// nextMagic returns the next offset, from at on, at which a record may begin; negative if
// there is none.
func (g *segment) nextMagic(at int64) int64 {
	var magic [4]byte
	binary.LittleEndian.PutUint32(magic[:], recordMagic)
	for at < int64(len(g.data)) {
		i := bytes.Index(g.data[at:], magic[:])
		if i < 0 {
			return -1
		}
		if at += int64(i); at%align == 0 {
			return at
		}
		at++
	}
	return -1
}

// clear erases the bytes after the end: remains of an interrupted write must not follow the
// next record.
func (g *segment) clear() error {
	size := int64(len(g.data))
	if err := g.file.Truncate(g.end); err != nil {
		return err
	}
	return g.file.Truncate(size)
}

// close ends the segment and writes its list.
func (g *segment) close() {
	if !g.closed {
		g.closed = true
		g.writeList()
		_ = atomicfile.Sync(g.file) // data lost in a power cut is recognised as damaged, and fetched again
	}
}

// The list of a segment: number and end of the segment, then for each record key, offset and
// length in units of align; then CRC-32C of all that.
const listedSize = 24

func (g *segment) writeList() {
	le := binary.LittleEndian
	b := make([]byte, 0, 16+len(g.list)*listedSize+4)
	b = le.AppendUint64(b, g.num)
	b = le.AppendUint64(b, uint64(g.end))
	for _, l := range g.list {
		b = le.AppendUint64(le.AppendUint64(b, l.key.Lo), l.key.Hi)
		b = le.AppendUint32(le.AppendUint32(b, uint32(l.off/align)), uint32(l.len/align))
	}
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	_ = atomicfile.WriteBytes(path(g.dir, g.num, "list"), 0o600, b) // without a list, the segment is read
}

// readList reads the list, and reports whether it is valid. The segment may have grown after
// its list was written.
func (g *segment) readList() bool {
	b, err := os.ReadFile(path(g.dir, g.num, "list"))
	le := binary.LittleEndian
	if err != nil || len(b) < 20 || (len(b)-20)%listedSize != 0 || le.Uint32(b[len(b)-4:]) != crc32.Checksum(b[:len(b)-4], castagnoli) || le.Uint64(b) != g.num {
		return false
	}
	end := int64(le.Uint64(b[8:]))
	if end > int64(len(g.data)) {
		return false
	}
	g.list = make([]placedRecord, 0, (len(b)-20)/listedSize)
	for b = b[16 : len(b)-4]; len(b) > 0; b = b[listedSize:] {
		g.list = append(g.list, placedRecord{key: Key{Lo: le.Uint64(b), Hi: le.Uint64(b[8:])}, off: int64(le.Uint32(b[16:])) * align, len: int64(le.Uint32(b[20:])) * align})
	}
	g.end = end
	return true
}
