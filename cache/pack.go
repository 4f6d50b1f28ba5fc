package cache

import "encoding/binary"

// An entry is an object in memory. Most objects are never requested again, and the garbage
// collector has to follow every reference of them. So a small one is packed until its first
// request: all but its verdicts and its mark are then one block of bytes.
type entry struct {
	*object // nil if packed
	packed  []byte
	// verdicts and parent are those of a packed object.
	verdicts *verdicts
	parent   *object
}

const (
	// mostPacked limits the body of packed objects: larger ones are in blocks that are reused.
	mostPacked = 1<<leastClass - 1
	// packedOverhead is the approximate memory of a packed object besides its bytes.
	packedOverhead = 300
)

// pack returns the object as an entry, and its memory in bytes. An object stays as it is if
// its memory is reused, or while it is on the disk or on its way there: whether it got there
// is noted in it.
func (o *object) pack() (entry, int64) {
	if o.length > mostPacked || o.blocks != nil || o.record != nil || o.written.Load() {
		return entry{object: o}, o.weight()
	}
	size := 128 + len(o.name) + len(o.url) + int(o.length) // the numbers take less than 128
	for i := range o.res.Fields {
		size += len(o.res.Fields[i].Name) + len(o.res.Fields[i].Value) + 2*binary.MaxVarintLen16
	}
	b := appendObject(make([]byte, 4, size), o)
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	for _, p := range o.body {
		b = append(b, p...)
	}
	return entry{packed: b, verdicts: o.verdicts, parent: o.parent}, packedOverhead + int64(cap(b))
}

// unpack returns the object of a packed entry for k, and replaces the entry by it.
func (s *shelf) unpack(k Key, e entry) *object {
	meta := binary.LittleEndian.Uint32(e.packed)
	o, err := decode(e.packed[4:meta:meta])
	if err != nil { // pack made it
		return nil
	}
	o.hasBody(e.packed[meta:])
	o.verdicts, o.parent = e.verdicts, e.parent
	o.lent.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.memory.Peek(k); ok && now.object == nil && &now.packed[0] == &e.packed[0] {
		s.memory.Change(k, entry{object: o}, o.weight())
	}
	return o
}

// hasBody sets the body of a decoded object.
func (o *object) hasBody(b []byte) {
	if o.length = int64(len(b)); o.length > 0 {
		o.body = [][]byte{b}
	}
	o.res.Length = o.length
}
