package page

import (
	"bytes"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"shuultuur/lib/message"
)

// A Form is the format of a page.
type Form uint8

const (
	Document Form = iota // HTML
	Frame                // HTML in a few lines, with nothing to click, for a part of a page
	Object               // JSON
	Picture              // one transparent pixel
	Script               // a comment
	Sheet                // a comment
	Nothing              // for sound, films and fonts
	Call                 // a status of gRPC, in the head
	Plain                // text, for a terminal or a program

	forms = iota
)

// FormOf returns the form for a request. Browsers say what they will use the response for (Fetch
// Metadata). Others ask for types: a program gets JSON if it asks for or sends some, or else text, as
// do commands such as curl, which show it as it is. Old browsers do not always ask for HTML, but
// their names begin with Mozilla.
func FormOf(q *message.Request) Form {
	sent := q.Get("Content-Type")
	if mediaType(sent, "application/grpc") {
		return Call
	}
	accept := q.Get("Accept")
	switch dest := string(q.Get("Sec-Fetch-Dest")); dest {
	case "image":
		return Picture
	case "iframe", "frame", "fencedframe", "embed", "object":
		return Frame
	case "script", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet":
		return Script
	case "style", "xslt":
		return Sheet
	case "audio", "video", "track", "font":
		return Nothing
	case "empty", "json", "manifest", "report":
		return Object
	case "":
		switch {
		case bytes.HasPrefix(accept, []byte("image/")):
			return Picture
		case bytes.HasPrefix(accept, []byte("text/css")):
			return Sheet
		}
	}
	html := bytes.Contains(accept, []byte("text/html"))
	switch {
	case bytes.EqualFold(q.Get("X-Requested-With"), []byte("XMLHttpRequest")), !html && (isJSON(accept) || isJSON(sent)):
		return Object
	case !html && isProgram(accept, q.Get("User-Agent")):
		return Plain
	}
	return Document
}

// isProgram reports whether a request is not from a browser, by what it accepts and its name. One that
// says neither may be from any.
func isProgram(accept, agent []byte) bool {
	return (len(accept) > 0 || len(agent) > 0) && !bytes.HasPrefix(agent, []byte("Mozilla/"))
}

// mediaType reports whether a Content-Type is the media type, or one that is built on it.
func mediaType(v []byte, typ string) bool {
	if len(v) < len(typ) || !strings.EqualFold(string(v[:len(typ)]), typ) {
		return false
	}
	return len(v) == len(typ) || strings.IndexByte("+-; \t", v[len(typ)]) >= 0
}

// isJSON reports whether an Accept or Content-Type names JSON, or a type that is written in it.
func isJSON(v []byte) bool {
	for part := range bytes.SplitSeq(bytes.ToLower(v), []byte(",")) {
		typ, _, _ := bytes.Cut(part, []byte(";"))
		if typ = bytes.TrimSpace(typ); string(typ) == "application/json" || string(typ) == "text/json" || bytes.HasSuffix(typ, []byte("+json")) {
			return true
		}
	}
	return false
}

// pixel is a transparent GIF of 1×1.
const pixel = "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"

// Render renders a page. It sets whose network it is, and whether the reader is a child.
func (p *Set) Render(k Kind, f Form, d *Page) (ctype string, body []byte) {
	d.Name, d.Contact = p.whose.Name, p.whose.Contact
	d.Child = slices.Contains(p.whose.Children, d.Policy)
	if d.Texts == nil {
		d.Texts = p.texts.For("")
	}
	switch f {
	case Frame:
		return "text/html; charset=utf-8", d.frame(k)
	case Picture:
		return "image/gif", []byte(pixel)
	case Object:
		return "application/json", d.json(k)
	case Script:
		return "text/javascript; charset=utf-8", d.comment(k, "// ", "\n")
	case Sheet:
		return "text/css; charset=utf-8", d.comment(k, "/* ", " */\n")
	case Nothing, Call:
		return "", nil
	case Plain:
		return "text/plain; charset=utf-8", d.plain(k)
	}
	var b bytes.Buffer
	if err := p.tmpl[k].Execute(&b, d); err != nil {
		// New ran it; but a template may fail for some data only.
		return "text/plain; charset=utf-8", fmt.Appendf(nil, "%d %s\n%s\n", d.Status, d.Title, d.ID)
	}
	return "text/html; charset=utf-8", b.Bytes()
}

// sentences returns what a page says, without its details.
func (d *Page) sentences(k Kind) (all []string) {
	switch k {
	case Block, Warn:
		host := d.Host
		if host == "" {
			host = d.Say("page")
		}
		sentence := d.Say(kinds[k]+".text", "host", host)
		if d.Why != "" {
			sentence += d.Say("because", "why", d.Why)
		}
		all = append(all, sentence+".")
	case Error:
		all = append(all, d.Heading())
		if d.Reason != "" {
			all = append(all, d.Message(d.Reason))
		}
	case Quota:
		all = append(all, d.Say("quota.title"))
		if d.Policy == "" {
			all = append(all, d.Say("quota.none"))
		} else if len(d.Quotas) == 0 {
			all = append(all, d.Say("quota.nothing"))
		}
	}
	if again := d.WhenToRetry(); again != "" {
		all = append(all, d.Say("try", "when", again))
	}
	for i := range all {
		all[i] = graphic(all[i])
	}
	return all
}

// Sum returns in one line what a page of a kind says.
func (p *Set) Sum(k Kind, d *Page) string {
	if d.Texts == nil {
		d.Texts = p.texts.For("")
	}
	return strings.Join(d.sentences(k), " ") + " " + d.Say("reference") + ": " + graphic(d.ID)
}

// frameStyle is the style sheet of the form Frame.
const frameStyle = ":root{color-scheme:light dark}body{margin:.5em;font:14px/1.4 sans-serif;overflow-wrap:anywhere}p{margin:0 0 .3em}"

// frame returns a page for a part of another page. It can be framed, because there is nothing to
// click.
func (d *Page) frame(k Kind) []byte {
	all := d.sentences(k)
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"%s\" dir=\"%s\">\n<meta charset=\"utf-8\">\n<meta name=\"robots\" content=\"noindex\">\n<title>%s</title>\n<style>%s</style>\n",
		template.HTMLEscapeString(d.Texts.Lang), template.HTMLEscapeString(d.Texts.Dir), template.HTMLEscapeString(strings.Join(all[:min(1, len(all))], "")), frameStyle)
	for _, s := range append(all, d.Say("reference")+": "+graphic(d.ID)) {
		fmt.Fprintf(&b, "<p>%s</p>\n", template.HTMLEscapeString(s))
	}
	return b.Bytes()
}

// comment returns what a page says as comments of a language.
func (d *Page) comment(k Kind, before, after string) []byte {
	var b bytes.Buffer
	for _, s := range append(d.sentences(k), d.Say("reference")+": "+graphic(d.ID)) {
		b.WriteString(before + strings.ReplaceAll(s, "*/", "* /") + after)
	}
	return b.Bytes()
}
