package document

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"errors"
	"io"
	"unicode/utf16"

	"github.com/klauspost/compress/flate"
	"github.com/ulikunitz/xz/lzma"

	"shuultuur/content/coding"
	"shuultuur/content/limit"
)

// This file handles 7z archives (7zFormat.txt of 7-Zip). Where their members are is said at their end, so
// an archive is kept until it is complete. A number in it is believed only as far as there are bytes for
// what it counts.

const (
	sevenMark  = "7z\xBC\xAF\x27\x1C"
	sevenStart = 32 // bytes of the head

	sevenMostHeader = 4 << 20 // bytes of an unpacked list of members

	idEnd, idHeader, idProperties, idMore, idStreams, idFiles = 0, 1, 2, 3, 4, 5

	idPackInfo, idUnpackInfo, idSubStreams, idSize, idDigests      = 6, 7, 8, 9, 10
	idFolder, idUnpackSize, idNumStreams, idEmpty, idNames, idCode = 11, 12, 13, 14, 17, 23
)

var errSeven = errors.New("malformed 7z archive")

// A sevenCoder is a step in which a stream is unpacked.
type sevenCoder struct {
	id    string
	props []byte
	in    int // streams that it reads, and writes
	out   int
}

// A sevenFolder is a packed stream, with one or more members one behind the other.
type sevenFolder struct {
	coders  []sevenCoder
	bound   [][2]uint64 // the stream that is read, and the one that is written
	packed  int         // streams that it is packed in
	sizes   []uint64    // of what the coders write
	members []uint64    // sizes
	digest  bool
}

// sevenStreams are the packed streams of an archive.
type sevenStreams struct {
	at      uint64
	sizes   []uint64
	folders []sevenFolder
}

// A sevenHeader reads the list of members.
type sevenHeader struct {
	p   []byte
	bad bool
}

func (h *sevenHeader) byte() byte {
	if len(h.p) == 0 {
		h.bad = true
		return 0
	}
	c := h.p[0]
	h.p = h.p[1:]
	return c
}

// number reads a number, whose first byte says how many follow.
func (h *sevenHeader) number() (v uint64) {
	first := h.byte()
	for i := range 8 {
		mask := byte(0x80) >> i
		if first&mask == 0 {
			return v | uint64(first&(mask-1))<<(8*i)
		}
		v |= uint64(h.byte()) << (8 * i)
	}
	return v
}

// count reads a number of things that have at least one byte or bit each.
func (h *sevenHeader) count() int {
	n := h.number()
	if n > uint64(len(h.p))*8 || n > mostMembers*8 {
		h.bad = true
		return 0
	}
	return int(n)
}

func (h *sevenHeader) bytes(n uint64) []byte {
	if n > uint64(len(h.p)) {
		h.bad = true
		n = uint64(len(h.p))
	}
	p := h.p[:n]
	h.p = h.p[n:]
	return p
}

// bits reads a vector of bits.
func (h *sevenHeader) bits(n int) []bool {
	p, all := h.bytes(uint64(n+7)/8), make([]bool, n)
	for i := range all {
		all[i] = i/8 < len(p) && p[i/8]&(0x80>>(i%8)) != 0
	}
	return all
}

// digests reads which of n things have a digest.
func (h *sevenHeader) digests(n int) []bool {
	var all []bool
	if h.byte() != 0 {
		all = make([]bool, n)
		for i := range all {
			all[i] = true
		}
	} else {
		all = h.bits(n)
	}
	for _, has := range all {
		if has {
			h.bytes(4)
		}
	}
	return all
}

func (h *sevenHeader) folder() (f sevenFolder) {
	in, out := 0, 0
	for range min(h.count(), 32) {
		flags := h.byte()
		c := sevenCoder{id: string(h.bytes(uint64(flags & 15))), in: 1, out: 1}
		if flags&0x10 != 0 {
			c.in, c.out = min(h.count(), 32), min(h.count(), 32)
		}
		if flags&0x20 != 0 {
			c.props = h.bytes(h.number())
		}
		in, out = in+c.in, out+c.out
		f.coders = append(f.coders, c)
	}
	for range max(0, out-1) {
		f.bound = append(f.bound, [2]uint64{h.number(), h.number()})
	}
	if f.packed = in - len(f.bound); f.packed > 1 {
		for range f.packed {
			h.number()
		}
	}
	h.bad = h.bad || out == 0 || f.packed < 1
	f.sizes = make([]uint64, out)
	return f
}

// streams reads where packed streams are and what they hold.
func (h *sevenHeader) streams() (s sevenStreams) {
	for !h.bad {
		switch h.byte() {
		case idEnd:
			return s
		case idPackInfo:
			s.at = h.number()
			n := h.count()
			for id := h.byte(); id != idEnd && !h.bad; id = h.byte() {
				switch id {
				case idSize:
					for range n {
						s.sizes = append(s.sizes, h.number())
					}
				case idDigests:
					h.digests(n)
				default:
					h.bad = true
				}
			}
		case idUnpackInfo:
			h.folders(&s)
		case idSubStreams:
			h.subStreams(&s)
		default:
			h.bad = true
		}
	}
	return s
}

