package coding

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math/bits"
)

// Why this package has its own inflate: decompressing gzip is the greatest single cost of
// scanning a page. Other decoders read through an io.ByteReader and copy their output from a
// window. This one reads eight bytes at a time from the piece and returns parts of its window.

const (
	litBits    = 11 // bits of a lookup in the table of literals and lengths
	distBits   = 8
	windowSize = 32 << 10
	maxMatch   = 258
	// outSize is the window, decoded bytes not yet returned, and room for the fast loop to
	// write past the end of a match.
	outSize = windowSize + 96<<10 + 3 + maxMatch + 16
)

// Entries of the decoding tables:
//
//	bits 0-7    bits to consume: of the code and of its extra bits
//	bits 8-11   bits of the code; in a link, bits to look up in the subtable
//	bit 13      end of block
//	bit 14      link to a subtable
//	bit 15      none of a literal, a length or a distance
//	bits 16-30  literal, or base of the length or distance; start of a subtable
//	bit 31      literal
const (
	isEnd     = 1 << 13
	isLink    = 1 << 14
	isSpecial = 1 << 15
	isLiteral = 1 << 31
)

var errCorrupt = errors.New("corrupt input")

// A blockState is the next element in a deflate stream.
type blockState uint8

const (
	atHeader blockState = iota
	inCodes
	inStored
	atEnd
)

// An inflater decompresses deflate (RFC 1951).
type inflater struct {
	src    source
	stream *Stream // until its memory is claimed
	in     []byte  // not yet read
	bits   uint64  // read but not yet used, from the lowest
	n      uint    // how many

	state    blockState
	last     bool // the block is the last
	stored   int  // bytes left in the block
	given, w int  // out[given:w] is decoded and not yet returned

	litMask, distMask uint64
	lit               [4096]uint32 // 2342 are enough for any code (zlib's enough.c)
	dist              [512]uint32  // 402 are enough
	lens              [320]uint8
	out               [outSize]byte
}

func (d *inflater) reset(src source) {
	d.src, d.in, d.bits, d.n = src, nil, 0, 0
	d.restart()
}

// restart begins another deflate stream in the same input.
func (d *inflater) restart() {
	d.state, d.last = atHeader, false
	d.given, d.w = 0, 0
}

// fill gets more input.
func (d *inflater) fill() error {
	in, err := d.src.next()
	if len(in) == 0 && err != nil {
		return Unexpected(err)
	}
	d.in = in
	return nil
}

// need ensures that there are at least n (up to 56) bits.
func (d *inflater) need(n uint) error {
	for d.n < n {
		if len(d.in) == 0 {
			if err := d.fill(); err != nil {
				return err
			}
			continue
		}
		d.bits |= uint64(d.in[0]) << d.n
		d.in = d.in[1:]
		d.n += 8
	}
	return nil
}

// take returns n bits, which need must have ensured.
func (d *inflater) take(n uint) uint64 {
	v := d.bits & (1<<n - 1)
	d.bits >>= n
	d.n -= n
	return v
}

// block returns the next decoded bytes, io.EOF at the end of the stream. It returns decoded
// bytes before it asks for more input, which may require waiting.
func (d *inflater) block() ([]byte, error) {
	if s := d.stream; s != nil {
		d.stream = nil
		if err := s.claim(outSize); err != nil {
			return nil, err
		}
	}
	if d.w > outSize-maxMatch-64 {
		d.given = copy(d.out[:], d.out[d.w-windowSize:d.w])
		d.w = d.given
	}
	for {
		var err error
		full := false
		switch d.state {
		case atHeader:
			if d.w > d.given {
				return d.give(), nil
			}
			if err := d.header(); err != nil {
				return nil, err
			}
			continue // the available bits may suffice
		case inStored:
			full = d.copyStored()
		case inCodes:
			full, err = d.codes()
		case atEnd:
			if d.w > d.given {
				return d.give(), nil
			}
			return nil, io.EOF
		}
		if err != nil {
			return d.give(), err
		}
		if full {
			return d.give(), nil
		}
		if len(d.in) > 0 || d.state == atHeader {
			continue
		}
		if d.w > d.given {
			return d.give(), nil
		}
		if err := d.fill(); err != nil {
			return nil, err
		}
	}
}

