package content

import (
	"strings"
	"testing"
)

// textOf returns the text of a complete body in one piece.
func textOf(t *testing.T, contentType, body string) string {
	t.Helper()
	var b Body
	b.Reset(Describe(contentType, ""), Limits{})
	defer b.Release()
	b.Append([]byte(body))
	b.Finish()
	got, err := b.Text()
	if err != nil {
		t.Errorf("reading the text of %q: %v", body, err)
	}
	return string(got)
}

var textCases = []struct{ name, in, want string }{
	{"nothing", "", " "},
	{"words", "Hello, World!", " hello world "},
	{"inline tags do not part", "s<b></b>ex <i>a</i>b", " sex ab "},
	{"block tags part", "one<p>two<br>three<div>four</div>five", " one two three four five fourfive "},
	{"unknown tags do not part", "s<x-y>e</x-y>x", " sex "},
	{"pictures part, and may be nothing", "a<img>b", " a b ab "},
	{"pictures between words", "a <img>b<img> c<p>d<img><p>e", " a b c d e "},
	{"pictures one after another", "a<img><img>b<img>c", " a b ab c abc "},
	{"objects and drawings without content", "a<object></object>b<svg></svg>c", " a b ab c abc "},
	{"buttons with content part", "a<button>b</button>c", " a b ab c abc "},
	{"what is shown when asked for", "a<i popover>x</i>b", " axb ab "},
	{"script and style are skipped", "a<script>if (x<y) alert('</p>')</script>b<style>p{}</style>c", " abc "},
	{"script end tag in other case", "<script>x</SCRIPT >y", " y "},
	{"script with false end", "<script>'</scripty>'</script>y", " y "},
	{"script escaped", "<script><!-- x </script>y", " y "},
	{"script double escaped", "<script><!--<script></script>no--></script>yes", " yes "},
	{"script escape ends", "<script><!--<script>--></script>yes", " yes "},
	{"script escape at once", "<script><!--><script></script>yes", " yes "},
	{"noscript is shown elsewhere", "a<noscript><p>b</noscript>c", " ac b "},
	{"title", "<title>A &lt;b> <i>c</title>d", " a b i c d "},
	{"title with false end", "<title>a</titl>b</title>c", " a titl b c "},
	{"textarea", "<textarea><b>a</textarea>b", " b a b "},
	{"xmp", "<xmp><b>&amp;</xmp>c", " b amp c "},
	{"plaintext", "a<plaintext><b>c</plaintext>", " a b c plaintext "},
	{"comment", "a<!-- > b -- > -->c", " ac "},
	{"comment empty", "a<!-->b", " ab "},
	{"comment empty, a dash more", "a<!--->b", " ab "},
	{"comment ended by --!>", "a<!-- x --!>b", " ab "},
	{"comment not ended by its own dashes and !", "a<!--!>b-->c", " ac "},
	{"comment not ended by one dash and !", "a<!---!>b-->c", " ac "},
	{"comment not closed", "a<!-- b", " a "},
	{"bogus comments", "a<?b>c</3>d<!e>f</>g<!doctype html>", " acdfg "},
	{"less-than as text", "a<3 b< c", " a 3 b c "},
	{"less-than at the end", "a<", " a "},
	{"tag not closed", "a<b title='c", " a "},
	{"attributes shown", `<img alt="A b" title='c&amp;d'><input placeholder=e><p aria-label="f">g`, " a b c d e f g "},
	{"title attribute does not part a phrase", `s<b title="no">ex</b> <i>y</i><p>z`, " sex y no z "},
	{"greater-than within value", `<a href="a>b" title="c>d">e</a>`, " e c d "},
	{"quote in attribute name", `<a "b'>c`, " c "},
	{"value without quotes", `<a x=y/z title=b>c`, " c b "},
	{"space round =", `<a title = "b" x = c>d`, " d b "},
	{"end tag's attributes do not count", `a</b title="c">d`, " ad "},
	{"meta description", `<meta name=description content="A b"><meta content="c" property="og:title">`, " a b c "},
	{"other meta", `<meta name=viewport content="width"><meta charset=utf-8>x`, " x "},
	{"meta in front of the name", `<meta content="no" title=t name=viewport>x`, " x t "},
	{"buttons", `<input type=submit value=Go><input value=no type=hidden>`, " go "},
	{"entities", "caf&eacute; &#115;&#x65;&#X78; &amp;&nbsp;x &Eacute; &ccaron;", " café sex x é č "},
	{"entities without semicolon", "caf&eacute &#115&#101x &notit; &copy2", " café sex it 2 "},
	{"entity in value", `<p title="a&copy=b &eacute;&eacutex &eacute">`, " a copy b é eacutex é "},
	{"entity unknown", "&hello; &", " hello "},
	{"entity of windows-1252", "&#138;x &#150;", " šx "},
	{"entity out of range", "a&#x110000;b&#0;c&#xD800;d", " a b c d "},
	{"entity cut by a tag", "a&eacute<b>b", " aéb "},
	{"soft hyphen and zero width", "s\u00ade\u200bx s&shy;e&zwnj;x \ufeffa\u2060b", " sex sex ab "},
	{"nul is dropped", "s\x00ex", " sex "},
	{"fold", "ÄÖÜ ПРИВЕТ ΣΊΣΥΦΟΣ ſ ẞ K", " äöü привет σισυφοσ s ss k "},
	{"dotted and dotless i", "İ ı", " i i "},
	{"full width", "ＳＥＸ ４２", " sex 42 "},
	{"letters of mathematics, circled, boxed", "𝓼𝓮𝔁 ⓈⒺⓧ 🅂🄴🅇", " sex sex sex "},
	{"composed", "cafe\u0301 E\u0301a", " café éa "},
	{"struck through", "s\u0336e\u0336x\u0336", " sex "},
	{"emoji part words", "a😀b❤\ufe0fc", " a b c "},
	{"cjk", "東京、大阪", " 東京 大阪 "},
	{"mongolian cyrillic", "ӨНӨӨДӨР Үүл", " өнөөдөр үүл "},
	{"svg title and style", "<svg><title>a<b>c</b></title><style>.x{}</style><text>d</text></svg>e", " ac d e de "},
	{"svg style hides nothing after a tag", "<svg><style>no<p>bad</svg>", " bad "},
	{"cdata in svg", "<svg><![CDATA[a<b]]></svg>c", " a b c bc "},
	{"cdata in html is a comment", "<![CDATA[a>b]]>", " b "},
	{"template is read", "<template><p>a</template>", " a "},
}

func TestTextIsWhatABrowserShows(t *testing.T) {
	for _, c := range textCases {
		t.Run(c.name, func(t *testing.T) {
			if got := textOf(t, "text/html; charset=utf-8", c.in); got != c.want {
				t.Errorf("Text of %q\n got %q\nwant %q", c.in, got, c.want)
			}
		})
	}
}

func TestTextDoesNotDependOnThePieces(t *testing.T) {
	for _, c := range textCases {
		for _, size := range []int{1, 2, 3, 5} {
			var b Body
			b.Reset(Describe("text/html; charset=utf-8", ""), Limits{})
			var before string
			for rest := c.in; rest != ""; {
				n := min(size, len(rest))
				b.Append([]byte(rest[:n]))
				rest = rest[n:]
				got, _ := b.Text()
				if !strings.HasPrefix(string(got), before) {
					t.Errorf("%s: the text %q became %q with more of the body", c.name, before, got)
				}
				before = string(got)
				b.Forget()
			}
			b.Finish()
			if got, _ := b.Text(); string(got) != c.want {
				t.Errorf("%s, %d bytes at a time: the text is %q, want %q", c.name, size, got, c.want)
			}
			b.Release()
		}
	}
}
