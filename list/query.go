package list

import (
	"bytes"
	"net/netip"
	"strings"

	"github.com/zeebo/xxh3"

	"shuultuur/dns"
)

const (
	maxHost   = 253  // RFC 1035, 2.3.4, as text without the final dot
	maxLabels = 127  // what fits into maxHost
	maxKey    = 2048 // host and path of an entry
)

// defaultSeed of the hash. All files use the same, so that one Query serves
// them all without hashing again. Who crafts a list so that many entries share
// a bucket makes Compile choose another seed at random, for that file only;
// answers never depend on it.
const defaultSeed = 0x5368_7575_6c74_7575

// A Query is a host and maybe a path, hashed once to be put to many Files.
// It belongs to one goroutine at a time, can be used again, and is large (6
// KB): keep it. The zero Query matches nothing.
type Query struct {
	host string
	ip   bool
	addr netip.Addr // of an IP host: the IPv4 address that it stands for, if any
	sent netip.Addr // the address as it was written
	path []byte     // normalised; nil for a host alone

	seed  uint64            // that sums were made with
	sums  [maxLabels]uint64 // of each suffix of host, the shortest first
	sizes [maxLabels]uint8  // bytes of that suffix
	n     int

	buf   [maxKey + 1]byte
	text  [maxHost + maxKey + 1]byte // host and path together, for expressions
	tried []uint32                   // expressions that have been tried on it
}

// SetHost makes q ask for a host alone. The host is as in
// filter.Transaction: lower case, no port, no final dot, no brackets. An
// address in any form asks for the address (see dns.Address).
func (q *Query) SetHost(host string) {
	q.host, q.ip, q.path = host, false, nil
	if a, ok := dns.Address(host); ok {
		q.ip, q.addr, q.sent = true, a, a
		if strings.IndexByte(host, ':') >= 0 {
			q.sent, _ = netip.ParseAddr(host)
			q.sent = q.sent.Unmap().WithZone("")
		}
		q.host = dns.Canonical(host)
	}
	q.hash(defaultSeed)
}

// SetURL makes q ask for a host and a path with query, as sent: it is decoded,
// folded and cleaned here. A target that does not begin with "/" counts as
// none.
func (q *Query) SetURL(host string, target []byte) {
	q.SetHost(host)
	if len(target) > 0 && target[0] == '/' {
		q.path = cleanPath(q.buf[:0], target)
	}
}

// suffix returns the i-th suffix of the host, the shortest first.
func (q *Query) suffix(i int) string { return q.host[len(q.host)-int(q.sizes[i]):] }

// hash works out the hash of each suffix of the host, from the right, label by
// label. It stops where no entry could match: at an empty label, and at the
// length no name may have.
func (q *Query) hash(seed uint64) {
	q.seed, q.n = seed, 0
	h, end := seed, len(q.host)
	for i := end - 1; i >= -1; i-- {
		if i >= 0 && q.host[i] != '.' {
			continue
		}
		size := len(q.host) - i - 1
		if i+1 == end || size > maxHost {
			break
		}
		h = xxh3.HashStringSeed(q.host[i+1:end], h)
		q.sums[q.n], q.sizes[q.n] = h, uint8(size)
		q.n++
		end = i
	}
	if q.ip && q.n > 0 { // 1.2.3.4 is no subdomain of 3.4
		q.sums[0], q.sizes[0] = q.sums[q.n-1], q.sizes[q.n-1]
		q.n = 1
	}
}

// hashHost is the hash of a whole host.
func hashHost(host []byte, seed uint64) uint64 {
	h, end := seed, len(host)
	for i := end - 1; i >= -1; i-- {
		if i < 0 || host[i] == '.' {
			h = xxh3.HashSeed(host[i+1:end], h)
			end = i
		}
	}
	return h
}

// gate turns a host's hash into the one that stands in the filter for "this
// host has URL entries", so that a request to any other host is not looked up
// once for each part of its path.
func gate(host uint64) uint64 {
	return (host ^ 0x7068_6f6e_6b65_7973) * 0x9e37_79b9_7f4a_7c15
}

// A URL's prefixes are hashed from the left, going on from the host's hash. In
// a boundary list a piece ends before each boundary; in a prefix list any byte
// may be the end, and pieces are of eight bytes with a shorter one at the end.
const prefixPiece = 8

// hashPath is the hash of a host with hash h and a whole path.
func hashPath(h uint64, path []byte, prefix bool) uint64 {
	if prefix {
		for len(path) > prefixPiece {
			h = xxh3.HashSeed(path[:prefixPiece], h)
			path = path[prefixPiece:]
		}
		return xxh3.HashSeed(path, h)
	}
	from := 0
	for e := 1; e <= len(path); e++ {
		if e == len(path) || boundary(path[e]) {
			h = xxh3.HashSeed(path[from:e], h)
			from = e
		}
	}
	return h
}

// boundary says whether a path may go on with c after the end of an entry.
func boundary(c byte) bool { return c == '/' || c == '?' || c == '&' || c == '=' }

// cleanPath appends the path and query p, which begins with "/", to dst in the
// form in which URLs are compared: percent-decoded once, ASCII letters lower
// case, "//", "." and ".." resolved in the path, the fragment cut. It appends
// at most maxKey+1 bytes, one more than any entry has. dst is empty; only where
// the path alone is longer than its capacity, memory is allocated: a dot-dot
// beyond any fixed length may still bring a path back to a listed one.
func cleanPath(dst, p []byte) []byte {
	limit := cap(dst)
	if limit > maxKey+1 {
		limit = maxKey + 1
	}
	if len(p) > limit {
		if q := bytes.IndexByte(p, '?'); q < 0 || q > limit {
			dst = make([]byte, 0, len(p))
		}
	}
	query := false
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case c == '#':
			i = len(p)
			continue
		case c == '?' && !query:
			dst, query = closeSegment(dst), true
		case c == '%' && i+2 < len(p):
			hi, lo := unhex(p[i+1]), unhex(p[i+2])
			if hi < 16 && lo < 16 {
				c = hi<<4 | lo
				i += 2
			}
		}
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c == '/' && !query {
			dst = closeSegment(dst)
			if n := len(dst); n > 0 && dst[n-1] == '/' {
				continue
			}
		}
		if query && len(dst) >= limit {
			break
		}
		dst = append(dst, c)
	}
	if !query {
		dst = closeSegment(dst)
	}
	return dst[:min(len(dst), limit)]
}

// closeSegment resolves a last segment of "." or "..".
func closeSegment(dst []byte) []byte {
	n := len(dst)
	switch {
	case n >= 2 && dst[n-1] == '.' && dst[n-2] == '/':
		return dst[:n-1]
	case n >= 3 && dst[n-1] == '.' && dst[n-2] == '.' && dst[n-3] == '/':
		return dst[:max(1, bytes.LastIndexByte(dst[:n-3], '/')+1)]
	}
	return dst
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return (c | 0x20) - 'a' + 10
	}
	return 16
}

// withoutWWW returns host without a first label of "www" and digits, and
// whether there was one.
func withoutWWW(host string) (string, bool) {
	rest, ok := strings.CutPrefix(host, "www")
	if !ok {
		return host, false
	}
	rest = strings.TrimLeft(rest, "0123456789")
	return strings.CutPrefix(rest, ".")
}

// Forget lets go of the host, so that a Query that is kept does not keep it.
func (q *Query) Forget() { q.host, q.path, q.n = "", nil, 0 }
