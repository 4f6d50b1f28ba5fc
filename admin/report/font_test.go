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
			t.Errorf("%U: got glyph %d, want %d", r, got, want)
		}
		if want == 0 {
			continue
		}
		found++
		width, err := peer.GlyphAdvance(&buf, want, fixed.I(1000), other.HintingNone)
		if got := f.width(uint16(want)); err != nil || max(got-width.Round(), width.Round()-got) > 1 { // it rounds twice
			t.Errorf("%U: got width %d, want %d, %v", r, got, width.Round(), err)
		}
	}
	if found < 600 {
		t.Errorf("only %d letters have a glyph", found)
	}
}

func TestABrokenFontIsAnError(t *testing.T) {
	for n := range 300 { // within its table of tables
		if _, err := readFont(goregular.TTF[:n]); err == nil {
			t.Fatalf("the first %d bytes were read", n)
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
