package test

import "fmt"

// styleCases returns pages in which style sheets create a word, hide a part of it, or reverse
// it.
func styleCases() (all []renderCase) {
	for _, page := range []string{
		// Elements that show nothing, within a word.
		"po<i hidden>zz</i>rn", "po<i hidden=''>zz</i>rn", "po<i hidden >z z</i>rn", "po<span style='display:none'>zz</span>rn", "po<span style=display:none>zz</span>rn",
		"po<span style='DISPLAY : None !important'>zz</span>rn", "po<span style='d\\69splay:none'>zz</span>rn", "po<span style='x:y;font-size:0'>zz</span>rn", "po<span style='font-size:0px'>zz</span>rn",
		"po<span style='font:0/0 a'>zz</span>rn", "po<span style='position:absolute;left:-999px'>zz</span>rn", "po<span style='display:inline-block;width:0;overflow:hidden'>zz</span>rn",
		"p<i hidden>x</i>o<i hidden>y</i>r<i hidden>z</i>n", "p<i hidden>x x</i>o<i hidden>y</i>r<i hidden>z z</i>n", "<i hidden>zz</i>porn", "porn<i hidden>zz</i>", "po<i hidden>a<b>b</b>c</i>rn",
		"po<i hidden>a<i>b</i>c</i>rn", "po<i hidden>z<p>z</i>rn", "po<div hidden>zz</div>rn", "po<div style='display:none'>z<div>z</div>z</div>rn", "po<br hidden>rn", "po<img hidden src=x>rn", "po<br style='display:none'>rn",
		"po<button hidden>x</button>rn", "po<x-y hidden>zz</x-y>rn", "<b class=v>po</b><i hidden>zz</i>rn", "p<b class=v>o</b><i hidden>zz</i>rn", "po<i hidden>zz</i>rn<i class=x>", "po<i hidden>zz</i>&#114;n", "p&#111;<i hidden>zz</i>rn",
		// The meaning of a class may be defined elsewhere.
		"po<span class=h>zz</span>rn", "po<span id=h>zz</span>rn", "<link rel=stylesheet href=x>p<b class=a>zz</b>o<b class=a>y</b>rn",
		"<style>.h{display:none}</style><i class=h>zz</i>porn", "<style>b{display:none}</style>po<b>zz</b>rn", "<style>p b{display:none}</style><p>po<b>zz</b>rn", "<style>b,u{color:red}b{display:none}</style>po<b>zz</b>rn",
		"<style>@media all{b{display:none}}</style>po<b>zz</b>rn", "<style>/*}*/b{/*x*/display:none}</style>po<b>zz</b>rn", "<style>a{content:'}'}b{display:none}</style>po<b>zz</b>rn", "<style>b{content:\"'\";display:none}</style>po<b>zz</b>rn",
		"<style>[x]{display:none}</style>po<b x>zz</b>rn", "<style>p>:nth-child(2){display:none}</style><p>p<b></b>o<b>zz</b>rn", "<style>b{display:none</style>po<b>zz</b>rn", "<style>sub{display:none}</style>po<sub>zz</sub>rn", "<style>.h{display:none}</style>po<a class='g h'>zz</a>rn",
		"<style>x-y{display:none}</style>po<x-y>zz</x-y>rn", "<link rel=stylesheet href='data:text/css,b{display:none}'>po<b>zz</b>rn", "<style>p{b{display:none}}</style><p>po<b>zz</b>rn", "<svg><style>b{display:none}</style></svg>po<b>zz</b>rn",
		// Blocks that do not begin a new line.
		"<div style='display:inline'>po</div><div style='display:inline'>rn</div>", "<style>div{display:inline}</style><div>po</div><div>rn</div>", "<style>.a{float:left}</style><div class=a>p</div><div class=a>o</div><div class=a>r</div><div class=a>n</div>",
		"po<div style='display:inline-block'>r</div>n", "po<p style='display:contents'>rn</p>", "<style>li{display:inline-block}</style><ul><li>p</li><li>o</li><li>r</li><li>n</li></ul>",
		// Text that a style sheet adds.
		"<style>p::before{content:'po'}</style><p>rn</p>", "<style>.a:after{content:\"rn\"}</style>x <b class=a>po</b>", "<style>b::before{content:'o'}b::after{content:'n'}</style>p<b>r</b>", "<style>*::before{content:'po'}</style><p>rn", "<style>b::before{content:'p' 'o'}</style><b>rn</b>", "<style>b::after{content:'\\6f\\72'}</style><b>p</b>n",
		"<style>i::before{content:'o'}</style>p<i></i>rn",
		// Text that functions and registered properties of a style sheet give.
		"<style>@function --f(--x){--y:'r';result:'po' var(--y) var(--x)}p::after{content:--f('n')}</style><p>x", "<style>@function --f(--x){@media all{result:'po' var(--x)}}p::after{content:--f('rn')}</style><p>x", "<style>@function --f(--x <string>: 'rn') returns <string>{result:'po' var(--x)}p::after{content:--f()}</style><p>x",
		"<style>@property --a{syntax:'*';inherits:false;initial-value:'po'}p::after{content:var(--a) 'rn'}</style><p>x", "<style>p::after{content:if(style(--x:1): 'zz'; else: 'po') 'rn'}</style><p>x",
		// Slots.
		"<div><template shadowrootmode=closed>p<slot name=a>or</slot>n</template>x</div>", "<x-y><template shadowrootmode=open><slot name=a></slot>r<slot></slot></template><i slot=z>z</i><i slot=a>p<i>o</i></i>n</x-y>", "<div><b>rn</b><template shadowrootmode=open>po<slot></slot></template></div>",
		"<div><template shadowrootmode=open>po<b><template shadowrootmode=open><slot></slot>n</template><slot></slot></b></template>r</div>", "<div><template shadowrootmode=open><p><template shadowrootmode=open><slot name=k></slot>n</template><slot name=j slot=k></slot>z</p></template><i slot=j>por</i></div>",
		"<span><template shadowrootmode=open><slot name=a></slot><slot name='b'></slot></template><b slot='b' hidden>zz</b><b slot='b'>rn</b><b slot=&#97;>po</b></span>", "<span><template shadowrootmode=open>p<slot></slot>n</template><template>z</template>o<!-- -->r</span>",
		// Cells without a gap.
		"<table cellspacing='0' cellpadding='0px'><tr><td>p</td><td>o</td><td>r</td><th>n</th></tr></table>", "<div style='display:table-cell'>po</div><div style='display:table-cell'>rn</div>",
		// Text whose direction changes.
		"<p><span style='unicode-bidi:bidi-override;direction:rtl'>nrop</span>", "<style>.r{direction:rtl;unicode-bidi:bidi-override}</style><p><span class=r>nrop</span>", "<style>p{unicode-bidi:isolate-override;direction:rtl}</style><p>n<b>ro</b>p", "<div style='unicode-bidi:bidi-override;direction:rtl'>xx<br>nrop</div>",
		"<div style='direction:rtl;display:inline-block'><b style='display:inline-block'>n</b><b style='display:inline-block'>r</b><b style='display:inline-block'>o</b><b style='display:inline-block'>p</b></div>", "<span style='direction:rtl'><b>n</b><b>r</b><b>o</b><b>p</b></span>", "<bdo dir=rtl>x<br>nrop</bdo>",
	} {
		all = append(all, renderCase{name: fmt.Sprintf("html %q", page), head: htmlHead, body: []byte("<!doctype html>" + page), word: "porn"})
	}
	return all
}
