package phrase

import (
	"bytes"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"shuultuur/lib/charset"
)

// charsets lists likely charsets of lists that are not UTF-8, by a part of the name of the
// file or folder. The first row that fits applies, and in it the first charset in which the
// line has no error. Phrase lists carry no label, and many authors have mixed charsets.
var charsets = [...]struct {
	name   string
	labels []string
}{
	{"koi8", []string{"koi8-r"}},
	{"1251", []string{"windows-1251"}},
	{"gb2312", []string{"gbk"}},
	{"gbk", []string{"gbk"}},
	{"big5", []string{"big5"}},
	{"euc-jp", []string{"euc-jp"}},
	{"shift_jis", []string{"shift_jis"}},
	{"sjis", []string{"shift_jis"}},
	{"euc-kr", []string{"euc-kr"}},
	{"8859-2", []string{"iso-8859-2"}},
	{"1250", []string{"windows-1250"}},
	{"japanese", []string{"euc-jp", "shift_jis"}},
	{"russian", []string{"windows-1251"}},
	{"polish", []string{"iso-8859-2"}},
	{"", []string{"windows-1252"}},
}

// toUTF8 converts the list in data, read from path, to UTF-8. It converts line by line,
// because some lists contain the same phrases in several charsets.
func toUTF8(data []byte, path string) []byte {
	if utf8.Valid(data) {
		return data
	}
	// Only the name of the file and of the two folders above it count.
	parts := strings.Split(strings.ToLower(filepath.ToSlash(path)), "/")
	name := strings.Join(parts[max(0, len(parts)-3):], "/")
	var labels []string
	for _, c := range charsets {
		if strings.Contains(name, c.name) {
			labels = c.labels
			break
		}
	}
	out := make([]byte, 0, len(data)+len(data)/4)
	for line := range bytes.Lines(data) {
		out = append(out, lineToUTF8(line, labels)...)
	}
	return out
}

func lineToUTF8(line []byte, labels []string) []byte {
	if utf8.Valid(line) {
		return line
	}
	best := line
	for i, label := range labels {
		t, err := charset.ToUTF8(line, label)
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
