package neural

import (
	"math"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/neural/nettest"
)

func run(t *testing.T, model []byte, shape []int, in []float32) ([]float32, error) {
	t.Helper()
	g, err := Read(model)
	if err != nil {
		return nil, err
	}
	n, err := g.Compile(shape)
	if err != nil {
		return nil, err
	}
	w := n.Worker()
	copy(w.Input(), in)
	out, err := w.Run(t.Context())
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

func TestModelsAreRunAsTheStandardSays(t *testing.T) {
	square := []int{1, 1, 3, 3}
	nine := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for name, c := range map[string]struct {
		model []byte
		shape []int
		in    []float32
		want  []float32
	}{
		"convolution with padding": {nettest.New(13, square...).Weights("w", []int{1, 1, 3, 3}, 0, 0, 0, 0, 1, 0, 0, 0, 1).Weights("b", []int{1}, 10).
			Op("Conv", "out", map[string]any{"pads": []int{1, 1, 1, 1}}, "in", "w", "b").File("out"), square, nine, []float32{16, 18, 13, 22, 24, 16, 17, 18, 19}},
		"largest of windows": {nettest.New(13, square...).Op("MaxPool", "out", map[string]any{"kernel_shape": []int{2, 2}}, "in").File("out"), square, nine, []float32{5, 6, 8, 9}},
		"mean without padding": {nettest.New(13, square...).Op("AveragePool", "out", map[string]any{"kernel_shape": []int{2, 2}, "strides": []int{2, 2}, "pads": []int{1, 1, 0, 0}}, "in").File("out"),
			square, nine, []float32{1, 2.5, 5.5, 7}},
		"scales of some dimensions": {nettest.New(18, 1, 1, 1, 2).Weights("s", []int{2}, 2, 2).Op("Resize", "out", map[string]any{"axes": []int{2, 3}, "mode": "nearest"}, "in", "", "s").File("out"),
			nil, []float32{1, 2}, []float32{1, 1, 2, 2, 1, 1, 2, 2}},
		"sizes of one dimension": {nettest.New(18, 1, 1, 1, 2).Ints("s", 4).Op("Resize", "out", map[string]any{"axes": []int{-1}, "mode": "nearest"}, "in", "", "", "s").File("out"),
			nil, []float32{1, 2}, []float32{1, 1, 2, 2}},
		"padding of one dimension": {nettest.New(18, 1, 1, 1, 2).Ints("p", 1, 2).Ints("a", -1).Op("Pad", "out", nil, "in", "p", "", "a").File("out"),
			nil, []float32{5, 6}, []float32{0, 5, 6, 0, 0}},
		"the mean of nothing": {nettest.New(18, 1, 3).Op("ReduceMean", "out", map[string]any{"noop_with_empty_axes": 1}, "in").File("out"), nil, []float32{1, 2, 3}, []float32{1, 2, 3}},
		"the mean of all":     {nettest.New(18, 1, 3).Op("ReduceMean", "out", nil, "in").File("out"), nil, []float32{1, 2, 3}, []float32{2}},
		"the largest of three": {nettest.New(13, 1, 3).Weights("a", []int{1}, 2).Weights("b", []int{3}, 0, 9, 0).Op("Max", "m", nil, "in", "a", "b").Op("Neg", "out", nil, "m").File("out"),
			nil, []float32{1, 2, 3}, []float32{-2, -9, -3}},
		"the sum of three": {nettest.New(13, 1, 3).Op("Sum", "s", nil, "in", "in", "in").Op("Relu", "out", nil, "s").File("out"), nil, []float32{1, -2, 3}, []float32{3, 0, 9}},
		"SiLU by its name": {nettest.New(24, 1, 2).Op("Swish", "out", nil, "in").File("out"), nil, []float32{0, 1}, []float32{0, 0.7310586}},
		"an open size":     {nettest.Means(0), []int{1, 3, 1, 2}, []float32{0, 1, 1, 1, 5, 5}, []float32{0.5, 1}},
		"a shape that is computed": {nettest.New(13, 1, 2, 2, 1).Op("Shape", "s", nil, "in").Ints("zero", 0).Ints("rest", -1).Op("Gather", "n", map[string]any{"axis": 0}, "s", "zero").
			Op("Concat", "to", map[string]any{"axis": 0}, "n", "rest").Op("Reshape", "flat", nil, "in", "to").Op("Neg", "out", nil, "flat").File("out"), nil, []float32{1, 2, 3, 4}, []float32{-1, -2, -3, -4}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := run(t, c.model, c.shape, c.in)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, c.want, func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-5 }) {
				t.Errorf("the model returned %v, want %v", got, c.want)
			}
		})
	}
}

