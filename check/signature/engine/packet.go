package engine

import (
	"net/netip"
	"slices"
	"time"

	"shuultuur/check/signature/rule"
)

// Try tries the rules on one packet, or with stream on a piece of a reassembled stream. A Tx
// can be used only once.
func (e *Engine) Try(tx *Tx, dir rule.Direction, stream bool, dst []Alert) []Alert {
	return e.attempt(tx, dir, stream, nil, dst)
}

func (e *Engine) attempt(tx *Tx, dir rule.Direction, stream bool, window *Window, dst []Alert) []Alert {
	if tx.Flow.Passed {
		return dst
	}
	d := int(dir >> 1)
	w := e.work.Get().(*work)
	defer e.release(w)
	w.tx, w.e, w.dir = tx, e, dir
	tx.state, tx.work = e.state, w
	tx.dir[d].at = rule.Complete
	tx.Packet.Stream = stream
	kind, tables := onPacket, e.packets[d]
	if stream {
		kind, tables = onStream, e.streams[d]
	}
	w.hits = append(w.hits[:0], e.alwaysP[d]...)
	if !stream && tx.Flow.begin(e, d) {
		src, dst := tx.ends(dir)
		w.hits = e.singles[d].find(src.Addr(), dst.Addr(), w.hits)
	}
	for _, t := range tables {
		if !stream && t.streamed && tx.Packet.InStream {
			continue
		}
		if window != nil {
			w.window(t, window)
			continue
		}
		scanned := 0
		w.prefilter(t, &scanned)
	}
	if window != nil {
		w.hits = window.keepHits(w.hits)
	}
	return w.tryAll(kind, dst)
}

// tryAll tries the candidates of one kind.
func (w *work) tryAll(kind kind, dst []Alert) []Alert {
	tx, e, dir, stream := w.tx, w.e, w.dir, kind == onStream
	w.spent, w.clock = 0, time.Time{}
	for _, n := range sortUnique(w.hits) {
		k := e.rules[n]
		if k.kinds&kind == 0 || k.disabled.Load() || !stream && tx.Packet.InStream && k.kinds&onStream != 0 {
			continue
		}
		if w.spent > messageWork {
			w.overMessage()
			break
		}
		if w.clock.IsZero() {
			w.clock = time.Now()
		}
		c := candidate{rule: n, dir: dir}
		dst = w.try(k, int(n), &c, dst)
		if tx.Flow.Passed {
			break
		}
	}
	return dst
}

// A Window is the part of a stream that is searched for content outside any buffer: Kept bytes
// that were searched before, and new ones. It remembers candidate rules while their pattern
// may be in it.
type Window struct {
	Kept  int
	start int64 // offset of its beginning in the stream
	ended int64 // bytes of the stream that were searched
	hits  []windowHit
}

// A windowHit is a rule whose pattern ended before a position of the stream.
type windowHit struct {
	rule int32
	end  int64
}

// maxWindowHits limits the hits that a window remembers; then the oldest are forgotten.
const maxWindowHits = 4096

// TryStream tries the rules on a window of a stream. It searches only the new bytes for
// patterns.
func (e *Engine) TryStream(tx *Tx, dir rule.Direction, win *Window, dst []Alert) []Alert {
	return e.attempt(tx, dir, true, win, dst)
}

// window searches the new bytes of a window for the patterns of one buffer.
func (w *work) window(t *table, win *Window) {
	b := w.buffer(w.dir, t.buffer, 0, t.chain)
	if !b.ok {
		return
	}
	data := b.data
	if t.chain == 0 {
		win.start = win.ended - int64(len(data))
		data = data[max(0, min(win.Kept, len(data))-t.pf.longest):]
	}
	w.anchored(t, b.data)
	w.search(t, data, &w.seen)
}

// keepHits adds the earlier hits that may still be in the window, and remembers the new ones.
func (win *Window) keepHits(hits []int32) []int32 {
	win.hits = slices.DeleteFunc(win.hits, func(h windowHit) bool { return h.end <= win.start })
	found := len(hits)
	for _, h := range win.hits {
		hits = append(hits, h.rule)
	}
	for _, n := range hits[:found] {
		win.hits = append(win.hits, windowHit{n, win.ended})
	}
	if over := len(win.hits) - maxWindowHits; over > 0 {
		win.hits = slices.Delete(win.hits, 0, over)
	}
	return hits
}

// SetSearched sets the offset in the stream up to which the window was searched.
func (win *Window) SetSearched(end int64) { win.ended = end }

// Forget resets a Tx and keeps its memory.
func (tx *Tx) Forget() {
	clear(tx.near)
	*tx = Tx{near: tx.near[:0]}
}

// A partedSource is a message whose stream consists of its parts: the first line, the fields as
// sent, and the body without codings.
type partedSource interface {
	// Parts returns the bytes that one side has sent so far: the first line without its end,
	// the fields with the empty line, and the body. ok is false if there is no line yet.
	Parts(dir rule.Direction) (line, fields, body []byte, ok bool)
	// Whole returns the parts joined, if that needs no copy of the body.
	Whole(dir rule.Direction) (all []byte, ok bool)
}

// A streamBeginning is the head of a message and the beginning of its body.
type streamBeginning struct {
	data []byte
	seen sight // of content outside any buffer; its data is nil if it was not searched now
	head int   // bytes of the head
}

