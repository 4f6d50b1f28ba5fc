package picture

import (
	"encoding/hex"
	"fmt"
	"image"
	"math"
	"math/bits"
	"slices"
)

// DHash is the difference hash of a picture: 64 bits, of nine by eight means of
// luma, each whether it is brighter than the next one to the right.
func (p *Planes) DHash() uint64 {
	var cells [8][9]int
	for y := range 8 {
		for x := range 9 {
			x0, x1 := x*p.W/9, max((x+1)*p.W/9, x*p.W/9+1)
			y0, y1 := y*p.H/8, max((y+1)*p.H/8, y*p.H/8+1)
			sum, n := 0, 0
			for j := y0; j < min(y1, p.H); j++ {
				for i := x0; i < min(x1, p.W); i++ {
					sum += int(p.Y[j*p.stride+i])
					n++
				}
			}
			if n > 0 {
				cells[y][x] = 16 * sum / n
			}
		}
	}
	h := uint64(0)
	for y := range 8 {
		for x := range 8 {
			h <<= 1
			if cells[y][x] > cells[y][x+1] {
				h |= 1
			}
		}
	}
	return h
}

// A Hash is a PDQ hash of 256 bits, the first one highest in the last word.
type Hash [4]uint64

// Near is the distance up to which two PDQ hashes are of the same picture.
const Near = 31

// Distance is the number of bits in which two hashes differ.
func (h Hash) Distance(o Hash) int {
	return bits.OnesCount64(h[0]^o[0]) + bits.OnesCount64(h[1]^o[1]) + bits.OnesCount64(h[2]^o[2]) + bits.OnesCount64(h[3]^o[3])
}

func (h Hash) String() string {
	return fmt.Sprintf("%016x%016x%016x%016x", h[3], h[2], h[1], h[0])
}

// ParseHash reads 64 hexadecimal digits.
func ParseHash(s string) (h Hash, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 32 {
		return h, fmt.Errorf("%q is not a PDQ hash: write 64 hexadecimal digits", s)
	}
	for i, c := range b {
		h[3-i/8] = h[3-i/8]<<8 | uint64(c)
	}
	return h, nil
}

// PDQ computes the PDQ hash of a whole picture and its quality, 0 to 100; below
// 50 a hash says little. The method is that of the ThreatExchange project: luma,
// two passes of a box filter along rows and columns, 64 × 64 samples, the
// lowest 16 × 16 frequencies, each compared with their median.
func PDQ(b []byte) (h Hash, quality int, err error) {
	head, err := Look(b)
	if err != nil {
		return h, 0, err
	}
	m, err := decodeAny(b, head.Format)
	if err != nil {
		return h, 0, fmt.Errorf("decoding a %s: %w", head.Format, err)
	}
	h, quality = pdq(m)
	return h, quality, nil
}

func pdq(m image.Image) (h Hash, quality int) {
	luma, w, hgt := lumaOf(m)
	boxFilter(luma, w, hgt)
	var a [64][64]float32
	for y := range 64 {
		for x := range 64 {
			a[y][x] = luma[((2*y+1)*hgt/128)*w+(2*x+1)*w/128]
		}
	}
	quality = gradients(&a)
	f := lowest(&a)
	median := medianOf(&f)
	for y := range 16 {
		for x := range 16 {
			if f[y][x] > median {
				i := y*16 + x
				h[i>>6] |= 1 << (i & 63)
			}
		}
	}
	return h, quality
}

func lumaOf(m image.Image) (luma []float32, w, h int) {
	r := m.Bounds()
	w, h = r.Dx(), r.Dy()
	luma = make([]float32, w*h)
	if y, ok := m.(*image.YCbCr); ok {
		lumaOfYCbCr(y, luma, w, h)
		return luma, w, h
	}
	at := sampler(m)
	for y := range h {
		for x := range w {
			cr, cg, cb := at(r.Min.X+x, r.Min.Y+y)
			luma[y*w+x] = 0.299*float32(cr) + 0.587*float32(cg) + 0.114*float32(cb)
		}
	}
	return luma, w, h
}

// lumaOfYCbCr computes luma from red, green and blue, as others do who have a
// JPEG decoded first: colours that cannot be shown are cut off, so that it is not
// the luma of the JPEG. Chroma is made as fine as luma like libjpeg does it, by
// triangles.
func lumaOfYCbCr(m *image.YCbCr, luma []float32, w, h int) {
	cb, cr := make([]int, w), make([]int, w)
	for y := range h {
		fineChroma(m, m.Cb, y, h, cb)
		fineChroma(m, m.Cr, y, h, cr)
		row := m.Y[y*m.YStride:]
		for x := range w {
			// The factors are those of libjpeg, in 1/65536.
			v, b, r := int(row[x]), cb[x]-128, cr[x]-128
			red := clamp(v + (91881*r+32768)>>16)
			green := clamp(v + (-22554*b-46802*r+32768)>>16)
			blue := clamp(v + (116130*b+32768)>>16)
			luma[y*w+x] = float32(0.299*float64(red) + 0.587*float64(green) + 0.114*float64(blue))
		}
	}
}

