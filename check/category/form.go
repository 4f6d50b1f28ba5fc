package category

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"strconv"

	"shuultuur/check/category/wrapped"
	"shuultuur/filter"
	"shuultuur/lib/ascii"
	"shuultuur/lib/message"
)

// mostForm is the length of a form in which a proxy on the web is asked for a page.
const mostForm = 4 << 10

// isSmallForm reports whether a request sends a form in which a page may be asked for.
func isSmallForm(q *message.Request) bool {
	if q == nil || string(q.Method) != "POST" || formOf(q) == nil {
		return false
	}
	n, err := strconv.Atoi(string(q.Get("Content-Length")))
	return err == nil && n > 0 && n <= mostForm
}

// A form searches the fields of a form in which a page may be asked for.
type form func(f *wrapped.Finder, body, contentType []byte)

// formOf returns how the form that a request sends is searched, nil if it sends none: one of HTML, or an
// object of JSON, which scripts also send as text.
func formOf(q *message.Request) form {
	typ, _, _ := bytes.Cut(q.Get("Content-Type"), []byte(";"))
	switch typ = bytes.TrimSpace(typ); {
	case ascii.EqualLower(typ, "application/x-www-form-urlencoded"):
		return searchPairs
	case ascii.EqualLower(typ, "multipart/form-data"):
		return searchParts
	case ascii.EqualLower(typ, "application/json"), ascii.EqualLower(typ, "text/plain"), bytes.HasSuffix(typ, []byte("+json")):
		return searchObject
	}
	return nil
}

// searchForm searches the form that a request sends, and reports whether it is read.
func (w *scratch) searchForm(t *filter.Transaction) bool {
	if t.Upload == nil || !t.Upload.Complete() || t.Upload.Len() > mostForm {
		return false
	}
	w.wrapped.Target(t.Host, nil)
	formOf(t.Request)(&w.wrapped, bytes.Join(t.Upload.Pieces(), nil), t.Request.Get("Content-Type"))
	return true
}

// searchPairs searches names and values as in a query.
func searchPairs(f *wrapped.Finder, body, _ []byte) {
	target := []byte("/?")
	for field := range bytes.SplitSeq(body, []byte("&")) {
		if name, _, _ := bytes.Cut(field, []byte("=")); asksFor(name) {
			target = append(append(target, field...), '&')
		}
	}
	f.Also(target)
}

// searchParts searches the parts of a form with files.
func searchParts(f *wrapped.Finder, body, contentType []byte) {
	_, parameters, err := mime.ParseMediaType(string(contentType))
	if err != nil {
		return
	}
	for r := multipart.NewReader(bytes.NewReader(body), parameters["boundary"]); ; {
		p, err := r.NextRawPart()
		if err != nil {
			return
		}
		if p.FileName() != "" || !asksFor([]byte(p.FormName())) {
			continue
		}
		value, _ := io.ReadAll(p) // the rest of the form, if it ends within
		f.Also(bytes.TrimSpace(value))
	}
}

// searchObject searches the members of an object of JSON, and of those inside. A body that is not JSON
// may be a single address.
func searchObject(f *wrapped.Finder, body, _ []byte) {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] != '{' && body[0] != '[' {
		if text := bytes.Trim(body, `"`); bytes.HasPrefix(text, []byte("http")) && bytes.IndexAny(text, " \t\r\n") < 0 {
			f.Also(text)
		}
		return
	}
	d := json.NewDecoder(bytes.NewReader(body))
	var objects []bool // whether what is open is an object, or an array
	name, isValue := "", false
	for {
		token, err := d.Token()
		if err != nil {
			return
		}
		within := len(objects) > 0 && objects[len(objects)-1]
		if s, ok := token.(string); ok && within && !isValue {
			name, isValue = s, true
			continue
		} else if ok && asksFor([]byte(name)) { // also in an array that is a value
			f.Also([]byte(s))
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			objects = append(objects, token == json.Delim('{'))
		case json.Delim('}'), json.Delim(']'):
			objects = objects[:len(objects)-1]
		}
		isValue = false
	}
}

// asksFor reports whether a field of a form usually has the address that a proxy is to show.
func asksFor(name []byte) bool {
	var buf [16]byte
	if len(name) > len(buf) {
		return false
	}
	switch string(ascii.AppendLower(buf[:0], name)) {
	case "u", "url", "uri", "q", "link", "site", "website", "address", "addr", "target", "dest", "destination", "web", "page", "go", "goto", "host", "domain", "input", "__proxy_url":
		return true
	}
	return false
}
