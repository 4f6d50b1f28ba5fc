//go:build !small

package report

import (
	"testing"

	other "golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

func TestGlyphsAndWidthsAreThoseOfTheFont(t *testing.T) {
	f, err := readFont(goregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := sfnt.Parse(goregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	var buf sfnt.Buffer
	found := 0
	for r := rune(0); r < 0x11000; r++ {
		want, _ := peer.GlyphIndex(&buf, r)
		if got := f.glyph(r); got != uint16(want) {
			t.Errorf("%U has the glyph %d, want %d", r, got, want)
		}
		if want == 0 {
			continue
		}
		found++
		width, err := peer.GlyphAdvance(&buf, want, fixed.I(1000), other.HintingNone)
		if got := f.width(uint16(want)); err != nil || max(got-width.Round(), width.Round()-got) > 1 { // the test's width is rounded twice
			t.Errorf("%U has the width %d, want %d, %v", r, got, width.Round(), err)
		}
	}
	if found < 600 {
		t.Errorf("the font has glyphs for only %d letters", found)
	}
}

func TestABrokenFontIsAnError(t *testing.T) {
	for n := range 300 { // lengths that end within the table of tables
		if _, err := readFont(goregular.TTF[:n]); err == nil {
			t.Fatalf("readFont accepts the first %d bytes of a font", n)
		}
	}
}

func FuzzFont(f *testing.F) {
	f.Add(goregular.TTF[:2000])
	f.Fuzz(func(_ *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		if font, err := readFont(data); err == nil {
			font.width(font.glyph('A'))
		}
	})
}
