package markup_test

import (
	"bytes"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
)

// TestWordsMadeByStyleAreRead: a word that style makes is read, in one piece and byte by byte.
func TestWordsMadeByStyleAreRead(t *testing.T) {
	for _, page := range reading.StyledWords() {
		var whole []byte
		for _, step := range []int{len(page), 1} {
			var b content.Body
			b.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{})
			for in := []byte(page); len(in) > 0; in = in[step:] {
				step = min(step, len(in))
				b.Append(in[:step])
				_, _ = b.Text()
			}
			b.Finish()
			got, err := b.Text()
			reading.CheckNormal(t, string(got))
			switch {
			case err != nil, !bytes.Contains(got, []byte(" porn ")):
				t.Errorf("%s in pieces of %d: the text is %q, %v", page, step, got, err)
			case whole == nil:
				whole = bytes.Clone(got)
			case !bytes.Equal(got, whole):
				t.Errorf("%s: the text is %q in one piece, %q byte by byte", page, whole, got)
			}
			b.Release()
		}
	}
}

// TestLongRulesOfStyleHaveTheirEffect: a long rule has its effect at any position in it;
// otherwise it is reported.
func TestLongRulesOfStyleHaveTheirEffect(t *testing.T) {
	for name, c := range map[string]struct {
		sheet string
		want  content.Reason
		words bool
	}{
		"at its end":        {".h{" + strings.Repeat("color:red;", 5_000) + "display:inline}", content.AllRead, true},
		"at its beginning":  {".h{display:inline;" + strings.Repeat("color:red;", 5_000) + "}", content.AllRead, true},
		"in the middle":     {".h{" + strings.Repeat("color:red;", 1_637) + "display:inline;" + strings.Repeat("color:red;", 5_000) + "}", content.AllRead, true},
		"in a picture":      {".h{background:url(data:image/png;base64," + strings.Repeat("A", 40_000) + ")}", content.AllRead, false},
		"long selectors":    {strings.Repeat(".x,", 10_000) + ".h{display:inline}", content.AllRead, true},
		"long text":         {".h::before{content:'" + strings.Repeat("words ", 5_000) + "'}", content.AllRead, false},
		"longest selectors": {strings.Repeat(".x,", 200_000) + ".h{display:inline}", content.Intricate, true},
		"of no effect":      {strings.Repeat(".x,", 200_000) + ".h{color:red}", content.AllRead, false},
	} {
		var b content.Body
		b.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{})
		b.Append([]byte("<style>" + c.sheet + "</style><div class=h>po</div><div class=h>rn</div> "))
		b.Finish()
		text, _ := b.Text()
		if got := bytes.Contains(text, []byte(" porn ")); got != c.words || b.Unread() != c.want {
			t.Errorf("%s: word found: %v, want %v; unread %v, want %v", name, got, c.words, b.Unread(), c.want)
		}
		b.Release()
	}
}

// TestStyleAddsNoWordsToPlainPages: text that nothing hides is written once.
func TestStyleAddsNoWordsToPlainPages(t *testing.T) {
	for page, want := range map[string]string{
		"<p>H<sub class=x>2</sub>O":                                           " h2o ",
		"<p>word<sup class=ref><a href=#>[1]</a></sup> next":                  " word 1 next ",
		"<p><span class=drop>B</span>ass":                                     " bass ",
		"<p class=a>one <b class=b>two</b> three":                             " one two three ",
		"<div style='color:red'>one</div><div>two</div>":                      " one two ",
		"<style>.n{display:none}</style><p class=n>one</p><p>two":             " one two ",
		"<style>li{display:inline}</style><ul><li>one</li> <li>two</li></ul>": " one two ",
		"<style>a::before{content:'\\f101'}</style><a>one</a> <a>two</a>":     " one two ",
		"<p>one<i hidden> x </i>two":                                          " one x two onetwo ",
		"<div style='position:absolute'>one</div><p>two":                      " one two ",
		"<p dir=rtl style='direction:rtl'>one":                                " one ",
	} {
		var b content.Body
		b.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{})
		b.Append([]byte(page))
		b.Finish()
		if got, _ := b.Text(); string(got) != want {
			t.Errorf("the text of %s is %q, want %q", page, got, want)
		}
		b.Release()
	}
}
