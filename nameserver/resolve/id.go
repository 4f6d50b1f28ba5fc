package resolve

import (
	"sync/atomic"
	"time"
)

// ids makes transaction IDs like those of the proxy: 11 letters of base32
// (Crockford's alphabet) of the time in microseconds, counted on by one where
// the clock has not moved.
type ids struct{ last atomic.Uint64 }

const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// append appends an ID.
func (n *ids) append(dst []byte, now time.Time) []byte {
	us := uint64(now.UnixMicro())
	for {
		last := n.last.Load()
		if us <= last {
			us = last + 1
		}
		if n.last.CompareAndSwap(last, us) {
			break
		}
	}
	for shift := 50; shift >= 0; shift -= 5 {
		dst = append(dst, crockford[us>>shift&31])
	}
	return dst
}
