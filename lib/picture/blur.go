package picture

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// patches is the number of patches along the longer side of a blurred picture.
const patches = 20

// Blur makes a JPEG of the same size as a picture that shows only large patches of brightness
// and colour.
//
// It decodes the picture at an eighth of its size, reduces it to [patches], and writes it
// without a transform: each block of 8 × 8 pixels gets its mean and two slopes, which are
// three coefficients.
func Blur(b []byte) ([]byte, error) {
	p, err := Shrink(b)
	if err != nil {
		return nil, err
	}
	w, h := p.Full.Width, p.Full.Height
	if w > 65535 || h > 65535 {
		return nil, fmt.Errorf("%d × %d pixels: %w", w, h, ErrTooLarge)
	}
	return withOrientation(writePatches(p.patches(), w, h), p.Full.Turn), nil
}

// Thumbnail makes a blurred JPEG of a picture, of at most 160 × 160 pixels; nil if the picture
// cannot be decoded.
func Thumbnail(b []byte) []byte {
	p, err := Shrink(b)
	if err != nil {
		return nil
	}
	const side = 160
	w, h := side, max(8, side*p.Full.Height/p.Full.Width)
	if h > side {
		w, h = max(8, side*p.Full.Width/p.Full.Height), side
	}
	return withOrientation(writePatches(p.patches(), w, h), p.Full.Turn)
}

// A mosaic is a picture of few samples.
type mosaic struct {
	w, h    int
	samples [3][]float32 // luma and chroma
}

// patches reduces p.
func (p *Planes) patches() *mosaic {
	m := &mosaic{w: patches, h: patches}
	if p.W > p.H {
		m.h = max(3, patches*p.H/p.W)
	} else {
		m.w = max(3, patches*p.W/p.H)
	}
	m.w, m.h = min(m.w, p.W), min(m.h, p.H)
	n := m.w * m.h
	var sum [3][]int
	for c := range sum {
		sum[c], m.samples[c] = make([]int, n), make([]float32, n)
	}
	count := make([]int, n)
	for y := range p.H {
		row, luma, chroma := y*m.h/p.H*m.w, p.Luma(y), y*p.downNum/p.downDen*p.chroma
		for x, v := range luma {
			i, c := row+x*m.w/p.W, chroma+x*p.acrossNum/p.acrossDen
			sum[0][i] += int(v)
			sum[1][i] += int(p.Cb[c])
			sum[2][i] += int(p.Cr[c])
			count[i]++
		}
	}
	for c := range sum {
		for i, v := range sum[c] {
			m.samples[c][i] = float32(v) / float32(max(1, count[i]))
		}
	}
	return m
}

// at interpolates between samples; x and y are from 0 to 1.
func (m *mosaic) at(c int, x, y float32) float32 {
	x, y = max(0, min(x*float32(m.w)-0.5, float32(m.w-1))), max(0, min(y*float32(m.h)-0.5, float32(m.h-1)))
	i, j := int(x), int(y)
	k, l := min(i+1, m.w-1), min(j+1, m.h-1)
	x, y = x-float32(i), y-float32(j)
	s := m.samples[c]
	top := s[j*m.w+i] + x*(s[j*m.w+k]-s[j*m.w+i])
	low := s[l*m.w+i] + x*(s[l*m.w+k]-s[l*m.w+i])
	return top + y*(low-top)
}

// corners interpolates at the corners of blocks, along the upper edge of line y of them.
func (m *mosaic) corners(c, y, blocks, w, h int, dst []float32) []float32 {
	at := float32(8*y) / float32(h)
	for x := range blocks + 1 {
		dst = append(dst, m.at(c, float32(8*x)/float32(w), at))
	}
	return dst
}

// quantum is the quantisation of coefficients. slope is the second coefficient of a block that
// rises by 1 from one side to the other (ITU-T T.81 section A.3.3).
const (
	quantum = 2
	slope   = -2.2777
)

