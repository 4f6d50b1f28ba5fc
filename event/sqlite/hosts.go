package sqlite

import "math/bits"

// A hostSet is a Bloom filter of the hosts of a segment and of their parent
// domains. If it lacks a domain, the segment does too, so that a search for a
// rare host skips nearly all segments. Its size is a power of two.
type hostSet []byte

const (
	hostBits   = 16 // for each host
	hostProbes = 3
)

// newHostSet makes the set of hosts.
func newHostSet(hosts *columnBuilder) hostSet {
	s := make(hostSet, 1<<bits.Len(uint(len(hosts.ends)*hostBits/8)))
	for code := range hosts.ends {
		host, h := hosts.text(uint16(code)), uint64(hostSeed)
		for i := len(host) - 1; i >= 0; i-- {
			if host[i] == '.' {
				s.add(h)
			}
			h = hostStep(h, host[i])
		}
		s.add(h)
	}
	return s
}

// Domains are hashed from their end, so that one pass hashes all parents of a
// host.
const hostSeed = 0x9e3779b97f4a7c15

func hostStep(h uint64, c byte) uint64 { return (h ^ uint64(c)) * 0xff51afd7ed558ccd }

func (s hostSet) add(h uint64) {
	h ^= h >> 32
	for range hostProbes {
		h = h*hostSeed + 1
		bit := h >> 32 & uint64(len(s)*8-1)
		s[bit/8] |= 1 << (bit % 8)
	}
}

// has reports whether domain may be a host of the set or a parent of one. The
// empty set reports true.
func (s hostSet) has(domain string) bool {
	if len(s) == 0 || len(s)&(len(s)-1) != 0 {
		return true
	}
	h := uint64(hostSeed)
	for i := len(domain) - 1; i >= 0; i-- {
		h = hostStep(h, domain[i])
	}
	h ^= h >> 32
	for range hostProbes {
		h = h*hostSeed + 1
		bit := h >> 32 & uint64(len(s)*8-1)
		if s[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
	}
	return true
}
