package category

import (
	"bytes"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/list/adblock"
)

// setRequest sets in r the fields that ad-block rules examine: URL, type and page.
func (c *Check) setRequest(r *adblock.Request, t *filter.Transaction) {
	if t.Request == nil {
		r.Set(t.URL, adblock.Other, "")
		return
	}
	r.Set(t.URL, typeOf(t), "")
	from := page(t.Request)
	r.SetPage(from)
	if from == nil && c.firstParty {
		r.SetThirdParty(false)
	}
	switch string(t.Request.Get("Sec-Fetch-Site")) {
	case "cross-site":
		r.SetThirdParty(true)
	case "same-origin", "same-site", "none":
		r.SetThirdParty(false)
	}
	r.SetPopup()
}

// Changes puts into dst the changes that the lists make to the page that t requests, and
// reports whether there are any. A response that browsers do not display on its own is not a
// page.
func (c *Check) Changes(t *filter.Transaction, dst *filter.Changes) bool {
	dst.Reset()
	if c.pages == nil || t.Request == nil {
		return false
	}
	typ := typeOf(t)
	if typ&(adblock.Document|adblock.Subdocument|adblock.Other) == 0 {
		return false
	}
	c.pages.Look(t.URL, typ == adblock.Subdocument, dst)
	return !dst.Empty()
}

// Sheet returns the style sheet that hides elements on all pages, if t requests it.
func (c *Check) Sheet(t *filter.Transaction, gzip bool) (css []byte, zipped, ok bool) {
	if c.pages == nil {
		return nil, false, false
	}
	path, _, _ := bytes.Cut(target(t), []byte("?"))
	return c.pages.Sheet(path, t.Host, gzip)
}

// page returns the host of the page that a request comes from, by Referer or Origin; nil if
// neither is present.
func page(q *message.Request) []byte {
	for _, name := range [...]string{"Referer", "Origin"} {
		v := q.Get(name)
		i := bytes.Index(v, []byte("://"))
		if i < 0 {
			continue
		}
		host := v[i+3:]
		if i := bytes.IndexAny(host, "/?#"); i >= 0 {
			host = host[:i]
		}
		if i := bytes.LastIndexByte(host, '@'); i >= 0 {
			host = host[i+1:]
		}
		if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
			host = host[:i]
		}
		return host
	}
	return nil
}

// typeOf returns the type of a request: by Sec-Fetch-Dest, or else by other fields such as
// Accept, or else by the file extension.
func typeOf(t *filter.Transaction) adblock.Type {
	q := t.Request
	if dest := q.Get("Sec-Fetch-Dest"); len(dest) > 0 {
		return destination(dest)
	}
	if len(q.Upgrade) > 0 && strings.EqualFold(string(q.Upgrade), "websocket") {
		return adblock.WebSocket
	}
	if len(q.Get("Ping-To")) > 0 {
		return adblock.Ping
	}
	if strings.EqualFold(string(q.Get("X-Requested-With")), "XMLHttpRequest") {
		return adblock.XMLHTTPRequest
	}
	accept := q.Get("Accept")
	switch {
	case bytes.HasPrefix(accept, []byte("text/html")):
		return adblock.Document
	case bytes.HasPrefix(accept, []byte("text/css")):
		return adblock.Stylesheet
	case bytes.HasPrefix(accept, []byte("image/")):
		return adblock.Image
	}
	return extension(target(t))
}

func destination(dest []byte) adblock.Type {
	switch string(dest) {
	case "document":
		return adblock.Document
	case "iframe", "frame", "fencedframe":
		return adblock.Subdocument
	case "script", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet":
		return adblock.Script
	case "style", "xslt":
		return adblock.Stylesheet
	case "image":
		return adblock.Image
	case "font":
		return adblock.Font
	case "audio", "video", "track":
		return adblock.Media
	case "object", "embed":
		return adblock.Object
	case "empty", "json":
		return adblock.XMLHTTPRequest
	case "websocket":
		return adblock.WebSocket
	case "report":
		return adblock.Ping
	}
	return adblock.Other
}

// extension returns the type by the file extension.
func extension(target []byte) adblock.Type {
	path, _, _ := bytes.Cut(target, []byte("?"))
	path = path[bytes.LastIndexByte(path, '/')+1:]
	i := bytes.LastIndexByte(path, '.')
	if i < 0 || len(path)-i > 6 {
		return adblock.Other
	}
	var ext [5]byte
	for j, c := range path[i+1:] {
		if ext[j] = c; 'A' <= c && c <= 'Z' {
			ext[j] |= 0x20
		}
	}
	switch string(ext[:len(path)-i-1]) {
	case "js", "mjs":
		return adblock.Script
	case "css":
		return adblock.Stylesheet
	case "gif", "jpg", "jpeg", "png", "webp", "avif", "svg", "ico", "bmp":
		return adblock.Image
	case "woff", "woff2", "ttf", "otf", "eot":
		return adblock.Font
	case "mp4", "webm", "mp3", "ogg", "m4a", "m4v", "m3u8", "ts", "avi", "mov", "wav", "flac":
		return adblock.Media
	case "swf", "jar":
		return adblock.Object
	case "htm", "html", "xhtml":
		return adblock.Document
	}
	return adblock.Other
}
