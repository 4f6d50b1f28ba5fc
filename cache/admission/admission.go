// Package admission decides which objects a cache keeps: in memory ([Queue]),
// and which of them are worth writing to a disk ([Policy]).
//
// Data moves so. Memory admits every object. A [Queue] evicts by S3-FIFO: new
// objects pass through a first queue, and only those that are asked for again
// there reach the main one. Each request is also shown to the policy, which
// says when an object has earned being written: most objects are asked for
// once, and those never reach the disk. [Model] puts both together with a disk
// that holds no objects; it is what the simulator runs, and the live cache
// follows the same steps.
package admission

import (
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"

	"shuultuur/cache/bloom"
)

// A Key is the hash of an object's key.
type Key = xxh3.Uint128

// A Policy says which objects are written to the disk once that is full. Its
// owner calls it from one goroutine at a time.
type Policy interface {
	// Insert is called for an object that was asked for and is not stored
	// anywhere. It says whether the object is to be written.
	Insert(Key) bool
	// Hit is called when an object in memory that is not on the disk is asked
	// for again, and says whether it is to be written. uses is how often that
	// was since it came, at most MostUses; one that was in memory shortly
	// before begins with 1.
	Hit(k Key, uses int) bool
}

// Names returns the names of the policies, the default first.
func Names() []string { return []string{"s3-fifo", "bloom", "always"} }

// New returns the policy called name, "" for the default. window is about how
// many objects the cache holds: so many keys of the past it remembers.
func New(name string, window int) (Policy, error) {
	switch name {
	case "", "s3-fifo":
		return s3fifo{}, nil
	case "bloom":
		return doorkeeper{bloom.NewPair(window)}, nil
	case "always":
		return always{}, nil
	}
	return nil, fmt.Errorf("%q is not a policy of admission; there are %s", name, strings.Join(Names(), ", "))
}

// always writes every object.
type always struct{}

func (always) Insert(Key) bool   { return true }
func (always) Hit(Key, int) bool { return true }

// s3fifo writes an object that memory has seen often enough. Objects that are
// asked for two or three times are so many that writing them costs more than
// fetching them again.
type s3fifo struct{}

func (s3fifo) Insert(Key) bool          { return false }
func (s3fifo) Hit(_ Key, uses int) bool { return uses >= MostUses }

// A doorkeeper writes an object when a pair of Bloom filters has seen it
// before.
type doorkeeper struct{ seen *bloom.Pair }

func (p doorkeeper) Insert(k Key) bool { return p.seen.Seen(k) }
func (p doorkeeper) Hit(Key, int) bool { return true }

// ghosts are the last keys that left, without their objects. 32 bits of a key
// are enough: to take one for another does no harm.
type ghosts struct {
	ring []uint32
	next int
	at   map[uint32]int32 // position in ring
}

func newGhosts(n int) *ghosts {
	return &ghosts{ring: make([]uint32, max(n, 16)), at: map[uint32]int32{}}
}

func (g *ghosts) add(k Key) {
	f := uint32(k.Lo>>32) | 1 // 0 is an empty place
	if i, ok := g.at[f]; ok {
		g.ring[i] = 0
	}
	if old := g.ring[g.next]; old != 0 {
		delete(g.at, old)
	}
	g.ring[g.next], g.at[f] = f, int32(g.next)
	g.next = (g.next + 1) % len(g.ring)
}

// take says whether k is there, and takes it out.
func (g *ghosts) take(k Key) bool {
	f := uint32(k.Lo>>32) | 1
	i, ok := g.at[f]
	if ok {
		g.ring[i] = 0
		delete(g.at, f)
	}
	return ok
}
