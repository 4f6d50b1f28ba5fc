package charset

import (
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"
)

// A Single is an encoding with one byte for each character, of which those below
// 0x80 are ASCII.
type Single struct {
	name  string
	table int // its place in single.bin
}

// The single-byte encodings of the standard, and three of MS-DOS, which RTF
// files name and browsers do not know.
var (
	IBM437      = &Single{"ibm437", 0}
	IBM850      = &Single{"ibm850", 1}
	IBM852      = &Single{"ibm852", 2}
	IBM866      = &Single{"ibm866", 3}
	ISO8859_2   = &Single{"iso-8859-2", 4}
	ISO8859_3   = &Single{"iso-8859-3", 5}
	ISO8859_4   = &Single{"iso-8859-4", 6}
	ISO8859_5   = &Single{"iso-8859-5", 7}
	ISO8859_6   = &Single{"iso-8859-6", 8}
	ISO8859_7   = &Single{"iso-8859-7", 9}
	ISO8859_8   = &Single{"iso-8859-8", 10}
	ISO8859_8I  = &Single{"iso-8859-8-i", 11}
	ISO8859_10  = &Single{"iso-8859-10", 12}
	ISO8859_13  = &Single{"iso-8859-13", 13}
	ISO8859_14  = &Single{"iso-8859-14", 14}
	ISO8859_15  = &Single{"iso-8859-15", 15}
	ISO8859_16  = &Single{"iso-8859-16", 16}
	KOI8R       = &Single{"koi8-r", 17}
	KOI8U       = &Single{"koi8-u", 18}
	Macintosh   = &Single{"macintosh", 19}
	Windows874  = &Single{"windows-874", 20}
	Windows1250 = &Single{"windows-1250", 21}
	Windows1251 = &Single{"windows-1251", 22}
	Windows1252 = &Single{"windows-1252", 23}
	Windows1253 = &Single{"windows-1253", 24}
	Windows1254 = &Single{"windows-1254", 25}
	Windows1255 = &Single{"windows-1255", 26}
	Windows1256 = &Single{"windows-1256", 27}
	Windows1257 = &Single{"windows-1257", 28}
	Windows1258 = &Single{"windows-1258", 29}
	MacCyrillic = &Single{"x-mac-cyrillic", 30}
)

// singles returns their tables, for the bytes from 0x80.
var singles = sync.OnceValue(func() [][]rune {
	lengths := make([]int, len(SingleByte()))
	for i := range lengths {
		lengths[i] = 128
	}
	return mustUnpack(packedSingle, lengths...)
})

// SingleByte returns the single-byte encodings in the order of their tables.
func SingleByte() []*Single {
	return []*Single{IBM437, IBM850, IBM852, IBM866, ISO8859_2, ISO8859_3, ISO8859_4, ISO8859_5, ISO8859_6, ISO8859_7, ISO8859_8, ISO8859_8I, ISO8859_10, ISO8859_13, ISO8859_14, ISO8859_15, ISO8859_16, KOI8R, KOI8U, Macintosh, Windows874, Windows1250, Windows1251, Windows1252, Windows1253, Windows1254, Windows1255, Windows1256, Windows1257, Windows1258, MacCyrillic}
}

// High returns the characters of the bytes from 0x80, U+FFFD for undefined ones.
func (s *Single) High() *[128]rune {
	return (*[128]rune)(singles()[s.table])
}

// Decode returns the character of a byte.
func (s *Single) Decode(b byte) rune {
	if b < utf8.RuneSelf {
		return rune(b)
	}
	return s.High()[b-utf8.RuneSelf]
}

// String returns the name of the encoding.
func (s *Single) String() string { return s.name }

// NewDecoder implements [encoding.Encoding].
func (s *Single) NewDecoder() *encoding.Decoder {
	return &encoding.Decoder{Transformer: singleDecoder{high: s.High()}}
}

// NewEncoder implements [encoding.Encoding] as for the East Asian encodings.
func (s *Single) NewEncoder() *encoding.Encoder { return encoding.Replacement.NewEncoder() }

type singleDecoder struct {
	transform.NopResetter
	high *[128]rune
}

// Transform implements [transform.Transformer].
func (d singleDecoder) Transform(dst, src []byte, _ bool) (nDst, nSrc int, err error) {
	for _, b := range src {
		r := rune(b)
		if b >= utf8.RuneSelf {
			r = d.high[b-utf8.RuneSelf]
		}
		if nDst+utf8.RuneLen(r) > len(dst) {
			return nDst, nSrc, transform.ErrShortDst
		}
		nDst += utf8.EncodeRune(dst[nDst:], r)
		nSrc++
	}
	return nDst, nSrc, nil
}
