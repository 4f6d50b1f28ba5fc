package exchange

import (
	"fmt"
	"html"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/picture"
	"shuultuur/lib/release"
	"shuultuur/proxy/page"
)

// standIn returns the replacement of a picture that is refused once its bytes are known: a
// blurred one, a placeholder, or an empty one of the same size. It returns nil if the body is
// not a readable picture, or if the client shows a page.
func standIn(x *Exchange) *message.Response {
	if release.Small {
		return nil // it reads no pictures: the client gets the page or pixel as for any other request
	}
	b := x.T.Body
	if b == nil || !x.T.IsPicture() {
		return nil
	}
	data, err := b.Decoded()
	if err != nil {
		return nil
	}
	v, form := &x.T.Verdict, page.FormOf(&x.Q)
	if v.Action == filter.Block && v.Show == filter.Blurred {
		if blurred, err := picture.Blur(data); err == nil {
			x.Note("blurred")
			return x.Reply(200, "image/jpeg", blurred)
		}
	}
	head, _ := picture.Look(data) // also for icons and pictures too large to decode
	w, h := head.DisplaySize()
	if head.Format == picture.NotAPicture {
		w, h, _ = picture.SVGSize(data)
	}
	if w == 0 || form != page.Picture {
		return nil
	}
	if v.Action == filter.Warn && v.Show == filter.Placeholder {
		x.Note("placeholder")
		return x.Reply(200, "image/svg+xml", placeholder(x, w, h))
	}
	return x.Reply(403, "image/png", picture.Empty(w, h))
}

// placeholder returns a picture with a link on which the warning can be accepted. Browsers
// follow no links within <img>; opened on its own, the picture is a warning page.
func placeholder(x *Exchange, w, h int) []byte {
	texts := x.Engine.Pages.Texts(string(x.Q.Get("Accept-Language")))
	say := func(key string) string { return html.EscapeString(texts.Say(key)) }
	size := max(8, min(w/14, h/5, 32))
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d">`+
		`<rect width="100%%" height="100%%" fill="#e4e6ea"/><g font-family="sans-serif" font-size="%[3]d" text-anchor="middle" fill="#333">`+
		`<text x="50%%" y="48%%">%[4]s</text><a href="%[5]s" target="_top"><text x="50%%" y="48%%" dy="1.4em" fill="#0645ad" text-decoration="underline">%[6]s</text></a></g></svg>`,
		w, h, size, say("picture.hidden"), html.EscapeString(continueURL(x.T.URL, x.T.Verdict.To)), say("picture.show"))
}
