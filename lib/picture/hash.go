package picture

import (
	"fmt"
	"image"
	"math"
	"math/bits"
	"slices"
)

// DHash returns the difference hash of a picture. Each of its 64 bits says whether one of nine
// by eight means of luma is brighter than the next one to the right.
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

// A Hash is a PDQ hash of 256 bits; the first bit is the highest of the last word.
type Hash [4]uint64

// Near is the largest distance between PDQ hashes of the same picture.
const Near = 31

// Distance returns the number of bits in which two hashes differ.
func (h Hash) Distance(o Hash) int {
	return bits.OnesCount64(h[0]^o[0]) + bits.OnesCount64(h[1]^o[1]) + bits.OnesCount64(h[2]^o[2]) + bits.OnesCount64(h[3]^o[3])
}

func (h Hash) String() string {
	return fmt.Sprintf("%016x%016x%016x%016x", h[3], h[2], h[1], h[0])
}

// PDQ computes the PDQ hash of a complete picture and its quality, 0 to 100; below 50 a hash
// is unreliable. The method is that of the ThreatExchange project: luma, two passes of a box
// filter along rows and columns, 64 × 64 samples, the lowest 16 × 16 frequencies, each
// compared with their median.
func PDQ(b []byte) (h Hash, quality int, err error) {
	head, err := Look(b)
	if err != nil {
		return h, 0, err
	}
	whole := head.Format != AVIF && head.Format != HEIC && head.Width*head.Height <= maxWhole
	if whole {
		m, err := decodeAny(b, head.Format)
		if err == nil {
			h, quality = pdq(m.Bounds().Dx(), m.Bounds().Dy(), lumaOf(m))
			return h, quality, nil
		}
		if head.Format != JPEG {
			return h, 0, fmt.Errorf("decoding a %s: %w", head.Format, err)
		}
	}
	p, err := Shrink(b)
	if err != nil {
		return h, 0, err
	}
	h, quality = pdq(p.W, p.H, func(y int, dst []float32) {
		for x := range dst {
			r, g, b := p.RGB(x, y)
			dst[x] = luma(int(r), int(g), int(b))
		}
	})
	return h, quality, nil
}

// PDQ computes the PDQ hash of m and its quality.
func (m *RGB) PDQ() (h Hash, quality int) {
	return pdq(m.W, m.H, func(y int, dst []float32) {
		for x := range dst {
			p := m.Pix[3*(y*m.W+x):]
			dst[x] = luma(int(p[0]), int(p[1]), int(p[2]))
		}
	})
}

// luma rounds as other implementations do.
func luma(r, g, b int) float32 {
	return float32(0.299*float64(r) + 0.587*float64(g) + 0.114*float64(b))
}

// pdq computes the hash of w × h pixels; line returns their luma. The filter is the same along
// lines and columns, so only 64 samples of each line need to be kept.
func pdq(w, hgt int, line func(y int, dst []float32)) (h Hash, quality int) {
	var columns [64][]float32
	for x := range columns {
		columns[x] = make([]float32, hgt)
	}
	one, other := make([]float32, w), make([]float32, w)
	for y := range hgt {
		line(y, one)
		box(one, other)
		box(other, one)
		for x := range columns {
			columns[x][y] = one[(2*x+1)*w/128]
		}
	}
	var a [64][64]float32
	other = make([]float32, hgt)
	for x, c := range columns {
		box(c, other)
		box(other, c)
		for y := range 64 {
			a[y][x] = c[(2*y+1)*hgt/128]
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

// lumaOf returns a function that writes a line of luma.
func lumaOf(m image.Image) func(y int, dst []float32) {
	if y, ok := m.(*image.YCbCr); ok {
		return lumaOfYCbCr(y)
	}
	at, r := sampler(m), m.Bounds()
	return func(y int, dst []float32) {
		for x := range dst {
			dst[x] = luma(at(r.Min.X+x, r.Min.Y+y))
		}
	}
}

// lumaOfYCbCr computes luma from red, green and blue, as implementations do that decode the
// JPEG first: they clip colours out of range, so the result differs from the luma in the JPEG.
// Chroma is interpolated to the resolution of luma as in libjpeg, by triangles.
func lumaOfYCbCr(m *image.YCbCr) func(y int, dst []float32) {
	w, h := m.Rect.Dx(), m.Rect.Dy()
	cb, cr := make([]int, w), make([]int, w)
	return func(y int, dst []float32) {
		fineChroma(m, m.Cb, y, h, cb)
		fineChroma(m, m.Cr, y, h, cr)
		row := m.Y[y*m.YStride:]
		for x := range dst {
			// The factors are those of libjpeg, in units of 1/65536.
			v, b, r := int(row[x]), cb[x]-128, cr[x]-128
			dst[x] = luma(clamp(v+(91881*r+32768)>>16), clamp(v+(-22554*b-46802*r+32768)>>16), clamp(v+(116130*b+32768)>>16))
		}
	}
}

func clamp(v int) int { return max(0, min(255, v)) }

// fineChroma computes line y of a chroma plane, with as many samples as luma has.
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

// box computes running means over two of the 64 samples; fewer at the ends.
func box(in, out []float32) {
	window := (len(in) + 127) / 128
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

// gradients returns the quality, by the differences between neighbours.
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

// lowest returns the discrete cosine transform without its constant: frequencies 1 to 16 in
// both directions.
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
