package disk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
)

func key(i int) Key { return xxh3.HashString128(fmt.Sprint("object ", i)) }

// content returns the content of object i, in which a wrong byte is noticed.
func content(i, size int) []byte {
	r := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16)})
	b := make([]byte, size)
	r.Read(b)
	return b
}

func open(t testing.TB, dir string, size int64) *Store {
	t.Helper()
	s, err := Open(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s *Store, i, size int) {
	t.Helper()
	b := content(i, size)
	if err := s.Put(key(i), fmt.Appendf(nil, "meta %d", i), [][]byte{b[:size/2], b[size/2:]}); err != nil {
		t.Fatal(err)
	}
}

// get reports whether object i is there; a wrong one ends the test.
func get(t testing.TB, s *Store, i, size int) bool {
	t.Helper()
	r, ok := s.Get(key(i))
	if !ok {
		return false
	}
	defer r.Release()
	if string(r.Meta) != fmt.Sprintf("meta %d", i) || !bytes.Equal(r.Body, content(i, size)) {
		t.Fatalf("object %d has a wrong description or body", i)
	}
	return true
}

func TestObjectsOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	for _, clean := range []bool{true, false} {
		s := open(t, dir, 64<<20)
		for i := range 300 {
			put(t, s, i, 10_000)
		}
		if err := s.Remove(key(7)); err != nil {
			t.Fatal(err)
		}
		if clean {
			s.Close()
		}
		again := open(t, dir, 64<<20) // as after a kill, unless the first was closed
		for i := range 300 {
			if got := get(t, again, i, 10_000); got != (i != 7) {
				t.Errorf("object %d is in the reopened store: %v (closed before: %v)", i, got, clean)
			}
		}
		again.Close()
	}
}

func TestTheOldestMakesRoom(t *testing.T) {
	s := open(t, t.TempDir(), 8<<20)
	for i := range 2000 {
		put(t, s, i, 10_000)
		if i%20 == 0 {
			for range 3 {
				get(t, s, 0, 10_000) // used all the time
			}
		}
	}
	if s.Bytes() > 8<<20 {
		t.Errorf("the segments take %d bytes, want at most 8 MiB", s.Bytes())
	}
	if !get(t, s, 0, 10_000) || s.Rewrites.Load() == 0 {
		t.Error("an object in use was deleted with its segment")
	}
	if get(t, s, 1, 10_000) {
		t.Error("the oldest object is still in the full store")
	}
	if !get(t, s, 1999, 10_000) {
		t.Error("the newest object is missing")
	}
}