func (d *inflater) give() []byte {
	p := d.out[d.given:d.w]
	d.given = d.w
	return p
}

// header reads the header of a block.
func (d *inflater) header() error {
	if d.last {
		d.state = atEnd
		return nil
	}
	if err := d.need(3); err != nil {
		return err
	}
	d.last = d.take(1) == 1
	switch d.take(2) {
	case 0:
		return d.storedHeader()
	case 1:
		d.fixedCodes()
	case 2:
		if err := d.dynamicCodes(); err != nil {
			return err
		}
	default:
		return errCorrupt
	}
	d.state = inCodes
	return nil
}

func (d *inflater) storedHeader() error {
	d.take(d.n & 7)
	if err := d.need(32); err != nil {
		return err
	}
	n, not := d.take(16), d.take(16)
	if n != ^not&0xFFFF {
		return errCorrupt
	}
	d.stored = int(n)
	d.state = inStored
	if n == 0 {
		d.state = atHeader
	}
	return nil
}

// copyStored copies the available part of a stored block, and reports whether there is no more
// room.
func (d *inflater) copyStored() bool {
	for d.stored > 0 && d.n >= 8 && d.w < outSize {
		d.out[d.w] = byte(d.take(8))
		d.w++
		d.stored--
	}
	if d.n < 8 {
		n := copy(d.out[d.w:min(outSize, d.w+d.stored)], d.in)
		d.w += n
		d.stored -= n
		d.in = d.in[n:]
	}
	if d.stored == 0 {
		d.state = atHeader
		return false
	}
	return d.w > outSize-maxMatch-64
}

func (d *inflater) fixedCodes() {
	for i := range 288 {
		switch {
		case i < 144:
			d.lens[i] = 8
		case i < 256:
			d.lens[i] = 9
		case i < 280:
			d.lens[i] = 7
		default:
			d.lens[i] = 8
		}
	}
	for i := range 32 {
		d.lens[288+i] = 5
	}
	b, _ := buildTable(d.lit[:], d.lens[:288], litBits, &litEntries)
	d.litMask = 1<<b - 1
	b, _ = buildTable(d.dist[:], d.lens[288:], distBits, &distEntries)
	d.distMask = 1<<b - 1
}

// lenOrder is the order in which the lengths of the code for code lengths are
// sent (RFC 1951, 3.2.7).
var lenOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

func (d *inflater) dynamicCodes() error {
	if err := d.need(14); err != nil {
		return err
	}
	nLit, nDist, nLen := int(d.take(5))+257, int(d.take(5))+1, int(d.take(4))+4
	if nLit > 286 || nDist > 30 {
		return errCorrupt
	}
	var lens [19]uint8
	for _, at := range lenOrder[:nLen] {
		if err := d.need(3); err != nil {
			return err
		}
		lens[at] = uint8(d.take(3))
	}
	b, ok := buildTable(d.dist[:], lens[:], 7, &lenEntries)
	if !ok {
		return errCorrupt
	}
	if err := d.codeLengths(nLit+nDist, 1<<b-1); err != nil {
		return err
	}
	if b, ok = buildTable(d.dist[:], d.lens[nLit:nLit+nDist], distBits, &distEntries); !ok {
		return errCorrupt
	}
	d.distMask = 1<<b - 1
	if b, ok = buildTable(d.lit[:], d.lens[:nLit], litBits, &litEntries); !ok {
		return errCorrupt
	}
	d.litMask = 1<<b - 1
	return nil
}

