package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
	"slices"
)

// maxFrames is how many frames of an animation are examined, and maxComposed how
// many pixels are decoded to combine several of them.
const (
	maxFrames   = 64
	maxComposed = 4 << 20
)

// Stills returns the pictures to judge in a file, each as a separate file: the file itself or,
// for an animation (GIF, PNG, WebP), its first frame. It adds the fullest canvas after one of
// the first 64 frames, if that was drawn from more than twice the bytes of the first frame, or
// if the first frame does not fill the canvas: an animation may begin with an empty frame, or
// be assembled from pieces.
func Stills(b []byte) [][]byte {
	a := animationOf(b)
	if len(a.frames) == 0 || len(a.frames) == 1 && b[0] == 'G' {
		return [][]byte{b}
	}
	stills := [][]byte{a.stillFile(0, 0)}
	first := &a.frames[0]
	if from, best, size := a.fullest(); best > 0 && (size > 2*(first.to-first.from) || first.at != a.canvas) {
		stills = append(stills, a.stillFile(from, best))
	}
	return stills
}

// An animation is a series of frames that are shown on a canvas.
type animation struct {
	canvas image.Rectangle
	frames []frame
	file   func(i int) []byte // of one frame
	decode func(i int) (image.Image, bool, error)
}

// A frame is a place in a file, and how it is shown.
type frame struct {
	from, to int
	image    int             // of a GIF: position of its descriptor
	clear    int             // of a GIF: the transparent colour, -1 for none
	at       image.Rectangle // on the canvas
	over     bool            // the frames below show through
	then     disposal
}

// A disposal says what happens to a frame before the next one is shown.
type disposal uint8

const (
	stays disposal = iota
	cleared
	undone
)

func animationOf(b []byte) (a animation) {
	switch {
	case bytes.HasPrefix(b, []byte("GIF8")):
		head, all := framesOfGIF(b, maxFrames)
		a.frames, a.canvas = all, canvasOfGIF(b, all)
		a.file = func(i int) []byte { return slices.Concat(b[:head], b[all[i].from:all[i].to], []byte{0x3b}) }
		a.decode = func(i int) (image.Image, bool, error) { return decodeFrame(b, &all[i]) }
	case bytes.HasPrefix(b, []byte("RIFF")) && len(b) > 30 && string(b[8:16]) == "WEBPVP8X" && b[20]&2 != 0:
		a.canvas = image.Rect(0, 0, uint24(b[24:])+1, uint24(b[27:])+1)
		a.frames = framesOfWebP(b)
		a.file = func(i int) []byte { return stillWebP(b[a.frames[i].from:a.frames[i].to]) }
		a.decode = func(i int) (image.Image, bool, error) { return decodeStillWebP(a.file(i)) }
	case bytes.HasPrefix(b, []byte(pngMagic)):
		before, all := framesOfPNG(b)
		for _, chunks := range all {
			a.frames = append(a.frames, frameOfPNG(before, chunks))
		}
		if head, err := lookPNG(b); err == nil {
			a.canvas = image.Rect(0, 0, head.Width, head.Height)
		}
		a.file = func(i int) []byte { return stillPNG(before, all[i]) }
		a.decode = func(i int) (image.Image, bool, error) { return decodePNG(a.file(i)) }
	}
	return a
}

// fullest returns the frame after which the canvas has the most information, measured by the
// bytes from which it was drawn, and this number. from is the first frame to draw.
func (a *animation) fullest() (from, best, most int) {
	start, below, pixels := 0, 0, 0
	for i := range a.frames {
		f := &a.frames[i]
		if f.at == a.canvas && !f.over || pixels+area(f.at) > maxComposed {
			start, below, pixels = i, 0, 0
		}
		pixels += area(f.at)
		shown := below + f.to - f.from
		if shown > most {
			from, best, most = start, i, shown
		}
		if f.then == stays {
			below = shown
		}
	}
	return from, best, most
}

func area(r image.Rectangle) int { return r.Dx() * r.Dy() }

// stillFile makes a file of the canvas after frame last, drawn from frame from on. It returns a
// frame alone if it fills the canvas, or if the canvas is too large.
func (a *animation) stillFile(from, last int) []byte {
	if from == last && a.frames[last].at == a.canvas || area(a.canvas) > maxComposed {
		return a.file(last)
	}
	m := image.NewNRGBA(a.canvas)
	for i := from; i <= last; i++ {
		f := &a.frames[i]
		if area(f.at) > maxComposed {
			return a.file(last)
		}
		p, _, err := a.decode(i)
		if err != nil {
			return a.file(last)
		}
		var before []byte
		if f.then == undone && i < last {
			before = slices.Clone(m.Pix)
		}
		paste(m, p, f.at, f.over)
		switch {
		case i == last:
		case f.then == cleared:
			draw.Draw(m, f.at, image.Transparent, image.Point{}, draw.Src)
		case f.then == undone:
			m.Pix = before
		}
	}
	return bitmapOf(m)
}

