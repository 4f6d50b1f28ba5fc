package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"shuultuur/atomicfile"
)

// A segment begins with headSize bytes: magic and number. Records follow, each
// on a multiple of align:
//
//	magic      4 bytes
//	kind       1 byte, 3 bytes 0
//	key        16 bytes, Lo first
//	meta       4 bytes, its length
//	body       4 bytes, its length
//	body sum   4 bytes, CRC-32C of the body
//	head sum   4 bytes, CRC-32C of all before it, the segment's number, and of meta
//	meta, body
//
// All numbers are little endian. The segment's number in the sum keeps records
// of an earlier file in the same place from being taken for its own.
const (
	headSize   = 64
	recordHead = 40
	align      = 8

	segmentMagic = "shuultuur cache 1\n"
	recordMagic  = 0x7c3e51a9

	kindObject  = 1
	kindRemoved = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type segment struct {
	num    uint64
	dir    string
	file   *os.File
	data   []byte // the file, mapped
	end    int64  // where the next record goes
	list   []listed
	closed bool // nothing is appended any more
	refs   int  // records that are out
	dead   bool // deleted, or of a closed store
}

// A listed is one record in a segment.
type listed struct {
	key  Key
	off  int64
	len  int64
	kind uint8
}

func newSegment(dir string, num uint64, size int64) (*segment, error) {
	f, err := os.OpenFile(path(dir, num, "segment"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	var head [headSize]byte
	copy(head[:], segmentMagic)
	binary.LittleEndian.PutUint64(head[32:], num)
	if err = f.Truncate(size); err == nil {
		_, err = f.WriteAt(head[:], 0)
	}
	g := &segment{num: num, dir: dir, file: f, end: headSize}
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

var errNoSegment = errors.New("not a segment of the cache")

func openSegment(dir string, num uint64) (*segment, error) {
	f, err := os.OpenFile(path(dir, num, "segment"), os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	g := &segment{num: num, dir: dir, file: f, end: headSize}
	var head [headSize]byte
	info, err := f.Stat()
	if err == nil {
		_, err = f.ReadAt(head[:], 0)
	}
	if err == nil && (string(head[:len(segmentMagic)]) != segmentMagic || binary.LittleEndian.Uint64(head[32:]) != num) {
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
	g.data, err = unix.Mmap(int(g.file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	return err
}

// unmap lets go of the file of a dead segment when no record of it is out.
func (g *segment) unmap() {
	if g.dead && g.refs == 0 && g.data != nil {
		_ = unix.Munmap(g.data) // fails for something that is not mapped only
		g.data = nil
		g.file.Close()
	}
}

// recordSize is how many bytes a record takes.
func recordSize(meta []byte, body [][]byte) int64 {
	n := int64(recordHead + len(meta))
	for _, b := range body {
		n += int64(len(b))
	}
	return (n + align - 1) &^ (align - 1)
}

// append writes a record. One that fails leaves the end where it is.
func (g *segment) append(k Key, kind uint8, meta []byte, body [][]byte) (off int64, err error) {
	head := make([]byte, recordHead, recordHead+len(meta))
	length, sum := 0, uint32(0)
	for _, b := range body {
		length += len(b)
		sum = crc32.Update(sum, castagnoli, b)
	}
	le := binary.LittleEndian
	le.PutUint32(head, recordMagic)
	head[4] = kind
	le.PutUint64(head[8:], k.Lo)
	le.PutUint64(head[16:], k.Hi)
	le.PutUint32(head[24:], uint32(len(meta)))
	le.PutUint32(head[28:], uint32(length))
	le.PutUint32(head[32:], sum)
	le.PutUint32(head[36:], g.headSum(head[:36], meta))
	at := g.end
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
	g.list = append(g.list, listed{key: k, off: off, len: n, kind: kind})
	g.end += n
	return off, nil
}

func (g *segment) headSum(head, meta []byte) uint32 {
	var num [8]byte
	binary.LittleEndian.PutUint64(num[:], g.num)
	return crc32.Update(crc32.Update(crc32.Update(0, castagnoli, head), castagnoli, num[:]), castagnoli, meta)
}

var errDamaged = errors.New("the record is damaged")

// read returns the record of k and compares its checksums. Pages that the disk
// cannot read are an error, not the end of the process.
func (g *segment) read(k Key, off, length int64) (meta, body []byte, err error) {
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
	if l.len != length || l.kind != kindObject || l.key.Lo != k.Lo && k.Lo != 1 || uint32(l.key.Hi) != uint32(k.Hi) {
		return nil, nil, errDamaged
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(g.data[off+32:]) {
		return nil, nil, errDamaged
	}
	return meta, body, nil
}

// record reads the head of the record at off and compares its checksum; the
// body's is not looked at.
func (g *segment) record(off int64) (l listed, meta, body []byte, err error) {
	size := int64(len(g.data))
	if off < headSize || off+recordHead > size {
		return l, nil, nil, errDamaged
	}
	le := binary.LittleEndian
	head := g.data[off : off+recordHead]
	m, b := int64(le.Uint32(head[24:])), int64(le.Uint32(head[28:]))
	end := off + recordHead + m + b
	if le.Uint32(head) != recordMagic || end > size {
		return l, nil, nil, errDamaged
	}
	meta = g.data[off+recordHead : off+recordHead+m : off+recordHead+m]
	body = g.data[off+recordHead+m : end : end]
	if g.headSum(head[:36], meta) != le.Uint32(head[36:]) {
		return l, nil, nil, errDamaged
	}
	l = listed{key: Key{Lo: le.Uint64(head[8:]), Hi: le.Uint64(head[16:])}, off: off, len: (end - off + align - 1) &^ (align - 1), kind: head[4]}
	return l, meta, body, nil
}

// load enters what is in the segment into the index.
func (g *segment) load(s *Store) {
	if !g.readList() {
		g.scan()
	}
	for _, l := range g.list {
		if l.kind == kindRemoved {
			s.index.remove(l.key)
			continue
		}
		s.index.put(l.key, entry{seg: uint16(g.num), off: uint32(l.off / align), len: uint32(l.len / align)})
	}
}

// scan reads the records one after another up to the first that is not whole.
func (g *segment) scan() {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { _ = recover() }() // a page that cannot be read ends the segment
	g.list, g.end = g.list[:0], headSize
	for {
		l, _, _, err := g.record(g.end)
		if err != nil {
			return
		}
		g.list = append(g.list, l)
		g.end += l.len
	}
}

// close ends the segment and writes its list.
func (g *segment) close() {
	if !g.closed {
		g.closed = true
		g.writeList()
		_ = g.file.Sync() // what is lost in a power cut is found damaged, and fetched again
	}
}

// The list of a segment: number and end of the segment, then for each record
// key, offset, length in units of align, and kind; then CRC-32C of it all.
const listedSize = 32

func (g *segment) writeList() {
	le := binary.LittleEndian
	b := make([]byte, 0, 16+len(g.list)*listedSize+4)
	b = le.AppendUint64(b, g.num)
	b = le.AppendUint64(b, uint64(g.end))
	for _, l := range g.list {
		b = le.AppendUint64(le.AppendUint64(b, l.key.Lo), l.key.Hi)
		b = le.AppendUint32(le.AppendUint32(b, uint32(l.off/align)), uint32(l.len/align))
		b = le.AppendUint64(b, uint64(l.kind))
	}
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	_ = atomicfile.WriteBytes(path(g.dir, g.num, "list"), 0o600, b) // without one the segment is read
}

// readList reads the list, and says whether it is whole. A segment that was
// appended to after its list was written is read beyond it.
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
	g.list = make([]listed, 0, (len(b)-20)/listedSize)
	for b = b[16 : len(b)-4]; len(b) > 0; b = b[listedSize:] {
		g.list = append(g.list, listed{key: Key{Lo: le.Uint64(b), Hi: le.Uint64(b[8:])}, off: int64(le.Uint32(b[16:])) * align, len: int64(le.Uint32(b[20:])) * align, kind: b[24]})
	}
	g.end = end
	for {
		l, _, _, err := g.record(g.end)
		if err != nil {
			return true
		}
		g.list = append(g.list, l)
		g.end += l.len
	}
}
