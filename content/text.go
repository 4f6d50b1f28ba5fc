package content

import (
	"bytes"
	"context"
	"io"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"shuultuur/content/coding"
	"shuultuur/content/document"
	"shuultuur/content/limit"
	"shuultuur/content/markup"
	"shuultuur/content/media"
	"shuultuur/content/prose"
	"shuultuur/lib/charset"
)

const (
	headMost  = 64 << 10 // bytes searched for a charset in the head of a page
	sampleLen = 4 << 10  // bytes by which an undeclared charset is determined
	behind    = 4 << 10  // bytes of previous text that followers can see
	textStep  = 16 << 10 // bytes read at once
	handLen   = 16 << 10 // bytes of text passed on at once, if there is as much
	longWord  = 32 << 10 // passed on before its end
	freeText  = 64 << 10 // kept uncounted
	mostText  = 2 << 20  // kept if the pieces of a body are kept
)

const (
	// openWork is the work of reading a document within another one besides its bytes.
	openWork = 4 << 10
	// partExpansion is what each part of a body, such as a file in an archive, adds to its
	// expansion.
	partExpansion = 4 << 10
	// mostNested is the depth up to which nested documents are read.
	mostNested = 4
)

// A text is one reading of a body: a pass over its pieces that extracts the text.
type text struct {
	body    *Body
	stream  coding.Stream
	around  markup.Source
	scanner markup.Scanner
	how     media.Format
	message bool   // a multipart body begins with fields, as web archives do
	cues    bool   // plain text in which tags count, as in subtitles
	looks   string // the type according to the first bytes alone

	begun bool   // type and charset are known, except for sampling
	head  []byte // gathered until then
	want  int    // number of bytes to gather

	// asking means that no charset is declared: the text before the first non-ASCII byte is
	// read at once, and sample gathers the following bytes.
	asking bool
	sample []byte

	source   document.Source
	document document.Reader // of formats that are not one text
	pieces   *jsonPieces     // of JSON
	based    base64Reader    // of plain text
	basedAt  int             // its length in bytes

	// A multibyte charset: its decoder, kept for the next body.
	charset encoding.Encoding
	decoder transform.Transformer
	wide    bool // the decoder is in use
	cutOff  []byte
	utf8    [4 << 10]byte

	handed   int  // bytes of the text passed on to followers
	searched int  // number of bytes of it in which the end of the last word was searched for
	ended    int  // where that was
	trimmed  bool // the beginning of the text was removed
	crowded  bool // there was no room to keep it
	taken    int64
	finished bool
}

func (t *text) reset(b *Body, codings []coding.Coding) {
	t.body = b
	t.stream.Reset(&b.in, codings)
	t.begun, t.asking, t.wide, t.trimmed, t.finished, t.crowded = false, false, false, b.in.Forgotten(), false, false
	t.document = nil
	t.want, t.handed, t.searched, t.ended = media.HeadLen, 1, 0, 0
	t.head, t.cutOff, t.sample = t.head[:0], t.cutOff[:0], t.sample[:0]
	t.around = markup.Source{Work: b.bound, Scripts: b.in.Limits.Scripts, Deepest: b.level == mostNested, Outer: t}
	t.scanner.Reset(&t.around, false)
}

func (t *text) release() {
	t.stream.Close()
	if t.document != nil {
		t.document.Close()
	}
	t.based.drop()
	if t.pieces != nil {
		t.pieces.based.drop()
	}
	t.scanner.Release(keptText)
	if t.taken > 0 {
		t.body.in.Limits.Text.Release(t.taken)
		t.taken = 0
	}
	t.body, t.document = nil, nil
	texts.Put(t)
}

