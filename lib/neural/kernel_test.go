package neural

import (
	"math"
	"math/rand/v2"
	"testing"
)

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}

func TestAllKernelsAgreeWithASumInDoublePrecision(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][3]int{{1, 1, 1}, {4, 4, 4}, {5, 17, 3}, {6, 16, 64}, {12, 32, 300}, {13, 33, 257}, {64, 300, 576}, {7, 49, 1000}} {
		m, n, k := size[0], size[1], size[2]
		a, b := random(r, m*k), random(r, k*n)
		want, scale := make([]float64, m*n), make([]float64, m*n)
		for i := range m {
			for j := range n {
				for x := range k {
					p := float64(a[i*k+x]) * float64(b[x*n+j])
					want[i*n+j] += p
					scale[i*n+j] += math.Abs(p)
				}
			}
		}
		for _, kernel := range kernels {
			left := make([]float32, kernel.leftSize(m, k))
			kernel.packLeft(left, m, k, func(row, col int) float32 { return a[row*k+col] })
			c := random(r, m*n)
			kernel.gemm(&product{m: m, n: n, k: k, left: left, c: c, row: func(line []float32, k, n0 int) []float32 { return b[k*n+n0:][:len(line)] }},
				make([]float32, kernel.bufferSize()))
			for i := range c {
				if math.Abs(float64(c[i])-want[i]) > 1e-5*max(1, scale[i]) {
					t.Fatalf("%s, product of %v: number %d is %v, want %v", kernel.name, size, i, c[i], want[i])
				}
			}
		}
	}
}

func TestAllKernelsAgreeOnVectors(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 7, 8, 31, 32, 33, 100} {
		x, y := random(r, n), random(r, n)
		for _, k := range kernels {
			for name, do := range map[string]func(k *kernel, y []float32){
				"axpy":    func(k *kernel, y []float32) { k.axpy(0.7, x, y) },
				"most":    func(k *kernel, y []float32) { k.most(x, y) },
				"clamp":   func(k *kernel, y []float32) { k.clamp(0.1, -0.5, 0.5, y) },
				"sigmoid": func(k *kernel, y []float32) { k.sigmoid(0.1, false, y) },
				"SiLU":    func(k *kernel, y []float32) { k.sigmoid(-0.1, true, y) },
				"evens":   func(k *kernel, y []float32) { k.evens(y[:(n+1)/2], x) },
			} {
				got, want := append([]float32(nil), y...), append([]float32(nil), y...)
				do(k, got)
				do(&plain, want)
				for i := range got {
					if math.Abs(float64(got[i]-want[i])) > 1e-5 {
						t.Errorf("%s of %s, %d numbers: %v at %d, want %v", name, k.name, n, got[i], i, want[i])
					}
				}
			}
		}
	}
}

func TestAllKernelsTakeTheSigmoidOfAnyNumber(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, times := range []bool{false, true} {
		for _, k := range kernels {
			x := []float32{-inf, -200, -88.4, -87, -20, -1, -1e-30, 0, 1e-30, 0.3, 5, 17, 88, 200, inf, nan}
			got := append([]float32(nil), x...)
			k.sigmoid(0, times, got)
			for i, v := range x {
				want := 1 / (1 + math.Exp(-float64(v)))
				if times {
					want *= float64(v)
				}
				if math.IsInf(float64(v), -1) && times {
					continue // it is no number in double precision
				}
				if d := math.Abs(float64(got[i]) - want); !(d <= 1e-6*max(1, math.Abs(want))) && !(math.IsNaN(want) && got[i] != got[i]) && float64(got[i]) != want {
					t.Errorf("%s: sigmoid of %v (times it: %v) is %v, want %v", k.name, v, times, got[i], want)
				}
			}
		}
	}
}

func TestAllKernelsKeepNaN(t *testing.T) {
	for _, k := range kernels {
		x := make([]float32, 20)
		x[3], x[18] = float32(math.NaN()), float32(math.NaN())
		k.clamp(0, 0, 6, x)
		if x[3] == x[3] || x[18] == x[18] {
			t.Errorf("%s: clamp changed a NaN to a number: %v", k.name, x)
		}
	}
}

func TestAllKernelsAgreeOnWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, s := range []slide{
		{h: 7, w: 7, oh: 7, ow: 7, kh: 3, kw: 3, sh: 1, sw: 1, dh: 1, dw: 1, pt: 1, pl: 1},
		{h: 9, w: 33, oh: 5, ow: 17, kh: 3, kw: 3, sh: 2, sw: 2, dh: 1, dw: 1, pt: 1, pl: 1},
		{h: 12, w: 70, oh: 12, ow: 70, kh: 5, kw: 5, sh: 1, sw: 1, dh: 1, dw: 1, pt: 2, pl: 2},
		{h: 20, w: 26, oh: 6, ow: 8, kh: 3, kw: 3, sh: 3, sw: 3, dh: 2, dw: 2, pt: 1, pl: 1},
		{h: 1, w: 25, oh: 1, ow: 25, kh: 1, kw: 1, sh: 1, sw: 1, dh: 1, dw: 1},
		{h: 4, w: 40, oh: 4, ow: 9, kh: 1, kw: 7, sh: 1, sw: 4, dh: 1, dw: 1, pl: 3},
	} {
		plane, weights := random(r, s.h*s.w), random(r, s.kh*s.kw)
		for _, k := range kernels {
			room, dst := make([]float32, s.planeSize()), make([]float32, s.oh*s.ow+lanes)
			s.pad(room, 0)
			s.takeApart(k, room, plane)
			do := s.window(room, weights)
			do.dst, do.plus, do.low, do.high = &dst[0], 0.25, -1, 1.5
			k.window(&do)
			for o := range s.oh * s.ow {
				want := 0.25
				for i, v := range weights {
					y, x := o/s.ow*s.sh-s.pt+i/s.kw*s.dh, o%s.ow*s.sw-s.pl+i%s.kw*s.dw
					if y >= 0 && y < s.h && x >= 0 && x < s.w {
						want += float64(v) * float64(plane[y*s.w+x])
					}
				}
				if want = max(-1, min(1.5, want)); math.Abs(float64(dst[o])-want) > 1e-5 {
					t.Fatalf("%s, window %+v: output %d is %v, want %v", k.name, s, o, dst[o], want)
				}
			}
		}
	}
}

func TestExpIsThatOfTheMathPackage(t *testing.T) {
	for x := float32(-80); x < 80; x += 0.37 {
		if want := math.Exp(float64(x)); math.Abs(float64(exp(x))-want) > 1e-6*want {
			t.Errorf("exp(%v) = %v, want %v", x, exp(x), want)
		}
	}
	if sigmoid(-200) != sigmoid(-200) || sigmoid(200) != 1 {
		t.Error("sigmoid of -200 or 200 is wrong")
	}
}

func BenchmarkGemm(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	m, n, k := 128, 784, 1152
	right, c := random(r, k*n), make([]float32, m*n)
	for _, kernel := range kernels {
		b.Run(kernel.name, func(b *testing.B) {
			left, buffer := random(r, kernel.leftSize(m, k)), make([]float32, kernel.bufferSize())
			for b.Loop() {
				kernel.gemm(&product{m: m, n: n, k: k, left: left, c: c, row: func(line []float32, k, n0 int) []float32 { return right[k*n+n0:][:len(line)] }}, buffer)
			}
			b.ReportMetric(float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
		})
	}
}
