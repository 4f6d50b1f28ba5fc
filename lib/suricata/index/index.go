// Package index finds the rules that may match.
//
// Each rule is an [Entry]: the kinds of data and the directions in which it is tried, and its
// groups. [Entry.Choose] selects the pattern for which it waits. [New] files the rules in an
// [Index]: those with a pattern in the [Table] of its buffer, those on addresses alone by their
// networks, and the others in lists of rules that are always tried. Buffers that usually have the
// same bytes share a table. The owner of a message searches each buffer with [Table.Find] and
// gets the numbers of the rules.
package index

import (
	"net/netip"
	"slices"
	"sort"

	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// Index finds rules, by direction.
type Index [2]Side

// A Side finds the rules that may match what one side sends.
type Side struct {
	Messages []*Table // of messages, those of heads first
	Heads    int      // number of tables of heads
	Streams  []*Table // of streams, with transforms if they are made from messages
	Packets  []*Table // of packets
	// Beginning is for content outside any buffer, if streams are made from messages; its
	// patterns are also among those of bodies.
	Beginning *Table
	Always    []int32 // rules on messages without a pattern
	Rest      []int32 // rules on packets and streams without a pattern
	Frames    []int32 // rules on frames
	OnStream  bool    // some rule inspects the stream
	addresses addressTable
}

// First returns the rules to try on the first packet of a connection because of its addresses.
func (s *Side) First(src, dst netip.Addr, hits []int32) []int32 {
	return s.addresses.find(src, dst, hits)
}

// Config says what the rules of an index are tried on.
type Config struct {
	Packets bool // there are packets; otherwise streams are made from messages
	// All tries every rule on everything.
	All bool
	// Scripted says, by chain of transforms, that a script takes part.
	Scripted []bool
}

// New makes an index of rules. They are reported by their numbers.
func New(rules []*Entry, c Config) *Index {
	b := &builder{Config: c, rules: rules, patterns: map[tableKey]map[match.Pattern][]int32{}, anchors: map[tableKey][]anchor{}}
	for n, r := range rules {
		b.file(int32(n), r)
	}
	for d := range 2 {
		b.share(d)
	}
	b.tables()
	for d := range b.index {
		s := &b.index[d]
		b.chooseContents(d)
		slices.SortFunc(s.Messages, orderTables)
		s.Heads = sort.Search(len(s.Messages), func(i int) bool { return !s.Messages[i].head })
	}
	return &b.index
}

// A tableKey identifies a table.
type tableKey struct {
	buffer rule.Buffer
	chain  int
	dir    int
	kind   Kind
}

// An builder makes an index.
type builder struct {
	Config
	rules    []*Entry
	patterns map[tableKey]map[match.Pattern][]int32
	anchors  map[tableKey][]anchor
	body     [2]*Table // of bodies and files
	index    Index
}

// file files a rule under its fast pattern, for each direction and kind of data.
func (b *builder) file(n int32, r *Entry) {
	for d := range 2 {
		dir := rule.Direction(1 << d)
		if r.Dirs&dir == 0 {
			continue
		}
		for _, k := range []Kind{OnMessage, OnPacket, OnStream, OnFrame} {
			switch {
			case r.Kinds&k == 0, k&(OnPacket|OnFrame) != 0 && !b.Packets:
			case b.All, r.Fast < 0, r.Groups[r.Fast].Dir&dir == 0 && !r.Exchange:
				b.fileWithoutPattern(k, d, n)
			case r.Groups[r.Fast].Dir&dir != 0: // or else the other direction will match
				b.filePattern(k, d, n)
			}
		}
	}
}

// filePattern files a rule under its fast pattern.
func (b *builder) filePattern(k Kind, d int, n int32) {
	r := b.rules[n]
	g := &r.Groups[r.Fast]
	key := tableKey{g.Buffer, g.Chain, d, k}
	switch {
	case k == OnPacket:
		key.kind = r.Kinds // rules on the stream have their own tables
	case outside(g) && !b.Packets:
		key.kind = OnStream // made from the message
	}
	if b.patterns[key] == nil {
		b.patterns[key] = map[match.Pattern][]int32{}
	}
	if a, ok := r.anchor(); ok {
		a.owner = n
		b.anchors[key] = append(b.anchors[key], a)
		return
	}
	p := match.NewPattern(r.Pattern(), !r.text.NoCase)
	b.patterns[key][p] = append(b.patterns[key][p], n)
}

// fileWithoutPattern files a rule without a pattern for a prefilter.
func (b *builder) fileWithoutPattern(k Kind, d int, n int32) {
	s := &b.index[d]
	s.OnStream = s.OnStream || k == OnStream
	if k == OnFrame {
		s.Frames = append(s.Frames, n)
	} else if k == OnMessage {
		s.Always = append(s.Always, n)
	} else if r := b.rules[n]; r.Single {
		s.addresses.add(r, n)
	} else if l := s.Rest; len(l) == 0 || l[len(l)-1] != n {
		s.Rest = append(l, n)
	}
}

// share merges tables for the same bytes: those of files and bodies, and that of the stream if
// it is made from the message.
func (b *builder) share(d int) {
	b.guard(d)
	to := tableKey{rule.FileData, 0, d, OnMessage}
	if raw := b.patterns[tableKey{rule.Payload, 0, d, OnStream}]; raw != nil && !b.Packets {
		if b.patterns[to] == nil {
			b.patterns[to] = map[match.Pattern][]int32{}
		}
		merge(b.patterns[to], raw)
	}
	from := tableKey{bodies[d], 0, d, OnMessage}
	if b.patterns[from] == nil || b.patterns[to] == nil {
		return
	}
	merge(b.patterns[to], b.patterns[from])
	b.anchors[to] = append(b.anchors[to], b.anchors[from]...)
	delete(b.patterns, from)
}

// guard adds a second pattern to the prefilter of bodies for each rule whose fast pattern is
// common in pages. The rule is then not tried if that pattern is absent.
func (b *builder) guard(d int) {
	for _, r := range b.rules {
		if r.Fast < 0 {
			continue
		}
		fast := &r.Groups[r.Fast]
		to := b.patterns[tableKey{fast.Buffer, fast.Chain, d, r.Kinds & OnMessage}]
		if fast.Buffer == rule.Payload {
			to = b.patterns[tableKey{fast.Buffer, fast.Chain, d, OnStream}]
		} else if !inBody(fast, d) {
			continue
		}
		if to == nil {
			continue
		}
		_, guard := r.rarest()
		if guard != nil && len(guard.Pattern) >= match.Gram && match.Rareness(guard.Pattern) >= min(guarding, match.Rareness(r.Pattern())+rarer) {
			if p := match.PatternOf(guard); to[p] == nil {
				to[p] = nil // searched for, but not the fast pattern of a rule
			}
		}
	}
}

// merge adds the owners of patterns in from to those in to.
func merge(to, from map[match.Pattern][]int32) {
	for p, owners := range from {
		to[p] = append(to[p], owners...)
	}
}

// tables makes the prefilters.
func (b *builder) tables() {
	for key, patterns := range b.patterns {
		s, info := &b.index[key.dir], key.buffer.Info()
		head := !b.Packets && key.buffer.InHead()
		t := &Table{
			Buffer: key.buffer, Chain: key.chain, At: info.Progress, anchors: b.anchors[key], Streamed: key.kind == OnPacket|OnStream, head: head,
			Fields: head && key.dir == 0 && info.Progress == rule.Headers && key.buffer != rule.Start && (key.chain == 0 || !b.Scripted[key.chain-1]),
		}
		var list []match.Pattern
		for p, owners := range patterns {
			list = append(list, p)
			t.owners = append(t.owners, owners)
		}
		t.search = match.NewPrefilter(list)
		if key.buffer == rule.FileData && key.chain == 0 && key.kind == OnMessage {
			t.Twin, t.HasTwin, b.body[key.dir] = bodies[key.dir], true, t
		}
		s.OnStream = s.OnStream || key.kind == OnStream
		switch {
		case key.buffer == rule.Payload && key.chain == 0 && !b.Packets:
			s.Beginning = t
		case key.kind == OnMessage:
			s.Messages = append(s.Messages, t)
		case key.kind == OnStream:
			s.Streams = append(s.Streams, t)
		default:
			s.Packets = append(s.Packets, t)
		}
	}
}

// orderTables puts tables of heads first.
func orderTables(a, b *Table) int {
	if a.head != b.head {
		if a.head {
			return -1
		}
		return 1
	}
	return (int(a.Buffer)-int(b.Buffer))*1000 + a.Chain - b.Chain
}

// chooseContents sets, for groups on bodies and on content outside any buffer, which of their
// contents the prefilters of bodies and heads search for.
func (b *builder) chooseContents(d int) {
	if b.body[d] == nil {
		return
	}
	pats, raw := b.body[d].search.Numbers(), map[match.Pattern]int32{}
	if t := b.index[d].Beginning; t != nil {
		raw = t.search.Numbers()
	}
	for _, r := range b.rules {
		for i := range r.Groups {
			g := &r.Groups[i]
			outside := outside(g)
			if r.Dirs&rule.Direction(1<<d) == 0 || !inBody(g, d) && !outside {
				continue
			}
			var list []match.Sought
			for _, m := range g.Matches {
				x := match.Required(m)
				if x == nil {
					continue
				}
				n, ok := pats[match.PatternOf(x)]
				first, inRaw := raw[match.PatternOf(x)]
				if ok && (inRaw || !outside) {
					list = append(list, match.Sought{Content: x, Pat: n, Raw: first})
				}
			}
			if list == nil {
				continue
			}
			if g.Sought == nil {
				g.Sought = new([2][]match.Sought)
			}
			g.Sought[d] = list
		}
	}
}
