// Package nettest makes small models in the format of ONNX, for tests.
package nettest

import (
	"encoding/binary"
	"math"
)

// A Model is an unfinished model.
type Model struct {
	graph []byte
	opset int
}

// New begins a model whose input "in" has a shape; 0 leaves a size open.
func New(opset int, shape ...int) *Model {
	m := &Model{opset: opset}
	m.graph = Bytes(m.graph, 11, port("in", shape))
	return m
}

// Bytes appends a field of bytes to a message.
func Bytes(b []byte, field int, v []byte) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<3|2)
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// Int appends a field with a number.
func Int(b []byte, field int, v int) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<3)
	return binary.AppendUvarint(b, uint64(v))
}

func port(name string, shape []int) []byte {
	var dims []byte
	for _, d := range shape {
		var dim []byte
		if d > 0 {
			dim = Int(nil, 1, d)
		} else {
			dim = Bytes(nil, 2, []byte("open"))
		}
		dims = Bytes(dims, 1, dim)
	}
	typ := Bytes(Int(nil, 1, 1), 2, dims)
	return Bytes(Bytes(nil, 1, []byte(name)), 2, Bytes(nil, 1, typ))
}

// Weights adds constants.
func (m *Model) Weights(name string, shape []int, v ...float32) *Model {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return m.tensor(name, shape, 1, raw)
}

// Ints adds constants that are integers.
func (m *Model) Ints(name string, v ...int) *Model {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
	}
	return m.tensor(name, []int{len(v)}, 7, raw)
}

func (m *Model) tensor(name string, shape []int, typ int, raw []byte) *Model {
	var t []byte
	for _, d := range shape {
		t = Int(t, 1, d)
	}
	m.graph = Bytes(m.graph, 5, Bytes(Bytes(Int(t, 2, typ), 8, []byte(name)), 9, raw))
	return m
}

// Outside adds constants that are said to be in another file.
func (m *Model) Outside(name, file string) *Model {
	place := Bytes(Bytes(nil, 1, []byte("location")), 2, []byte(file))
	m.graph = Bytes(m.graph, 5, Int(Bytes(Bytes(Int(Int(nil, 1, 1), 2, 1), 8, []byte(name)), 13, place), 14, 1))
	return m
}

// Op adds an operation. Attributes are integers or lists of them.
func (m *Model) Op(op, out string, attrs map[string]any, in ...string) *Model {
	var n []byte
	for _, name := range in {
		n = Bytes(n, 1, []byte(name))
	}
	n = Bytes(Bytes(n, 2, []byte(out)), 4, []byte(op))
	for name, v := range attrs {
		a := Bytes(nil, 1, []byte(name))
		switch v := v.(type) {
		case int:
			a = Int(a, 3, v)
		case []int:
			for _, x := range v {
				a = Int(a, 8, x)
			}
		case string:
			a = Bytes(a, 4, []byte(v))
		}
		n = Bytes(n, 5, a)
	}
	m.graph = Bytes(m.graph, 1, n)
	return m
}

// File returns the model with an output.
func (m *Model) File(output string) []byte {
	g := Bytes(m.graph, 12, port(output, nil))
	b := Bytes(Int(nil, 1, 8), 2, []byte("nettest"))
	b = Bytes(b, 8, Int(nil, 2, m.opset))
	return Bytes(b, 7, g)
}

// Means returns a model that computes the means of red and of green, each from 0 to 1, of a
// picture of size × size.
func Means(size int) []byte {
	return New(13, 0, 3, size, size).
		Op("GlobalAveragePool", "means", nil, "in").
		Op("Flatten", "flat", nil, "means").
		Weights("w", []int{3, 2}, 1, 0, 0, 1, 0, 0).
		Op("MatMul", "out", nil, "flat", "w").File("out")
}
