package picture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image/color"
)

// shrinkJPEG decodes the mean of each block of 8 × 8 samples, which JPEG stores as the first
// coefficient of the block (ITU-T T.81). It skips the other coefficients of a baseline JPEG.
// Of a progressive one it only reads the scans of first coefficients.
func shrinkJPEG(b []byte, head Head) (*Planes, error) {
	d := &jpegReader{in: b, at: 2, head: head}
	err := d.run()
	if err == nil && !d.hasFirstCoefficients() {
		err = ErrCut
	}
	if err != nil && !d.isPartial() {
		return nil, fmt.Errorf("decoding a JPEG: %w", err)
	}
	p := d.planes()
	p.Cut = !d.hasFirstCoefficients()
	return p, nil
}

// FirstScans returns the beginning of a progressive JPEG up to the scans with the mean of each
// block, as a complete file, once b has all of that.
func FirstScans(b []byte) (file []byte, ok bool) {
	head, err := Look(b)
	if err != nil || head.Format != JPEG {
		return nil, false
	}
	d := &jpegReader{in: b, at: 2, head: head}
	if err := d.run(); err != nil || !d.progressive || !d.hasFirstCoefficients() || d.at >= len(b) {
		return nil, false
	}
	return append(b[:d.at:d.at], 0xff, 0xd9), true
}

// isPartial reports whether a part of the picture was read before an error. Browsers show such a
// part.
func (d *jpegReader) isPartial() bool {
	return d.hasFirstCoefficients() || d.parts > 0 && d.part[0].lines > 0
}

const (
	maxParts = 4 // components
	fastBits = 9
)

// A component is one plane of samples.
type component struct {
	id, h, v, quant uint8
	w, hgt          int    // number of blocks, up to complete MCUs
	samples         []byte // the mean of each block
	dcTable         uint8
	acTable         uint8
	last            int32
	whole           []byte // samples at full size, eight times as many in both directions; nil if only means are decoded
	scans           int    // number of scans read
	lines           int    // number of lines of blocks read
}

// A huffman is a table of codes. fast has symbol and length of short codes. pass has the bits
// and coefficients to skip, if nothing else matters.
type huffman struct {
	fast   [1 << fastBits]uint16 // length<<8 | symbol; 0 for none
	pass   [1 << fastBits]uint16 // bits<<8 | coefficients; 0 for none
	most   [18]int32             // for each length, the first code that is too large
	offset [18]int32
	symbol [256]uint8
	there  bool
}

type jpegReader struct {
	in   []byte
	at   int
	head Head

	progressive bool
	adobe       int  // transform; -1 if unknown
	jfif        bool // a marker says that the colours are those of JFIF
	parts       int
	part        [maxParts]component
	mcux, mcuy  int
	quant       [4]uint16     // of the first coefficient
	quants64    *[4][64]int32 // of all; nil if only means are decoded
	dcTables    [4]huffman
	acTables    [4]huffman
	restart     int

	bits  uint64
	nbits uint
	eod   bool // a marker ended the data of the scan
	eobs  int32
}

func (d *jpegReader) run() error {
	d.adobe = -1
	for {
		for d.at < len(d.in) && d.in[d.at] != 0xff {
			d.at++ // garbage between segments
		}
		for d.at < len(d.in) && d.in[d.at] == 0xff {
			d.at++
		}
		if d.at >= len(d.in) {
			return ErrCut
		}
		m := d.in[d.at]
		d.at++
		if m == 0xd9 {
			return nil
		}
		if m == 0 || m == 0x01 || 0xd0 <= m && m <= 0xd8 {
			continue
		}
		if d.at+2 > len(d.in) {
			return ErrCut
		}
		n := int(binary.BigEndian.Uint16(d.in[d.at:]))
		if n < 2 || d.at+n > len(d.in) {
			return ErrCut
		}
		seg := d.in[d.at+2 : d.at+n]
		d.at += n
		done, err := d.segment(m, seg)
		if err != nil || done {
			return err
		}
	}
}

