package neural

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// buildResize scales planes, by the nearest sample or by interpolation between the nearest two
// in each direction.
func buildResize(b *builder, n *node, in []*value) ([]*value, error) {
	x := in[0]
	if len(x.shape) != 4 {
		return nil, errors.New("the input does not consist of planes")
	}
	scales, shape, err := resized(n, in)
	if err != nil {
		return nil, err
	}
	if shape[0] != x.shape[0] || shape[1] != x.shape[1] {
		return nil, errors.New("channels cannot be resized, only planes")
	}
	if _, err := b.value(shape); err != nil {
		return nil, err
	}
	mode := n.string("mode", "nearest")
	if mode == "bilinear" {
		mode = "linear"
	}
	if mode != "nearest" && mode != "linear" || n.int("antialias", 0) != 0 {
		return nil, fmt.Errorf("mode %q is not supported, only nearest and linear without antialias", mode)
	}
	var axes [2]axis
	for i := range axes {
		if axes[i], err = axisTable(b, n, mode, x.shape[2+i], shape[2+i], scales[2+i]); err != nil {
			return nil, err
		}
	}
	h, wd, oh, ow := x.shape[2], x.shape[3], shape[2], shape[3]
	return b.emit(shape, in[:1], func(out *value) func(*Worker) {
		return func(w *Worker) {
			src, dst := x.numbersIn(w), out.numbersIn(w)
			for c := range x.shape[0] * x.shape[1] {
				resample(dst[c*oh*ow:(c+1)*oh*ow], src[c*h*wd:(c+1)*h*wd], wd, &axes[0], &axes[1])
			}
		}
	})
}

// resized returns the size of the result, or the scales.
func resized(n *node, in []*value) (scales []float32, shape []int, err error) {
	x := in[0].shape
	if policy := n.string("keep_aspect_ratio_policy", "stretch"); policy != "stretch" {
		return nil, nil, fmt.Errorf("keep_aspect_ratio_policy %q is not supported", policy)
	}
	axes, err := axesOf(n, nil, 0, len(x))
	if err != nil {
		return nil, nil, err
	}
	at := 2
	if n.op == "Upsample" || len(in) == 2 {
		at = 1
	}
	if sizes, ok, err := numbers(n, in, 3, "sizes"); err != nil {
		return nil, nil, err
	} else if ok && len(sizes) == len(axes) && len(in) > 3 {
		all := slices.Clone(x)
		for i, d := range sizes {
			all[axes[i]] = d
		}
		for i, d := range all {
			if d < 1 || d > MaxWorker/4 {
				return nil, nil, fmt.Errorf("the size is %v", sizes)
			}
			shape, scales = append(shape, d), append(scales, float32(d)/float32(x[i]))
		}
		return scales, shape, nil
	}
	scales = n.attrs["scales"].floats
	if at < len(in) && in[at] != nil {
		d := in[at].source().data
		if d == nil {
			return nil, nil, errors.New("the scales are not constant")
		}
		scales = d.floats
	}
	if len(scales) != len(axes) {
		return nil, nil, errors.New("neither a scale nor a size for each dimension")
	}
	all := []float32{1, 1, 1, 1}
	for i, s := range scales {
		all[axes[i]] = s
	}
	for i, s := range all {
		d := math.Floor(float64(x[i]) * float64(s))
		if !(d >= 1 && d <= MaxWorker/4) {
			return nil, nil, fmt.Errorf("the scales are %v", scales)
		}
		shape = append(shape, int(d))
	}
	return all, shape, nil
}

// An axis has, for each coordinate of the result, the two coordinates of the source between
// which it lies, and its distance to them.
type axis struct {
	low, high []int
	share     []float32
	near      bool // share is always 0
}

func axisTable(b *builder, n *node, mode string, in, out int, scale float32) (a axis, err error) {
	usual := "half_pixel"
	if n.op == "Upsample" || b.g.Opset < 11 {
		usual = "asymmetric"
	}
	how, round := n.string("coordinate_transformation_mode", usual), n.string("nearest_mode", "round_prefer_floor")
	if usual == "asymmetric" {
		round = "floor"
	}
	a.near = mode == "nearest"
	for o := range out {
		var at float32
		switch how {
		case "half_pixel_symmetric":
			at = float32(in)/2*(1-float32(out)/(scale*float32(in))) + (float32(o)+0.5)/scale - 0.5
		case "half_pixel":
			at = (float32(o)+0.5)/scale - 0.5
		case "pytorch_half_pixel":
			if out > 1 {
				at = (float32(o)+0.5)/scale - 0.5
			}
		case "asymmetric":
			at = float32(o) / scale
		case "align_corners":
			if out > 1 {
				at = float32(o) * float32(in-1) / float32(out-1)
			}
		default:
			return a, fmt.Errorf("coordinate_transformation_mode %q is not supported", how)
		}
		if a.near {
			v := float64(at)
			switch round {
			case "round_prefer_floor":
				v = math.Ceil(v - 0.5)
			case "round_prefer_ceil":
				v = math.Floor(v + 0.5)
			case "floor":
				v = math.Floor(v)
			case "ceil":
				v = math.Ceil(v)
			default:
				return a, fmt.Errorf("nearest_mode %q is not supported", round)
			}
			i := max(0, min(in-1, int(v)))
			a.low, a.high, a.share = append(a.low, i), append(a.high, i), append(a.share, 0)
			continue
		}
		at = max(0, min(at, float32(in-1)))
		i := int(at)
		a.low, a.high, a.share = append(a.low, i), append(a.high, min(i+1, in-1)), append(a.share, at-float32(i))
	}
	return a, nil
}

func resample(dst, src []float32, w int, y, x *axis) {
	ow := len(x.low)
	for r := range y.low {
		a, b := src[y.low[r]*w:][:w], src[y.high[r]*w:][:w]
		line, t := dst[r*ow:(r+1)*ow], y.share[r]
		if x.near {
			for c, i := range x.low {
				line[c] = a[i]
			}
			continue
		}
		for c, i := range x.low {
			j, s := x.high[c], x.share[c]
			top, low := a[i]+(a[j]-a[i])*s, b[i]+(b[j]-b[i])*s
			line[c] = top + (low-top)*t
		}
	}
}
