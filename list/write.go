package list

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"slices"
	"time"

	"shuultuur/lib/atomicfile"
)

// drops returns a function that reports whether an entry is left out: a badfilter rule removes
// it, or a later change has removed it.
func (b *builder) drops() func(*entry) bool {
	if len(b.dropped) == 0 && len(b.removed) == 0 && len(b.barred) == 0 {
		return nil
	}
	return func(e *entry) bool {
		return b.barred[e.cat] || b.dropped[string(append([]byte{e.flags()}, b.entries.key(e)...))] || len(b.removed) > 0 && b.isRemoved(e)
	}
}

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
	for i, name := range o.b.categories.names {
		if o.b.barred[uint16(i)] {
			t = binary.AppendUvarint(t, 0)
			continue
		}
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
			t = w.Append(t)
		}
	}
	return t
}
