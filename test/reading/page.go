package reading

import (
	"bytes"
	"math/rand/v2"
)

// snippets are troublesome pieces of markup, which are joined at random.
var snippets = []string{
	"a", "B ", " c", "<", ">", "</", "/>", "<!", "<!--", "-->", "--!>", "-", "!", "<?", "=", "'", "\"", " ", "\n",
	"<b>", "</b>", "<p>", "</p>", "<br/>", "<div width=1>", "<script>", "</script>", "<style>", "</style ", "<title>", "</title>",
	"<textarea>", "</textarea>", "<noscript>", "</noscript>", "<xmp>", "</xmp>", "<meta name=description content='m n'>",
	"<input type=submit value=", " <img alt=\"x y\"", "<a title='", "<a href=\"", "alt=", "title=q", "<x-y>", "<plaintex", "&amp;", "&eacute;", "&eacute",
	"&#101;", "&#x", "&#", "&", ";", "&notit;", "é", "ß", "e\u0301", "\u00ad", "東", "<h1", "</h1\t", "<!doctype html>", "<blockquote>", "</scr", "ipt>", "</3>",
}

// RandomPage returns a page of snippets.
func RandomPage(r *rand.Rand) []byte {
	var buf bytes.Buffer
	for range 1 + r.IntN(30) {
		buf.WriteString(snippets[r.IntN(len(snippets))])
	}
	return buf.Bytes()
}
