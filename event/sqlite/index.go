package sqlite

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"net/netip"
	"strconv"
	"unsafe"

	"shuultuur/event"
	"shuultuur/filter"
)

// The index divides the rows into segments of segmentRows rows and has their values in the
// fields that filters and counts use. For each field, a segment has a dictionary of its texts,
// and for each row a number of one or two bytes. A search reads a few dictionaries instead of
// all rows; counting adds up numbers. A segment is written once, in the background, when its
// rows are complete. Rows without a segment are read directly.
//
// The index is derived from the rows, so it can be deleted and rebuilt.

const segmentRows = 16384 // at most 1<<16, so that a number fits two bytes

// A column is a field of the index, or several fields that belong together.
type column int

const (
	columnClient column = iota
	columnUser
	columnHost
	columnRule // policy and rule
	columnCategory
	columnMethod
	columnType
	columnSource
	columnUnread
	columnCache
	columnStatus
	columnKind // values of a few bits
	columns
)

// Parts of a segment, each a blob. A part that is missing is zero throughout.
const (
	partIDs    = 0  // ids, each relative to the first of the segment
	partLags   = 1  // ids minus times
	partRefs   = 2  // 16 bits of a hash of the identifiers of transactions
	partColumn = 4  // dictionary and numbers of each column
	partGrams  = 32 // blocks of rows by the texts in them
	maxParts   = 64 // the id of a part is the first id of its segment times this, plus the number of the part
)

func (c column) dictionary() int { return partColumn + 2*int(c) }
func (c column) numbers() int    { return partColumn + 2*int(c) + 1 }

// A kind packs the small values of a row.
type kind int32

func kindOf(r *event.Row) kind {
	k := kind(r.Proto) | kind(r.Action)<<2
	for i, set := range [...]bool{r.Learned, r.Monitored != "", r.Signatures != "", r.Picture != "", r.Conversation != ""} {
		if set {
			k |= 1 << (5 + i)
		}
	}
	return k
}

func (k kind) proto() filter.Proto   { return filter.Proto(k & 3) }
func (k kind) action() filter.Action { return filter.Action(k >> 2 & 7) }

// has reports whether rows of the kind have a value in field.
func (k kind) has(f event.Field) bool {
	switch f {
	case event.Learned:
		return k&(1<<5) != 0
	case event.Monitored:
		return k&(1<<6) != 0
	case event.Signature:
		return k&(1<<7) != 0
	case event.Picture:
		return k&(1<<8) != 0
	case event.Conversation:
		return k&(1<<9) != 0
	}
	return true
}

// pair joins policy and rule to one text of a dictionary: the length of the
// policy, the policy, the rule.
func pair(policy, rule string) string {
	n := min(len(policy), 1<<16-1)
	return string([]byte{byte(n), byte(n >> 8)}) + policy[:n] + rule
}

// unpair splits the result of pair.
func unpair(s string) (policy, rule string) {
	if len(s) < 2 {
		return "", ""
	}
	n := min(int(s[0])|int(s[1])<<8, len(s)-2)
	return s[2 : 2+n], s[2+n:]
}

// A builder collects the index of one segment.
type builder struct {
	first int64 // the segment has all rows with ids from here
	most  int   // most rows of the segment; 0 for segmentRows
	ids   []int64
	lags  []int64
	refs  []uint16
	cols  [columns]columnBuilder
	grams grams
	buf   []byte // of a part
}

// A columnBuilder numbers the texts of one column in the order of first
// occurrence. It compares the latest text first, because most rows repeat it.
type columnBuilder struct {
	data  []byte   // the texts
	ends  []uint32 // the end of each in data
	codes []uint16 // a number for each row
	last  uint16   // the latest code
	table []slot   // the texts by their hash: a power of two of slots

	addrs   []netip.Addr // see addAddr
	numbers []int32      // see addNumber
	likes   []uint16     // see addLike
}

// A slot is free if its code is 0. Otherwise the code is that of its text plus
// one.
type slot struct {
	hash uint32
	code uint32
}

// begin empties the builder for rows from first on.
func (b *builder) begin(first int64) {
	b.first = first
	b.ids, b.lags, b.refs = b.ids[:0], b.lags[:0], b.refs[:0]
	for i := range b.cols {
		c := &b.cols[i]
		clear(c.table)
		*c = columnBuilder{data: c.data[:0], ends: c.ends[:0], codes: c.codes[:0], table: c.table,
			addrs: c.addrs[:0], numbers: c.numbers[:0], likes: c.likes[:0]}
	}
	b.grams.begin()
}

// textSeed hashes texts while they are collected. Hashes are not stored.
var textSeed = maphash.MakeSeed()

// maxDictionary bounds the memory that clients can use up by inventing names, in bytes.
const maxDictionary = 2 << 20