// beginning searches for the patterns of content outside any buffer in the head and the first
// bytes of the body. The rest of the body is searched for them together with others.
func (w *work) beginning(p *progress) {
	t := w.e.raw[w.dir>>1]
	src, ok := w.tx.Source.(partedSource)
	if !ok || t == nil {
		return
	}
	line, fields, body, ok := src.Parts(w.dir)
	if !ok {
		return
	}
	b := &w.begin
	b.data = join(b.data, line, fields, body[:min(len(body), t.reach())])
	b.head = len(line) + len(lineEnd) + len(fields)
	if p.begun == len(b.data) {
		return
	}
	p.begun = len(b.data)
	w.anchored(t, b.data)
	w.search(t, b.data, &b.seen)
	b.seen.data = b.data
}

const lineEnd = "\r\n"

// join joins the parts of a stream, in the memory of dst.
func join(dst, line, fields, body []byte) []byte {
	dst = slices.Grow(dst[:0], len(line)+len(lineEnd)+len(fields)+len(body))
	dst = append(append(append(dst, line...), lineEnd...), fields...)
	return append(dst, body...)
}

// payload returns all bytes that one side has sent, if the source is parted. They are joined
// in memory that the next message reuses.
func (w *work) payload(dir rule.Direction) (data []byte, ok bool) {
	src, ok := w.tx.Source.(partedSource)
	if !ok {
		return nil, false
	}
	x := &w.whole[index(dir)]
	if !x.joined {
		line, fields, body, ok := src.Parts(dir)
		if !ok {
			return nil, false
		}
		if x.data, x.joined = src.Whole(dir); !x.joined {
			x.room = join(x.room, line, fields, body)
			x.data, x.joined = x.room, true
		}
	}
	return x.data, true
}

// outside tries the rules on content outside any buffer, on all that one side has sent so far:
// rules whose pattern was found, and those without a pattern.
func (w *work) outside(dst []Alert) []Alert {
	tx, e, d := w.tx, w.e, int(w.dir>>1)
	if !e.onStream[d] || tx.Flow.Passed || len(tx.dir[d].stream)+len(e.alwaysP[d])+len(e.streams[d]) == 0 {
		return dst
	}
	if _, ok := tx.Source.(partedSource); !ok {
		return dst
	}
	again := &w.again // rules on the stream see the current end as its end
	*again = Tx{Flow: tx.Flow, Source: tx.Source, App: tx.App, L4: tx.L4, Client: tx.Client, Server: tx.Server, Now: tx.Now, Packet: tx.Packet, Info: tx.Info, state: e.state, work: w}
	again.dir[d].at, again.Packet.Stream = rule.Complete, true
	w.tx = again
	w.hits = append(append(w.hits[:0], e.alwaysP[d]...), tx.dir[d].stream...)
	for _, t := range e.streams[d] { // with transforms
		w.prefilter(t, new(int))
	}
	dst = w.tryAll(onStream, dst)
	tx.Over.Add(again.Over)
	again.Close()
	w.tx = tx
	return dst
}

// HasStream reports whether a rule inspects content outside any buffer.
func (e *Engine) HasStream(dir rule.Direction) bool { return e.onStream[dir>>1] }

// NeedsFiles reports whether a rule tests the digest or the size of files.
func (e *Engine) NeedsFiles() bool {
	for _, k := range e.rules {
		for _, x := range k.pre {
			switch x := x.(type) {
			case *digestMatcher:
				return true
			case *rule.Integer:
				if x.Keyword == "filesize" {
					return true
				}
			}
		}
	}
	return false
}

// Has reports whether a rule inspects messages of one of the protocols in a direction, at step
// at or a later one.
func (e *Engine) Has(app Proto, dir rule.Direction, at rule.Progress) bool {
	return e.wants[dir>>1][at]&app != 0
}

// note updates the result of Has for a rule.
func (e *Engine) note(c *compiledRule) {
	app := c.app
	last := rule.Line
	for _, g := range c.groups {
		last = max(last, g.Buffer.Info().Progress)
		if app == 0 {
			switch g.Buffer.Info().Protocol {
			case "http":
				app |= HTTP1 | HTTP2
			case "http2":
				app |= HTTP2
			case "tls":
				app |= TLS
			case "dns":
				app |= DNS
			}
		}
		if g.Buffer == rule.Payload {
			last = max(last, rule.Body)
		}
	}
	for _, x := range c.Conditions {
		switch x := x.(type) {
		case *rule.Word, *rule.Lua:
			last = max(last, rule.Body)
		case *rule.Event:
			if x.Name == "http.gzip_decompression_failed" || x.Name == "http.compression_bomb" {
				last = max(last, rule.Body)
			}
		case *rule.Integer:
			if x.Keyword == "filesize" {
				last = max(last, rule.Body)
			}
		}
	}
	if app == 0 {
		app = HTTP1 | HTTP2
	}
	for d := range 2 {
		if c.dirs>>d&1 == 0 {
			continue
		}
		for p := rule.Line; p <= last; p++ {
			e.wants[d][p] |= app
		}
	}
}

// A CapturedPacket is a packet in the form that scripts get.
type CapturedPacket struct {
	Number          int
	Time            time.Time
	Src, Dst        netip.AddrPort
	Proto           uint8
	Payload, Packet []byte
}

// State returns the state of rules beyond the connection.
func (tx *Tx) State() *State { return tx.state }

// Variable returns the value of byte_extract or byte_math in a slot, for the rule being tried.
func (tx *Tx) Variable(i int) (uint64, bool) {
	if i >= len(tx.vars) {
		return 0, false
	}
	return tx.vars[i], true
}
