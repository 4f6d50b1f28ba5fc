package cache

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"
)

func wireName(i int) []byte {
	label := fmt.Sprintf("host-%d", i)
	b := append([]byte{byte(len(label))}, label...)
	return append(b, "\x07example\x03com\x00"...)
}

func key(i int) *Key { return &Key{Name: wireName(i), Type: 1, Class: 1} }

// answer returns an address record that points to the question.
func answer(i int) *Entry {
	body := []byte{0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(body[12:], uint32(i))
	return &Entry{Body: body, TTLs: []uint16{6}, Answers: 1, TTL: 300}
}

func newCache(t testing.TB, size int, stale time.Duration) (*Cache, time.Time) {
	t.Helper()
	c, err := New(size, stale)
	if err != nil {
		t.Fatal(err)
	}
	return c, c.start.Add(time.Second)
}

func TestCachedAnswersHaveTheRemainingTTL(t *testing.T) {
	c, now := newCache(t, MinSize, time.Hour)
	e := answer(7)
	e.Flags, e.Rcode, e.EDE = AD|Address, 3, 9
	c.Put(key(7), now, e)
	body, got, st, _ := c.Get(key(7), now.Add(100*time.Second), 30, []byte("head"))
	if st != Fresh || string(body[:4]) != "head" || len(body) != 4+16 {
		t.Fatalf("Get: got state %d, body %q", st, body)
	}
	if ttl := binary.BigEndian.Uint32(body[4+6:]); ttl != 200 || got.TTL != 200 {
		t.Errorf("after 100 of 300 s: TTL %d in the body, %d in the entry, want 200", ttl, got.TTL)
	}
	if got.Flags != AD|Address || got.Rcode != 3 || got.EDE != 9 || got.Answers != 1 {
		t.Errorf("Get: got entry %+v", got)
	}
	for _, other := range []*Key{
		{Name: wireName(7), Type: 28, Class: 1}, {Name: wireName(7), Type: 1, Class: 3}, {Name: wireName(8), Type: 1, Class: 1},
		{Name: wireName(7), Type: 1, Class: 1, DO: true}, {Name: wireName(7), Type: 1, Class: 1, CD: true}, {Name: wireName(7), Type: 1, Class: 1, Variant: 1},
	} {
		if _, _, st, _ := c.Get(other, now, 30, nil); st != Miss {
			t.Errorf("Get(%+v) returned the entry of another key", other)
		}
	}
}

func TestStaleAnswersAreGivenUntilTheirTimeIsUp(t *testing.T) {
	c, now := newCache(t, MinSize, time.Hour)
	c.Put(key(1), now, answer(1))
	body, _, st, failed := c.Get(key(1), now.Add(300*time.Second), 30, nil)
	if st != Stale || failed >= 0 {
		t.Fatalf("after expiry: got state %d, failed %v, want stale without a failure", st, failed)
	}
	if ttl := binary.BigEndian.Uint32(body[6:]); ttl != 30 {
		t.Errorf("a stale answer has TTL %d, want 30", ttl)
	}
	c.Fail(key(1), now.Add(300*time.Second))
	if _, _, _, failed = c.Get(key(1), now.Add(304*time.Second), 30, nil); failed != 5*time.Second && failed != 4*time.Second {
		t.Errorf("after Fail: failed %v ago, want 4 or 5 s", failed)
	}
	if _, _, st, _ = c.Get(key(1), now.Add(3901*time.Second), 30, nil); st != Miss {
		t.Errorf("state %d after an hour, want a miss", st)
	}
}

func TestOnlyWhatIsAskedForOftenIsFetchedAgain(t *testing.T) {
	c, now := newCache(t, MinSize, 0)
	c.Put(key(1), now, answer(1))
	c.Put(key(2), now, answer(2))
	for range 5 {
		c.Get(key(1), now, 30, nil)
	}
	soon := now.Add(280 * time.Second)
	want := []State{Refresh, Fresh} // once
	for _, w := range want {
		if _, _, st, _ := c.Get(key(1), soon, 30, nil); st != w {
			t.Errorf("popular entry that expires soon: got state %d, want %d", st, w)
		}
	}
	if _, _, st, _ := c.Get(key(2), soon, 30, nil); st != Fresh {
		t.Errorf("entry that was requested once: got state %d, want fresh", st)
	}
}

func TestMemoryIsBoundedAndWhatIsAskedForStays(t *testing.T) {
	c, now := newCache(t, MinSize, 0)
	for i := range 10 {
		c.Put(key(i), now, answer(i))
	}
	for i := range 300_000 {
		c.Put(key(1000+i), now, answer(i))
		if i%500 == 0 {
			for j := range 10 {
				c.Get(key(j), now, 30, nil)
			}
		}
	}
	st := c.Stats()
	if st.Bytes > 2*MinSize {
		t.Errorf("the cache takes %d bytes, its limit is %d and tables", st.Bytes, MinSize)
	}
	if st.Evicted < 100_000 {
		t.Errorf("only %d entries were evicted, want at least 100,000", st.Evicted)
	}
	for j := range 10 {
		if _, _, s, _ := c.Get(key(j), now, 30, nil); s == Miss {
			t.Errorf("entry %d was evicted although it is requested all the time", j)
		}
	}
	// The newest entries must be there, complete.
	for i := range 1000 {
		body, _, s, _ := c.Get(key(1000+299_000+i), now, 30, nil)
		if s == Miss || binary.BigEndian.Uint32(body[12:]) != uint32(299_000+i) {
			t.Fatalf("entry %d: got state %d, body %x", i, s, body)
		}
	}
	c.Flush()
	if st := c.Stats(); st.Entries != 0 || st.Bytes != 0 {
		t.Errorf("after Flush: got %+v, want nothing", st)
	}
}

// flood puts n entries like e for names that are not requested again.
func flood(c *Cache, now time.Time, n int, e *Entry) {
	for i := range n {
		c.Put(key(1_000_000+i), now, e)
	}
}

func TestAFloodOfNamesThatDoNotExistTakesAQuarter(t *testing.T) {
	for name, flags := range map[string]Flags{"negative": Negative, "failure": Failure} {
		c, now := newCache(t, 4*MinSize, 0)
		const some = 20_000 // in less than half of the memory, each requested once
		for i := range some {
			c.Put(key(i), now, answer(i))
		}
		before := c.Stats().Bytes
		e := answer(1)
		e.Flags, e.Rcode = flags, 3
		flood(c, now, 150_000, e)
		if grown := c.Stats().Bytes - before; grown > 4*MinSize/4+4*MinSize/8 { // and the tables
			t.Errorf("%s: the flood took %d more bytes of %d", name, grown, 4*MinSize)
		}
		for i := range some {
			body, _, st, _ := c.Get(key(i), now, 30, nil)
			if st == Miss || binary.BigEndian.Uint32(body[12:]) != uint32(i) {
				t.Fatalf("%s: entry %d: got state %d, body %x", name, i, st, body)
			}
		}
	}
}

func TestAFloodOfNamesThatExistLeavesWhatWasAskedForTwice(t *testing.T) {
	c, now := newCache(t, 4*MinSize, 0)
	const some = 5_000
	for i := range some {
		c.Put(key(i), now, answer(i))
		c.Get(key(i), now, 30, nil)
	}
	for range 5 {
		flood(c, now, 50_000, answer(1))
		for i := range some {
			if body, _, st, _ := c.Get(key(i), now, 30, nil); st == Miss || binary.BigEndian.Uint32(body[12:]) != uint32(i) {
				t.Fatalf("entry %d: got state %d, body %x", i, st, body)
			}
		}
		for i := range some { // it stays in the ring that it was in
			c.Put(key(i), now, answer(i))
		}
	}
	if st := c.Stats(); st.Bytes > 4*MinSize*3/2 {
		t.Errorf("the cache takes %d bytes, its limit is %d and tables", st.Bytes, 4*MinSize)
	}
}

func TestReplacingAnEntryLeavesOne(t *testing.T) {
	c, now := newCache(t, MinSize, 0)
	for i := range 50_000 {
		c.Put(key(i%7), now, answer(i))
	}
	if n := c.Stats().Entries; n != 7 {
		t.Errorf("%d entries, want 7", n)
	}
	for i := range 7 {
		body, _, st, _ := c.Get(key(i), now, 30, nil)
		if st == Miss || int(binary.BigEndian.Uint32(body[12:]))%7 != i {
			t.Errorf("entry %d: got state %d, body %x", i, st, body)
		}
	}
}

func TestAHitAllocatesNothing(t *testing.T) {
	c, now := newCache(t, MinSize, 0)
	k := key(1)
	c.Put(k, now, answer(1))
	buf := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(1000, func() { c.Get(k, now, 30, buf) }); n != 0 {
		t.Errorf("%v allocations per Get, want none", n)
	}
	e := answer(1)
	if n := testing.AllocsPerRun(1000, func() { c.Put(k, now, e) }); n != 0 {
		t.Errorf("%v allocations per Put, want none", n)
	}
}

const many = 10_000

// BenchmarkGet does the same as BenchmarkOtter: it finds the same keys and copies the same
// bytes.
func BenchmarkGet(b *testing.B) {
	c, now := newCache(b, 64<<20, 0)
	keys := make([]*Key, many)
	for i := range keys {
		keys[i] = key(i)
		c.Put(keys[i], now, answer(i))
	}
	buf := make([]byte, 0, 512)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, _, st, _ := c.Get(keys[i%many], now, 30, buf); st == Miss {
			b.Fatal("Get did not find a stored key")
		}
		i += 7919
	}
}

func BenchmarkOtter(b *testing.B) {
	type stored struct {
		entry *Entry
		at    time.Time
	}
	o := otter.Must(&otter.Options[string, stored]{MaximumSize: 100_000})
	now := time.Now()
	keys := make([][]byte, many)
	for i := range keys {
		keys[i] = append(wireName(i), 0, 1, 0, 1, 0)
		o.Set(string(keys[i]), stored{answer(i), now})
	}
	buf := make([]byte, 0, 512)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		v, ok := o.GetIfPresent(string(keys[i%many]))
		if !ok {
			b.Fatal("otter did not find a stored key")
		}
		body := append(buf, v.entry.Body...)
		age := uint32(now.Sub(v.at) / time.Second)
		for _, at := range v.entry.TTLs {
			binary.BigEndian.PutUint32(body[at:], binary.BigEndian.Uint32(body[at:])-age)
		}
		i += 7919
	}
}