func (h *sevenHeader) folders(s *sevenStreams) {
	for id := h.byte(); id != idEnd && !h.bad; id = h.byte() {
		switch id {
		case idFolder:
			n := h.count()
			h.bad = h.bad || h.byte() != 0 // they are elsewhere
			for range n {
				if h.bad {
					return
				}
				s.folders = append(s.folders, h.folder())
			}
		case idUnpackSize:
			for i := range s.folders {
				f := &s.folders[i]
				for j := range f.sizes {
					f.sizes[j] = h.number()
				}
				f.members = []uint64{f.size()}
			}
		case idDigests:
			for i, has := range h.digests(len(s.folders)) {
				s.folders[i].digest = has
			}
		default:
			h.bad = true
		}
	}
}

func (h *sevenHeader) subStreams(s *sevenStreams) {
	id := h.byte()
	if id == idNumStreams {
		for i := range s.folders {
			s.folders[i].members = make([]uint64, h.count())
		}
		id = h.byte()
	}
	for i := range s.folders {
		f := &s.folders[i]
		left := f.size()
		for j := range f.members {
			if f.members[j] = left; j < len(f.members)-1 && id == idSize {
				f.members[j] = min(h.number(), left)
			}
			left -= f.members[j]
		}
	}
	if id == idSize {
		id = h.byte()
	}
	if id == idDigests {
		n := 0
		for i := range s.folders {
			if f := &s.folders[i]; len(f.members) != 1 || !f.digest {
				n += len(f.members)
			}
		}
		h.digests(min(n, 8*len(h.p)))
		id = h.byte()
	}
	h.bad = h.bad || id != idEnd
}

// files reads the names of the members that have content, in their order, and of those that have none.
func (h *sevenHeader) files() (names, empty []string) {
	n := h.count()
	var all []string
	var none []bool
	for id := h.byte(); id != idEnd && !h.bad; id = h.byte() {
		in := sevenHeader{p: h.bytes(h.number())}
		switch id {
		case idEmpty:
			none = in.bits(n)
		case idNames:
			h.bad = h.bad || in.byte() != 0
			var name []uint16
			for ; len(in.p) > 1 && len(all) < n; in.p = in.p[2:] {
				if c := binary.LittleEndian.Uint16(in.p); c != 0 {
					name = append(name, c)
					continue
				}
				all, name = append(all, string(utf16.Decode(name))), name[:0]
			}
		}
	}
	for i := range n {
		name := ""
		if i < len(all) {
			name = all[i]
		}
		if i < len(none) && none[i] {
			empty = append(empty, name)
		} else {
			names = append(names, name)
		}
	}
	return names, empty
}

// size is the length of what a folder holds.
func (f *sevenFolder) size() uint64 {
	for i := range f.sizes {
		written := false
		for _, b := range f.bound {
			written = written || b[1] == uint64(i)
		}
		if !written {
			return f.sizes[i]
		}
	}
	return 0
}

// open returns what a folder holds, packed in p.
func (f *sevenFolder) open(p []byte) (io.Reader, error) {
	for i := range f.coders {
		switch c := &f.coders[i]; {
		case c.id == "\x06\xF1\x07\x01":
			return nil, errEncrypted
		case c.in != 1 || c.out != 1:
			return nil, errMethod
		}
	}
	if len(f.bound) != len(f.coders)-1 {
		return nil, errSeven
	}
	next := map[uint64]uint64{} // the coder that reads what another writes
	first := make([]bool, len(f.coders))
	for _, b := range f.bound {
		if b[0] >= uint64(len(first)) || b[1] >= uint64(len(first)) || first[b[0]] {
			return nil, errSeven
		}
		next[b[1]], first[b[0]] = b[0], true
	}
	at := uint64(0)
	for at < uint64(len(first)) && first[at] {
		at++
	}
	var r io.Reader = bytes.NewReader(p)
	for range f.coders {
		if at >= uint64(len(f.coders)) {
			return nil, errSeven
		}
		var err error
		if r, err = f.coders[at].open(r, f.sizes[at]); err != nil {
			return nil, err
		}
		r = io.LimitReader(r, int64(f.sizes[at]&(1<<62-1)))
		to, more := next[at]
		if !more {
			break
		}
		at = to
	}
	return r, nil
}

