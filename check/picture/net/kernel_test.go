package net

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
					t.Fatalf("%s, %v: number %d is %v, want %v", kernel.name, size, i, c[i], want[i])
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
				"axpy":  func(k *kernel, y []float32) { k.axpy(0.7, x, y) },
				"most":  func(k *kernel, y []float32) { k.most(x, y) },
				"clamp": func(k *kernel, y []float32) { k.clamp(0.1, -0.5, 0.5, y) },
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

func TestExpIsThatOfTheMathPackage(t *testing.T) {
	for x := float32(-80); x < 80; x += 0.37 {
		if want := math.Exp(float64(x)); math.Abs(float64(exp(x))-want) > 1e-6*want {
			t.Errorf("exp(%v) = %v, want %v", x, exp(x), want)
		}
	}
	if sigmoid(-200) != sigmoid(-200) || sigmoid(200) != 1 {
		t.Error("sigmoid of large numbers")
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
