package neural

import (
	"errors"
	"math"
	"slices"
)

func buildMaxPool(b *builder, n *node, in []*value) ([]*value, error) {
	if len(n.outputs) > 1 && n.outputs[1] != "" {
		return nil, errors.New("the indices of the largest numbers are not supported")
	}
	return buildPool(b, n, in, true)
}

func buildAveragePool(b *builder, n *node, in []*value) ([]*value, error) {
	return buildPool(b, n, in, false)
}

func buildPool(b *builder, n *node, in []*value, most bool) ([]*value, error) {
	x, window := in[0], n.attrs["kernel_shape"].ints
	if len(window) != 2 {
		return nil, errors.New("the window does not have two dimensions")
	}
	s, err := slideOf(n, x.shape, int(window[0]), int(window[1]))
	if err != nil {
		return nil, err
	}
	if err := b.needPlane(&s); err != nil {
		return nil, err
	}
	planes := x.shape[0] * x.shape[1]
	b.work += int64(planes) * int64(s.oh*s.ow) * int64(s.kh*s.kw)
	share, pad := []float32(nil), float32(math.Inf(-1))
	if !most {
		share, pad = s.shares(n.int("count_include_pad", 0) != 0, n), 0
	}
	k, at, ones := b.k, s.phaseRange(), slices.Repeat([]float32{1}, s.kh*s.kw)
	return b.emit([]int{x.shape[0], x.shape[1], s.oh, s.ow}, in, func(v *value) func(*Worker) {
		return func(w *Worker) {
			src, dst := x.numbersIn(w), v.numbersIn(w)
			s.pad(w.plane, pad)
			do := s.window(w.plane, ones)
			for c := range planes {
				s.takeApart(k, w.plane, src[c*s.h*s.w:(c+1)*s.h*s.w])
				to := dst[c*s.oh*s.ow : (c+1)*s.oh*s.ow]
				if !most {
					do.dst = &to[0]
					k.window(&do)
					for i := range share {
						to[i] *= share[i]
					}
					continue
				}
				for y := range s.oh {
					line := to[y*s.ow : (y+1)*s.ow]
					for i, a := range at {
						seen := w.plane[a+y*do.srcLine:][:s.ow]
						if i == 0 {
							copy(line, seen)
						} else {
							k.most(seen, line)
						}
					}
				}
			}
		}
	})
}

// shares returns the factor of each mean: one divided by the number of inputs it counts.
func (s *slide) shares(padded bool, n *node) []float32 {
	var below, right int
	if v := n.attrs["pads"].ints; len(v) == 4 {
		below, right = int(v[2]), int(v[3])
	}
	count := func(o, stride, pad, window, dilation, size, after int) int {
		c := 0
		for k := range window {
			at := o*stride - pad + k*dilation
			if at >= 0 && at < size || padded && at < size+after {
				c++
			}
		}
		return max(c, 1)
	}
	share := make([]float32, s.oh*s.ow)
	for y := range s.oh {
		rows := count(y, s.sh, s.pt, s.kh, s.dh, s.h, below)
		for x := range s.ow {
			share[y*s.ow+x] = 1 / float32(rows*count(x, s.sw, s.pl, s.kw, s.dw, s.w, right))
		}
	}
	return share
}

// buildGlobal reduces each plane to one number.
func buildGlobal(most bool) func(b *builder, n *node, in []*value) ([]*value, error) {
	return func(b *builder, n *node, in []*value) ([]*value, error) {
		x := in[0]
		if len(x.shape) < 3 {
			return nil, errors.New("the input has no planes")
		}
		planes := x.shape[0] * x.shape[1]
		size := x.size() / planes
		shape := []int{x.shape[0], x.shape[1]}
		for range x.shape[2:] {
			shape = append(shape, 1)
		}
		return b.emit(shape, in, func(out *value) func(*Worker) {
			return func(w *Worker) {
				src, dst := x.numbersIn(w), out.numbersIn(w)
				for c := range planes {
					dst[c] = reduce(src[c*size:(c+1)*size], most)
				}
			}
		})
	}
}

// reduce returns the largest of some numbers, or their mean.
func reduce(x []float32, most bool) float32 {
	if most {
		m := x[0]
		for _, v := range x {
			m = max(m, v)
		}
		return m
	}
	var sum float64
	for _, v := range x {
		sum += float64(v)
	}
	return float32(sum / float64(len(x)))
}
