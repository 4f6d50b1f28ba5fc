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
	"shuultuur/message"
	"shuultuur/proxy/edit"
)

// This file changes pages on their way to the client as the lists of ad
// blockers say, where the client's policy hides. What is changed is known with
// the request. The origin is offered gzip alone then, which takes little memory
// to undo; a page in another coding passes as it is.

// sheetPath is what paths of our style sheets begin with, among others.
var sheetPath = []byte("/.well-known/shuultuur/")

// Sheet answers a request for the style sheet that changed pages link to; nil
// when x asks for something else.
func Sheet(x *Exchange) *message.Response {
	editor, ok := x.Engine.Decider.(filter.Editor)
	if !ok || !bytes.HasPrefix(x.Q.Path, sheetPath) {
		return nil
	}
	css, zipped, ok := editor.Sheet(&x.T, acceptsGzip(x.Q.Get("Accept-Encoding")))
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
	s.Add("Cache-Control", "private, max-age=604800, immutable") // its name changes when it does
	return s
}

// acceptsGzip says whether a value of Accept-Encoding allows gzip.
func acceptsGzip(v []byte) bool {
	for part := range bytes.SplitSeq(v, []byte(",")) {
		name, weight, _ := bytes.Cut(part, []byte(";"))
		if name = bytes.TrimSpace(name); message.EqualName(name, "gzip") || message.EqualName(name, "x-gzip") {
			q, ok := bytes.CutPrefix(bytes.TrimSpace(weight), []byte("q="))
			return !ok || len(bytes.Trim(q, "0.")) > 0
		}
	}
	return false
}

// gzipAlone is a value of Accept-Encoding without all other codings.
func gzipAlone(v []byte) []byte {
	if acceptsGzip(v) {
		return []byte("gzip")
	}
	return []byte("identity")
}

// editing finds out what is to be changed in the page that x asks for, and says
// whether that is anything.
func editing(x *Exchange) bool {
	x.editable = false
	if editor, ok := x.Engine.Decider.(filter.Editor); ok && x.Q.Upgrade == nil {
		x.editable = editor.Changes(&x.T, &x.changes)
	}
	return x.editable
}

// Edit changes s, which answers the request that Outgoing made, where it is a
// page that is to be changed. "Not modified" has the same fields changed, as
// the client puts them in the place of those it has (RFC 9111, 3.2).
func Edit(x *Exchange, s *message.Response) {
	if !x.editable || x.T.Verdict.Action == filter.Allow || x.Q.Method == "HEAD" {
		return
	}
	if s.Status == 304 {
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
	if s.Status < 200 || s.Status/100 == 3 || s.Status == 206 || s.Body == nil || s.Body.Done() || h.Type() != "text/html" || h.Partial() {
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
	weaken(s)
	for _, name := range [...]string{"Accept-Ranges", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest"} { // of other bytes
		s.Del(name)
	}
	x.changing = b
	x.in.counters[pagesChanged].Add(1)
	here := int64(0)
	for _, p := range s.Body.Ready(nil) {
		here += int64(len(p))
	}
	all := s.Body.Left() == here // nothing has to be waited for
	s.Body, s.Length = b, message.Chunked
	if all && b.fill() == nil && b.over {
		s.Length = b.ready.Left()
	}
}

// weaken makes the validator of s one for pages with other bytes that mean the
// same (RFC 9110, 8.8.1).
func weaken(s *message.Response) {
	for i := range s.Fields {
		if f := &s.Fields[i]; message.EqualName(f.Name, "etag") && !bytes.HasPrefix(f.Value, []byte("W/")) {
			f.Value = append([]byte("W/"), f.Value...)
		}
	}
}

// maxDeflate is more than DEFLATE can make of a byte.
const maxDeflate = 1100

var gzips = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a good one
	return z
}}

// An editedBody is a page that is changed while it passes.
type editedBody struct {
	filled
	x       *Exchange
	editor  *edit.Editor
	decoder *content.Body // nil for a page that is not compressed, as zip is
	zip     *gzip.Writer
	zipped  bytes.Buffer

	block []byte
	out   []byte
	more  bool // decoder has more of what was read last
	ended bool // decoder is at the end, whatever follows
	last  bool // src is
	err   error
}

// next reads until there is something to pass on, or the page is over.
func (b *editedBody) next() error {
	if b.block == nil {
		b.block = b.x.in.Block(medium)
	}
	for b.ready.Left() == 0 && !b.over {
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
	case err == io.EOF, err == nil && b.src.Done():
		b.last = true
	case err != nil:
		b.err = err
	}
	return b.block[:n]
}

// decode appends to b.out what p becomes when its coding is undone, and what is
// left of the piece before: not much more than a block at once.
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
	for b.more = true; len(b.out) < medium; {
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

// pass makes b.out what is read next, compressed where the page was.
func (b *editedBody) pass() {
	if b.zip == nil {
		b.ready.Set(b.out)
		return
	}
	b.zipped.Reset()
	_, _ = b.zip.Write(b.out) // into memory
	if b.over {
		_ = b.zip.Close()
	} else if len(b.out) > 0 {
		_ = b.zip.Flush() // the browser shows what is there
	}
	b.ready.Set(b.zipped.Bytes())
}

// free gives back what b holds.
func (b *editedBody) free() {
	if b.block != nil {
		b.x.in.Release(b.block)
	}
	if b.decoder != nil {
		b.decoder.Release()
		b.zip.Reset(nil)
		gzips.Put(b.zip)
	}
}
