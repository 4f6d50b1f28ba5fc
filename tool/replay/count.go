package replay

import (
	"bufio"
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// A tally counts the occurrences of many keys in memory of fixed size. Keys are hashed to 128
// bits and collected in a table. A full table is sorted and duplicates are combined; if it is
// then still more than half full, it is written to disk as a run. At the end the runs are
// merged.
type tally struct {
	dir     string // for the runs
	recs    []record
	runs    []string
	created int // number of runs ever made, for their names

	merged, toMerge *atomic.Int64 // records, for the progress bar
}

// record is a key and its count. Collisions are negligible with 128 bits: with 64, two of 15
// million URLs would collide in one of 160,000 logs.
type record struct {
	hi, lo uint64
	n      uint64
}

const recordSize = int(unsafe.Sizeof(record{}))

// fanIn is the number of runs merged at a time: each needs an open file and a buffer.
const (
	fanIn     = 64
	runBuffer = 16 << 10
)

func newTally(dir string, memory int) *tally {
	return &tally{dir: dir, recs: make([]record, 0, max(16, memory/recordSize)), merged: new(atomic.Int64), toMerge: new(atomic.Int64)}
}

func (t *tally) add(key string) error {
	if len(t.recs) == cap(t.recs) {
		if err := t.makeRoom(); err != nil {
			return err
		}
	}
	h := xxh3.HashString128(key)
	t.recs = append(t.recs, record{h.Hi, h.Lo, 1})
	return nil
}

func (a record) compare(b record) int {
	return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo))
}

// combine sorts the table and combines records with the same key.
func (t *tally) combine() {
	slices.SortFunc(t.recs, record.compare)
	out := t.recs[:0]
	for _, r := range t.recs {
		if n := len(out); n > 0 && out[n-1].hi == r.hi && out[n-1].lo == r.lo {
			out[n-1].n += r.n
			continue
		}
		out = append(out, r)
	}
	t.recs = out
}

func (t *tally) makeRoom() error {
	t.combine()
	if len(t.recs) <= cap(t.recs)/2 {
		return nil
	}
	err := t.write(func(yield func(record, error) bool) {
		for _, r := range t.recs {
			if !yield(r, nil) {
				return
			}
		}
	})
	t.recs = t.recs[:0]
	return err
}

// write writes a run of sorted records: 16 bytes of key and a varint each.
func (t *tally) write(records iter.Seq2[record, error]) (err error) {
	name := t.dir + "/run" + strconv.Itoa(t.created)
	t.created++
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("writing a sorted run: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("writing a sorted run: %w", e)
		}
	}()
	w := bufio.NewWriterSize(f, runBuffer)
	var b [16 + binary.MaxVarintLen64]byte
	for r, err := range records {
		if err != nil {
			return err
		}
		binary.BigEndian.PutUint64(b[:8], r.hi)
		binary.BigEndian.PutUint64(b[8:16], r.lo)
		n := binary.PutUvarint(b[16:], r.n)
		if _, err := w.Write(b[:16+n]); err != nil {
			return fmt.Errorf("writing a sorted run: %w", err)
		}
		t.toMerge.Add(1)
	}
	t.runs = append(t.runs, name)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing a sorted run: %w", err)
	}
	return nil
}

// counts calls f with the count of each key. The tally is empty afterwards.
func (t *tally) counts(ctx context.Context, f func(n uint64)) error {
	t.combine()
	if len(t.runs) == 0 {
		for _, r := range t.recs {
			f(r.n)
		}
		t.recs = nil
		return nil
	}
	if err := t.makeRunOfRest(); err != nil {
		return err
	}
	t.recs = nil // the buffers of the merge replace it
	for len(t.runs) > fanIn {
		some := slices.Clone(t.runs[:fanIn])
		t.runs = slices.Delete(t.runs, 0, fanIn)
		if err := t.write(t.merge(ctx, some)); err != nil {
			return err
		}
	}
	for r, err := range t.merge(ctx, t.runs) {
		if err != nil {
			return err
		}
		f(r.n)
	}
	return nil
}

