package neural

import (
	"errors"
	"fmt"
	"slices"
)

// view returns the numbers of x in another shape.
func (b *builder) view(x *value, shape []int) ([]*value, error) {
	if s := x.source(); s.data != nil {
		return []*value{{shape: shape, data: &tensor{shape: shape, floats: s.data.floats, ints: s.data.ints, isInt: s.data.isInt}}}, nil
	}
	return []*value{{shape: shape, root: x}}, nil
}

// constant returns a value of integers.
func constant(shape []int, ints ...int64) []*value {
	return []*value{{shape: shape, data: &tensor{shape: shape, ints: ints, isInt: true}}}
}

// numbers returns the integers of input i, or of an attribute, which older versions of an
// operator have instead.
func numbers(n *node, in []*value, i int, name string) (v []int, ok bool, err error) {
	if i > 0 && i < len(in) && in[i] != nil {
		d := in[i].source().data
		if d == nil || !d.isInt {
			return nil, false, fmt.Errorf("%s that are not constant", name)
		}
		for _, x := range d.ints {
			v = append(v, int(x))
		}
		return v, true, nil
	}
	a, ok := n.attrs[name]
	for _, x := range a.ints {
		v = append(v, int(x))
	}
	return v, ok, nil
}

// axisOf returns a dimension of a shape; negative ones count from the end.
func axisOf(axis, dims int) (int, error) {
	if axis < 0 {
		axis += dims
	}
	if axis < 0 || axis >= dims {
		return 0, fmt.Errorf("there is no axis %d in %d dimensions", axis, dims)
	}
	return axis, nil
}

// axesOf returns the dimensions in input i or in the attribute "axes", or all by default.
func axesOf(n *node, in []*value, i, dims int) (all []int, err error) {
	axes, ok, err := numbers(n, in, i, "axes")
	if err != nil {
		return nil, err
	}
	for _, a := range axes {
		if a, err = axisOf(a, dims); err != nil {
			return nil, err
		}
		if slices.Contains(all, a) {
			return nil, errors.New("an axis appears twice")
		}
		all = append(all, a)
	}
	for d := 0; d < dims && !ok; d++ {
		all = append(all, d)
	}
	return all, nil
}

func buildIdentity(b *builder, n *node, in []*value) ([]*value, error) {
	return b.view(in[0], in[0].shape)
}

func buildReshape(b *builder, n *node, in []*value) ([]*value, error) {
	want, _, err := numbers(n, in, 1, "shape")
	if err != nil {
		return nil, err
	}
	shape, open, size := make([]int, len(want)), -1, 1
	for i, d := range want {
		switch {
		case d == 0 && n.int("allowzero", 0) == 0 && i < len(in[0].shape):
			d = in[0].shape[i]
		case d == -1 && open < 0:
			open = i
			continue
		}
		if d <= 0 || size > in[0].size()/d {
			return nil, fmt.Errorf("the shape %v does not fit numbers of shape %v", want, in[0].shape)
		}
		shape[i] = d
		size *= d
	}
	if open >= 0 {
		shape[open] = in[0].size() / size
		size *= shape[open]
	}
	if size != in[0].size() || len(shape) > maxDims {
		return nil, fmt.Errorf("the shape %v does not fit numbers of shape %v", want, in[0].shape)
	}
	return b.view(in[0], shape)
}

func buildFlatten(b *builder, n *node, in []*value) ([]*value, error) {
	axis := n.int("axis", 1)
	if axis < 0 {
		axis += len(in[0].shape)
	}
	if axis < 0 || axis > len(in[0].shape) {
		return nil, fmt.Errorf("there is no axis %d in %d dimensions", axis, len(in[0].shape))
	}
	return b.view(in[0], []int{volume(in[0].shape[:axis]), volume(in[0].shape[axis:])})
}

func buildSqueeze(b *builder, n *node, in []*value) ([]*value, error) {
	axes, ok, err := numbers(n, in, 1, "axes")
	if err != nil {
		return nil, err
	}
	drop := map[int]bool{}
	for _, a := range axes {
		a, err := axisOf(a, len(in[0].shape))
		if err != nil {
			return nil, err
		}
		if in[0].shape[a] != 1 {
			return nil, fmt.Errorf("dimension %d of %v is not 1", a, in[0].shape)
		}
		drop[a] = true
	}
	shape := []int{}
	for i, d := range in[0].shape {
		if !drop[i] && (ok || d != 1) {
			shape = append(shape, d)
		}
	}
	return b.view(in[0], shape)
}