// writePatches writes a baseline JPEG of a mosaic.
func writePatches(m *mosaic, w, h int) []byte {
	out := append(make([]byte, 0, w*h/32+1024), 0xff, 0xd8, 0xff, 0xdb, 0, 67, 0)
	for range 64 {
		out = append(out, quantum)
	}
	out = append(out, 0xff, 0xc0, 0, 17, 8, byte(h>>8), byte(h), byte(w>>8), byte(w), 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0)
	for class, t := range []*codes{&dcCodes, &acCodes} {
		out = append(out, 0xff, 0xc4, 0, byte(19+len(t.symbols)), byte(class<<4))
		out = append(append(out, t.counts[:]...), t.symbols...)
	}
	out = append(out, 0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0)
	e := bitWriter{out: out}
	bw, bh := (w+7)/8, (h+7)/8
	var last [3]int
	var top, low [3][]float32 // values at the corners of a line of blocks
	for c := range 3 {
		top[c], low[c] = m.corners(c, 0, bw, w, h, nil), make([]float32, 0, bw+1)
	}
	for y := range bh {
		for c := range 3 {
			low[c] = m.corners(c, y+1, bw, w, h, low[c][:0])
		}
		for x := range bw {
			for c := range 3 {
				t, l, u, v := top[c][x], low[c][x], top[c][x+1], low[c][x+1]
				mean := int(math.Round(float64((t+l+u+v)/4-128) * 8 / quantum))
				e.number(&dcCodes, 0, mean-last[c])
				last[c] = mean
				across, down := int((u+v-t-l)/2*slope/quantum), int((l+v-t-u)/2*slope/quantum)
				run := 0
				for _, v := range [2]int{across, down} {
					if v == 0 {
						run++
						continue
					}
					e.number(&acCodes, run<<4, v)
					run = 0
				}
				e.put(acCodes.code[0], acCodes.length[0]) // end of block
			}
		}
		top, low = low, top
	}
	e.put(0x7f, 7)
	return append(e.out, 0xff, 0xd9)
}

// codes are Huffman codes by symbol.
type codes struct {
	counts  [16]byte
	symbols []byte
	code    [256]uint32
	length  [256]uint8
}

func makeCodes(symbols string, counts ...byte) codes {
	t := codes{symbols: []byte(symbols)}
	copy(t.counts[:], counts)
	code, k := uint32(0), 0
	for l, n := range t.counts {
		for range n {
			t.code[symbols[k]], t.length[symbols[k]] = code, uint8(l+1)
			code++
			k++
		}
		code <<= 1
	}
	return t
}

// Only few symbols are needed: numbers of up to eleven bits, after at most one zero
// coefficient.
var (
	dcCodes = makeCodes("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b", 0, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	acCodes = makeCodes("\x00\x01\x11\x02\x12\x03\x13\x04\x14\x05\x15\x06\x16\x07\x17\x08\x18\x09\x19\x0a\x1a", 1, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2)
)

// A bitWriter writes the data of a scan.
type bitWriter struct {
	out  []byte
	bits uint32
	n    uint8
}

func (e *bitWriter) put(code uint32, length uint8) {
	e.bits = e.bits<<length | code
	e.n += length
	for e.n >= 8 {
		b := byte(e.bits >> (e.n - 8))
		e.out = append(e.out, b)
		if b == 0xff {
			e.out = append(e.out, 0)
		}
		e.n -= 8
	}
}

// number writes the symbol for the number of bits in v, and those bits.
func (e *bitWriter) number(t *codes, symbol, v int) {
	a, bits := max(v, -v), uint8(0)
	for ; a > 0; a >>= 1 {
		bits++
	}
	if v < 0 {
		v += 1<<bits - 1
	}
	s := symbol | int(bits)
	e.put(t.code[s], t.length[s])
	e.put(uint32(v), bits)
}

// Empty returns a transparent PNG of w × h pixels.
func Empty(w, h int) []byte {
	if w < 1 || h < 1 || w > MaxPixels || h > MaxPixels/w {
		w, h = 1, 1
	}
	out := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(name string, data []byte) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(data)))
		start := len(out)
		out = append(append(out, name...), data...)
		out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[start:]))
	}
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(w)), uint32(h))
	chunk("IHDR", append(head, 1, 3, 0, 0, 0)) // one bit per pixel, with a palette
	chunk("PLTE", []byte{255, 255, 255})
	chunk("tRNS", []byte{0})
	var data bytes.Buffer
	z := zlib.NewWriter(&data)
	line := make([]byte, 1+(w+7)/8)
	for range h {
		_, _ = z.Write(line) // cannot fail in memory
	}
	_ = z.Close()
	chunk("IDAT", data.Bytes())
	chunk("IEND", nil)
	return out
}
