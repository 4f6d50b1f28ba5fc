package exchange

import (
	"bytes"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/edit"
	"shuultuur/proxy/held"
)

// This file changes pages on their way to the client by the lists of ad blockers, if the
// client's policy hides elements. The changes are known with the request. The origin is then
// offered only gzip, which takes little memory to decompress; a page in another coding passes
// unchanged.

// sheetPath is the beginning of the paths of our style sheets, among others.
var sheetPath = []byte("/.well-known/shuultuur/")

// Sheet returns the style sheet to which changed pages link, or nil if x requests something
// else.
func Sheet(x *Exchange) *message.Response {
	editor, ok := x.Engine.Decider.(filter.Editor)
	if !ok || !bytes.HasPrefix(x.Q.Path, sheetPath) {
		return nil
	}
	css, zipped, ok := editor.Sheet(&x.T, message.AcceptsGzip(x.Q.Get("Accept-Encoding")))
	if !ok {
		return nil
	}
	v := &x.T.Verdict
	v.Action = filter.Allow
	v.Reason.Finding = filter.Finding{Check: "proxy", Category: "style-sheet"}
	fields := []string{"Vary", "Accept-Encoding"}
	if zipped {
		fields = append(fields, "Content-Encoding", "gzip")
	}
	s := x.Reply(200, "text/css; charset=utf-8", css, fields...)
	s.Del("Cache-Control")
	s.Add("Cache-Control", "private, max-age=604800, immutable") // its name changes with its content
	return s
}

// gzipAlone returns a value of Accept-Encoding with gzip only.
func gzipAlone(v []byte) []byte {
	if message.AcceptsGzip(v) {
		return []byte("gzip")
	}
	return []byte("identity")
}

// editing determines the changes to the page that x requests, and reports whether there are
// any.
func editing(x *Exchange) bool {
	x.editable = false
	if editor, ok := x.Engine.Decider.(filter.Editor); ok && x.Q.Upgrade == nil && edit.Shows(&x.Q) {
		x.editable = editor.Changes(&x.T, &x.changes)
	}
	return x.editable
}

// Edit changes s, the response to the request made by Outgoing, if it is a page with changes.
// In a "not modified" it changes the same fields, because the client replaces its own by them
// (RFC 9111 section 3.2).
func Edit(x *Exchange, s *message.Response) {
	if !x.editable || x.T.Verdict.Action == filter.Allow || isAttachment(s) {
		return
	}
	asIs := s.HasToken("Cache-Control", "no-transform") || x.Q.HasToken("Cache-Control", "no-transform")
	if s.Status == 304 && !asIs {
		edit.New(&x.T, &x.changes, &s.Fields)
		weaken(s)
		return
	}
	h, zipped := x.T.Content(), false
	switch coding := string(s.Get("Content-Encoding")); strings.ToLower(coding) {
	case "gzip", "x-gzip":
		zipped = true
	case "", "identity":
	default:
		return
	}
	if asIs { // its content must not be changed (RFC 9110 section 7.7); what the page may do is in the fields
		if s.Status == 304 || h.Type() == "text/html" {
			edit.New(&x.T, &filter.Changes{Policies: x.changes.Policies, Permissions: x.changes.Permissions}, &s.Fields)
		}
		return
	}
	head := x.Q.Method == "HEAD"
	if s.Status < 200 || s.Status/100 == 3 || s.Status == 204 || s.Status == 206 || !head && (s.Body == nil || s.Body.AtEnd()) || h.Type() != "text/html" || h.Partial() {
		return
	}
	if head { // the same fields as GET, which does not know the length before either
		edit.New(&x.T, &x.changes, &s.Fields)
		changed(s)
		s.Del("Content-Length")
		s.Length = message.Chunked
		return
	}
	b := &editedBody{x: x, editor: edit.New(&x.T, &x.changes, &s.Fields)}
	b.src, b.fill = s.Body, b.next
	if zipped {
		b.decoder = new(content.Body)
		b.decoder.Reset(h, content.Limits{Decoded: math.MaxInt64, Ratio: maxDeflate})
		b.zip = gzips.Get().(*gzip.Writer)
		b.zip.Reset(&b.zipped)
	}
	changed(s)
	x.changing = b
	x.in.counters[pagesChanged].Add(1)
	here := int64(0)
	for _, p := range s.Body.Ready(nil) {
		here += int64(len(p))
	}
	all := s.Body.Remaining() == here // all of it is available without waiting
	s.Body, s.Length = b, message.Chunked
	if all && b.fill() == nil && b.over {
		s.Length = b.ready.Remaining()
	}
}

