package charset

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/transform"

	"shuultuur/test/peer"
)

func decode(t testing.TB, e encoding.Encoding, p []byte) string {
	t.Helper()
	q, err := e.NewDecoder().Bytes(p)
	if err != nil {
		t.Fatalf("%v: decoding %x: %v", e, p, err)
	}
	return string(q)
}

func TestTextIsDecodedByTheStandard(t *testing.T) {
	for _, test := range []struct {
		label, text, want string
	}{
		{"big5", "\xA4\xA4\xA4\xE5", "中文"},
		{"big5", "\x88\x62\x88\x64\x88\xA3\x88\xA5", "\u00CA\u0304\u00CA\u030C\u00EA\u0304\u00EA\u030C"},
		{"big5", "\xA4<b>", "\uFFFD<b>"},
		{"euc-kr", "\xC7\xD1\xB1\xDB", "한글"},
		{"euc-jp", "\xC6\xFC\xCB\xDC\x8E\xB1\x8F\xB0\xA1", "日本ｱ丂"},
		{"euc-jp", "\x8F\xB0A", "\uFFFDA"},
		{"shift_jis", "\x93\xFA\x96\x7B\xB1\xF0\x40", "日本ｱ\uE000"},
		{"iso-2022-jp", "\x1B$B\x46\x7C\x4B\x5C\x1B(B!", "日本!"},
		{"iso-2022-jp", "\x1B$B\x1B(Bx", "\uFFFDx"},
		{"iso-2022-jp", "\x1B(J\\~\x1B(I1", "¥‾ｱ"},
		{"iso-2022-jp", "\x1B$A", "\uFFFD$A"},
		{"gb2312", "\xD6\xD0\xCE\xC4\x80", "中文€"},
		{"gbk", "\x81\x30\x81\x30\x90\x30\x81\x30", "\u0080\U00010000"},
		{"gb18030", "\x81\x30<p>", "\uFFFD0<p>"},
		{"gb18030", "\x81\x30\x81", "\uFFFD"},
		{" Shift-JIS\t", "a", "a"},
		{"hz-gb-2312", "abc", "\uFFFD"},
	} {
		e := Get(test.label)
		if e == nil {
			t.Errorf("Get(%q) returned nil", test.label)
			continue
		}
		if got := decode(t, e, []byte(test.text)); got != test.want {
			t.Errorf("%s: %x was decoded to %q, want %q", test.label, test.text, got, test.want)
		}
	}
	if Get("utf-7") != nil {
		t.Error("Get returned utf-7, which no browser reads")
	}
}

// TestPiecesMakeTheSameText divides a text at every position.
func TestPiecesMakeTheSameText(t *testing.T) {
	for label, text := range map[string]string{
		"big5":        "a\xA4\xA4\x88\x62\xA4<\xFF\xA4",
		"euc-kr":      "a\xC7\xD1\xC7<\xC7",
		"euc-jp":      "a\xC6\xFC\x8F\xB0\xA1\x8F\xB0<\x8F\xB0",
		"shift_jis":   "a\x93\xFA\xB1\x93<\x93",
		"iso-2022-jp": "a\x1B$B\x46\x7C\x46\x1B(B\x1B(Ix\x1B(J\\\x1B$",
		"gb18030":     "a\xD6\xD0\x81\x30\x81\x30\x81\x30\x81<\x81\x30",
	} {
		e := Get(label)
		want := decode(t, e, []byte(text))
		for cut := range len(text) + 1 {
			var got []byte
			dst, d := make([]byte, 6), e.NewDecoder()
			pending := []byte(text[:cut])
			for _, last := range []bool{false, true} {
				for {
					nDst, nSrc, err := d.Transform(dst, pending, last)
					got, pending = append(got, dst[:nDst]...), pending[nSrc:]
					if err != transform.ErrShortDst {
						break
					}
				}
				if !last {
					pending = append(pending, text[cut:]...)
				}
			}
			if string(got) != want {
				t.Errorf("%s cut at %d: decoded to %q, want %q", label, cut, got, want)
			}
		}
	}
}

// TestTheTablesAreThoseOfOtherPrograms: two-byte characters that golang.org/x/text knows
// decode to the same character.
func TestTheTablesAreThoseOfOtherPrograms(t *testing.T) {
	for _, test := range []struct {
		ours, theirs encoding.Encoding
		least        int
	}{
		{Big5, traditionalchinese.Big5, 18000}, {EUCKR, korean.EUCKR, 17000},
	} {
		same := 0
		for lead := 0x81; lead < 0xFF; lead++ {
			for trail := 0x40; trail < 0xFF; trail++ {
				p := []byte{byte(lead), byte(trail)}
				got, want := decode(t, test.ours, p), decode(t, test.theirs, p)
				switch {
				case strings.ContainsRune(want, utf8.RuneError):
				case got != want:
					t.Errorf("%v: %x was decoded to %q, want %q", test.ours, p, got, want)
				default:
					same++
				}
			}
		}
		if same < test.least {
			t.Errorf("%v: compared %d characters, want at least %d", test.ours, same, test.least)
		}
	}
	for _, e := range encodings {
		for label := range strings.FieldsSeq(e.labels) {
			theirs, err := htmlindex.Get(label)
			if err != nil {
				t.Errorf("%q: golang.org/x/text does not know it", label)
				continue
			}
			name, err := htmlindex.Name(theirs)
			if want, _, _ := strings.Cut(e.labels, " "); err != nil || name != want {
				t.Errorf("the label %q means %s, want %s", label, name, want)
			}
		}
	}
}