// segment reads one segment. done is true if no further one matters.
func (d *jpegReader) segment(m byte, seg []byte) (done bool, err error) {
	switch {
	case m == 0xdb:
		return false, d.quants(seg)
	case m == 0xc4:
		return false, d.tables(seg)
	case m == 0xdd && len(seg) >= 2:
		d.restart = int(binary.BigEndian.Uint16(seg))
	case m == 0xe0 && len(seg) >= 5 && string(seg[:5]) == "JFIF\x00":
		d.jfif = true
	case m == 0xee && len(seg) >= 12 && string(seg[:5]) == "Adobe":
		d.adobe = int(seg[11])
	case m == 0xc0 || m == 0xc1 || m == 0xc2:
		d.progressive = m == 0xc2
		return false, d.frame(seg)
	case 0xc0 <= m && m <= 0xcf && m != 0xc8 && m != 0xcc:
		return false, ErrUnread // lossless, hierarchical or arithmetic
	case m == 0xda:
		return d.scan(seg)
	}
	return false, nil
}

func (d *jpegReader) quants(seg []byte) error {
	for len(seg) > 0 {
		id, n := seg[0]&15, 65
		if seg[0]>>4 != 0 {
			n = 129
		}
		if id > 3 || len(seg) < n {
			return ErrFormat
		}
		if n == 65 {
			d.quant[id] = uint16(seg[1])
		} else {
			d.quant[id] = binary.BigEndian.Uint16(seg[1:])
		}
		if d.quants64 != nil {
			for i, to := range zigzag {
				q := int32(seg[1+min(i, n-2)])
				if n == 129 {
					q = int32(binary.BigEndian.Uint16(seg[1+2*i:]))
				}
				d.quants64[id][to] = q
			}
		}
		seg = seg[n:]
	}
	return nil
}

func (d *jpegReader) tables(seg []byte) error {
	for len(seg) > 0 {
		if len(seg) < 17 || seg[0]&15 > 3 || seg[0]>>4 > 1 {
			return ErrFormat
		}
		t := &d.dcTables[seg[0]&15]
		if seg[0]>>4 == 1 {
			t = &d.acTables[seg[0]&15]
		}
		n := 0
		for _, c := range seg[1:17] {
			n += int(c)
		}
		if n > 256 || len(seg) < 17+n {
			return ErrFormat
		}
		if err := t.make(seg[1:17], seg[17:17+n]); err != nil {
			return err
		}
		seg = seg[17+n:]
	}
	return nil
}

func (t *huffman) make(counts, symbols []byte) error {
	*t = huffman{there: true}
	copy(t.symbol[:], symbols)
	code, k := int32(0), int32(0)
	for l := 1; l <= 16; l++ {
		n := int32(counts[l-1])
		t.offset[l] = k - code
		for range n {
			if l <= fastBits {
				from := int(code) << (fastBits - l)
				s := uint16(t.symbol[k])
				size, on := s&15, s>>4+1
				if size == 0 && s != 0xf0 {
					on = 64 // the rest of the block is zero
				}
				for j := range 1 << (fastBits - l) {
					if from+j < len(t.fast) {
						t.fast[from+j] = uint16(l)<<8 | s
						t.pass[from+j] = (uint16(l)+size)<<8 | on
					}
				}
			}
			code++
			k++
		}
		if code > 1<<l {
			return ErrFormat
		}
		t.most[l] = code << (16 - l)
		code <<= 1
	}
	t.most[17] = 1 << 30
	return nil
}

