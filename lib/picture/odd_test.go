package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/color/palette"
	"image/draw"
	"image/gif"
	"image/png"
	"slices"
	"testing"
)

// redOverGreen makes a picture that is red above and green below.
func redOverGreen(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	draw.Draw(m, image.Rect(0, 0, w, h/2), image.NewUniform(color.NRGBA{255, 0, 0, 255}), image.Point{}, draw.Src)
	draw.Draw(m, image.Rect(0, h/2, w, h), image.NewUniform(color.NRGBA{0, 255, 0, 255}), image.Point{}, draw.Src)
	for i := 0; i < len(m.Pix); i += 4 {
		m.Pix[i+2] = uint8(i * i >> 9) // so that it compresses little
	}
	return m
}

func plainPNG(t *testing.T, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func plainGIF(t *testing.T, m image.Image) []byte {
	t.Helper()
	p := image.NewPaletted(m.Bounds(), palette.Plan9)
	draw.Draw(p, p.Bounds(), m, image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := gif.Encode(&b, p, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// changed returns a copy with some bytes replaced.
func changed(b []byte, at int, with ...byte) []byte {
	return slices.Concat(b[:at], with, b[at+len(with):])
}

// TestPicturesThatBrowsersShowAreDecoded: each of these is shown by Chromium.
func TestPicturesThatBrowsersShowAreDecoded(t *testing.T) {
	p, g := plainPNG(t, redOverGreen(320, 240)), plainGIF(t, redOverGreen(320, 240))
	chunks := chunksOf(p, maxChunks)
	blank := chunksOf(plainPNG(t, image.NewNRGBA(image.Rect(0, 0, 320, 240))), maxChunks)
	control := chunk{"fcTL", slices.Concat(make([]byte, 4), chunks[0].data[:8], make([]byte, 14))}
	moving := chunk{"fdAT", append(make([]byte, 4), chunks[1].data...)}
	for _, c := range []struct {
		name string
		b    []byte
		cut  bool
	}{
		{"a GIF whose screen is a pixel", changed(g, 6, 1, 0, 1, 0), false},
		{"a GIF whose screen is nothing", changed(g, 6, 0, 0, 0, 0), false},
		{"a GIF without end", g[:len(g)-1], false},
		{"a GIF that is cut off", g[:len(g)*3/5], true},
		{"a PNG that is cut off", p[:len(p)*3/5], true},
		{"a PNG without end", p[:len(p)-12], false},
		{"a PNG with a wrong sum of its data", changed(p, len(p)-13, p[len(p)-13]^1), false},
		{"a PNG with a wrong sum of a text", slices.Concat(p[:33], []byte("\x00\x00\x00\x03tEXta\x00b\x00\x00\x00\x00"), p[33:]), false},
		{"a PNG whose pixels end early", encodeChunks([]chunk{chunks[0], {"IDAT", chunks[1].data[:len(chunks[1].data)*3/5]}}), true},
		{"a PNG that moves, of which the first picture is never shown", encodeChunks([]chunk{chunks[0], {"acTL", make([]byte, 8)}, blank[1], control, moving}), false},
	} {
		head, err := Look(c.b)
		if err != nil || head.Width != 320 || head.Height != 240 {
			t.Errorf("%s: Look returned %+v, %v", c.name, head, err)
			continue
		}
		m, err := Shrink(Stills(c.b)[0])
		if err != nil {
			t.Errorf("%s: Shrink returned %v", c.name, err)
			continue
		}
		if r, g, _ := m.RGB(20, 3); r < 200 || g > 60 {
			t.Errorf("%s: the upper part has red %d and green %d, want red", c.name, r, g)
		}
		if m.Cut != c.cut {
			t.Errorf("%s: Cut is %v, want %v", c.name, m.Cut, c.cut)
		}
		if r, g, _ := m.RGB(20, 27); !c.cut && (r > 60 || g < 200) {
			t.Errorf("%s: the lower part has red %d and green %d, want green", c.name, r, g)
		}
		if _, _, err := PDQ(Stills(c.b)[0]); err != nil {
			t.Errorf("%s: PDQ returned %v", c.name, err)
		}
	}
}

// TestFramesAreThoseOfImageGIF covers every kind of interlacing, local colours and
// transparency that the standard library writes.
func TestFramesAreThoseOfImageGIF(t *testing.T) {
	colours := slices.Clone(palette.Plan9)
	colours[7] = color.RGBA{}
	m := image.NewPaletted(image.Rect(0, 0, 97, 71), colours)
	for i := range m.Pix {
		m.Pix[i] = uint8(i * 7 / 3)
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{m}, Delay: []int{0}, Config: image.Config{ColorModel: color.Palette(palette.WebSafe), Width: 97, Height: 71}}); err != nil {
		t.Fatal(err)
	}
	for _, file := range [][]byte{b.Bytes(), plainGIF(t, redOverGreen(65, 130))} {
		want, err := gif.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		got, cut, err := decodeGIF(file)
		if err != nil || cut {
			t.Fatalf("decoding a GIF: cut %v, %v, want all of it", cut, err)
		}
		for y := range want.Bounds().Dy() {
			for x := range want.Bounds().Dx() {
				wr, wg, wb := overWhite(want.At(x, y))
				if gr, gg, gb := overWhite(got.At(x, y)); gr != wr || gg != wg || gb != wb {
					t.Fatalf("the pixel at %d, %d is %d %d %d, want %d %d %d", x, y, gr, gg, gb, wr, wg, wb)
				}
			}
		}
	}
	lines := make([]byte, 20)
	for i := range lines {
		lines[i] = byte(i)
	}
	if got := deinterlace(lines, 1, 20); got[0] != 0 || got[8] != 1 || got[16] != 2 || got[4] != 3 || got[12] != 4 || got[2] != 5 || got[1] != 10 {
		t.Errorf("woven returned the lines %v", got)
	}
}

// TestFramesAreComposed: animations that show a picture piece by piece.
func TestFramesAreComposed(t *testing.T) {
	whole := redOverGreen(320, 240)
	above, below := image.Rect(0, 0, 320, 120), image.Rect(0, 120, 320, 240)
	paletted := func(r image.Rectangle) *image.Paletted {
		p := image.NewPaletted(r, palette.Plan9)
		draw.Draw(p, r, whole, r.Min, draw.Src)
		return p
	}
	gifOf := func(disposal byte, rects ...image.Rectangle) []byte {
		g := &gif.GIF{Config: image.Config{Width: 320, Height: 240}}
		for _, r := range rects {
			g.Image, g.Delay, g.Disposal = append(g.Image, paletted(r)), append(g.Delay, 1), append(g.Disposal, disposal)
		}
		var b bytes.Buffer
		if err := gif.EncodeAll(&b, g); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	pngOf := func(dispose byte, rects ...image.Rectangle) []byte {
		blank := image.NewNRGBA(whole.Rect)
		draw.Draw(blank, blank.Rect, image.White, image.Point{}, draw.Src)
		head := chunksOf(plainPNG(t, blank), maxChunks)
		all := []chunk{head[0], {"acTL", make([]byte, 8)}, head[1]}
		for _, r := range rects {
			c := chunksOf(plainPNG(t, whole.SubImage(r)), maxChunks)
			control := make([]byte, 26)
			for i, v := range []int{r.Dx(), r.Dy(), r.Min.X, r.Min.Y} {
				binary.BigEndian.PutUint32(control[4+4*i:], uint32(v))
			}
			control[24] = dispose
			all = append(all, chunk{"fcTL", control})
			for _, c := range c[1:] {
				if c.name == "IDAT" {
					all = append(all, chunk{"fdAT", append(make([]byte, 4), c.data...)})
				}
			}
		}
		return encodeChunks(all)
	}
	for _, c := range []struct {
		name       string
		b          []byte
		red, green bool // at the end
	}{
		{"a GIF", gifOf(gif.DisposalNone, above, below), true, true},
		{"a GIF from below", gifOf(gif.DisposalNone, below, above), true, true},
		{"a GIF whose pieces are taken away", gifOf(gif.DisposalBackground, above, below, below), true, false},
		{"a GIF whose pieces are undone", gifOf(gif.DisposalPrevious, above, below), true, false},
		{"a PNG", pngOf(0, above, below), true, true},
		{"a PNG whose pieces are taken away", pngOf(1, above, below), true, false},
	} {
		stills := Stills(c.b)
		var red, green bool
		for i, s := range stills {
			p, err := Shrink(s)
			if err != nil || p.Full.Width != 320 || p.Full.Height != 240 {
				t.Fatalf("%s: Shrink of picture %d returned %+v, %v", c.name, i, p, err)
			}
			r, _, _ := p.RGB(20, 3)
			_, g, b := p.RGB(20, 27)
			red, green = r > 200, g > 200 && b < 200
			if _, other, _ := p.RGB(20, 3); other > 60 {
				red = false
			}
			if red && green {
				break
			}
		}
		if c.red && c.green != (red && green) {
			t.Errorf("%s: red is %v and green is %v in the last of %d pictures", c.name, red, green, len(stills))
		}
	}
}

func TestAPNGOfSixteenBitsMayHaveHalfThePixels(t *testing.T) {
	p := plainPNG(t, image.NewNRGBA(image.Rect(0, 0, 64, 64)))
	binary.BigEndian.PutUint32(p[16:], 6000)
	binary.BigEndian.PutUint32(p[20:], 6000)
	if _, err := Look(p); err != nil {
		t.Error(err)
	}
	p[24] = 16
	if _, err := Look(p); err == nil {
		t.Error("Look accepts 36 million pixels of 16 bits")
	}
}
