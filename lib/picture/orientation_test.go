package picture

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"testing"
)

func TestPicturesAreTurnedAsExifSays(t *testing.T) {
	// Red above to the left, green beside it, blue below it, and white.
	m := image.NewRGBA(image.Rect(0, 0, 160, 80))
	for y := range 80 {
		for x := range 160 {
			c := color.RGBA{255, 0, 0, 255}
			switch {
			case x >= 80 && y >= 40:
				c = color.RGBA{255, 255, 255, 255}
			case x >= 80:
				c = color.RGBA{0, 255, 0, 255}
			case y >= 40:
				c = color.RGBA{0, 0, 255, 255}
			}
			m.SetRGBA(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	// The corners as shown, line by line from the upper left.
	for turn, want := range []string{1: "RGBW", 2: "GRWB", 3: "WBGR", 4: "BWRG", 5: "RBGW", 6: "BRWG", 7: "WGBR", 8: "GWRB"} {
		if turn == 0 {
			continue
		}
		file := withOrientation(b.Bytes(), uint8(turn))
		head, err := Look(file)
		if err != nil {
			t.Fatal(err)
		}
		w, h := head.DisplaySize()
		if wide := w == 160 && h == 80; wide != (turn < 5) {
			t.Errorf("orientation %d: Shown returned %d × %d", turn, w, h)
		}
		p, err := Decode(file, 64)
		if err != nil || p.W != w || p.H != h {
			t.Fatalf("orientation %d: Decode returned %v, %v", turn, p, err)
		}
		got := ""
		for _, at := range [][2]int{{w / 4, h / 4}, {3 * w / 4, h / 4}, {w / 4, 3 * h / 4}, {3 * w / 4, 3 * h / 4}} {
			i := 3 * (at[1]*w + at[0])
			switch r, g, b := p.Pix[i] > 128, p.Pix[i+1] > 128, p.Pix[i+2] > 128; {
			case r && g && b:
				got += "W"
			case r:
				got += "R"
			case g:
				got += "G"
			default:
				got += "B"
			}
		}
		if got != want {
			t.Errorf("orientation %d: the corners are %s, want %s", turn, got, want)
		}
		blurred, err := Blur(file)
		if err != nil {
			t.Fatal(err)
		}
		if o, err := Look(blurred); err != nil || max(1, o.Turn) != head.Turn && turn > 1 || o.Width != 160 {
			t.Errorf("orientation %d: the blurred picture is %+v, %v", turn, o, err)
		}
	}
	for _, seg := range []string{"", "Exif\x00\x00", "Exif\x00\x00II*\x00\xff\xff\xff\xff", "Exif\x00\x00MM\x00*\x00\x00\x00\x08\xff\xff\x01\x12"} {
		if got := orientation([]byte(seg)); got != 1 {
			t.Errorf("orientation(%q) = %d, want 1", seg, got)
		}
	}
}

// Chromium rotates PNGs by their eXIf chunk and AVIFs by their box, and does not rotate WebPs.
func TestOtherFormatsAreTurnedAsBrowsersDo(t *testing.T) {
	p := chunksOf(plainPNG(t, redOverGreen(160, 80)), maxChunks)
	exif := withOrientation([]byte("\xff\xd8\xff\xd9"), 6)[12:36]
	turned := encodeChunks([]chunk{p[0], {"eXIf", exif}, p[1]})
	head, err := Look(turned)
	if w, h := head.DisplaySize(); err != nil || w != 80 || h != 160 {
		t.Errorf("a turned PNG is shown as %d × %d, %v; want 80 × 160", w, h, err)
	}
	if m, err := Decode(turned, 64); err != nil || m.W != 80 || m.Pix[0] > 60 || m.Pix[3*79] < 200 {
		t.Errorf("the red of a turned PNG is not at its right: %v", err)
	}
	blurred, err := Blur(turned)
	if err != nil {
		t.Fatal(err)
	}
	head, err = Look(blurred)
	if w, h := head.DisplaySize(); err != nil || w != 80 || h != 160 {
		t.Errorf("the blurred PNG is shown as %d × %d, %v; want 80 × 160", w, h, err)
	}
	boxes := []byte("\x00\x00\x00\x14ftypavif\x00\x00\x00\x00avif\x00\x00\x00\x14ispe\x00\x00\x00\x00\x00\x00\x00\xa0\x00\x00\x00\x50\x00\x00\x00\x09irot\x01")
	head, err = Look(boxes)
	if w, h := head.DisplaySize(); err != nil || w != 80 || h != 160 {
		t.Errorf("a turned AVIF is shown as %d × %d, %v; want 80 × 160", w, h, err)
	}
}