func (d *jpegReader) frame(seg []byte) error {
	if d.parts != 0 || len(seg) < 6 || seg[0] != 8 {
		return ErrUnread
	}
	n := int(seg[5])
	if n < 1 || n > maxParts || len(seg) < 6+3*n {
		return ErrFormat
	}
	w, h := d.head.Width, d.head.Height
	if int(binary.BigEndian.Uint16(seg[3:])) != w || int(binary.BigEndian.Uint16(seg[1:])) != h {
		return ErrFormat
	}
	mh, mv := uint8(1), uint8(1)
	for i := range n {
		c := &d.part[i]
		c.id, c.h, c.v, c.quant = seg[6+3*i], seg[7+3*i]>>4, seg[7+3*i]&15, seg[8+3*i]
		if c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 || c.quant > 3 {
			return ErrFormat
		}
		mh, mv = max(mh, c.h), max(mv, c.v)
	}
	if n == 1 {
		d.part[0].h, d.part[0].v, mh, mv = 1, 1, 1, 1
	}
	d.mcux, d.mcuy = (w+8*int(mh)-1)/(8*int(mh)), (h+8*int(mv)-1)/(8*int(mv))
	for i := range n {
		c := &d.part[i]
		c.w, c.hgt = d.mcux*int(c.h), d.mcuy*int(c.v)
		if c.w*c.hgt > maxPlane {
			return ErrTooLarge
		}
		c.samples = grey(c.w * c.hgt)
		if d.quants64 != nil {
			c.whole = grey(64 * c.w * c.hgt)
		}
	}
	d.parts = n
	return nil
}

// grey returns samples for parts that were not read.
func grey(n int) []byte { return bytes.Repeat([]byte{128}, n) }

// isRGB reports whether three components are red, green and blue. It evaluates the evidence in
// the order of libjpeg.
func (d *jpegReader) isRGB() bool {
	return d.parts == 3 && !d.jfif && (d.adobe == 0 || d.adobe < 0 && d.part[0].id == 'R' && d.part[1].id == 'G' && d.part[2].id == 'B')
}

// hasFirstCoefficients reports whether the first coefficients of every component were read.
func (d *jpegReader) hasFirstCoefficients() bool {
	for i := range d.parts {
		if d.part[i].scans == 0 {
			return false
		}
	}
	return d.parts > 0
}

func (d *jpegReader) scan(seg []byte) (done bool, err error) {
	if d.parts == 0 || len(seg) < 1 {
		return false, ErrFormat
	}
	n := int(seg[0])
	if n < 1 || n > d.parts || len(seg) < 4+2*n {
		return false, ErrFormat
	}
	var in [maxParts]int
	for i := range n {
		in[i] = -1
		for k := range d.parts {
			if d.part[k].id == seg[1+2*i] {
				in[i] = k
			}
		}
		if in[i] < 0 {
			return false, ErrFormat
		}
		c := &d.part[in[i]]
		c.dcTable, c.acTable = seg[2+2*i]>>4&3, seg[2+2*i]&3
		c.last = 0
	}
	from, low, high := seg[1+2*n], seg[3+2*n]&15, seg[3+2*n]>>4
	d.bits, d.nbits, d.eod = 0, 0, false
	if d.progressive && (from != 0 || high != 0 && d.hasFirstCoefficients()) {
		if d.hasFirstCoefficients() {
			return true, nil // only details follow
		}
		return false, nil // run skips to the next marker
	}
	if err := d.blocks(in[:n], low); err != nil {
		return false, err
	}
	for _, k := range in[:n] {
		d.part[k].scans++
	}
	return d.hasFirstCoefficients(), nil
}

