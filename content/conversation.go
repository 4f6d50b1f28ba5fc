package content

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// This file handles conversations: bodies and upgraded connections that are endless series of
// messages. A [Framer] splits one direction into messages, a [Window] keeps their recent text,
// and [Body.ResetText] shows that text to the checks as a body. Idle conversations take little
// memory: there are buffers only for incomplete messages and for recent text.

const (
	mostMessage  = 1 << 20 // bytes of a message that are inspected
	mostThreads  = 16
	threadLen    = 4 << 10 // bytes of text that are kept of each thread
	shortPiece   = 24      // average bytes up to which pieces are parts of words instead of sentences
	deflateTail  = "\x00\x00\xff\xff"
	mostJSONDeep = 32
	shortRun     = 4 // shortest run of text in binary data, in bytes
	placeAside   = 2
	placeRuns    = 3
	placeNames   = 4
	placeCBOR    = 5
)

// A Message is one message of a conversation.
type Message struct {
	Text    bool   // according to its frame; others may contain text too
	Control bool   // close, ping and the like, without content
	Data    []byte // decoded; valid until the next call
	Aside   []byte // of an event: its other lines, which a page shows if it displays the raw stream
	Unread  Reason // why Data is incomplete
}

// A Framer cuts the bytes of one direction of a conversation into messages.
type Framer interface {
	// Next reads from p and returns the number of bytes used: up to the end of a message (then
	// whole is true), or of a part of one, or all. An error means that the bytes are not such
	// a conversation; nothing more can be read.
	Next(p []byte) (n int, m Message, whole bool, err error)
	// Finish ends the conversation, and returns the message that is incomplete.
	Finish() Message
	// Part returns the received part of an incomplete message as a message, and continues with
	// the following bytes. ok is false if it cannot be read in parts.
	Part() (m Message, ok bool)
}

// Events frames server-sent events (HTML standard section 9.2.6). A message is the data of one
// event. The zero Events is ready for use.
type Events struct {
	line  []byte
	data  []byte
	aside []byte // comments, names, and lines that are not fields
	over  bool   // limit exceeded
	begun bool   // the first line was read
	cr    bool   // the previous line ended with CR
}

// Next implements [Framer].
func (e *Events) Next(p []byte) (n int, m Message, whole bool, err error) {
	for i, c := range p {
		if c == '\n' && e.cr {
			e.cr = false
			continue
		}
		if e.cr = c == '\r'; c != '\n' && c != '\r' {
			if len(e.line) < mostMessage {
				e.line = append(e.line, c)
			} else {
				e.over = true
			}
			continue
		}
		if m, whole := e.endLine(); whole {
			return i + 1, m, true, nil
		}
	}
	return len(p), m, false, nil
}

func (e *Events) endLine() (m Message, whole bool) {
	line := e.line
	if !e.begun {
		e.begun = true
		line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
	}
	if len(line) > 0 {
		e.field(line)
		e.line = e.line[:0]
		return m, false
	}
	if len(e.data) == 0 && len(e.aside) == 0 && !e.over {
		return m, false
	}
	return e.Finish(), true
}

// field reads a line of an event. A data field is a line of the message; other lines go to
// aside.
func (e *Events) field(line []byte) {
	to := &e.aside
	if rest, ok := bytes.CutPrefix(line, []byte("data")); ok && (len(rest) == 0 || rest[0] == ':') {
		to, line = &e.data, bytes.TrimPrefix(bytes.TrimPrefix(rest, []byte(":")), []byte(" "))
	}
	if len(*to)+len(line) > mostMessage {
		e.over = true
		return
	}
	*to = append(append(*to, line...), '\n')
}

// Finish implements [Framer].
func (e *Events) Finish() Message {
	if len(e.line) > 0 {
		e.field(e.line)
	}
	m := Message{Text: true, Data: bytes.TrimSuffix(e.data, []byte("\n")), Aside: e.aside}
	if e.over {
		m.Unread = TooLarge
	}
	// Keep nothing between events, which may be far apart.
	*e = Events{begun: true, cr: e.cr}
	return m
}

// Part implements [Framer].
func (e *Events) Part() (Message, bool) {
	goesOn := len(e.line) > 0
	m := e.Finish()
	if goesOn { // the line continues
		e.line = append(e.line, "data: "...)
	}
	return m, true
}

