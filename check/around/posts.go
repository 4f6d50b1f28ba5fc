package around

import (
	"hash/maphash"
	"math"
	"math/bits"
	"net/netip"
	"sync"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
)

// A tunnel of requests sends what it carries in small bodies to one address, and gets the other side's
// bytes in the answers (meek and the like). Both look like noise; programs that ordinary pages run send
// and get data that has a form. A row counts the exchanges of a client with one address.

const (
	mostPosts   = 1024 // rows; a newer one takes the place of another
	postsInARow = 8    // exchanges of noise after which it is a tunnel
	firstBytes  = 5    // so many first bytes differ among them: a format begins alike
	postsWithin = 2 * time.Minute
	leastNoise  = 24
)

var seed = maphash.MakeSeed()

// A postRow is what is known about the exchanges of a client with an address.
type postRow struct {
	key       uint64
	since     time.Time
	sent, got uint16
	firsts    [4]uint64 // set of first bytes that were sent
}

// A posts counts exchanges that may be a tunnel. The zero posts is empty.
type posts struct {
	mu   sync.Mutex
	rows [mostPosts]postRow
}

func postKey(client netip.Addr, host string, path []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	a := client.As16()
	h.Write(a[:])
	h.WriteString(host)
	h.WriteByte(0)
	for i, c := range path { // a query may be new each time
		if c == '?' {
			path = path[:i]
			break
		}
	}
	h.Write(path)
	return h.Sum64() | 1
}

// row returns that of a key, a new one if it is too old or begin says so.
func (p *posts) row(key uint64, now time.Time, begin bool) *postRow {
	r := &p.rows[key%mostPosts]
	if r.key != key || now.Sub(r.since) > postsWithin {
		if !begin {
			return nil
		}
		*r = postRow{key: key, since: now}
	}
	return r
}

// send counts a body that a client sends, and reports whether the exchanges are a tunnel's.
func (p *posts) send(t *filter.Transaction, beginning []byte) bool {
	key := postKey(t.Client.Addr, t.Host, t.Request.Path)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !isNoise(beginning) {
		if r := p.row(key, t.Start, false); r != nil {
			*r = postRow{}
		}
		return false
	}
	r := p.row(key, t.Start, true)
	r.sent++
	r.firsts[beginning[0]>>6] |= 1 << (beginning[0] & 63)
	n := 0
	for _, w := range r.firsts {
		n += bits.OnesCount64(w)
	}
	return r.sent >= postsInARow && r.got >= postsInARow-2 && n >= firstBytes
}

// answer counts the answer to what a client sent. One of a form ends the suspicion.
func (p *posts) answer(t *filter.Transaction) {
	key := postKey(t.Client.Addr, t.Host, t.Request.Path)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.row(key, t.Start, false)
	if r == nil {
		return
	}
	switch t.Content().Type() {
	case "", "application/octet-stream", "text/plain", "text/html", "image/gif", "image/png", "image/jpeg":
		if t.Response.Status == 200 && string(t.Response.Get("Content-Length")) != "0" {
			r.got++
		}
	default:
		*r = postRow{}
	}
}

// sends reports whether a request is one whose body may carry anything.
func sends(q *message.Request) bool {
	if q.Upgrade != nil {
		return false
	}
	switch string(q.Method) {
	case "POST", "PUT", "PATCH":
		return true
	}
	return false
}

// beginning returns the first bytes of a body, nil if they were seen before.
func beginning(b *content.Body, dst []byte) []byte {
	all := b.Pieces()
	n := int64(0)
	for _, p := range all {
		n += int64(len(p))
	}
	if n < b.Len() {
		return nil
	}
	for _, p := range all {
		if dst = append(dst, p[:min(len(p), cap(dst)-len(dst))]...); len(dst) == cap(dst) {
			break
		}
	}
	return dst
}

// isNoise reports whether bytes look as if they were enciphered: nearly as many values as chance would
// give, and no beginning of a known format.
func isNoise(p []byte) bool {
	if len(p) < leastNoise || known(p) {
		return false
	}
	var seen [256]bool
	values, zeros := 0, 0
	for _, c := range p {
		if !seen[c] {
			seen[c] = true
			values++
		}
		if c == 0 {
			zeros++
		}
	}
	expected := 256 * (1 - math.Pow(255.0/256, float64(len(p))))
	return float64(values) >= 0.9*expected && zeros <= 2+len(p)/64
}

// known reports whether bytes begin like a compressed or other known format.
func known(p []byte) bool {
	switch {
	case p[0] == 0x1F && p[1] == 0x8B, p[0] == 0x78 && (p[1] == 0x9C || p[1] == 1 || p[1] == 0xDA || p[1] == 0x5E), // gzip, zlib
		string(p[:4]) == "\x28\xB5\x2F\xFD", string(p[:2]) == "PK", string(p[1:4]) == "PNG", p[0] == 0xFF && p[1] == 0xD8,
		string(p[:4]) == "OggS", string(p[:4]) == "\x1A\x45\xDF\xA3", string(p[4:8]) == "ftyp", string(p[:4]) == "RIFF", string(p[:4]) == "%PDF":
		return true
	}
	return false
}