// blocks reads the blocks of a scan.
func (d *jpegReader) blocks(in []int, low uint8) error {
	for _, k := range in {
		c := &d.part[k]
		if !d.dcTables[c.dcTable].there || !d.progressive && !d.acTables[c.acTable].there {
			return ErrFormat
		}
	}
	mx, my := d.mcux, d.mcuy
	single := len(in) == 1
	if single { // such a scan has no MCUs, and only blocks inside the picture
		c := &d.part[in[0]]
		mh, mv := d.maxSampling()
		mx = ((d.head.Width*int(c.h)+mh-1)/mh + 7) / 8
		my = ((d.head.Height*int(c.v)+mv-1)/mv + 7) / 8
	}
	left, empty, next := d.restart, false, byte(0)
	for y := range my {
		for x := range mx {
			if d.restart > 0 && left == 0 {
				empty = !d.resume(in, next)
				left, next = d.restart, (next+1)&7
			}
			left--
			for _, k := range in {
				if empty {
					break
				}
				c := &d.part[k]
				if single {
					if err := d.block(c, y*c.w+x, low); err != nil {
						return err
					}
					continue
				}
				for v := range int(c.v) {
					for h := range int(c.h) {
						if err := d.block(c, (y*int(c.v)+v)*c.w+x*int(c.h)+h, low); err != nil {
							return err
						}
					}
				}
			}
		}
		for _, k := range in {
			d.part[k].lines++
		}
	}
	return nil
}

// resume continues after the restart marker with the number next. If one of the two that follow
// comes instead, the blocks before it were lost: resume returns false, and the caller skips
// them. libjpeg does the same.
func (d *jpegReader) resume(in []int, next byte) (there bool) {
	d.bits, d.nbits, there = 0, 0, true
search:
	for d.at+1 < len(d.in) {
		m := d.in[d.at+1]
		switch {
		case d.in[d.at] != 0xff || m == 0 || m == 0xff:
			d.at++
			continue
		case m < 0xd0 || m > 0xd7: // another marker: the data ends here
			break search
		}
		switch (m - 0xd0 - next) & 7 {
		case 1, 2:
			there = false
			break search
		case 6, 7: // an earlier one
			d.at += 2
			continue
		}
		d.at += 2
		break
	}
	d.eod = false
	for _, k := range in {
		d.part[k].last = 0
	}
	return there
}

// fill puts at least 57 bits at the top of d.bits, with zeros after the end.
func (d *jpegReader) fill() {
	if d.at+8 <= len(d.in) && !d.eod {
		const ones, tops = 0x0101010101010101, 0x8080808080808080
		v := binary.BigEndian.Uint64(d.in[d.at:])
		if (^v-ones)&v&tops == 0 { // no byte is 0xff
			n := (64 - d.nbits) / 8
			d.bits |= v >> (64 - 8*n) << (64 - 8*n - d.nbits)
			d.nbits += 8 * n
			d.at += int(n)
			return
		}
	}
	for d.nbits <= 56 {
		var b byte
		if d.eod || d.at >= len(d.in) {
			d.eod = true
		} else {
			b = d.in[d.at]
			if b == 0xff {
				if d.at+1 < len(d.in) && d.in[d.at+1] == 0 {
					d.at += 2
				} else {
					d.eod, b = true, 0
				}
			} else {
				d.at++
			}
		}
		d.bits |= uint64(b) << (56 - d.nbits)
		d.nbits += 8
	}
}

// block reads one block and keeps its first coefficient.
func (d *jpegReader) block(c *component, at int, low uint8) error {
	d.fill()
	if d.eod && d.bits == 0 && d.at >= len(d.in) {
		return ErrCut
	}
	n, ok := d.symbol(&d.dcTables[c.dcTable])
	if !ok || n > 15 {
		return ErrFormat
	}
	if n > 0 {
		v := int32(d.bits >> (64 - uint(n)))
		d.bits <<= uint(n)
		d.nbits -= min(uint(n), d.nbits)
		if v < 1<<(n-1) {
			v += -1<<n + 1
		}
		c.last += v
	}
	c.samples[at] = uint8(max(0, min(255, int(c.last)<<low*int(d.quant[c.quant])/8+128)))
	if d.progressive {
		return nil
	}
	if c.whole != nil {
		return d.wholeBlock(c, at)
	}
	return d.passOver(&d.acTables[c.acTable])
}

