// Package admission decides which objects of a cache are written to its disk ([Policy]).
//
// Memory admits every object, and evicts as package queue does. The policy also sees each
// request, and decides when an object is worth writing: most objects are requested once, and
// those never reach the disk. [Model] combines both with a disk without objects; the simulator
// runs it, and the live cache follows the same steps.
package admission

import (
	"fmt"
	"strings"

	"shuultuur/lib/bloom"
	"shuultuur/lib/queue"
)

// A Key is the hash of an object's key.
type Key = queue.Key

// A Policy decides which objects are written to the disk once it is full. Its owner calls it
// from one goroutine at a time.
type Policy interface {
	// Insert is called for a requested object that is stored nowhere. It reports whether to
	// write the object.
	Insert(Key) bool
	// Hit is called when an object in memory that is not on the disk is requested again, and
	// reports whether to write it. uses is the number of such requests since the object came,
	// at most queue.MostUses; it begins with 1 for an object that was in memory shortly
	// before.
	Hit(k Key, uses int) bool
}

// Names returns the names of the policies, the default first.
func Names() []string { return []string{"s3-fifo", "bloom", "always"} }

// New returns the policy called name, "" for the default. window is the approximate number of
// objects in the cache: the policy remembers as many previous keys.
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

// s3fifo writes an object that was requested often enough while in memory. Objects requested
// two or three times are so many that writing them costs more than fetching them again.
type s3fifo struct{}

func (s3fifo) Insert(Key) bool          { return false }
func (s3fifo) Hit(_ Key, uses int) bool { return uses >= queue.MostUses }

// A doorkeeper writes an object if a pair of Bloom filters has seen it before.
type doorkeeper struct{ seen *bloom.Pair }

func (p doorkeeper) Insert(k Key) bool { return p.seen.Seen(bloom.Key(k.Hi)) }
func (p doorkeeper) Hit(Key, int) bool { return true }
