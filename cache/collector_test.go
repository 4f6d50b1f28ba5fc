package cache

import (
	"io"
	"runtime"
	"strconv"
	"testing"

	"shuultuur/lib/message"
)

// TestObjectsTakeTheMemoryThatIsCounted: objects with everything that belongs to them take the
// memory in the settings.
func TestObjectsTakeTheMemoryThatIsCounted(t *testing.T) {
	for _, size := range []int{0, 1 << 10, 30_000, 200_000} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			body := make([]byte, size)
			c := open(t, Config{Memory: 32 << 20}, Parts{})
			front := c.InFrontOf(answerer(func(q *message.Request) (*message.Response, error) {
				s := respond(200, string(body), "Cache-Control", "max-age=1000", "Content-Type", "text/html; charset=utf-8",
					"Last-Modified", "Mon, 23 Nov 2026 09:00:00 GMT", "Etag", `"6b04a8e7-400"`, "Server", "example", "Accept-Ranges", "bytes")
				return s, nil
			}))
			before := heapInUse()
			for i := range 3 * (32 << 20) / (size + 1500) {
				s, err := front.RoundTrip(t.Context(), request("GET", "http://example.org/assets/2026/picture-"+strconv.Itoa(i)))
				if err != nil {
					t.Fatal(err)
				}
				s.Body.Close()
			}
			taken, counted := heapInUse()-before, c.memory.Bytes()
			t.Logf("%d objects take %d bytes each, and count as %d", c.memory.Len(), taken/int64(c.memory.Len()), counted/int64(c.memory.Len()))
			if taken > counted+counted/10+1<<20 {
				t.Errorf("objects take %d bytes of the heap, and count as %d", taken, counted)
			}
			runtime.KeepAlive(c)
		})
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestBodiesBeingFetchedCountAsMemory: bodies being fetched take their memory from stored objects.
func TestBodiesBeingFetchedCountAsMemory(t *testing.T) {
	const memory = 8 << 20
	c := open(t, Config{Memory: memory}, Parts{})
	body := make([]byte, 100_000)
	front := c.InFrontOf(answerer(func(q *message.Request) (*message.Response, error) {
		if string(q.Path) == "/large" {
			s := respond(200, "", "Cache-Control", "max-age=1000")
			s.Fields.Set("Content-Length", strconv.Itoa(3<<20))
			s.Length, s.Body = 3<<20, &slowBody{left: 3 << 20}
			return s, nil
		}
		return respond(200, string(body), "Cache-Control", "max-age=1000"), nil
	}))
	for i := range 2 * memory / len(body) {
		s, err := front.RoundTrip(t.Context(), request("GET", "http://example.org/"+strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		s.Body.Close()
	}
	s, err := front.RoundTrip(t.Context(), request("GET", "http://example.org/large"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Body.Read(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	if c.budget.now() == 0 || c.memoryInUse()-unused.keptBytes() > memory {
		t.Errorf("with %d bytes being fetched, the cache takes %d bytes, want at most %d", c.budget.now(), c.memoryInUse()-unused.keptBytes(), memory)
	}
	if _, err := s.Body.Copy(io.Discard, 3<<20); err != nil {
		t.Fatal(err)
	}
	s.Body.Close()
	if c.budget.now() != 0 || c.memoryInUse()-unused.keptBytes() > memory || c.memory.Bytes() < memory/2 {
		t.Errorf("at the end %d bytes are being fetched, and the cache takes %d bytes of at most %d", c.budget.now(), c.memoryInUse()-unused.keptBytes(), memory)
	}
}

// A slowBody is a body of zeros without available bytes.
type slowBody struct {
	message.MemoryBody
	left int64
}

func (s *slowBody) Read(p []byte) (n int, err error) {
	n = int(min(int64(len(p)), s.left, 64<<10))
	s.left -= int64(n)
	return n, nil
}
func (s *slowBody) Remaining() int64 { return s.left }
func (s *slowBody) AtEnd() bool      { return s.left == 0 }

func TestGarbageIsBoundedBesideBodies(t *testing.T) {
	for _, c := range []struct{ live, held, most int64 }{
		{30 << 20, 0, 30 << 20},
		{290 << 20, 256 << 20, 70 << 20},
		{2080 << 20, 2 << 30, 300 << 20},
		{600 << 20, 100 << 20, 520 << 20},
	} {
		if got := c.live * int64(garbagePercent(c.live, c.held)) / 100; got > c.most {
			t.Errorf("with %d MiB in use, %d MiB of them the cache's, garbage may take %d MiB, want at most %d MiB", c.live>>20, c.held>>20, got>>20, c.most>>20)
		}
	}
}

// TestTheMemoryLimitIsAboveTheTargetOfTheCollector: the limit does not affect the collector,
// because it is above the heap that the percentage permits, plus everything outside the heap.
func TestTheMemoryLimitIsAboveTheTargetOfTheCollector(t *testing.T) {
	var use memoryUse
	use.read()
	if use.live < 0 || use.gaps < 0 || use.others < 1<<20 || use.others > 1<<30 {
		t.Errorf("reading the memory of the process gives %+v", use)
	}
	use = memoryUse{live: 300 << 20, gaps: 5 << 20, others: 30 << 20}
	if got, want := memoryLimit(&use, 20), int64(360+35+16)<<20; got < want-1000 || got > want {
		t.Errorf("memoryLimit(%+v, 20) = %d, want %d", use, got, want)
	}
}
