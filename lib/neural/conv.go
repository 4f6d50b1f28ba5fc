package neural

import (
	"errors"
	"fmt"
)

// A slide is a window that slides over planes, in a convolution or in pooling.
type slide struct {
	h, w   int // of the input
	oh, ow int // of the output
	kh, kw int // of the window
	sh, sw int // strides
	dh, dw int // dilations
	pt, pl int // padding above and to the left
}

const maxWindow = 1 << 12 // strides, dilations, padding and window

// slideOf reads the attributes of a convolution or of pooling.
func slideOf(n *node, in []int, kh, kw int) (s slide, err error) {
	if len(in) != 4 {
		return s, fmt.Errorf("an input of %d dimensions is not supported, only planes are", len(in))
	}
	s = slide{h: in[2], w: in[3], kh: kh, kw: kw, sh: 1, sw: 1, dh: 1, dw: 1}
	pair := func(name string, a, b *int) {
		if v := n.attrs[name].ints; len(v) == 2 {
			*a, *b = int(v[0]), int(v[1])
		} else if len(v) != 0 {
			err = fmt.Errorf("%s has %d numbers", name, len(v))
		}
	}
	pair("strides", &s.sh, &s.sw)
	pair("dilations", &s.dh, &s.dw)
	var pb, pr int
	if v := n.attrs["pads"].ints; len(v) == 4 {
		s.pt, s.pl, pb, pr = int(v[0]), int(v[1]), int(v[2]), int(v[3])
	} else if len(v) != 0 {
		err = fmt.Errorf("pads has %d numbers", len(v))
	}
	if err != nil {
		return s, err
	}
	for _, v := range []int{s.kh, s.kw, s.sh, s.sw, s.dh, s.dw, s.pt + 1, s.pl + 1, pb + 1, pr + 1} {
		if v < 1 || v > maxWindow {
			return s, fmt.Errorf("a window, stride, dilation or padding is not from 1 to %d", maxWindow)
		}
	}
	kh, kw = (s.kh-1)*s.dh+1, (s.kw-1)*s.dw+1
	switch auto := n.string("auto_pad", "NOTSET"); auto {
	case "", "NOTSET":
	case "VALID":
		s.pt, s.pl, pb, pr = 0, 0, 0, 0
	case "SAME_UPPER", "SAME_LOWER":
		y := max(0, (roundUp(s.h, s.sh)/s.sh-1)*s.sh+kh-s.h)
		x := max(0, (roundUp(s.w, s.sw)/s.sw-1)*s.sw+kw-s.w)
		s.pt, s.pl, pb, pr = y/2, x/2, y-y/2, x-x/2
		if auto == "SAME_LOWER" {
			s.pt, s.pl, pb, pr = pb, pr, s.pt, s.pl
		}
	default:
		return s, fmt.Errorf("auto_pad %q", auto)
	}
	y, x := s.h+s.pt+pb-kh, s.w+s.pl+pr-kw
	if y < 0 || x < 0 {
		return s, errors.New("the window is larger than the picture")
	}
	s.oh, s.ow = y/s.sh+1, x/s.sw+1
	if n.int("ceil_mode", 0) != 0 {
		s.oh, s.ow = (y+s.sh-1)/s.sh+1, (x+s.sw-1)/s.sw+1
		if (s.oh-1)*s.sh >= s.h+s.pt { // a window that begins in the padding after the input does not count
			s.oh--
		}
		if (s.ow-1)*s.sw >= s.w+s.pl {
			s.ow--
		}
	}
	return s, nil
}

// row collects the inputs at position ky, kx of the window, for the outputs from n0 on.
func (s *slide) row(kern *kernel, dst, plane []float32, ky, kx, n0 int) {
	oy, ox := n0/s.ow, n0%s.ow
	for len(dst) > 0 {
		seg := dst[:min(s.ow-ox, len(dst))]
		dst = dst[len(seg):]
		iy, ix, i := oy*s.sh-s.pt+ky*s.dh, ox*s.sw-s.pl+kx*s.dw, 0
		oy, ox = oy+1, 0
		if iy < 0 || iy >= s.h {
			clear(seg)
			continue
		}
		for ; i < len(seg) && ix < 0; i++ {
			seg[i] = 0
			ix += s.sw
		}
		if ix < s.w {
			i += s.copyLine(kern, seg[i:], plane[iy*s.w+ix:(iy+1)*s.w])
		}
		clear(seg[i:])
	}
}

