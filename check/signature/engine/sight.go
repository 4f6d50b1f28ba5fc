package engine

import "shuultuur/check/signature/rule"

// A sight is where a prefilter has seen patterns in a body. Rules that are tried
// afterwards need not search for them again: a pattern that was not seen is not
// there, and one that was seen a few times is where it was seen.
type sight struct {
	data   []byte  // what was searched as a whole, nil for none
	counts []uint8 // by pattern: how often it was seen
	last   []int32 // by pattern that was seen: its last place in places, from 1
	places []place
}

// A place is where a pattern begins, and its place before, from 1, in a list.
type place struct{ at, before int32 }

// maxPlaces is how many places of a pattern are kept. Of one that occurs more often
// none is used.
const maxPlaces = 250

// reset makes ready for a search for n patterns.
func (s *sight) reset(n int) {
	if len(s.counts) < n {
		s.counts, s.last = make([]uint8, n), make([]int32, n)
	}
	clear(s.counts[:n])
	s.places, s.data = s.places[:0], nil
}

// full says whether more places of a pattern say nothing new.
func (s *sight) full(pat int32) bool { return s.counts[pat] > maxPlaces }

// add notes a place of a pattern and says whether it is the first.
func (s *sight) add(pat int32, at int) (first bool) {
	if first = s.counts[pat] == 0; first {
		s.last[pat] = 0
	}
	if s.counts[pat]++; s.counts[pat] <= maxPlaces {
		s.places = append(s.places, place{int32(at), s.last[pat]})
		s.last[pat] = int32(len(s.places))
	}
	return first
}

// mark notes that a pattern is somewhere, and says whether that is new.
func (s *sight) mark(pat int32) (first bool) {
	first = s.counts[pat] == 0
	s.counts[pat] = maxPlaces + 1
	return first
}

// next returns the first place of a content between from and to, or -1. ok is false
// when not all places are known.
func (s *sight) next(pat int32, c *rule.Content, from, to int) (at int, ok bool) {
	if s.full(pat) {
		return -1, false
	}
	at = -1
	for n := s.last[pat]; n > 0; n = s.places[n-1].before {
		if i := int(s.places[n-1].at); i >= from && i+len(c.Pattern) <= to && (at < 0 || i < at) && equalAt(s.data[i:], c) {
			at = i
		}
	}
	return at, true
}

// A sought is a content of a group for which a prefilter looks.
type sought struct {
	content *rule.Content
	pat     int32 // among the patterns of bodies
	raw     int32 // among those of content outside any buffer; of a group on that
}

// seek says for the groups on bodies and on content outside any buffer which of their
// contents the prefilter of bodies, and that of heads, look for.
func (e *Engine) seek(d int, t *table) {
	if t == nil {
		return
	}
	pats, raw := t.pf.numbers(), map[pattern]int32{}
	if e.raw[d] != nil {
		raw = e.raw[d].pf.numbers()
	}
	for _, c := range e.rules {
		for i := range c.groups {
			g := &c.groups[i]
			outside := g.Buffer == rule.Payload && g.chain == 0
			if c.dirs&rule.Direction(1<<d) == 0 || !inBody(g, d) && !outside {
				continue
			}
			var list []sought
			for _, m := range g.matches {
				x, ok := m.(*rule.Content)
				if !ok || x.Negated || len(x.Pattern) == 0 {
					continue
				}
				n, ok := pats[patternOf(x)]
				r, inRaw := raw[patternOf(x)]
				if ok && (inRaw || !outside) {
					list = append(list, sought{x, n, r})
				}
			}
			if list == nil {
				continue
			}
			if g.sought == nil {
				g.sought = new([2][]sought)
			}
			g.sought[d] = list
		}
	}
}

// numbers returns the patterns with their numbers.
func (f *prefilter) numbers() map[pattern]int32 {
	all := make(map[pattern]int32, len(f.pats))
	for i, p := range f.pats {
		all[p] = int32(i)
	}
	return all
}

// inBody says whether a group looks at a body or a file as it is.
func inBody(g *group, d int) bool {
	return g.chain == 0 && (g.Buffer == rule.FileData || g.Buffer == bodies[d])
}

// bodies are the buffers that mostly have the bytes of the only file.
var bodies = [2]rule.Buffer{rule.RequestBody, rule.ResponseBody}

// A known is what prefilters say about a buffer.
type known struct {
	contents []sought
	body     *sight // nil where the beginning is all
	head     *sight // of the beginning of the stream, nil for a body
	shift    int    // where the body begins in the buffer
}

// lacks says whether a content is not in the buffer.
func (k *known) lacks() bool {
	for i := range k.contents {
		x := &k.contents[i]
		if (k.body == nil || k.body.counts[x.pat] == 0) && (k.head == nil || k.head.counts[x.raw] == 0) {
			return true
		}
	}
	return false
}

// bodySeen returns what is known of a body for a group, if it was searched.
func (w *work) bodySeen(g *group, data []byte) (k known, lacks bool) {
	if g.sought == nil || w.body.data == nil || !same(data, w.body.data) {
		return k, false
	}
	k = known{contents: g.sought[w.dir>>1], body: &w.body}
	return k, k.lacks()
}

// outsideSeen does the same for content outside any buffer.
func (w *work) outsideSeen(g *group) (k known, lacks bool) {
	if g.Buffer != rule.Payload || g.sought == nil || w.begin.seen.data == nil {
		return k, false
	}
	src, ok := w.tx.Source.(parted)
	if !ok {
		return k, false
	}
	k = known{contents: g.sought[w.dir>>1], head: &w.begin.seen, shift: w.begin.head}
	if _, _, body, _ := src.Parts(w.dir); w.begin.head+len(body) > len(w.begin.data) {
		if w.body.data == nil || !same(body, w.body.data) {
			return known{}, false
		}
		k.body = &w.body
	}
	return k, k.lacks() || w.beginsWithout(g)
}

// beginsWithout says that a content which a rule wants at the beginning of the stream
// is not there. The rest of the stream need not be joined to know that.
func (w *work) beginsWithout(g *group) bool {
	data := w.begin.data
	for _, m := range g.matches {
		x, ok := m.(*rule.Content)
		if !ok || x.Negated || x.Relative() || !x.HasDepth || x.Offset.Var > 0 || x.Depth.Var > 0 {
			continue
		}
		from := 0
		if x.HasOffset {
			from = int(x.Offset.N)
		}
		if to := from + int(x.Depth.N); to <= len(data) && find(data[from:to], x) < 0 {
			return true
		}
	}
	return false
}

// next returns the first place of a content between from and to, or -1. ok is false
// when not all places are known.
func (k *known) next(x *sought, from, to int) (at int, ok bool) {
	at, ok = -1, true
	if k.body != nil {
		if at, ok = k.body.next(x.pat, x.content, from-k.shift, to-k.shift); at >= 0 {
			at += k.shift
		}
	}
	if k.head != nil && ok {
		first := 0
		if first, ok = k.head.next(x.raw, x.content, from, to); first >= 0 && (at < 0 || first < at) {
			at = first
		}
	}
	return at, ok
}

// find returns the first place of a content between from and to, or -1.
func (in *inspector) find(c *rule.Content, from, to int) int {
	if to-from >= shortBuffer {
		for i := range in.known.contents {
			x := &in.known.contents[i]
			if x.content != c {
				continue
			}
			if at, ok := in.known.next(x, from, to); ok {
				return at
			}
			break
		}
	}
	i := find(in.buf[from:to], c)
	if i < 0 {
		in.work += (to - from) / searchBytes
		return i
	}
	in.work += i / searchBytes
	return from + i
}
