package neural

import (
	"errors"
	"fmt"
	"math"
)

// buildEach applies one function to each number.
func buildEach(b *builder, n *node, in []*value) ([]*value, error) {
	a, ok := b.activationOf(n)
	if !ok {
		return nil, errors.New("the limits are not constant, or alpha is not 1")
	}
	x, k := in[0], b.k
	return b.emit(x.shape, in[:1], func(out *value) func(*Worker) {
		return func(w *Worker) {
			dst := out.numbersIn(w)
			copy(dst, x.numbersIn(w))
			a.apply(k, 0, dst)
		}
	})
}

// buildMany combines any number of values, two at a time.
func buildMany(f func(x, y float32) float32, i func(x, y int64) int64) func(b *builder, n *node, in []*value) ([]*value, error) {
	two := buildBinary(f, i)
	return func(b *builder, n *node, in []*value) ([]*value, error) {
		if len(in) == 1 {
			return b.view(in[0], in[0].shape)
		}
		out := in[:1]
		for k, v := range in[1:] {
			if v == nil {
				return nil, errors.New("an input is missing")
			}
			part := node{op: n.op, outputs: []string{""}} // nothing reads it, so nothing is fused with it
			if k == len(in)-2 {
				part.outputs = n.outputs
			}
			var err error
			if out, err = two(b, &part, []*value{out[0], v}); err != nil {
				return nil, err
			}
			if name, ok := b.last[&part]; ok {
				b.last[n] = name
			}
		}
		return out, nil
	}
}

// buildBinary combines two values, one of which may be repeated along dimensions.
func buildBinary(f func(x, y float32) float32, i func(x, y int64) int64) func(b *builder, n *node, in []*value) ([]*value, error) {
	return func(b *builder, n *node, in []*value) ([]*value, error) {
		shape, err := broadcast(in[0].shape, in[1].shape)
		if err != nil {
			return nil, err
		}
		p, q := in[0].source().data, in[1].source().data
		if p != nil && q != nil && p.isInt && q.isInt {
			return combineInts(shape, in, i)
		}
		if p != nil && p.isInt || q != nil && q.isInt {
			return nil, errors.New("an input consists of integers")
		}
		x, y, k := in[0], in[1], b.k
		same := x.size() == y.size()
		act := b.fuse(n)
		switch {
		case n.op == "Add" && same:
			return b.emit(shape, in, func(out *value) func(*Worker) {
				return func(w *Worker) {
					dst := out.numbersIn(w)
					copy(dst, x.numbersIn(w))
					k.axpy(1, y.numbersIn(w), dst)
					act.apply(k, 0, dst)
				}
			})
		case same:
			return b.emit(shape, in, func(out *value) func(*Worker) {
				return func(w *Worker) {
					dst, xs, ys := out.numbersIn(w), x.numbersIn(w), y.numbersIn(w)
					for i := range dst {
						dst[i] = f(xs[i], ys[i])
					}
					act.apply(k, 0, dst)
				}
			})
		}
		sx, sy := repeat(x.shape, shape), repeat(y.shape, shape)
		return b.emit(shape, in, func(out *value) func(*Worker) {
			return func(w *Worker) {
				dst := out.numbersIn(w)
				combine(dst, x.numbersIn(w), y.numbersIn(w), shape, sx, sy, f)
				act.apply(k, 0, dst)
			}
		})
	}
}

func combineInts(shape []int, in []*value, f func(x, y int64) int64) ([]*value, error) {
	p, q := in[0].source().data.ints, in[1].source().data.ints
	n := volume(shape)
	if f == nil || n > maxNumbers || len(p) != n && len(p) != 1 || len(q) != n && len(q) != 1 {
		return nil, errors.New("the integers are not lists of equal length")
	}
	out := make([]int64, n)
	for i := range out {
		out[i] = f(p[i%len(p)], q[i%len(q)])
	}
	return constant(shape, out...), nil
}

// broadcast returns the shape of a combination: dimensions of 1 are repeated.
func broadcast(a, b []int) ([]int, error) {
	shape := make([]int, max(len(a), len(b)))
	for i := 1; i <= len(shape); i++ {
		x, y := 1, 1
		if i <= len(a) {
			x = a[len(a)-i]
		}
		if i <= len(b) {
			y = b[len(b)-i]
		}
		if x != y && x != 1 && y != 1 {
			return nil, fmt.Errorf("the shapes %v and %v cannot be combined", a, b)
		}
		shape[len(shape)-i] = max(x, y)
	}
	return shape, nil
}

// repeat returns the strides of a shape that is repeated to a larger one: 0 in repeated
// dimensions.
func repeat(from, to []int) []int {
	s, own := make([]int, len(to)), strides(from)
	for i := range from {
		if from[i] > 1 {
			s[len(to)-len(from)+i] = own[i]
		}
	}
	return s
}

func combine(dst, x, y []float32, shape, sx, sy []int, f func(x, y float32) float32) {
	if len(shape) == 0 {
		dst[0] = f(x[0], y[0])
		return
	}
	if len(shape) == 1 {
		a, b := sx[0], sy[0]
		for i := range dst[:shape[0]] {
			dst[i] = f(x[i*a], y[i*b])
		}
		return
	}
	n := volume(shape[1:])
	for i := range shape[0] {
		combine(dst[i*n:(i+1)*n], x[i*sx[0]:], y[i*sy[0]:], shape[1:], sx[1:], sy[1:], f)
	}
}

