package markup_test

import (
	"testing"

	"shuultuur/test/reading"
)

// TestStyleTextIsAddedWhereAnElementEndsWithoutATag: browsers show the text of ::after also
// if the end tag is missing.
func TestStyleTextIsAddedWhereAnElementEndsWithoutATag(t *testing.T) {
	for _, c := range []struct{ name, page, want string }{
		{"at the end", "<style>i::after{content:'rn'}</style><i>po", " po porn rn "},
		{"a paragraph before another", "<style>p::after{content:'rn'}</style><p>po<p>y", " rn po porn y yrn "},
		{"a paragraph before a block", "<style>p::after{content:'rn'}</style><p>po<div>y", " rn po porn y "},
		{"a paragraph with its end tag", "<style>p::after{content:'rn'}</style><p>po</p>y", " rn po porn y "},
		{"entries of a list", "<style>li::after{content:'rn'}</style><ul><li>po<li>b</ul> c", " rn po porn b brn c "},
		{"an entry around a list", "<style>li::after{content:'rn'}</style><ul><li>a<ul><li>po</ul> po<li>b</ul> c", " rn a po porn po porn b brn c "},
		{"an entry around a list without style", "<style>.k::after{content:'rn'}</style><ul><li class=k>a<ul><li>x<li>z</ul> po</ul> c", " rn a x z po porn c "},
		{"an entry with blocks in it", "<style>li::after{content:'rn'}</style><ul><li><div>x</div> po</li></ul>y", " rn x po porn y "},
		{"cells", "<style>td::after{content:'rn'}</style><table><tr><td>po<td>x<tr><td>y</table> z", " rn po porn x xrn y yrn z "},
		{"a cell around a table", "<style>.k::after{content:'rn'}</style><table><tr><td class=k>a<table><tr><td>x</table> po</table> z", " rn a x po porn z "},
		{"definitions", "<style>dt::after{content:'rn'}</style><dl><dt>po<dd>x<dt>y</dl> z", " rn po porn x y yrn z "},
		{"options", "<style>option::after{content:'rn'}</style><select><option>po<option>x<optgroup></select>z", " rn po porn x xrn z "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := reading.Text(t, "text/html; charset=utf-8", c.page); got != c.want {
				t.Errorf("Text of %q\n got %q\nwant %q", c.page, got, c.want)
			}
		})
	}
}