// paste puts a frame on a canvas.
func paste(m *image.NRGBA, p image.Image, at image.Rectangle, over bool) {
	s, ok := p.(*image.Paletted)
	if !ok {
		op := draw.Src
		if over {
			op = draw.Over
		}
		draw.Draw(m, at, p, p.Bounds().Min, op)
		return
	}
	var colours [256]color.NRGBA
	for i, c := range s.Palette {
		colours[i&255] = color.NRGBAModel.Convert(c).(color.NRGBA)
	}
	r := at.Intersect(m.Rect)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		dst, src := m.Pix[m.PixOffset(r.Min.X, y):], s.Pix[(y-at.Min.Y)*s.Stride+r.Min.X-at.Min.X:]
		for x := range r.Dx() {
			if c := colours[src[x]]; c.A != 0 || !over {
				dst[4*x], dst[4*x+1], dst[4*x+2], dst[4*x+3] = c.R, c.G, c.B, c.A
			}
		}
	}
}

// bitmapOf makes a BMP of a picture, with its transparency.
func bitmapOf(m *image.NRGBA) []byte {
	const head = 14 + 56
	b := append(make([]byte, 0, head+len(m.Pix)), "BM"...)
	b = append(b, make([]byte, head-2)...)
	little.PutUint32(b[10:], head)
	little.PutUint32(b[14:], head-14)
	little.PutUint32(b[18:], uint32(m.Rect.Dx()))
	little.PutUint32(b[22:], uint32(-m.Rect.Dy()))
	little.PutUint16(b[26:], 1)
	little.PutUint16(b[28:], 32)
	little.PutUint32(b[30:], masked)
	for i := range 4 {
		little.PutUint32(b[54+4*i:], 0xff<<(8*i))
	}
	return append(b, m.Pix...)
}

// framesOfGIF returns the first frames, each with the extensions before it, and where the head
// with the global colours ends. The last frame may be truncated.
func framesOfGIF(b []byte, most int) (head int, all []frame) {
	if len(b) < 13 {
		return 0, nil
	}
	table := func(flags byte) int {
		if flags&0x80 == 0 {
			return 0
		}
		return 3 << (flags&7 + 1)
	}
	head = 13 + table(b[10])
	from, at := head, head
	next := frame{clear: -1}
	blocks := func() bool { // skips data blocks
		for at < len(b) {
			n := int(b[at])
			at += 1 + n
			if n == 0 {
				return at <= len(b)
			}
		}
		return false
	}
	for at < len(b) && len(all) < most {
		switch b[at] {
		case 0x21:
			if at+7 < len(b) && b[at+1] == 0xf9 && b[at+2] >= 4 { // graphic control
				if next.clear, next.over = -1, b[at+3]&1 != 0; next.over {
					next.clear = int(b[at+6])
				}
				next.then = map[byte]disposal{2: cleared, 3: undone}[b[at+3]>>2&7]
			}
			if at += 2; !blocks() {
				return head, all
			}
		case 0x2c:
			f := next
			f.from, f.image = from, at
			if at+10 > len(b) {
				return head, all
			}
			f.at = frameAt(int(little.Uint16(b[at+1:])), int(little.Uint16(b[at+3:])), int(little.Uint16(b[at+5:])), int(little.Uint16(b[at+7:])))
			at += 10 + table(b[at+9]) + 1
			whole := blocks()
			f.to = min(at, len(b))
			all = append(all, f)
			if !whole {
				return head, all
			}
			from, next = at, frame{clear: -1}
		default:
			return head, all
		}
	}
	return head, all
}

// framesOfWebP returns the payloads of frames (RFC 9649, section 2.7.1.1).
func framesOfWebP(b []byte) (all []frame) {
	for at := 12; at+8 <= len(b) && len(all) < maxFrames; {
		n := int(binary.LittleEndian.Uint32(b[at+4:]))
		end := at + 8 + n
		if string(b[at:at+4]) == "ANMF" && min(end, len(b)) > at+8+16 {
			p := b[at+8:]
			f := frame{from: at + 8, to: min(end, len(b)), at: frameAt(2*uint24(p), 2*uint24(p[3:]), uint24(p[6:])+1, uint24(p[9:])+1)}
			f.over = p[15]&2 == 0 && (string(p[16:min(20, len(p))]) == "ALPH" || string(p[16:min(20, len(p))]) == "VP8L")
			if p[15]&1 != 0 {
				f.then = cleared
			}
			all = append(all, f)
		}
		at = end + n&1
	}
	return all
}

// stillWebP makes a file of one frame.
func stillWebP(f []byte) []byte {
	out := []byte("RIFF\x00\x00\x00\x00WEBP")
	if string(f[16:min(20, len(f))]) == "ALPH" {
		out = append(out, "VP8X\x0a\x00\x00\x00\x10\x00\x00\x00"...)
		out = append(out, f[6:12]...)
	}
	out = append(out, f[16:]...)
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}

// frameAt is a frame of w × h at x, y of its canvas.
func frameAt(x, y, w, h int) image.Rectangle { return image.Rect(x, y, x+w, y+h) }

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
