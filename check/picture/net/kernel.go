package net

import "unsafe"

// A kernel is the innermost part of the arithmetic, for one kind of processor.
//
// tile multiplies a panel of mr rows and k columns by one of k rows and nr
// columns, both packed so that one step along k lies together, and stores or
// adds the product in c, whose rows are ldc apart.
type kernel struct {
	name   string
	mr, nr int
	tile   func(k int, a, b, c *float32, ldc int, add bool)
	// axpy adds s·x to y.
	axpy func(s float32, x, y []float32)
	// most takes the larger of x and y into y.
	most func(x, y []float32)
	// clamp adds plus to x and keeps the sums between low and high.
	clamp func(plus, low, high float32, x []float32)
}

// plain is the kernel in Go, for every processor.
var plain = kernel{name: "plain Go", mr: 4, nr: 4, tile: tilePlain, axpy: axpyPlain, most: mostPlain, clamp: clampPlain}

// kernels are those that this processor can run, best first.
var kernels = append(native(), &plain)

// Kernels returns the names of the kernels that this processor can run, the one
// in use first.
func Kernels() []string {
	var names []string
	for _, k := range kernels {
		names = append(names, k.name)
	}
	return names
}

func tilePlain(k int, a, b, c *float32, ldc int, add bool) {
	as, bs := unsafe.Slice(a, 4*k), unsafe.Slice(b, 4*k)
	var s [4][4]float32
	for half := 0; half < 4; half += 2 { // eight sums stay in registers, sixteen do not
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
