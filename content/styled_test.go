package content

import (
	"bytes"
	"strings"
	"testing"
)

// styledWords are pages that show a word because of style.
func styledWords() (all []variant) {
	for _, page := range []string{
		// Elements that show nothing, within a word.
		"po<i hidden>zz</i>rn", "po<i hidden=''>zz</i>rn", "po<i hidden >z z</i>rn", "po<span style='display:none'>zz</span>rn", "po<span style=display:none>zz</span>rn",
		"po<span style='DISPLAY : None !important'>zz</span>rn", "po<span style='d\\69splay:none'>zz</span>rn", "po<span style='x:y;font-size:0'>zz</span>rn", "po<span style='font-size:0px'>zz</span>rn",
		"po<span style='font:0/0 a'>zz</span>rn", "po<span style='position:absolute;left:-999px'>zz</span>rn", "po<span style='display:inline-block;width:0;overflow:hidden'>zz</span>rn",
		"p<i hidden>x</i>o<i hidden>y</i>r<i hidden>z</i>n", "p<i hidden>x x</i>o<i hidden>y</i>r<i hidden>z z</i>n", "<i hidden>zz</i>porn", "porn<i hidden>zz</i>", "po<i hidden>a<b>b</b>c</i>rn",
		"po<i hidden>a<i>b</i>c</i>rn", "po<i hidden>z<p>z</i>rn", "po<div hidden>zz</div>rn", "po<div style='display:none'>z<div>z</div>z</div>rn", "po<br hidden>rn", "po<img hidden src=x>rn", "po<br style='display:none'>rn",
		"po<button hidden>x</button>rn", "po<x-y hidden>zz</x-y>rn", "<b class=v>po</b><i hidden>zz</i>rn", "p<b class=v>o</b><i hidden>zz</i>rn", "po<i hidden>zz</i>rn<i class=x>", "po<i hidden>zz</i>&#114;n", "p&#111;<i hidden>zz</i>rn",
		// The meaning of a class may be elsewhere.
		"po<span class=h>zz</span>rn", "po<span id=h>zz</span>rn", "<link rel=stylesheet href=x>p<b class=a>zz</b>o<b class=a>y</b>rn",
		"<style>.h{display:none}</style><i class=h>zz</i>porn", "<style>b{display:none}</style>po<b>zz</b>rn", "<style>p b{display:none}</style><p>po<b>zz</b>rn", "<style>b,u{color:red}b{display:none}</style>po<b>zz</b>rn",
		"<style>@media all{b{display:none}}</style>po<b>zz</b>rn", "<style>/*}*/b{/*x*/display:none}</style>po<b>zz</b>rn", "<style>a{content:'}'}b{display:none}</style>po<b>zz</b>rn", "<style>b{content:\"'\";display:none}</style>po<b>zz</b>rn",
		"<style>[x]{display:none}</style>po<b x>zz</b>rn", "<style>p>:nth-child(2){display:none}</style><p>p<b></b>o<b>zz</b>rn", "<style>b{display:none</style>po<b>zz</b>rn", "<style>sub{display:none}</style>po<sub>zz</sub>rn", "<style>.h{display:none}</style>po<a class='g h'>zz</a>rn",
		"<style>x-y{display:none}</style>po<x-y>zz</x-y>rn", "<link rel=stylesheet href='data:text/css,b{display:none}'>po<b>zz</b>rn", "<style>p{b{display:none}}</style><p>po<b>zz</b>rn", "<svg><style>b{display:none}</style></svg>po<b>zz</b>rn",
		"<style>.h{background:url(data:image/png;base64," + strings.Repeat("A", 40_000) + ");display:none}</style><i class=h>zz</i>porn",
		// Blocks that begin no line.
		"<div style='display:inline'>po</div><div style='display:inline'>rn</div>", "<style>div{display:inline}</style><div>po</div><div>rn</div>", "<style>.a{float:left}</style><div class=a>p</div><div class=a>o</div><div class=a>r</div><div class=a>n</div>",
		"po<div style='display:inline-block'>r</div>n", "po<p style='display:contents'>rn</p>", "<style>li{display:inline-block}</style><ul><li>p</li><li>o</li><li>r</li><li>n</li></ul>",
		// Text that a sheet adds.
		"<style>p::before{content:'po'}</style><p>rn</p>", "<style>.a:after{content:\"rn\"}</style>x <b class=a>po</b>", "<style>b::before{content:'o'}b::after{content:'n'}</style>p<b>r</b>", "<style>*::before{content:'po'}</style><p>rn", "<style>b::before{content:'p' 'o'}</style><b>rn</b>", "<style>b::after{content:'\\6f\\72'}</style><b>p</b>n",
		"<style>i::before{content:'o'}</style>p<i></i>rn",
		// Of attributes, custom properties, counters and quotes.
		"<style>p{--a:'po';--b:'rn'}p::after{content:var(--a) var(--b)}</style><p>x", "<style>p::after{content:attr(a) attr(b)}</style><p a=po b=rn>x", "<style>p::after{content:attr(a) 'rn'}</style><p a=po>x", "<style>p::after{content:'po' attr(b)}</style><p b=rn>x",
		"<style>p::before{content:attr(a)}</style><p a=po>rn", "<style>.x::before{content:attr(a,'po')}</style><p><b class=x>rn</b>", "<style>p::before{content:attr(TITLE)}</style><p title=po>rn", "<style>i::before{content:attr(c)}</style><i c=p></i><i c=o></i><i c=r></i><i c=n></i>",
		"<style>p::after{content:'po' var(--b)}</style><p style=\"--b:'rn'\">x", "<style>i::before{content:var(--c)}</style><i style=\"--c:'p'\"></i><i style=\"--c:'o'\"></i><i style=\"--c:'r'\"></i><i style=\"--c:'n'\"></i>",
		"<style>:root{--a:'po';--b:var(--a)'rn'}p::after{content:var(--b)}</style><p>x", "<style>p::after{content:var(--none,'po') 'rn'}</style><p>x", "<style>.a{--w:'po'}.b{--w:'zz'}b::before{content:var(--w)}</style><b class=a>rn</b>",
		"<style>@counter-style a{system:cyclic;symbols:'po';suffix:'rn'}li{list-style:a}</style><ul><li>x</ul>", "<style>@counter-style a{system:cyclic;symbols:'po';suffix:''}li{list-style:a inside}</style><ul><li>rn</ul>", "<style>@counter-style a{symbols:porn}li{list-style:a}</style><ul><li>x</ul>",
		"<style>@counter-style a{system:fixed;symbols:p o r n;suffix:''}i::before{counter-increment:c;content:counter(c,a)}</style><i></i><i></i><i></i><i></i>", "<style>@counter-style x{system:additive;additive-symbols:2 'zz', 1 porn}li{list-style:x}</style><ol><li>x</ol>",
		"<style>@counter-style x{system:cyclic;symbols:\\70\\6f\\72\\6e}li{list-style:x}</style><ol><li>x</ol>", "<style>li{list-style:inside 'po'}</style><ul><li>rn</ul>", "<ul><li style=\"list-style:'po' inside\">rn</ul>", "<style>q{quotes:'po' ''}</style><q>rn</q>", "<style>q{quotes:'' 'rn'}</style><q>po</q>",
		// Of several values for one name.
		"<style>p b::before{content:'po'}p i b::before{content:'x'}</style><p><b>rn</b>", "<style>b::before{content:'po' !important}b::before{content:'x'}</style><b>rn</b>", "<style>b::before{content:'po';content:'x' foo}</style><b>rn</b>", "<style>b:last-child::before{content:'po'}b:first-child::before{content:'x'}</style><p><b>y</b> <b>rn</b>",
		"<style>b::after{content:'rn'}i b::after{content:'x'}</style><b>po</b>", "<style>.a::before{content:'po'}.b::before{content:'x'}</style><b class='a b'>rn</b>", "<style>b::before{content:'a'}b::before{content:'po'}b::before{content:'c'}b::before{content:'d'}</style><b>rn</b>",
		"<style>b:nth-child(1)::before{content:'p'}b:nth-child(2)::before{content:'o'}b:nth-child(3)::before{content:'r'}b:nth-child(4)::before{content:'n'}</style><p><b></b><b></b><b></b><b></b>", "<style>b::before{content:'p'}b+b::before{content:'o'}b+b+b::before{content:'r'}b+b+b+b::before{content:'n'}</style><p><b></b><b></b><b></b><b></b>",
		// Of custom functions, and to blocks that a later sheet sets side by side.
		"<style>@function --f(--x){result:'po' var(--x)}p::after{content:--f('rn')}</style><p>x", "<style>@function --f(--x type(*), --y: 'n'){result: var(--x) 'r' var(--y)} @function --g(){result:--f('po')}p::after{content:--g()}</style><p>x",
		"<style>@function --F(--x){--y:'r';result:attr(a) var(--x)}p::after{content:--F('rn')}</style><p a=po>x", "<style>@function --f(--x,--y){result:var(--y) var(--x)}p::before{content:--f('o','p')}</style><p>rn",
		"<style>.p::before{content:'p'}.o::before{content:'o'}.r::before{content:'r'}.n::before{content:'n'}</style><div class=p></div><div class=o></div><style>div{display:inline}</style><div class=r></div><div class=n></div>",
		"<style>.p::after{content:'p'}.o::before{content:'o'}.r::after{content:'r'}.n::before{content:'n'}</style><div class=p></div><div class=o></div><div class=r></div><div class=n></div>",
		"<style>@function --f(--x){--y:'r';result:'po' var(--y) var(--x)}p::after{content:--f('n')}</style><p>x", "<style>@function --f(--x){@media all{result:'po' var(--x)}}p::after{content:--f('rn')}</style><p>x",
		"<style>@function --f(){result:'po'}p{--v:--f()}p::after{content:var(--v) 'rn'}</style><p>x", "<style>@property --a{syntax:'*';inherits:false;initial-value:'po'}p::after{content:var(--a) 'rn'}</style><p>x",
		"<style>p::after{content:if(style(--x:1): 'zz'; else: 'po') 'rn'}</style><p>x", "<style>p::after{content:if(style(--x:1): 'po'; else: 'zz') 'rn';color:red}</style><p>x",
		// Slots.
		"<div>rn<template shadowrootmode=open>po<slot></slot></template></div>", "<div><b>rn</b><br><template shadowrootmode=open>po<slot></slot></template></div>", "<span><template shadowrootmode=open>p<slot></slot>n</template><template>z</template>o<!-- -->r</span>",
		"<span><template shadowrootmode=open><slot name=a></slot><i hidden>zz</i><slot name='b'></slot></template><b slot='b' hidden>zz</b><b slot='b'>rn</b><b slot=&#97;>po</b></span>",
		"<div><template shadowrootmode=open><slot></slot>rn</template>po</div>", "<div><template shadowrootmode=open>p<slot></slot>n</template>or</div>", "<div><template shadowrootmode=open><b>po</b><slot></slot></template><i>rn</i></div>",
		"<div><template shadowrootmode=open><slot name=a></slot><slot name=b></slot></template><b slot=b>rn</b><b slot=a>po</b></div>", "<div><template shadowrootmode=closed>p<slot name=a>or</slot>n</template>x</div>",
		"<x-y><template shadowrootmode=open><slot name=a></slot>r<slot></slot></template><i slot=z>z</i><i slot=a>p<i>o</i></i>n</x-y>", "<div><template shadowrootmode=open>po<u><template shadowrootmode=open><slot></slot>n</template><slot></slot></u></template>r</div>",
		"<div><template shadowrootmode=open><u><template shadowrootmode=open><slot name=k></slot>n</template><slot name=j slot=k></slot>z</u></template><i slot=j>por</i></div>", "<div><template shadowrootmode=open><slot></slot>rn</template>" + strings.Repeat("x ", 40_000) + "po</div>",
		"<div><template shadowrootmode=open>po<slot></slot></template>rn " + strings.Repeat("x ", 40_000) + "po</div>",
		// Cells without a gap.
		"<table cellpadding=0 cellspacing=0><tr><td>po<td>rn</table>", "<table cellspacing='0' cellpadding='0px'><tr><td>p</td><td>o</td><td>r</td><th>n</th></tr></table>", "<table cellpadding=0 cellspacing=0><tr><td><table><tr><td>x<td>y</table><td>po<td>rn</table>",
		"<div style='display:table-cell'>po</div><div style='display:table-cell'>rn</div>",
		// Blocks side by side.
		"<div style='display:flex'><p>po</p><p>rn</p></div>", "<div style='display:grid;grid-template-columns:1em 1em'><div>po</div><div>rn</div></div>", "<style>.f{display:flex}</style><section class=f><div>p</div><div>o</div><div>r</div><div>n</div></section>", "<ul style='display:inline-flex'><li style='display:block'>po<li style='display:block'>rn</ul>",
		// Text that is turned.
		"<p><span style='unicode-bidi:bidi-override;direction:rtl'>nrop</span>", "<style>.r{direction:rtl;unicode-bidi:bidi-override}</style><p><span class=r>nrop</span>", "<style>p{unicode-bidi:isolate-override;direction:rtl}</style><p>n<b>ro</b>p", "<div style='unicode-bidi:bidi-override;direction:rtl'>xx<br>nrop</div>",
		"<div style='direction:rtl;display:inline-block'><b style='display:inline-block'>n</b><b style='display:inline-block'>r</b><b style='display:inline-block'>o</b><b style='display:inline-block'>p</b></div>", "<span style='direction:rtl'><b>n</b><b>r</b><b>o</b><b>p</b></span>", "<bdo dir=rtl>x<br>nrop</bdo>",
	} {
		all = append(all, variant{page, "text/html; charset=utf-8", page})
	}
	return all
}

