package list

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"shuultuur/lib/literal"
	"shuultuur/list/adblock"
	"shuultuur/list/files"
	"shuultuur/list/width"
)

// A builder reads the sources of a list and writes the list file.
type builder struct {
	ctx    context.Context
	name   string
	cfg    Config
	path   string // of the source
	report Report

	lines uint64 // of all earlier files
	files []origin
	when  []files.Window // of the current file

	includes []include // which the files so far name, in lists of ad blockers
	depth    int       // of the current file, which that many others include

	categories categorySet
	entries    entryBuilder
	networks   []network
	exprs      []expression
	rules      ruleBuilder
	bad        []string        // rules that badfilter rules remove from other lists
	dropped    map[string]bool // hosts, after their flags, that a badfilter rule removes
	removed    map[removal]bool
	barred     map[uint16]bool // categories of a tree that it may not name
	suffixes   *width.Suffixes
	budget     literal.Budget // of expressions
	edits      uint32         // the line number of the first individually added entry
}

// A ruleBuilder collects adblock rules that are more than a host.
type ruleBuilder struct {
	requests, pages adblock.Builder
	cosmetics       adblock.CosmeticBuilder
	unused          map[string]int // unused rules, by their purpose
	n               int            // rules that were added
}

// A categorySet numbers categories.
type categorySet struct {
	ids     map[string]uint16
	names   []string            // by number
	aliases map[string][]string // further names
}

// An entryBuilder takes hosts and URLs in any order and sorts them.
//
// It handles millions of them in little memory: 20 bytes per entry and its text, in blocks
// that never move, so that growing leaves no garbage. Entries are distributed to parts by the
// first byte of their hash, together with their text. Each part is small enough to be sorted
// and written in the processor's cache, and the parts in sequence have the order of the file.
type entryBuilder struct {
	seed   uint64
	prefix bool // URL entries match as Prefix says

	text    []*[textChunk]byte // keys; nil when they are in spill
	spill   spill
	parts   [256]part
	maxPath int
	urls    int
	shared  int     // entries that share a record with others
	dealt   []entry // buffer of order

	// twice, if set, is called with each duplicate that is dropped.
	twice func(kept, dropped entry)
}

// An entry is a key in one category, from one line. It has no uint64, which would make it 24
// bytes.
type entry struct {
	high, low uint32 // hash
	text      uint32 // offset of the key in the text
	line      uint32 // counted through all files
	cat       uint16
	size      uint16 // length of the key, and flags
}

func (e *entry) hash() uint64 { return uint64(e.high)<<32 | uint64(e.low) }
func (e *entry) flags() uint8 { return uint8(e.size & (1<<flagBits - 1)) }
func (e *entry) len() uint32  { return uint32(e.size >> flagBits) }

const (
	flagExact     = 1 << iota // the host only, without subdomains
	flagException             // removes the host from the category
	flagBelow                 // subdomains only, without the host
	flagImportant             // no exception applies to it
	flagBits      = 4         // together with the 12 bits of a key's length they fill 16
)

type part struct {
	blocks []*[blockLen]entry
	n      int
	chunk  int // current chunk of text
	free   int // bytes left in it
}

func (p *part) add(e entry) {
	if p.n%blockLen == 0 && p.n/blockLen == len(p.blocks) {
		p.blocks = append(p.blocks, new([blockLen]entry))
	}
	p.blocks[p.n/blockLen][p.n%blockLen] = e
	p.n++
}

// An origin is a file and the number of its first line, counted through all files.
type origin struct {
	path  string
	first uint32
	when  []files.Window // applies only while all of them are open
}

// id returns the number of the category called name.
func (c *categorySet) id(name string) (uint16, error) {
	if id, ok := c.ids[name]; ok {
		return id, nil
	}
	if len(c.names) > 1<<16-1 {
		return 0, errors.New("more than 65,536 categories")
	}
	if c.ids == nil {
		c.ids = map[string]uint16{}
	}
	id := uint16(len(c.names))
	c.names = append(c.names, name)
	c.ids[name] = id
	return id, nil
}

// add adds an entry: a host, or a host and a path in the form of cleanPath.
func (b *entryBuilder) add(host, path []byte, cat uint16, flags uint8, line uint32) error {
	h := hashHost(host, b.seed)
	if len(path) > 0 {
		h = hashPath(h, path, b.prefix)
		b.maxPath = max(b.maxPath, len(path))
		b.urls++
	}
	size := len(host) + len(path)
	p := &b.parts[h>>56]
	if p.free < size {
		if err := b.grow(p); err != nil {
			return err
		}
	}
	chunk, at := b.text[p.chunk], textChunk-p.free
	copy(chunk[at+copy(chunk[at:], host):], path)
	p.free -= size
	p.add(entry{high: uint32(h >> 32), low: uint32(h), text: uint32(p.chunk*textChunk + at), line: line, cat: cat, size: uint16(size)<<flagBits | uint16(flags)})
	return nil
}

// grow gives a part another chunk of text. Once many are in memory, the previous chunk is
// written to disk and reused.
func (b *entryBuilder) grow(p *part) error {
	if uint64(len(b.text)+1)*textChunk > maxInFile {
		return errors.New("more than 4 GiB of entries")
	}
	var chunk *[textChunk]byte
	if b.spill.dir != "" && len(b.text) >= heapChunks && p.n > 0 {
		chunk = b.text[p.chunk]
		if err := b.spill.put(p.chunk, chunk); err != nil {
			return err
		}
		b.text[p.chunk] = nil
	} else {
		chunk = new([textChunk]byte)
	}
	p.chunk, p.free = len(b.text), textChunk
	b.text = append(b.text, chunk)
	return nil
}

