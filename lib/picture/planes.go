package picture

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	jpegs "image/jpeg"
	"io"
	"strings"

	"golang.org/x/image/webp"
)

// Planes are a picture reduced to about an eighth: luma and chroma as in JFIF (ITU-T T.871).
// Chroma may have fewer samples, as in most JPEGs.
type Planes struct {
	W, H      int // samples of luma
	Y, Cb, Cr []byte
	Full      Head // the original picture
	Cut       bool // a part of the picture is missing; it is grey

	stride, chroma       int // distance of lines in samples
	acrossNum, acrossDen int // ratio of chroma to luma samples
	downNum, downDen     int
}

// Luma returns line y of luma.
func (p *Planes) Luma(y int) []byte { return p.Y[y*p.stride:][:p.W] }

// Shrink decodes a picture at an eighth of its size, within the limits of Look. A progressive
// JPEG may be truncated after its first scans.
func Shrink(b []byte) (*Planes, error) {
	head, err := Look(b)
	if err != nil {
		return nil, err
	}
	switch head.Format {
	case JPEG:
		return shrinkJPEG(b, head)
	case AVIF, HEIC:
		return shrinkThumbnail(b, head)
	}
	m, cut, err := decode(b, head.Format)
	if err != nil {
		return nil, fmt.Errorf("decoding a %s: %w", head.Format, err)
	}
	p := reduce(m, head)
	p.Cut = cut
	return p, nil
}

// decode decodes a complete picture whose size Look has accepted. cut reports that a part is
// missing.
func decode(b []byte, f Format) (m image.Image, cut bool, err error) {
	switch f {
	case PNG:
		return decodePNG(b)
	case GIF:
		return decodeGIF(b)
	case WebP:
		return decodeWebP(b)
	case BMP:
		m, err = decodeBMP(b)
	case ICO:
		m, err = decodeIcon(b)
	default:
		err = ErrUnread
	}
	return m, false, err
}

// decodeWebP decodes a WebP, of an animation the first frame.
func decodeWebP(b []byte) (m image.Image, cut bool, err error) {
	if a := animationOf(b); len(a.frames) > 0 {
		b = a.file(0)
	}
	return decodeStillWebP(b)
}

// decodeStillWebP decodes a WebP that does not move. A truncated one is decoded
// with zeros in place of the missing bytes: the part before it is as browsers
// show it.
func decodeStillWebP(b []byte) (m image.Image, cut bool, err error) {
	m, err = webp.Decode(bytes.NewReader(b))
	if n := int64(little.Uint32(b[4:])) + 8; err != nil && n > int64(len(b)) && n <= 2*int64(len(b))+maxPadding {
		cut = true
		m, err = webp.Decode(io.MultiReader(bytes.NewReader(b), io.LimitReader(zeros{}, n-int64(len(b)))))
	}
	if err != nil {
		return nil, cut, err
	}
	switch m := m.(type) {
	case *image.YCbCr:
		fullRange(m)
	case *image.NYCbCrA:
		fullRange(&m.YCbCr)
	}
	return m, cut, nil
}

// maxPadding is the number of bytes that may be missing from a WebP, in addition to as many as
// there are.
const maxPadding = 4 << 20

// zeros is an endless reader of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// fullRange scales luma from 16 to 235 and chroma from 16 to 240, the ranges of VP8 (RFC 6386
// section 9.2), to 0 to 255, which package image expects.
func fullRange(m *image.YCbCr) {
	spread := func(plane []byte, middle, scale float64) {
		var table [256]byte
		for i := range table {
			table[i] = uint8(max(0, min(255, (float64(i)-16)*255/scale-middle+0.5)))
		}
		for i, v := range plane {
			plane[i] = table[v]
		}
	}
	spread(m.Y, 0, 219)
	spread(m.Cb, 112*255./224-128, 224)
	spread(m.Cr, 112*255./224-128, 224)
}

// decodeAny is decode for all formats including JPEG.
func decodeAny(b []byte, f Format) (image.Image, error) {
	if f == JPEG {
		if m := decodeJPEG(b); m != nil {
			return m, nil
		}
		return jpegs.Decode(io.MultiReader(bytes.NewReader(b), strings.NewReader("\xff\xd9"))) // its end may be missing
	}
	m, _, err := decode(b, f)
	return m, err
}