// advance reads everything available.
func (t *text) advance(ctx context.Context) error {
	for !t.finished {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := t.stream.Pull()
		bound := t.body.bound
		if !bound.Spend(len(p)) && len(p) > 0 {
			t.add(p)
		}
		if err != nil && !bound.Over() {
			t.finish()
		}
		if bound.Over() {
			t.abandon()
			err = limit.ErrTookTooLong
		}
		if err != nil || p == nil {
			t.passOn()
			break
		}
		if len(t.scanner.Out().B)-t.handed >= handLen {
			t.passOn()
		}
	}
	if t.finished {
		t.passOn() // to followers that joined late
	}
	if err := t.stream.Err(); err != io.EOF {
		return err
	}
	return nil
}

// completeWords returns the text up to its last complete word, or nearly all if that word is very
// long.
func (t *text) completeWords() []byte {
	f := t.scanner.Out()
	if t.searched > len(f.B) {
		t.searched, t.ended = 0, 0
	}
	from := max(t.searched, t.handed) // the beginning of a long word is not searched for each piece
	if k := bytes.LastIndexByte(f.B[from:], ' '); k >= 0 {
		t.ended = from + k + 1
	} else if bytes.HasSuffix(f.B, []byte(" ")) { // letters before it were joined, so it was not searched
		t.ended = len(f.B)
	}
	t.searched = len(f.B)
	n := max(t.ended, f.Fixed, t.handed)
	if len(f.B)-n > longWord && !f.Joins {
		n = f.FixMost()
	}
	return f.B[:n]
}

// passOn passes on new text to the followers.
func (t *text) passOn() {
	w := t.completeWords()
	if len(w) > t.handed {
		from := max(0, t.handed-behind)
		for _, f := range t.body.followers {
			f.Read(w[from:], t.handed-from)
		}
		t.handed = len(w)
	}
	most := t.body.in.Limits.Whole
	if most <= 0 {
		most = mostText
	}
	if t.claim(); int64(len(w)) > most || t.crowded {
		t.trimmed = true
	}
	switch {
	case t.crowded:
		t.trim()
		if f := t.scanner.Out(); cap(f.B) > freeText && len(f.B) <= freeText/2 {
			f.B = append(make([]byte, 0, freeText/2), f.B...)
		}
	case t.trimmed && t.handed > keptText/2:
		t.trim()
	}
}

// claim counts the memory of the text. Bodies whose reader has stopped keep it for as long as the
// reader likes.
func (t *text) claim() {
	m := t.body.in.Limits.Text
	if more := int64(cap(t.scanner.Out().B)-freeText) - t.taken; m != nil && more > 0 && !t.crowded {
		if t.crowded = !m.Acquire(more); !t.crowded {
			t.taken += more
		}
	}
}

// trim removes text that followers have read, except its end.
func (t *text) trim() {
	t.trimmed = true
	f := t.scanner.Out()
	if drop := t.handed - behind; drop > 0 {
		for f.B[drop]&0xC0 == 0x80 {
			drop--
		}
		t.scanner.Remove(drop)
		t.handed -= drop
		t.searched, t.ended = max(0, t.searched-drop), max(0, t.ended-drop)
	}
}

// add reads a decoded block.
func (t *text) add(p []byte) {
	for !t.begun {
		if len(t.head) == 0 && len(p) >= t.want {
			t.begin(p[:t.want], false)
			continue
		}
		n := min(len(p), t.want-len(t.head))
		t.head = append(t.head, p[:n]...)
		p = p[n:]
		if len(t.head) < t.want {
			return
		}
		t.flushHead(false)
	}
	t.write(p)
}

// flushHead begins with the gathered bytes.
func (t *text) flushHead(last bool) {
	if t.begin(t.head, last); t.begun {
		t.write(t.head)
		t.head = t.head[:0]
	}
}

