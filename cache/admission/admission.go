// Package admission decides which objects of a cache are worth writing to a disk
// ([Policy]).
//
// Data moves so. Memory admits every object, and evicts as package queue does.
// Each request is also shown to the policy, which says when an object has earned
// being written: most objects are asked for once, and those never reach the disk. [Model] puts both together with a disk
// that holds no objects; it is what the simulator runs, and the live cache
// follows the same steps.
package admission

import (
	"fmt"
	"strings"

	"shuultuur/cache/bloom"
	"shuultuur/queue"
)

// A Key is the hash of an object's key.
type Key = queue.Key

// A Policy says which objects are written to the disk once that is full. Its
// owner calls it from one goroutine at a time.
type Policy interface {
	// Insert is called for an object that was asked for and is not stored
	// anywhere. It says whether the object is to be written.
	Insert(Key) bool
	// Hit is called when an object in memory that is not on the disk is asked
	// for again, and says whether it is to be written. uses is how often that
	// was since it came, at most queue.MostUses; one that was in memory shortly
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
func (s3fifo) Hit(_ Key, uses int) bool { return uses >= queue.MostUses }

// A doorkeeper writes an object when a pair of Bloom filters has seen it
// before.
type doorkeeper struct{ seen *bloom.Pair }

func (p doorkeeper) Insert(k Key) bool { return p.seen.Seen(bloom.Key(k.Hi)) }
func (p doorkeeper) Hit(Key, int) bool { return true }
