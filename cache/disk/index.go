package disk

// An index has the places of objects. It is a hash table with open addressing: an entry takes
// 24 bytes, and 57 to 85 % of the places are used, so that an object costs at most 42 bytes.
type index struct {
	table []entry
	n     int
}

type entry struct {
	hash uint64 // of the key, never 0
	tag  uint32 // of the key
	seg  uint16 // last 16 bits of the segment's number
	uses uint8
	_    uint8
	off  uint32 // of the record, in units of align
	len  uint32
}

const entrySize = 24

func hashOf(k Key) (hash uint64, tag uint32) { return max(k.Lo, 1), uint32(k.Hi) }

func (x *index) at(hash uint64) int { return int((hash >> 32) * uint64(len(x.table)) >> 32) }

func (x *index) place(k Key) (i int, found bool) {
	hash, tag := hashOf(k)
	for i = x.at(hash); x.table[i].hash != 0; {
		if x.table[i].hash == hash && x.table[i].tag == tag {
			return i, true
		}
		if i++; i == len(x.table) {
			i = 0
		}
	}
	return i, false
}

func (x *index) get(k Key) *entry {
	if x.n == 0 {
		return nil
	}
	if i, ok := x.place(k); ok {
		return &x.table[i]
	}
	return nil
}

func (x *index) put(k Key, e entry) {
	if (x.n+1)*100 > len(x.table)*85 {
		x.grow()
	}
	i, ok := x.place(k)
	if !ok {
		x.n++
	}
	e.hash, e.tag = hashOf(k)
	x.table[i] = e
}

func (x *index) grow() {
	old := x.table
	x.table = make([]entry, max(64, len(old)+len(old)/2))
	for _, e := range old {
		if e.hash != 0 {
			i := x.at(e.hash)
			for x.table[i].hash != 0 {
				if i++; i == len(x.table) {
					i = 0
				}
			}
			x.table[i] = e
		}
	}
}

// remove removes an entry and moves the following ones up.
func (x *index) remove(k Key) bool {
	if x.n == 0 {
		return false
	}
	i, ok := x.place(k)
	if !ok {
		return false
	}
	x.n--
	size := len(x.table)
	for j := i; ; {
		if j++; j == size {
			j = 0
		}
		e := x.table[j]
		if e.hash == 0 {
			break
		}
		// It may move to i unless its home is between i and j.
		if home := x.at(e.hash); (j-home+size)%size >= (j-i+size)%size {
			x.table[i] = e
			i = j
		}
	}
	x.table[i] = entry{}
	return true
}

func (x *index) bytes() int64 { return int64(len(x.table)) * entrySize }

// keys returns the keys as far as the entries hold them, which suffices for [Store.Get].
func (x *index) keys() []Key {
	all := make([]Key, 0, x.n)
	for _, e := range x.table {
		if e.hash != 0 {
			all = append(all, Key{Lo: e.hash, Hi: uint64(e.tag)})
		}
	}
	return all
}
