package redins

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"github.com/zeebo/xxh3"
)

// names holds a checksum of each name of a zone, without pointers and in about 30 bytes per
// name.
type names struct {
	all   []nameState
	slots []int32 // index in all plus 1; 0 is free. The length is a power of two
	text  []byte  // labels, each preceded by its length (2 bytes)
	dead  int     // unused bytes of text
	round uint16  // number of the read in progress
	last  int32   // the last one found, because names mostly arrive in the same order
}

// A nameState is the remembered state of a name.
type nameState struct {
	sum   uint64 // of its values; 0 if it has none
	at    uint32 // place of its label
	round uint16 // the read that last saw it
	types uint16 // keys that it has or may have (z42), by index in typeNames
}

// allTypes says that a name may have a key of every type.
const allTypes = 1<<14 - 1

var errNames = errors.New("it has too many names for one zone")

func (n *names) label(i int32) []byte {
	at := n.all[i].at
	size := uint32(n.text[at]) | uint32(n.text[at+1])<<8
	return n.text[at+2 : at+2+size]
}

// home returns the slot where the search for a label begins.
func (n *names) home(label []byte) int { return int(xxh3.Hash(label) & uint64(len(n.slots)-1)) }

// slot returns the slot of a label, or the free one for it.
func (n *names) slot(label []byte) int {
	at := n.home(label)
	for n.slots[at] != 0 && !bytes.Equal(n.label(n.slots[at]-1), label) {
		at = (at + 1) & (len(n.slots) - 1)
	}
	return at
}

// find returns the index of a label, -1 if unknown.
func (n *names) find(label []byte) int32 {
	if len(n.slots) == 0 {
		return -1
	}
	if next := n.last + 1; int(next) < len(n.all) && string(n.label(next)) == string(label) {
		n.last = next
		return next
	}
	n.last = n.slots[n.slot(label)] - 1
	return n.last
}

// add returns the index of a label, and adds it if needed.
func (n *names) add(label []byte) (at int32, fresh bool, err error) {
	if i := n.find(label); i >= 0 {
		return i, false, nil
	}
	if len(label) > math.MaxUint16 || len(n.text) > maxBytes || len(n.all) >= math.MaxInt32-1 {
		return 0, false, errNames
	}
	if len(n.all)+1 > len(n.slots)/8*7 {
		n.enter(max(16, 2*len(n.slots)))
	}
	n.all = append(n.all, nameState{at: uint32(len(n.text))})
	n.text = append(append(n.text, byte(len(label)), byte(len(label)>>8)), label...)
	at = int32(len(n.all) - 1)
	n.slots[n.slot(label)] = at + 1
	return at, true, nil
}

// enter rebuilds the slots.
func (n *names) enter(size int) {
	n.slots = make([]int32, size)
	for i := range int32(len(n.all)) {
		n.slots[n.slot(n.label(i))] = i + 1
	}
}

// remove removes the name at an index; the last name moves there.
func (n *names) remove(i int32) {
	label := n.label(i)
	n.dead += 2 + len(label)
	n.vacate(n.slot(label))
	if last := int32(len(n.all) - 1); i != last {
		n.slots[n.slot(n.label(last))] = i + 1
		n.all[i] = n.all[last]
	}
	n.all = n.all[:len(n.all)-1]
	if n.dead > len(n.text)/2+1<<10 {
		n.compact()
	}
}

// vacate frees a slot, and moves entries that the search would no longer find.
func (n *names) vacate(at int) {
	mask := len(n.slots) - 1
	for next := (at + 1) & mask; n.slots[next] != 0; next = (next + 1) & mask {
		if (next-n.home(n.label(n.slots[next]-1)))&mask >= (next-at)&mask {
			n.slots[at], at = n.slots[next], next
		}
	}
	n.slots[at] = 0
}

// compact removes the labels of removed names.
func (n *names) compact() {
	text := make([]byte, 0, len(n.text)-n.dead)
	for i := range n.all {
		label := n.label(int32(i))
		n.all[i].at = uint32(len(text))
		text = append(append(text, byte(len(label)), byte(len(label)>>8)), label...)
	}
	n.text, n.dead = text, 0
}

// beginRead begins a read. Names that it does not see are gone.
func (n *names) beginRead() { n.round, n.last = n.round+1, -1 }

// missingIndexes returns the indexes of names that this read did not see, the largest first.
func (n *names) missingIndexes() (places []int32) {
	for i, h := range slices.Backward(n.all) {
		if h.round != n.round {
			places = append(places, int32(i))
		}
	}
	return places
}