// Lines frames JSON texts on one line each (NDJSON), in which assistants send their answers
// word by word. A message consists of all complete lines available.
type Lines struct {
	data []byte
	over bool
}

// Next implements [Framer].
func (l *Lines) Next(p []byte) (n int, m Message, whole bool, err error) {
	end := bytes.LastIndexByte(p, '\n') + 1
	whole = end > 0
	if !whole {
		end = len(p)
	}
	keep := min(end, mostMessage-len(l.data))
	l.over = l.over || keep < end
	if l.data = append(l.data, p[:keep]...); whole {
		m = l.Finish()
	}
	return end, m, whole, nil
}

// Finish implements [Framer].
func (l *Lines) Finish() Message {
	m := Message{Text: true, Data: l.data}
	if l.over {
		m.Unread = TooLarge
	}
	*l = Lines{}
	return m
}

// Part implements [Framer].
func (l *Lines) Part() (Message, bool) { return l.Finish(), true }

// A WebSocket frames one direction of a WebSocket connection (RFC 6455) after
// the handshake, permessage-deflate (RFC 7692) included.
type WebSocket struct {
	// Deflate says that permessage-deflate was agreed on, Takeover that the sender keeps its
	// window between messages.
	Deflate, Takeover bool

	head       [14]byte
	nHead      uint8
	opcode     byte // of the message
	compressed bool
	final      bool
	control    bool
	over       bool
	mask       [4]byte
	masked     bool
	left       uint64 // of the frame
	at         uint64
	data       []byte
	window     []byte // of the decoder, as far as it is filled
}

var (
	errFrame = errors.New("malformed WebSocket frame")
	errGRPC  = errors.New("malformed gRPC message")
)

// Next implements [Framer].
func (w *WebSocket) Next(p []byte) (n int, m Message, whole bool, err error) {
	for n < len(p) {
		if w.left == 0 && !w.headWhole() {
			w.head[w.nHead] = p[n]
			w.nHead++
			n++
			if !w.headWhole() {
				continue
			}
			if err := w.begin(); err != nil {
				return n, m, false, err
			}
		} else {
			n += w.payload(p[n:])
		}
		if w.left == 0 {
			w.nHead = 0
			if w.control {
				return n, Message{Control: true}, true, nil
			}
			if w.final {
				return n, w.end(), true, nil
			}
			return n, m, false, nil
		}
	}
	return n, m, false, nil
}

// InMessage reports whether a message is incomplete.
func (w *WebSocket) InMessage() bool { return w.opcode != 0 }