func (b *builder) room() int { return cmp.Or(b.most, segmentRows) }

// full reports that the segment is complete.
func (b *builder) full() bool {
	return len(b.ids) >= b.room() || len(b.cols[columnHost].data)+len(b.cols[columnUser].data) > maxDictionary
}

// add adds a row, whose id must be higher than those before. It copies the
// texts of r.
func (b *builder) add(id int64, r *event.Row) {
	if b.first == 0 { // there are no rows before
		b.first = id
	}
	b.grams.add(len(b.ids), r)
	b.ids = append(b.ids, id)
	b.lags = append(b.lags, id-r.Time.UnixMicro())
	b.refs = append(b.refs, refHash(r.ID))
	b.cols[columnUser].addLike(b.cols[columnClient].addAddr(r.Client), r.User)
	b.cols[columnHost].addText(r.Host)
	b.cols[columnRule].addPair(r.Policy, r.Rule)
	b.cols[columnCategory].addText(r.Category)
	b.cols[columnMethod].addText(r.Method)
	b.cols[columnType].addText(r.Type)
	b.cols[columnSource].addText(r.Source)
	b.cols[columnUnread].addText(r.Unread)
	b.cols[columnCache].addText(r.Cache)
	b.cols[columnStatus].addNumber(int32(r.Status))
	b.cols[columnKind].addNumber(int32(kindOf(r)))
}

// cut removes all rows but the first n. Their texts stay in dictionaries and
// grams, which does no harm.
func (b *builder) cut(n int) {
	b.ids, b.lags, b.refs = b.ids[:n], b.lags[:n], b.refs[:n]
	for i := range b.cols {
		c := &b.cols[i]
		c.codes = c.codes[:n]
	}
}

// text returns the text with a code, valid until the next text is added.
func (c *columnBuilder) text(code uint16) string {
	start := uint32(0)
	if code > 0 {
		start = c.ends[code-1]
	}
	return text(c.data[start:c.ends[code]])
}

func (c *columnBuilder) addText(s string) {
	if len(c.ends) > 0 && s == c.text(c.last) {
		c.codes = append(c.codes, c.last)
		return
	}
	t := c.find(uint32(maphash.String(textSeed, s)), func(code uint16) bool { return c.text(code) == s })
	if t.code == 0 {
		t.code = uint32(c.next(s)) + 1
	}
	c.add(uint16(t.code - 1))
}

func (c *columnBuilder) addAddr(a netip.Addr) uint16 {
	b := a.As16()
	h := (binary.BigEndian.Uint64(b[:])*hostSeed ^ binary.BigEndian.Uint64(b[8:])) * hostSeed
	t := c.find(uint32(h>>32), func(code uint16) bool { return c.addrs[code] == a })
	if t.code == 0 {
		s := ""
		if a.IsValid() {
			s = a.String()
		}
		c.addrs = append(c.addrs, a)
		t.code = uint32(c.next(s)) + 1
	}
	c.add(uint16(t.code - 1))
	return c.last
}

// find returns the slot with the hash for which same is true, or the free one
// for it.
func (c *columnBuilder) find(h uint32, same func(code uint16) bool) *slot {
	if 2*len(c.ends) >= len(c.table) {
		c.grow()
	}
	mask := len(c.table) - 1
	for at := int(h) & mask; ; at = (at + 1) & mask {
		t := &c.table[at]
		if t.code == 0 {
			t.hash = h
			return t
		}
		if t.hash == h && same(uint16(t.code-1)) {
			return t
		}
	}
}

func (c *columnBuilder) grow() {
	old := c.table
	c.table = make([]slot, max(64, 2*len(old)))
	mask := len(c.table) - 1
	for _, t := range old {
		if t.code != 0 {
			at := int(t.hash) & mask
			for c.table[at].code != 0 {
				at = (at + 1) & mask
			}
			c.table[at] = t
		}
	}
}

func (c *columnBuilder) addPair(a, b string) {
	if len(c.ends) > 0 {
		last := c.text(c.last)
		if n := len(a); len(last) == 2+n+len(b) && last[2:2+n] == a && last[2+n:] == b {
			c.codes = append(c.codes, c.last)
			return
		}
	}
	c.addText(pair(a, b))
}

// addLike adds a text that is usually the same for equal values of like.
func (c *columnBuilder) addLike(like uint16, s string) {
	for int(like) >= len(c.likes) {
		c.likes = append(c.likes, 0)
	}
	if code := c.likes[like]; int(code) < len(c.ends) && c.text(code) == s {
		c.codes = append(c.codes, code)
		return
	}
	c.addText(s)
	c.likes[like] = c.codes[len(c.codes)-1]
}

