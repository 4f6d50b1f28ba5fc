package filter

import (
	"sync/atomic"
	"time"
)

// Crockford is Crockford's alphabet of base32: it sorts like bytes and can be read out over a
// telephone.
const Crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// IDs makes transaction IDs: the time in microseconds as 11 letters of base32 ([Crockford]),
// incremented when the clock has not advanced. IDs of one IDs are unique and sort by time,
// also across restarts. The zero value is ready and safe for concurrent use.
type IDs struct{ last atomic.Uint64 }

// Append appends an ID to dst.
func (n *IDs) Append(dst []byte, now time.Time) []byte {
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
		dst = append(dst, Crockford[us>>shift&31])
	}
	return dst
}

// Next returns an ID as a string.
func (n *IDs) Next(now time.Time) string {
	var b [11]byte
	return string(n.Append(b[:0], now))
}
