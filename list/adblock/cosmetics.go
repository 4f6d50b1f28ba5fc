package adblock

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"strings"
)

// The table of cosmetic rules. All numbers are little endian and of four bytes unless stated
// otherwise.
//
//	header    version, buckets, domains, rules of domains, rules for all pages;
//	          bytes of texts and of names
//	buckets   for each the offset of its domains, and the end
//	domains   offset of the name in names, and index of its first rule; after the
//	          last the number of rules
//	rules     of domains: offset of the text in texts, with the highest bit for an
//	          exception, and the line
//	generic   the same for rules for all pages
//	texts     flags (1 byte), length (2 bytes), selector or scriptlet, each once
//	names     length (1 byte), name
const (
	cosmeticVersion = 1
	cosmeticHeader  = 7 * 4
	exceptionBit    = 1 << 31
	scriptletFlag   = 1
	maxCosmetic     = 1 << 28 // bytes of texts and of names
)

// A CosmeticBuilder makes a table from cosmetic rules.
type CosmeticBuilder struct {
	texts   []byte
	ids     map[string]uint32
	domains map[string][]cosmeticRule
	generic []cosmeticRule
	n       int
}

type cosmeticRule struct{ text, line uint32 }

var errCosmeticTable = errors.New("damaged table of cosmetic rules")

// Len returns the number of rules added.
func (b *CosmeticBuilder) Len() int { return b.n }

// Add adds a Cosmetic rule with its line. A domain that the rule excludes gets an exception.
func (b *CosmeticBuilder) Add(r *Rule, line uint32) error {
	if b.ids == nil {
		b.ids, b.domains = map[string]uint32{}, map[string][]cosmeticRule{}
	}
	if len(b.texts) > maxCosmetic || b.n > maxCosmetic/64 {
		return errors.New("exceeds the cosmetic rules of a list")
	}
	key := append([]byte{0}, r.Selector...)
	if r.Scriptlet {
		key[0] = scriptletFlag
	}
	id, ok := b.ids[string(key)]
	if !ok {
		id = uint32(len(b.texts))
		b.ids[string(key)] = id
		b.texts = binary.LittleEndian.AppendUint16(append(b.texts, key[0]), uint16(len(r.Selector)))
		b.texts = append(b.texts, r.Selector...)
	}
	b.n++
	exception := uint32(0)
	if r.Exception {
		exception = exceptionBit
	}
	generic := true
	for _, d := range r.domains {
		if name, not := bytes.CutPrefix(d, []byte("~")); not {
			b.domains[string(name)] = append(b.domains[string(name)], cosmeticRule{id | exceptionBit, line})
		} else {
			generic = false
			b.domains[string(name)] = append(b.domains[string(name)], cosmeticRule{id | exception, line})
		}
	}
	if generic {
		b.generic = append(b.generic, cosmeticRule{id | exception, line})
	}
	return nil
}

// Build returns the table, nil when there is no rule.
func (b *CosmeticBuilder) Build() []byte {
	if b.n == 0 {
		return nil
	}
	buckets := 1 << bits.Len(uint(len(b.domains)))
	type domain struct {
		name string
		hash uint32
	}
	domains := make([]domain, 0, len(b.domains))
	rules := 0
	for name := range b.domains {
		domains = append(domains, domain{name, domainHash(name)})
		rules += len(b.domains[name])
	}
	slices.SortStableFunc(domains, func(x, y domain) int { return cmp.Or(cmp.Compare(x.hash, y.hash), strings.Compare(x.name, y.name)) })
	var t, names []byte
	u32 := func(v uint32) { t = binary.LittleEndian.AppendUint32(t, v) }
	for _, d := range domains {
		names = append(append(names, byte(len(d.name))), d.name...)
	}
	for _, v := range []int{cosmeticVersion, buckets, len(domains), rules, len(b.generic), len(b.texts), len(names)} {
		u32(uint32(v))
	}
	next := 0
	for i := range buckets {
		for next < len(domains) && int(bucketOf(domains[next].hash, buckets)) < i {
			next++
		}
		u32(uint32(next))
	}
	u32(uint32(len(domains)))
	at, first := 0, 0
	for _, d := range domains {
		u32(uint32(at))
		u32(uint32(first))
		at += 1 + len(d.name)
		first += len(b.domains[d.name])
	}
	u32(uint32(at))
	u32(uint32(first))
	for _, d := range domains {
		for _, r := range b.domains[d.name] {
			u32(r.text)
			u32(r.line)
		}
	}
	for _, r := range b.generic {
		u32(r.text)
		u32(r.line)
	}
	return append(append(t, b.texts...), names...)
}

