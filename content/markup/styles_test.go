package markup

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// sheetTokens are what style sheets are made of, as far as it divides them or has an effect.
var sheetTokens = []string{
	"{", "}", ";", ":", "\"", "'", "*", "/", "/*", "*/", "\\", "(", ")", ",", "\n", " ", "[a=\"}\"]", ":is(", "url(", "!important", "{}", "}}",
	".a", "#b", "i", "p{", "a::after{content:'rn'}", ".c{display:none}", "@media x{", "@import url(x);", "@charset 'x';", "@function --f(--a:'k'){result:\"x\" var(--a)}",
	"@property --x{initial-value:\"q\"}", "@counter-style c{symbols:\"po\" 'rn'}", "content:\"ab\"", "content:--f(a)", "content:'{;'", "display:none", ";display:none;", "DISPLAY:INLINE",
	"display:block", "position: static", "font-style:x", "font-s", "display: b", "font-weight:bold", "font-family:x(", "font-size:0", "float:left", "position:absolute", "direction:rtl", "quotes:'po' 'rn'", "list-style:c", "--x:\"y\"", "--y:var(--x)",
	"d\\69splay:none", "dis/**/play:none", "\\70 ", "\\'", "color:red", "/*/", "/**/*/", "background:url(\"data:x;y}\")", "é", "\x00", "d", "-", "c",
}

// TestRulesOfStyleAreReadTheSameInPieces: rules that are complete in a piece are read in another way
// than those of which a part arrives at a time.
func TestRulesOfStyleAreReadTheSameInPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 4))
	read := func(p []byte, step int) any {
		var s styles
		for rest := p; len(rest) > 0; rest = rest[step:] {
			step = min(step, len(rest))
			s.write(rest[:step])
		}
		s.end()
		effects := map[uint32]effect{}
		for _, e := range s.table {
			if e.hash != 0 {
				effects[e.hash] = e.effect
			}
		}
		return []any{effects, s.added, s.named, s.looks, s.tags, s.any, s.kinds, s.all, s.lost, s.last}
	}
	sheets := []string{"/* x */* b{display:none;*/ }", "/*/ b{display:none}/*/", "b{/*}*/display:none}", "b{content:'/*';display:none;x:'*/'}", "b{x:y(;display:none;)}"}
	for i := range 30_000 {
		var p []byte
		if i < len(sheets) {
			p = []byte(sheets[i])
		} else {
			for range 1 + r.IntN(24) {
				p = append(p, sheetTokens[r.IntN(len(sheetTokens))]...)
			}
		}
		want := read(p, 1)
		for _, step := range []int{7, len(p)} {
			if got := read(p, step); !reflect.DeepEqual(got, want) {
				t.Fatalf("%q in pieces of %d: %v, byte by byte %v", p, step, got, want)
			}
		}
	}
}

func TestMarksAreFoundAsByteByByte(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 4))
	for range 300 {
		p := make([]byte, r.IntN(3*64*markWords))
		for i := range p {
			if p[i] = byte(r.IntN(256)); r.IntN(4) > 0 {
				p[i] = (styleMarks + "aZ\xfb")[r.IntN(len(styleMarks)+3)] + byte(r.IntN(4)/3<<7)
			}
		}
		from := r.IntN(len(p) + 1)
		var m marks
		m.begin(p, from)
		for i, c := range p {
			if i < from || !styleMark[c] {
				continue
			}
			if got := m.next(); got != i {
				t.Fatalf("the next mark of %d bytes from %d is found at %d, want %d", len(p), from, got, i)
			}
		}
		if got := m.next(); got != len(p) {
			t.Fatalf("after the last mark of %d bytes one is found at %d", len(p), got)
		}
	}
}