// begin determines type and charset from the first bytes, or that more are needed.
func (t *text) begin(head []byte, last bool) {
	b := t.body
	typ, how := b.head.Judge(head, b.in.Limits.Scripts)
	if b.head.Invalid() && t != b.readings[0] {
		how = media.Plain
	}
	e, more := markup.CharsetOf(head, b.head.Charset(), how)
	switch {
	case e == nil && typ == "text/css":
		e = markup.SheetCharset(head)
	case media.IsPacked(typ):
		e = unicode.UTF8
	case e == nil && media.IsBinary(head):
		if e = charset.GuessUTF16(head); e == nil && how == media.Plain && media.FormatOf(typ) != media.Plain {
			e = unicode.UTF8
		}
	}
	if more && !last && t.want < headMost {
		t.want *= 2
		return
	}
	t.begun = true
	if t.looks = "text/html"; how != media.HTML {
		t.looks = media.Sniff(head)
	} else if len(head) > 0 && head[0] != '<' { // browsers show a picture that is labelled as a page
		if seen := media.Sniff(head); strings.HasPrefix(seen, "image/") {
			t.looks = seen
		}
	}
	if t == b.readings[0] {
		b.typ = typ
		t.startReadings(head, how)
	}
	t.how = how
	t.cues = how == media.Plain && (media.IsSubtitles(typ, head) || b.head.Mislabelled())
	if how == media.XML { // otherwise it is as reset left it
		t.scanner.Reset(&t.around, true)
	}
	t.scanner.SetTree(how == media.XML && typ != "application/xhtml+xml" && typ != "image/svg+xml")
	t.scanner.SetOffice(b.office)
	switch {
	case how == media.CSS || how == media.Script:
		t.scanner.BeginStrings(how == media.Script)
	case how == media.JSON && t.pieces == nil:
		t.pieces = &jsonPieces{}
		t.pieces.based.text.Reset()
	case how == media.JSON:
		t.pieces.reset()
	case how == media.Plain && isBase64(head):
		t.basedAt = 0
		t.based.open(t)
	}
	t.message = media.BeginsFields(head) && b.head.Type() != "multipart/form-data"
	switch {
	case how >= media.Members:
		t.source = document.Source{
			Head: &b.head, Limits: b.in.Limits, Work: b.bound, Room: b.room, Packed: b.packed, Out: t.scanner.Out(),
			Deepest: b.level == mostNested, Watcher: b.watcher, Outer: t,
		}
		t.document = document.New(&t.source, how, t.message)
	case e != nil:
		t.use(e)
	default:
		t.asking = how != media.None
	}
}

// startReadings starts the other readings that the first bytes suggest.
func (t *text) startReadings(head []byte, how media.Format) {
	b := t.body
	switch {
	case b.head.Invalid() && how != media.Plain:
		b.read(b.main())
	case b.head.Codings().Foreign() && len(b.head.Codings().All()) == 0:
		if c := coding.ByMagic(head); c != coding.None {
			b.head.Codings().Set(c)
			b.read(b.head.Codings().All())
		} else if media.IsBinary(head) && media.FormatOf(b.head.Type()) != media.None {
			b.Stop(UnknownCoding)
		}
	}
}

// use continues in the charset e; nil means unknown.
func (t *text) use(e encoding.Encoding) {
	f := t.scanner.Out()
	t.asking = false
	switch {
	case e == nil:
		f.High = charset.Windows1252.High()
	case e == unicode.UTF8:
	case charset.HighOf(e) != nil:
		f.High, f.Multi = charset.HighOf(e), false
	default:
		t.wide = true
		if t.charset != e {
			t.charset, t.decoder = e, e.NewDecoder().Transformer
		}
		t.decoder.Reset()
	}
	t.scanner.ApplyCharset()
}

// ask reads ASCII and gathers other bytes until they suffice to determine the charset.
func (t *text) ask(p []byte) {
	if len(t.sample) == 0 {
		n := charset.ASCIILen(p)
		t.scan(p[:n])
		p = p[n:]
	}
	n := min(len(p), sampleLen-len(t.sample))
	t.sample = append(t.sample, p[:n]...)
	if len(t.sample) == sampleLen {
		t.detectCharset()
		t.write(p[n:])
	}
}

// detectCharset determines the charset by the sample.
func (t *text) detectCharset() {
	t.use(charset.Guess(t.sample))
	sample := t.sample
	t.sample = t.sample[:0]
	t.write(sample)
}