// addNumber adds a number of a field that has few different ones.
func (c *columnBuilder) addNumber(n int32) {
	if len(c.ends) > 0 && c.numbers[c.last] == n {
		c.codes = append(c.codes, c.last)
		return
	}
	for i, known := range c.numbers {
		if known == n {
			c.add(uint16(i))
			return
		}
	}
	c.numbers = append(c.numbers, n)
	c.add(c.next(strconv.Itoa(int(n))))
}

// next assigns a code to a new text.
func (c *columnBuilder) next(s string) uint16 {
	c.data = append(c.data, s...)
	c.ends = append(c.ends, uint32(len(c.data)))
	return uint16(len(c.ends) - 1)
}

func (c *columnBuilder) add(code uint16) {
	c.codes = append(c.codes, code)
	c.last = code
}

// refHash returns the hash of a transaction's identifier in the index.
func refHash(id string) uint16 {
	h := uint64(len(id))
	for ; len(id) >= 4; id = id[4:] {
		h = (h ^ uint64(gram(id))) * hostSeed
		h ^= h >> 29
	}
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * hostSeed
	}
	return uint16(h >> 48)
}

// parts yields the parts of the segment except grams, each valid until the
// next.
func (b *builder) parts(yield func(part int, blob []byte) bool) {
	buf := b.buf
	defer func() { b.buf = buf }()
	for i, put := range [...]func() []byte{
		func() []byte { return appendSteps(buf[:0], b.first, b.ids) },
		func() []byte { return appendNumbers(buf[:0], b.lags) },
		func() []byte { return appendUint16(buf[:0], b.refs) },
	} {
		if buf = put(); len(buf) > 0 && !yield(i, buf) {
			return
		}
	}
	for i := range b.cols {
		c := &b.cols[i]
		buf = c.appendDictionary(buf[:0])
		if !yield(column(i).dictionary(), buf) {
			return
		}
		if buf = c.appendCodes(buf[:0]); len(buf) > 0 && !yield(column(i).numbers(), buf) {
			return
		}
	}
}

// appendCodes appends the numbers of the rows, or nothing if all are zero.
func (c *columnBuilder) appendCodes(dst []byte) []byte {
	switch {
	case len(c.ends) <= 1:
		return dst
	case len(c.ends) <= 256:
		for _, v := range c.codes {
			dst = append(dst, byte(v))
		}
		return dst
	}
	return appendUint16(dst, c.codes)
}

// appendSteps appends the differences between successive numbers.
func appendSteps(dst []byte, before int64, all []int64) []byte {
	steps := make([]int64, len(all))
	for i, v := range all {
		steps[i], before = v-before, v
	}
	return appendNumbers(dst, steps)
}

// appendNumbers appends numbers in 1, 2, 4 or 8 bytes each, whichever is enough
// for all, or nothing if all are zero.
func appendNumbers(dst []byte, all []int64) []byte {
	most := uint64(0)
	for _, v := range all {
		most |= uint64(v)
	}
	switch {
	case most == 0:
	case most < 1<<8:
		for _, v := range all {
			dst = append(dst, byte(v))
		}
	case most < 1<<16:
		for _, v := range all {
			dst = binary.LittleEndian.AppendUint16(dst, uint16(v))
		}
	case most < 1<<32:
		for _, v := range all {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(v))
		}
	default:
		for _, v := range all {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
		}
	}
	return dst
}

