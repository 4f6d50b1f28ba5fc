package picture

import (
	"fmt"
	"image"
	"image/color"
)

// RGB is a picture of three bytes per pixel: red, green, blue.
type RGB struct {
	W, H int
	Pix  []byte
}

// maxWhole limits the pixels of pictures that are decoded at full size.
const maxWhole = 16 << 20

// Decode decodes a picture at an eighth of its size if both sides then have at least least
// pixels, otherwise at full size. It rotates a JPEG as its Exif data says.
func Decode(b []byte, least int) (*RGB, error) {
	head, err := Look(b)
	if err != nil {
		return nil, err
	}
	small := head.Format == AVIF || head.Format == HEIC || head.Format == JPEG && min(head.Width, head.Height) >= 8*least
	if !small && head.Width*head.Height > maxWhole {
		return nil, fmt.Errorf("a %s of %d × %d pixels: %w", head.Format, head.Width, head.Height, ErrTooLarge)
	}
	if !small {
		img, err := decodeAny(b, head.Format)
		if err == nil {
			return rgbOf(img).rotated(head.Turn), nil
		}
		if head.Format != JPEG {
			return nil, fmt.Errorf("decoding a %s: %w", head.Format, err)
		}
	}
	p, err := Shrink(b) // also for JPEGs that can only be decoded this way
	if err != nil {
		return nil, err
	}
	m := &RGB{W: p.W, H: p.H, Pix: make([]byte, 0, 3*p.W*p.H)}
	for y := range p.H {
		for x := range p.W {
			r, g, b := p.RGB(x, y)
			m.Pix = append(m.Pix, r, g, b)
		}
	}
	return m.rotated(p.Full.Turn), nil
}

func rgbOf(img image.Image) *RGB {
	r := img.Bounds()
	m := &RGB{W: r.Dx(), H: r.Dy(), Pix: make([]byte, 0, 3*r.Dx()*r.Dy())}
	if p, ok := img.(*image.YCbCr); ok { // most photos; a call per pixel would take longer than all the rest
		for y := r.Min.Y; y < r.Max.Y; y++ {
			luma := p.Y[p.YOffset(r.Min.X, y):][:m.W]
			for x, v := range luma {
				i := p.COffset(r.Min.X+x, y)
				red, green, blue := color.YCbCrToRGB(v, p.Cb[i], p.Cr[i])
				m.Pix = append(m.Pix, red, green, blue)
			}
		}
		return m
	}
	at := sampler(img)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			cr, cg, cb := at(x, y)
			m.Pix = append(m.Pix, uint8(cr), uint8(cg), uint8(cb))
		}
	}
	return m
}

// Cut returns the part of m of w × h pixels at x, y.
func (m *RGB) Cut(x, y, w, h int) *RGB {
	c := &RGB{W: w, H: h, Pix: make([]byte, 0, 3*w*h)}
	for r := y; r < y+h; r++ {
		c.Pix = append(c.Pix, m.Pix[3*(r*m.W+x):3*(r*m.W+x+w)]...)
	}
	return c
}

// Scale scales m to w × h with a triangle filter whose width is that of a resulting pixel in
// m.
func (m *RGB) Scale(w, h int) *RGB {
	if m.W == w && m.H == h {
		return m
	}
	across := &RGB{W: w, H: m.H, Pix: make([]byte, 3*w*m.H)}
	columns := triangles(m.W, w)
	for y := range m.H {
		for x := range columns {
			columns[x].sum(across.Pix[3*(y*w+x):], m.Pix[3*y*m.W:], 3)
		}
	}
	out := &RGB{W: w, H: h, Pix: make([]byte, 3*w*h)}
	for y, t := range triangles(m.H, h) {
		for x := range w {
			t.sum(out.Pix[3*(y*w+x):], across.Pix[3*x:], 3*w)
		}
	}
	return out
}

// A triangle has the weights of source pixels, from one on, in a resulting pixel.
type triangle struct {
	from  int
	share []float32
}

func (t *triangle) sum(dst, src []byte, step int) {
	r, g, b := float32(0.5), float32(0.5), float32(0.5)
	at := t.from * step
	for _, s := range t.share {
		r += s * float32(src[at])
		g += s * float32(src[at+1])
		b += s * float32(src[at+2])
		at += step
	}
	dst[0], dst[1], dst[2] = uint8(min(r, 255)), uint8(min(g, 255)), uint8(min(b, 255))
}

func triangles(from, to int) []triangle {
	all := make([]triangle, to)
	ratio := float64(from) / float64(to)
	reach := max(ratio, 1)
	for i := range all {
		middle := (float64(i) + 0.5) * ratio
		first, last := max(0, int(middle-reach+0.5)), min(from, int(middle+reach+0.5))
		sum := 0.0
		var share []float64
		for x := first; x < last; x++ {
			d := (float64(x) - middle + 0.5) / reach
			s := max(0, 1-max(d, -d))
			share = append(share, s)
			sum += s
		}
		t := &all[i]
		t.from = first
		if sum == 0 { // only for a reach below one pixel
			t.from, t.share = min(int(middle), from-1), []float32{1}
			continue
		}
		for _, s := range share {
			t.share = append(t.share, float32(s/sum))
		}
	}
	return all
}

// background fills the rest of a frame beside a picture.
var background = color.RGBA{114, 114, 114, 255}

// Frame scales m to fit into w × h, keeping its proportions, and centres it.
func (m *RGB) Frame(w, h int) *RGB {
	sw, sh := w, max(1, m.H*w/m.W)
	if sh > h {
		sw, sh = max(1, m.W*h/m.H), h
	}
	small := m.Scale(sw, sh)
	out := &RGB{W: w, H: h, Pix: make([]byte, 0, 3*w*h)}
	for range w * h {
		out.Pix = append(out.Pix, background.R, background.G, background.B)
	}
	for y := range sh {
		copy(out.Pix[3*((y+(h-sh)/2)*w+(w-sw)/2):], small.Pix[3*y*sw:3*(y+1)*sw])
	}
	return out
}

// Fill scales m to cover w × h, keeping its proportions, and cuts out the centre.
func (m *RGB) Fill(w, h int) *RGB {
	cw, ch := m.W, max(1, m.W*h/w)
	if ch > m.H {
		cw, ch = max(1, m.H*w/h), m.H
	}
	cw = min(cw, m.W)
	return m.Cut((m.W-cw)/2, (m.H-ch)/2, cw, ch).Scale(w, h)
}