func (w *WebSocket) headWhole() bool {
	if w.nHead < 2 {
		return false
	}
	size := uint8(2)
	switch w.head[1] & 0x7F {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if w.head[1]&0x80 != 0 {
		size += 4
	}
	return w.nHead == size
}

// begin reads the head of a frame (RFC 6455 section 5.2).
func (w *WebSocket) begin() error {
	h := w.head[:w.nHead]
	opcode := h[0] & 0x0F
	w.control = opcode >= 8
	switch w.left = uint64(h[1] & 0x7F); w.left {
	case 126:
		w.left = uint64(binary.BigEndian.Uint16(h[2:]))
	case 127:
		w.left = binary.BigEndian.Uint64(h[2:])
	}
	w.at = 0
	if w.masked = h[1]&0x80 != 0; w.masked {
		copy(w.mask[:], h[len(h)-4:])
	}
	final := h[0]&0x80 != 0
	switch {
	case h[0]&0x30 != 0, h[0]&0x40 != 0 && (!w.Deflate || opcode == 0 || w.control), w.left>>63 != 0:
		return errFrame
	case w.control:
		if opcode > 10 || !final || w.left > 125 {
			return errFrame
		}
		return nil
	case opcode > 2, opcode == 0 && w.opcode == 0, opcode != 0 && w.opcode != 0:
		return errFrame
	case opcode != 0:
		w.opcode, w.compressed = opcode, h[0]&0x40 != 0
	}
	w.final = final
	return nil
}

// payload reads the bytes of the frame in p.
func (w *WebSocket) payload(p []byte) int {
	n := int(min(uint64(len(p)), w.left))
	w.left -= uint64(n)
	if w.control {
		return n
	}
	keep := min(n, mostMessage-len(w.data))
	w.over = w.over || keep < n
	from := len(w.data)
	w.data = append(w.data, p[:keep]...)
	if w.masked {
		for i := range w.data[from:] {
			w.data[from+i] ^= w.mask[(w.at+uint64(i))&3]
		}
	}
	w.at += uint64(n)
	return n
}

// end ends a message.
func (w *WebSocket) end() Message {
	m := Message{Text: w.opcode == 1, Data: w.data}
	if w.over {
		m.Unread = TooLarge
	}
	if w.compressed && !w.over {
		m.Data, m.Unread = w.inflate(w.data)
	}
	w.opcode, w.final, w.over, w.data = 0, false, false, nil
	return m
}

// Finish implements [Framer].
func (w *WebSocket) Finish() Message { return w.end() }

// Part implements [Framer].
func (w *WebSocket) Part() (Message, bool) {
	if w.compressed || w.over || w.opcode == 0 {
		return Message{}, false
	}
	m := Message{Text: w.opcode == 1, Data: w.data}
	w.data = nil
	return m, true
}

// inflaters decode messages.
var inflaters sync.Pool

// inflate decompresses a message (RFC 7692 section 7.2.2).
func (w *WebSocket) inflate(p []byte) ([]byte, Reason) {
	d, _ := inflaters.Get().(*inflater)
	if d == nil {
		d = &inflater{}
	}
	defer func() {
		d.src, d.in = nil, nil
		inflaters.Put(d)
	}()
	d.reset(&pieces{p, []byte(deflateTail)})
	d.w = copy(d.out[:], w.window)
	d.given = d.w
	var out []byte
	for {
		block, err := d.block()
		if room := mostMessage - len(out); len(block) > room {
			w.window, w.Takeover = nil, false // the next message is unreadable if it refers to this one
			return append(out, block[:room]...), TooLarge
		}
		out = append(out, block...)
		switch {
		case err == io.EOF: // after a last block more may follow (RFC 7692 section 7.2.3.4)
			d.take(d.n & 7)
			d.state, d.last = atHeader, false
		case err == io.ErrUnexpectedEOF: // messages do not end their stream
			if w.Takeover {
				from := max(0, d.w-windowSize)
				w.window = append(w.window[:0], d.out[from:d.w]...)
			}
			return out, AllRead
		case err != nil:
			return out, Cut
		}
	}
}

// pieces is a source of bytes in memory.
type pieces [][]byte

func (p *pieces) next() ([]byte, error) {
	for len(*p) > 0 {
		first := (*p)[0]
		*p = (*p)[1:]
		if len(first) > 0 {
			return first, nil
		}
	}
	return nil, io.EOF
}

// A GRPC frames one direction of a gRPC or gRPC-web call, in which the length precedes each
// message.
type GRPC struct {
	Coding string // of messages, from grpc-encoding
	Base64 bool   // application/grpc-web-text

	head  [5]byte
	nHead uint8
	left  uint32
	over  bool
	data  []byte
	carry [4]byte // of base64
	nCar  uint8
	ready []byte // decoded but not used
}

// Next implements [Framer].
func (g *GRPC) Next(p []byte) (n int, m Message, whole bool, err error) {
	if !g.Base64 {
		return g.next(p)
	}
	for {
		if len(g.ready) > 0 {
			k, m, whole, err := g.next(g.ready)
			if g.ready = g.ready[k:]; whole || err != nil {
				return n, m, whole, err
			}
			g.ready = nil
		}
		for n < len(p) && g.nCar < 4 {
			if c := p[n]; isAlnum(c) || c == '+' || c == '/' || c == '=' {
				g.carry[g.nCar] = c
				g.nCar++
			}
			n++
		}
		if g.nCar < 4 {
			return n, m, false, nil
		}
		g.nCar = 0
		group := g.carry
		g.ready = unbase64(bytes.TrimRight(group[:], "="))
	}
}

func (g *GRPC) next(p []byte) (n int, m Message, whole bool, err error) {
	for n < len(p) || g.nHead == 5 && g.left == 0 {
		if g.nHead < 5 {
			g.head[g.nHead] = p[n]
			g.nHead++
			n++
			if g.nHead < 5 {
				continue
			}
			if g.head[0]&^0x83 != 0 { // 2 marks the end of a stream in Connect
				return n, m, false, errGRPC
			}
			g.left = binary.BigEndian.Uint32(g.head[1:])
		}
		k := int(min(uint32(min(len(p)-n, 1<<30)), g.left))
		keep := min(k, mostMessage-len(g.data))
		g.over = g.over || keep < k
		g.data = append(g.data, p[n:n+keep]...)
		g.left -= uint32(k)
		n += k
		if g.left == 0 {
			return n, g.end(), true, nil
		}
	}
	return n, m, false, nil
}

// Finish implements [Framer].
func (g *GRPC) Finish() Message {
	if g.nHead < 5 {
		g.head = [5]byte{}
	}
	return g.end()
}

// Part implements [Framer].
func (g *GRPC) Part() (Message, bool) {
	if g.over || g.nHead < 5 || g.head[0] != 0 {
		return Message{}, false
	}
	m := Message{Data: g.data}
	g.data = nil
	return m, true
}

func (g *GRPC) end() Message {
	m := Message{Text: g.head[0]&0x82 != 0, Data: g.data} // trailers are text
	switch {
	case g.over:
		m.Unread = TooLarge
	case g.head[0]&1 != 0 && len(g.data) > 0:
		m.Data, m.Unread = decode(g.Coding, g.data)
	}
	g.nHead, g.over, g.data = 0, false, nil
	return m
}

// decode decodes a complete message.
func decode(coding string, p []byte) ([]byte, Reason) {
	var b Body
	b.Reset(Describe("", coding), Limits{Whole: mostMessage})
	defer b.Release()
	if b.head.foreign {
		return nil, UnknownCoding
	}
	b.Append(p)
	b.Finish()
	out, err := b.Decoded()
	if err != nil {
		return bytes.Clone(out), b.decoded.stream.reason()
	}
	return bytes.Clone(out), b.Unread()
}

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
	names   []byte // of members in the current message
	shape   uint64 // hash of the names in the last message, which are usually the same
	apart   []byte // text of the last message that was joined to others but may also be separate
}

