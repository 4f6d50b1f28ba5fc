package event

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"

	"shuultuur/filter"
)

// maxNames is the most names counted for one question, at about 100 bytes each.
const maxNames = 1 << 20

// A Counter answers questions for stores that scan rows or sums of rows.
type Counter struct {
	questions []Question
	sums      []sums
}

// NewCounter checks the questions.
func NewCounter(questions []Question) (*Counter, error) {
	c := &Counter{questions: questions}
	seed := maphash.MakeSeed()
	for i := range questions {
		if err := Countable(questions[i].By); err != nil {
			return nil, err
		}
		c.sums = append(c.sums, sums{seed: seed, most: maxNames})
	}
	return c, nil
}

// Add counts a row for each question whose filter matches it.
func (c *Counter) Add(r *Row) {
	for i := range c.questions {
		q := &c.questions[i]
		if !q.Filter.Match(r) {
			continue
		}
		name := ""
		if q.By != Text {
			if name = q.By.Of(r); name == "" {
				continue
			}
			if q.By == Rule {
				name = r.Policy + "/" + name
			}
		}
		blocked := 0
		if r.Action == filter.Block {
			blocked = 1
		}
		c.AddSum(i, name, 1, blocked)
	}
}

// AddSum adds events with a name to question i, whose filter must match them.
// It does not keep the name's bytes.
func (c *Counter) AddSum(i int, name string, events, blocked int) {
	c.sums[i].add(name, events, blocked)
}

// Tallies returns the answers.
func (c *Counter) Tallies() [][]Tally {
	all := make([][]Tally, len(c.questions))
	for i := range c.sums {
		all[i] = c.sums[i].top(c.questions[i].Top)
		if c.questions[i].By == Text && len(all[i]) == 0 {
			all[i] = []Tally{{}} // even without rows
		}
	}
	return all
}

// Names returns the number of names of question i so far.
func (c *Counter) Names(i int) int { return c.sums[i].used }

// Unsorted returns all tallies of question i, unsorted.
func (c *Counter) Unsorted(i int) []Tally { return c.sums[i].atLeast(1) }

// sums counts events by name. It is a hash table that finds a name by a 64-bit hash with a
// secret seed. It does not compare the names themselves, which would cost more than everything
// else. Among a million names, two have the same hash once in 30 million times.
type sums struct {
	seed  maphash.Seed
	slots []sum    // slots, a power of two of them; one with events 0 is free
	names []string // used slots
	used  int
	most  int // names
}

type sum struct {
	hash            uint64
	events, blocked int
}

func (s *sums) add(name string, events, blocked int) {
	if s.used*4 >= len(s.slots)*3 {
		s.grow()
	}
	h := maphash.String(s.seed, name)
	i := s.find(h)
	slot := &s.slots[i]
	if slot.events == 0 {
		slot.hash = h
		s.names[i] = strings.Clone(name)
		s.used++
	}
	slot.events += events
	slot.blocked += blocked
}

// find returns the slot of a hash, or the free one where it belongs.
func (s *sums) find(h uint64) int {
	mask := len(s.slots) - 1
	i := int(h) & mask
	for s.slots[i].events != 0 && s.slots[i].hash != h {
		i = (i + 1) & mask
	}
	return i
}

// grow makes room: with more slots or, at the limit, by removing rare names.
func (s *sums) grow() {
	least, size := 0, max(256, 2*len(s.slots))
	if s.used >= s.most {
		least, size = s.median()+1, len(s.slots)
	}
	old, names := s.slots, s.names
	s.slots, s.names, s.used = make([]sum, size), make([]string, size), 0
	for i := range old {
		if old[i].events >= max(least, 1) {
			j := s.find(old[i].hash)
			s.slots[j], s.names[j] = old[i], names[i]
			s.used++
		}
	}
}

// median returns the number of events that half of the names do not exceed. These names are
// removed when there are too many. The top of the list stays right unless very many names are
// about equally frequent.
func (s *sums) median() int {
	var events []int
	for i := range s.slots {
		if n := s.slots[i].events; n > 0 {
			events = append(events, n)
		}
	}
	slices.Sort(events)
	return events[len(events)/2]
}

// top returns the n names with the most events, or all if n is 0.
func (s *sums) top(n int) []Tally {
	least := 0
	if n > 0 && n < s.used { // sort only candidates
		events := make([]int, 0, s.used)
		for i := range s.slots {
			if e := s.slots[i].events; e > 0 {
				events = append(events, e)
			}
		}
		slices.Sort(events)
		least = events[len(events)-n]
	}
	all := s.atLeast(max(least, 1))
	slices.SortFunc(all, func(a, b Tally) int {
		return cmp.Or(b.Events-a.Events, strings.Compare(a.Name, b.Name))
	})
	if n > 0 && len(all) > n {
		all = all[:n:n]
	}
	return all
}

// atLeast returns the names with at least that many events.
func (s *sums) atLeast(events int) []Tally {
	var all []Tally
	for i := range s.slots {
		if e := &s.slots[i]; e.events >= events {
			all = append(all, Tally{Name: s.names[i], Events: e.events, Blocked: e.blocked})
		}
	}
	return all
}