// codeLengths reads n code lengths with the code in d.dist.
func (d *inflater) codeLengths(n int, mask uint64) error {
	for i := 0; i < n; {
		e := d.dist[d.bits&mask]
		for e&isSpecial != 0 || uint(e&0xFF) > d.n {
			if e&isSpecial != 0 && d.n >= 7 {
				return errCorrupt
			}
			if err := d.need(d.n + 1); err != nil {
				return err
			}
			e = d.dist[d.bits&mask]
		}
		d.take(uint(e & 0xFF))
		sym := e >> 16
		if sym < 16 {
			d.lens[i] = uint8(sym)
			i++
			continue
		}
		var v uint8
		extra, times := uint(2), 3
		switch sym {
		case 16:
			if i == 0 {
				return errCorrupt
			}
			v = d.lens[i-1]
		case 17:
			extra = 3
		default:
			extra, times = 7, 11
		}
		if err := d.need(extra); err != nil {
			return err
		}
		times += int(d.take(extra))
		if i+times > n {
			return errCorrupt
		}
		for range times {
			d.lens[i] = v
			i++
		}
	}
	return nil
}

// codes decodes until the block ends, room runs out (full) or input does.
func (d *inflater) codes() (full bool, err error) {
	for {
		if len(d.in) >= 16 && d.w <= outSize-maxMatch-64 {
			if err := d.fast(); err != nil || d.state != inCodes {
				return false, err
			}
		}
		if d.w > outSize-maxMatch-64 {
			return true, nil
		}
		ok, err := d.symbol()
		if err != nil || d.state != inCodes {
			return false, err
		}
		if ok {
			continue
		}
		if len(d.in) == 0 {
			return false, nil
		}
		if err := d.need(d.n + 1); err != nil {
			return false, err
		}
	}
}

// symbol decodes one literal or match with the available bits. If they are too few, it does
// nothing. (A code found with fewer bits than its length is not one.)
func (d *inflater) symbol() (ok bool, err error) {
	b, n := d.bits, d.n
	e := d.lit[b&d.litMask&4095]
	if e&isLink != 0 {
		if uint(e&0xFF) > n {
			return false, nil
		}
		b >>= e & 63
		n -= uint(e & 0xFF)
		e = d.lit[(uint64(e>>16)+b&(1<<(e>>8&15)-1))&4095]
	}
	if uint(e&0xFF) > n {
		return false, nil
	}
	switch {
	case e&isEnd != 0:
		d.state = atHeader
	case e&isLiteral != 0:
		d.out[d.w] = byte(e >> 16)
		d.w++
	case e&isSpecial != 0:
		if n < 15 { // it may be a longer code
			return false, nil
		}
		return false, errCorrupt
	default:
		length := int(e>>16) + int(b&(1<<(e&63)-1)>>(e>>8&15))
		b >>= e & 63
		n -= uint(e & 0xFF)
		e = d.dist[b&d.distMask&511]
		if e&isLink != 0 {
			if uint(e&0xFF) > n {
				return false, nil
			}
			b >>= e & 63
			n -= uint(e & 0xFF)
			e = d.dist[(uint64(e>>16)+b&(1<<(e>>8&15)-1))&511]
		}
		if uint(e&0xFF) > n {
			return false, nil
		}
		if e&isSpecial != 0 {
			if n < 15 {
				return false, nil
			}
			return false, errCorrupt
		}
		distance := int(e>>16) + int(b&(1<<(e&63)-1)>>(e>>8&15))
		if distance > d.w {
			return false, errCorrupt
		}
		for range length {
			d.out[d.w] = d.out[d.w-distance]
			d.w++
		}
	}
	d.bits = b >> (e & 63)
	d.n = n - uint(e&0xFF)
	return true, nil
}

