package content_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"shuultuur/test/race"

	"shuultuur/content"
)

// each joins n texts made by a format with a number.
func each(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "#N", fmt.Sprint(i)))
	}
	return b.String()
}

// TestAPageIsNotUnreadBecauseItIsLarge: pages with ten times as much of something as ordinary ones
// are read to their end.
func TestAPageIsNotUnreadBecauseItIsLarge(t *testing.T) {
	race.Without(t)
	picture := base64.StdEncoding.EncodeToString([]byte(each(150_000, "<path d='M#N'/>")))
	long := strings.Repeat("lorem ipsum {dolor} sit; ", 1000)
	for name, page := range map[string]string{
		"a comment between rules":           "<style>a{color:red}/*" + strings.Repeat(long, 40) + "*/b{color:red}</style>",
		"a comment in a rule":               "<style>a{color:red;/*" + strings.Repeat(long, 40) + "*/top:0}b{color:red}</style>",
		"a comment before an effect":        "<style>a{color:red}/*" + long + "*/.x{display:none}</style>",
		"a comment in selectors":            "<style>.a,/*" + long + "*/.b{display:none}</style>",
		"a source map":                      "<style>.x{display:none}/*# sourceMappingURL=data:application/json;base64," + picture + " */</style>",
		"selectors without an effect":       "<style>" + each(20_000, ".class-#N,") + "z{color:red}</style>",
		"selectors with an effect":          "<style>" + each(8_000, ".class-#N,") + "z{display:none}</style>",
		"hidden classes":                    "<style>" + each(42_000, ".h#N{display:none}") + "</style>",
		"classes that float":                "<style>" + each(42_000, ".f#N{float:left}") + "</style>",
		"icons":                             "<style>" + each(12_000, `.i#N:before{content:"\f1#N"}`) + "</style>",
		"texts":                             "<style>" + each(12_000, `.i#N:before{content:"word#N"}`) + "</style>",
		"texts of one class":                "<style>" + each(200, `.l#N .x:before{content:"word#N"}`) + "</style><p class=x>y",
		"properties":                        "<style>:root{" + each(30_000, `--p#N:"x#N";`) + "}</style>",
		"properties of others":              "<style>:root{" + each(30_000, `--p#N:var(--q#N);`) + "}</style>",
		"a picture":                         "<style>a{background:url(data:image/png;base64," + picture + ")}</style>",
		"a picture in quotes":               `<style>a{background:url("data:image/webp;base64,` + picture + `")}</style>`,
		"a picture as content":              `<style>a:before{content:url("data:image/png;base64,` + picture + `")}</style>`,
		"a picture as a property":           `<style>:root{--icon:url("data:image/png;base64,` + picture + `")}</style>`,
		"a picture as a mark":               `<style>li{list-style:url(data:image/png;base64,` + picture + `) none}</style>`,
		"a font":                            `<style>@font-face{font-family:x;src:url(data:font/woff2;base64,` + picture + `)}</style>`,
		"a rule with many declarations":     "<style>a{" + each(20_000, "--c#N:#fff;") + "}</style>",
		"a rule with effects and selectors": "<style>" + each(1_000, ".class-#N,") + "z{" + each(5_000, "font-size:#Npx;") + "}</style>",
		"nested rules":                      "<style>@media screen{" + each(5_000, ".a#N{&:hover{color:red}display:none}") + "}</style>",
		"cells with labels":                 `<style>td:before{content:attr(data-label)}</style><table>` + each(50_000, "<tr><td data-label=Name>#N") + "</table>",
		"items with marks":                  `<style>li:before{content:counter(x,m) ". "}@counter-style m{symbols:"a" "b" "c"}</style><ul>` + each(50_000, "<li>#N") + "</ul>",
		"shown attributes":                  "<style>" + each(40, ".a#N:before{content:attr(data-a#N)}") + "</style>",
		"nested elements":                   "<style>div{display:none}</style>" + strings.Repeat("<div>", 5000) + "x" + strings.Repeat("</div>", 5000),
		"data":                              `<script type="application/json">{"a":[` + each(200_000, `"some text #N",`) + `""]}</script>`,
		"shadow roots":                      each(3_000, "<x-y><template shadowrootmode=open><p>#N <slot></slot> <slot name=a></slot></template>text <b slot=a>#N</b></x-y>"),
		"a shadow root with much":           "<x-y><template shadowrootmode=open>" + each(3_000, "<p>#N <slot name=s#N></slot>") + "</template>" + each(3_000, "<b slot=s#N>#N</b>") + "</x-y>",
		"a picture in the page":             "<img src='data:image/png;base64," + picture + "'>",
		"a page without scripts":            "<noscript>" + each(40_000, "<p>word #N</p>") + "</noscript>",
		"a drawing":                         "<svg><style>" + each(40_000, ".s#N{fill:#ff0000;stroke:none}") + "</style></svg>",
		"style attributes":                  each(50_000, "<p style='display:none;content:\"x\"'>#N"),
		"links with much":                   each(50_000, "<a href='javascript:void(0)' title='word #N'>#N</a>"),
		"entities":                          each(200_000, "&amp;&#6#N;"),
	} {
		for _, pieces := range []bool{false, true} {
			var b content.Body
			b.Reset(content.Describe("text/html", ""), content.Limits{})
			if pieces {
				for p := []byte(page + "<p>end"); len(p) > 0; p = p[min(len(p), 5000):] {
					b.Append(p[:min(len(p), 5000)])
				}
			} else {
				b.Append([]byte(page + "<p>end"))
			}
			b.Finish()
			text, err := b.Text()
			if err != nil || b.Unread() != content.AllRead || !strings.HasSuffix(strings.TrimSpace(string(text)), "end") {
				t.Errorf("%s (in pieces: %v): %v, unread %q after %d bytes of %d", name, pieces, err, b.Unread(), len(text), len(page))
			}
			b.Release()
		}
	}
}

