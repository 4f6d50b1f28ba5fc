package neural

import "unsafe"

// A kernel is the innermost part of the computation, for one kind of processor.
//
// tile multiplies a panel of mr rows and k columns by one of k rows and nr columns, both
// packed so that each step along k is contiguous. It stores the product in c, or adds it; rows
// of c are ldc apart.
type kernel struct {
	name   string
	mr, nr int
	tile   func(k int, a, b, c *float32, ldc int, add bool)
	// axpy adds s·x to y.
	axpy func(s float32, x, y []float32)
	// most stores the greater of x and y in y.
	most func(x, y []float32)
	// clamp adds plus to x and limits the sums to low and high.
	clamp func(plus, low, high float32, x []float32)
	// sigmoid adds plus to x and applies the sigmoid to the sums s; if times is true, it
	// multiplies the result by s.
	sigmoid func(plus float32, times bool, x []float32)
	// evens copies x[0], x[2], x[4] ... to dst.
	evens func(dst, x []float32)
	// window computes all outputs of one window; see [window].
	window func(w *window)
}

// A window is a convolution of one channel, or a mean, on one plane: each output is the
// weighted sum of some inputs, and plus, limited to low and high. Lines of dst are written in
// pieces of lanes numbers: up to lanes-1 numbers after each line are overwritten.
type window struct {
	rows, cols      int
	dst             *float32
	dstLine         int // numbers from one line to the next
	src             *float32
	srcLine         int
	at              []int // positions in src of the inputs for the first output
	weights         []float32
	plus, low, high float32
}

// lanes is the number of numbers that kernels write at a time.
const lanes = 8

// plain is the kernel in Go, for any processor.
var plain = kernel{name: "plain Go", mr: 4, nr: 4, tile: tilePlain, axpy: axpyPlain, most: mostPlain, clamp: clampPlain,
	sigmoid: sigmoidPlain, evens: evensPlain, window: windowPlain}

// kernels are the kernels that this processor supports, best first.
var kernels = append(native(), &plain)

func tilePlain(k int, a, b, c *float32, ldc int, add bool) {
	as, bs := unsafe.Slice(a, 4*k), unsafe.Slice(b, 4*k)
	var s [4][4]float32
	for half := 0; half < 4; half += 2 { // eight sums fit into registers, sixteen do not
		var s0, s1, s2, s3, t0, t1, t2, t3 float32
		for i := 0; i+4 <= len(as) && i+4 <= len(bs); i += 4 {
			x, y := as[i+half], as[i+half+1]
			b0, b1, b2, b3 := bs[i], bs[i+1], bs[i+2], bs[i+3]
			s0 += x * b0
			s1 += x * b1
			s2 += x * b2
			s3 += x * b3
			t0 += y * b0
			t1 += y * b1
			t2 += y * b2
			t3 += y * b3
		}
		s[half] = [4]float32{s0, s1, s2, s3}
		s[half+1] = [4]float32{t0, t1, t2, t3}
	}
	out := unsafe.Slice(c, 3*ldc+4)
	for i := range 4 {
		row := out[i*ldc : i*ldc+4]
		for j, v := range s[i] {
			if add {
				v += row[j]
			}
			row[j] = v
		}
	}
}

func axpyPlain(s float32, x, y []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += s * v
	}
}

func mostPlain(x, y []float32) {
	y = y[:len(x)]
	for i, v := range x {
		if v > y[i] {
			y[i] = v
		}
	}
}

func clampPlain(plus, low, high float32, x []float32) {
	for i, v := range x {
		v += plus
		if v < low {
			v = low
		}
		if v > high {
			v = high
		}
		x[i] = v
	}
}

func sigmoidPlain(plus float32, times bool, x []float32) {
	for i, v := range x {
		v += plus
		s := sigmoid(v)
		if times {
			s *= v
		}
		x[i] = s
	}
}

func evensPlain(dst, x []float32) {
	for i := range dst {
		dst[i] = x[2*i]
	}
}

func windowPlain(w *window) {
	most := 0
	for _, at := range w.at {
		most = max(most, at)
	}
	dst, src := unsafe.Slice(w.dst, (w.rows-1)*w.dstLine+w.cols), unsafe.Slice(w.src, (w.rows-1)*w.srcLine+w.cols+most)
	for y := range w.rows {
		line := dst[y*w.dstLine:][:w.cols]
		for i := range line {
			line[i] = 0
		}
		for t, v := range w.weights {
			axpyPlain(v, src[y*w.srcLine+w.at[t]:][:w.cols], line)
		}
		clampPlain(w.plus, w.low, w.high, line)
	}
}