type thread struct {
	place uint64
	used  uint32
	mean  int // average length of pieces
	text  []byte
}

// Add adds the text of a message. It reports whether there is any, and why not all of it was
// read.
func (w *Window) Add(m Message) (some bool, why Reason) {
	w.apart = w.apart[:0]
	if m.Control || len(m.Data)+len(m.Aside) == 0 {
		return false, m.Unread
	}
	w.clock++
	w.names = w.names[:0]
	visit := func(place uint64, s []byte) {
		some = true
		if place == placeNames {
			w.names = append(append(w.names, s...), '\n')
			return
		}
		inner := textOfBase64(s)
		switch {
		case inner == nil:
			w.add(place, unpercented(s))
		case jsonStart(inner) < 0 || !walkJSON(inner, visitEncoded(place, w.add)):
			w.add(place, inner)
		}
	}
	switch {
	case m.Unread != AllRead:
	case !m.Text:
		m.Data, m.Unread = unpacked(m.Data)
	default: // programs may read it as UTF-16
		m.Data, m.Aside = toUTF8(m.Data), toUTF8(m.Aside)
	}
	if len(m.Aside) > 0 {
		visit(placeAside, m.Aside)
	}
	switch at := jsonStart(m.Data); {
	case len(m.Data) == 0:
	case at >= 0 && walkJSON(m.Data[at:], visit):
	case m.Text || readable(m.Data):
		visit(0, m.Data)
		w.joinLines(m.Data)
	case walkProtobuf(m.Data, 1, 0, visit) && some:
	default:
		runs(m.Data, placeRuns, visit)
	}
	if !m.Text {
		var work cborWork
		if walkCBOR(m.Data, placeCBOR, 0, &work, visit); work.lost && m.Unread == AllRead {
			m.Unread = TooLarge
		}
	}
	if h := xxh3.Hash(w.names); len(w.names) > 0 && h != w.shape {
		w.shape = h
		w.add(placeNames, w.names)
	}
	return some, m.Unread
}

// visitEncoded visits text encoded in a place, which names of members do not have.
func visitEncoded(place uint64, visit func(uint64, []byte)) func(uint64, []byte) {
	return func(inner uint64, s []byte) {
		if inner != placeNames {
			inner += place * 31
		}
		visit(inner, s)
	}
}

// unpercented decodes the URL escapes in s, if the result is text.
func unpercented(s []byte) []byte {
	if bytes.IndexByte(s, '%') < 0 {
		return s
	}
	if out := appendUnpercented(nil, s); len(out) < len(s) && utf8.Valid(out) {
		return out
	}
	return s
}

