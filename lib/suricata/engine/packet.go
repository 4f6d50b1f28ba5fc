package engine

import (
	"net/netip"
	"slices"
	"time"

	"shuultuur/lib/suricata/index"
	"shuultuur/lib/suricata/rule"
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
	d := dir.Index()
	s := &e.index[d]
	w := e.work.Get().(*work)
	defer e.release(w)
	w.tx, w.e, w.dir = tx, e, dir
	tx.state, tx.work = e.state, w
	tx.dir[d].at = rule.Complete
	tx.Packet.Stream = stream
	kind, tables := index.OnPacket, s.Packets
	if stream {
		kind, tables = index.OnStream, s.Streams
	}
	w.hits = append(w.hits[:0], s.Rest...)
	if !stream && tx.Flow.Begin(e, d) {
		src, dst := tx.ends(dir)
		w.hits = s.First(src.Addr(), dst.Addr(), w.hits)
	}
	for _, t := range tables {
		if !stream && t.Streamed && tx.Packet.InStream {
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
	w.matches = w.matches[:0]
	dst = w.tryAll(kind, dst)
	if window != nil {
		window.forget(w.matches)
	}
	return dst
}

// HasFrames reports whether a rule inspects frames that one side sends.
func (e *Engine) HasFrames(dir rule.Direction) bool { return len(e.index[dir.Index()].Frames) > 0 }

// TryFrame tries the rules on one frame, which is the only buffer of its source.
func (e *Engine) TryFrame(tx *Tx, dir rule.Direction, dst []Alert) []Alert {
	if tx.Flow.Passed {
		return dst
	}
	d := dir.Index()
	w := e.work.Get().(*work)
	defer e.release(w)
	w.tx, w.e, w.dir = tx, e, dir
	tx.state, tx.work = e.state, w
	tx.dir[d].at = rule.Complete
	w.hits = append(w.hits[:0], e.index[d].Frames...)
	w.matches = w.matches[:0]
	return w.tryAll(index.OnFrame, dst)
}

// tryAll tries the candidates of one kind.
func (w *work) tryAll(kind index.Kind, dst []Alert) []Alert {
	tx, e, dir, stream := w.tx, w.e, w.dir, kind == index.OnStream
	w.spent, w.clock = 0, time.Time{}
	for _, n := range sortUnique(w.hits) {
		k := e.rules[n]
		if k.Kinds&kind == 0 || k.disabled.Load() || !stream && tx.Packet.InStream && k.Kinds&index.OnStream != 0 {
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
		if c.matched {
			w.matches = append(w.matches, n)
		}
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
func (w *work) window(t *index.Table, win *Window) {
	b := w.buffer(w.dir, t.Buffer, 0, t.Chain)
	if !b.ok {
		return
	}
	if t.Chain == 0 {
		win.start = win.ended - int64(len(b.data))
		old := min(win.Kept, len(b.data))
		w.hits = t.FindNew(b.data, old, max(0, old-t.Longest()), &w.seen, w.hits)
		return
	}
	w.hits = t.Anchored(b.data, w.hits)
	w.hits = t.Find(b.data, &w.seen, w.hits)
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

// forget forgets the hits of rules that have matched: they match again only where their pattern
// occurs again.
func (win *Window) forget(rules []int32) {
	if len(rules) > 0 {
		win.hits = slices.DeleteFunc(win.hits, func(h windowHit) bool { return slices.Contains(rules, h.rule) })
	}
}

// SetSearched sets the offset in the stream up to which the window was searched.
func (win *Window) SetSearched(end int64) { win.ended = end }

// A CapturedPacket is a packet in the form that scripts get.
type CapturedPacket struct {
	Number          int
	Time            time.Time
	Src, Dst        netip.AddrPort
	Proto           uint8
	Payload, Packet []byte
}
