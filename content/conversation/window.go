package conversation

import (
	"bytes"
	"slices"

	"github.com/zeebo/xxh3"

	"shuultuur/content"
	"shuultuur/content/data"
	"shuultuur/content/limit"
	"shuultuur/content/markup"
	"shuultuur/content/media"
	"shuultuur/content/prose"
	"shuultuur/lib/charset"
)

const (
	mostThreads = 16
	threadLen   = 4 << 10 // bytes of text that are kept of each thread
	shortPiece  = 24      // average bytes up to which pieces are parts of words instead of sentences
	openLen     = 128     // bytes that are kept apart of text to which a message is joined before it is inspected
	samePiece   = 4       // bytes from which a piece that comes again and again is no part of a word
	mostSame    = 3       // times in a row that such a piece is kept
)

// Places of texts in a message without a structure that has others.
const (
	placeAside = 2
	placeRuns  = 3
	placeCBOR  = 5

	placeControl = 6 // of frames between messages
	placeRest    = 7 // of what has no thread of its own
)

// A Window keeps the recent text of one direction of a conversation. The zero Window is empty.
//
// Text may continue in the next message, because assistants send their answers word by word.
// So the texts at the same place of each message (the same members in JSON, the same fields in
// protobuf) form a thread, and short pieces of a thread are joined.
//
// Messages may be encoded: markup and character references are read as in a page, base64 and
// the compression of binary messages are decoded.
type Window struct {
	threads []thread
	clock   uint32
	trimmed uint32 // the clock of the last Trim: threads used since have text that was not inspected
	names   []byte // of members in the current message
	shape   uint64 // hash of the names in the last message, which are usually the same
	apart   []byte // text since the last Trim that was joined to others but may also be separate
}

type thread struct {
	place uint64
	used  uint32
	mean  int    // average length of pieces
	last  uint64 // hash of the last piece, and how often it has come in a row
	same  int
	text  []byte
}

// Add adds the text of a message. It reports whether there is any, and why not all of it was
// read.
func (w *Window) Add(m Message) (some bool, why limit.Reason) {
	if len(m.Data)+len(m.Aside) == 0 {
		return false, m.Unread
	}
	if m.Control {
		w.clock++
		w.add(placeControl, m.Data)
		return true, m.Unread
	}
	w.clock++
	w.names = w.names[:0]
	visit := func(place uint64, s []byte) {
		some = true
		if place == data.Names {
			w.names = append(append(w.names, s...), '\n')
			return
		}
		inner := data.TextOfBase64(s)
		switch {
		case inner == nil:
			w.add(place, data.Unpercent(s))
		case media.JSONStart(inner) < 0 || !data.WalkJSON(inner, data.VisitWithin(place, w.add)):
			w.add(place, inner)
		}
	}
	switch {
	case m.Unread != content.AllRead:
	case !m.Text:
		m.Data, m.Unread = data.Unpack(m.Data)
	default: // programs may read it as UTF-16
		m.Data, m.Aside = toUTF8(m.Data), toUTF8(m.Aside)
	}
	if len(m.Aside) > 0 {
		visit(placeAside, m.Aside)
	}
	switch at := media.JSONStart(m.Data); {
	case len(m.Data) == 0:
	case at >= 0 && data.WalkJSON(m.Data[at:], visit):
	case m.Text || data.IsText(m.Data):
		visit(0, m.Data)
		w.joinLines(m.Data)
	case data.WalkProtobuf(m.Data, 1, 0, visit) && some:
	default:
		data.VisitRuns(m.Data, placeRuns, visit)
	}
	if !m.Text {
		var work data.CBORWork
		if data.WalkCBOR(m.Data, placeCBOR, 0, &work, visit); work.Lost && m.Unread == limit.AllRead {
			m.Unread = limit.TooLarge
		}
	}
	if h := xxh3.Hash(w.names); len(w.names) > 0 && h != w.shape {
		w.shape = h
		w.add(data.Names, w.names)
	}
	return some, m.Unread
}

// Set makes w the same as another. They share no memory.
func (w *Window) Set(from *Window) {
	own := w.threads[:cap(w.threads)]
	*w = Window{threads: own[:0], clock: from.clock, trimmed: from.trimmed, names: append(w.names[:0], from.names...), shape: from.shape, apart: append(w.apart[:0], from.apart...)}
	for i, t := range from.threads {
		var room []byte
		if i < len(own) {
			room = own[i].text[:0]
		}
		t.text = append(room, t.text...)
		w.threads = append(w.threads, t)
	}
}