// open unpacks a stream of size bytes.
func (c *sevenCoder) open(r io.Reader, size uint64) (io.Reader, error) {
	switch c.id {
	case "\x00", "\x03\x03\x01\x03", "\x04": // of programs: of text it changes nothing
		return r, nil
	case "\x03\x01\x01":
		if len(c.props) != 5 || binary.LittleEndian.Uint32(c.props[1:]) > rarWindow {
			return nil, errMethod
		}
		head := binary.LittleEndian.AppendUint64(bytes.Clone(c.props), size)
		return lzma.ReaderConfig{DictCap: rarWindow}.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(head), r)))
	case "\x21":
		if len(c.props) != 1 || c.props[0] > 40 {
			return nil, errSeven
		}
		window := uint64(2|c.props[0]&1) << (c.props[0]/2 + 11)
		if window = min(window, max(size, lzma.MinDictCap)); window > rarWindow {
			return nil, errMethod
		}
		return lzma.Reader2Config{DictCap: int(max(window, lzma.MinDictCap))}.NewReader2(bufio.NewReader(r))
	case "\x03":
		if len(c.props) != 1 {
			return nil, errSeven
		}
		return &deltaReader{r: r, distance: int(c.props[0]) + 1}, nil
	case "\x04\x01\x08":
		return flate.NewReader(r), nil
	case "\x04\x02\x02":
		return bzip2.NewReader(r), nil
	}
	return nil, errMethod
}

// A deltaReader adds each byte to the one a distance before.
type deltaReader struct {
	r        io.Reader
	distance int
	at       int
	last     [256]byte
}

func (d *deltaReader) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	for i := range p[:n] {
		p[i] += d.last[d.at]
		d.last[d.at] = p[i]
		d.at = (d.at + 1) % d.distance
	}
	return n, err
}

// sevenZip reads a 7z archive.
func (m *memberReader) sevenZip(r *bufio.Reader) error {
	most := m.source.Limits.Ends
	if most <= 0 {
		most = limit.DefaultEnds
	}
	p, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return coding.Unexpected(err)
	case int64(len(p)) > most:
		return errMost
	case len(p) < sevenStart || string(p[:len(sevenMark)]) != sevenMark:
		return io.ErrUnexpectedEOF
	}
	if memory := m.source.Limits.Memory; memory != nil {
		if !memory.Acquire(rarWindow) {
			return errNoRoom
		}
		defer memory.Release(rarWindow)
	}
	from, size := binary.LittleEndian.Uint64(p[12:]), binary.LittleEndian.Uint64(p[20:])
	body := p[sevenStart:]
	if size == 0 {
		return nil
	}
	if from > uint64(len(body)) || size > uint64(len(body))-from {
		return io.ErrUnexpectedEOF
	}
	h := sevenHeader{p: body[from : from+size]}
	id := h.byte()
	for range mostLayered {
		if id != idCode {
			break
		}
		s := h.streams()
		if h.bad || len(s.folders) != 1 {
			return errSeven
		}
		list, err := s.open(0, body)
		if err != nil {
			return err
		}
		all, err := io.ReadAll(io.LimitReader(list, sevenMostHeader+1))
		if err != nil {
			return err
		}
		if len(all) > sevenMostHeader {
			return errMost
		}
		h = sevenHeader{p: all}
		id = h.byte()
	}
	if id != idHeader {
		return errSeven
	}
	return m.sevenMembers(&h, body)
}

// mostLayered is how often a list of members is packed.
const mostLayered = 2

// open returns what a folder holds.
func (s *sevenStreams) open(folder int, body []byte) (io.Reader, error) {
	n, at := 0, s.at
	for i := range folder {
		n += s.folders[i].packed
	}
	if n >= len(s.sizes) {
		return nil, errSeven
	}
	for _, size := range s.sizes[:n] {
		at += size
	}
	if size := s.sizes[n]; at > uint64(len(body)) || size > uint64(len(body))-at {
		return nil, io.ErrUnexpectedEOF
	}
	return s.folders[folder].open(body[at : at+s.sizes[n]])
}

// sevenMembers reads the members that h lists.
func (m *memberReader) sevenMembers(h *sevenHeader, body []byte) error {
	var s sevenStreams
	var names, empty []string
	for id := h.byte(); id != idEnd && !h.bad; id = h.byte() {
		switch id {
		case idStreams:
			s = h.streams()
		case idMore:
			h.streams()
		case idFiles:
			names, empty = h.files()
		case idProperties:
			for id := h.byte(); id != idEnd && !h.bad; id = h.byte() {
				h.bytes(h.number())
			}
		default:
			h.bad = true
		}
	}
	if h.bad {
		return errSeven
	}
	for _, name := range empty {
		m.addName(name)
	}
	for i := range s.folders {
		r, err := s.open(i, body)
		for _, size := range s.folders[i].members {
			name := ""
			if len(names) > 0 {
				name, names = names[0], names[1:]
			}
			if err != nil {
				m.addName(name)
				continue
			}
			if m.count > mostMembers {
				return errMost
			}
			in := io.LimitReader(r, int64(size&(1<<62-1)))
			if err = m.member(name, in); err == nil {
				_, err = io.Copy(io.Discard, in)
			}
			if errors.Is(err, errMost) || errors.Is(err, limit.ErrTookTooLong) || errors.Is(err, limit.ErrBomb) {
				return err
			}
		}
		m.note(err) // another folder may be read
	}
	return nil
}
