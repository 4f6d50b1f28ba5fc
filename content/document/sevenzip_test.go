package document_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/ulikunitz/xz/lzma"

	"shuultuur/content"
)

// sevenNumber writes a number as 7-Zip does.
func sevenNumber(n uint64) []byte {
	if n < 0x80 {
		return []byte{byte(n)}
	}
	return binary.LittleEndian.AppendUint64([]byte{0xFF}, n)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// sevenPacked packs p by a method, and returns it with the description of the coder.
func sevenPacked(t testing.TB, method string, p []byte) (packed, coder []byte) {
	t.Helper()
	var b bytes.Buffer
	switch method {
	case "lzma":
		w, err := lzma.WriterConfig{DictCap: 1 << 16, Size: int64(len(p)), SizeInHeader: true}.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(p)
		w.Close()
		return b.Bytes()[13:], join([]byte{0x23, 3, 1, 1, 5}, b.Bytes()[:5])
	case "lzma2":
		w, err := lzma.Writer2Config{DictCap: 1 << 16}.NewWriter2(&b)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(p)
		w.Close()
		return b.Bytes(), []byte{0x21, 0x21, 1, 8}
	case "delta":
		for i := range p {
			c := p[i]
			if i > 0 {
				c -= p[i-1]
			}
			b.WriteByte(c)
		}
		return b.Bytes(), []byte{0x21, 3, 1, 0}
	case "aes":
		return p, []byte{0x24, 6, 0xF1, 7, 1, 2, 0x13, 0}
	case "ppmd":
		return p, []byte{0x23, 3, 4, 1, 0}
	case "large window":
		return p, []byte{0x21, 0x21, 1, 40}
	}
	return p, []byte{1, 0}
}

// sevenStreams describes one folder at a position.
func sevenStreams(at, packed, size int, coder []byte, sizes []int) []byte {
	var of []byte
	for i, n := range sizes {
		if i < len(sizes)-1 {
			of = append(of, sevenNumber(uint64(n))...)
		}
	}
	s := join([]byte{6}, sevenNumber(uint64(at)), []byte{1, 9}, sevenNumber(uint64(packed)), []byte{0},
		[]byte{7, 11, 1, 0, 1}, coder, []byte{12}, sevenNumber(uint64(size)), []byte{0})
	if len(sizes) > 0 {
		s = join(s, []byte{8, 13}, sevenNumber(uint64(len(sizes))), []byte{9}, of, []byte{0})
	}
	return append(s, 0)
}

// sevenOf makes an archive whose members are packed in one folder, and whose list is packed by list, "" for
// not.
func sevenOf(t testing.TB, method, list string, members ...string) string {
	t.Helper()
	var all, names []byte
	var sizes []int
	for i := 0; i < len(members); i += 2 {
		for _, c := range append(utf16.Encode([]rune(members[i])), 0) {
			names = binary.LittleEndian.AppendUint16(names, c)
		}
		all = append(all, members[i+1]...)
		sizes = append(sizes, len(members[i+1]))
	}
	packed, coder := sevenPacked(t, method, all)
	header := join([]byte{1, 4}, sevenStreams(0, len(packed), len(all), coder, sizes),
		[]byte{5}, sevenNumber(uint64(len(sizes))), []byte{17}, sevenNumber(uint64(len(names)+1)), []byte{0}, names, []byte{0, 0})
	body := packed
	if list != "" {
		p, coder := sevenPacked(t, list, header)
		body = join(packed, p)
		header = append([]byte{23}, sevenStreams(len(packed), len(p), len(header), coder, nil)...)
	}
	return string(sevenFile(body, header))
}

func sevenFile(body, header []byte) []byte {
	start := binary.LittleEndian.AppendUint64(nil, uint64(len(body)))
	start = binary.LittleEndian.AppendUint64(start, uint64(len(header)))
	return join([]byte("7z\xBC\xAF\x27\x1C\x00\x04\x00\x00\x00\x00"), start, []byte{0, 0, 0, 0}, body, header)
}

func TestMembersOf7zAreRead(t *testing.T) {
	const two = " a b txt plain words c html porn "
	of := func(method, list string) string {
		return sevenOf(t, method, list, "a b.txt", "plain words", "c.html", "<p>po<b>rn</b>")
	}
	many := []byte{1, 5, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0, 0}
	zeros := sevenOf(t, "lzma", "", "zeros.txt", strings.Repeat("\x00", 40<<20))
	for name, c := range map[string]struct {
		in, want string
		why      content.Reason
	}{
		"stored":                    {of("", ""), two, content.AllRead},
		"LZMA":                      {of("lzma", ""), two, content.AllRead},
		"LZMA2":                     {of("lzma2", ""), two, content.AllRead},
		"delta":                     {of("delta", ""), two, content.AllRead},
		"a packed list":             {of("lzma2", "lzma"), two, content.AllRead},
		"an archive within":         {sevenOf(t, "lzma", "", "in.7z", of("lzma2", "")), " in 7z" + two, content.AllRead},
		"nothing":                   {string(sevenFile(nil, nil)), " ", content.AllRead},
		"encrypted members":         {of("aes", ""), " a b txt c html ", content.Encrypted},
		"an encrypted list":         {of("lzma", "aes"), " ", content.Encrypted},
		"another method":            {of("ppmd", ""), " a b txt c html ", content.UnsupportedType},
		"a window of 4 GB":          {of("large window", "large window"), " ", content.Cut},
		"cut":                       {of("lzma", "")[:60], " ", content.Cut},
		"cut in the head":           {"7z\xBC\xAF\x27\x1C\x00\x04", " ", content.Cut},
		"more members than bytes":   {string(sevenFile(nil, many)), " ", content.Cut},
		"a list that lists nothing": {string(sevenFile(nil, []byte{9, 9, 9})), " ", content.Cut},
		"zeros without end":         {zeros, " zeros txt ", content.Bomb},
	} {
		var b content.Body
		b.Reset(content.Describe("application/x-7z-compressed", ""), content.Limits{})
		b.Append([]byte(c.in))
		b.Finish()
		got, err := b.Text()
		if string(got) != c.want || err != nil || b.Unread() != c.why {
			t.Errorf("%s: the text is %.200q, %v, unread %v; want %.200q, unread %v", name, got, err, b.Unread(), c.want, c.why)
		}
		b.Release()
	}
}

func Fuzz7z(f *testing.F) {
	for _, method := range []string{"", "lzma", "lzma2", "delta", "aes"} {
		f.Add([]byte(sevenOf(f, method, "", "a.txt", "plain words", "b", "more")))
		f.Add([]byte(sevenOf(f, method, "lzma", "a.txt", "plain words")))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var b content.Body
		b.Reset(content.Describe("application/x-7z-compressed", ""), content.Limits{Decoded: 1 << 20})
		defer b.Release()
		b.Append(p)
		b.Finish()
		if _, err := b.Text(); err != nil {
			t.Fatal(err)
		}
	})
}