func buildUnsqueeze(b *builder, n *node, in []*value) ([]*value, error) {
	axes, _, err := numbers(n, in, 1, "axes")
	if err != nil {
		return nil, err
	}
	dims := len(in[0].shape) + len(axes)
	if dims > maxDims {
		return nil, fmt.Errorf("more than %d dimensions", maxDims)
	}
	added := map[int]bool{}
	for _, a := range axes {
		a, err := axisOf(a, dims)
		if err != nil {
			return nil, err
		}
		added[a] = true
	}
	if len(added) != len(axes) {
		return nil, errors.New("an axis appears twice")
	}
	shape, rest := make([]int, 0, dims), in[0].shape
	for i := range dims {
		if added[i] {
			shape = append(shape, 1)
		} else {
			shape, rest = append(shape, rest[0]), rest[1:]
		}
	}
	return b.view(in[0], shape)
}

func buildShape(b *builder, n *node, in []*value) ([]*value, error) {
	var dims []int64
	for _, d := range in[0].shape {
		dims = append(dims, int64(d))
	}
	from, to := n.int("start", 0), n.int("end", len(dims))
	if from < 0 {
		from += len(dims)
	}
	if to < 0 {
		to += len(dims)
	}
	from, to = max(0, min(from, len(dims))), max(0, min(to, len(dims)))
	dims = dims[from:max(from, to)]
	return constant([]int{len(dims)}, dims...), nil
}

func buildConstant(b *builder, n *node, in []*value) ([]*value, error) {
	for name, a := range n.attrs {
		switch {
		case name == "value" && a.t != nil:
			return []*value{{shape: a.t.shape, data: a.t}}, nil
		case name == "value_float":
			return []*value{{shape: []int{}, data: &tensor{shape: []int{}, floats: []float32{a.f}}}}, nil
		case name == "value_floats":
			return []*value{{shape: []int{len(a.floats)}, data: &tensor{shape: []int{len(a.floats)}, floats: a.floats}}}, nil
		case name == "value_int":
			return constant([]int{}, a.i), nil
		case name == "value_ints":
			return constant([]int{len(a.ints)}, a.ints...), nil
		}
	}
	return nil, errors.New("the constant is neither numbers nor a tensor")
}

func buildConstantOfShape(b *builder, n *node, in []*value) ([]*value, error) {
	d := in[0].source().data
	if d == nil || !d.isInt {
		return nil, errors.New("the shape is not constant")
	}
	shape := []int{}
	for _, v := range d.ints {
		shape = append(shape, int(v))
	}
	if _, err := b.value(shape); err != nil {
		return nil, err
	}
	size := volume(shape)
	if b.folded += size; b.folded > maxWeights {
		return nil, fmt.Errorf("more than %d numbers in constants", maxWeights)
	}
	t := &tensor{shape: shape}
	if v := n.attrs["value"].t; v != nil && v.isInt && len(v.ints) == 1 {
		t.isInt, t.ints = true, slices.Repeat(v.ints, size)
	} else if v != nil && len(v.floats) == 1 {
		t.floats = slices.Repeat(v.floats, size)
	} else {
		t.floats = make([]float32, size)
	}
	return []*value{{shape: shape, data: t}}, nil
}

func buildCast(b *builder, n *node, in []*value) ([]*value, error) {
	to := n.int("to", typeFloat)
	float := to == typeFloat || to == typeFloat16 || to == typeDouble || to == typeBFloat
	d := in[0].source().data
	if d == nil {
		if !float {
			return nil, errors.New("a result consists of integers")
		}
		return b.view(in[0], in[0].shape)
	}
	t := &tensor{shape: in[0].shape, isInt: !float, ints: d.ints, floats: d.floats}
	if float && d.isInt {
		t.ints, t.floats = nil, make([]float32, len(d.ints))
		for i, v := range d.ints {
			t.floats[i] = float32(v)
		}
	}
	if !float && !d.isInt {
		t.floats, t.ints = nil, make([]int64, len(d.floats))
		for i, v := range d.floats {
			t.ints[i] = int64(v)
		}
	}
	return []*value{{shape: in[0].shape, data: t}}, nil
}

// A mover copies numbers from one shape to another.
type mover struct {
	shape  []int // of the result
	stride []int // in the source, for each dimension of the result
	from   int   // where in the source the result begins
}

// emit adds a step that moves numbers, or moves constant integers now.
func (m *mover) emit(b *builder, in []*value, x *value) ([]*value, error) {
	if d := x.source().data; d != nil && d.isInt {
		if _, err := b.value(m.shape); err != nil {
			return nil, err
		}
		if b.folded += volume(m.shape); b.folded > maxWeights {
			return nil, fmt.Errorf("more than %d numbers in constants", maxWeights)
		}
		ints := make([]int64, volume(m.shape))
		move(m, ints, d.ints)
		return constant(m.shape, ints...), nil
	}
	return b.emit(m.shape, in, func(out *value) func(*Worker) {
		return func(w *Worker) { move(m, out.numbersIn(w), x.numbersIn(w)) }
	})
}