func TestModelsThatCannotRunSayWhy(t *testing.T) {
	for name, c := range map[string]struct {
		model []byte
		want  string
	}{
		"no model":           {[]byte("GIF89a and so on"), "reading an ONNX model"},
		"nothing":            {nil, "no graph"},
		"unknown":            {nettest.New(13, 1, 3).Op("GRU", "out", nil, "in").File("out"), "the operator is not supported"},
		"open size":          {nettest.Means(0), "does not fix the size of its input"},
		"too large":          {nettest.New(13, 1, 3, 1<<12, 1<<12).Op("Relu", "out", nil, "in").File("out"), "MB"},
		"unmade input":       {nettest.New(13, 1, 3).Op("Relu", "out", nil, "other").File("out"), "no earlier operation produces"},
		"unmade output":      {nettest.New(13, 1, 3).Op("Relu", "x", nil, "in").File("out"), "no operation produces the output"},
		"proportions":        {nettest.New(18, 1, 1, 2, 2).Ints("s", 4, 3).Op("Resize", "out", map[string]any{"axes": []int{2, 3}, "keep_aspect_ratio_policy": "not_larger"}, "in", "", "", "s").File("out"), "keep_aspect_ratio_policy"},
		"weights do not fit": {nettest.New(13, 1, 3, 4, 4).Weights("w", []int{1, 2, 1, 1}, 1, 1).Op("Conv", "out", nil, "in", "w").File("out"), "weights of shape [1 2 1 1]"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := run(t, c.model, nil, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("running the model: %v, want an error with %q", err, c.want)
			}
		})
	}
	g, err := Read(nettest.New(13, 1, 3).Op("GRU", "x", nil, "in").Op("GRU", "y", nil, "x").Op("Relu", "out", nil, "y").File("out"))
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Missing(); !slices.Equal(got, []string{"GRU (2 times)"}) {
		t.Errorf("Missing returned %v, want GRU twice", got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(nettest.Means(2))
	f.Add(nettest.New(13, 1, 1, 3, 3).Weights("w", []int{2, 1, 3, 3}, make([]float32, 18)...).Op("Conv", "c", map[string]any{"pads": []int{1, 1, 1, 1}}, "in", "w").
		Op("Sigmoid", "s", nil, "c").Op("Mul", "out", nil, "c", "s").File("out"))
	f.Add(nettest.New(9, 1, 2, 4, 4).Op("MaxPool", "a", map[string]any{"kernel_shape": []int{2, 2}, "auto_pad": "SAME_UPPER"}, "in").
		Op("Transpose", "b", map[string]any{"perm": []int{0, 2, 3, 1}}, "a").Op("Softmax", "out", nil, "b").File("out"))
	f.Add(nettest.New(11, 1, 2, 4, 4).Ints("p", 0, 0, 1, 1, 0, 0, 1, 1).Op("Pad", "a", nil, "in", "p").Ints("n", 1, 1).Op("Split", "b", map[string]any{"axis": 1}, "a").
		Op("Concat", "c", map[string]any{"axis": 3}, "b", "a").Op("ReduceMean", "out", map[string]any{"axes": []int{2, 3}}, "a").File("out"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := Read(b)
		if err != nil {
			return
		}
		g.Missing()
		n, err := g.Compile([]int{1, 3, 8, 8})
		if err != nil || n.Work > 1_000_000 {
			return
		}
		if n.Memory > MaxWorker {
			t.Fatalf("a worker takes %d bytes, more than MaxWorker", n.Memory)
		}
		if _, err := n.Worker().Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
