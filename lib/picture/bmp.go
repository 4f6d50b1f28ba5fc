package picture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"math/bits"
)

var little = binary.LittleEndian

// decodeBMP decodes a device-independent bitmap of Windows, which follows the file header in
// BMP files, and has none in icons. It decodes a truncated picture as far as possible.
func decodeBMP(b []byte) (*image.NRGBA, error) {
	if len(b) < 18 {
		return nil, ErrCut
	}
	d := dib{pixels: int(little.Uint32(b[10:]))}
	if err := d.head(b[14:]); err != nil {
		return nil, err
	}
	if d.pixels < 14 || d.pixels >= len(b) {
		return nil, ErrCut
	}
	return d.decode(b[d.pixels:])
}

// A dib is the header of a bitmap.
type dib struct {
	pixels      int // offset of the pixels
	w, h        int
	topDown     bool
	bits        int
	compression uint32
	masks       [4]uint32 // of red, green, blue and alpha
	palette     [256][3]byte
}

// Values of compression.
const (
	plain  = 0
	rle8   = 1
	rle4   = 2
	masked = 3
	alpha  = 6
)

// head reads the header, masks and palette in b.
func (d *dib) head(b []byte) error {
	n := int(little.Uint32(b))
	entry, colours := 4, 0
	switch {
	case n == 12 && len(b) >= 12: // of OS/2 1
		d.w, d.h, d.bits, entry = int(little.Uint16(b[4:])), int(little.Uint16(b[6:])), int(little.Uint16(b[10:])), 3
	case n == 16 && len(b) >= 16: // of OS/2 2, with the rest left out
		d.w, d.h, d.bits = int(int32(little.Uint32(b[4:]))), int(int32(little.Uint32(b[8:]))), int(little.Uint16(b[14:]))
		d.topDown = d.h < 0
		d.h = max(d.h, -d.h)
	case n >= 40 && n <= 256 && len(b) >= 40:
		d.w, d.h, d.bits = int(int32(little.Uint32(b[4:]))), int(int32(little.Uint32(b[8:]))), int(little.Uint16(b[14:]))
		d.compression, colours = little.Uint32(b[16:]), int(min(little.Uint32(b[32:]), 256))
		d.topDown = d.h < 0
		d.h = max(d.h, -d.h)
	default:
		return ErrFormat
	}
	if d.w <= 0 || d.h <= 0 || d.w > 1<<16 || d.h > 1<<16 || d.w*d.h > MaxPixels {
		return ErrTooLarge
	}
	switch d.bits {
	case 16:
		d.masks = [4]uint32{0x7c00, 0x3e0, 0x1f}
	case 32:
		d.masks = [4]uint32{0xff0000, 0xff00, 0xff}
	case 1, 2, 4, 8, 24:
	default:
		return fmt.Errorf("%d bits per pixel: %w", d.bits, ErrUnread)
	}
	at := n
	if d.compression == masked || d.compression == alpha {
		count := 3
		if d.compression == alpha || n >= 56 {
			count = 4
		}
		if len(b) < 40+4*count {
			return ErrCut
		}
		for i := range count {
			d.masks[i] = little.Uint32(b[40+4*i:])
		}
		at = max(n, 40+4*count)
	}
	if d.bits <= 8 {
		if colours == 0 {
			colours = 1 << d.bits
		}
		for i := range d.palette[:colours] {
			if at+entry > len(b) {
				break
			}
			d.palette[i] = [3]byte{b[at+2], b[at+1], b[at]}
			at += entry
		}
	}
	if d.pixels == 0 {
		d.pixels = at
	}
	return nil
}

func (d *dib) decode(b []byte) (*image.NRGBA, error) {
	if !(d.compression == plain || d.compression == masked || d.compression == alpha ||
		d.compression == rle8 && d.bits == 8 || d.compression == rle4 && d.bits == 4) {
		return nil, fmt.Errorf("compression %d: %w", d.compression, ErrUnread)
	}
	m := image.NewNRGBA(image.Rect(0, 0, d.w, d.h))
	if d.compression == rle8 || d.compression == rle4 {
		d.runs(m, b)
		return m, nil
	}
	stride := (d.w*d.bits + 31) / 32 * 4
	if len(b) < stride {
		return nil, ErrCut
	}
	for y := 0; y < d.h && len(b) >= stride; y++ {
		d.line(d.row(m, y), b[:stride])
		b = b[stride:]
	}
	return m, nil
}

// row returns line y of the file.
func (d *dib) row(m *image.NRGBA, y int) []byte {
	if !d.topDown {
		y = d.h - 1 - y
	}
	return m.Pix[y*m.Stride:][:4*d.w]
}

