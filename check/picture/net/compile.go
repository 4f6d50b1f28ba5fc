// Package net runs small neural networks that are stored in the format of ONNX,
// in Go and without other libraries.
//
// [Read] reads a file within limits. [Graph.Compile] finds the shape of every
// result, computes what is constant, folds normalisations and activations into
// the operations before them, and plans memory: results that are never needed at
// the same time share their place. A [Net] can be used by many [Worker]s at a
// time; each has memory of its own and runs on one processor.
//
// Convolutions are products of matrices. Their innermost part is a kernel for
// AVX-512, AVX2, NEON, or in Go, chosen when the program starts.
package net

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

const (
	// MaxWorker bounds the memory of a worker, in bytes.
	MaxWorker = 64 << 20
	// MaxWork bounds the multiplications of one run.
	MaxWork = 20_000_000_000
)

// A value is a result of a step, an input, or a constant.
type value struct {
	name  string
	shape []int
	data  *tensor // of a constant
	root  *value  // whose numbers these are in another shape; nil: its own

	at          int // in the memory of a worker
	first, last int // steps between which the numbers are needed
}

func (v *value) source() *value {
	for v.root != nil {
		v = v.root
	}
	return v
}

func (v *value) size() int { return volume(v.shape) }

// in returns the numbers of v.
func (v *value) in(w *Worker) []float32 {
	s := v.source()
	if s.data != nil {
		return s.data.floats
	}
	return w.memory[s.at : s.at+s.size()]
}

// A step is one operation, ready to run.
type step struct {
	of      *node
	in, out []*value
	run     func(w *Worker)
}

type builder struct {
	g       *Graph
	k       *kernel
	values  map[string]*value
	users   map[string][]int // nodes that read a name
	fused   map[int]bool     // nodes that another one does as well
	last    map[*node]string // what the result of such a one is called
	results map[string]bool  // outputs of the graph
	node    int              // that is being built
	steps   []step
	room    scratch
	work    int64
	folded  int // numbers of constants that were computed
}

// scratch is what steps need beside inputs and outputs, in numbers.
type scratch struct{ plane, left int }

// A Net is a model that is ready to run.
type Net struct {
	Input   []int   // shape
	Outputs [][]int // shapes
	Nodes   int
	Weights int   // numbers
	Work    int64 // multiplications of one run
	Memory  int   // bytes of one worker

	k       *kernel
	input   *value
	outputs []*value
	steps   []step
	room    scratch
	numbers int // of a worker's memory
}

// Kernel is the name of the kernel that n runs on.
func (n *Net) Kernel() string { return n.k.name }

// Missing names the operators of g that are not there, with how often they
// are used.
func (g *Graph) Missing() []string {
	count := map[string]int{}
	for i := range g.nodes {
		n := &g.nodes[i]
		if _, ok := operators[n.op]; !ok || n.domain != "" {
			name := n.op
			if n.domain != "" {
				name = n.domain + "." + n.op
			}
			count[name]++
		}
	}
	var all []string
	for name, n := range count {
		all = append(all, fmt.Sprintf("%s (%d times)", name, n))
	}
	slices.Sort(all)
	return all
}