// normOf returns a normalisation as a factor and a summand for each channel.
func normOf(b *builder, n *node, channels int) (scale, shift []float32, err error) {
	var p [4][]float32
	for i := range p {
		v := b.values[n.inputs[i+1]]
		if v == nil || v.source().data == nil || len(v.source().data.floats) != channels {
			return nil, nil, errors.New("the normalisation is not constant, or not per channel")
		}
		p[i] = v.source().data.floats
	}
	scale, shift = make([]float32, channels), make([]float32, channels)
	for c := range channels {
		f := float64(p[0][c]) / math.Sqrt(float64(p[3][c])+float64(n.float("epsilon", 1e-5)))
		scale[c], shift[c] = float32(f), float32(float64(p[1][c])-f*float64(p[2][c]))
	}
	return scale, shift, nil
}

func buildNorm(b *builder, n *node, in []*value) ([]*value, error) {
	x := in[0]
	if len(x.shape) < 2 {
		return nil, errors.New("the input has no channels")
	}
	channels := x.shape[1]
	scale, shift, err := normOf(b, n, channels)
	if err != nil {
		return nil, err
	}
	act, k, size := b.fuse(n), b.k, volume(x.shape[2:])
	return b.emit(x.shape, in[:1], func(out *value) func(*Worker) {
		return func(w *Worker) {
			src, dst := x.numbersIn(w), out.numbersIn(w)
			for i := 0; i*size < len(src); i++ {
				s, p, q := scale[i%channels], src[i*size:(i+1)*size], dst[i*size:(i+1)*size]
				for j, v := range p {
					q[j] = s * v
				}
				act.apply(k, shift[i%channels], q)
			}
		}
	})
}

// buildPRelu multiplies negative numbers by a factor for each channel.
func buildPRelu(b *builder, n *node, in []*value) ([]*value, error) {
	return buildBinary(func(x, slope float32) float32 {
		if x < 0 {
			return x * slope
		}
		return x
	}, nil)(b, n, in)
}

func buildSoftmax(b *builder, n *node, in []*value) ([]*value, error) {
	x, usual := in[0], -1
	if b.g.Opset < 13 {
		usual = 1
	}
	axis, err := axisOf(n.int("axis", usual), len(x.shape))
	if err != nil {
		return nil, err
	}
	dim, inner := x.shape[axis], volume(x.shape[axis+1:])
	if b.g.Opset < 13 { // everything from the axis on is then one row
		dim, inner = volume(x.shape[axis:]), 1
	}
	return b.emit(x.shape, in, func(out *value) func(*Worker) {
		return func(w *Worker) {
			src, dst := x.numbersIn(w), out.numbersIn(w)
			for o := 0; o < len(src); o += dim * inner {
				for i := o; i < o+inner; i++ {
					softmax(dst[i:], src[i:], dim, inner)
				}
			}
		}
	})
}

func softmax(dst, src []float32, n, stride int) {
	top := src[0]
	for i := range n {
		top = max(top, src[i*stride])
	}
	var sum float64
	for i := range n {
		e := math.Exp(float64(src[i*stride] - top))
		dst[i*stride] = float32(e)
		sum += e
	}
	for i := range n {
		dst[i*stride] = float32(float64(dst[i*stride]) / sum)
	}
}

// buildReduce reduces dimensions to one number: the last ones, or all.
func buildReduce(f func(x []float32) float32) func(b *builder, n *node, in []*value) ([]*value, error) {
	return func(b *builder, n *node, in []*value) ([]*value, error) {
		x := in[0]
		axes, ok, err := numbers(n, in, 1, "axes")
		if err != nil {
			return nil, err
		}
		if len(axes) == 0 && n.int("noop_with_empty_axes", 0) != 0 {
			return b.view(x, x.shape)
		}
		gone := map[int]bool{}
		for _, a := range axes {
			a, err := axisOf(a, len(x.shape))
			if err != nil {
				return nil, err
			}
			gone[a] = true
		}
		// The source is read in another order: first the dimensions that stay.
		var shape, keep, drop []int
		m := mover{}
		s := strides(x.shape)
		for i, d := range x.shape {
			if ok && len(axes) > 0 && !gone[i] {
				shape, keep = append(shape, d), append(keep, i)
				continue
			}
			drop = append(drop, i)
			if n.int("keepdims", 1) != 0 {
				shape = append(shape, 1)
			}
		}
		size := 1
		for _, i := range append(keep, drop...) {
			m.shape, m.stride = append(m.shape, x.shape[i]), append(m.stride, s[i])
		}
		for _, i := range drop {
			size *= x.shape[i]
		}
		moved, err := m.emit(b, in[:1], x)
		if err != nil {
			return nil, err
		}
		if d := moved[0].source().data; d != nil && d.isInt {
			return nil, errors.New("an input consists of integers")
		}
		return b.emit(shape, moved, func(out *value) func(*Worker) {
			return func(w *Worker) {
				src, dst := moved[0].numbersIn(w), out.numbersIn(w)
				for i := range dst {
					dst[i] = f(src[i*size : (i+1)*size])
				}
			}
		})
	}
}