// changed changes the fields that are about the original bytes.
func changed(s *message.Response) {
	weaken(s)
	for _, name := range [...]string{"Accept-Ranges", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest"} {
		s.Del(name)
	}
}

// isAttachment reports whether a browser saves the body of s instead of showing it.
func isAttachment(s *message.Response) bool {
	kind, _, _ := bytes.Cut(s.Get("Content-Disposition"), []byte(";"))
	kind = bytes.TrimSpace(kind)
	return len(kind) > 0 && !bytes.EqualFold(kind, []byte("inline"))
}

// weaken makes the validator of s a weak one, for pages with different bytes and the same
// meaning (RFC 9110 section 8.8.1).
func weaken(s *message.Response) {
	for i := range s.Fields {
		if f := &s.Fields[i]; message.EqualName(f.Name, "etag") && !bytes.HasPrefix(f.Value, []byte("W/")) {
			f.Value = append([]byte("W/"), f.Value...)
		}
	}
}

// maxDeflate exceeds the maximal expansion of a byte by DEFLATE.
const maxDeflate = 1100

var gzips = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return z
}}

// An editedBody is a page that is changed while it is forwarded.
type editedBody struct {
	derivedBody
	x       *Exchange
	editor  *edit.Editor
	decoder *content.Body // nil for a page that is not compressed, as is zip
	zip     *gzip.Writer
	zipped  bytes.Buffer

	block []byte
	out   []byte
	more  bool // the decoder has more output for the last piece
	ended bool // the decoder is at the end, whatever follows
	last  bool // src is at the end
	err   error
}

// next reads until there are bytes to forward, or the page is over.
func (b *editedBody) next() error {
	if b.block == nil {
		b.block = b.x.in.budget.Block(held.Medium)
	}
	for b.ready.Remaining() == 0 && !b.over {
		if b.err != nil {
			return b.err
		}
		b.out = b.out[:0]
		var piece []byte
		if !b.more {
			piece = b.read()
		}
		if b.decoder != nil {
			b.decode(piece)
		} else {
			b.out = b.editor.Next(b.out, piece, false)
		}
		ends := b.err != nil || b.last && !b.more
		if ends {
			b.out = b.editor.Next(b.out, nil, true)
			b.over = b.err == nil
		}
		b.pass()
	}
	return nil
}

// read reads the next piece of the page.
func (b *editedBody) read() []byte {
	n, err := b.src.Read(b.block[:cap(b.block)])
	switch {
	case err == io.EOF, err == nil && b.src.AtEnd():
		b.last = true
	case err != nil:
		b.err = err
	}
	return b.block[:n]
}

// decode appends the decoded p, and the rest of the previous piece, to b.out: not much more
// than a block at a time.
func (b *editedBody) decode(p []byte) {
	if b.ended {
		return
	}
	if !b.more {
		b.decoder.Append(p)
		if b.last {
			b.decoder.Finish()
		}
	}
	for b.more = true; len(b.out) < held.Medium; {
		q, err := b.decoder.Next()
		if len(q) > 0 {
			b.out = b.editor.Next(b.out, q, false)
		}
		if err == io.EOF {
			b.ended = true
		} else if err != nil {
			b.err = err
		}
		if q == nil || err != nil {
			b.more = false
			b.decoder.Forget()
			return
		}
	}
}

// pass makes b.out the next bytes to read, compressed if the page was.
func (b *editedBody) pass() {
	if b.zip == nil {
		b.ready.Set(b.out)
		return
	}
	b.zipped.Reset()
	_, _ = b.zip.Write(b.out) // cannot fail in memory
	if b.over {
		_ = b.zip.Close()
	} else if len(b.out) > 0 {
		_ = b.zip.Flush() // so that the browser shows the available parts
	}
	b.ready.Set(b.zipped.Bytes())
}

// free releases the memory of b.
func (b *editedBody) free() {
	if b.block != nil {
		b.x.in.budget.Free(b.block)
	}
	if b.decoder != nil {
		b.decoder.Release()
		b.zip.Reset(nil)
		gzips.Put(b.zip)
	}
}
