// Package neural runs small neural networks in the format of ONNX, without other libraries.
//
// [Read] reads a file within limits. [Graph.Compile] determines the shape of every result,
// computes constants, folds normalisations and activations into the operations before them,
// and plans memory: results that are never needed at the same time share it. Several [Worker]s
// can use a [Net] at a time; each has its own memory and runs on one processor.
//
// Convolutions are matrix products. Their innermost part is a kernel for AVX-512, AVX2, NEON,
// or in Go, selected when the program starts.
package neural

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

const (
	// MaxWorker limits the memory of a worker, in bytes.
	MaxWorker = 64 << 20
	// MaxWork limits the multiplications of one run.
	MaxWork = 20_000_000_000
)

// A value is the result of a step, an input, or a constant.
type value struct {
	name  string
	shape []int
	data  *tensor // nil if not constant
	root  *value  // the value whose numbers it shares in another shape; nil if it has its own

	at          int // offset in the memory of a worker
	first, last int // steps between which the numbers are needed
}

func (v *value) source() *value {
	for v.root != nil {
		v = v.root
	}
	return v
}

func (v *value) size() int { return volume(v.shape) }

// numbersIn returns the numbers of v in a worker's memory.
func (v *value) numbersIn(w *Worker) []float32 {
	s := v.source()
	if s.data != nil {
		return s.data.floats
	}
	return w.memory[s.at : s.at+s.size()]
}

// A step is one compiled operation.
type step struct {
	of      *node
	in, out []*value
	run     func(w *Worker)
}

type builder struct {
	g       *Graph
	k       *kernel
	known   map[string]operator
	values  map[string]*value
	users   map[string][]int // nodes that read a result, by its name
	fused   map[int]bool     // nodes that are fused with an earlier one
	last    map[*node]string // name of the result of the last node fused with each
	results map[string]bool  // outputs of the graph
	node    int              // the current node
	steps   []step
	room    scratch
	work    int64
	folded  int // numbers in computed constants
}

// scratch is the memory that steps need besides inputs and outputs, in numbers.
type scratch struct{ plane, left int }

// A Net is a compiled model.
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

// Kernel returns the name of the kernel that n runs on.
func (n *Net) Kernel() string { return n.k.name }

