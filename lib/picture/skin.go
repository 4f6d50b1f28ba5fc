package picture

import (
	_ "embed"
	"math"
)

// skinTable has a bit for each of 32 × 32 × 32 colours (red, green, blue, five bits each):
// whether it is more likely skin than not. lib/picture/train computes it by Bayes' rule
// from labelled pixels.
//
//go:embed skin.table
var skinTable string

// IsSkin reports whether a colour is more likely skin than not.
func IsSkin(r, g, b uint8) bool {
	i := int(r>>3)<<10 | int(g>>3)<<5 | int(b>>3)
	return skinTable[i>>3]>>(i&7)&1 != 0
}

// Skin describes the skin in a picture. It is a weak signal: how much of the picture has the
// colour and smoothness of skin, not what it shows.
type Skin struct {
	Share   float64 // of all samples
	Largest float64 // share of the largest region
	Regions int     // number of regions of at least 1/500 of the picture
	Fill    float64 // share of its bounding box that the largest region fills
	Border  float64 // share of the picture's edge that is skin
	Texture float64 // mean difference of neighbouring samples of luma within skin
	Grey    bool    // the picture has no colours, so that skin is unknown
	Score   int     // 0 to 100, by a logistic model of the other fields
}

// Skin finds skin in a reduced picture.
func (p *Planes) Skin() Skin {
	n := p.W * p.H
	mask := make([]bool, n)
	count, edge, edges, colour := 0, 0, 0, 0
	for y := range p.H {
		for x := range p.W {
			i := y*p.W + x
			r, g, b := p.RGB(x, y)
			mask[i] = IsSkin(r, g, b)
			colour += int(max(r, g, b) - min(r, g, b))
			outer := x == 0 || y == 0 || x == p.W-1 || y == p.H-1
			if outer {
				edges++
			}
			if mask[i] {
				count++
				if outer {
					edge++
				}
			}
		}
	}
	s := Skin{Grey: colour < 8*n, Share: float64(count) / float64(n), Border: float64(edge) / float64(max(1, edges))}
	s.Texture = p.texture(mask)
	p.regions(mask, &s)
	z := -5.2 + 5.5*s.Share + 4.5*s.Largest + 1.2*s.Fill - 1.5*s.Border - 0.12*s.Texture - 0.03*float64(s.Regions)
	// An area that extends from border to border is sand, wood, a wall or paper rather than a
	// body.
	z -= 4 * s.Border * s.Border * s.Border * s.Border
	s.Score = int(math.Round(100 / (1 + math.Exp(-z))))
	return s
}

// texture returns the mean difference between neighbours, horizontal and vertical, that are
// both skin.
func (p *Planes) texture(mask []bool) float64 {
	sum, n := 0, 0
	for y := range p.H {
		luma, above := p.Luma(y), p.Luma(max(0, y-1))
		for x := range p.W {
			i := y*p.W + x
			if !mask[i] {
				continue
			}
			if x > 0 && mask[i-1] {
				d := int(luma[x]) - int(luma[x-1])
				sum += max(d, -d)
				n++
			}
			if y > 0 && mask[i-p.W] {
				d := int(luma[x]) - int(above[x])
				sum += max(d, -d)
				n++
			}
		}
	}
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}

// regions measures connected areas of skin.
func (p *Planes) regions(mask []bool, s *Skin) {
	n := p.W * p.H
	stack := make([]int32, 0, 256)
	least := max(4, n/500)
	largest := 0
	for start := range mask {
		if !mask[start] {
			continue
		}
		mask[start] = false
		stack = append(stack[:0], int32(start))
		size := 0
		x0, y0, x1, y1 := p.W, p.H, 0, 0
		for len(stack) > 0 {
			i := int(stack[len(stack)-1])
			stack = stack[:len(stack)-1]
			size++
			x, y := i%p.W, i/p.W
			x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x), max(y1, y)
			for _, d := range [4][2]int{{-1, 0}, {1, 0}, {0, -1}, {0, 1}} {
				u, v := x+d[0], y+d[1]
				if u < 0 || v < 0 || u >= p.W || v >= p.H {
					continue
				}
				if k := v*p.W + u; mask[k] {
					mask[k] = false
					stack = append(stack, int32(k))
				}
			}
		}
		if size >= least {
			s.Regions++
		}
		if size > largest {
			largest = size
			s.Fill = float64(size) / float64((x1-x0+1)*(y1-y0+1))
		}
	}
	s.Largest = float64(largest) / float64(n)
}
