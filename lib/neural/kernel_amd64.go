package neural

import "golang.org/x/sys/cpu"

//go:noescape
func tileAVX2(k int, a, b, c *float32, ldc int, add bool)

//go:noescape
func tileAVX512(k int, a, b, c *float32, ldc int, add bool)

//go:noescape
func axpyAVX2(n int, s float32, x, y *float32)

//go:noescape
func maxAVX2(n int, x, y *float32)

//go:noescape
func clampAVX2(n int, plus, low, high float32, x *float32)

//go:noescape
func sigmoidAVX2(n int, plus float32, times bool, x *float32)

//go:noescape
func evensAVX2(n int, dst, x *float32)

//go:noescape
func windowAVX2(w *window)

func native() (all []*kernel) {
	avx2 := kernel{name: "AVX2", mr: 6, nr: 16, tile: tileAVX2, axpy: axpyWide, most: mostWide, clamp: clampWide,
		sigmoid: sigmoidWide, evens: evensWide, window: windowAVX2}
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return nil
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL {
		wide := avx2
		wide.name, wide.mr, wide.nr, wide.tile = "AVX-512", 12, 32, tileAVX512
		all = append(all, &wide)
	}
	return append(all, &avx2)
}

func axpyWide(s float32, x, y []float32) {
	n := len(x) &^ 7
	y = y[:len(x)]
	if n > 0 {
		axpyAVX2(n, s, &x[0], &y[0])
	}
	axpyPlain(s, x[n:], y[n:])
}

func mostWide(x, y []float32) {
	n := len(x) &^ 7
	y = y[:len(x)]
	if n > 0 {
		maxAVX2(n, &x[0], &y[0])
	}
	mostPlain(x[n:], y[n:])
}

func clampWide(plus, low, high float32, x []float32) {
	n := len(x) &^ 7
	if n > 0 {
		clampAVX2(n, plus, low, high, &x[0])
	}
	clampPlain(plus, low, high, x[n:])
}

func sigmoidWide(plus float32, times bool, x []float32) {
	n := len(x) &^ 7
	if n > 0 {
		sigmoidAVX2(n, plus, times, &x[0])
	}
	sigmoidPlain(plus, times, x[n:])
}

func evensWide(dst, x []float32) {
	n := min(len(dst), len(x)/2) &^ 7 // an odd element follows each one that is read
	if n > 0 {
		evensAVX2(n, &dst[0], &x[0])
	}
	if n < len(dst) {
		evensPlain(dst[n:], x[2*n:])
	}
}
