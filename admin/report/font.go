package report

import (
	"encoding/binary"
	"errors"
)

// A font has the data of a TrueType font that a PDF needs: which glyph draws a
// letter of the basic plane, and how wide it is. Tables are named as in OpenType.
type font struct {
	glyphs map[rune]uint16
	widths []int // widths of glyphs, in thousandths of the size; the last one applies to all that follow
}

var errFont = errors.New("the font cannot be read")

// readFont reads the tables cmap (format 4), head, hhea and hmtx.
func readFont(data []byte) (*font, error) {
	if len(data) < 12 {
		return nil, errFont
	}
	tables := map[string][]byte{}
	for i := range int(binary.BigEndian.Uint16(data[4:])) {
		entry := data[12:]
		if len(entry) < 16*(i+1) {
			return nil, errFont
		}
		entry = entry[16*i:]
		start, length := uint64(binary.BigEndian.Uint32(entry[8:])), uint64(binary.BigEndian.Uint32(entry[12:]))
		if start+length > uint64(len(data)) {
			return nil, errFont
		}
		tables[string(entry[:4])] = data[start : start+length]
	}
	head, hhea, hmtx := tables["head"], tables["hhea"], tables["hmtx"]
	if len(head) < 20 || len(hhea) < 36 {
		return nil, errFont
	}
	unit, count := int(binary.BigEndian.Uint16(head[18:])), int(binary.BigEndian.Uint16(hhea[34:]))
	if unit == 0 || count == 0 || len(hmtx) < 4*count {
		return nil, errFont
	}
	f := &font{glyphs: map[rune]uint16{}}
	for i := range count {
		f.widths = append(f.widths, (int(binary.BigEndian.Uint16(hmtx[4*i:]))*1000+unit/2)/unit)
	}
	return f, f.readCmap(tables["cmap"])
}

// readCmap reads the first table of format 4, which has the letters of the basic
// plane in segments.
func (f *font) readCmap(cmap []byte) error {
	at := func(b []byte, i int) int {
		if i < 0 || i+2 > len(b) {
			return 0
		}
		return int(binary.BigEndian.Uint16(b[i:]))
	}
	for i := range at(cmap, 2) {
		start := at(cmap, 8+8*i)<<16 | at(cmap, 10+8*i)
		if start >= len(cmap) || at(cmap[start:], 0) != 4 {
			continue
		}
		t := cmap[start:]
		half := at(t, 6) // twice the number of segments
		for s := 0; s < half; s += 2 {
			last, first := at(t, 14+s), at(t, 16+half+s)
			delta, from := at(t, 16+2*half+s), at(t, 16+3*half+s)
			for r := first; r <= last && r < 0xffff; r++ {
				glyph := r
				if from != 0 {
					if glyph = at(t, 16+3*half+s+from+2*(r-first)); glyph == 0 {
						continue
					}
				}
				f.glyphs[rune(r)] = uint16(glyph + delta)
			}
		}
		return nil
	}
	return errFont
}

// glyph returns the glyph of a letter, 0 for none.
func (f *font) glyph(r rune) uint16 { return f.glyphs[r] }

// width returns the width of a glyph, in thousandths of the size.
func (f *font) width(g uint16) int { return f.widths[min(int(g), len(f.widths)-1)] }
