package neural

import (
	"errors"
	"fmt"
	"slices"
)

// few is the number of rows up to which a product is computed row by row, without packing.
const few = 4

func buildGemm(b *builder, n *node, in []*value) ([]*value, error) {
	x, w := in[0], in[1]
	if len(x.shape) != 2 || len(w.shape) != 2 {
		return nil, errors.New("the operands are not matrices")
	}
	if n.int("transA", 0) != 0 {
		return nil, errors.New("transA is not supported")
	}
	data := w.source().data
	if data == nil {
		return nil, errors.New("the weights are not constant")
	}
	k, cols := w.shape[0], w.shape[1]
	if n.int("transB", 0) != 0 {
		k, cols = cols, k
	}
	if k != x.shape[1] {
		return nil, fmt.Errorf("an input of shape %v does not fit weights of shape %v", x.shape, w.shape)
	}
	alpha, right := n.float("alpha", 1), make([]float32, k*cols)
	for i := range k {
		for j := range cols {
			at := i*cols + j
			if n.int("transB", 0) != 0 {
				at = j*k + i
			}
			right[i*cols+j] = alpha * data.floats[at]
		}
	}
	var bias []float32
	if len(in) > 2 && in[2] != nil {
		d := in[2].source().data
		if d == nil || d.isInt || len(d.floats) != cols && len(d.floats) != 1 {
			return nil, errors.New("the bias is not constant, or does not have one number per column")
		}
		beta := n.float("beta", 1)
		for i := range cols {
			bias = append(bias, beta*d.floats[min(i, len(d.floats)-1)])
		}
	}
	fixed := &value{shape: []int{k, cols}, data: &tensor{shape: []int{k, cols}, floats: right}}
	return b.matmul(x, fixed, []int{x.shape[0], cols}, 1, x.shape[0], k, cols, false, bias, b.fuse(n))
}

func buildMatMul(b *builder, n *node, in []*value) ([]*value, error) {
	x, y := in[0], in[1]
	if len(x.shape) < 2 || len(y.shape) < 2 {
		return nil, errors.New("an operand has only one dimension")
	}
	m, k := x.shape[len(x.shape)-2], x.shape[len(x.shape)-1]
	k2, cols := y.shape[len(y.shape)-2], y.shape[len(y.shape)-1]
	front, back := x.shape[:len(x.shape)-2], y.shape[:len(y.shape)-2]
	shape := append(slices.Clone(front), m, cols)
	switch {
	case k != k2:
		return nil, fmt.Errorf("matrices of shapes %v and %v cannot be multiplied", x.shape, y.shape)
	case volume(back) == 1: // one matrix for all
		return b.matmul(x, y, shape, 1, volume(front)*m, k, cols, false, nil, b.fuse(n))
	case slices.Equal(front, back):
		return b.matmul(x, y, shape, volume(front), m, k, cols, true, nil, b.fuse(n))
	}
	return nil, fmt.Errorf("the shapes %v and %v differ", x.shape, y.shape)
}

// matmul multiplies batch matrices of m × k and k × cols. Each has its own right side if each
// is true.
func (b *builder) matmul(x, y *value, shape []int, batch, m, k, cols int, each bool, bias []float32, act activation) ([]*value, error) {
	b.work += int64(batch) * int64(m) * int64(k) * int64(cols)
	if k == 0 || cols == 0 || m == 0 {
		return nil, errors.New("a matrix is empty")
	}
	if m > few {
		if b.k.leftSize(m, k) > MaxWorker/4 {
			return nil, errors.New("a matrix is larger than a worker")
		}
		b.room.left = max(b.room.left, b.k.leftSize(m, k))
	}
	kernel := b.k
	finish := func(dst []float32) {
		for r := 0; r < len(dst); r += cols {
			row := dst[r : r+cols]
			if bias != nil {
				kernel.axpy(1, bias, row)
			}
			act.apply(kernel, 0, row)
		}
	}
	return b.emit(shape, []*value{x, y}, func(out *value) func(*Worker) {
		return func(w *Worker) {
			left, right, dst := x.numbersIn(w), y.numbersIn(w), out.numbersIn(w)
			for i := range batch {
				l, r, d := left[i*m*k:(i+1)*m*k], right, dst[i*m*cols:(i+1)*m*cols]
				if each {
					r = right[i*k*cols:]
				}
				if m > few {
					kernel.packLeft(w.left, m, k, func(row, col int) float32 { return l[row*k+col] })
					kernel.gemm(&product{m: m, n: cols, k: k, left: w.left, c: d,
						row: func(line []float32, k, n0 int) []float32 { return r[k*cols+n0:][:len(line)] }}, w.buffer)
				} else {
					clear(d)
					for row := range m {
						for j, v := range l[row*k : (row+1)*k] {
							kernel.axpy(v, r[j*cols:(j+1)*cols], d[row*cols:(row+1)*cols])
						}
					}
				}
				finish(d)
			}
		}
	})
}
