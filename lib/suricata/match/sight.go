package match

import "shuultuur/lib/suricata/rule"

// A Sight records where a prefilter has found patterns in a body, so that rules that are tried
// afterwards need not search again: a pattern that was not found is absent, and one that was
// found a few times is nowhere else.
type Sight struct {
	Data   []byte  // the completely searched part; nil for nothing
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
func (s *Sight) reset(n int) {
	if len(s.counts) < n {
		s.counts, s.ends = make([]uint8, n), make([]ends, n)
	}
	clear(s.counts[:n])
	s.places, s.Data = s.places[:0], nil
}

// full reports whether more positions of a pattern need not be recorded.
func (s *Sight) full(pat int32) bool { return s.counts[pat] > maxPlaces }

// add records a position of a pattern and reports whether it is the first.
func (s *Sight) add(pat int32, at int) (first bool) {
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
func (s *Sight) mark(pat int32) (first bool) {
	first = s.counts[pat] == 0
	s.counts[pat] = maxPlaces + 1
	return first
}

// next returns the first position of a content between from and to, or -1. ok is false if not
// all positions are known. It continues at c, if that does not lie beyond from.
func (s *Sight) next(pat int32, content *rule.Content, from, to int, c *cursor) (at int, ok bool) {
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
		if equalAt(s.Data[i:], content) {
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

// Numbers returns the patterns with their numbers.
func (f *Prefilter) Numbers() map[Pattern]int32 {
	all := make(map[Pattern]int32, len(f.Patterns))
	for i, p := range f.Patterns {
		all[p] = int32(i)
	}
	return all
}