// fast decodes while there is room for the longest match and input for two refills, without
// checking every bit. Long because it is the hot loop: its state stays in registers, which
// calls would spill for every symbol.
func (d *inflater) fast() error {
	in, i := d.in, 0
	b, n := d.bits, d.n
	w := d.w
	out := &d.out
	lit, dist := &d.lit, &d.dist
	litMask, distMask := d.litMask&4095, d.distMask&511
	var err error
loop:
	for i+16 <= len(in) && w <= outSize-maxMatch-64 {
		// Refill to at least 56 bits. The bits above n are correct, too: they will be read
		// again.
		b |= binary.LittleEndian.Uint64(in[i:]) << (n & 63)
		i += int(63-n) >> 3
		n |= 56
		e := lit[b&litMask]
		if e&isLiteral != 0 {
			out[w] = byte(e >> 16)
			w++
			b >>= e & 63
			n -= uint(e & 63)
			e = lit[b&litMask]
			if e&isLiteral != 0 {
				out[w] = byte(e >> 16)
				w++
				b >>= e & 63
				n -= uint(e & 63)
				e = lit[b&litMask]
				if e&isLiteral != 0 {
					out[w] = byte(e >> 16)
					w++
					b >>= e & 63
					n -= uint(e & 63)
					continue
				}
			}
		}
		if e&isSpecial != 0 {
			if e&isLink != 0 {
				b >>= e & 63
				n -= uint(e & 63)
				e = lit[(uint64(e>>16)+b&(1<<(e>>8&15)-1))&4095]
			}
			switch {
			case e&isLiteral != 0:
				out[w] = byte(e >> 16)
				w++
				b >>= e & 63
				n -= uint(e & 63)
				continue
			case e&isEnd != 0:
				b >>= e & 63
				n -= uint(e & 63)
				d.state = atHeader
				break loop
			case e&isSpecial != 0:
				err = errCorrupt
				break loop
			}
		}
		length := int(e>>16) + int(b&(1<<(e&63)-1)>>(e>>8&15))
		b >>= e & 63
		n -= uint(e & 63)

		b |= binary.LittleEndian.Uint64(in[i:]) << (n & 63)
		i += int(63-n) >> 3
		n |= 56
		e = dist[b&distMask]
		if e&isSpecial != 0 {
			if e&isLink != 0 {
				b >>= e & 63
				n -= uint(e & 63)
				e = dist[(uint64(e>>16)+b&(1<<(e>>8&15)-1))&511]
			}
			if e&isSpecial != 0 {
				err = errCorrupt
				break loop
			}
		}
		distance := int(e>>16) + int(b&(1<<(e&63)-1)>>(e>>8&15))
		b >>= e & 63
		n -= uint(e & 63)
		if distance > w {
			err = errCorrupt
			break loop
		}
		from, to := w-distance, w+length
		if distance >= 8 {
			// Nearly all matches have at most 32 bytes, so no loop end is mispredicted. If
			// they overlap, an earlier store feeds a later load.
			s, t := out[from:from+32], out[w:w+32]
			binary.LittleEndian.PutUint64(t, binary.LittleEndian.Uint64(s))
			binary.LittleEndian.PutUint64(t[8:], binary.LittleEndian.Uint64(s[8:]))
			binary.LittleEndian.PutUint64(t[16:], binary.LittleEndian.Uint64(s[16:]))
			binary.LittleEndian.PutUint64(t[24:], binary.LittleEndian.Uint64(s[24:]))
			for w += 32; w < to; w += 8 {
				binary.LittleEndian.PutUint64(out[w:], binary.LittleEndian.Uint64(out[w-distance:]))
			}
			w = to
			continue
		}
		for w < to {
			out[w] = out[from]
			w++
			from++
		}
	}
	d.in = in[i:]
	d.bits, d.n = b&(1<<n-1), n
	d.w = w
	return err
}

// The entries for symbols, without the length of their codes.
var litEntries, distEntries, lenEntries = newEntries()