func (t *tally) makeRunOfRest() error {
	if len(t.recs) == 0 {
		return nil
	}
	return t.write(func(yield func(record, error) bool) {
		for _, r := range t.recs {
			if !yield(r, nil) {
				return
			}
		}
	})
}

// run is a run that is being read.
type run struct {
	r   *bufio.Reader
	top record
}

// next reads the next record; false at the end.
func (r *run) next() (bool, error) {
	var b [16]byte
	if _, err := io.ReadFull(r.r, b[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return false, err
	}
	n, err := binary.ReadUvarint(r.r)
	r.top = record{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), n}
	return true, err
}

type byKey []*run

func (h byKey) Len() int           { return len(h) }
func (h byKey) Less(i, j int) bool { return h[i].top.compare(h[j].top) < 0 }
func (h byKey) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byKey) Push(x any)        { *h = append(*h, x.(*run)) }
func (h *byKey) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// merge yields the records of some runs in order, with keys combined, and deletes the runs.
func (t *tally) merge(ctx context.Context, names []string) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		var h byKey
		files := make([]*os.File, 0, len(names))
		defer func() {
			for _, f := range files {
				f.Close()
				// Anything left is deleted with the folder.
				_ = os.Remove(f.Name())
			}
		}()
		for _, name := range names {
			f, err := os.Open(name)
			if err != nil {
				yield(record{}, fmt.Errorf("reading a sorted run: %w", err))
				return
			}
			files = append(files, f)
			h = append(h, &run{r: bufio.NewReaderSize(f, runBuffer)})
		}
		if err := t.mergeRuns(ctx, h, yield); err != nil {
			yield(record{}, fmt.Errorf("merging sorted runs: %w", err))
		}
	}
}

func (t *tally) mergeRuns(ctx context.Context, all byKey, yield func(record, error) bool) error {
	var h byKey
	for _, r := range all {
		more, err := r.next()
		if err != nil {
			return err
		}
		if more {
			h = append(h, r)
		}
	}
	heap.Init(&h)
	var cur record
	seen := 0
	for len(h) > 0 {
		if seen++; seen%8192 == 0 {
			t.merged.Add(8192)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		top := h[0].top
		if cur.n > 0 && (cur.hi != top.hi || cur.lo != top.lo) {
			if !yield(cur, nil) {
				return nil
			}
			cur = record{}
		}
		cur = record{top.hi, top.lo, cur.n + top.n}
		more, err := h[0].next()
		if err != nil {
			return err
		}
		if more {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	if cur.n > 0 {
		yield(cur, nil)
	}
	return nil
}

// names counts names that the report shows, such as hosts, in a map of limited size. When it
// is full, all counts are lowered until half of them are zero and can be removed (Misra and
// Gries 1982): the others are too low by at most lost, and every name seen more often than
// that is still there.
type names struct {
	counts map[string]int64
	room   int // bytes
	used   int
	lost   int64
}

// perName is the approximate memory of a map entry besides its text.
const perName = 64

func newNames(room int) *names { return &names{counts: map[string]int64{}, room: room} }

func (c *names) add(name string) {
	if n, ok := c.counts[name]; ok {
		c.counts[name] = n + 1
		return
	}
	size := perName + len(name)
	if c.used+size > c.room && len(c.counts) > 1 {
		c.lower()
	}
	// Clone the name, which is part of a line that would stay in memory.
	c.counts[string([]byte(name))] = 1
	c.used += size
}

func (c *names) lower() {
	all := make([]int64, 0, len(c.counts))
	for _, n := range c.counts {
		all = append(all, n)
	}
	slices.Sort(all)
	by := all[len(all)/2]
	c.lost += by
	for name, n := range c.counts {
		if n <= by {
			delete(c.counts, name)
			c.used -= perName + len(name)
			continue
		}
		c.counts[name] = n - by
	}
}