func clamp(v int) int { return max(0, min(255, v)) }

// fineChroma is line y of a plane of chroma, with as many samples as luma.
func fineChroma(m *image.YCbCr, plane []byte, y, h int, dst []int) {
	w := len(dst)
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420:
	default:
		for x := range dst {
			dst[x] = int(plane[m.COffset(m.Rect.Min.X+x, m.Rect.Min.Y+y)])
		}
		return
	}
	cw := (w + 1) / 2
	line := func(i int) []byte { return plane[i*m.CStride:][:cw] }
	var near, far []byte
	one, shift := 1, 2
	if m.SubsampleRatio == image.YCbCrSubsampleRatio422 {
		near = line(y)
	} else {
		i, o := y/2, y/2-1
		if y&1 == 1 {
			o = y/2 + 1
		}
		near, far, one, shift = line(i), line(max(0, min(o, (h+1)/2-1))), 4, 4
	}
	sum := func(x int) int {
		if one == 1 {
			return int(near[x])
		}
		return 3*int(near[x]) + int(far[x])
	}
	for x := range dst {
		i, o, round := x/2, x/2-1, 1
		if x&1 == 1 {
			o, round = x/2+1, 2
		}
		if one == 4 {
			round = 8
			if x&1 == 1 {
				round = 7
			}
		}
		if o < 0 || o >= cw {
			o = i
		}
		dst[x] = (3*sum(i) + sum(o) + round) >> shift
	}
}

// boxFilter runs two passes of a box filter over rows and columns; its width is
// that of two samples of 64.
func boxFilter(luma []float32, w, h int) {
	wide := func(n int) int { return (n + 127) / 128 }
	tmp := make([]float32, max(w, h))
	line := make([]float32, max(w, h))
	for range 2 {
		for y := range h {
			box(luma[y*w:(y+1)*w], tmp[:w], wide(w))
			copy(luma[y*w:(y+1)*w], tmp[:w])
		}
		for x := range w {
			for y := range h {
				line[y] = luma[y*w+x]
			}
			box(line[:h], tmp[:h], wide(h))
			for y := range h {
				luma[y*w+x] = tmp[y]
			}
		}
	}
}

// box takes running means; at the ends, of what there is.
func box(in, out []float32, window int) {
	half := (window + 2) / 2
	n := len(in)
	var sum float32
	count := 0
	li, ri, oi := 0, 0, 0
	for range min(half-1, n) {
		sum += in[ri]
		count++
		ri++
	}
	for ; count < window && ri < n; oi++ {
		sum += in[ri]
		count++
		out[oi] = sum / float32(count)
		ri++
	}
	for ; ri < n; oi++ {
		sum += in[ri] - in[li]
		out[oi] = sum / float32(count)
		li++
		ri++
	}
	for ; oi < n; oi++ {
		sum -= in[li]
		count--
		out[oi] = sum / float32(max(1, count))
		li++
	}
}

// gradients is the quality: how much neighbours differ.
func gradients(a *[64][64]float32) int {
	sum := 0
	diff := func(u, v float32) {
		d := int((u - v) * 100 / 255)
		sum += max(d, -d)
	}
	for y := range 63 {
		for x := range 64 {
			diff(a[y][x], a[y+1][x])
		}
	}
	for y := range 64 {
		for x := range 63 {
			diff(a[y][x], a[y][x+1])
		}
	}
	return min(sum/90, 100)
}

// lowest is the discrete cosine transform without its constant: frequencies 1
// to 16 in both directions.
func lowest(a *[64][64]float32) (f [16][16]float32) {
	var d [16][64]float32
	scale := float32(math.Sqrt(2.0 / 64))
	for i := range 16 {
		for j := range 64 {
			d[i][j] = scale * float32(math.Cos(math.Pi/2/64*float64(i+1)*float64(2*j+1)))
		}
	}
	var t [16][64]float32
	for i := range 16 {
		for j := range 64 {
			var s float32
			for k := range 64 {
				s += d[i][k] * a[k][j]
			}
			t[i][j] = s
		}
	}
	for i := range 16 {
		for j := range 16 {
			var s float32
			for k := range 64 {
				s += t[i][k] * d[j][k]
			}
			f[i][j] = s
		}
	}
	return f
}

func medianOf(f *[16][16]float32) float32 {
	all := make([]float32, 0, 256)
	for _, row := range f {
		all = append(all, row[:]...)
	}
	slices.Sort(all)
	return all[127]
}
