package neural

import "math"

// An activation is a function applied to each number of a result while it is still in the
// processor's cache: a limit to low and high, or another function.
type activation struct {
	low, high float32
	bend      func(k *kernel, plus float32, x []float32) // adds plus first; nil for a limit to low and high
}

var none = activation{low: float32(math.Inf(-1)), high: float32(math.Inf(1))}

func (a *activation) isNone() bool {
	return a.bend == nil && math.IsInf(float64(a.low), -1) && math.IsInf(float64(a.high), 1)
}

// apply adds plus to x and applies the activation to the sums.
func (a *activation) apply(k *kernel, plus float32, x []float32) {
	if a.bend == nil {
		if plus != 0 || !a.isNone() {
			k.clamp(plus, a.low, a.high, x)
		}
		return
	}
	a.bend(k, plus, x)
}

// exp returns e to the power of x, with a relative error below 3e-7.
func exp(x float32) float32 {
	const (
		log2e = 1.44269504
		hi    = 0.693359375
		lo    = -2.12194440e-4
	)
	x = max(min(x, 88.3), -87.3)
	z := x*log2e + 0.5
	n := int32(z)
	if float32(n) > z {
		n--
	}
	f := float32(n)
	x -= f * hi
	x -= f * lo
	p := float32(1.9875691500e-4)
	p = p*x + 1.3981999507e-3
	p = p*x + 8.3334519073e-3
	p = p*x + 4.1665795894e-2
	p = p*x + 1.6666665459e-1
	p = p*x + 5.0000001201e-1
	p = p*x*x + x + 1
	return p * math.Float32frombits(uint32(n+127)<<23)
}

func sigmoid(x float32) float32 { return 1 / (1 + exp(-x)) }

// pointwise returns a bend that applies f to each number.
func pointwise(f func(x float32) float32) func(k *kernel, plus float32, x []float32) {
	return func(_ *kernel, plus float32, x []float32) {
		for i, v := range x {
			x[i] = f(v + plus)
		}
	}
}

func bendSigmoid(k *kernel, plus float32, x []float32) { k.sigmoid(plus, false, x) }

func bendSiLU(k *kernel, plus float32, x []float32) { k.sigmoid(plus, true, x) }

// bendLine returns a bend with a linear function limited to 0 to 1; times multiplies the
// result by x.
func bendLine(alpha, beta float32, times bool) func(k *kernel, plus float32, x []float32) {
	return func(_ *kernel, plus float32, x []float32) {
		for i, v := range x {
			v += plus
			l := max(0, min(1, alpha*v+beta))
			if times {
				l *= v
			}
			x[i] = l
		}
	}
}

func float64s(f func(float64) float64) func(k *kernel, plus float32, x []float32) {
	return pointwise(func(x float32) float32 { return float32(f(float64(x))) })
}

// activationOf returns the function that a node applies to each number, if it does nothing
// else.
func (b *builder) activationOf(n *node) (a activation, ok bool) {
	a = none
	switch n.op {
	case "Relu":
		a.low = 0
	case "Clip":
		return b.clip(n)
	case "LeakyRelu":
		alpha := n.float("alpha", 0.01)
		a.bend = func(_ *kernel, plus float32, x []float32) {
			for i, v := range x {
				if v += plus; v < 0 {
					v *= alpha
				}
				x[i] = v
			}
		}
	case "Elu":
		alpha := n.float("alpha", 1)
		a.bend = pointwise(func(x float32) float32 {
			if x < 0 {
				return alpha * (exp(x) - 1)
			}
			return x
		})
	case "HardSigmoid":
		a.bend = bendLine(n.float("alpha", 0.2), n.float("beta", 0.5), false)
	case "HardSwish":
		a.bend = bendLine(1.0/6, 0.5, true)
	case "Sigmoid":
		a.bend = bendSigmoid
	case "Swish":
		if n.float("alpha", 1) != 1 {
			return a, false
		}
		a.bend = bendSiLU
	case "Softplus":
		a.bend = float64s(func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) })
	case "Tanh":
		a.bend = float64s(math.Tanh)
	case "Exp":
		a.bend = float64s(math.Exp)
	case "Log":
		a.bend = float64s(math.Log)
	case "Sqrt":
		a.bend = float64s(math.Sqrt)
	case "Erf":
		a.bend = float64s(math.Erf)
	case "Floor":
		a.bend = float64s(math.Floor)
	case "Ceil":
		a.bend = float64s(math.Ceil)
	case "Abs":
		a.bend = float64s(math.Abs)
	case "Reciprocal":
		a.bend = pointwise(func(x float32) float32 { return 1 / x })
	case "Neg":
		a.bend = pointwise(func(x float32) float32 { return -x })
	default:
		return a, false
	}
	return a, true
}

// clip reads the limits of a Clip: attributes before version 11, inputs from then on.
func (b *builder) clip(n *node) (a activation, ok bool) {
	a = none
	a.low, a.high = n.float("min", a.low), n.float("max", a.high)
	for i, to := range []*float32{&a.low, &a.high} {
		if len(n.inputs) <= i+1 || n.inputs[i+1] == "" {
			continue
		}
		v := b.values[n.inputs[i+1]]
		if v == nil && b.g.weights[n.inputs[i+1]] != nil {
			v = &value{data: b.g.weights[n.inputs[i+1]]}
		}
		if v == nil || v.data == nil || len(v.data.floats) != 1 {
			return a, false
		}
		*to = v.data.floats[0]
	}
	return a, true
}
