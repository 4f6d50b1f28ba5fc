package neural

import "math"

// An operator compiles nodes to steps.
type operator struct {
	least  int  // required inputs
	floats int  // number of inputs, from the first on, that must be floats
	ints   bool // it also supports integers
	build  func(b *builder, n *node, in []*value) ([]*value, error)
}

// operators returns the supported operators of ONNX. It is a function because a variable would
// refer to itself through the builders.
func operators() map[string]operator {
	all := map[string]operator{
		"Conv":               {2, 3, false, buildConv},
		"Gemm":               {2, 3, false, buildGemm},
		"MatMul":             {2, 2, false, buildMatMul},
		"MaxPool":            {1, 1, false, buildMaxPool},
		"AveragePool":        {1, 1, false, buildAveragePool},
		"GlobalAveragePool":  {1, 1, false, buildGlobal(false)},
		"GlobalMaxPool":      {1, 1, false, buildGlobal(true)},
		"BatchNormalization": {5, 5, false, buildNorm},
		"PRelu":              {2, 2, false, buildPRelu},
		"Softmax":            {1, 1, false, buildSoftmax},
		"Resize":             {1, 1, false, buildResize},
		"Upsample":           {1, 1, false, buildResize},
		"Pad":                {1, 1, false, buildPad},

		"Add": {2, 2, true, buildBinary(func(x, y float32) float32 { return x + y }, func(x, y int64) int64 { return x + y })},
		"Sub": {2, 2, true, buildBinary(func(x, y float32) float32 { return x - y }, func(x, y int64) int64 { return x - y })},
		"Mul": {2, 2, true, buildBinary(func(x, y float32) float32 { return x * y }, func(x, y int64) int64 { return x * y })},
		"Div": {2, 2, true, buildBinary(func(x, y float32) float32 { return x / y }, divide)},
		"Min": {1, 1, true, buildMany(func(x, y float32) float32 { return min(x, y) }, func(x, y int64) int64 { return min(x, y) })},
		"Max": {1, 1, true, buildMany(func(x, y float32) float32 { return max(x, y) }, func(x, y int64) int64 { return max(x, y) })},
		"Sum": {1, 1, true, buildMany(func(x, y float32) float32 { return x + y }, func(x, y int64) int64 { return x + y })},
		"Pow": {2, 2, false, buildBinary(func(x, y float32) float32 {
			if y == 2 {
				return x * x
			}
			return float32(math.Pow(float64(x), float64(y)))
		}, nil)},

		"ReduceMean": {1, 1, false, buildReduce(func(x []float32) float32 { return reduce(x, false) })},
		"ReduceMax":  {1, 1, false, buildReduce(func(x []float32) float32 { return reduce(x, true) })},
		"ReduceSum":  {1, 1, false, buildReduce(func(x []float32) float32 { return reduce(x, false) * float32(len(x)) })},

		"Reshape":         {1, 1, true, buildReshape},
		"Flatten":         {1, 1, true, buildFlatten},
		"Squeeze":         {1, 1, true, buildSqueeze},
		"Unsqueeze":       {1, 1, true, buildUnsqueeze},
		"Transpose":       {1, 1, true, buildTranspose},
		"Concat":          {1, 1, true, buildConcat},
		"Split":           {1, 1, true, buildSplit},
		"Slice":           {1, 1, true, buildSlice},
		"Gather":          {2, 1, true, buildGather},
		"Identity":        {1, 1, true, buildIdentity},
		"Dropout":         {1, 1, true, buildDropout},
		"Cast":            {1, 1, true, buildCast},
		"Shape":           {1, 1, true, buildShape},
		"Constant":        {0, 0, true, buildConstant},
		"ConstantOfShape": {1, 0, true, buildConstantOfShape},
	}
	for _, name := range []string{"Relu", "Clip", "LeakyRelu", "Elu", "HardSigmoid", "HardSwish", "Sigmoid", "Swish", "Softplus", "Tanh", "Exp", "Log",
		"Sqrt", "Erf", "Floor", "Ceil", "Abs", "Reciprocal", "Neg"} {
		all[name] = operator{1, 1, false, buildEach}
	}
	return all
}

// divide divides integers as ONNX does; a division by 0 gives 0.
func divide(x, y int64) int64 {
	if y == 0 {
		return 0
	}
	return x / y
}

// buildDropout passes everything, because dropout only has an effect in training.
func buildDropout(b *builder, n *node, in []*value) ([]*value, error) {
	return b.view(in[0], in[0].shape)
}