func newEntries() (lit, dist, lens [288]uint32) {
	for i := range lit {
		lit[i], dist[i], lens[i] = isSpecial, isSpecial, isSpecial
	}
	for i := range 256 {
		lit[i] = isLiteral | uint32(i)<<16
	}
	lit[256] = isSpecial | isEnd
	base := uint32(3)
	for i := range uint32(28) {
		extra := uint32(0)
		if i >= 8 {
			extra = i/4 - 1
		}
		lit[257+i] = base<<16 | extra
		base += 1 << extra
	}
	lit[285] = 258 << 16
	base = 1
	for i := range uint32(30) {
		extra := uint32(0)
		if i >= 4 {
			extra = i/2 - 1
		}
		dist[i] = base<<16 | extra
		base += 1 << extra
	}
	for i := range uint32(19) {
		lens[i] = i << 16
	}
	return lit, dist, lens
}

// buildTable makes the decoding table of the canonical code with these lengths. It returns the
// number of bits for the first lookup. A code must be complete, or empty, or have one symbol
// of one bit.
func buildTable(t []uint32, lens []uint8, most int, entries *[288]uint32) (enter int, ok bool) {
	var count, next [17]int
	for _, l := range lens {
		count[l&15]++
	}
	count[0] = 0
	longest, left := 0, 1
	for l := 1; l <= 15; l++ {
		left = left<<1 - count[l]
		if left < 0 {
			return 0, false
		}
		if count[l] > 0 {
			longest = l
		}
		next[l+1] = (next[l] + count[l]) << 1
	}
	enter = min(most, longest)
	if left > 0 {
		if longest > 1 {
			return 0, false
		}
		t[0], t[1] = isSpecial, isSpecial
	}
	free := 1 << enter
	link, linkBits := -1, 0
	// Symbols by length, so that those of a subtable are adjacent.
	var order [288]uint16
	at := [17]int{}
	for l := 1; l <= 15; l++ {
		at[l+1] = at[l] + count[l]
	}
	total := at[16]
	for sym, l := range lens {
		if l > 0 {
			order[at[l]] = uint16(sym)
			at[l]++
		}
	}
	for _, sym := range order[:total] {
		l := int(lens[sym])
		code := int(bits.Reverse16(uint16(next[l])) >> (16 - l))
		next[l]++
		e := entries[sym]
		if l <= enter {
			e += uint32(l) | uint32(l)<<8
			for j := code; j < 1<<enter; j += 1 << l {
				t[j] = e
			}
			continue
		}
		if prefix := code & (1<<enter - 1); prefix != link {
			link, linkBits = prefix, l-enter
			for room := 1 << linkBits; linkBits+enter < longest; room <<= 1 {
				if room -= count[linkBits+enter]; room <= 0 {
					break
				}
				linkBits++
			}
			t[link] = isSpecial | isLink | uint32(free)<<16 | uint32(linkBits)<<8 | uint32(enter)
			free += 1 << linkBits
		}
		start := int(t[link] >> 16)
		e += uint32(l-enter) | uint32(l-enter)<<8
		for j := code >> enter; j < 1<<linkBits; j += 1 << (l - enter) {
			t[start+j] = e
		}
		count[l]-- // from here on, count is the rest for subtables
	}
	return enter, true
}

// A gzipDecoder decompresses gzip (RFC 1952), including several members. It ignores anything
// else after the last member, as browsers do.
type gzipDecoder struct {
	inflater
	within bool // a member has begun
	any    bool // a member has ended
	crc    uint32
	size   uint32
}

func (d *gzipDecoder) open(src source, s *Stream) {
	d.stream = s
	d.reset(src)
	d.within, d.any = false, false
}

func (d *gzipDecoder) close() {
	d.src, d.in, d.stream = nil, nil, nil
	gzips.Put(d)
}

func (d *gzipDecoder) next() ([]byte, error) {
	for {
		if !d.within {
			if err := d.member(); err != nil {
				return nil, err
			}
		}
		p, err := d.block()
		d.crc = crc32.Update(d.crc, crc32.IEEETable, p)
		d.size += uint32(len(p))
		if !errors.Is(err, io.EOF) {
			return p, err
		}
		if err := d.trailer(); err == io.ErrUnexpectedEOF {
			return nil, io.EOF
		} else if err != nil {
			return nil, err
		}
	}
}

