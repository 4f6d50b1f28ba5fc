// Package charset decodes text as browsers do, by the WHATWG Encoding Standard. Get returns
// the encoding for a label. Decoders are transform.Transformers from bytes to UTF-8, with
// U+FFFD for undefined bytes.
//
// It replaces the decoders of golang.org/x/text. Those include tables for encoding, which make
// the program half a megabyte larger, and they differ from browsers in the bytes from 0x80 to
// 0x9F and in malformed text. The tables come from Chromium (folder index).
package charset

import (
	"encoding/binary"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"
)

// The East Asian encodings. GB18030 also decodes GBK and GB2312, as the standard requires.
// They cannot encode.
var (
	Big5      encoding.Encoding = &multibyte{"big5", &statelessDecoder{one: big5}}
	EUCJP     encoding.Encoding = &multibyte{"euc-jp", &statelessDecoder{one: eucJP}}
	EUCKR     encoding.Encoding = &multibyte{"euc-kr", &statelessDecoder{one: eucKR}}
	GB18030   encoding.Encoding = &multibyte{"gb18030", &statelessDecoder{one: gb18030}}
	GBK       encoding.Encoding = &multibyte{"gbk", &statelessDecoder{one: gb18030}}
	ShiftJIS  encoding.Encoding = &multibyte{"shift_jis", &statelessDecoder{one: shiftJIS}}
	ISO2022JP encoding.Encoding = &multibyte{"iso-2022-jp", nil}
)

// A multibyte is an encoding with several bytes per character. decoder is nil if each text
// needs its own.
type multibyte struct {
	name    string
	decoder *statelessDecoder
}

// NewDecoder implements [encoding.Encoding].
func (m *multibyte) NewDecoder() *encoding.Decoder {
	if m.decoder == nil {
		return &encoding.Decoder{Transformer: &iso2022JP{emitted: true}}
	}
	return &encoding.Decoder{Transformer: m.decoder}
}

// NewEncoder implements [encoding.Encoding]. The encoder replaces everything, because the
// program only decodes.
func (m *multibyte) NewEncoder() *encoding.Encoder { return encoding.Replacement.NewEncoder() }

// String returns the name of the encoding.
func (m *multibyte) String() string { return m.name }

// A statelessDecoder has no state between characters. one returns the first character in p and
// its length; length 0 means that p ends within it. utf8.RuneError is an error, with the length
// that the standard consumes. more is a second code point, usually 0.
type statelessDecoder struct {
	transform.NopResetter
	one func(t *[tableCount][]rune, p []byte) (r, more rune, n int)
}

// Transform implements [transform.Transformer].
func (s *statelessDecoder) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
	t := tables()
	for nSrc < len(src) {
		if src[nSrc] < utf8.RuneSelf {
			n := copyASCII(dst[nDst:], src[nSrc:])
			if n == 0 {
				return nDst, nSrc, transform.ErrShortDst
			}
			nDst += n
			nSrc += n
			continue
		}
		r, more, n := s.one(t, src[nSrc:])
		if n == 0 {
			if !atEOF {
				return nDst, nSrc, transform.ErrShortSrc
			}
			r, n = utf8.RuneError, len(src)-nSrc // the rest is one error
		}
		size := utf8.RuneLen(r)
		if more != 0 {
			size += utf8.RuneLen(more)
		}
		if nDst+size > len(dst) {
			return nDst, nSrc, transform.ErrShortDst
		}
		nDst += utf8.EncodeRune(dst[nDst:], r)
		if more != 0 {
			nDst += utf8.EncodeRune(dst[nDst:], more)
		}
		nSrc += n
	}
	return nDst, nSrc, nil
}

// copyASCII copies the ASCII bytes at the beginning of src, as far as dst has room.
func copyASCII(dst, src []byte) int {
	n := min(len(dst), len(src))
	i := 0
	for ; i+8 <= n; i += 8 {
		w := binary.LittleEndian.Uint64(src[i:])
		if w&0x8080808080808080 != 0 {
			break
		}
		binary.LittleEndian.PutUint64(dst[i:], w)
	}
	for ; i < n && src[i] < utf8.RuneSelf; i++ {
		dst[i] = src[i]
	}
	return i
}

// undefinedLength returns the length of an undefined sequence of two bytes: an ASCII byte in second place
// is read again, so that no markup is lost.
func undefinedLength(trail byte) (r, more rune, n int) {
	if trail < utf8.RuneSelf {
		return utf8.RuneError, 0, 1
	}
	return utf8.RuneError, 0, 2
}

// at returns the entry for a pointer in a table, or an error.
func at(table []rune, pointer int, trail byte) (r, more rune, n int) {
	if r = table[pointer]; r == 0 {
		return undefinedLength(trail)
	}
	return r, 0, 2
}

// big5 decodes by section 12.1.1 of the standard.
func big5(t *[tableCount][]rune, p []byte) (r, more rune, n int) {
	lead := p[0]
	switch {
	case lead == 0x80 || lead == 0xFF:
		return utf8.RuneError, 0, 1
	case len(p) < 2:
		return 0, 0, 0
	}
	trail := p[1]
	var offset int
	switch {
	case trail >= 0x40 && trail <= 0x7E:
		offset = 0x40
	case trail >= 0xA1 && trail <= 0xFE:
		offset = 0x62
	default:
		return undefinedLength(trail)
	}
	switch pointer := (int(lead)-0x81)*157 + int(trail) - offset; pointer {
	case 1133:
		return 0xCA, 0x304, 2
	case 1135:
		return 0xCA, 0x30C, 2
	case 1164:
		return 0xEA, 0x304, 2
	case 1166:
		return 0xEA, 0x30C, 2
	default:
		return at(t[tableBig5], pointer, trail)
	}
}