// TestLongRulesHaveTheirEffect: what a style sheet changes is changed, however long the rule that does
// so is, and whatever is left out of it; in pieces of any length.
func TestLongRulesHaveTheirEffect(t *testing.T) {
	long := strings.Repeat("lorem } ipsum {dolor} sit; 'amet' ", 1000)
	url := strings.Repeat("QUJD", 20_000)
	for name, sheet := range map[string]string{
		"plain":                          ".x{display:inline}",
		"selectors before":               each(8_000, ".class-#N,") + ".x{display:inline}",
		"selectors after":                ".x," + each(8_000, ".class-#N,") + "z{display:inline}",
		"selectors in a condition":       "@media all{" + each(8_000, ".class-#N,") + ".x{display:inline}}",
		"a comment before":               "/*" + long + "*/.x{display:inline}",
		"a comment that is no end":       "/*" + long + "**/.x{display:inline}",
		"comments between":               ".x/*" + long + "*/{/*" + long + "*/display:inline/*" + long + "*/}",
		"an address before":              ".x{background:url(data:image/png;base64," + url + ");display:inline}",
		"an address in quotes before":    `.x{background:url("data:image/png;base64,` + url + `)}\"");display:inline}`,
		"a string before":                `.x{content:'` + url + `\'';display:inline}`,
		"a string that a line ends":      ".x{content:'" + url + "\n;display:inline}",
		"declarations before and after":  ".x{" + each(3_000, "--a#N:#fff;") + "display:inline;" + each(3_000, "--b#N:#fff;") + "}",
		"a long rule before":             "y{content:'" + url + "'}.x{display:inline}",
		"selectors and many of the rest": each(2_000, ".class-#N,") + ".x{" + each(5_000, "--a#N:#fff;") + "display:inline}",
	} {
		page := "<style>" + sheet + "</style><div class=x>ca</div><div class=x>sino</div> "
		for _, size := range []int{len(page), 4096, 997, 3} {
			var b content.Body
			b.Reset(content.Describe("text/html", ""), content.Limits{})
			for p := []byte(page); len(p) > 0; p = p[min(len(p), size):] {
				b.Append(p[:min(len(p), size)])
			}
			b.Finish()
			text, err := b.Text()
			if err != nil || b.Unread() != content.AllRead || !strings.Contains(string(text), "casino") {
				t.Errorf("%s, pieces of %d: %v, unread %q, text %.80q", name, size, err, b.Unread(), text)
			}
			b.Release()
		}
	}
	shown := "<style>" + strings.Repeat("/*"+long+"*/", 3) + "</style><div class=x>ca</div><div class=x>sino</div> "
	var b content.Body
	defer b.Release()
	b.Reset(content.Describe("text/html", ""), content.Limits{})
	b.Append([]byte(shown))
	b.Finish()
	if text, _ := b.Text(); strings.Contains(string(text), "casino") {
		t.Errorf("text %.80q, want no effect of a comment", text)
	}
	much := "<style>" + each(80_000, ".class-#N,") + ".x{display:inline}</style><div class=x>ca</div><div class=x>sino</div> "
	b.Reset(content.Describe("text/html", ""), content.Limits{})
	for p := []byte(much); len(p) > 0; p = p[min(len(p), 4096):] {
		b.Append(p[:min(len(p), 4096)])
	}
	b.Finish()
	if b.Text(); b.Unread() == content.AllRead {
		t.Error("selectors that do not fit, of a rule with an effect, leave nothing unread")
	}
}