// toUTF8 converts p from UTF-16 to UTF-8 if it is UTF-16. A line end may be split.
func toUTF8(p []byte) []byte {
	if bytes.IndexByte(p, 0) < 0 {
		return p
	}
	if e := detectUTF16(p); e != nil {
		if out, err := e.NewDecoder().Bytes(p[:len(p)&^1]); err == nil {
			return out
		}
	}
	return p
}

// unpacked decompresses a binary message, or converts it from UTF-16.
func unpacked(p []byte) ([]byte, Reason) {
	switch codingByMagic(p) {
	case codingGzip:
		return decode("gzip", p)
	case codingZstd:
		return decode("zstd", p)
	case codingDeflate:
		if out, why := decode("deflate", p); why != Cut { // two bytes do not prove that it is zlib
			return out, why
		}
	}
	if e := detectUTF16(p); e != nil && len(p)%2 == 0 {
		if out, err := e.NewDecoder().Bytes(p); err == nil {
			return out, AllRead
		}
	}
	return p, AllRead
}

// shortBase64 is a length that cannot be distinguished from a word.
const shortBase64 = 16

// textOfBase64 decodes text from base64; it returns nil if s is not that.
func textOfBase64(s []byte) []byte {
	s = bytes.TrimSpace(s)
	if len(s) < shortBase64 {
		return nil
	}
	for _, c := range s {
		if !isAlnum(c) && c != '+' && c != '/' && c != '-' && c != '_' && c != '=' {
			return nil
		}
	}
	out := unbase64(s)
	if codingByMagic(out) != codingNone {
		out, _ = unpacked(out)
	}
	if len(out) >= shortBase64/2 && readable(out) {
		return out
	}
	return nil
}

// runs visits the runs of text in an unknown format (MessagePack, a proprietary format)
// as one text.
func runs(p []byte, place uint64, visit func(place uint64, s []byte)) {
	var out []byte
	start := 0
	end := func(i int) {
		if i-start >= shortRun {
			out = append(append(out, p[start:i]...), ' ')
		}
	}
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRune(p[i:])
		if r < ' ' && !isSpace(byte(r)) || r == 0x7F || r == utf8.RuneError && n == 1 {
			end(i)
			start = i + n
		}
		i += n
	}
	if end(len(p)); len(out) > 0 {
		visit(place, out)
	}
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
	default:
		t = &w.threads[oldest]
		*t = thread{place: place, mean: len(s), text: t.text[:0]}
	}
	t.used = w.clock
	t.mean = (t.mean*3 + len(s)) / 4
	switch tail, head := lettersBehind(t.text), lettersAhead(s); {
	case len(t.text) == 0:
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
		head := lettersAhead(line)
		if len(word) > 0 && len(head) > 0 && len(word)+len(head) <= longestPart {
			word, joined = append(word, head...), true
			if len(head) == len(line) { // it may continue
				continue
			}
		}
		say()
		word = append(word[:0], lettersBehind(line)...)
	}
	say()
}

// longestPart exceeds the length of a word, or of a part of one at the end or beginning of a
// message.
const longestPart = 64

// lettersBehind returns the letters at the end of p.
func lettersBehind(p []byte) []byte {
	i := len(p)
	for i > 0 && i > len(p)-longestPart && (isAlnum(p[i-1]) || p[i-1] >= utf8.RuneSelf) {
		i--
	}
	return p[i:]
}

// lettersAhead returns the letters at the beginning of p.
func lettersAhead(p []byte) []byte {
	i := 0
	for i < len(p) && i < longestPart && (isAlnum(p[i]) || p[i] >= utf8.RuneSelf) {
		i++
	}
	return p[:i]
}

// Trim forgets all but the recent text. Call it once the last added message has been
// inspected: until then all its text is kept.
func (w *Window) Trim() {
	for i := range w.threads {
		t := &w.threads[i]
		if over := len(t.text) - threadLen; over > 0 {
			t.text = append(make([]byte, 0, threadLen), t.text[over:]...)
		}
	}
}