// TestNoWrongByteIsServed flips a bit in blocks of every kind: a damaged object is missing,
// and all others are right.
func TestNoWrongByteIsServed(t *testing.T) {
	const n, size = 20, 1000
	dir := t.TempDir()
	s := open(t, dir, 64<<20)
	for i := range n {
		put(t, s, i, size)
	}
	s.Close()
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 2 {
		t.Fatalf("the folder has the files %v, want a segment and its list", files)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for round := range 30 {
		dir := t.TempDir()
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			end := len(b)
			if filepath.Ext(f) == ".segment" {
				end = headSize + n*(recordHead+size+8)
				b = b[:1<<20]
			}
			if (round%3 == 0) == (filepath.Ext(f) == ".list") {
				at := r.IntN(end)
				if round%5 == 0 {
					at = r.IntN(headSize + recordHead + 8) // heads
				}
				b[at%len(b)] ^= 1 << r.IntN(8)
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(dir, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		there := 0
		for i := range n {
			if get(t, s, i, size) {
				there++
			}
		}
		if round%3 == 0 && there < n {
			t.Errorf("round %d: %d objects are missing after damage to a list", round, n-there)
		}
		s.Close()
	}
}

// TestATruncatedRecordIsMissing: a record truncated by a kill is missing, and those before it are
// there.
func TestATruncatedRecordIsMissing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 64<<20)
	for i := range 3 {
		put(t, s, i, 500)
	}
	end := s.newest().end
	b, err := os.ReadFile(path(dir, 1, "segment"))
	if err != nil {
		t.Fatal(err)
	}
	n := recordSize([]byte("meta 2"), [][]byte{content(2, 500)})
	for cut := end - n; cut < end; cut += 37 {
		dir := t.TempDir()
		damaged := append(bytes.Clone(b[:cut]), make([]byte, int64(len(b))-cut)...)
		if err := os.WriteFile(path(dir, 1, "segment"), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, 64<<20)
		if !get(t, s, 0, 500) || !get(t, s, 1, 500) {
			t.Fatalf("with the segment cut at byte %d, objects before that are missing", cut)
		}
		get(t, s, 2, 500)
		put(t, s, 3, 500) // continues after the complete records
		if !get(t, s, 3, 500) {
			t.Fatalf("with the segment cut at byte %d, an object added later is missing", cut)
		}
		s.Close()
	}
}

func TestARecordOutlivesItsSegment(t *testing.T) {
	s := open(t, t.TempDir(), 2<<20)
	put(t, s, 0, 10_000)
	r, ok := s.Get(key(0))
	if !ok {
		t.Fatal("the object is missing")
	}
	for i := 1; i < 1000; i++ {
		put(t, s, i, 10_000)
	}
	if get(t, s, 0, 10_000) {
		t.Error("the oldest object is still there")
	}
	if !bytes.Equal(r.Body, content(0, 10_000)) {
		t.Error("the body of a record in use has changed")
	}
	r.Release()
}

func TestIndexIsSmall(t *testing.T) {
	var x index
	for i := range 100_000 {
		x.put(key(i), entry{off: uint32(i)})
		if per := float64(x.bytes()) / float64(x.n); x.n > 1000 && per > 48 {
			t.Fatalf("the index takes %.1f bytes per object with %d objects, want at most 48", per, x.n)
		}
	}
	for i := 0; i < 100_000; i += 2 {
		if !x.remove(key(i)) {
			t.Fatal("the index lacks the key that is to be removed")
		}
	}
	for i := range 100_000 {
		if e := x.get(key(i)); (e != nil) != (i%2 == 1) || e != nil && e.off != uint32(i) {
			t.Fatalf("the index has entry %v for key %d, want only those with odd numbers", e, i)
		}
	}
}

func TestAnObjectLargerThanASegment(t *testing.T) {
	s := open(t, t.TempDir(), 2<<20)
	if err := s.Put(key(1), nil, [][]byte{make([]byte, 2<<20)}); err != ErrTooLarge {
		t.Errorf("storing an object of the size of a segment: %v, want %v", err, ErrTooLarge)
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s := open(b, dir, 2<<30)
	for i := range 1_000_000 {
		if err := s.Put(key(i), []byte("meta"), nil); err != nil {
			b.Fatal(err)
		}
	}
	s.Close()
	for b.Loop() {
		s, err := Open(dir, 2<<30)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(s.IndexBytes())/float64(s.Len()), "B/object")
		s.Close()
	}
}

// TestRemovedObjectsDoNotReturn: removed or replaced objects do not return, whatever is damaged
// afterwards, and the content of a body is not taken for a record.
func TestRemovedObjectsDoNotReturn(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 64<<20)
	put(t, s, 0, 500)
	put(t, s, 1, 500)
	other := t.TempDir()
	put(t, open(t, other, 64<<20), 0, 500)
	forged, err := os.ReadFile(path(other, 1, "segment"))
	if err != nil {
		t.Fatal(err)
	}
	record := forged[headSize : headSize+recordSize([]byte("meta 0"), [][]byte{content(0, 500)})]
	if err := s.Put(key(2), nil, [][]byte{bytes.Repeat([]byte{0}, 8), bytes.Clone(record)}); err != nil {
		t.Fatal(err)
	}
	last := int64(s.index.get(key(2)).off) * align
	put(t, s, 3, 500)
	if err := s.Remove(key(0)); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(key(1), []byte("newer"), nil); err != nil {
		t.Fatal(err)
	}
	newer := int64(s.index.get(key(1)).off) * align
	f, err := os.OpenFile(path(dir, 1, "segment"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range []int64{last + 10, newer + 10} {
		if _, err := f.WriteAt([]byte{0xa5, 0x5a}, at); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, dir, 64<<20)
	for i, want := range []bool{false, false, false, true} {
		if again.Has(key(i)) != want {
			t.Errorf("object %d is in the reopened store: %v, want %v", i, !want, want)
		}
	}
	if n := again.Damaged.Load(); n != 2 {
		t.Errorf("the store counts %d damaged records, want 2", n)
	}
}

// TestDamageAfterVerificationIsNoticed: a verified checksum is not verified again at once, but
// it is after any write to the segment.
func TestDamageAfterVerificationIsNoticed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 64<<20)
	const size = 100_000
	put(t, s, 1, size)
	file := path(dir, 1, "segment")
	before := time.Now().Add(-time.Minute) // fresh files are not trusted, because file times are coarse
	if err := os.Chtimes(file, before, before); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !get(t, s, 1, size) {
			t.Fatal("the object is missing")
		}
	}
	if n := len(s.newest().sums); n != 1 {
		t.Fatalf("the store trusts %d checksums, want 1", n)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := s.newest().list[0].off + size/2
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	if get(t, s, 1, size) || s.Damaged.Load() != 1 {
		t.Errorf("a damaged object was served, or %d damaged records were counted instead of 1", s.Damaged.Load())
	}
}
