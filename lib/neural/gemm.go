package neural

// Blocks of a product that fit into the caches: depth rows of the right side, and wide
// columns.
const (
	depth = 256
	wide  = 256
)

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// packLeft packs m rows of numbers in the order in which tile reads them. at returns one
// number.
func (k *kernel) packLeft(dst []float32, m, depths int, at func(row, col int) float32) {
	i := 0
	for k0 := 0; k0 < depths; k0 += depth {
		k1 := min(k0+depth, depths)
		for m0 := 0; m0 < m; m0 += k.mr {
			for c := k0; c < k1; c++ {
				for r := m0; r < m0+k.mr; r++ {
					if r < m {
						dst[i] = at(r, c)
					} else {
						dst[i] = 0
					}
					i++
				}
			}
		}
	}
}

// leftSize returns the room that packLeft needs.
func (k *kernel) leftSize(m, depths int) int { return roundUp(m, k.mr) * depths }

// bufferSize returns the room that gemm needs besides its operands.
func (k *kernel) bufferSize() int { return depth*roundUp(wide, k.nr) + k.mr*k.nr + wide }

// A product is c = left · right, with m rows and n columns. Rows of c are ldc apart.
type product struct {
	m, n, k int
	left    []float32 // packed
	c       []float32
	// row copies row k of the right side, from column n0 on, to dst, or returns the original.
	row func(dst []float32, k, n0 int) []float32
	// done is called for each finished piece of a row of c; it may be nil.
	done func(row int, part []float32)
}

// gemm multiplies. buffer has bufferSize numbers.
func (k *kernel) gemm(p *product, buffer []float32) {
	right, rest := buffer[:depth*roundUp(wide, k.nr)], buffer[depth*roundUp(wide, k.nr):]
	edge, line := rest[:k.mr*k.nr], rest[k.mr*k.nr:]
	rows := roundUp(p.m, k.mr)
	for n0 := 0; n0 < p.n; n0 += wide {
		n1 := min(n0+wide, p.n)
		for k0 := 0; k0 < p.k; k0 += depth {
			k1 := min(k0+depth, p.k)
			for r := k0; r < k1; r++ {
				k.spread(right, p.row(line[:n1-n0], r, n0), k1-k0, r-k0)
			}
			for m0 := 0; m0 < p.m; m0 += k.mr {
				left := p.left[rows*k0+m0*(k1-k0):]
				k.panel(p, left, right, edge, m0, n0, n1, k1-k0, k0 > 0)
				if k1 == p.k && p.done != nil {
					for r := m0; r < min(m0+k.mr, p.m); r++ {
						p.done(r, p.c[r*p.n+n0:r*p.n+n1])
					}
				}
			}
		}
	}
}

// spread packs one row of the right side.
func (k *kernel) spread(right, row []float32, depths, at int) {
	i := at * k.nr
	switch k.nr { // copies of fixed size take half the time
	case 32:
		for ; len(row) >= 32; row = row[32:] {
			*(*[32]float32)(right[i:]) = *(*[32]float32)(row)
			i += depths * 32
		}
	case 16:
		for ; len(row) >= 16; row = row[16:] {
			*(*[16]float32)(right[i:]) = *(*[16]float32)(row)
			i += depths * 16
		}
	}
	for ; len(row) >= k.nr; row = row[k.nr:] {
		copy(right[i:i+k.nr], row)
		i += depths * k.nr
	}
	if len(row) > 0 {
		n := copy(right[i:i+k.nr], row)
		clear(right[i+n : i+k.nr])
	}
}

// panel multiplies mr rows by all columns of a block.
func (k *kernel) panel(p *product, left, right, edge []float32, m0, n0, n1, depths int, add bool) {
	for j := n0; j < n1; j += k.nr {
		b := &right[(j-n0)*depths]
		if m0+k.mr <= p.m && j+k.nr <= n1 {
			k.tile(depths, &left[0], b, &p.c[m0*p.n+j], p.n, add)
			continue
		}
		k.tile(depths, &left[0], b, &edge[0], k.nr, false)
		cols := min(k.nr, n1-j)
		for r := range min(k.mr, p.m-m0) {
			to, from := p.c[(m0+r)*p.n+j:][:cols], edge[r*k.nr:]
			for x := range to {
				if add {
					to[x] += from[x]
				} else {
					to[x] = from[x]
				}
			}
		}
	}
}
