package nameserver

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"

	"github.com/gaissmai/bart"
)

// networks is a set of networks. Its element type is a pointer, because such
// tables share their code with others.
type networks struct{ t bart.Table[*networks] }

func newNetworks(of []netip.Prefix) *networks {
	n := new(networks)
	for _, p := range of {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		n.t.Insert(p.Masked(), nil)
	}
	return n
}

// contain reports whether an address is in one of the networks.
func (n *networks) contain(a netip.Addr) (ok bool) {
	_, ok = n.t.Lookup(a)
	return ok
}

// A limiter limits the rate of each key, by the generic cell rate algorithm. It
// is a table of fixed size without locks. A slot holds a part of the key's hash
// and the time at which the key has its full allowance again. A new key replaces
// the one of its four slots with the earliest such time. An attacker with more
// keys than slots can make it forget, but not grow.
type limiter struct {
	slots []atomic.Uint64 // 20 bits of the hash, 44 of the time in microseconds
	seed  maphash.Seed
}

const (
	limiterSlots = 1 << 16 // half a megabyte
	limiterWays  = 4
	timeBits     = 44 // wraps after 203 days
	timeMask     = 1<<timeBits - 1
	burst        = 1e6 // microseconds: the allowance of a second may be used at once
)

func newLimiter() *limiter {
	return &limiter{slots: make([]atomic.Uint64, limiterSlots), seed: maphash.MakeSeed()}
}

// take reports whether key may have another event now; every is the interval in
// microseconds.
func (l *limiter) take(key uint64, now, every int64) bool {
	set := l.slots[key%(limiterSlots/limiterWays)*limiterWays:][:limiterWays]
	tag := key >> timeBits << timeBits
	if tag == 0 {
		tag = 1 << timeBits // 0 is an empty slot
	}
	best, debt := 0, int64(1)<<62
	for i := range set {
		v := set[i].Load()
		d := timeAhead(v, now)
		if v&^timeMask == tag {
			best = i
			break
		}
		if v == 0 {
			d = -1
		}
		if d < debt {
			best, debt = i, d
		}
	}
	// Another goroutine may be faster. A lost update lets one more through,
	// which does no harm.
	for range 3 {
		v := set[best].Load()
		d := int64(0)
		if v&^timeMask == tag {
			d = max(timeAhead(v, now), 0)
		}
		if d > burst {
			return false
		}
		if set[best].CompareAndSwap(v, tag|uint64(now+d+every)&timeMask) {
			return true
		}
	}
	return true
}

// timeAhead returns how long after now a slot's time is: 0 if it has passed, or if
// it is so far away that it must be from before a wrap.
func timeAhead(v uint64, now int64) int64 {
	d := int64(v-uint64(now)) << (64 - timeBits) >> (64 - timeBits)
	if d > 4*burst {
		return 0
	}
	return max(d, 0)
}

// hash is the key of a client's network and the kind and name of a reply.
func (l *limiter) hash(of netip.Addr, kind byte, name []byte) uint64 {
	var in [16 + 1 + 255]byte
	a := of.As16()
	n := copy(in[:7], a[:7]) // IPv6: /56
	if of.Is4() {
		n = copy(in[:15], a[:15]) // IPv4: /24, behind the 12 bytes of its mapping
	}
	in[n] = kind
	n++
	n += copy(in[n:], name)
	return maphash.Bytes(l.seed, in[:n])
}

// client is the key of a client: an IPv4 address or an IPv6 /56.
func (l *limiter) client(a netip.Addr) uint64 {
	if a.Is4() {
		return maphash.Comparable(l.seed, a)
	}
	b := a.As16()
	return maphash.Comparable(l.seed, [7]byte(b[:7]))
}
