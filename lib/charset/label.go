package charset

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"

	"shuultuur/lib/ascii"
)

// The 16-bit encodings. The caller handles a byte order mark.
var (
	UTF16BE = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	UTF16LE = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
)

// XUserDefined maps the bytes from 0x80 to private use (section 14.5).
var XUserDefined encoding.Encoding = &multibyte{"x-user-defined", &statelessDecoder{one: xUserDefined}}

func xUserDefined(_ *[tableCount][]rune, p []byte) (r, more rune, n int) {
	return 0xF780 - 0x80 + rune(p[0]), 0, 1
}

// encodings are the encodings of the standard (section 4.2), each with its name and then its
// other labels.
var encodings = []struct {
	encoding encoding.Encoding
	labels   string
}{
	{unicode.UTF8, "utf-8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf8 x-unicode20utf8"},
	{IBM866, "ibm866 866 cp866 csibm866"},
	{ISO8859_2, "iso-8859-2 csisolatin2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2"},
	{ISO8859_3, "iso-8859-3 csisolatin3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3"},
	{ISO8859_4, "iso-8859-4 csisolatin4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4"},
	{ISO8859_5, "iso-8859-5 csisolatincyrillic cyrillic iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988"},
	{ISO8859_6, "iso-8859-6 arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"},
	{ISO8859_7, "iso-8859-7 csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso8859-7 iso88597 iso_8859-7 iso_8859-7:1987 sun_eu_greek"},
	{ISO8859_8, "iso-8859-8 csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 visual"},
	{ISO8859_8I, "iso-8859-8-i csiso88598i logical"},
	{ISO8859_10, "iso-8859-10 csisolatin6 iso-ir-157 iso8859-10 iso885910 l6 latin6"},
	{ISO8859_13, "iso-8859-13 iso8859-13 iso885913"},
	{ISO8859_14, "iso-8859-14 iso8859-14 iso885914"},
	{ISO8859_15, "iso-8859-15 csisolatin9 iso8859-15 iso885915 iso_8859-15 l9"},
	{ISO8859_16, "iso-8859-16"},
	{KOI8R, "koi8-r cskoi8r koi koi8 koi8_r"},
	{KOI8U, "koi8-u koi8-ru"},
	{Macintosh, "macintosh csmacintosh mac x-mac-roman"},
	{Windows874, "windows-874 dos-874 iso-8859-11 iso8859-11 iso885911 tis-620"},
	{Windows1250, "windows-1250 cp1250 x-cp1250"},
	{Windows1251, "windows-1251 cp1251 x-cp1251"},
	{Windows1252, "windows-1252 ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252"},
	{Windows1253, "windows-1253 cp1253 x-cp1253"},
	{Windows1254, "windows-1254 cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 x-cp1254"},
	{Windows1255, "windows-1255 cp1255 x-cp1255"},
	{Windows1256, "windows-1256 cp1256 x-cp1256"},
	{Windows1257, "windows-1257 cp1257 x-cp1257"},
	{Windows1258, "windows-1258 cp1258 x-cp1258"},
	{MacCyrillic, "x-mac-cyrillic x-mac-ukrainian"},
	{GBK, "gbk chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk"},
	{GB18030, "gb18030"},
	{Big5, "big5 big5-hkscs cn-big5 csbig5 x-x-big5"},
	{EUCJP, "euc-jp cseucpkdfmtjapanese x-euc-jp"},
	{ISO2022JP, "iso-2022-jp csiso2022jp"},
	{ShiftJIS, "shift_jis csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis"},
	{EUCKR, "euc-kr cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949"},
	{encoding.Replacement, "replacement csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr"},
	{UTF16BE, "utf-16be unicodefffe"},
	{UTF16LE, "utf-16le csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16"},
	{XUserDefined, "x-user-defined"},
}

var byLabel = sync.OnceValue(func() map[string]encoding.Encoding {
	all := make(map[string]encoding.Encoding, 256)
	for _, e := range encodings {
		for label := range strings.FieldsSeq(e.labels) {
			all[label] = e.encoding
		}
	}
	return all
})

// Get returns the encoding for a label, nil for none. It ignores case, and ASCII white space
// around the label.
func Get(label string) encoding.Encoding {
	return byLabel()[strings.ToLower(strings.Trim(label, "\t\n\f\r "))]
}

// Find returns the encoding for a label in HTML (WHATWG Encoding Standard: "latin1" is
// windows-1252, "gb2312" is gbk).
func Find(label string) (encoding.Encoding, error) {
	e := Get(strings.TrimSpace(label))
	if e == nil {
		return nil, fmt.Errorf("charset %q is not known", label)
	}
	return e, nil
}

// ToUTF8 decodes p from the charset called label to UTF-8. A byte order mark takes precedence
// over label and is removed. Undefined bytes become U+FFFD. It returns p itself if nothing
// changes.
func ToUTF8(p []byte, label string) ([]byte, error) {
	e, n := Mark(p)
	if e == nil {
		var err error
		if e, err = Find(label); err != nil {
			return nil, err
		}
	}
	p = p[n:]
	if e == unicode.UTF8 {
		return bytes.ToValidUTF8(p, []byte("\uFFFD")), nil
	}
	q, err := e.NewDecoder().Bytes(p)
	if err != nil {
		return nil, fmt.Errorf("reading text as %s: %w", label, err)
	}
	return q, nil
}

// Mark returns the encoding for the byte order mark at the beginning of p, and the length of
// the mark.
func Mark(p []byte) (encoding.Encoding, int) {
	switch {
	case bytes.HasPrefix(p, []byte("\xEF\xBB\xBF")):
		return unicode.UTF8, 3
	case bytes.HasPrefix(p, []byte("\xFE\xFF")):
		return UTF16BE, 2
	case bytes.HasPrefix(p, []byte("\xFF\xFE")):
		return UTF16LE, 2
	}
	return nil, 0
}

// IsUTF16 reports whether e is UTF-16, in which a meta element cannot be written.
func IsUTF16(e encoding.Encoding) bool {
	return e == UTF16BE || e == UTF16LE
}

// Lookup is like Find, but allocates nothing for the most frequent labels, and returns nil
// for unknown ones.
func Lookup(label []byte) encoding.Encoding {
	if ascii.EqualLower(label, "utf-8") {
		return unicode.UTF8
	}
	e, err := Find(string(label))
	if err != nil {
		return nil
	}
	return e
}

// HighOf returns the characters of the bytes from 0x80 in e, nil if e is not a single-byte
// encoding.
func HighOf(e encoding.Encoding) *[128]rune {
	if s, ok := e.(*Single); ok {
		return s.High()
	}
	return nil
}
