package engine

import (
	"slices"

	"shuultuur/lib/suricata/index"
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

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
	seen match.Sight // of content outside any buffer; its data is nil if it was not searched now
	head int         // bytes of the head
}

// beginning searches for the patterns of content outside any buffer in the head and the first
// bytes of the body. The rest of the body is searched for them together with others.
func (w *work) beginning(p *progress) {
	t := w.e.index[w.dir>>1].Beginning
	src, ok := w.tx.Source.(partedSource)
	if !ok || t == nil {
		return
	}
	line, fields, body, ok := src.Parts(w.dir)
	if !ok {
		return
	}
	b := &w.begin
	b.data = join(b.data, line, fields, body[:min(len(body), t.Reach())])
	b.head = len(line) + len(lineEnd) + len(fields)
	if p.begun == len(b.data) {
		return
	}
	p.begun = len(b.data)
	w.hits = t.Anchored(b.data, w.hits)
	w.hits = t.Find(b.data, &b.seen, w.hits)
	b.seen.Data = b.data
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
	x := &w.whole[dir.Index()]
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
	tx, e, d := w.tx, w.e, w.dir.Index()
	s := &e.index[d]
	if !s.OnStream || tx.Flow.Passed || len(tx.dir[d].stream)+len(s.Rest)+len(s.Streams) == 0 {
		return dst
	}
	if _, ok := tx.Source.(partedSource); !ok {
		return dst
	}
	again := &w.again // rules on the stream see the current end as its end
	*again = Tx{Flow: tx.Flow, Source: tx.Source, App: tx.App, L4: tx.L4, Client: tx.Client, Server: tx.Server, Now: tx.Now, Packet: tx.Packet, Info: tx.Info, state: e.state, work: w}
	again.dir[d].at, again.Packet.Stream = rule.Complete, true
	w.tx = again
	w.hits = append(append(w.hits[:0], s.Rest...), tx.dir[d].stream...)
	for _, t := range s.Streams { // with transforms
		w.prefilter(t, new(int))
	}
	dst = w.tryAll(index.OnStream, dst)
	tx.Over.Add(again.Over)
	again.Close()
	w.tx = tx
	return dst
}

// bodySeen returns the knowledge about a body for a group, if the body was
// searched.
func (w *work) bodySeen(g *match.Group, data []byte) (k match.Facts, lacks bool) {
	if g.Sought == nil || w.body.Data == nil || !sameMemory(data, w.body.Data) {
		return k, false
	}
	k = match.Facts{Contents: g.Sought[w.dir>>1], Body: &w.body}
	return k, k.Lacks()
}

// outsideSeen is like bodySeen for content outside any buffer.
func (w *work) outsideSeen(g *match.Group) (k match.Facts, lacks bool) {
	if g.Buffer != rule.Payload || g.Sought == nil || w.begin.seen.Data == nil {
		return k, false
	}
	src, ok := w.tx.Source.(partedSource)
	if !ok {
		return k, false
	}
	k = match.Facts{Contents: g.Sought[w.dir>>1], Head: &w.begin.seen, Shift: w.begin.head}
	if _, _, body, _ := src.Parts(w.dir); w.begin.head+len(body) > len(w.begin.data) {
		if w.body.Data == nil || !sameMemory(body, w.body.Data) {
			return match.Facts{}, false
		}
		k.Body = &w.body
	}
	return k, k.Lacks() || w.beginsWithout(g)
}

// beginsWithout reports that a content which must be at the beginning of the stream is absent.
// This needs no join of the rest of the stream.
func (w *work) beginsWithout(g *match.Group) bool {
	data := w.begin.data
	for _, m := range g.Matches {
		x, ok := m.(*rule.Content)
		if !ok || x.Negated || x.Relative() || !x.HasDepth || x.Offset.Var > 0 || x.Depth.Var > 0 {
			continue
		}
		from := 0
		if x.HasOffset {
			from = int(x.Offset.N)
		}
		if to := from + int(x.Depth.N); to <= len(data) && match.Find(data[from:to], x) < 0 {
			return true
		}
	}
	return false
}
