package markup_test

import (
	"bytes"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
)

// TestWordsThatScriptsAssembleAreRead: a word that a script assembles from literals is
// read, in one piece and byte by byte.
func TestWordsThatScriptsAssembleAreRead(t *testing.T) {
	for _, script := range []string{
		`x="po"+"rn"`, `x='po' + 'rn'`, "x='p'+\n'o'+ /* x */ 'r' + // y\n'n'", `x=("p")+("orn")`, `x="po".concat("rn")`, "x=`po${'rn'}`", "x=`po`+`rn`", "x=`p${`o${'r'}`}n`", "x=`po${'r'+'n'}`",
		`x=["po","rn"].join("")`, `x=['p','o','r','n',].join('')`, "x=[`p`, `orn`].join(``)", `x=["rn","po"].reverse().join("")`, `x="nrop".split("").reverse().join("")`, `x=["a"];y=["po","rn"].join("")`,
		`x="p\u006frn"`, `x="p\u{6f}rn"`, `x="p\x6frn"`, `x="\160orn porn"`, `x="po\
rn"`,
		`x=String.fromCharCode(112,111,114,110)`, `x=String.fromCharCode(0x70, 0x6F, 0x72, 0x6e)`, `x="po"+String.fromCharCode(114)+"n"`, `x=String.fromCodePoint(...[112,111,114,110])`, `x=String.fromCharCode(112)+"orn"`, `x=String.fromCharCode(112)+String.fromCharCode(111,114,110)`,
		`x=atob("cG9ybg==")`, `x="po"+atob('cm4=')`, `x=unescape("%70%6f%72%6e")`, `x=decodeURIComponent("p%6Frn")`, `document.write('<p>po'+'rn</p>')`,
		`f("$5");x="po"+"rn"`, "x=`$5`;y='po'+'rn'", "x=`${{a:'b'}.a}`;y='porn'", "x={a:`${b}`,c:'po'+'rn'}",
	} {
		page := "<p>text<script>" + script + "</script>"
		var whole []byte
		for _, step := range []int{len(page), 1} {
			var b content.Body
			b.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{Scripts: true})
			for in := []byte(page); len(in) > 0; in = in[min(step, len(in)):] {
				b.Append(in[:min(step, len(in))])
				_, _ = b.Text()
			}
			b.Finish()
			got, err := b.Text()
			reading.CheckNormal(t, string(got))
			switch {
			case err != nil, !bytes.Contains(got, []byte(" porn ")):
				t.Errorf("%s in pieces of %d: the text is %q, %v", script, step, got, err)
			case whole == nil:
				whole = bytes.Clone(got)
			case !bytes.Equal(got, whole):
				t.Errorf("%s: the text is %q in one piece, %q byte by byte", script, whole, got)
			}
			b.Release()
		}
	}
}

// TestStringsOfScriptsStayApart: strings that are not joined stay separate words.
func TestStringsOfScriptsStayApart(t *testing.T) {
	for script, want := range map[string]string{
		`f("one","two")`: " one two ", `x="one";y="two"`: " one two ", `x="one"+y+"two"`: " one two ", `["one","two"].join(" ")`: " one two ", `x={"one":"two"}`: " one two ",
		"x=`one${y}two`": " one two ", `x="one"-"two"`: " one two ", `f(12,"one")`: " one ", `String.fromCharCode(x,"one")`: " one ", `"1/2"/"3"`: " 1 2 3 ",
		strings.Repeat("x", 100) + `+"one"`: " one ",
	} {
		var b content.Body
		b.Reset(content.Describe("text/javascript", ""), content.Limits{Scripts: true})
		b.Append([]byte(script))
		b.Finish()
		if got, err := b.Text(); string(got) != want || err != nil {
			t.Errorf("%s: the text is %q, %v, want %q", script, got, err, want)
		}
		b.Release()
	}
}