// phases returns the height and width of a phase. Phases are a padded plane divided by the
// remainder of each coordinate modulo the stride. The inputs for one position of the window
// are then contiguous in one phase, for all outputs at once; columns between the lines are
// meaningless.
func (s *slide) phases() (ph, pw int) {
	ph = roundUp((s.oh-1)*s.sh+(s.kh-1)*s.dh+1, s.sh) / s.sh
	pw = roundUp((s.ow-1)*s.sw+(s.kw-1)*s.dw+1, s.sw) / s.sw
	return ph, pw
}

// planeSize returns the size of all phases, including bytes that kernels read after them.
func (s *slide) planeSize() int {
	ph, pw := s.phases()
	return s.sh*s.sw*ph*pw + lanes
}

// needPlane reserves memory for the phases of s.
func (b *builder) needPlane(s *slide) error {
	if s.planeSize() > MaxWorker/4 {
		return errors.New("the window needs more memory than a worker has")
	}
	b.room.plane = max(b.room.plane, s.planeSize())
	return nil
}

// pad fills phases with the value outside of a plane.
func (s *slide) pad(phases []float32, pad float32) {
	phases = phases[:s.planeSize()]
	for i := range phases {
		phases[i] = pad
	}
}

// takeApart distributes a plane to padded phases.
func (s *slide) takeApart(k *kernel, phases, plane []float32) {
	ph, pw := s.phases()
	for y := range s.h {
		r := y + s.pt
		if r/s.sh >= ph {
			break
		}
		line := plane[y*s.w : (y+1)*s.w]
		for px := range s.sw {
			dst := phases[((r%s.sh*s.sw+px)*ph+r/s.sh)*pw:][:pw]
			first := 0 // first column with a coordinate inside the plane
			if px < s.pl {
				first = (s.pl - px + s.sw - 1) / s.sw
			}
			if x := first*s.sw + px - s.pl; first < pw && x < s.w {
				s.copyLine(k, dst[first:], line[x:])
			}
		}
	}
}

// copyLine copies every sw-th number of a line to dst, as far as there is room, and returns how
// many.
func (s *slide) copyLine(k *kernel, dst, line []float32) int {
	n := min(len(dst), (len(line)+s.sw-1)/s.sw)
	switch s.sw {
	case 1:
		copy(dst, line)
	case 2:
		k.evens(dst[:n], line)
	default:
		for i := range n {
			dst[i] = line[i*s.sw]
		}
	}
	return n
}

// phaseRange returns the positions in phases of the inputs for the first output, for each position
// in the window.
func (s *slide) phaseRange() []int {
	ph, pw := s.phases()
	var at []int
	for ky := range s.kh {
		for kx := range s.kw {
			y, x := ky*s.dh, kx*s.dw
			at = append(at, ((y%s.sh*s.sw+x%s.sw)*ph+y/s.sh)*pw+x/s.sw)
		}
	}
	return at
}

// window returns the window over phases, for a kernel.
func (s *slide) window(phases, weights []float32) window {
	_, pw := s.phases()
	return window{rows: s.oh, cols: s.ow, dstLine: s.ow, src: &phases[0], srcLine: pw, at: s.phaseRange(), weights: weights, low: none.low, high: none.high}
}

func buildConv(b *builder, n *node, in []*value) ([]*value, error) {
	x, w := in[0], in[1].source().data
	if w == nil {
		return nil, errors.New("the weights are not constant")
	}
	if len(w.shape) != 4 || len(x.shape) != 4 {
		return nil, fmt.Errorf("weights of %d and an input of %d dimensions are not supported, only planes are", len(w.shape), len(x.shape))
	}
	m, cg, groups := w.shape[0], w.shape[1], n.int("group", 1)
	if groups < 1 || cg < 1 || m < 1 || m%groups != 0 || cg*groups != x.shape[1] || w.size() == 0 {
		return nil, fmt.Errorf("weights of shape %v in %d groups do not fit an input of shape %v", w.shape, groups, x.shape)
	}
	if k := n.attrs["kernel_shape"].ints; len(k) == 2 && (int(k[0]) != w.shape[2] || int(k[1]) != w.shape[3]) {
		return nil, fmt.Errorf("kernel_shape %v does not fit weights of shape %v", k, w.shape)
	}
	s, err := slideOf(n, x.shape, w.shape[2], w.shape[3])
	if err != nil {
		return nil, err
	}
	bias := make([]float32, m)
	if len(in) > 2 && in[2] != nil {
		d := in[2].source().data
		if d == nil || len(d.floats) != m {
			return nil, errors.New("the bias is not constant, or does not have one number per result")
		}
		copy(bias, d.floats)
	}
	c := &conv{slide: s, k: b.k, m: m, cg: cg, groups: groups, bias: bias, weights: w.floats}
	if err := c.foldNorm(b, n); err != nil {
		return nil, err
	}
	c.act = b.fuse(n)
	b.work += int64(x.shape[0]) * int64(w.size()) * int64(s.oh) * int64(s.ow)
	if b.work > MaxWork {
		return nil, fmt.Errorf("more than %d million multiplications", MaxWork/1_000_000)
	}
	if err := c.prepare(b); err != nil {
		return nil, err
	}
	return b.emit([]int{x.shape[0], m, s.oh, s.ow}, in, func(out *value) func(*Worker) {
		return func(w *Worker) {
			src, dst := x.numbersIn(w), out.numbersIn(w)
			in, size := c.groups*c.cg*s.h*s.w, c.m*s.oh*s.ow
			for i := range x.shape[0] {
				c.run(w, src[i*in:(i+1)*in], dst[i*size:(i+1)*size])
			}
		}
	})
}

