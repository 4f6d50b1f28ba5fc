package list

import (
	"bytes"
	"net/netip"
	"strings"

	"github.com/zeebo/xxh3"

	"shuultuur/lib/ascii"
	"shuultuur/lib/dns"
)

const (
	maxHost   = 253  // RFC 1035 section 2.3.4, as text without the final dot
	maxLabels = 127  // as many as fit into maxHost
	maxKey    = 2048 // host and path of an entry
)

// defaultSeed of the hash. All files use the same, so that one Query serves them all without
// hashing again. A list crafted so that many entries share a bucket makes Compile choose a
// random seed for that file; answers never depend on it.
const defaultSeed = 0x5368_7575_6c74_7575

// A Query is a host with an optional path, hashed once for any number of Files. It is not safe
// for concurrent use. It is large (6 KB) and reusable: keep it. The zero Query matches nothing.
type Query struct {
	host string
	ip   bool
	addr netip.Addr // for an IP host: the IPv4 address it stands for, if any
	sent netip.Addr // the address as written
	path []byte     // normalised; nil for only a host

	seed  uint64            // the seed of sums
	sums  [maxLabels]uint64 // hash of each suffix of host, the shortest first
	sizes [maxLabels]uint8  // bytes of that suffix
	n     int

	buf   [maxKey + 1]byte
	text  [maxHost + maxKey + 1]byte // host and path together, for expressions
	tried []uint32                   // expressions that have been tried on it
}

// SetHost sets q to only a host. The host has the form of filter.Transaction: lower case, no
// port, no final dot, no brackets. An address in any form means the address (see dns.Address).
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

// hash computes the hash of each suffix of the host, from the right, label by label. It stops
// where no entry can match: at an empty label, and at the maximum length of a name.
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
	if q.ip && q.n > 0 { // 1.2.3.4 is not a subdomain of 3.4
		q.sums[0], q.sizes[0] = q.sums[q.n-1], q.sizes[q.n-1]
		q.n = 1
	}
}

// hashHost returns the hash of a whole host.
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

// gate turns a host's hash into the one that marks it in the filter as having URL entries, so
// that requests to other hosts are not looked up for each part of their path.
func gate(host uint64) uint64 {
	return (host ^ 0x7068_6f6e_6b65_7973) * 0x9e37_79b9_7f4a_7c15
}

// A URL's prefixes are hashed from the left, beginning with the host's hash. In a boundary
// list a piece ends before each boundary. In a prefix list any byte may be the end, and pieces
// have eight bytes, the last one fewer.
const prefixPiece = 8

// hashPath returns the hash of a host with hash h and a whole path.
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

// boundary reports whether a path may continue with c after an entry.
func boundary(c byte) bool { return c == '/' || c == '?' || c == '&' || c == '=' }

// cleanPath appends the path and query p, which begins with "/", to dst in the form in which
// URLs are compared: percent-decoded once, ASCII letters in lower case, "//", "." and ".."
// resolved in the path, the fragment removed. It appends at most maxKey+1 bytes, one more than
// any entry has. dst is empty. It allocates only when the path alone exceeds dst's capacity,
// because "..", however late, may lead back to a listed path.
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
			hi, lo := ascii.Unhex(p[i+1]), ascii.Unhex(p[i+2])
			if hi >= 0 && lo >= 0 {
				c = byte(hi<<4 | lo)
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

// Forget drops the host, so that a kept Query does not keep it alive.
func (q *Query) Forget() { q.host, q.path, q.n = "", nil, 0 }
