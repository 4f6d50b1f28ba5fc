package sign

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// remembered bounds the signatures made on demand that are kept, in sets of about 300 bytes,
// for each of two generations.
const remembered = 16384

// demand keeps signatures made on demand, and limits the rate at which they are made, because
// clients choose the names. It is safe for concurrent use.
type demand struct {
	perSecond float64

	mu         sync.Mutex
	young, old map[digest]signatureSet
	tokens     float64 // signatures that may be made now
	filled     time.Time

	fresh, found, refused atomic.Uint64
}

// signatureSet is the signatures of one set: the data of its RRSIG records, when they begin, and when
// the first expires.
type signatureSet struct {
	rdata                 [][]byte
	inception, expiration uint32
}

func newDemand(c Config) *demand {
	d := &demand{perSecond: float64(c.FreshPerSecond.Or(defaultFresh)), young: map[digest]signatureSet{}}
	if c.FreshPerSecond.Off() {
		d.perSecond = math.Inf(1)
	}
	d.tokens = d.perSecond
	return d
}

// find looks up a set. It does not return signatures that expire soon, or begin later because the clock
// was ahead.
func (c *demand) find(d digest, now time.Time) (signatureSet, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sigs, ok := c.young[d]
	if !ok {
		if sigs, ok = c.old[d]; ok {
			c.put(d, sigs)
		}
	}
	if ok = ok && int64(sigs.inception) <= now.Unix() && int64(sigs.expiration) > now.Add(reserve).Unix(); ok {
		c.found.Add(1)
	}
	return sigs, ok
}

// add adds a set that was signed with n signatures.
func (c *demand) add(d digest, sigs signatureSet) {
	c.fresh.Add(uint64(len(sigs.rdata)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(d, sigs)
}

// put adds a set; the caller holds the lock. When the young generation is full it becomes the
// old one, and sets that were not used since are dropped.
func (c *demand) put(d digest, sigs signatureSet) {
	if len(c.young) >= remembered {
		c.old, c.young = c.young, map[digest]signatureSet{}
	}
	c.young[d] = sigs
}

// allow reports whether n more signatures may be made now.
func (c *demand) allow(now time.Time, n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since := now.Sub(c.filled); since > 0 {
		c.tokens = min(c.perSecond, c.tokens+since.Seconds()*c.perSecond)
		c.filled = now
	}
	if c.tokens < float64(n) {
		c.refused.Add(1)
		return false
	}
	c.tokens -= float64(n)
	return true
}

// Counts returns the signatures made on demand, the sets found in the cache, and the
// signatures refused because of the rate.
func (s *Signer) Counts() (fresh, found, refused uint64) {
	return s.demand.fresh.Load(), s.demand.found.Load(), s.demand.refused.Load()
}
