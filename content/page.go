package content

import "shuultuur/content/limit"

var webPage = Describe("text/html; charset=utf-8", "")

// AppendPage appends the normalised text of a page.
func AppendPage(dst, p []byte) []byte {
	var b Body
	b.Reset(webPage, limit.Limits{})
	b.Append(p)
	b.Finish()
	text, _ := b.Text() // a page in memory without codings gives no error
	dst = append(dst, text...)
	b.Release()
	return dst
}
