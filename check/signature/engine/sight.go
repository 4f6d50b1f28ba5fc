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
const maxPlaces = 64

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
	pat     int32
}

// seek says for the groups on bodies which of their contents the prefilter of bodies
// looks for.
func (e *Engine) seek(d int, t *table) {
	pats := make(map[string]int32, len(t.pf.pats))
	for i, p := range t.pf.pats {
		pats[string(p)] = int32(i)
	}
	for _, c := range e.rules {
		for i := range c.groups {
			g := &c.groups[i]
			if c.dirs&rule.Direction(1<<d) == 0 || !inBody(g, d) {
				continue
			}
			var list []sought
			for _, m := range g.matches {
				if x, ok := m.(*rule.Content); ok && !x.Negated && len(x.Pattern) > 0 {
					if n, ok := pats[string(fold(x.Pattern))]; ok {
						list = append(list, sought{x, n})
					}
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

// inBody says whether a group looks at a body or a file as it is.
func inBody(g *group, d int) bool {
	return g.chain == 0 && (g.Buffer == rule.FileData || g.Buffer == bodies[d])
}

// bodies are the buffers that mostly have the bytes of the only file.
var bodies = [2]rule.Buffer{rule.RequestBody, rule.ResponseBody}

// lacks says whether a content of a group is not in a body that was searched, and
// lets the inspector use the places of those that are.
func (w *work) lacks(g *group, data []byte) bool {
	if g.sought == nil || w.body.data == nil || !same(data, w.body.data) {
		return false
	}
	known := g.sought[w.dir>>1]
	for i := range known {
		if w.body.counts[known[i].pat] == 0 {
			return true
		}
	}
	w.in.known, w.in.sight = known, &w.body
	return false
}

// find returns the first place of a content between from and to, or -1.
func (in *inspector) find(c *rule.Content, from, to int) int {
	if to-from >= shortBuffer {
		for i := range in.known {
			if in.known[i].content != c {
				continue
			}
			if at, ok := in.sight.next(in.known[i].pat, c, from, to); ok {
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
