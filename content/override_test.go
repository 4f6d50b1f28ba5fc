package content_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"shuultuur/test/race"

	"shuultuur/content"
	"shuultuur/test/reading"
)

// Text that is turned, or that has marks at the border of turned text, is found as it is shown.
func TestTurnedTextWithMarks(t *testing.T) {
	const html, plain = "text/html; charset=utf-8", "text/plain; charset=utf-8"
	for _, c := range []struct{ name, typ, in, want string }{
		{"a mark begins the turned text", plain, "e\u202e\u0301x\u202c porn", " porn "},
		{"the mark is shown on the letter before", plain, "e\u202e\u0301x\u202c porn", " éx "},
		{"a word after it", html, "<p>e\u202e\u0301x\u202c</p><p>po\u202enr\u202c", " porn "},
		{"a mark of two", plain, "e\u202e\u0344x\u202c po\u202enr\u202c", " porn "},
		{"marks in another order", plain, "e\u202e\u0316\u0300x\u202c po\u202enr\u202c", " porn "},
		{"a mark above each letter", plain, "\u202ee\u0301fa\u0301c\u202c", " cáfé "},
		{"a mark that joins no letter", plain, "\u202eq\u0323b\u202c", " bq\u0323 "},
		{"vowel signs", plain, "\u202eत\u091a\u0942\u202c", " \u091a\u0942त "},
		{"stress", plain, "с\u202eске\u0301\u202c", " секс "},
		{"stress at the border", plain, "се\u202e\u0301ск\u202c", " секс "},
		{"references", "text/markdown", "e&#x202e;&#x301;x&#x202c; po&#x202e;nr&#x202c;", " porn "},
		{"a string of a script", "text/javascript", "a='e\u202e\u0301x\u202c po\u202enr\u202c'", " porn "},
		{"a mark after hidden text", html, "<style>.h{display:none}</style>caf<i class=h>z</i>e\u0301", " café "},
		{"a mark behind hidden text", html, "<style>.h{display:none}</style>cafe<i class=h>z</i>\u0301", " café "},
		{"a mark behind an element", html, "cafe<b></b>\u0301", " café "},
		{"a mark behind an element that turns", html, "cafe<bdo dir=rtl>\u0301</bdo>", " café "},
	} {
		t.Run(c.name, func(t *testing.T) {
			for piece := 1; piece <= 64; piece *= 4 {
				if got := reading.InPieces(t, c.typ, []byte(c.in), piece, content.Limits{Scripts: true}); !strings.Contains(got, c.want) {
					t.Errorf("in pieces of %d, %+q gives %+q, want %+q in it", piece, c.in, got, c.want)
				}
			}
		})
	}
}

// TestTheLastWordIsReadWhateverItIsMadeOf: joining its letters makes the text shorter than it was when
// it was last looked at.
func TestTheLastWordIsReadWhateverItIsMadeOf(t *testing.T) {
	race.Without(t)
	for _, typ := range []string{"text/html; charset=utf-8", "text/html", "text/plain; charset=utf-8", "application/json"} {
		for _, word := range []string{"word", "wo\u0300rd", "w\u0302o\u0300rd", "wo\u0300\u0301\u0302rd", "\u202edro\u0300w", "wo\u0300rd\u0300"} {
			for _, size := range []int{100, 1023, 1024, 1025, 4096} {
				text := []byte(strings.Repeat("a ", size)[:size-len(word)] + word)
				whole := strings.Fields(reading.InPieces(t, typ, text, size+1, content.Limits{}))
				for _, piece := range []int{1, 7, 512} {
					got := strings.Fields(reading.InPieces(t, typ, text, piece, content.Limits{}))
					if last := got[len(got)-1]; last == "a" || last != whole[len(whole)-1] {
						t.Errorf("%s: the last word of %d bytes is %+q in pieces of %d, %+q whole, of %+q", typ, size, last, piece, whole[len(whole)-1], word)
					}
				}
			}
		}
	}
}

