package engine

import "shuultuur/check/signature/rule"

// A sight records where a prefilter has found patterns in a body, so that rules that are tried
// afterwards need not search again: a pattern that was not found is absent, and one that was
// found a few times is nowhere else.
type sight struct {
	data   []byte  // the completely searched part; nil for nothing
	counts []uint8 // by pattern: number of occurrences
	ends   []ends  // by pattern that was found
	places []place
	sieve  sieve
}

// ends are the first and the last entry of a pattern in places, counted from 1.
type ends struct{ first, last int32 }

// A place is where a pattern begins, and the entry of the pattern's next position, counted
// from 1; 0 for none.
type place struct{ at, next int32 }

// maxPlaces is the number of positions of a pattern that are kept. If it occurs more often,
// none is used.
const maxPlaces = 250

// reset prepares for a search for n patterns.
func (s *sight) reset(n int) {
	if len(s.counts) < n {
		s.counts, s.ends = make([]uint8, n), make([]ends, n)
	}
	clear(s.counts[:n])
	s.places, s.data = s.places[:0], nil
}

// full reports whether more positions of a pattern need not be recorded.
func (s *sight) full(pat int32) bool { return s.counts[pat] > maxPlaces }

// add records a position of a pattern and reports whether it is the first.
func (s *sight) add(pat int32, at int) (first bool) {
	e := &s.ends[pat]
	if first = s.counts[pat] == 0; first {
		*e = ends{}
	}
	if s.counts[pat]++; s.counts[pat] > maxPlaces {
		return first
	}
	s.places = append(s.places, place{at: int32(at)})
	n := int32(len(s.places))
	if e.last == 0 || int(s.places[e.last-1].at) <= at {
		if e.last == 0 {
			e.first = n
		} else {
			s.places[e.last-1].next = n
		}
		e.last = n
		return first
	}
	to := &e.first // seldom: the patterns at two positions were found by other bytes of theirs
	for int(s.places[*to-1].at) <= at {
		to = &s.places[*to-1].next
	}
	s.places[n-1].next, *to = *to, n
	return first
}

// mark records that a pattern occurs somewhere, and reports whether that is new.
func (s *sight) mark(pat int32) (first bool) {
	first = s.counts[pat] == 0
	s.counts[pat] = maxPlaces + 1
	return first
}

// next returns the first position of a content between from and to, or -1. ok is false if not
// all positions are known. It continues at c, if that does not lie beyond from.
func (s *sight) next(pat int32, content *rule.Content, from, to int, c *cursor) (at int, ok bool) {
	if s.full(pat) {
		return -1, false
	}
	if s.counts[pat] == 0 {
		return -1, true
	}
	n := s.ends[pat].first
	if c.entry > 0 && c.pat == pat && c.from <= from {
		n = c.entry
	}
	for n > 0 && int(s.places[n-1].at) < from {
		n = s.places[n-1].next
	}
	*c = cursor{pat, n, from}
	for ; n > 0; n = s.places[n-1].next {
		i := int(s.places[n-1].at)
		if i+len(content.Pattern) > to {
			break
		}
		if equalAt(s.data[i:], content) {
			return i, true
		}
	}
	return -1, true
}

// A cursor is the entry of the first position of a pattern from a position on.
type cursor struct {
	pat   int32
	entry int32 // 0 for none
	from  int
}

// A searchedContent is a content of a group that a prefilter searches for.
type searchedContent struct {
	content *rule.Content
	pat     int32 // number among the patterns of bodies
	raw     int32 // number among those of content outside any buffer, for a group on that
}