// numbersOf reads n numbers that appendNumbers wrote.
func numbersOf(b []byte, n int) []int64 {
	all := make([]int64, n)
	switch len(b) {
	case n:
		for i := range all {
			all[i] = int64(b[i])
		}
	case 2 * n:
		for i := range all {
			all[i] = int64(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case 4 * n:
		for i := range all {
			all[i] = int64(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case 8 * n:
		for i := range all {
			all[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	return all
}

func appendUint16(dst []byte, all []uint16) []byte {
	for _, v := range all {
		dst = binary.LittleEndian.AppendUint16(dst, v)
	}
	return dst
}

// appendDictionary appends the number of texts, the end of each, and the texts.
func (c *columnBuilder) appendDictionary(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(c.ends)))
	for _, end := range c.ends {
		dst = binary.LittleEndian.AppendUint32(dst, end)
	}
	return append(dst, c.data...)
}

// A dictionary has the texts of a column, in the form of appendDictionary.
type dictionary struct {
	n    int
	ends []byte
	data []byte
}

// dictionaryOf reads a dictionary. A damaged one has fewer texts.
func dictionaryOf(b []byte) (d dictionary) {
	if len(b) < 4 {
		return dictionary{}
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > segmentRows || len(b) < 4+4*n {
		return dictionary{}
	}
	return dictionary{n, b[4 : 4+4*n], b[4+4*n:]}
}

// at returns text i, which stays valid.
func (d *dictionary) at(i int) string {
	start := uint32(0)
	if i > 0 {
		start = binary.LittleEndian.Uint32(d.ends[4*i-4:])
	}
	end := binary.LittleEndian.Uint32(d.ends[4*i:])
	if start > end || int(end) > len(d.data) {
		return ""
	}
	return unsafe.String(unsafe.SliceData(d.data[start:end]), int(end-start))
}

// An indexer collects written rows and writes a segment when there are enough.
// Only the writing goroutine uses it.
type indexer struct {
	b      builder
	next   int64 // rows with lower ids are in segments
	behind bool  // rows from next on may be missing in b
	sums   totalBuilder
}

// place restarts after the segments whose ids are all up to last. It deletes
// the others, because rows will be written between their rows.
func (x *indexer) place(w *writer, last int64) error {
	err := w.transaction(func() error {
		if err := w.deleteTotals(span{last + 1, math.MaxInt64}); err != nil {
			return err
		}
		return w.exec(fmt.Sprintf(`DELETE FROM part WHERE id >= coalesce((SELECT min(first) FROM segment WHERE last > %d), %d) * %d;
			DELETE FROM segment WHERE last > %[1]d`, last, int64(math.MaxInt64/maxParts), maxParts))
	})
	if err != nil {
		return err
	}
	x.next, err = w.int("SELECT coalesce(max(last) + 1, 0) FROM segment")
	x.behind, x.sums.known = true, false
	x.b.begin(x.next)
	return err
}

// write writes rows and, in the same transaction, segments that they complete.
func (x *indexer) write(w *writer, last, limit int64, rows []event.Row) (int64, error) {
	before, next := len(x.b.ids), x.next
	last, err := w.write(last, limit, rows, func(id int64, r *event.Row) error {
		if x.behind { // step will read the row
			return nil
		}
		if x.b.full() {
			if err := x.flush(w); err != nil {
				return err
			}
		}
		x.b.add(id, r)
		return nil
	})
	switch {
	case err == nil || x.behind:
	case x.next == next:
		x.b.cut(before)
	default: // the segments were rolled back
		x.next, x.behind, x.sums.known = next, true, false
		x.b.begin(next)
	}
	return last, err
}

// step does the part that add could not do: it reads rows with ids up to last and writes at
// most n segments.
func (x *indexer) step(ctx context.Context, w *writer, last int64, n int) error {
	for ; x.behind && n > 0; n-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !x.b.full() {
			if err := x.read(w, last); err != nil {
				return err
			}
		}
		if !x.b.full() {
			x.behind = false
			return nil
		}
		if err := w.inTransaction(func() error { return x.flush(w) }); err != nil {
			x.b.begin(x.next)
			x.sums.known = false
			return err
		}
	}
	return nil
}

// flush writes the collected rows as a segment, and totals that it completes,
// and begins the next segment. The caller has begun a transaction.
func (x *indexer) flush(w *writer) error {
	if err := w.writeSegment(&x.b); err != nil {
		return err
	}
	if err := x.sums.add(w, &x.b); err != nil {
		return err
	}
	x.next = x.b.ids[len(x.b.ids)-1] + 1
	x.b.begin(x.next)
	return nil
}

// read fills the builder from the table.
func (x *indexer) read(w *writer, last int64) error {
	s, err := newScanner(w.conn)
	if err != nil {
		return err
	}
	defer s.close()
	x.b.begin(x.next)
	_, err = s.into(&x.b, span{x.next, last})
	return err
}

// writeSegment writes the rows in b as a segment.
func (w *writer) writeSegment(b *builder) error {
	insert, err := w.prepare("INSERT INTO part VALUES (?, ?)")
	if err != nil {
		return err
	}
	defer insert.close()
	for _, parts := range []iter.Seq2[int, []byte]{b.parts, b.grams.parts} {
		for part, blob := range parts {
			if err := insert.begin(len(blob)); err != nil {
				return err
			}
			insert.bindNumber(1, partID(b.first, part))
			insert.bindBlob(2, blob)
			if err := insert.run(); err != nil {
				return err
			}
		}
	}
	return w.insertSegment(b)
}

func (w *writer) insertSegment(b *builder) error {
	insert, err := w.prepare("INSERT INTO segment VALUES (?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer insert.close()
	hosts := newHostSet(&b.cols[columnHost])
	if err := insert.begin(len(hosts)); err != nil {
		return err
	}
	insert.bindNumber(1, b.first)
	insert.bindNumber(2, b.ids[len(b.ids)-1])
	insert.bindNumber(3, int64(len(b.ids)))
	insert.bindNumber(4, b.lag())
	insert.bindBlob(5, hosts)
	return insert.run()
}
