package admission

import "shuultuur/lib/queue"

// A Model is a cache without objects: its hits and its disk writes.
type Model struct {
	memory *queue.Queue[*bool] // the value says whether the object is also on the disk
	policy Policy
	disk   *log // nil for none

	Hits, HitBytes     int64
	Misses, MissBytes  int64
	Writes, WriteBytes int64 // to the disk, including objects written again
}

// Sizes are the sizes of a cache in bytes.
type Sizes struct {
	Memory, Disk int64
	Segment      int64 // of the disk; 0: SegmentOf(Disk)
}

// SegmentOf returns the size of a segment on a disk of this size.
func SegmentOf(disk int64) int64 { return max(disk/64, 1) }

// NewModel returns a model with a policy for its disk. window is as in New.
func NewModel(s Sizes, p Policy, window int) *Model {
	m := &Model{memory: queue.New[*bool](s.Memory, window), policy: p}
	if s.Disk > 0 {
		if s.Segment == 0 {
			s.Segment = SegmentOf(s.Disk)
		}
		m.disk = &log{size: s.Disk, segment: s.Segment, items: map[Key]*place{}}
	}
	return m
}

// Request requests an object and reports whether it was there.
func (m *Model) Request(k Key, size int64) bool {
	written, uses, ok := m.memory.Get(k)
	switch {
	case ok && m.disk == nil:
	case ok && *written && m.disk.use(k):
	case ok:
		*written = m.policy.Hit(k, uses) && m.write(k, size)
	case m.disk != nil && m.disk.use(k):
	default:
		m.Misses++
		m.MissBytes += size
		w := m.disk != nil && (m.policy.Insert(k) || m.disk.unfilled(size)) && m.write(k, size)
		m.memory.Put(k, &w, size)
		return false
	}
	m.Hits++
	m.HitBytes += size
	return true
}

func (m *Model) write(k Key, size int64) bool {
	n, bytes := m.disk.write(k, size)
	m.Writes += n
	m.WriteBytes += bytes
	return n > 0
}

// A log is a disk that is written from beginning to end in segments. If there is no room, the
// oldest segment is emptied; objects in it that were used queue.MostUses times since they were
// written are written again.
type log struct {
	size, segment, bytes int64
	filled               bool // it was full once
	items                map[Key]*place
	segments             []segment // oldest first
}

type segment struct {
	keys  []Key
	bytes int64
}

type place struct {
	size int64
	uses uint8
}

func (l *log) use(k Key) bool {
	p := l.items[k]
	if p != nil && p.uses < queue.MostUses {
		p.uses++
	}
	return p != nil
}

func (l *log) room(size int64) bool { return l.bytes+size <= l.size }

// unfilled reports whether the disk has room that was never used.
func (l *log) unfilled(size int64) bool {
	l.filled = l.filled || !l.room(size)
	return !l.filled
}

// write appends an object and returns the number of objects and bytes written.
func (l *log) write(k Key, size int64) (objects, bytes int64) {
	if size > l.segment {
		return 0, 0
	}
	var again []Key
	for !l.room(size) && len(l.segments) > 0 {
		again = append(again, l.empty()...)
	}
	l.append(k, size)
	objects, bytes = 1, size
	for _, k := range again {
		p := l.items[k]
		if !l.room(p.size) {
			delete(l.items, k)
			continue
		}
		l.append(k, p.size)
		objects++
		bytes += p.size
	}
	return objects, bytes
}

func (l *log) append(k Key, size int64) {
	if n := len(l.segments); n == 0 || l.segments[n-1].bytes+size > l.segment {
		l.segments = append(l.segments, segment{})
	}
	s := &l.segments[len(l.segments)-1]
	s.keys = append(s.keys, k)
	s.bytes += size
	l.bytes += size
	l.items[k] = &place{size: size}
}

// empty empties the oldest segment and returns the keys of objects worth keeping.
func (l *log) empty() (again []Key) {
	s := l.segments[0]
	l.segments = l.segments[1:]
	l.bytes -= s.bytes
	for _, k := range s.keys {
		if l.items[k].uses >= queue.MostUses {
			again = append(again, k)
		} else {
			delete(l.items, k)
		}
	}
	return again
}