// Operators lists the operators that are there.
func Operators() []string {
	var all []string
	for name := range operators {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Compile makes a network of g for an input of a shape. Sizes of it that are 0
// are those of the model; a batch is one picture.
func (g *Graph) Compile(shape []int) (*Net, error) { return g.compile(shape, kernels[0]) }

func (g *Graph) compile(shape []int, k *kernel) (*Net, error) {
	b := &builder{g: g, k: k, values: map[string]*value{}, users: map[string][]int{}, fused: map[int]bool{}, last: map[*node]string{}, results: map[string]bool{}}
	input, err := b.begin(shape)
	if err != nil {
		return nil, err
	}
	for i := range g.nodes {
		if b.fused[i] {
			continue
		}
		b.node = i
		if err := b.build(&g.nodes[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", &g.nodes[i], err)
		}
		if b.work > MaxWork {
			return nil, fmt.Errorf("more than %d million multiplications for a picture", MaxWork/1_000_000)
		}
	}
	n := &Net{Input: input.shape, Nodes: len(g.nodes), Work: b.work, k: k, input: input, steps: b.steps, room: b.room}
	for _, name := range g.outputs {
		v := b.values[name]
		switch {
		case v == nil:
			return nil, fmt.Errorf("nothing makes the output %q", name)
		case v.source().data != nil && v.source().data.isInt:
			return nil, fmt.Errorf("the output %q is of integers", name)
		}
		n.outputs = append(n.outputs, v)
		n.Outputs = append(n.Outputs, v.shape)
	}
	for _, t := range g.weights {
		n.Weights += t.size()
	}
	n.plan()
	if n.Memory = 4 * (n.numbers + n.room.plane + n.room.left + k.bufferSize()); n.Memory > MaxWorker {
		return nil, fmt.Errorf("a worker needs %d MB; at most %d", n.Memory>>20, MaxWorker>>20)
	}
	return n, nil
}

// begin makes values of the weights and of the input.
func (b *builder) begin(shape []int) (*value, error) {
	g := b.g
	for i := range g.nodes {
		for _, name := range g.nodes[i].inputs {
			b.users[name] = append(b.users[name], i)
		}
	}
	for _, name := range g.outputs {
		b.results[name] = true
	}
	for name, t := range g.weights {
		b.values[name] = &value{name: name, shape: t.shape, data: t}
	}
	var in *port
	for i := range g.inputs {
		if g.weights[g.inputs[i].name] != nil {
			continue // older files list weights as inputs, too
		}
		if in != nil {
			return nil, fmt.Errorf("the model has more than one input: %s and %s", in.name, g.inputs[i].name)
		}
		in = &g.inputs[i]
	}
	if in == nil {
		return nil, errors.New("the model has no input")
	}
	if len(in.shape) == 0 {
		in.shape = make([]int, len(shape))
	}
	full := slices.Clone(in.shape)
	for i := range full {
		switch {
		case i == 0 && full[0] == 0:
			full[0] = 1
		case i == 0 && full[0] != 1:
			return nil, fmt.Errorf("the model takes %d pictures at a time; only one is given", full[0])
		case full[i] == 0 && i < len(shape) && shape[i] > 0:
			full[i] = shape[i]
		case full[i] == 0:
			return nil, fmt.Errorf("the model leaves the size of its input open (%v): say which in its description", in.shape)
		case i < len(shape) && shape[i] > 0 && shape[i] != full[i]:
			return nil, fmt.Errorf("the model takes an input of %v, not of %v", in.shape, shape)
		}
	}
	v, err := b.value(full)
	if err != nil {
		return nil, err
	}
	v.name, v.first = in.name, -1
	b.values[in.name] = v
	return v, nil
}

// build does one node, or computes it now if all its inputs are constants.
func (b *builder) build(n *node) error {
	op, ok := operators[n.op]
	if !ok || n.domain != "" {
		return errors.New("there is no such operator here")
	}
	in := make([]*value, len(n.inputs))
	constant := true
	for i, name := range n.inputs {
		if name == "" {
			continue
		}
		v := b.values[name]
		if v == nil {
			return fmt.Errorf("it reads %q, which nothing before it makes", name)
		}
		in[i] = v
		constant = constant && v.source().data != nil
	}
	for _, v := range in[:min(op.floats, len(in))] {
		switch {
		case v == nil:
		case v.size() == 0:
			return errors.New("an input without numbers")
		case !op.ints && v.source().data != nil && v.source().data.isInt:
			return errors.New("integers as numbers of a picture")
		}
	}
	if len(in) < op.least || slices.Contains(in[:op.least], nil) {
		return fmt.Errorf("it has fewer than %d inputs", op.least)
	}
	if len(n.outputs) == 0 {
		return errors.New("it has no output")
	}
	before, name := len(b.steps), n.outputs[0]
	out, err := op.build(b, n, in)
	if err != nil {
		return err
	}
	if constant {
		if err := b.fold(before); err != nil {
			return err
		}
	}
	if len(out) == 1 {
		b.values[b.lastName(n, name)] = out[0]
		return nil
	}
	for i, v := range out {
		if i < len(n.outputs) && n.outputs[i] != "" {
			b.values[n.outputs[i]] = v
		}
	}
	return nil
}

// lastName is the name of n's result, or that of the last node fused with it.
func (b *builder) lastName(n *node, name string) string {
	if last, ok := b.last[n]; ok {
		return last
	}
	return name
}

// fold runs the steps from before on and makes constants of their results.
func (b *builder) fold(before int) error {
	w := &Worker{net: &Net{k: b.k}, plane: make([]float32, b.room.plane), left: make([]float32, b.room.left), buffer: make([]float32, b.k.bufferSize())}
	for _, s := range b.steps[before:] {
		for _, v := range s.out {
			if b.folded += v.size(); b.folded > maxWeights {
				return fmt.Errorf("more than %d numbers in constants", maxWeights)
			}
			v.data = &tensor{shape: v.shape, floats: make([]float32, v.size(), v.size()+lanes)}
		}
		s.run(w)
	}
	b.steps = b.steps[:before]
	return nil
}

// value makes a value of a shape that fits into a worker.
func (b *builder) value(shape []int) (*value, error) {
	n := 1
	if len(shape) > maxDims {
		return nil, fmt.Errorf("a result of %d dimensions; at most %d", len(shape), maxDims)
	}
	for _, d := range shape {
		if d <= 0 || d > MaxWorker/4 || n > MaxWorker/4/d {
			return nil, fmt.Errorf("a result of the shape %v: empty, or more than a worker may have (%d MB)", shape, MaxWorker>>20)
		}
		n *= d
	}
	return &value{shape: shape, first: math.MaxInt, last: -1}, nil
}

// emit adds a step with one result.
func (b *builder) emit(shape []int, in []*value, make func(out *value) func(w *Worker)) ([]*value, error) {
	out, err := b.value(shape)
	if err != nil {
		return nil, err
	}
	b.step(in, []*value{out}, make(out))
	return []*value{out}, nil
}

func (b *builder) step(in, out []*value, run func(w *Worker)) {
	b.steps = append(b.steps, step{of: &b.g.nodes[b.node], in: in, out: out, run: run})
}

// only returns the one node that reads a name, nil if there are none or several,
// or if it is an output of the graph.
func (b *builder) only(name string) (*node, int) {
	users := b.users[name]
	if len(users) != 1 || b.results[name] || users[0] <= b.node {
		return nil, 0
	}
	return &b.g.nodes[users[0]], users[0]
}

// fuse takes the activation that follows n into it.
func (b *builder) fuse(n *node) activation {
	name := b.lastName(n, n.outputs[0])
	if next, i := b.only(name); next != nil && len(next.outputs) == 1 && next.inputs[0] == name && next.domain == "" {
		if a, ok := b.activationOf(next); ok {
			b.take(n, i, next.outputs[0])
			return a
		}
	}
	return b.fuseSiLU(n, name)
}

// fuseSiLU takes x · sigmoid(x), which is written as two nodes.
func (b *builder) fuseSiLU(n *node, name string) activation {
	users := b.users[name]
	if len(users) != 2 || b.results[name] || users[0] <= b.node || users[1] <= b.node {
		return none
	}
	s, m := &b.g.nodes[users[0]], &b.g.nodes[users[1]]
	if s.op != "Sigmoid" || m.op != "Mul" || s.domain != "" || m.domain != "" || len(s.outputs) != 1 || len(m.outputs) != 1 || len(m.inputs) != 2 {
		return none
	}
	if o, _ := b.only(s.outputs[0]); o != m || !slices.Contains(m.inputs, name) || !slices.Contains(m.inputs, s.outputs[0]) {
		return none
	}
	b.fused[users[0]] = true
	b.take(n, users[1], m.outputs[0])
	a := none
	a.bend = bendSiLU
	return a
}

// take notes that n does node i, too, and makes its result.
func (b *builder) take(n *node, i int, result string) {
	b.fused[i] = true
	b.last[n] = result
}

// plan gives every value its place, large ones first, each as low as it does not
// meet another one that is needed at the same time.
func (n *Net) plan() {
	seen := map[*value]bool{}
	var all []*value
	use := func(v *value, at int) {
		s := v.source()
		if s.data != nil {
			return
		}
		s.first, s.last = min(s.first, at), max(s.last, at)
		if !seen[s] {
			seen[s] = true
			all = append(all, s)
		}
	}
	use(n.input, -1)
	for i, s := range n.steps {
		for _, v := range s.in {
			if v != nil {
				use(v, i)
			}
		}
		for _, v := range s.out {
			use(v, i)
		}
	}
	for _, v := range n.outputs {
		use(v, len(n.steps))
	}
	slices.SortStableFunc(all, func(a, b *value) int { return cmp.Compare(b.size(), a.size()) })
	var placed []*value // by place
	for _, v := range all {
		at := 0
		for _, o := range placed {
			if o.last < v.first || v.last < o.first {
				continue
			}
			if at+v.size()+lanes <= o.at {
				break
			}
			at = max(at, o.at+roundUp(o.size()+lanes, 16))
		}
		v.at = at
		n.numbers = max(n.numbers, at+v.size()+lanes)
		i, _ := slices.BinarySearchFunc(placed, at, func(o *value, at int) int { return cmp.Compare(o.at, at) })
		placed = slices.Insert(placed, i, v)
	}
}

// A Worker runs a network. It belongs to one goroutine at a time.
type Worker struct {
	net                         *Net
	memory, plane, left, buffer []float32
}

// Worker makes a worker with memory of its own.
func (n *Net) Worker() *Worker {
	return &Worker{net: n, memory: make([]float32, n.numbers), plane: make([]float32, n.room.plane),
		left: make([]float32, n.room.left), buffer: make([]float32, n.k.bufferSize())}
}

// Input is where the input of the next run goes.
func (w *Worker) Input() []float32 { return w.net.input.in(w) }

// Run runs the network on what lies in Input, and uses that up. The results
// belong to the worker until its next run.
func (w *Worker) Run(ctx context.Context) ([][]float32, error) {
	for i := range w.net.steps {
		if i&7 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		w.net.steps[i].run(w)
	}
	var out [][]float32
	for _, v := range w.net.outputs {
		out = append(out, v.in(w))
	}
	return out, nil
}