// chooseContents sets, for groups on bodies and on content outside any buffer, which of their contents
// the prefilters of bodies and heads search for.
func (e *Engine) chooseContents(d int, t *table) {
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
			outside := g.outside()
			if c.dirs&rule.Direction(1<<d) == 0 || !inBody(g, d) && !outside {
				continue
			}
			var list []searchedContent
			for _, m := range g.matches {
				x := required(m)
				if x == nil {
					continue
				}
				n, ok := pats[patternOf(x)]
				r, inRaw := raw[patternOf(x)]
				if ok && (inRaw || !outside) {
					list = append(list, searchedContent{x, n, r})
				}
			}
			if list == nil {
				continue
			}
			if g.sought == nil {
				g.sought = new([2][]searchedContent)
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

// inBody reports whether a group inspects a body or file without transforms.
func inBody(g *group, d int) bool {
	return g.chain == 0 && (g.Buffer == rule.FileData || g.Buffer == bodies[d])
}

// outside reports whether a group inspects content outside any buffer, without transforms.
func (g *group) outside() bool { return g.chain == 0 && g.Buffer == rule.Payload }

// bodies are the buffers that usually have the bytes of the only file.
var bodies = [2]rule.Buffer{rule.RequestBody, rule.ResponseBody}

// bufferFacts are the knowledge of prefilters about a buffer.
type bufferFacts struct {
	contents []searchedContent
	body     *sight    // nil if the beginning is all
	head     *sight    // of the beginning of the stream; nil for a body
	shift    int       // where the body begins in the buffer
	cursors  [4]cursor // in the body, by content
}

// lacks reports whether some content is not in the buffer.
func (k *bufferFacts) lacks() bool {
	for i := range k.contents {
		x := &k.contents[i]
		if (k.body == nil || k.body.counts[x.pat] == 0) && (k.head == nil || k.head.counts[x.raw] == 0) {
			return true
		}
	}
	return false
}

// bodySeen returns the knowledge about a body for a group, if the body was
// searched.
func (w *work) bodySeen(g *group, data []byte) (k bufferFacts, lacks bool) {
	if g.sought == nil || w.body.data == nil || !sameMemory(data, w.body.data) {
		return k, false
	}
	k = bufferFacts{contents: g.sought[w.dir>>1], body: &w.body}
	return k, k.lacks()
}

// outsideSeen is like bodySeen for content outside any buffer.
func (w *work) outsideSeen(g *group) (k bufferFacts, lacks bool) {
	if g.Buffer != rule.Payload || g.sought == nil || w.begin.seen.data == nil {
		return k, false
	}
	src, ok := w.tx.Source.(partedSource)
	if !ok {
		return k, false
	}
	k = bufferFacts{contents: g.sought[w.dir>>1], head: &w.begin.seen, shift: w.begin.head}
	if _, _, body, _ := src.Parts(w.dir); w.begin.head+len(body) > len(w.begin.data) {
		if w.body.data == nil || !sameMemory(body, w.body.data) {
			return bufferFacts{}, false
		}
		k.body = &w.body
	}
	return k, k.lacks() || w.beginsWithout(g)
}

// beginsWithout reports that a content which must be at the beginning of the stream is absent.
// This needs no join of the rest of the stream.
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

// next returns the first position of content number n between from and to, or -1. ok is false
// if not all positions are known.
func (k *bufferFacts) next(n, from, to int) (at int, ok bool) {
	x := &k.contents[n]
	at, ok = -1, true
	if k.body != nil {
		if at, ok = k.body.next(x.pat, x.content, from-k.shift, to-k.shift, &k.cursors[n%len(k.cursors)]); at >= 0 {
			at += k.shift
		}
	}
	if k.head != nil && ok {
		first := 0
		if first, ok = k.head.next(x.raw, x.content, from, to, new(cursor)); first >= 0 && (at < 0 || first < at) {
			at = first
		}
	}
	return at, ok
}

// find returns the first position of a content between from and to, or -1.
func (in *inspector) find(c *rule.Content, from, to int) int {
	if to-from >= shortBuffer {
		for i := range in.known.contents {
			if in.known.contents[i].content != c {
				continue
			}
			if at, ok := in.known.next(i, from, to); ok {
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