// write reads decoded bytes in their charset.
func (t *text) write(p []byte) {
	switch {
	case len(p) == 0 || t.how == media.None:
		return
	case t.document != nil:
		for len(p) > 0 && !t.body.bound.Spend(min(len(p), textStep)) {
			q := p[:min(len(p), textStep)]
			t.document.Write(q)
			p = p[len(q):]
		}
		return
	case t.asking:
		t.ask(p)
		return
	case !t.wide:
		t.scan(p)
		return
	}
	if len(t.cutOff) > 0 {
		// No character in any charset needs more than a few bytes.
		had := len(t.cutOff)
		t.cutOff = append(t.cutOff, p[:min(len(p), 16)]...)
		n := t.transcode(t.cutOff, false)
		if n < had {
			t.cutOff = append(t.cutOff[:0], t.cutOff[n:]...)
			return
		}
		t.cutOff = t.cutOff[:0]
		p = p[n-had:]
	}
	n := t.transcode(p, false)
	t.cutOff = append(t.cutOff[:0], p[n:]...)
}

// transcode scans p as UTF-8 and returns the number of bytes used.
func (t *text) transcode(p []byte, last bool) int {
	n := 0
	for {
		nDst, nSrc, err := t.decoder.Transform(t.utf8[:], p[n:], last)
		n += nSrc
		t.scan(t.utf8[:nDst])
		if err != transform.ErrShortDst {
			return n
		}
	}
}

// scan reads text in UTF-8, or in single bytes, step by step, so that memory is allocated for
// the actual text instead of the possible one.
func (t *text) scan(p []byte) {
	f := t.scanner.Out()
	for len(p) > 0 {
		q := p[:min(len(p), textStep)]
		p = p[len(q):]
		if t.body.bound.Spend(len(q)) {
			return
		}
		switch t.how {
		case media.HTML, media.XML:
			t.scanner.Write(q)
		case media.JSON:
			for len(q) > 0 {
				n, say := t.pieces.read(q, t)
				if f.Write(q[:n], prose.JSONText); say {
					t.pieces.addText(f)
				}
				q = q[n:]
			}
		case media.Form:
			f.Write(q, prose.FormText)
		case media.Plain:
			table := prose.PlainText
			if t.cues {
				table = prose.CueText
			}
			if t.based.within == nil {
				f.Write(q, table)
				continue
			}
			for len(q) > 0 {
				n := min(len(q), saidLen-t.basedAt%saidLen)
				f.Write(q[:n], table)
				t.based.write(q[:n], false)
				if t.basedAt += n; t.basedAt%saidLen == 0 {
					t.based.addText(f)
				}
				q = q[n:]
			}
		case media.CSS, media.Script:
			t.scanner.WriteStrings(q)
		}
	}
}

// abandon ends the text where its limit was reached.
func (t *text) abandon() {
	t.finished = true
	t.stream.Abort(limit.ErrTookTooLong)
}

// finish ends the text with all incomplete parts. If the decoders produced nothing, the
// original bytes are read as well, because some clients would show them.
func (t *text) finish() {
	t.finished = true
	s := &t.stream
	if s.Err() != io.EOF {
		if t == t.body.readings[0] {
			t.body.Stop(s.Reason())
			if s.GaveNothing() && s.Coded() {
				t.body.read(nil)
			}
		}
	}
	if !t.begun {
		t.flushHead(true)
	}
	if t.asking && len(t.sample) > 0 {
		t.detectCharset()
	}
	if len(t.cutOff) > 0 {
		t.transcode(t.cutOff, true)
	}
	if t.document != nil {
		t.document.Finish()
	}
	t.based.close(t)
	t.based.addText(t.scanner.Out())
	if t.how == media.JSON && t.pieces != nil {
		t.pieces.based.close(t)
		t.pieces.addText(t.scanner.Out())
	}
	t.scanner.Finish()
	if t.scanner.Lost() {
		t.body.Stop(Intricate)
	}
	s.Close()
}
