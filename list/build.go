package list

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"slices"
	"time"

	"shuultuur/atomicfile"
	"shuultuur/list/adblock"
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
	when  []window // of the current file

	categories categorySet
	entries    entryBuilder
	networks   []network
	exprs      []expression
	rules      ruleBuilder
	bad        []string        // rules that badfilter rules remove from other lists
	dropped    map[string]bool // hosts, after their flags, that a badfilter rule removes
	removed    map[removal]bool
	edits      uint32 // the line number of the first individually added entry
}

// A ruleBuilder collects adblock rules that are more than a host.
type ruleBuilder struct {
	requests, pages adblock.Builder
	cosmetics       adblock.CosmeticBuilder
	unused          map[string]int // unused rules, by their purpose
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

const (
	textChunk = 4 << 10   // at least the longest key
	blockLen  = 204       // entries in 4 KiB
	maxInFile = 1<<32 - 1 // lines, and bytes of text
)

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
	when  []window // applies only while all of them are open
}

// An alias is another name of a category: in a squidGuard tree a symbolic link, or a file in
// place of one.
type alias struct {
	name, target string
	link         bool
}

func newBuilder(ctx context.Context, name string, cfg Config, seed uint64) *builder {
	return &builder{
		ctx: ctx, name: name, cfg: cfg, path: string(cfg.Path), report: Report{Name: name, Categories: map[string]int{}},
		entries: entryBuilder{seed: seed, prefix: cfg.Match == Prefix},
	}
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
	if (len(b.text)+1)*textChunk > maxInFile {
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

// drops returns a function that reports whether an entry is left out: a badfilter rule removes
// it, or a later change has removed it.
func (b *builder) drops() func(*entry) bool {
	if len(b.dropped) == 0 && len(b.removed) == 0 {
		return nil
	}
	return func(e *entry) bool {
		return b.dropped[string(append([]byte{e.flags()}, b.entries.key(e)...))] || len(b.removed) > 0 && b.isRemoved(e)
	}
}

// errCrowded reports that too many entries share a bucket, which does not happen by chance: with
// four per bucket on average, one with more than 64 occurs once in 10^45 lists.
var errCrowded = errors.New("entries crafted to share one hash bucket")

const (
	perBucket  = 4
	mostBucket = 64
)

// write writes the list file.
func (b *builder) write(dst string, stamp [32]byte, start time.Time) error {
	if err := b.entries.spill.get(b.entries.text); err != nil {
		return err
	}
	n, duplicates, err := b.entries.dedupe(b.ctx, b.drops())
	if err != nil {
		return err
	}
	b.report.Duplicates += duplicates
	return atomicfile.Write(dst, 0o644, func(f *os.File) error { return b.writeTo(f, n, stamp, start) })
}

// A sectionWriter writes sections in sequence, each aligned, and records their offsets and
// checksums.
type sectionWriter struct {
	w   *bufio.Writer
	at  uint64
	cur *section
}

func (s *sectionWriter) begin(sec *section) error {
	if pad := -s.at & (sectionAlign - 1); pad > 0 {
		if _, err := s.w.Write(make([]byte, pad)); err != nil {
			return err
		}
		s.at += pad
	}
	s.cur = sec
	*sec = section{Offset: s.at}
	return nil
}

func (s *sectionWriter) Write(p []byte) (int, error) {
	s.cur.Sum = crc32.Update(s.cur.Sum, castagnoli, p)
	s.cur.Size += uint64(len(p))
	s.at += uint64(len(p))
	return s.w.Write(p)
}

func (b *builder) writeTo(f *os.File, n int, stamp [32]byte, start time.Time) error {
	h := header{Magic: magic, Version: version, Seed: b.entries.seed, Entries: uint64(n), Stamp: stamp, MaxPath: uint32(b.entries.maxPath)}
	h.Buckets = uint64(max(1, n/perBucket))
	h.Blocks = uint64(max(1, ((n+b.entries.urls)*bitsPerKey+511)/512))
	if b.cfg.Match == Prefix {
		h.Flags |= headerPrefix
	}
	if b.cfg.Longest {
		h.Flags |= headerLongest
	}
	if b.lines >= 1<<24 {
		h.Flags |= headerWide
	}
	if _, err := f.Seek(headerSize, io.SeekStart); err != nil {
		return err
	}
	s := &sectionWriter{w: bufio.NewWriterSize(f, 256<<10), at: headerSize}
	o := &output{b: b, e: &b.entries, h: &h, w: s,
		bloom: make([]byte, h.Blocks*64), index: make([]byte, 0, (h.Buckets+1)*4), more: make([]byte, 0, b.entries.shared*4), sets: map[string]uint32{}}
	if err := s.begin(&h.Section[secRecords]); err != nil {
		return err
	}
	if err := o.records(); err != nil {
		return err
	}
	b.report.Entries = n
	b.report.Bytes = 0 // set below, after everything else is in the report
	requests, pages, cosmetics := b.ruleTables()
	sections := []struct {
		id   int
		data []byte
	}{{secIndex, o.index}, {secBloom, o.bloom}, {secMore, o.more}, {secNetworks, b.networkTable()}, {secExpressions, b.expressionTable()}, {secRules, requests}, {secPages, pages}, {secCosmetics, cosmetics}, {secShared, b.sharedTable()}, {secSets, o.setTable()}, {secNames, o.nameTable()}, {secSources, o.sourceTable()}}
	for _, x := range sections {
		if err := s.begin(&h.Section[x.id]); err != nil {
			return err
		}
		if _, err := s.Write(x.data); err != nil {
			return err
		}
	}
	if err := s.begin(&h.Section[secReport]); err != nil {
		return err
	}
	b.report.Took = time.Since(start)
	b.report.Bytes = int64(s.at)
	if err := json.NewEncoder(s).Encode(&b.report); err != nil {
		return err
	}
	if err := s.w.Flush(); err != nil {
		return err
	}
	h.Size = s.at
	_, err := f.WriteAt(h.encode(), 0)
	return err
}

// output is the part of a file that grows while records are written.
type output struct {
	b     *builder
	e     *entryBuilder
	h     *header
	w     *sectionWriter
	bloom []byte
	index []byte
	more  []byte
	sets  map[string]uint32 // set of categories, two bytes each, to its number
	order []string          // sets by number
	count []int             // number of entries of each set
	last  uint32            // the set written last
}

// recordsAtOnce is how many bytes of records are written at a time: a checksum of few bytes
// costs as much as one of many.
const recordsAtOnce = 32 << 10

// records writes the records of all parts, and builds the filter and the index.
func (o *output) records() error {
	var (
		buf    []entry
		rec    []byte
		set    []byte
		size   uint64 // of the written bytes
		bucket uint64
		chain  int
	)
	o.index = binary.LittleEndian.AppendUint32(o.index, 0)
	for i := range o.e.parts {
		if err := o.b.ctx.Err(); err != nil {
			return err
		}
		p := &o.e.parts[i]
		buf = buf[:0]
		for j, blk := range p.blocks {
			buf = append(buf, blk[:min(blockLen, p.n-j*blockLen)]...)
		}
		for j, same := 0, 0; j < len(buf); j += same {
			e := &buf[j]
			for same = 1; j+same < len(buf) && o.e.sharesRecord(e, &buf[j+same]); {
				same++
			}
			at, _ := bits.Mul64(e.hash(), o.h.Buckets)
			for ; bucket < at; bucket++ {
				o.index = binary.LittleEndian.AppendUint32(o.index, uint32(size))
				chain = 0
			}
			if chain++; chain > mostBucket {
				return errCrowded
			}
			before := len(rec)
			rec, set = o.record(rec, set[:0], buf[j:j+same])
			if size += uint64(len(rec) - before); size > maxInFile {
				return errors.New("more than 4 GiB of records")
			}
			o.filter(e)
			if len(rec) >= recordsAtOnce {
				if _, err := o.w.Write(rec); err != nil {
					return err
				}
				rec = rec[:0]
			}
		}
	}
	if _, err := o.w.Write(rec); err != nil {
		return err
	}
	for ; bucket < o.h.Buckets; bucket++ {
		o.index = binary.LittleEndian.AppendUint32(o.index, uint32(size))
	}
	for id, s := range o.order {
		for i := 0; i < len(s); i += 2 {
			o.b.report.Categories[o.b.categories.names[binary.LittleEndian.Uint16([]byte(s[i:]))]] += o.count[id]
		}
	}
	return nil
}

// record appends the record of entries that differ only in their categories.
func (o *output) record(rec, set []byte, same []entry) (r, s []byte) {
	e := &same[0]
	pos := e.line
	if len(same) > 1 {
		pos = uint32(len(o.more) / 4)
	}
	for i := range same {
		set = binary.LittleEndian.AppendUint16(set, same[i].cat)
		if len(same) > 1 {
			o.more = binary.LittleEndian.AppendUint32(o.more, same[i].line)
		}
	}
	id := o.last
	if int(id) >= len(o.order) || o.order[id] != string(set) {
		id = o.set(set)
	}
	o.last = id
	o.count[id]++
	if e.flags()&flagException != 0 {
		o.b.report.Exceptions++
		o.h.Flags |= headerExcepts
	}
	rec = binary.AppendUvarint(rec, uint64(e.len()))
	rec = binary.AppendUvarint(rec, uint64(id)<<flagBits|uint64(e.flags()))
	rec = append(rec, byte(pos), byte(pos>>8), byte(pos>>16))
	if o.h.Flags&headerWide != 0 {
		rec = append(rec, byte(pos>>24))
	}
	return append(rec, o.e.key(e)...), set
}

// set returns the number of a set of categories.
func (o *output) set(set []byte) uint32 {
	id, ok := o.sets[string(set)]
	if !ok {
		id = uint32(len(o.order))
		o.sets[string(set)] = id
		o.order = append(o.order, string(set))
		o.count = append(o.count, 0)
	}
	return id
}

// filter adds an entry to the Bloom filter, and its host's gate if it has a path.
func (o *output) filter(e *entry) {
	bloomSet(o.bloom, o.h.Blocks, e.hash())
	key := o.e.key(e)
	if c := key[len(key)-1]; '0' <= c && c <= '9' || bytes.IndexByte(key, ':') >= 0 {
		o.h.Flags |= headerAddress // or, rarely, a name under xn--…
	}
	if i := bytes.IndexByte(key, '/'); i > 0 {
		o.b.report.URLs++
		bloomSet(o.bloom, o.h.Blocks, gate(hashHost(key[:i], o.e.seed)))
	}
}

// setTable: number of sets, then where each ends, then the categories.
func (o *output) setTable() []byte {
	t := binary.LittleEndian.AppendUint32(nil, uint32(len(o.order)))
	end := 0
	for _, s := range o.order {
		end += len(s) / 2
		t = binary.LittleEndian.AppendUint32(t, uint32(end))
	}
	for _, s := range o.order {
		t = append(t, s...)
	}
	return t
}

// nameTable: number of categories, then for each the number of its names and
// the names, each with its length.
func (o *output) nameTable() []byte {
	t := binary.AppendUvarint(nil, uint64(len(o.b.categories.names)))
	for _, name := range o.b.categories.names {
		also := o.b.categories.aliases[name]
		slices.Sort(also)
		for _, a := range also {
			o.b.report.Categories[a] += o.b.report.Categories[name]
		}
		names := append([]string{name}, also...)
		t = binary.AppendUvarint(t, uint64(len(names)))
		for _, n := range names {
			t = appendString(t, n)
		}
	}
	return t
}

// sourceTable: number of files, then for each its first line, its path and its
// windows.
func (o *output) sourceTable() []byte {
	t := binary.AppendUvarint(nil, uint64(len(o.b.files)))
	for _, f := range o.b.files {
		t = binary.AppendUvarint(t, uint64(f.first))
		t = appendString(t, f.path)
		t = binary.AppendUvarint(t, uint64(len(f.when)))
		for _, w := range f.when {
			t = w.append(t)
		}
	}
	return t
}

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
