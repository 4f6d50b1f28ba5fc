package proxy

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"sync/atomic"
	"time"
)

// ids makes transaction IDs: 11 letters of base32 (Crockford's alphabet, so
// that they sort as bytes and can be read out over a telephone) of the time in
// microseconds, counted on by one where the clock has not moved. They are
// unique within a process and sort by time, across restarts too.
type ids struct{ last atomic.Uint64 }

const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

func (n *ids) next(now time.Time) string {
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
	var b [11]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = crockford[us&31]
		us >>= 5
	}
	return string(b[:])
}

func pseudonym() string {
	var b [8]byte
	rand.Read(b[:])
	v := binary.LittleEndian.Uint64(b[:])
	for i := range b {
		b[i] = crockford[v&31]
		v >>= 5
	}
	return string(b[:])
}

// basic returns the credentials of RFC 7617.
func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