// A string of a script that is longer than what is kept of the text is not cut within a letter.
func TestLongTurnedStringsOfScripts(t *testing.T) {
	race.Without(t)
	for n := range 64 {
		for _, in := range []string{
			"a='" + strings.Repeat("q", n) + strings.Repeat("é", 5000) + "\u202e" + strings.Repeat("é", n) + "'",
			"a='\u202e" + strings.Repeat("q", n) + strings.Repeat("é", 40_000) + "\u202c'",
			"['" + strings.Repeat("q", n) + strings.Repeat("é\u202e", 40_000) + "','a'].join('')",
			"'" + strings.Repeat("q", n) + strings.Repeat("é", 40_000) + "'.split('').reverse().join('')+'\u202ea'",
		} {
			reading.CheckNormal(t, reading.InPieces(t, "text/javascript", []byte(in), 1000, content.Limits{Scripts: true}))
		}
	}
}

// signs are characters that normalisation joins, moves, removes or turns, and letters for them.
var signs = []string{
	"a", "e", "é", "\u1ea5", "i", "\u0130", "ß", "ﬁ", "q", " ", "\n", "1",
	"\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u200e", "\u200f", "\u061c", // of direction
	"\u0300", "\u0301", "\u0307", "\u0308", "\u0316", "\u0323", "\u0327", "\u0338", "\u0340", "\u0344", "\u0345", "\u034f", "\u035c", "\u20d0", "\ufe20", // marks
	"е", "и", "ё", "α", "ά", "ὰ", "\u0313", "ا", "أ", "\u0653", "\u064b", "א", "\u05b8",
	"क", "\u093c", "\u094d", "\u0942", "ক", "\u09c7", "\u09be", "\u0b47", "\u0b56", "ே", "\u0bbe", "\u0dd9", "\u0dca", "\u102f", "\u1025", "\u102e", "ไ", "\u0e33", "\u0f71", "\u0f72", // vowel signs
	"ᄀ", "ᅡ", "ᆨ", "가", "\u3164", "か", "\u3099", "ｶ", "ﾞ", "が",
	"\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u180e", "\ufe0e", "\ufe0f", "\U000e0100", "\U000e0061", "\U000e007f", "\U0001d173", // joiners, variations, tags
	"\U0001d400", "\U0001f130", "Ａ", "\u2126", "\u212b", "\U0001d15e", "\U0001d165", "\U0001d16e", "\U00011131", "\U00011127",
	"\xff", "\xe2\x80", "\xcc", "\x80", "\x00",
}

// borders are where a piece of text ends for one reader and goes on for another.
var borders = map[string][]string{
	"text/html; charset=utf-8": {"", "<b>", "</b>", "<p>", "<bdo dir=rtl>", "</bdo>", "<i class=h>", "</i>", "<i class=t>", "<span class=f>", "</span>", "<img>", "<wbr>", "<td>", "<br>",
		"<u title='\u202e", "'>", "<title>", "</title>", "<template shadowrootmode=open>", "<slot>", "</slot>", "</template>", "<div>", "</div>", "<svg>", "</svg>", "<a href='data:,e\u202e", "&#x202e;", "&#x301;", "&shy;", "<q class=c>", "</q>", "<noscript>", "</noscript>",
		"<meta name=x content='", "<input value='", "<style>.h{display:none}.t{unicode-bidi:bidi-override;direction:rtl}.f{display:contents}.c::before{content:'\u202e\u0301'}</style>"},
	"text/markdown; charset=utf-8":    {"", "<b>", "<", ">", "&#x202e;", "&#x301;", "&lt;", "&amp;", "&zwj;", "\n"},
	"application/json":                {"", `"`, `","`, `":"`, `<b>`, `\u202e`, `\u0301`, `\u003c`, `\n`, `{"`, `"}`, `["`, `"]`},
	"text/javascript; charset=utf-8":  {"", "'", "'+'", "['", "','", "'].join('')", "`", "${", "}", "'.split('').reverse().join('')", `\u202e`, `\u{301}`, "String.fromCharCode(8238,769)", "atob('", "')", "\n"},
	"text/css; charset=utf-8":         {"", "a{content:'", "'}", "'", `\202e `, `\301 `, "/*", "*/"},
	"application/xml; charset=utf-8":  {"", "<a>", "</a>", "<![CDATA[", "]]>", "&#x202e;", "&#x301;", "<!DOCTYPE a [<!ENTITY e '\u202e\u0301'>]>", "&e;", "<a b='", "'>"},
	"text/plain; charset=utf-8":       {"", "\n", " "},
	"application/rtf":                 {`{\rtf1 `, `\u8238 ?`, `\u769 ?`, `\par `, "}", "{", ""},
	"text/html; charset=windows-1258": {"", "\xcc", "\xd2", "\xde", "\xec", "\xf2", "<b>", "&#x202e;"},
	"multipart/form-data; boundary=b": {"\r\n--b\r\nContent-Disposition: form-data; name=a\r\n\r\n", "", "\r\n--b--\r\n", "\u202e"},
}