// AppendText appends the text to dst, normalised as by [Body.Text].
func (w *Window) AppendText(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, ' ')
	for i := range w.threads {
		if p := w.threads[i].text; hasMarkup(p) {
			dst = append(appendPage(dst, p), ' ')
		} else {
			dst = append(Normalise(dst, p), ' ')
		}
	}
	dst = append(Normalise(dst, w.apart), ' ')
	n := start + 1
	for _, c := range dst[n:] {
		if c != ' ' || dst[n-1] != ' ' {
			dst[n] = c
			n++
		}
	}
	return dst[:n]
}

// hasMarkup reports whether p has tags or character references of HTML.
func hasMarkup(p []byte) bool {
	for i := 0; ; i++ {
		k := bytes.IndexAny(p[i:], "<&")
		if k < 0 || i+k+2 >= len(p) {
			return false
		}
		i += k
		rest := p[i+1:]
		switch {
		case p[i] == '&' && rest[0] == '#', p[i] == '<' && rest[0] == '/' && isLetter(rest[1]), bytes.HasPrefix(rest, []byte("!--")):
			return true
		case p[i] == '&':
			if end := bytes.IndexByte(rest[:min(len(rest), longestPart)], ';'); end > 1 && len(lettersAhead(rest)) == end {
				return true
			}
		case p[i] == '<' && (mayBegin(rest, "br") || mayBegin(rest, "img ")):
			return true
		}
	}
}

// appendPage appends the normalised text of a page.
func appendPage(dst, p []byte) []byte {
	var b Body
	b.Reset(htmlUTF8, Limits{})
	b.Append(p)
	b.Finish()
	text, _ := b.Text() // a page in memory without codings gives no error
	dst = append(dst, text...)
	b.Release()
	return dst
}

// jsonStart returns where JSON begins in a message, after prefixes of some protocols (a
// number, a guard against inclusion), or -1.
func jsonStart(p []byte) int {
	for i, c := range p[:min(len(p), 16)] {
		switch {
		case c == '{' || c == '[' || c == '"' && i == 0:
			return i
		case c >= 'a' && c <= 'z' && i > 0, c >= 0x80, c < ' ' && !isSpace(c) && c != 0x1E:
			return -1
		}
	}
	return -1
}

// walkJSON visits the strings in a series of JSON texts with their places, and reports whether
// there was any JSON.
func walkJSON(p []byte, visit func(place uint64, s []byte)) bool {
	j := jsonWalker{p: p, visit: visit}
	for n := 0; ; n++ {
		j.space()
		at := j.i
		if at == len(p) || !j.value(1, 0) {
			return n > 0 && at == len(p)
		}
	}
}

type jsonWalker struct {
	p     []byte
	i     int
	visit func(place uint64, s []byte)
}

func (j *jsonWalker) space() {
	for j.i < len(j.p) && (isSpace(j.p[j.i]) || j.p[j.i] == 0x1E) {
		j.i++
	}
}

// value reads one value, and returns false if there is none.
func (j *jsonWalker) value(place uint64, deep int) bool {
	j.space()
	if j.i == len(j.p) || deep > mostJSONDeep {
		return false
	}
	switch c := j.p[j.i]; c {
	case '"':
		s, ok := j.str()
		if !ok {
			return false
		}
		if at := jsonStart(s); at != 0 || !walkJSON(s, visitEncoded(place, j.visit)) {
			j.visit(place, s)
		}
		return true
	case '{', '[':
		return j.members(place, deep, c)
	}
	start := j.i
	for j.i < len(j.p) && (isAlnum(j.p[j.i]) || j.p[j.i] == '-' || j.p[j.i] == '+' || j.p[j.i] == '.') {
		j.i++
	}
	return j.i > start
}

func (j *jsonWalker) members(place uint64, deep int, open byte) bool {
	j.i++
	for {
		j.space()
		if j.i == len(j.p) {
			return false
		}
		switch c := j.p[j.i]; c {
		case '}', ']':
			j.i++
			return c == open+2
		case ',':
			j.i++
			continue
		}
		at := place * 31
		if open == '{' {
			key, ok := j.str()
			if j.space(); !ok || j.i == len(j.p) || j.p[j.i] != ':' {
				return false
			}
			j.i++
			j.visit(placeNames, key)
			at += xxh3.Hash(key)
		}
		if !j.value(at, deep+1) {
			return false
		}
	}
}

