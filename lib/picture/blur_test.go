package picture

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"testing"
)

// halves makes a picture whose left half is red and whose right half is blue, with black
// lines.
func halves(t testing.TB, w, h int) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.RGBA{200, 30, 30, 255}
			if x >= w/2 {
				c = color.RGBA{30, 30, 200, 255}
			}
			if x%16 == 0 || y%16 == 0 {
				c = color.RGBA{0, 0, 0, 255}
			}
			m.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestABlurredPictureHasTheSizeAndColoursButNoDetails(t *testing.T) {
	for _, size := range [][2]int{{320, 256}, {321, 67}, {64, 1000}, {1152, 864}} {
		b, err := Blur(halves(t, size[0], size[1]))
		if err != nil {
			t.Fatal(err)
		}
		m, err := jpeg.Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if m.Bounds().Dx() != size[0] || m.Bounds().Dy() != size[1] {
			t.Errorf("the blurred picture of %v has the size %v", size, m.Bounds())
		}
		r1, _, b1, _ := m.At(size[0]/8, size[1]/2).RGBA()
		r2, _, b2, _ := m.At(size[0]*7/8, size[1]/2).RGBA()
		if r1 < 3*b1 || b2 < 3*r2 {
			t.Errorf("%v: the left is %d, %d, the right %d, %d of red and blue", size, r1>>8, b1>>8, r2>>8, b2>>8)
		}
		most := 0
		for x := size[0] / 8; x < size[0]/3; x++ { // the lines have disappeared
			p, _, _, _ := m.At(x, size[1]/2).RGBA()
			q, _, _, _ := m.At(x+1, size[1]/2).RGBA()
			most = max(most, int(p>>8)-int(q>>8), int(q>>8)-int(p>>8))
		}
		if most > 20 {
			t.Errorf("%v: neighbours in the blurred picture differ by %d, want at most 20", size, most)
		}
	}
}

func TestAnEmptyPictureHasTheSize(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {9, 3}, {1152, 864}} {
		m, err := png.Decode(bytes.NewReader(Empty(size[0], size[1])))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, a := m.At(0, 0).RGBA(); a != 0 || m.Bounds().Dx() != size[0] || m.Bounds().Dy() != size[1] {
			t.Errorf("the empty picture of %v has the size %v and the alpha %d", size, m.Bounds(), a)
		}
	}
}

func FuzzBlur(f *testing.F) {
	f.Add(halves(f, 80, 70))
	f.Fuzz(func(t *testing.T, b []byte) {
		head, _ := Look(b)
		if head.Width*head.Height > 1<<20 {
			return
		}
		out, err := Blur(b)
		if err != nil {
			return
		}
		if _, err := jpeg.Decode(bytes.NewReader(out)); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzEmbedded(f *testing.F) {
	f.Add([]byte(`<img src="data:image/png;base64,AAAA">`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := len(Embedded(b, 3)); n > 3 {
			t.Fatalf("Embedded(…, 3) returned %d pictures", n)
		}
	})
}

func TestScalingKeepsMeansAndProportions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	m := &RGB{W: 97, H: 51, Pix: make([]byte, 3*97*51)}
	sum := 0
	for i := range m.Pix {
		m.Pix[i] = uint8(r.IntN(256))
		sum += int(m.Pix[i])
	}
	mean := sum / len(m.Pix)
	for name, s := range map[string]*RGB{"smaller": m.Scale(20, 20), "larger": m.Scale(200, 199), "filled": m.Fill(30, 40)} {
		sum := 0
		for _, v := range s.Pix {
			sum += int(v)
		}
		if got := sum / len(s.Pix); len(s.Pix) != 3*s.W*s.H || got < mean-8 || got > mean+8 {
			t.Errorf("%s: the scaled picture has %d × %d pixels and the mean %d, want %d", name, s.W, s.H, got, mean)
		}
	}
	if s := m.Frame(60, 60); s.W != 60 || s.H != 60 || s.Pix[0] != 114 || s.Pix[3*(30*60+30)] == 114 && s.Pix[3*(31*60+31)] == 114 {
		t.Error("a frame is not grey beside the picture")
	}
}

func BenchmarkBlurOfAMegapixel(b *testing.B) {
	p := halves(b, 1152, 864)
	for b.Loop() {
		if _, err := Blur(p); err != nil {
			b.Fatal(err)
		}
	}
}