// member reads the header of a member.
func (d *gzipDecoder) member() error {
	if err := d.need(16); err != nil {
		if d.any && err == io.ErrUnexpectedEOF {
			return io.EOF
		}
		return err
	}
	if d.take(16) != 0x8B1F {
		if d.any {
			return io.EOF
		}
		return errors.New("no gzip header")
	}
	if err := d.need(16); err != nil {
		return err
	}
	method, flags := d.take(8), d.take(8)
	if method != 8 {
		return fmt.Errorf("gzip compression method %d is unknown", method)
	}
	if err := d.discard(6); err != nil { // time, flags, system
		return err
	}
	if flags&4 != 0 { // extra field
		if err := d.need(16); err != nil {
			return err
		}
		if err := d.discard(int(d.take(16))); err != nil {
			return err
		}
	}
	for _, flag := range []uint64{8, 16} { // name, comment
		for flags&flag != 0 {
			if err := d.need(8); err != nil {
				return err
			}
			if d.take(8) == 0 {
				break
			}
		}
	}
	if flags&2 != 0 {
		if err := d.discard(2); err != nil {
			return err
		}
	}
	d.restart()
	d.within = true
	d.crc, d.size = 0, 0
	return nil
}

func (d *inflater) discard(n int) error {
	for range n {
		if err := d.need(8); err != nil {
			return err
		}
		d.take(8)
	}
	return nil
}

// trailer reads past checksum and length. Browsers show a body that lacks them, or that has wrong
// ones: it has ended by then.
func (d *gzipDecoder) trailer() error {
	d.take(d.n & 7)
	for range 2 {
		if err := d.need(32); err != nil {
			return err
		}
		d.take(32)
	}
	d.within, d.any = false, true
	return nil
}

// A deflateDecoder reads zlib (RFC 1950), the meaning of "deflate" in RFC 9110 section
// 8.4.1.2, and the bare deflate that some servers send. Like browsers, it reads input as bare
// deflate if it begins like zlib but is not.
type deflateDecoder struct {
	inflater
	tape  tape
	begun bool
	bare  bool
	sum   hash.Hash32
}

func (d *deflateDecoder) open(src source, s *Stream) {
	d.tape = tape{source: src, seen: d.tape.seen[:0], on: true}
	d.reset(&d.tape)
	d.stream = s
	d.begun, d.bare = false, false
}

func (d *deflateDecoder) close() {
	d.src, d.in, d.stream, d.tape.source = nil, nil, nil, nil
	deflates.Put(d)
}

// A tape is a source whose beginning can be read again.
type tape struct {
	source
	seen  []byte
	on    bool
	again bool
}

const tapeLen = 2 * partSize

func (t *tape) next() ([]byte, error) {
	if t.again {
		t.again = false
		return t.seen, nil
	}
	p, err := t.source.next()
	if t.on {
		if t.on = len(t.seen)+len(p) <= tapeLen; t.on {
			t.seen = append(t.seen, p...)
		}
	}
	return p, err
}

func (d *deflateDecoder) next() ([]byte, error) {
	if !d.begun {
		if err := d.need(16); err != nil {
			return nil, err
		}
		d.begun = true
		d.sum.Reset()
		head := uint(d.bits & 0xFFFF)
		d.bare = head&0x0F != 8 || head&0x2000 != 0 || (head<<8|head>>8)&0xFFFF%31 != 0
		if !d.bare {
			d.take(16)
		}
	}
	p, err := d.block()
	if err == errCorrupt && !d.bare && d.tape.on {
		d.bare, d.tape.on, d.tape.again = true, false, true
		d.reset(&d.tape)
		if len(p) > 0 {
			return p, nil
		}
		p, err = d.block()
	}
	if !d.bare {
		d.sum.Write(p)
	}
	return p, err // whether the checksum is right does not matter to browsers
}
