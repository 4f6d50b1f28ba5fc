package zone

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the only hash of NSEC3, RFC 5155 section 11
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// maxIterations bounds the iterations of NSEC3: the values that validators accept (RFC 9276
// section 3.2), and the cost of a query.
const maxIterations = 150

// An nsec3 is the NSEC3 chain of a zone (RFC 5155).
type nsec3 struct {
	salt       []byte
	iterations int
	hashes     []byte   // 20 bytes each, sorted
	nodes      []uint32 // the records' nodes, in the same order
}

// proof returns the node of the NSEC3 record for a node's name, 0 if none.
func (t *table) proof(n uint32) uint32 { return u32(t.arena, n+nodeProof) }

var base32hex = base32.HexEncoding.WithPadding(base32.NoPadding)

// prove prepares the proofs of denial in a zone that was signed elsewhere.
func (b *builder) prove() error {
	t := b.t
	t.signed = t.signer != nil
	if len(b.proofs) > 0 {
		t.signed = true
		return b.hash()
	}
	if b.sorted[0].set(miekg.TypeNSEC) == nil {
		return nil
	}
	t.signed = true
	for _, n := range b.sorted {
		if n.set(miekg.TypeNSEC) != nil {
			t.order = append(t.order, n.at)
		}
	}
	return nil
}

// hash finds the NSEC3 chain that NSEC3PARAM at the apex names, and maps its records to names.
func (b *builder) hash() error {
	t := b.t
	t.nsec3 = &nsec3{}
	param, err := b.param()
	if err != nil {
		return err
	}
	t.nsec3.iterations = int(binary.BigEndian.Uint16(param[2:]))
	t.nsec3.salt = bytes.Clone(param[5:])
	if t.nsec3.iterations > maxIterations {
		return fmt.Errorf("NSEC3 with %d iterations: at most %d are served (RFC 9276)", t.nsec3.iterations, maxIterations)
	}
	type entry struct {
		hash []byte
		n    *node
	}
	var entries []entry
	for _, n := range b.proofs {
		if !slices.ContainsFunc(n.set(miekg.TypeNSEC3).rdata, func(d []byte) bool { return sameParam(d, param) }) {
			continue
		}
		h, err := base32hex.DecodeString(strings.ToUpper(string(n.name[min(1, len(n.name)):])))
		if err != nil || len(h) != sha1.Size {
			return fmt.Errorf("NSEC3 at %q: the name is not a hash", dns.Text(append(bytes.Clone(n.name), t.origin...)))
		}
		entries = append(entries, entry{h, n})
	}
	if len(entries) == 0 {
		return errors.New("no NSEC3 record belongs to the NSEC3PARAM at the origin")
	}
	slices.SortStableFunc(entries, func(x, y entry) int { return bytes.Compare(x.hash, y.hash) })
	for _, e := range entries {
		t.nsec3.hashes = append(t.nsec3.hashes, e.hash...)
		t.nsec3.nodes = append(t.nsec3.nodes, e.n.at)
	}
	for _, n := range b.sorted {
		if n.flags&isBelow != 0 {
			continue
		}
		h := t.nsec3.of(n.name, t.origin)
		if i, ok := t.nsec3.find(h); ok {
			binary.LittleEndian.PutUint32(t.arena[n.at+nodeProof:], t.nsec3.nodes[i])
		}
	}
	return nil
}

// param returns the data of the NSEC3PARAM to use.
func (b *builder) param() ([]byte, error) {
	if s := b.sorted[0].set(miekg.TypeNSEC3PARAM); s != nil {
		for _, d := range s.rdata {
			if len(d) >= 5 && d[0] == 1 && len(d) == 5+int(d[4]) {
				return d, nil
			}
		}
	}
	return nil, errors.New("there are NSEC3 records, but no NSEC3PARAM of hash 1 at the origin")
}

