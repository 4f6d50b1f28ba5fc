package content

import (
	"bytes"
	"context"
	"io"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"shuultuur/content/charset"
	"strings"
)

const (
	headLen   = 1024     // bytes searched for type and charset
	headMost  = 64 << 10 // bytes searched for a charset in the head of a page
	sampleLen = 4 << 10  // bytes by which an undeclared charset is determined
	behind    = 4 << 10  // bytes of previous text that followers can see
	textStep  = 16 << 10 // bytes read at once
	handLen   = 16 << 10 // bytes of text passed on at once, if there is as much
	longWord  = 32 << 10 // passed on before its end
	mostText  = 2 << 20  // kept if the pieces of a body are kept
)

// An extractor extracts text from a format that consists of several texts.
type extractor interface {
	write(p []byte)
	finish()
}

// A text is one reading of a body: a pass over its pieces that extracts the text.
type text struct {
	body    *Body
	stream  stream
	scanner scanner
	how     format
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

	extractor extractor    // of formats that consist of several texts
	pieces    *jsonPieces  // of JSON
	based     base64Reader // of plain text
	basedAt   int          // its length in bytes

	// A multibyte charset: its decoder, kept for the next body.
	charset encoding.Encoding
	decoder transform.Transformer
	wide    bool // the decoder is in use
	cutOff  []byte
	utf8    [4 << 10]byte

	handed   int  // bytes of scanner.out.b passed on to followers
	trimmed  bool // the beginning of the text was removed
	finished bool
}

func (t *text) reset(b *Body, codings []coding) {
	t.body = b
	t.stream.reset(b, codings)
	t.begun, t.asking, t.wide, t.trimmed, t.finished = false, false, false, b.forgotten, false
	t.extractor = nil
	t.want, t.handed = headLen, 1
	t.head, t.cutOff, t.sample = t.head[:0], t.cutOff[:0], t.sample[:0]
	t.scanner.level, t.scanner.scripts = b.level, b.lim.Scripts
	t.scanner.reset(false)
}

func (t *text) release() {
	t.stream.reset(nil, nil)
	if c, ok := t.extractor.(interface{ close() }); ok {
		c.close()
	}
	t.based.drop()
	if t.pieces != nil {
		t.pieces.based.drop()
	}
	x := &t.scanner
	if cap(x.out.b) > keptText {
		x.out.b = nil
	}
	if cap(x.aside.b) > keptText {
		x.aside.b = nil
	}
	x.out.nfc, x.aside.nfc = nil, nil
	t.body, t.extractor = nil, nil
	texts.Put(t)
}

// advance reads everything available.
func (t *text) advance(ctx context.Context) error {
	for !t.finished {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := t.stream.pull()
		if len(p) > 0 {
			t.add(p)
		}
		if err != nil {
			t.finish()
		}
		if err != nil || p == nil {
			t.passOn()
			break
		}
		if len(t.scanner.out.b)-t.handed >= handLen {
			t.passOn()
		}
	}
	if t.finished {
		t.passOn() // to followers that joined late
	}
	if err := t.stream.err; err != io.EOF {
		return err
	}
	return nil
}

// completeWords returns the text up to its last complete word, or nearly all if that word is very
// long.
func (t *text) completeWords() []byte {
	f := &t.scanner.out
	n := bytes.LastIndexByte(f.b, ' ') + 1
	if n = max(n, f.fixed, t.handed); len(f.b)-n > longWord && !f.joins {
		n = len(f.b) - 64
		for f.b[n]&0xC0 == 0x80 {
			n--
		}
		f.fixed = n
	}
	return f.b[:n]
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
	most := t.body.lim.Whole
	if most <= 0 {
		most = mostText
	}
	if int64(len(w)) > most {
		t.trimmed = true
	}
	if t.trimmed && t.handed > keptText/2 {
		t.trim()
	}
}

