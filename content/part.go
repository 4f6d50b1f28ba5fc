package content

import (
	"bytes"
	"sync"

	"shuultuur/content/document"
	"shuultuur/content/limit"
	"shuultuur/content/media"
	"shuultuur/content/prose"
)

// A part is a body within another one. Its text becomes part of the outer text.
type part struct {
	body Body
	out  *prose.Flow
}

// open begins a part whose text goes to out. It returns nil if the part has no text, or is nested too
// deeply; the latter stops the body if the part may have text.
func (b *Body) open(h *Head, out *prose.Flow) *part {
	switch {
	case b.level == mostNested && h.Readable():
		b.Stop(limit.Intricate)
		return nil
	case b.level == mostNested, !h.Readable() && h.Type() != "application/octet-stream":
		return nil
	}
	p, _ := parts.Get().(*part)
	if p == nil {
		p = &part{}
	}
	lim := b.in.Limits
	lim.Memory = nil // the decoded text is small
	p.body.Reset(h, lim)
	p.body.level = b.level + 1
	p.body.bound = b.bound
	b.bound.Expansion += partExpansion
	b.bound.Spend(openWork)
	p.out = out
	p.body.Follow(p)
	return p
}

var parts sync.Pool

// Write reads the next bytes of the part.
func (p *part) Write(b []byte) {
	p.body.Append(b)
	p.body.Forget()
}

// Close ends the part and returns why not all of it was read.
func (p *part) Close() limit.Reason {
	p.body.Finish()
	p.body.Forget()
	why := p.body.Unread()
	p.Drop()
	return why
}

// Drop ends the part without reading the rest.
func (p *part) Drop() {
	p.body.Release()
	p.out = nil
	parts.Put(p)
}

// Follow implements [Reader]: the part follows its own body.
func (p *part) Follow(*Body) Follower { return (*partText)(p) }

// A partText adds the text of a part to the outer text.
type partText part

// Read implements [Follower].
func (p *partText) Read(text []byte, fresh int) {
	p.out.Blank()
	p.out.B = append(p.out.B, text[fresh:]...)
	if p.out.B[len(p.out.B)-1] == ' ' {
		p.out.B = prose.TrimBlanks(p.out.B)
	}
}

// Close does nothing: the part ends its body.
func (p *partText) Close() {}

// Stop implements what a reader of documents asks of the body around them.
func (t *text) Stop(why limit.Reason) { t.body.Stop(why) }

// Open begins a document within this one.
func (t *text) Open(h *Head, in document.Inside) document.Part {
	p := t.body.open(h, in.Out)
	if p == nil {
		return nil
	}
	p.body.room = in.Room
	if in.Packed != nil {
		p.body.packed = in.Packed
	}
	p.body.office = in.Office && t.body.Type() != "application/epub+zip"
	return p
}

// Document adds the text of a document within this one to f.
func (t *text) Document(f *prose.Flow, h *Head, p []byte, scripts bool) (lost bool) {
	return nest(f, h, p, t.body.level, t.body.bound, scripts)
}

// nest adds to f the text of a document nested at level, within the bound of the outermost body,
// and reports whether some of it was not read.
func nest(f *prose.Flow, h *Head, p []byte, level int, work *limit.Work, scripts bool) (lost bool) {
	if level == mostNested || len(p) == 0 {
		return len(p) > 0
	}
	var b Body
	b.Reset(h, Limits{Scripts: scripts})
	b.level = level + 1
	b.bound = work
	if b.bound.Spend(openWork) {
		return true
	}
	b.Append(bytes.Clone(p)) // nested documents reuse the memory of p
	b.Finish()
	text, _ := b.Text()
	f.Flush()
	f.Blank()
	f.B = append(f.B, text[1:]...)
	lost = b.Unread() != AllRead
	b.Release()
	return lost
}

// Watch passes the parts of a multipart body to w while the body's text is read. It must be
// called before the text is first read.
func (b *Body) Watch(w document.PartWatcher) { b.watcher = w }

// Sniff returns the media type of a body by its first bytes.
func Sniff(p []byte) string { return media.Sniff(p[:min(len(p), media.HeadLen)]) }