// str reads a string and decodes its escapes.
func (j *jsonWalker) str() ([]byte, bool) {
	if j.p[j.i] != '"' {
		return nil, false
	}
	j.i++
	start, escaped := j.i, false
	for ; j.i < len(j.p); j.i++ {
		switch j.p[j.i] {
		case '"':
			s := j.p[start:j.i]
			j.i++
			if escaped {
				s = unescapeJSON(s)
			}
			return s, true
		case '\\':
			escaped = true
			j.i++
		}
	}
	return nil, false
}

func unescapeJSON(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out = append(out, s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'n', 'r', 't', 'b', 'f':
			out = append(out, ' ')
		case 'u':
			r, n := jsonRune(s[i+1:])
			out = utf8.AppendRune(out, r)
			i += n
		default:
			out = append(out, c)
		}
	}
	return out
}

// jsonRune reads the digits after \u, and those of the second half of a surrogate pair.
func jsonRune(p []byte) (r rune, n int) {
	unit := func(p []byte) rune {
		if len(p) < 4 {
			return -1
		}
		u := rune(0)
		for _, c := range p[:4] {
			d := unhex(c)
			if d < 0 {
				return -1
			}
			u = u<<4 | d
		}
		return u
	}
	r = unit(p)
	switch {
	case r < 0:
		return utf8.RuneError, 0
	case r >= 0xD800 && r < 0xDC00 && len(p) >= 10 && p[4] == '\\' && p[5] == 'u':
		if low := unit(p[6:]); low >= 0xDC00 && low < 0xE000 {
			return (r-0xD800)<<10 + low - 0xDC00 + 0x10000, 10
		}
	}
	return r, 4
}

// readable reports whether p is text in UTF-8.
func readable(p []byte) bool {
	for _, c := range p {
		if c < ' ' && !isSpace(c) {
			return false
		}
	}
	return len(p) > 0 && utf8.Valid(p)
}

// walkProtobuf visits the strings of a protobuf message with an unknown schema: fields that
// are text, and those in fields that are messages. It reports whether p is such a message.
func walkProtobuf(p []byte, place uint64, deep int, visit func(place uint64, s []byte)) bool {
	if deep > 8 || !isProtobuf(p) {
		return false
	}
	for len(p) > 0 {
		tag, n := binary.Uvarint(p)
		p = p[n:]
		switch tag & 7 {
		case 0:
			_, n = binary.Uvarint(p)
		case 1:
			n = 8
		case 5:
			n = 4
		case 2:
			size, k := binary.Uvarint(p)
			field := p[k : k+int(size)]
			n = k + int(size)
			if at := place*31 + tag>>3; readable(field) {
				if start := jsonStart(field); start != 0 || !walkJSON(field, visit) {
					visit(at, field)
				}
			} else if !walkProtobuf(field, at, deep+1, visit) {
				runs(field, at, visit)
			}
		}
		p = p[n:]
	}
	return true
}

// isProtobuf reports whether all of p consists of fields.
func isProtobuf(p []byte) bool {
	if len(p) == 0 {
		return false
	}
	for len(p) > 0 {
		tag, n := binary.Uvarint(p)
		if n <= 0 || tag>>3 == 0 || tag>>3 >= 1<<29 {
			return false
		}
		p = p[n:]
		switch tag & 7 {
		case 0:
			_, n = binary.Uvarint(p)
		case 1:
			n = 8
		case 5:
			n = 4
		case 2:
			size, k := binary.Uvarint(p)
			if k <= 0 || size > uint64(len(p)-k) {
				return false
			}
			n = k + int(size)
		default:
			return false
		}
		if n <= 0 || n > len(p) {
			return false
		}
		p = p[n:]
	}
	return true
}

// ResetText prepares b as a body whose text is text, normalised as by [Window.AppendText].
// text must not change until Release.
func (b *Body) ResetText(text []byte) {
	b.Reset(Describe("text/plain", ""), Limits{})
	b.done = true
	b.len = int64(len(text))
	t := b.read(nil)
	t.begun, t.finished, t.how = true, true, formatPlain
	t.scanner.out.b = append(t.scanner.out.b[:0], text...)
	t.stream.err = io.EOF
}

// Next returns the next decoded bytes of a body that is read as it arrives and not kept. It
// returns nil if more pieces are needed, and io.EOF at the end. It is a separate pass over the
// body from that of the text; pieces must be read before Forget.
func (b *Body) Next() ([]byte, error) {
	if b.blocks == nil {
		b.blocks = &stream{}
		b.blocks.reset(b, b.main())
	}
	return b.blocks.pull()
}