// toUTF8 converts p from UTF-16 to UTF-8 if it is UTF-16. A line end may be split.
func toUTF8(p []byte) []byte {
	if bytes.IndexByte(p, 0) < 0 {
		return p
	}
	if e := charset.GuessUTF16(p); e != nil {
		if out, err := e.NewDecoder().Bytes(p[:len(p)&^1]); err == nil {
			return out
		}
	}
	return p
}

func (w *Window) add(place uint64, s []byte) {
	var t *thread
	oldest := 0
	for i := range w.threads {
		if w.threads[i].place == place {
			t = &w.threads[i]
			break
		}
		if w.threads[i].used < w.threads[oldest].used {
			oldest = i
		}
	}
	switch {
	case t != nil:
	case len(w.threads) < mostThreads:
		w.threads = append(w.threads, thread{place: place, mean: len(s)})
		t = &w.threads[len(w.threads)-1]
	case w.threads[oldest].used > w.trimmed && place != placeRest:
		w.add(placeRest, s)
		return
	case w.threads[oldest].used > w.trimmed:
		w.threads = append(w.threads, thread{place: placeRest})
		t = &w.threads[len(w.threads)-1]
	default:
		t = &w.threads[oldest]
		*t = thread{place: place, mean: len(s), text: t.text[:0]}
	}
	open := w.trimmed < t.used && t.used < w.clock // it has text of an earlier message that was not inspected
	t.used = w.clock
	t.mean = (t.mean*3 + len(s)) / 4
	if h := xxh3.Hash(s); h != t.last {
		t.last, t.same = h, 0
	}
	if t.same++; t.same > mostSame && len(s) >= samePiece { // the name of a model, say, which stands in each message
		return
	}
	if open && t.mean < shortPiece { // as it would have been inspected
		w.apart = append(append(w.apart, t.text[max(0, len(t.text)-openLen):]...), '\n')
	}
	switch tail, head := data.LettersBehind(t.text), data.LettersAhead(s); {
	case len(t.text) == 0:
	case place == placeRest:
		t.text = append(t.text, '\n')
	case t.mean >= shortPiece:
		if len(tail) > 0 && len(head) > 0 { // or they may be one word
			w.apart = append(append(append(w.apart, tail...), head...), '\n')
		}
		t.text = append(t.text, '\n')
	case len(tail) > 0 && len(head) > 0:
		w.apart = append(append(w.apart, s...), '\n')
	}
	t.text = append(t.text, s...)
}

// joinLines keeps words that are split by line ends, because programs may remove these.
func (w *Window) joinLines(p []byte) {
	if bytes.IndexByte(p, '\n') < 0 {
		return
	}
	var word []byte
	joined := false
	say := func() {
		if joined {
			w.apart = append(append(w.apart, word...), '\n')
		}
		joined = false
	}
	for line := range bytes.SplitSeq(p, []byte("\n")) {
		line = bytes.TrimRight(line, "\r")
		if len(line) == 0 {
			continue
		}
		head := data.LettersAhead(line)
		if len(word) > 0 && len(head) > 0 && len(word)+len(head) <= data.LongestPart {
			word, joined = append(word, head...), true
			if len(head) == len(line) { // it may continue
				continue
			}
		}
		say()
		word = append(word[:0], data.LettersBehind(line)...)
	}
	say()
}

// Trim forgets all but the recent text. Call it once the last added message has been
// inspected: until then all its text is kept.
func (w *Window) Trim() {
	w.trimmed, w.apart = w.clock, w.apart[:0]
	w.threads = slices.Delete(w.threads, min(len(w.threads), mostThreads), len(w.threads)) // the last may be that of the rest
	for i := range w.threads {
		t := &w.threads[i]
		if over := len(t.text) - threadLen; over > 0 {
			if cap(t.text) > 2*threadLen { // a long message was in it
				t.text = append(make([]byte, 0, 2*threadLen), t.text[over:]...)
			} else {
				t.text = t.text[:copy(t.text, t.text[over:])]
			}
		}
	}
}

// AppendText appends the text to dst, normalised as by [content.Body.Text].
func (w *Window) AppendText(dst []byte) []byte {
	dst = append(dst, ' ')
	for i := range w.threads {
		from := len(dst)
		if p := w.threads[i].text; markup.HasMarkup(p) {
			dst = content.AppendPage(dst, p)
		} else {
			dst = prose.Normalise(dst, p)
		}
		dst = single(dst, from)
	}
	if len(w.apart) > 0 {
		from := len(dst)
		dst = single(prose.Normalise(dst, w.apart), from)
	}
	return dst
}

// single leaves one blank at either end of the normalised text from a position on.
func single(dst []byte, from int) []byte {
	text := bytes.Trim(dst[from:], " ")
	if len(text) == 0 {
		return dst[:from]
	}
	return append(dst[:from+copy(dst[from:], text)], ' ')
}
