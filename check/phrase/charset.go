package phrase

import (
	"bytes"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// charsets says in which charset a list that is not UTF-8 is likely to be, by
// what the name of its file or folder contains; the first row that fits wins,
// and in it the first charset in which the line has no error. Phrase lists
// carry no label, and their charsets are as mixed as their authors.
var charsets = [...]struct {
	name string
	try  []encoding.Encoding
}{
	{"koi8", []encoding.Encoding{charmap.KOI8R}},
	{"1251", []encoding.Encoding{charmap.Windows1251}},
	{"gb2312", []encoding.Encoding{simplifiedchinese.GBK}},
	{"gbk", []encoding.Encoding{simplifiedchinese.GBK}},
	{"big5", []encoding.Encoding{traditionalchinese.Big5}},
	{"euc-jp", []encoding.Encoding{japanese.EUCJP}},
	{"shift_jis", []encoding.Encoding{japanese.ShiftJIS}},
	{"sjis", []encoding.Encoding{japanese.ShiftJIS}},
	{"euc-kr", []encoding.Encoding{korean.EUCKR}},
	{"8859-2", []encoding.Encoding{charmap.ISO8859_2}},
	{"1250", []encoding.Encoding{charmap.Windows1250}},
	{"japanese", []encoding.Encoding{japanese.EUCJP, japanese.ShiftJIS}},
	{"russian", []encoding.Encoding{charmap.Windows1251}},
	{"polish", []encoding.Encoding{charmap.ISO8859_2}},
	{"", []encoding.Encoding{charmap.Windows1252}},
}

// toUTF8 returns the list in data, read from path, as UTF-8. It goes line by
// line: lists exist that hold the same phrases in several charsets.
func toUTF8(data []byte, path string) []byte {
	if utf8.Valid(data) {
		return data
	}
	name := strings.ToLower(filepath.ToSlash(path))
	if i := strings.LastIndex(name, "/"); i >= 0 {
		if j := strings.LastIndex(name[:i], "/"); j >= 0 {
			if k := strings.LastIndex(name[:j], "/"); k >= 0 {
				name = name[k+1:] // the file and two folders above it
			}
		}
	}
	var try []encoding.Encoding
	for _, c := range charsets {
		if strings.Contains(name, c.name) {
			try = c.try
			break
		}
	}
	out := make([]byte, 0, len(data)+len(data)/4)
	for line := range bytes.Lines(data) {
		out = append(out, lineToUTF8(line, try)...)
	}
	return out
}

func lineToUTF8(line []byte, try []encoding.Encoding) []byte {
	if utf8.Valid(line) {
		return line
	}
	best := line
	for i, e := range try {
		t, err := e.NewDecoder().Bytes(line)
		if err != nil {
			continue
		}
		if i == 0 {
			best = t
		}
		if !bytes.ContainsRune(t, utf8.RuneError) {
			return t
		}
	}
	return bytes.ToValidUTF8(best, []byte("\uFFFD"))
}
