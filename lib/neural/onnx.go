package neural

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Limits of a model that is read.
const (
	MaxFile    = 256 << 20 // bytes of a model
	maxNodes   = 5_000
	maxWeights = 64 << 20 // numbers of all weights
	maxDims    = 8
	maxNumbers = 1 << 16 // in an attribute or a constant shape
)

// A tensor is an array of floats or integers with a shape.
type tensor struct {
	shape  []int
	floats []float32
	ints   []int64 // if isInt
	isInt  bool
}

func (t *tensor) size() int { return volume(t.shape) }

// volume returns the number of elements of a shape.
func volume(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// An attribute of a node.
type attribute struct {
	f      float32
	i      int64
	s      string
	t      *tensor
	floats []float32
	ints   []int64
	graph  bool // it has its own graph: a branch or a loop
}

// A node is one operation of a graph.
type node struct {
	op      string
	name    string
	domain  string
	inputs  []string
	outputs []string
	attrs   map[string]attribute
}

func (n *node) String() string {
	if n.name != "" {
		return n.op + " " + n.name
	}
	if len(n.outputs) > 0 {
		return n.op + " of " + n.outputs[0]
	}
	return n.op
}

func (n *node) int(name string, usual int) int {
	if a, ok := n.attrs[name]; ok {
		return int(a.i)
	}
	return usual
}

func (n *node) float(name string, usual float32) float32 {
	if a, ok := n.attrs[name]; ok {
		return a.f
	}
	return usual
}

func (n *node) string(name, usual string) string {
	if a, ok := n.attrs[name]; ok {
		return a.s
	}
	return usual
}

// A Graph is the content of an ONNX file.
type Graph struct {
	Producer string
	Opset    int
	nodes    []node
	weights  map[string]*tensor
	inputs   []port
	outputs  []string
}

// A port is an input of a graph. Sizes that are not fixed are 0.
type port struct {
	name  string
	shape []int
}

// Read reads a model in the format of ONNX. It enforces the limits whatever sizes the bytes
// declare.
func Read(b []byte) (*Graph, error) {
	if len(b) > MaxFile {
		return nil, fmt.Errorf("the model has %d MB; at most %d are possible", len(b)>>20, MaxFile>>20)
	}
	r := reader{g: Graph{weights: map[string]*tensor{}}}
	err := wire(b).eachField(func(f field) error {
		switch {
		case f.number == 2 && f.kind == 2:
			r.g.Producer = string(f.bytes[:min(len(f.bytes), 100)])
		case f.number == 7 && f.kind == 2:
			return r.graph(f.bytes)
		case f.number == 8 && f.kind == 2:
			return r.opset(f.bytes)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading an ONNX model: %w", err)
	}
	if len(r.g.nodes) == 0 || len(r.g.outputs) == 0 {
		return nil, errors.New("reading an ONNX model: it contains no graph")
	}
	if r.g.Opset == 0 {
		r.g.Opset = 1
	}
	return &r.g, nil
}

type reader struct {
	g       Graph
	numbers int // of all weights
}

func (r *reader) opset(b wire) error {
	domain, version := "", 0
	err := b.eachField(func(f field) error {
		switch f.number {
		case 1:
			domain = string(f.bytes)
		case 2:
			version = int(min(f.value, 1000))
		}
		return nil
	})
	if domain == "" || domain == "ai.onnx" {
		r.g.Opset = version
	}
	return err
}

func (r *reader) graph(b wire) error {
	return b.eachField(func(f field) error {
		if f.kind != 2 {
			return nil
		}
		switch f.number {
		case 1:
			if len(r.g.nodes) >= maxNodes {
				return fmt.Errorf("more than %d operations", maxNodes)
			}
			n, err := r.node(f.bytes)
			r.g.nodes = append(r.g.nodes, n)
			return err
		case 5:
			name, t, err := r.tensor(f.bytes)
			if err != nil {
				return fmt.Errorf("weights %q: %w", name, err)
			}
			r.g.weights[name] = t
		case 11:
			p, err := readPort(f.bytes)
			r.g.inputs = append(r.g.inputs, p)
			return err
		case 12:
			p, err := readPort(f.bytes)
			r.g.outputs = append(r.g.outputs, p.name)
			return err
		case 15:
			return errors.New("sparse weights are not supported")
		}
		return nil
	})
}

func (r *reader) node(b wire) (n node, err error) {
	n.attrs = map[string]attribute{}
	err = b.eachField(func(f field) error {
		if f.kind != 2 {
			return nil
		}
		switch f.number {
		case 1:
			n.inputs = append(n.inputs, string(f.bytes))
		case 2:
			n.outputs = append(n.outputs, string(f.bytes))
		case 3:
			n.name = string(f.bytes)
		case 4:
			n.op = string(f.bytes)
		case 5:
			name, a, err := r.attribute(f.bytes)
			if err != nil {
				return fmt.Errorf("attribute %s of %s: %w", name, n.op, err)
			}
			n.attrs[name] = a
		case 7:
			n.domain = string(f.bytes)
		}
		return nil
	})
	if n.domain == "ai.onnx" {
		n.domain = ""
	}
	return n, err
}

func (r *reader) attribute(b wire) (name string, a attribute, err error) {
	err = b.eachField(func(f field) (err error) {
		switch f.number {
		case 1:
			name = string(f.bytes)
		case 2:
			a.f = math.Float32frombits(uint32(f.value))
		case 3:
			a.i = int64(f.value)
		case 4:
			a.s = string(f.bytes)
		case 5:
			_, a.t, err = r.tensor(f.bytes)
		case 6, 11:
			a.graph = true
		case 7:
			a.floats, err = f.floats(a.floats, maxNumbers)
		case 8:
			a.ints, err = f.ints(a.ints, maxNumbers)
		}
		return err
	})
	return name, a, err
}

func readPort(b wire) (p port, err error) {
	err = b.eachField(func(f field) error {
		switch {
		case f.number == 1 && f.kind == 2:
			p.name = string(f.bytes)
		case f.number == 2 && f.kind == 2:
			return f.bytes.eachField(func(f field) error { // of a type
				if f.number != 1 {
					return nil
				}
				return f.bytes.eachField(func(f field) error { // of a tensor
					if f.number != 2 {
						return nil
					}
					return f.bytes.eachField(func(f field) error { // of a shape
						if f.number != 1 {
							return nil
						}
						d, err := readDim(f.bytes)
						p.shape = append(p.shape, d)
						if len(p.shape) > maxDims {
							return fmt.Errorf("a shape of more than %d dimensions", maxDims)
						}
						return err
					})
				})
			})
		}
		return nil
	})
	return p, err
}

func readDim(b wire) (d int, err error) {
	err = b.eachField(func(f field) error {
		if f.number == 1 && f.kind == 0 {
			d = int(int64(f.value))
			if d < 0 || d > 1<<24 {
				d = 0
			}
		}
		return nil
	})
	return d, err
}

// Types of numbers, as ONNX numbers them.
const (
	typeFloat   = 1
	typeUint8   = 2
	typeInt8    = 3
	typeInt32   = 6
	typeInt64   = 7
	typeBool    = 9
	typeFloat16 = 10
	typeDouble  = 11
	typeBFloat  = 16
)

func (r *reader) tensor(b wire) (name string, t *tensor, err error) {
	t = &tensor{shape: []int{}}
	var typ uint64
	var raw wire
	var dims []int64
	var doubles []float64
	hasRaw := false
	err = b.eachField(func(f field) (err error) {
		switch f.number {
		case 1:
			dims, err = f.ints(dims, maxDims)
		case 2:
			typ = f.value
		case 4:
			t.floats, err = f.floats(t.floats, maxWeights)
		case 5, 7:
			t.ints, err = f.ints(t.ints, maxWeights)
		case 8:
			name = string(f.bytes)
		case 9:
			raw, hasRaw = f.bytes, true
		case 10:
			for p := f.bytes; len(p) >= 8; p = p[8:] {
				doubles = append(doubles, math.Float64frombits(binary.LittleEndian.Uint64(p)))
			}
		case 14:
			if f.value == 1 {
				return errors.New("its weights are in another file: save the model as one file")
			}
		}
		return err
	})
	if err != nil {
		return name, t, err
	}
	n := 1
	for _, d := range dims {
		if d < 0 || d > maxWeights || d > 0 && n > maxWeights/int(d) {
			return name, t, fmt.Errorf("a shape of more than %d numbers", maxWeights)
		}
		t.shape = append(t.shape, int(d))
		n *= int(d)
	}
	if r.numbers += n; r.numbers > maxWeights {
		return name, t, fmt.Errorf("more than %d numbers in total", maxWeights)
	}
	return name, t, t.fill(typ, n, raw, hasRaw, doubles)
}

// fill reads numbers of a type into t, which has n elements.
func (t *tensor) fill(typ uint64, n int, raw wire, hasRaw bool, doubles []float64) error {
	size, ok := map[uint64]int{typeFloat: 4, typeUint8: 1, typeInt8: 1, typeInt32: 4, typeInt64: 8, typeBool: 1, typeFloat16: 2, typeDouble: 8, typeBFloat: 2}[typ]
	if !ok {
		return fmt.Errorf("numbers of type %d are not supported", typ)
	}
	t.isInt = typ == typeInt32 || typ == typeInt64 || typ == typeBool || typ == typeUint8 || typ == typeInt8
	switch {
	case hasRaw && len(raw) != n*size:
		return fmt.Errorf("%d bytes for %d numbers of %d bytes", len(raw), n, size)
	case !hasRaw && typ == typeDouble:
		for _, v := range doubles {
			t.floats = append(t.floats, float32(v))
		}
	case !hasRaw && (typ == typeFloat16 || typ == typeBFloat):
		for _, v := range t.ints {
			t.floats = append(t.floats, toFloat(typ, binary.LittleEndian.AppendUint64(nil, uint64(v))))
		}
		t.ints = nil
	case hasRaw && t.isInt:
		t.ints = make([]int64, n)
		for i := range t.ints {
			t.ints[i] = toInt(typ, raw[i*size:])
		}
	case hasRaw:
		t.floats = make([]float32, n)
		for i := range t.floats {
			t.floats[i] = toFloat(typ, raw[i*size:])
		}
	}
	if got := max(len(t.floats), len(t.ints)); got != n {
		return fmt.Errorf("%d numbers for a shape of %d", got, n)
	}
	return nil
}

func toInt(typ uint64, b []byte) int64 {
	switch typ {
	case typeInt64:
		return int64(binary.LittleEndian.Uint64(b))
	case typeInt32:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case typeInt8:
		return int64(int8(b[0]))
	}
	return int64(b[0])
}

func toFloat(typ uint64, b []byte) float32 {
	switch typ {
	case typeFloat:
		return math.Float32frombits(binary.LittleEndian.Uint32(b))
	case typeDouble:
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case typeBFloat:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	}
	h := binary.LittleEndian.Uint16(b) // IEEE 754 binary16
	sign, exp, frac := uint32(h>>15)<<31, int(h>>10&31), uint32(h&1023)
	switch exp {
	case 0:
		v := float32(frac) / (1 << 24)
		if sign != 0 {
			v = -v
		}
		return v
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | uint32(exp+112)<<23 | frac<<13)
}
