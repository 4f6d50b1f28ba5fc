package picture

import (
	"compress/lzw"
	"fmt"
	"image"
	"image/color"
	"io"
)

// lookGIF reads the size of a GIF: that of its screen or, if the first frame is larger, the
// size that browsers show.
func lookGIF(b []byte) (Head, error) {
	_, all := framesOfGIF(b[:min(len(b), maxGIFHead)], 1)
	c := canvasOfGIF(b, all)
	return sized(GIF, int64(c.Dx()), int64(c.Dy()))
}

// canvasOfGIF returns the area in which browsers show the frames of a GIF.
func canvasOfGIF(b []byte, all []frame) image.Rectangle {
	if len(b) < 10 {
		return image.Rectangle{}
	}
	screen := image.Rect(0, 0, int(little.Uint16(b[6:])), int(little.Uint16(b[8:])))
	if len(all) > 0 {
		screen.Max = image.Pt(max(screen.Max.X, all[0].at.Max.X), max(screen.Max.Y, all[0].at.Max.Y))
	}
	return screen
}

// maxGIFHead is the number of bytes that are searched for the first frame.
const maxGIFHead = 64 << 10

// decodeGIF decodes the first frame of a GIF (GIF89a specification), at its place.
func decodeGIF(b []byte) (m image.Image, cut bool, err error) {
	_, all := framesOfGIF(b, 1)
	if len(all) == 0 {
		return nil, false, ErrCut
	}
	f := &all[0]
	canvas := canvasOfGIF(b, all)
	if area(canvas) > MaxPixels {
		return nil, false, fmt.Errorf("%d × %d pixels: %w", canvas.Dx(), canvas.Dy(), ErrTooLarge)
	}
	m, cut, err = decodeFrame(b, f)
	if err == nil && f.at != canvas {
		whole := image.NewNRGBA(canvas)
		paste(whole, m, f.at, f.over)
		m = whole
	}
	return m, cut, err
}

// decodeFrame decodes a frame of a GIF. Pixels missing at its end get colour 0,
// and cut reports whether any are missing. Browsers show such a frame, too.
func decodeFrame(b []byte, f *frame) (m image.Image, cut bool, err error) {
	d := b[f.image:]
	w, h := int(little.Uint16(d[5:])), int(little.Uint16(d[7:]))
	if w == 0 || h == 0 || w*h > MaxPixels {
		return nil, false, fmt.Errorf("the frame has %d × %d pixels: %w", w, h, ErrTooLarge)
	}
	colours := table(b[10], b[13:])
	at := f.image + 10
	if own := table(d[9], b[at:]); own != nil {
		colours, at = own, at+3*len(own)
	}
	if at >= len(b) {
		return nil, false, ErrCut
	}
	bits := int(b[at])
	if bits < 1 || bits > 8 { // 1 violates the specification but is accepted
		return nil, false, ErrFormat
	}
	if len(colours) == 0 {
		colours = color.Palette{color.Black, color.White}
	}
	if f.clear >= 0 && f.clear < len(colours) {
		colours[f.clear] = color.NRGBA{}
	}
	for len(colours) < 256 {
		colours = append(colours, color.NRGBA{A: 255}) // an index beyond the table is black
	}
	r := lzw.NewReader(&blocks{b: b[at+1:]}, lzw.LSB, max(bits, 2))
	defer r.Close()
	p := image.NewPaletted(image.Rect(0, 0, w, h), colours)
	n, err := io.ReadFull(r, p.Pix)
	if n < w {
		return nil, false, ErrCut
	}
	if d[9]&0x40 != 0 {
		p.Pix = deinterlace(p.Pix, w, h)
	}
	return p, err != nil, nil
}

// table reads a colour table, whose size is in the flags of a screen or frame.
func table(flags byte, b []byte) color.Palette {
	if flags&0x80 == 0 {
		return nil
	}
	n := 2 << (flags & 7)
	all := make(color.Palette, 0, 256)
	for i := 0; i < n && 3*i+2 < len(b); i++ {
		all = append(all, color.NRGBA{b[3*i], b[3*i+1], b[3*i+2], 255})
	}
	return all
}

// deinterlace reorders the lines of an interlaced frame.
func deinterlace(pix []byte, w, h int) []byte {
	out := make([]byte, len(pix))
	from := 0
	for _, pass := range [...][2]int{{0, 8}, {4, 8}, {2, 4}, {1, 2}} {
		for y := pass[0]; y < h; y += pass[1] {
			copy(out[y*w:][:w], pix[from:])
			from += w
		}
	}
	return out
}

// blocks reads the data of sub-blocks.
type blocks struct {
	b    []byte
	left int // bytes left in the current block
}

func (r *blocks) ReadByte() (byte, error) {
	for r.left == 0 {
		if len(r.b) == 0 || r.b[0] == 0 {
			return 0, io.EOF
		}
		r.left, r.b = int(r.b[0]), r.b[1:]
	}
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	c := r.b[0]
	r.b = r.b[1:]
	r.left--
	return c, nil
}

func (r *blocks) Read(p []byte) (int, error) {
	for i := range p {
		c, err := r.ReadByte()
		if err != nil {
			return i, err
		}
		p[i] = c
	}
	return len(p), nil
}
