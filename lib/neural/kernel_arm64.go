package neural

//go:noescape
func tileNEON(k int, a, b, c *float32, ldc int, add bool)

//go:noescape
func axpyNEON(n int, s float32, x, y *float32)

//go:noescape
func sigmoidNEON(n int, plus float32, times bool, x *float32)

//go:noescape
func windowNEON(w *window)

// native returns the kernel for NEON, which every arm64 processor has.
func native() []*kernel {
	return []*kernel{{name: "NEON", mr: 6, nr: 16, tile: tileNEON, axpy: axpyWide, most: mostPlain, clamp: clampPlain,
		sigmoid: sigmoidWide, evens: evensPlain, window: windowNEON}}
}

func axpyWide(s float32, x, y []float32) {
	n := len(x) &^ 7
	y = y[:len(x)]
	if n > 0 {
		axpyNEON(n, s, &x[0], &y[0])
	}
	axpyPlain(s, x[n:], y[n:])
}

func sigmoidWide(plus float32, times bool, x []float32) {
	n := len(x) &^ 3
	if n > 0 {
		sigmoidNEON(n, plus, times, &x[0])
	}
	sigmoidPlain(plus, times, x[n:])
}