// TestWordsMadeByStyleAreRead: a word that style makes is read, in one piece and byte by byte.
func TestWordsMadeByStyleAreRead(t *testing.T) {
	for _, c := range styledWords() {
		var whole []byte
		for _, step := range []int{len(c.in), 1} {
			var b Body
			b.Reset(Describe(c.typ, ""), Limits{})
			for in := []byte(c.in); len(in) > 0; in = in[step:] {
				step = min(step, len(in))
				b.Append(in[:step])
				_, _ = b.Text()
			}
			b.Finish()
			got, err := b.Text()
			checkNormal(t, string(got))
			switch {
			case err != nil, !bytes.Contains(got, []byte(" porn ")):
				t.Errorf("%s in pieces of %d: the text is %q, %v", c.name, step, got, err)
			case whole == nil:
				whole = bytes.Clone(got)
			case !bytes.Equal(got, whole):
				t.Errorf("%s: the text is %q in one piece, %q byte by byte", c.name, whole, got)
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
		want  Reason
		words bool
	}{
		"at its end":       {".h{" + strings.Repeat("color:red;", 5_000) + "display:inline}", AllRead, true},
		"at its beginning": {".h{display:inline;" + strings.Repeat("color:red;", 5_000) + "}", AllRead, true},
		"in the middle":    {".h{" + strings.Repeat("color:red;", 1_637) + "display:inline;" + strings.Repeat("color:red;", 5_000) + "}", AllRead, true},
		"in a picture":     {".h{background:url(data:image/png;base64," + strings.Repeat("A", 40_000) + ")}", AllRead, false},
		"long selectors":   {strings.Repeat(".x,", 10_000) + ".h{display:inline}", TooLarge, true},
		"long text":        {".h::before{content:'" + strings.Repeat("words ", 5_000) + "'}", TooLarge, false},
	} {
		var b Body
		b.Reset(Describe("text/html; charset=utf-8", ""), Limits{})
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
		var b Body
		b.Reset(Describe("text/html; charset=utf-8", ""), Limits{})
		b.Append([]byte(page))
		b.Finish()
		if got, _ := b.Text(); string(got) != want {
			t.Errorf("the text of %s is %q, want %q", page, got, want)
		}
		b.Release()
	}
}