// inBrowser prints the code points to which Chromium decodes texts.
const inBrowser = `<!doctype html><pre id=out></pre><script>
document.getElementById('out').textContent = JSON.stringify(%s.map(([label, text]) =>
	[...new TextDecoder(label).decode(new Uint8Array(text.match(/../g).map(x => parseInt(x, 16))))].map(c => c.codePointAt(0))));
</script>`

// TestTextIsDecodedAsChromiumDoes decodes every byte and thousands of random sequences in each
// encoding.
func TestTextIsDecodedAsChromiumDoes(t *testing.T) {
	chromium := peer.Program(t, "chromium")
	random := rand.New(rand.NewPCG(1, 2))
	// Lead bytes, trail bytes, escapes and ends.
	usual := []byte("\x1B$B(JI@!\x30\x39\x40\x5C\x7E\x7F\x80\x81\x8E\x8F\xA0\xA1\xC6\xD6\xF0\xFC\xFE\xFF<a")
	var questions [][2]string
	for _, e := range encodings {
		label, _, _ := strings.Cut(e.labels, " ")
		if label == "replacement" || label == "utf-8" || strings.HasPrefix(label, "utf-16") {
			continue
		}
		_, many := e.encoding.(*multibyte)
		many = many && label != "x-user-defined"
		for b := range 256 {
			questions = append(questions, [2]string{label, hex.EncodeToString([]byte{byte(b)})})
		}
		for range 3000 {
			if !many {
				break
			}
			p := make([]byte, 1+random.IntN(12))
			for i := range p {
				if p[i] = byte(random.IntN(256)); random.IntN(3) > 0 {
					p[i] = usual[random.IntN(len(usual))]
				}
				if label == "euc-jp" && p[i] == 0x8F {
					p[i] = 'a' // after a malformed character Chromium continues with JIS X 0212; the standard and Firefox do not
				}
			}
			questions = append(questions, [2]string{label, hex.EncodeToString(p)})
		}
	}
	asked, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	page := filepath.Join(dir, "page.html")
	if err := os.WriteFile(page, fmt.Appendf(nil, inBrowser, asked), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(chromium, "--headless", "--no-sandbox", "--user-data-dir="+dir, "--dump-dom", "file://"+page).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(out), `<pre id="out">`)
	text, _, _ = strings.Cut(text, "</pre>")
	var answers [][]rune
	if err := json.Unmarshal([]byte(text), &answers); err != nil || len(answers) != len(questions) {
		t.Fatalf("Chromium gave %d answers to %d questions, %v", len(answers), len(questions), err)
	}
	wrong := map[string]int{}
	for i, q := range questions {
		p, _ := hex.DecodeString(q[1])
		got, want := decode(t, Get(q[0]), p), string(answers[i])
		if q[0] == "iso-2022-jp" { // after a malformed escape sequence Chromium drops bytes that are not text
			got, want = strings.ReplaceAll(got, "\uFFFD", ""), strings.ReplaceAll(want, "\uFFFD", "")
		}
		if got != want {
			if wrong[q[0]]++; wrong[q[0]] <= 40 {
				t.Errorf("%s: %s was decoded to %+q, Chromium has %+q", q[0], q[1], got, want)
			}
		}
	}
	if len(wrong) > 0 {
		t.Errorf("texts that Chromium decodes differently, by encoding: %v", wrong)
	}
}

func FuzzDecodersEndAndGiveUTF8(f *testing.F) {
	f.Add([]byte("\x1B$B\x46\x7C\x1B(B\x81\x30\x81\x30\x8F\xB0\xA1"))
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, e := range encodings {
			if q := decode(t, e.encoding, p); !utf8.ValidString(q) {
				t.Errorf("%v: the decoded %q is not UTF-8", e.encoding, q)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, label := range []string{"big5", "euc-kr", "euc-jp", "shift_jis", "gb18030"} {
		text := []byte(strings.Repeat("<p>\xB0\xA1\xB0\xA2\xC6\xFC\xCB\xDC a", 4096))
		theirs, err := htmlindex.Get(label)
		if err != nil {
			b.Fatal(err)
		}
		dst := make([]byte, 4*len(text))
		for name, e := range map[string]encoding.Encoding{"ours": Get(label), "theirs": theirs} {
			b.Run(label+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				d := e.NewDecoder()
				for b.Loop() {
					if _, _, err := d.Transform(dst, text, true); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