// trim removes text that followers have read, except its end.
func (t *text) trim() {
	t.trimmed = true
	f := &t.scanner.out
	if drop := t.handed - behind; drop > 0 {
		for f.b[drop]&0xC0 == 0x80 {
			drop--
		}
		takeUpTo(&t.scanner.page, drop)
		f.b = f.b[:copy(f.b, f.b[drop:])]
		f.onRemoved(drop)
		t.handed -= drop
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

// judge determines type and format of a body by its first bytes and its fields.
func (b *Body) judge(head []byte) (typ string, how format) {
	h := &b.head
	switch typ = h.typ; {
	case typ == "" && h.nosniff:
		typ = "text/plain"
	case typ == "":
		typ = sniff(head)
	case typ == "text/plain" && !h.nosniff && h.nCharset == 0:
		if isBinary(head) {
			typ = sniff(head)
		}
	}
	how = formatOf(typ)
	switch {
	case how == formatUnread, how == formatNone && h.mislabelled():
		if how = formatOf(sniff(head)); how == formatUnread {
			how = unlabelled(head)
		}
	case how == formatRTF && !isRTF(head):
		how = formatPlain
	case how >= formatMembers && how != formatMIME && h.mislabelled() && len(head) > 0 && !isBinary(head) && !bytes.Contains(head, []byte("%PDF-")):
		how = formatOf(sniff(head))
	case how == formatMIME && h.nBoundary == 0 && bytes.HasPrefix([]byte(typ), []byte("multipart/")) && !beginsFields(head):
		if how = formatPlain; h.findBoundary(head) {
			how = formatMIME
		}
	case (how == formatCSS || how == formatScript) && h.literal(how, head):
		how = formatPlain
	case how == formatScript && h.use == Unsaid && !b.lim.Scripts && !isCallback(head):
		how = formatNone
	}
	switch {
	case h.use == Sheet && how == formatXML && bytes.Contains(head, []byte(xsltSpace)): // browsers request it like any style sheet
	case h.use == Sheet:
		how = formatCSS
	case h.mislabelled() && !isPacked(typ):
		how = programFormat(how, head)
	}
	return typ, how
}

// begin determines type and charset from the first bytes, or that more are needed.
func (t *text) begin(head []byte, last bool) {
	b := t.body
	typ, how := b.judge(head)
	if b.head.odd && t != b.readings[0] {
		how = formatPlain
	}
	e, more := charsetOf(head, b.head.charset[:b.head.nCharset], how)
	switch {
	case e == nil && typ == "text/css":
		e = sheetCharset(head)
	case isPacked(typ):
		e = unicode.UTF8
	case e == nil && isBinary(head):
		if e = detectUTF16(head); e == nil && how == formatPlain && formatOf(typ) != formatPlain {
			e = unicode.UTF8
		}
	}
	if more && !last && t.want < headMost {
		t.want *= 2
		return
	}
	t.begun = true
	if t.looks = "text/html"; how != formatHTML {
		t.looks = sniff(head)
	} else if len(head) > 0 && head[0] != '<' { // browsers show a picture that is labelled as a page
		if seen := sniff(head); strings.HasPrefix(seen, "image/") {
			t.looks = seen
		}
	}
	if t == b.readings[0] {
		b.typ = typ
		t.startReadings(head, how)
	}
	t.how = how
	t.cues = how == formatPlain && (isSubtitles(typ, head) || b.head.mislabelled())
	if how == formatXML { // otherwise it is as reset left it
		t.scanner.reset(true)
	}
	t.scanner.tree = how == formatXML && typ != "application/xhtml+xml" && typ != "image/svg+xml"
	t.scanner.out.broken.inText = t.scanner.tree
	t.scanner.css.script = how == formatScript
	t.scanner.office = b.office
	switch {
	case how == formatJSON && t.pieces == nil:
		t.pieces = &jsonPieces{}
		t.pieces.based.text.reset()
	case how == formatJSON:
		t.pieces.reset()
	case how == formatPlain && isBase64(head):
		t.basedAt = 0
		t.based.open(t)
	}
	t.message = beginsFields(head) && b.head.typ != "multipart/form-data"
	switch {
	case how >= formatMembers:
		t.extractor = t.extract(how)
	case e != nil:
		t.use(e)
	default:
		t.asking = how != formatNone
	}
}

func (t *text) extract(how format) extractor {
	w := &wholeReader{text: t, most: 16 << 20}
	if n := t.body.lim.Whole; n > 0 {
		w.most = int(n)
	}
	switch how {
	case formatMembers:
		return newMemberReader(t)
	case formatMIME:
		return newMIMEReader(t, &t.body.head, t.message)
	case formatRTF:
		return newRTFReader(t)
	case formatCBOR:
		w.read = readCBOR
		return &cborReader{*w}
	case formatPDF:
		w.read = readPDF
	default:
		w.read = readArchive
	}
	return w
}

// startReadings starts the other readings that the first bytes suggest.
func (t *text) startReadings(head []byte, how format) {
	b := t.body
	switch {
	case b.head.odd && how != formatPlain:
		b.read(t.stream.codings)
	case b.head.foreign && b.head.nCodings == 0:
		if c := codingByMagic(head); c != codingNone {
			b.head.codings[0] = c
			b.read(b.head.codings[:1])
		} else if isBinary(head) && formatOf(b.head.typ) != formatNone {
			b.Stop(UnknownCoding)
		}
	}
}

// codingByMagic returns the coding that the first bytes show.
func codingByMagic(p []byte) coding {
	switch {
	case bytes.HasPrefix(p, []byte("\x1F\x8B\x08")):
		return codingGzip
	case bytes.HasPrefix(p, []byte("\x28\xB5\x2F\xFD")):
		return codingZstd
	case len(p) > 2 && p[0]&0x0F == 8 && p[0]>>4 < 8 && p[1]&0x20 == 0 && (uint(p[0])<<8|uint(p[1]))%31 == 0:
		return codingDeflate
	}
	return codingNone
}

// use continues in the charset e; nil means unknown.
func (t *text) use(e encoding.Encoding) {
	x := &t.scanner
	t.asking = false
	switch {
	case e == nil:
		x.out.high = charset.Windows1252.High()
	case e == unicode.UTF8:
	case singleByte(e) != nil:
		x.out.high, x.out.multi = singleByte(e), false
	default:
		t.wide = true
		if t.charset != e {
			t.charset, t.decoder = e, e.NewDecoder().Transformer
		}
		t.decoder.Reset()
	}
	x.aside.high, x.aside.multi = x.out.high, x.out.multi
}

// ask reads ASCII and gathers other bytes until they suffice to determine the charset.
func (t *text) ask(p []byte) {
	if len(t.sample) == 0 {
		n := asciiLen(p)
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
	t.use(guess(t.sample))
	sample := t.sample
	t.sample = t.sample[:0]
	t.write(sample)
}

// write reads decoded bytes in their charset.
func (t *text) write(p []byte) {
	switch {
	case len(p) == 0 || t.how == formatNone:
		return
	case t.extractor != nil:
		t.extractor.write(p)
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
	x := &t.scanner
	for len(p) > 0 {
		q := p[:min(len(p), textStep)]
		p = p[len(q):]
		switch t.how {
		case formatHTML, formatXML:
			x.write(q)
		case formatJSON:
			for len(q) > 0 {
				n, say := t.pieces.read(q, t)
				if x.out.write(q[:n], jsonText); say {
					t.pieces.addText(&x.out)
				}
				q = q[n:]
			}
		case formatForm:
			x.out.write(q, formText)
		case formatPlain:
			table := plainText
			if t.cues {
				table = cueText
			}
			if t.based.within == nil {
				x.out.write(q, table)
				continue
			}
			for len(q) > 0 {
				n := min(len(q), saidLen-t.basedAt%saidLen)
				x.out.write(q[:n], table)
				t.based.write(q[:n], false)
				if t.basedAt += n; t.basedAt%saidLen == 0 {
					t.based.addText(&x.out)
				}
				q = q[n:]
			}
		case formatCSS, formatScript:
			x.css.write(&x.out, q)
		}
	}
}

// finish ends the text with all incomplete parts. If the decoders produced nothing, the
// original bytes are read as well, because some clients would show them.
func (t *text) finish() {
	t.finished = true
	s := &t.stream
	if s.err != io.EOF {
		if t == t.body.readings[0] {
			t.body.Stop(s.reason())
			if !s.given && len(s.codings) > 0 {
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
	if t.extractor != nil {
		t.extractor.finish()
	}
	t.based.close(t)
	t.based.addText(&t.scanner.out)
	if t.how == formatJSON && t.pieces != nil {
		t.pieces.based.close(t)
		t.pieces.addText(&t.scanner.out)
	}
	t.scanner.finish()
	if e := t.scanner.out.entities; t.scanner.lost || t.scanner.css.lost || e != nil && e.over {
		t.body.Stop(TooLarge)
	}
	s.close()
}