// Cosmetics are the cosmetic rules of a table. They are immutable and safe for concurrent use.
type Cosmetics struct {
	buckets, domains, rules, generic, texts, names []byte
	nbuckets, ndomains                             int
}

// OpenCosmetics reads a table made by Build. It keeps data without copying. Parts that it
// does not verify are verified on use.
func OpenCosmetics(data []byte) (*Cosmetics, error) {
	if len(data) < cosmeticHeader {
		return nil, errCosmeticTable
	}
	var h [7]uint64
	for i := range h {
		h[i] = uint64(binary.LittleEndian.Uint32(data[4*i:]))
	}
	size := cosmeticHeader + 4*(h[1]+1) + 8*(h[2]+1+h[3]+h[4]) + h[5] + h[6]
	if h[0] != cosmeticVersion || size != uint64(len(data)) || h[1] == 0 || h[1]&(h[1]-1) != 0 {
		return nil, errCosmeticTable
	}
	rest := data[cosmeticHeader:]
	cut := func(n uint64) []byte {
		part := rest[:n:n]
		rest = rest[n:]
		return part
	}
	c := &Cosmetics{nbuckets: int(h[1]), ndomains: int(h[2])}
	c.buckets, c.domains, c.rules, c.generic = cut(4*(h[1]+1)), cut(8*(h[2]+1)), cut(8*h[3]), cut(8*h[4])
	c.texts, c.names = cut(h[5]), cut(h[6])
	return c, nil
}

// A CosmeticMatch is a rule that Cosmetics have found.
type CosmeticMatch struct {
	Text      string // a selector, or the arguments of a scriptlet; it points into the table
	Line      uint32
	Scriptlet bool
	Exception bool
}

// Generic calls yield for each rule for all pages.
func (c *Cosmetics) Generic(yield func(CosmeticMatch) bool) {
	for i := 0; i < len(c.generic); i += 8 {
		if x, ok := c.cosmetic(c.generic[i:]); ok && !yield(x) {
			return
		}
	}
}

// Find appends to dst the rules for a page: those of each domain that contains its host, and
// of each such domain with any public suffix.
func (c *Cosmetics) Find(r *Request, dst []CosmeticMatch) []CosmeticMatch {
	for _, h := range r.anySuffix() {
		dst = c.find(h, dst)
	}
	return dst
}

func (c *Cosmetics) find(domain string, dst []CosmeticMatch) []CosmeticMatch {
	i := bucketOf(domainHash(domain), c.nbuckets)
	from, to := binary.LittleEndian.Uint32(c.buckets[4*i:]), binary.LittleEndian.Uint32(c.buckets[4*i+4:])
	for ; from < to && int(from) < c.ndomains; from++ {
		d := c.domains[8*from:]
		if name(c.names, binary.LittleEndian.Uint32(d)) != domain {
			continue
		}
		first, end := binary.LittleEndian.Uint32(d[4:]), binary.LittleEndian.Uint32(d[12:])
		for ; first < end && uint64(first)*8+8 <= uint64(len(c.rules)); first++ {
			if x, ok := c.cosmetic(c.rules[8*first:]); ok {
				dst = append(dst, x)
			}
		}
		return dst
	}
	return dst
}

// cosmetic reads a rule of domains or a generic one.
func (c *Cosmetics) cosmetic(b []byte) (x CosmeticMatch, ok bool) {
	id := binary.LittleEndian.Uint32(b)
	at := uint64(id &^ exceptionBit)
	if at+3 > uint64(len(c.texts)) {
		return x, false
	}
	size := uint64(binary.LittleEndian.Uint16(c.texts[at+1:]))
	if at+3+size > uint64(len(c.texts)) {
		return x, false
	}
	return CosmeticMatch{
		Text: asString(c.texts[at+3 : at+3+size]), Line: binary.LittleEndian.Uint32(b[4:]),
		Scriptlet: c.texts[at]&scriptletFlag != 0, Exception: id&exceptionBit != 0,
	}, true
}