// passOver reads the rest of a block and discards it.
func (d *jpegReader) passOver(t *huffman) error {
	bits, n := d.bits, d.nbits // in registers
	for k := 1; k < 64; {
		if n < 32 {
			d.bits, d.nbits = bits, n
			d.fill()
			bits, n = d.bits, d.nbits
		}
		if f := t.pass[bits>>(64-fastBits)]; f != 0 {
			bits <<= f >> 8
			n -= uint(f >> 8) // at most 24 of 32
			k += int(f & 255)
			continue
		}
		d.bits, d.nbits = bits, n
		s, ok := d.symbol(t)
		if !ok {
			return ErrFormat
		}
		size := uint(s & 15)
		bits, n = d.bits<<size, d.nbits-min(size, d.nbits)
		if k += int(s>>4) + 1; size == 0 && s != 0xf0 {
			break
		}
	}
	d.bits, d.nbits = bits, n
	return nil
}

// symbol reads one code.
func (d *jpegReader) symbol(t *huffman) (uint8, bool) {
	if f := t.fast[d.bits>>(64-fastBits)]; f != 0 {
		d.bits <<= f >> 8
		d.nbits -= min(uint(f>>8), d.nbits)
		return uint8(f), true
	}
	top := int32(d.bits >> 48)
	for l := fastBits + 1; l <= 16; l++ {
		if top < t.most[l] {
			i := top>>(16-l) + t.offset[l]
			if i < 0 || i > 255 {
				return 0, false
			}
			d.bits <<= uint(l)
			d.nbits -= min(uint(l), d.nbits)
			return t.symbol[i], true
		}
	}
	return 0, false
}

// planes assembles the samples.
func (d *jpegReader) planes() *Planes {
	w, h := (d.head.Width+7)/8, (d.head.Height+7)/8
	mh, mv := d.maxSampling()
	a, b := &d.part[0], &d.part[1]
	if d.parts == 3 && !d.isRGB() && int(a.h) == mh && int(a.v) == mv && d.part[2].h == b.h && d.part[2].v == b.v {
		return &Planes{W: w, H: h, Y: a.samples, Cb: b.samples, Cr: d.part[2].samples, Full: d.head,
			stride: a.w, chroma: b.w, acrossNum: int(b.h), acrossDen: mh, downNum: int(b.v), downDen: mv}
	}
	p := newPlanes(w, h, d.head)
	for y := range h {
		for x := range w {
			var v [maxParts]uint8
			for k := range d.parts {
				c := &d.part[k]
				v[k] = c.samples[y*int(c.v)/mv*c.w+x*int(c.h)/mh]
			}
			i := y*w + x
			p.Y[i], p.Cb[i], p.Cr[i] = d.colour(v)
		}
	}
	return p
}

// maxSampling returns the number of blocks per MCU of the component that has most.
func (d *jpegReader) maxSampling() (h, v int) {
	h, v = 1, 1
	for i := range d.parts {
		h, v = max(h, int(d.part[i].h)), max(v, int(d.part[i].v))
	}
	return h, v
}

// colour returns luma and chroma of one sample of each component.
func (d *jpegReader) colour(v [maxParts]uint8) (y, cb, cr uint8) {
	switch {
	case d.parts < 3:
		return v[0], 128, 128
	case d.isRGB():
		return color.RGBToYCbCr(v[0], v[1], v[2])
	case d.parts == 3:
		return v[0], v[1], v[2]
	}
	// Adobe writes the complements of cyan, magenta, yellow and black, and so do all others.
	if d.adobe == 2 { // YCCK
		r, g, b := color.YCbCrToRGB(v[0], v[1], v[2])
		v[0], v[1], v[2] = 255-r, 255-g, 255-b
	}
	k := int(v[3])
	return color.RGBToYCbCr(uint8(int(v[0])*k/255), uint8(int(v[1])*k/255), uint8(int(v[2])*k/255))
}