func move[T any](m *mover, dst, src []T) {
	dims := len(m.shape)
	if dims == 0 {
		dst[0] = src[m.from]
		return
	}
	last, stride := m.shape[dims-1], m.stride[dims-1]
	var at [maxDims]int
	from := m.from
	for len(dst) > 0 {
		if stride == 1 {
			copy(dst[:last], src[from:])
		} else {
			p := from
			for i := range last {
				dst[i] = src[p]
				p += stride
			}
		}
		dst = dst[last:]
		for d := dims - 2; d >= 0; d-- {
			at[d]++
			from += m.stride[d]
			if at[d] < m.shape[d] {
				break
			}
			from -= at[d] * m.stride[d]
			at[d] = 0
		}
	}
}

// strides returns the distances between neighbours in each dimension of a shape.
func strides(shape []int) []int {
	s, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

func buildTranspose(b *builder, n *node, in []*value) ([]*value, error) {
	x := in[0]
	perm, ok, _ := numbers(n, nil, 0, "perm")
	if !ok {
		for i := range x.shape {
			perm = append(perm, len(x.shape)-1-i)
		}
	}
	m, s, seen := mover{}, strides(x.shape), map[int]bool{}
	for _, p := range perm {
		if p < 0 || p >= len(x.shape) || seen[p] {
			return nil, fmt.Errorf("perm %v does not fit the shape %v", perm, x.shape)
		}
		seen[p] = true
		m.shape, m.stride = append(m.shape, x.shape[p]), append(m.stride, s[p])
	}
	if len(perm) != len(x.shape) {
		return nil, fmt.Errorf("perm %v does not fit the shape %v", perm, x.shape)
	}
	return m.emit(b, in, x)
}

func buildSlice(b *builder, n *node, in []*value) ([]*value, error) {
	x := in[0]
	var parts [4][]int
	for i, name := range []string{"starts", "ends", "axes", "steps"} {
		v, _, err := numbers(n, in, i+1, name)
		if err != nil {
			return nil, err
		}
		parts[i] = v
	}
	m := mover{shape: slices.Clone(x.shape), stride: strides(x.shape)}
	for i, from := range parts[0] {
		axis, step := i, 1
		if i < len(parts[2]) {
			axis = parts[2][i]
		}
		if i < len(parts[3]) {
			step = parts[3][i]
		}
		axis, err := axisOf(axis, len(x.shape))
		if err != nil {
			return nil, err
		}
		if i >= len(parts[1]) || step < 1 {
			return nil, errors.New("the slice has no end, or goes backwards")
		}
		dim, to := x.shape[axis], parts[1][i]
		if from < 0 {
			from += dim
		}
		if to < 0 {
			to += dim
		}
		from, to = max(0, min(from, dim)), max(0, min(to, dim))
		if to <= from {
			return nil, errors.New("the slice is empty")
		}
		m.from += from * m.stride[axis]
		m.shape[axis] = (to-from-1)/step + 1
		m.stride[axis] *= step
	}
	return m.emit(b, in, x)
}

func buildSplit(b *builder, n *node, in []*value) ([]*value, error) {
	x := in[0]
	axis, err := axisOf(n.int("axis", 0), len(x.shape))
	if err != nil {
		return nil, err
	}
	sizes, ok, err := numbers(n, in, 1, "split")
	if err != nil {
		return nil, err
	}
	if !ok {
		per := (x.shape[axis] + len(n.outputs) - 1) / len(n.outputs)
		for left := x.shape[axis]; left > 0; left -= per {
			sizes = append(sizes, min(per, left))
		}
	}
	if len(sizes) != len(n.outputs) {
		return nil, fmt.Errorf("there are %d sizes for %d results", len(sizes), len(n.outputs))
	}
	var all []*value
	at, s := 0, strides(x.shape)
	for _, size := range sizes {
		if size < 1 || size > x.shape[axis]-at {
			return nil, fmt.Errorf("the sizes %v do not add up to %d", sizes, x.shape[axis])
		}
		m := mover{shape: slices.Clone(x.shape), stride: s, from: at * s[axis]}
		m.shape[axis] = size
		out, err := m.emit(b, in, x)
		if err != nil {
			return nil, err
		}
		all = append(all, out[0])
		at += size
	}
	return all, nil
}

func buildGather(b *builder, n *node, in []*value) ([]*value, error) {
	x, d := in[0], in[1].source().data
	if d == nil || !d.isInt || len(d.shape) > 1 || len(d.ints) == 0 {
		return nil, errors.New("the indices are not constant, or not a list")
	}
	axis, err := axisOf(n.int("axis", 0), len(x.shape))
	if err != nil {
		return nil, err
	}
	s := strides(x.shape)
	step := 0
	for i, v := range d.ints {
		if v < 0 {
			v += int64(x.shape[axis])
		}
		if v < 0 || v >= int64(x.shape[axis]) {
			return nil, fmt.Errorf("there is no index %d in %d numbers", v, x.shape[axis])
		}
		if i == 1 {
			step = int(v) - int(d.ints[0])
		}
		if i > 0 && int(v) != int(d.ints[0])+i*step {
			return nil, errors.New("the indices are not equally spaced")
		}
	}
	first := int(d.ints[0])
	if first < 0 {
		first += x.shape[axis]
	}
	m := mover{shape: slices.Clone(x.shape), stride: slices.Clone(s), from: first * s[axis]}
	m.shape[axis], m.stride[axis] = len(d.ints), s[axis]*step
	if len(d.shape) == 0 {
		m.shape, m.stride = slices.Delete(m.shape, axis, axis+1), slices.Delete(m.stride, axis, axis+1)
	}
	return m.emit(b, in, x)
}

func buildConcat(b *builder, n *node, in []*value) ([]*value, error) {
	axis, err := axisOf(n.int("axis", 0), len(in[0].shape))
	if err != nil {
		return nil, err
	}
	shape, ints := slices.Clone(in[0].shape), []int64(nil)
	shape[axis] = 0
	whole := true
	for _, v := range in {
		if v == nil || len(v.shape) != len(shape) {
			return nil, errors.New("the inputs have different shapes")
		}
		for i, d := range v.shape {
			if i != axis && d != shape[i] {
				return nil, fmt.Errorf("the inputs have different shapes: %v and %v", in[0].shape, v.shape)
			}
		}
		shape[axis] += v.shape[axis]
		if d := v.source().data; d != nil && d.isInt && len(shape) == 1 {
			ints = append(ints, d.ints...)
		} else {
			whole = false
		}
	}
	if whole && len(ints) <= maxNumbers {
		return constant(shape, ints...), nil
	}
	for _, v := range in {
		if d := v.source().data; d != nil && d.isInt {
			return nil, errors.New("integers are mixed with floats")
		}
	}
	outer, inner := volume(shape[:axis]), volume(shape[axis+1:])
	return b.emit(shape, in, func(out *value) func(*Worker) {
		return func(w *Worker) {
			dst, at := out.numbersIn(w), 0
			for _, v := range in {
				src, n := v.numbersIn(w), v.shape[axis]*inner
				for o := range outer {
					copy(dst[o*shape[axis]*inner+at:][:n], src[o*n:])
				}
				at += n
			}
		}
	})
}

func buildPad(b *builder, n *node, in []*value) ([]*value, error) {
	x := in[0]
	if mode := n.string("mode", "constant"); mode != "constant" {
		return nil, fmt.Errorf("mode %q is not supported", mode)
	}
	pads, _, err := numbers(n, in, 1, "pads")
	if err != nil {
		return nil, err
	}
	axes, err := axesOf(n, in, 3, len(x.shape))
	if err != nil {
		return nil, err
	}
	if len(pads) != 2*len(axes) {
		return nil, errors.New("there are not two pads for each dimension")
	}
	all := make([]int, 2*len(x.shape))
	for i, a := range axes {
		all[a], all[a+len(x.shape)] = pads[i], pads[i+len(axes)]
	}
	pads = all
	fill := n.float("value", 0)
	if len(in) > 2 && in[2] != nil {
		d := in[2].source().data
		if d == nil || len(d.floats) != 1 {
			return nil, errors.New("the value is not constant")
		}
		fill = d.floats[0]
	}
	shape, from := slices.Clone(x.shape), 0
	for i := range shape {
		before, after := pads[i], pads[i+len(shape)]
		if before < 0 || after < 0 || before > maxWindow || after > maxWindow {
			return nil, fmt.Errorf("pads are not from 0 to %d", maxWindow)
		}
		shape[i] += before + after
	}
	if _, err := b.value(shape); err != nil {
		return nil, err
	}
	s := strides(shape)
	for i := range shape {
		from += pads[i] * s[i]
	}
	return b.emit(shape, in, func(out *value) func(*Worker) {
		return func(w *Worker) {
			dst, src := out.numbersIn(w), x.numbersIn(w)
			for i := range dst {
				dst[i] = fill
			}
			place(dst[from:], src, x.shape, s)
		}
	})
}

// place copies numbers of a shape into a larger one.
func place(dst, src []float32, shape, stride []int) {
	if len(shape) <= 1 {
		copy(dst, src)
		return
	}
	n := volume(shape[1:])
	for i := range shape[0] {
		place(dst[i*stride[0]:], src[i*n:(i+1)*n], shape[1:], stride[1:])
	}
}