// sameParam reports whether an NSEC3 record belongs to the chain.
func sameParam(nsec3, param []byte) bool {
	return len(nsec3) >= len(param) && nsec3[0] == 1 && bytes.Equal(nsec3[2:len(param)], param[2:])
}

// of returns the hash of prefix and origin together.
func (c *nsec3) of(prefix, origin []byte) [sha1.Size]byte {
	var buf [512 + 256]byte
	msg := append(append(append(buf[:0], prefix...), origin...), c.salt...)
	h := sha1.Sum(msg)
	for range c.iterations {
		h = sha1.Sum(append(append(buf[:0], h[:]...), c.salt...))
	}
	return h
}

// find returns the index of a hash, or of the NSEC3 that covers it.
func (c *nsec3) find(h [sha1.Size]byte) (i int, exact bool) {
	n := len(c.nodes)
	i = sort.Search(n, func(i int) bool { return bytes.Compare(c.hashes[i*sha1.Size:(i+1)*sha1.Size], h[:]) >= 0 })
	if i < n && bytes.Equal(c.hashes[i*sha1.Size:(i+1)*sha1.Size], h[:]) {
		return i, true
	}
	return (i + n - 1) % n, false
}

// covering returns the node with the NSEC at or before a name (without the origin).
func (t *table) covering(prefix []byte) uint32 {
	i := sort.Search(len(t.order), func(i int) bool { return dns.Compare(t.name(t.order[i]), prefix) > 0 })
	if i == 0 {
		i = len(t.order)
	}
	return t.order[i-1]
}

// prove appends the proof of denial. For NoDS, at is where the cut begins in the name. It
// returns false when the walk is over.
func (w *walk) prove(kind DenialKind, at int) bool {
	if w.provenT != w.t {
		w.provenT, w.proofs = w.t, 0
	}
	switch t := w.t; {
	case t.signer != nil && w.varies(kind):
		return w.deny(kind, at)
	case t.nsec3 != nil:
		w.proveNSEC3(kind, at)
	case len(t.order) > 0:
		w.proveNSEC(kind)
	case t.signer != nil:
		return w.deny(kind, at)
	}
	return true
}

// varies reports whether the types of a name depend on the answer: an alias whose target has
// no such address, or an empty choice. The chain lists all possible types, so it proves
// nothing then.
func (w *walk) varies(kind DenialKind) bool {
	return (kind == NoData || kind == WildcardNoData) && (w.t.flags(w.node)&hasAlias != 0 || w.t.set(w.node, w.q.Type) != 0)
}

// deny has the signer make a proof.
func (w *walk) deny(kind DenialKind, at int) bool {
	d := Denial{Kind: kind, Origin: w.t.origin, Name: w.name[at:], Pointer: w.pointer(at), TTL: w.t.negTTL}
	switch kind {
	case NoName:
		d.Encloser = w.encloser
	case WildcardAnswer:
		d.Encloser = w.encloser
	case WildcardNoData:
		d.Encloser = w.encloser
		d.Types = w.t.bitmap(w.node)
	case NoData, NoDS:
		d.Types = w.t.bitmap(w.node)
	}
	from := len(w.r.Buf)
	if !w.t.signer.Deny(w.ctx, w.q, w.r, d) {
		return w.giveUp()
	}
	if len(w.r.Buf) > w.r.Limit {
		w.r.Buf, w.r.TC = w.r.Buf[:from], true
		w.r.Authorities = 0
		return false
	}
	return true
}

func (w *walk) proveNSEC(kind DenialKind) {
	t := w.t
	prefix := w.name[:w.inside()]
	switch kind {
	case NoName:
		w.putProof(t.covering(prefix), miekg.TypeNSEC)
		var buf [258]byte
		w.putProof(t.covering(append(append(buf[:0], 1, '*'), prefix[w.encloser:]...)), miekg.TypeNSEC)
	case NoData, NoDS:
		if t.set(w.node, miekg.TypeNSEC) != 0 {
			w.putProof(w.node, miekg.TypeNSEC)
			return
		}
		w.putProof(t.covering(prefix), miekg.TypeNSEC)
	case WildcardNoData:
		w.putProof(t.covering(prefix), miekg.TypeNSEC)
		w.putProof(t.covering(t.name(w.node)), miekg.TypeNSEC)
	case WildcardAnswer:
		w.putProof(t.covering(prefix), miekg.TypeNSEC)
	}
}

