package bloom

import (
	"sync"
	"sync/atomic"
)

// full is the share of its capacity at which a filter of a Pair counts as full. Filters that
// are never filled further have far fewer false positives than completely full ones: the pair
// together has 0.3 %.
const full = 0.70

// A Pair remembers the latest keys: between window and 2·window different ones. Keys are added
// to the filter in use. When that is full, the other one is emptied and used instead, while
// the full one is still tested.
type Pair struct {
	mu  sync.Mutex // held while filters are exchanged
	two [2]*Filter
	use atomic.Uint32 // index of the filter in use
}

// NewPair returns a pair for a window of keys. It takes 27.6 bits per key.
func NewPair(window int) *Pair {
	n := int(float64(max(window, 1))/full) + 1
	return &Pair{two: [2]*Filter{New(n), New(n)}}
}

// Bits returns the size of both filters in bits.
func (p *Pair) Bits() int { return p.two[0].Bits() + p.two[1].Bits() }

func (p *Pair) limit() int { return int(float64(p.two[0].keys) * full) }

// Has reports whether k is remembered, without adding it.
func (p *Pair) Has(k Key) bool { return p.two[0].Has(k) || p.two[1].Has(k) }

// Seen adds k and reports whether it was already remembered.
func (p *Pair) Seen(k Key) bool {
	use := p.use.Load() & 1
	had := p.two[use].Add(k) || p.two[1-use].Has(k)
	if p.two[use].Added() >= p.limit() {
		p.rotate(use)
	}
	return had
}

// rotate exchanges the filters, unless another goroutine already has.
func (p *Pair) rotate(use uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.use.Load() != use {
		return
	}
	p.two[1-use].Reset()
	p.use.Store(1 - use)
}
