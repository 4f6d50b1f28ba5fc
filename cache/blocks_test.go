package cache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"shuultuur/lib/message"
	"shuultuur/lib/setting"
)

// blockBody returns the body of object i: no eight bytes of it occur in another.
func blockBody(i int) []byte {
	b := make([]byte, 5000+i*7919%200_000)
	for at := 0; at+8 <= len(b); at += 8 {
		binary.LittleEndian.PutUint64(b[at:], uint64(i)<<32|uint64(at))
	}
	return b
}

// blockOrigin answers /N with the body of object N, in pieces.
func blockOrigin(body func(i int) []byte) answerer {
	return func(q *message.Request) (*message.Response, error) {
		i, err := strconv.Atoi(string(q.Path[1:]))
		if err != nil {
			return nil, err
		}
		return pieces(body(i))
	}
}

func pieces(b []byte) (*message.Response, error) {
	s := respond(200, "", "Cache-Control", "max-age=1000")
	r := message.NewReader(io.MultiReader(bytes.NewReader(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(b))), bytes.NewReader(b)), 4096, 4096)
	var head message.Response
	if err := r.ReadResponse(&head, "GET"); err != nil {
		return nil, err
	}
	s.Fields.Set("Content-Length", strconv.Itoa(len(b)))
	s.Length, s.Body = int64(len(b)), head.Body
	return s, nil
}

// TestBodiesAreNeverMixed: reuse of memory from evicted bodies must not be visible.
func TestBodiesAreNeverMixed(t *testing.T) {
	const objects = 100
	want := make([][]byte, objects)
	for i := range want {
		want[i] = blockBody(i)
	}
	for _, disk := range []setting.Size{0, 64 << 20} {
		t.Run(fmt.Sprint("disk ", disk), func(t *testing.T) {
			c := open(t, Config{Memory: 3 << 20, Disk: disk}, Parts{Data: t.TempDir()})
			front := c.InFrontOf(blockOrigin(func(i int) []byte { return want[i] }))
			var all sync.WaitGroup
			for client := range uint64(8) {
				all.Go(func() {
					r := rand.New(rand.NewPCG(client, 1))
					for range 400 {
						i := r.IntN(objects) * r.IntN(objects) / objects
						s, err := front.RoundTrip(t.Context(), request("GET", "http://example.org/"+strconv.Itoa(i)))
						if err != nil {
							t.Error(err)
							return
						}
						readSlowly(t, r, s.Body, want[i])
						s.Body.Close()
					}
				})
			}
			all.Wait()
		})
	}
}

// readSlowly reads a body in one of several ways, and sometimes closes it before the end.
func readSlowly(t *testing.T, r *rand.Rand, b message.Body, want []byte) {
	piece := make([]byte, 50_000)
	for at, leaves := 0, r.IntN(len(want)*4); !b.AtEnd() && at < leaves; {
		parts, skips := b.Ready(nil), true
		if len(parts) == 0 {
			n, err := b.Read(piece[:1+r.IntN(len(piece))])
			if err != nil && err != io.EOF {
				t.Error(err)
				return
			}
			parts, skips = [][]byte{piece[:n]}, false
		}
		if r.IntN(4) == 0 {
			time.Sleep(time.Duration(r.IntN(500)) * time.Microsecond)
		}
		n := 0
		for _, p := range parts {
			if rest := want[at+n:]; len(p) > len(rest) || !bytes.Equal(p, rest[:len(p)]) {
				t.Errorf("the body differs from the origin's from byte %d on", at+n)
				return
			}
			n += len(p)
		}
		if at += n; skips {
			b.Skip(n)
		}
	}
}

// TestMissesReuseMemory: fetching objects that are never requested again makes hardly any
// garbage.
func TestMissesReuseMemory(t *testing.T) {
	all := make([]byte, 250_000)
	c := open(t, Config{Memory: 64 << 20}, Parts{})
	front := c.InFrontOf(blockOrigin(func(i int) []byte { return all[:20_000+i*7919%200_000] }))
	miss := func(from, to int) (fetched uint64) {
		for i := from; i < to; i++ {
			s, err := front.RoundTrip(t.Context(), request("GET", "http://example.org/"+strconv.Itoa(i)))
			if err != nil {
				t.Fatal(err)
			}
			n, err := s.Body.Copy(io.Discard, 1<<40)
			if err != nil {
				t.Fatal(err)
			}
			s.Body.Close()
			fetched += uint64(n)
		}
		return fetched
	}
	miss(0, 1000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fetched := miss(1000, 3000)
	runtime.ReadMemStats(&after)
	// With the race detector, pools drop a quarter of their values.
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > fetched/2 {
		t.Errorf("fetching %d bytes allocated %d, want at most half as many", fetched, allocated)
	} else {
		t.Logf("fetching %d bytes allocated %d", fetched, allocated)
	}
}

// TestBlocksHaveTheSizeOfTheirClass: a block's class is found again by its capacity. The block
// has room for the requested size, and above 32 KiB takes no more of the heap than its size.
func TestBlocksHaveTheSizeOfTheirClass(t *testing.T) {
	for n := 1 << leastClass; n <= 1<<mostClass; n += 333 {
		class, size := classOf(n)
		if size < n || size > n+n/classShare+heapPage {
			t.Fatalf("classOf(%d) has blocks of %d bytes", n, size)
		}
		if again, same := classOf(size); again != class || same != size {
			t.Fatalf("classOf(%d) = %d, %d, but classOf(%d) = %d, %d", n, class, size, size, again, same)
		}
		if size > largeObject && size%heapPage != 0 {
			t.Fatalf("classOf(%d) has blocks of %d bytes, want a multiple of the heap's page", n, size)
		}
	}
}