func (w *walk) proveNSEC3(kind DenialKind, at int) {
	switch kind {
	case NoName:
		p := w.putEncloser(w.encloser)
		var buf [258]byte
		w.putCover(append(append(buf[:0], 1, '*'), w.name[p:w.inside()]...))
	case NoData, NoDS:
		if p := w.t.proof(w.node); p != 0 {
			w.putProof(p, miekg.TypeNSEC3)
			return
		}
		w.putEncloser(at) // opted out
	case WildcardNoData:
		w.putEncloser(w.encloser)
		if p := w.t.proof(w.node); p != 0 {
			w.putProof(p, miekg.TypeNSEC3)
		}
	case WildcardAnswer:
		w.putCover(w.name[w.nextCloser(w.encloser):w.inside()])
	}
}

// nextCloser returns where the name begins that is one label longer than the one at p.
func (w *walk) nextCloser(p int) int {
	q := 0
	for _, l := range w.labels {
		if int(l) < p {
			q = int(l)
		}
	}
	return q
}

// putEncloser appends the closest encloser proof (RFC 5155 section 7.2.1) for the name at p,
// or for the closest ancestor that has an NSEC3: an empty non-terminal of opted-out names has
// none. It returns where that begins.
func (w *walk) putEncloser(p int) int {
	t, end := w.t, w.inside()
	for {
		n := t.resolveExact(w.name, w.labels, p)
		if n != 0 && t.proof(n) != 0 {
			w.putProof(t.proof(n), miekg.TypeNSEC3)
			break
		}
		if p >= end {
			break
		}
		p += 1 + int(w.name[p])
	}
	if p > 0 {
		w.putCover(w.name[w.nextCloser(p):end])
	}
	return p
}

// resolveExact returns the node of the name at p.
func (t *table) resolveExact(name []byte, labels []uint8, p int) uint32 {
	h := t.originH
	for i := len(labels) - t.depth - 1; i >= 0 && int(labels[i]) >= p; i-- {
		s := int(labels[i])
		h = mix(h, name[s:s+1+int(name[s])])
	}
	return t.lookup(h, name[p:len(name)-len(t.origin)])
}

// putCover appends the NSEC3 that covers a name (without the origin).
func (w *walk) putCover(prefix []byte) {
	c := w.t.nsec3
	if len(c.nodes) == 0 {
		return
	}
	i, _ := c.find(c.of(prefix, w.t.origin))
	w.putProof(c.nodes[i], miekg.TypeNSEC3)
}

// putProof appends the NSEC or NSEC3 of a node with its signatures, once per message.
func (w *walk) putProof(n uint32, typ uint16) {
	t, r := w.t, w.r
	for _, p := range w.proven[:w.proofs] {
		if p == n {
			return
		}
	}
	if w.proofs < len(w.proven) {
		w.proven[w.proofs] = n
		w.proofs++
	}
	s := t.set(n, typ)
	name, origin := t.name(n), w.pointer(w.inside())
	from := len(r.Buf)
	for _, part := range [...][]byte{t.records(s), t.signatures(s)} {
		for len(part) > 0 {
			size := 12 + int(part[10])<<8 + int(part[11])
			if len(r.Buf)+len(name)+size > r.Limit {
				r.Buf, r.TC = r.Buf[:from], true
				return
			}
			r.Buf = append(r.Buf, name...)
			r.Buf = binary.BigEndian.AppendUint16(r.Buf, origin)
			r.Buf = append(r.Buf, part[2:size]...)
			part = part[size:]
		}
	}
	r.Authorities += u16(t.arena, s+setCount) + uint16(t.arena[s+setSigs])
}