// Missing returns the unsupported operators of g, with the number of their uses.
func (g *Graph) Missing() []string {
	known, count := operators(), map[string]int{}
	for i := range g.nodes {
		n := &g.nodes[i]
		if _, ok := known[n.op]; !ok || n.domain != "" {
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

// Operators returns the supported operators.
func Operators() []string {
	var all []string
	for name := range operators() {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Compile makes a network of g for an input of this shape. Sizes of 0 are taken from the
// model; the batch size is always one picture.
func (g *Graph) Compile(shape []int) (*Net, error) { return g.compile(shape, kernels[0]) }

func (g *Graph) compile(shape []int, k *kernel) (*Net, error) {
	b := &builder{g: g, k: k, known: operators(), values: map[string]*value{}, users: map[string][]int{}, fused: map[int]bool{}, last: map[*node]string{}, results: map[string]bool{}}
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
			return nil, fmt.Errorf("no operation produces the output %q", name)
		case v.source().data != nil && v.source().data.isInt:
			return nil, fmt.Errorf("the output %q consists of integers", name)
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

// begin makes values for the weights and the input.
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
			continue // older files also list weights as inputs
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
			return nil, fmt.Errorf("the model reads %d pictures at a time; only one is possible", full[0])
		case full[i] == 0 && i < len(shape) && shape[i] > 0:
			full[i] = shape[i]
		case full[i] == 0:
			return nil, fmt.Errorf("the model does not fix the size of its input (%v): give it in the description", in.shape)
		case i < len(shape) && shape[i] > 0 && shape[i] != full[i]:
			return nil, fmt.Errorf("the input of the model has the shape %v, not %v", in.shape, shape)
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

// build compiles one node, or computes its result now if all inputs are constants.
func (b *builder) build(n *node) error {
	op, ok := b.known[n.op]
	if !ok || n.domain != "" {
		return errors.New("the operator is not supported")
	}
	in := make([]*value, len(n.inputs))
	constant := true
	for i, name := range n.inputs {
		if name == "" {
			continue
		}
		v := b.values[name]
		if v == nil {
			return fmt.Errorf("it reads %q, which no earlier operation produces", name)
		}
		in[i] = v
		constant = constant && v.source().data != nil
	}
	for _, v := range in[:min(op.floats, len(in))] {
		switch {
		case v == nil:
		case v.size() == 0:
			return errors.New("an input is empty")
		case !op.ints && v.source().data != nil && v.source().data.isInt:
			return errors.New("an input consists of integers")
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

// lastName returns the name of n's result, or of the result of the last node fused with it.
func (b *builder) lastName(n *node, name string) string {
	if last, ok := b.last[n]; ok {
		return last
	}
	return name
}

// fold runs the steps from number before on, and turns their results into constants.
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

// value makes a value of this shape, which must fit into a worker.
func (b *builder) value(shape []int) (*value, error) {
	n := 1
	if len(shape) > maxDims {
		return nil, fmt.Errorf("a result has %d dimensions; at most %d are possible", len(shape), maxDims)
	}
	for _, d := range shape {
		if d <= 0 || d > MaxWorker/4 || n > MaxWorker/4/d {
			return nil, fmt.Errorf("a result of shape %v is empty, or larger than a worker (%d MB)", shape, MaxWorker>>20)
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

// onlyReader returns the only node that reads a result; nil if there are none or several, or if the
// result is an output of the graph.
func (b *builder) onlyReader(name string) (*node, int) {
	users := b.users[name]
	if len(users) != 1 || b.results[name] || users[0] <= b.node {
		return nil, 0
	}
	return &b.g.nodes[users[0]], users[0]
}

// fuse fuses n with an activation that follows it, and returns that.
func (b *builder) fuse(n *node) activation {
	name := b.lastName(n, n.outputs[0])
	if next, i := b.onlyReader(name); next != nil && len(next.outputs) == 1 && next.inputs[0] == name && next.domain == "" {
		if a, ok := b.activationOf(next); ok {
			b.absorb(n, i, next.outputs[0])
			return a
		}
	}
	return b.fuseSiLU(n, name)
}

// fuseSiLU fuses n with x · sigmoid(x), which consists of two nodes.
func (b *builder) fuseSiLU(n *node, name string) activation {
	users := b.users[name]
	if len(users) != 2 || b.results[name] || users[0] <= b.node || users[1] <= b.node {
		return none
	}
	s, m := &b.g.nodes[users[0]], &b.g.nodes[users[1]]
	if s.op != "Sigmoid" || m.op != "Mul" || s.domain != "" || m.domain != "" || len(s.outputs) != 1 || len(m.outputs) != 1 || len(m.inputs) != 2 {
		return none
	}
	if o, _ := b.onlyReader(s.outputs[0]); o != m || !slices.Contains(m.inputs, name) || !slices.Contains(m.inputs, s.outputs[0]) {
		return none
	}
	b.fused[users[0]] = true
	b.absorb(n, users[1], m.outputs[0])
	a := none
	a.bend = bendSiLU
	return a
}

// absorb records that n also does the work of node i, and produces its result.
func (b *builder) absorb(n *node, i int, result string) {
	b.fused[i] = true
	b.last[n] = result
}

// plan assigns memory to every value, large ones first, each at the lowest offset where it
// overlaps no other value needed at the same time.
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
	var placed []*value // by offset
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

// Worker makes a worker with its own memory.
func (n *Net) Worker() *Worker {
	return &Worker{net: n, memory: make([]float32, n.numbers), plane: make([]float32, n.room.plane),
		left: make([]float32, n.room.left), buffer: make([]float32, n.k.bufferSize())}
}

// Input returns the memory for the input of the next run.
func (w *Worker) Input() []float32 { return w.net.input.numbersIn(w) }

// Run runs the network on Input, which it overwrites. The results are valid until the worker's
// next run.
func (w *Worker) Run(ctx context.Context) ([][]float32, error) {
	for i := range w.net.steps {
		if i&7 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		w.net.steps[i].run(w)
	}
	var out [][]float32
	for _, v := range w.net.outputs {
		out = append(out, v.numbersIn(w))
	}
	return out, nil
}