// shrinkThumbnail decodes the JPEG thumbnail that cameras put into HEIC and AVIF files.
func shrinkThumbnail(b []byte, head Head) (*Planes, error) {
	for at := 0; at < len(b); {
		i := bytes.Index(b[at:], []byte("\xff\xd8\xff"))
		if i < 0 {
			break
		}
		at += i
		if h, err := Look(b[at:]); err == nil {
			if p, err := shrinkJPEG(b[at:], h); err == nil {
				p.Full = head
				return p, nil
			}
		}
		at += 3
	}
	return nil, fmt.Errorf("%s without a thumbnail: %w", head.Format, ErrUnread)
}

// reduce computes the means of squares of 8 × 8 pixels. Transparent pixels count as white.
func reduce(m image.Image, head Head) *Planes {
	r := m.Bounds()
	w, h := (r.Dx()+7)/8, (r.Dy()+7)/8
	p := newPlanes(w, h, head)
	at := sampler(m)
	for y := range h {
		for x := range w {
			var sr, sg, sb, n int
			for j := r.Min.Y + 8*y; j < min(r.Min.Y+8*y+8, r.Max.Y); j++ {
				for i := r.Min.X + 8*x; i < min(r.Min.X+8*x+8, r.Max.X); i++ {
					cr, cg, cb := at(i, j)
					sr, sg, sb, n = sr+cr, sg+cg, sb+cb, n+1
				}
			}
			k := y*w + x
			p.Y[k], p.Cb[k], p.Cr[k] = color.RGBToYCbCr(uint8(sr/n), uint8(sg/n), uint8(sb/n))
		}
	}
	return p
}

// sampler returns a function that reads one pixel over a white background.
func sampler(m image.Image) func(x, y int) (r, g, b int) {
	switch m := m.(type) {
	case *image.YCbCr:
		return func(x, y int) (int, int, int) {
			i, j := m.YOffset(x, y), m.COffset(x, y)
			r, g, b := color.YCbCrToRGB(m.Y[i], m.Cb[j], m.Cr[j])
			return int(r), int(g), int(b)
		}
	case *image.NRGBA:
		return func(x, y int) (int, int, int) {
			p := m.Pix[m.PixOffset(x, y):]
			a := int(p[3])
			return (int(p[0])*a + 255*(255-a)) / 255, (int(p[1])*a + 255*(255-a)) / 255, (int(p[2])*a + 255*(255-a)) / 255
		}
	case *image.Paletted:
		type rgb struct{ r, g, b int }
		var table [256]rgb
		for i, c := range m.Palette {
			r, g, b := overWhite(c)
			table[i&255] = rgb{r, g, b}
		}
		return func(x, y int) (int, int, int) {
			c := table[m.Pix[m.PixOffset(x, y)]]
			return c.r, c.g, c.b
		}
	}
	return func(x, y int) (int, int, int) { return overWhite(m.At(x, y)) }
}

func overWhite(c color.Color) (int, int, int) {
	r, g, b, a := c.RGBA() // premultiplied
	over := func(v uint32) int { return int((v + 0xffff - a) >> 8) }
	return min(over(r), 255), min(over(g), 255), min(over(b), 255)
}

func newPlanes(w, h int, head Head) *Planes {
	all := make([]byte, 3*w*h)
	n := w * h
	return &Planes{W: w, H: h, Y: all[:n:n], Cb: all[n : 2*n : 2*n], Cr: all[2*n:], Full: head,
		stride: w, chroma: w, acrossNum: 1, acrossDen: 1, downNum: 1, downDen: 1}
}

// RGB returns the sample at x, y as red, green and blue.
func (p *Planes) RGB(x, y int) (r, g, b uint8) {
	c := y*p.downNum/p.downDen*p.chroma + x*p.acrossNum/p.acrossDen
	return color.YCbCrToRGB(p.Y[y*p.stride+x], p.Cb[c], p.Cr[c])
}