func (b *entryBuilder) key(e *entry) []byte {
	at := e.text % textChunk
	return b.text[e.text/textChunk][at : at+e.len()]
}

// sorted returns the entries of a part in the order of the file: by hash, then key, flags,
// category and line, without duplicates. The result is in buf.
func (b *entryBuilder) sorted(p *part, buf []entry) []entry {
	buf = buf[:0]
	for i, blk := range p.blocks {
		buf = append(buf, blk[:min(blockLen, p.n-i*blockLen)]...)
	}
	b.order(buf)
	return slices.CompactFunc(buf, func(x, before entry) bool {
		same := x.cat == before.cat && b.sharesRecord(&x, &before)
		if same && b.twice != nil {
			b.twice(before, x)
		}
		return same
	})
}

// order sorts the entries of one part. Hashes are uniform, so distributing entries by the bits
// after those of the part leaves almost nothing to compare.
func (b *entryBuilder) order(buf []entry) {
	const bits = 12
	compare := b.compare // made once, not for each bucket
	if len(buf) >= 1<<bits/4 {
		var ends [1<<bits + 1]uint32 // end of each bucket, shifted by one
		at := func(e *entry) uint32 { return e.high >> (24 - bits) & (1<<bits - 1) }
		for i := range buf {
			ends[at(&buf[i])+1]++
		}
		for i := range 1 << bits {
			ends[i+1] += ends[i]
		}
		b.dealt = append(b.dealt[:0], buf...)
		for i := range b.dealt {
			e := &b.dealt[i]
			buf[ends[at(e)]] = *e
			ends[at(e)]++
		}
		from := uint32(0)
		for _, end := range ends[:1<<bits] {
			if end-from > 1 {
				slices.SortFunc(buf[from:end], compare)
			}
			from = end
		}
		return
	}
	slices.SortFunc(buf, compare)
}

// compare is the order of entries in the file.
func (b *entryBuilder) compare(x, y entry) int {
	if hx, hy := x.hash(), y.hash(); hx != hy {
		if hx < hy {
			return -1
		}
		return 1
	}
	return cmp.Or(bytes.Compare(b.key(&x), b.key(&y)),
		cmp.Compare(x.size, y.size), cmp.Compare(x.cat, y.cat), cmp.Compare(x.line, y.line))
}

// sharesRecord reports whether two entries share a record, possibly in two categories.
func (b *entryBuilder) sharesRecord(x, y *entry) bool {
	return x.low == y.low && x.high == y.high && x.size == y.size && bytes.Equal(b.key(x), b.key(y))
}

// dedupe sorts each part, and drops duplicates and entries that drop selects. It returns the
// number of records, and of duplicates.
func (b *entryBuilder) dedupe(ctx context.Context, drop func(*entry) bool) (records, duplicates int, err error) {
	var buf []entry
	for i := range b.parts {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		p := &b.parts[i]
		buf = b.sorted(p, buf)
		duplicates += p.n - len(buf)
		if drop != nil {
			buf = slices.DeleteFunc(buf, func(e entry) bool { return drop(&e) })
		}
		p.n = 0
		run := 0 // entries of the same record
		for j := range buf {
			if j == 0 || !b.sharesRecord(&buf[j-1], &buf[j]) {
				records++
				run = 0
			}
			if run++; run == 2 {
				b.shared++
			}
			if run > 1 {
				b.shared++
			}
			p.add(buf[j])
		}
		p.blocks = slices.Clip(p.blocks[:(p.n+blockLen-1)/blockLen])
	}
	return records, duplicates, nil
}

// errCrowded reports that too many entries share a bucket, which does not happen by chance: with
// four per bucket on average, one with more than 64 occurs once in 10^45 lists.
var errCrowded = errors.New("entries crafted to share one hash bucket")

const (
	perBucket  = 4
	mostBucket = 64
)

// recordsAtOnce is how many bytes of records are written at a time: a checksum of few bytes
// costs as much as one of many.
const recordsAtOnce = 32 << 10

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// The filter is a Bloom filter in blocks of 512 bits, one cache line: the hash selects a
// block, and six bits in it. With 12 bits per key, one in 400 unlisted names passes and is
// compared in vain.
const (
	bitsPerKey = 12
	bloomBits  = 6
)

// bloomMix mixes a hash into the bits used within a block, so that they do not depend on those
// that selected it.
func bloomMix(h uint64) uint64 { return h * 0x9e37_79b9_7f4a_7c15 }

func bloomSet(bloom []byte, blocks, h uint64) {
	at, _ := bits.Mul64(h, blocks)
	blk := bloom[at*64 : at*64+64]
	g := bloomMix(h)
	for range bloomBits {
		bit := g >> 55
		blk[bit>>3] |= 1 << (bit & 7)
		g <<= 9
	}
}

// admit reports whether the content may name a category, and notes it if not.
func (b *builder) admit(category string) bool {
	if b.cfg.mayName(category) {
		return true
	}
	if len(b.report.Outside) < keptPerFile && !slices.Contains(b.report.Outside, category) {
		b.report.Outside = append(b.report.Outside, category)
	}
	return false
}

type removal struct {
	key      string
	category string // "" is every category
}