// A conv is a convolution.
type conv struct {
	slide
	k             *kernel
	m, cg, groups int
	weights, bias []float32
	packed        [][]float32 // weights of each group; nil if each has one channel
	act           activation
}

// foldNorm folds the normalisation that follows n into its weights.
func (c *conv) foldNorm(b *builder, n *node) error {
	next, i := b.onlyReader(n.outputs[0])
	if next == nil || next.op != "BatchNormalization" || next.domain != "" || len(next.inputs) != 5 || next.inputs[0] != n.outputs[0] {
		return nil
	}
	scale, shift, err := normOf(b, next, c.m)
	if err != nil {
		return nil // it is built by itself and reports the error
	}
	per := len(c.weights) / c.m
	scaled := make([]float32, len(c.weights))
	for r := range c.m {
		for j := range per {
			scaled[r*per+j] = c.weights[r*per+j] * scale[r]
		}
		c.bias[r] = c.bias[r]*scale[r] + shift[r]
	}
	c.weights = scaled
	b.absorb(n, i, next.outputs[0])
	return nil
}

func (c *conv) prepare(b *builder) error {
	if c.cg == 1 && c.groups > 1 {
		return b.needPlane(&c.slide)
	}
	mg, k := c.m/c.groups, c.cg*c.kh*c.kw
	for g := range c.groups {
		packed := make([]float32, c.k.leftSize(mg, k))
		w := c.weights[g*mg*k:]
		c.k.packLeft(packed, mg, k, func(row, col int) float32 { return w[row*k+col] })
		c.packed = append(c.packed, packed)
	}
	c.weights = nil
	return nil
}

func (c *conv) run(w *Worker, src, dst []float32) {
	if c.packed == nil {
		c.depthwise(w, src, dst)
		return
	}
	mg, n := c.m/c.groups, c.oh*c.ow
	window := c.kh * c.kw
	flat := window == 1 && c.sh == 1 && c.sw == 1 && c.oh == c.h && c.ow == c.w && c.pt == 0 && c.pl == 0
	for g := range c.groups {
		in := src[g*c.cg*c.h*c.w:]
		p := product{m: mg, n: n, k: c.cg * window, left: c.packed[g], c: dst[g*mg*n : (g+1)*mg*n],
			done: func(row int, part []float32) { c.act.apply(c.k, c.bias[g*mg+row], part) }}
		p.row = func(line []float32, k, n0 int) []float32 {
			ch, at := k/window, k%window
			c.row(c.k, line, in[ch*c.h*c.w:(ch+1)*c.h*c.w], at/c.kw, at%c.kw, n0)
			return line
		}
		if flat {
			p.row = func(line []float32, k, n0 int) []float32 { return in[k*n+n0:][:len(line)] }
		}
		c.k.gemm(&p, w.buffer)
	}
}

// depthwise convolves each channel separately.
func (c *conv) depthwise(w *Worker, src, dst []float32) {
	per, n, places := c.m/c.groups, c.oh*c.ow, c.kh*c.kw
	c.pad(w.plane, 0)
	do := c.window(w.plane, nil)
	if c.act.bend == nil {
		do.low, do.high = c.act.low, c.act.high
	}
	for g := range c.groups {
		c.takeApart(c.k, w.plane, src[g*c.h*c.w:(g+1)*c.h*c.w])
		for r := g * per; r < (g+1)*per; r++ {
			do.dst, do.weights, do.plus = &dst[r*n], c.weights[r*places:(r+1)*places], c.bias[r]
			c.k.window(&do)
			if c.act.bend != nil {
				c.act.apply(c.k, 0, dst[r*n:(r+1)*n])
			}
		}
	}
}