// signText returns a text of signs and borders.
func signText(r *rand.Rand, borders []string, n int) []byte {
	var b []byte
	for range n {
		switch k := r.IntN(40); {
		case k < 14:
			b = append(b, borders[r.IntN(len(borders))]...)
		case k < 15:
			b = append(b, strings.Repeat(signs[r.IntN(len(signs))], 1+r.IntN(70))...)
		case k < 19:
			b = append(b, "\u202e"...)
		case k < 21:
			b = append(b, "\u202c"...)
		default:
			b = append(b, signs[r.IntN(len(signs))]...)
		}
	}
	return b
}

// checkSigns fails if the text differs between pieces of several sizes, is not normal, or misses
// what it says about itself.
func checkSigns(t *testing.T, typ string, p []byte) {
	lim := content.Limits{Scripts: true}
	defer func() {
		if e := recover(); e != nil {
			t.Fatalf("%s: %+q: panic: %v", typ, p, e)
		}
	}()
	var b content.Body
	h := content.Describe(typ, "")
	b.Reset(h, lim)
	b.Append(p)
	b.Finish()
	whole, _ := b.Text()
	want := string(whole)
	several := h.Invalid()
	b.Release()
	if !utf8.ValidString(want) || strings.Contains(want, "  ") {
		t.Fatalf("%s: %+q gives %+q, which is not normal", typ, p, want)
	}
	if several {
		return
	}
	for _, piece := range []int{1, 3, 7} {
		if got := reading.InPieces(t, typ, p, piece, lim); got != want {
			t.Fatalf("%s: %+q in pieces of %d gives\n%+q, whole\n%+q", typ, p, piece, got, want)
		}
	}
}

// All pairs of signs are read around each border, in pieces of several sizes.
func TestPairsOfSignsAtBorders(t *testing.T) {
	race.Without(t)
	for typ, borders := range borders {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			var all []byte
			for i, x := range signs {
				for k, y := range signs {
					border := borders[(i*len(signs)+k)%len(borders)]
					all = append(all[:0], fmt.Sprint("<e", x, border, y, "\u202e", x, border, y, "\u202c", x, " a")...)
					checkSigns(t, typ, all[1:])
				}
			}
		})
	}
}

func FuzzSigns(f *testing.F) {
	for i := range 20 {
		f.Add(uint64(i), uint8(i), uint8(10))
		f.Add(uint64(114), uint8(i), uint8(148)) // whose last word becomes shorter
	}
	types := slices.Sorted(maps.Keys(borders)) // an input means the same in each run
	f.Fuzz(func(t *testing.T, seed uint64, which, n uint8) {
		typ := types[int(which)%len(types)]
		checkSigns(t, typ, signText(rand.New(rand.NewPCG(seed, 1)), borders[typ], int(n)))
	})
}