// eucKR decodes by section 14.1.1 of the standard.
func eucKR(t *[tableCount][]rune, p []byte) (r, more rune, n int) {
	lead := p[0]
	switch {
	case lead == 0x80 || lead == 0xFF:
		return utf8.RuneError, 0, 1
	case len(p) < 2:
		return 0, 0, 0
	}
	trail := p[1]
	if trail < 0x41 || trail == 0xFF {
		return undefinedLength(trail)
	}
	return at(t[tableEUCKR], (int(lead)-0x81)*190+int(trail)-0x41, trail)
}

// eucJP decodes by section 13.1.1 of the standard.
func eucJP(t *[tableCount][]rune, p []byte) (r, more rune, n int) {
	lead := p[0]
	switch {
	case lead != 0x8E && lead != 0x8F && (lead < 0xA1 || lead == 0xFF):
		return utf8.RuneError, 0, 1
	case len(p) < 2:
		return 0, 0, 0
	}
	trail := p[1]
	high := trail >= 0xA1 && trail != 0xFF
	switch {
	case lead == 0x8E && trail >= 0xA1 && trail <= 0xDF:
		return 0xFF61 - 0xA1 + rune(trail), 0, 2
	case lead == 0x8F && high:
		if len(p) < 3 {
			return 0, 0, 0
		}
		third := p[2]
		if third >= 0xA1 && third != 0xFF {
			if r := t[tableJIS0212][(int(trail)-0xA1)*94+int(third)-0xA1]; r != 0 {
				return r, 0, 3
			}
		}
		if third < utf8.RuneSelf {
			return utf8.RuneError, 0, 2
		}
		return utf8.RuneError, 0, 3
	case lead >= 0xA1 && high:
		return at(t[tableJIS0208], (int(lead)-0xA1)*94+int(trail)-0xA1, trail)
	}
	return undefinedLength(trail)
}

// shiftJIS decodes by section 13.3.1 of the standard.
func shiftJIS(t *[tableCount][]rune, p []byte) (r, more rune, n int) {
	lead := p[0]
	switch {
	case lead == 0x80:
		return 0x80, 0, 1
	case lead >= 0xA1 && lead <= 0xDF:
		return 0xFF61 - 0xA1 + rune(lead), 0, 1
	case lead == 0xA0 || lead > 0xFC:
		return utf8.RuneError, 0, 1
	case len(p) < 2:
		return 0, 0, 0
	}
	trail := p[1]
	offset := 0x41
	switch {
	case trail < 0x40 || trail == 0x7F || trail > 0xFC:
		return undefinedLength(trail)
	case trail < 0x7F:
		offset = 0x40
	}
	leadOffset := 0x81
	if lead >= 0xA0 {
		leadOffset = 0xC1
	}
	pointer := (int(lead)-leadOffset)*188 + int(trail) - offset
	if pointer >= 8836 && pointer <= 10715 {
		return 0xE000 - 8836 + rune(pointer), 0, 2
	}
	return at(t[tableJIS0208], pointer, trail)
}

// gb18030 decodes by section 11.2.1 of the standard, and GBK with it.
func gb18030(t *[tableCount][]rune, p []byte) (r, more rune, n int) {
	lead := p[0]
	switch {
	case lead == 0x80:
		return 0x20AC, 0, 1
	case lead == 0xFF:
		return utf8.RuneError, 0, 1
	case len(p) < 2:
		return 0, 0, 0
	}
	trail := p[1]
	switch {
	case trail >= 0x30 && trail <= 0x39:
		return gb18030Four(t, p)
	case trail >= 0x40 && trail <= 0x7E:
		return at(t[tableGB18030], (int(lead)-0x81)*190+int(trail)-0x40, trail)
	case trail >= 0x80 && trail <= 0xFE:
		return at(t[tableGB18030], (int(lead)-0x81)*190+int(trail)-0x41, trail)
	}
	return undefinedLength(trail)
}

// gb18030Four decodes four bytes, of which the second is a digit.
func gb18030Four(t *[tableCount][]rune, p []byte) (r, more rune, n int) {
	switch {
	case len(p) < 3:
		return 0, 0, 0
	case p[2] < 0x81 || p[2] == 0xFF:
		return utf8.RuneError, 0, 1
	case len(p) < 4:
		return 0, 0, 0
	case p[3] < 0x30 || p[3] > 0x39:
		return utf8.RuneError, 0, 1
	}
	pointer := (int(p[0])-0x81)*12600 + (int(p[1])-0x30)*1260 + (int(p[2])-0x81)*10 + int(p[3]) - 0x30
	switch {
	case pointer < len(t[tableGB18030Four]) && t[tableGB18030Four][pointer] != 0:
		return t[tableGB18030Four][pointer], 0, 4
	case pointer >= 189000 && pointer <= 1237575:
		return 0x10000 + rune(pointer-189000), 0, 4
	}
	return utf8.RuneError, 0, 4
}
