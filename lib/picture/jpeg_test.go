package picture

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"testing"

	"golang.org/x/image/bmp"

	"shuultuur/test/race"
)

// scene makes a picture with smooth areas, edges and noise.
func scene(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	r := rand.New(rand.NewPCG(1, uint64(w*h)))
	for y := range h {
		for x := range w {
			v := 128 + 90*math.Sin(float64(x)/37)*math.Cos(float64(y)/29)
			n := float64(r.IntN(20))
			c := color.RGBA{uint8(v + n), uint8(255 - v), uint8(float64(x*200/w) + n), 255}
			if (x/50+y/50)%3 == 0 {
				c = color.RGBA{uint8(220 - n), uint8(170 - n), uint8(140 + n), 255}
			}
			m.SetRGBA(x, y, c)
		}
	}
	return m
}

func encode(t testing.TB, m image.Image, how string) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch how {
	case "jpeg":
		err = jpeg.Encode(&b, m, &jpeg.Options{Quality: 85})
	case "png":
		err = png.Encode(&b, m)
	case "gif":
		err = gif.Encode(&b, m, nil)
	case "bmp":
		err = bmp.Encode(&b, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestShrinkAgreesWithTheMeansOfTheWholePicture(t *testing.T) {
	race.Without(t)
	for _, size := range [][2]int{{640, 480}, {641, 483}, {100, 64}} {
		m := scene(size[0], size[1])
		for how, most := range map[string]float64{"jpeg": 6, "png": 4, "bmp": 4, "gif": 14} {
			p, err := Shrink(encode(t, m, how))
			if err != nil {
				t.Fatalf("%s %v: Shrink returned %v", how, size, err)
			}
			if p.W != (size[0]+7)/8 || p.H != (size[1]+7)/8 || p.Full.Width != size[0] || p.Full.Height != size[1] {
				t.Fatalf("%s %v: Shrink returned %d × %d samples of %v", how, size, p.W, p.H, p.Full)
			}
			sum := 0.0
			for y := range size[1] / 8 {
				for x := range size[0] / 8 {
					want := 0.0
					for j := range 8 {
						for i := range 8 {
							c := m.RGBAAt(8*x+i, 8*y+j)
							want += .299*float64(c.R) + .587*float64(c.G) + .114*float64(c.B)
						}
					}
					sum += math.Abs(want/64 - float64(p.Luma(y)[x]))
				}
			}
			if mean := sum / float64((size[0]/8)*(size[1]/8)); mean > most {
				t.Errorf("%s %v: luma differs by %.1f in the mean, want at most %.0f", how, size, mean, most)
			}
		}
	}
}

func TestLook(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want Format
		err  error
	}{
		{"jpeg", encode(t, scene(200, 100), "jpeg"), JPEG, nil},
		{"icon", encode(t, scene(48, 48), "png"), PNG, ErrIcon},
		{"bomb", append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x01\x00\x00\x00\x01\x00\x00\x08\x06"), 0, 0, 0), PNG, ErrTooLarge},
		{"text", []byte("<html><body>hello</body>"), NotAPicture, ErrFormat},
		{"short", []byte("\xff\xd8\xff"), NotAPicture, ErrFormat},
		{"favicon", []byte("\x00\x00\x01\x00\x01\x00\x10\x10\x00\x00\x01\x00\x20\x00\x00\x04\x00\x00\x16\x00\x00\x00"), ICO, ErrIcon},
		{"avif", []byte("\x00\x00\x00\x1cftypavif\x00\x00\x00\x00mif1\x00\x00\x00\x14ispe\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x03\x00"), AVIF, nil},
		{"webp", []byte("RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\xff\x03\x00\xff\x02\x00"), WebP, nil},
	} {
		h, err := Look(c.b)
		if h.Format != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: Look returned %s, %v; want %s, %v", c.name, h.Format, err, c.want, c.err)
		}
	}
}

func TestATruncatedJPEGIsReported(t *testing.T) {
	b := encode(t, scene(640, 480), "jpeg")
	if p, err := Shrink(b[:len(b)/2]); err != nil || !p.Cut {
		t.Errorf("Shrink of half a picture returned %v, %v", p, err)
	}
	if p, err := Shrink(b); err != nil || p.Cut {
		t.Errorf("Shrink of a whole picture returned %v, %v", p, err)
	}
	if _, err := Shrink(b[:640]); err == nil {
		t.Error("less than a line of a picture is accepted")
	}
}

func FuzzShrink(f *testing.F) {
	for _, how := range []string{"jpeg", "png", "gif", "bmp"} {
		f.Add(encode(f, scene(80, 72), how))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := Look(b); err != nil || h.Width*h.Height > 1<<20 {
			return
		}
		if p, err := Shrink(b); err == nil {
			p.Skin()
			p.DHash()
		}
	})
}

func BenchmarkShrinkMegapixelJPEG(b *testing.B) {
	data := encode(b, scene(1152, 864), "jpeg")
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Shrink(data); err != nil {
			b.Fatal(err)
		}
	}
}