func (d *dib) line(dst, b []byte) {
	switch d.bits {
	case 24:
		for x := range d.w {
			dst[4*x], dst[4*x+1], dst[4*x+2], dst[4*x+3] = b[3*x+2], b[3*x+1], b[3*x], 255
		}
	case 16, 32:
		for x := range d.w {
			v := uint32(0)
			if d.bits == 16 {
				v = uint32(little.Uint16(b[2*x:]))
			} else {
				v = little.Uint32(b[4*x:])
			}
			for c := range 3 {
				dst[4*x+c] = part(v, d.masks[c])
			}
			dst[4*x+3] = 255
			if d.masks[3] != 0 {
				dst[4*x+3] = part(v, d.masks[3])
			}
		}
	default:
		for x := range d.w {
			at := x * d.bits
			d.put(dst, x, int(b[at>>3])>>(8-d.bits-at&7)&(1<<d.bits-1))
		}
	}
}

func (d *dib) put(dst []byte, x, colour int) {
	c := d.palette[colour]
	dst[4*x], dst[4*x+1], dst[4*x+2], dst[4*x+3] = c[0], c[1], c[2], 255
}

// part returns the value of v under a mask, scaled to 0 to 255.
func part(v, mask uint32) byte {
	if mask == 0 {
		return 0
	}
	v, mask = v&mask>>bits.TrailingZeros32(mask), mask>>bits.TrailingZeros32(mask)
	return byte(uint64(v) * 255 / uint64(mask))
}

// runs decodes run lengths of colours (RLE4 and RLE8).
func (d *dib) runs(m *image.NRGBA, b []byte) {
	x, y := 0, 0
	put := func(colour int) {
		if x < d.w {
			d.put(d.row(m, y), x, colour)
			x++
		}
	}
	of := func(c byte, i int) int { // the i-th colour in a byte
		if d.bits == 8 {
			return int(c)
		}
		return int(c >> (4 * (1 - i&1)) & 15)
	}
	for len(b) >= 2 && y < d.h {
		n, c := int(b[0]), b[1]
		b = b[2:]
		switch {
		case n > 0:
			for i := range n {
				put(of(c, i))
			}
		case c == 0:
			x, y = 0, y+1
		case c == 1:
			return
		case c == 2:
			if len(b) < 2 {
				return
			}
			x, y = min(x+int(b[0]), d.w), y+int(b[1])
			b = b[2:]
		default:
			used := (int(c)*d.bits + 15) / 16 * 2
			if len(b) < used {
				return
			}
			for i := range int(c) {
				put(of(b[i*d.bits/8], i))
			}
			b = b[used:]
		}
	}
}

// largestIcon returns the position and size of the largest picture in an icon file. Icon files
// begin with a directory (Microsoft, "Icons in Win32").
func largestIcon(b []byte) (from, to, w, h int, err error) {
	for i := range int(little.Uint16(b[4:])) {
		at := 6 + 16*i
		if at+16 > len(b) {
			break
		}
		iw, ih := (int(b[at])+255)&255+1, (int(b[at+1])+255)&255+1 // 0 means 256
		if iw*ih < w*h || iw*ih == w*h && w > 0 && little.Uint32(b[at+8:]) < uint32(to-from) {
			continue
		}
		w, h = iw, ih
		from = int(little.Uint32(b[at+12:]))
		to = from + int(little.Uint32(b[at+8:]))
	}
	if w == 0 {
		return 0, 0, 0, 0, ErrFormat
	}
	if from < len(b) && bytes.HasPrefix(b[from:], []byte(pngMagic)) {
		head, err := Look(b[from:])
		return from, to, head.Width, head.Height, err
	}
	return from, to, w, h, nil
}

// decodeIcon decodes the largest picture in an icon file: a PNG, or a bitmap of double height,
// whose second half is a mask of transparency.
func decodeIcon(b []byte) (image.Image, error) {
	from, to, _, _, err := largestIcon(b)
	if err != nil {
		return nil, err
	}
	if from < 6 || from+40 > len(b) {
		return nil, ErrCut
	}
	b = b[from:min(to, len(b))]
	if bytes.HasPrefix(b, []byte(pngMagic)) {
		m, cut, err := decodePNG(b)
		if cut {
			err = ErrCut
		}
		return m, err
	}
	if len(b) < 40 {
		return nil, ErrCut
	}
	var d dib
	if err := d.head(b); err != nil {
		return nil, err
	}
	if d.h /= 2; d.h == 0 || d.pixels >= len(b) {
		return nil, ErrFormat
	}
	m, err := d.decode(b[d.pixels:])
	if err == nil && d.bits == 32 && d.compression == plain {
		d.alphaOf(m, b[d.pixels:])
	}
	return m, err
}

// alphaOf uses the fourth byte of each pixel as its alpha, unless all of them are 0.
func (d *dib) alphaOf(m *image.NRGBA, b []byte) {
	d.masks = [4]uint32{0xff0000, 0xff00, 0xff, 0xff000000}
	with, err := d.decode(b)
	if err != nil {
		return
	}
	for i := 3; i < len(with.Pix); i += 4 {
		if with.Pix[i] != 0 {
			m.Pix = with.Pix
			return
		}
	}
}
