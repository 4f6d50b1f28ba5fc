package proxy

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestUnreadStreamsOfHTTP2OriginsTakeLittleMemory(t *testing.T) {
	const clients, each, most = 3, 100, 150 << 20
	w := newWorld(t)
	var sent, streams atomic.Int64
	host := w.origin2(t, true, func(rw http.ResponseWriter, q *http.Request) {
		streams.Add(1)
		for block := make([]byte, 32<<10); ; {
			n, err := rw.Write(block)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	r := start(t, Config{}, Engine{Intercept: w.in})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range clients {
		f := r.frames(w, host)
		for i := range each {
			f.ask(uint32(2*i+1), true, ":method", "GET", ":scheme", "https", ":authority", host, ":path", fmt.Sprint("/", i))
		}
	}
	// All streams have begun, and the origin cannot send any more.
	last, since := int64(-1), time.Now()
	for end := time.Now().Add(time.Minute); streams.Load() < clients*each || time.Since(since) < time.Second; time.Sleep(10 * time.Millisecond) {
		if now := sent.Load(); now != last {
			last, since = now, time.Now()
		}
		if last > 10*most || time.Now().After(end) {
			break
		}
	}
	runtime.ReadMemStats(&after)
	held := r.Stats().Held
	t.Logf("%d streams, %d MiB sent, %d MiB counted, heap %d MiB before and %d MiB after", streams.Load(), sent.Load()>>20, held>>20, before.HeapInuse>>20, after.HeapInuse>>20)
	if streams.Load() < clients*each {
		t.Errorf("%d streams have reached the origin, want %d", streams.Load(), clients*each)
	}
	if sent.Load() > most || after.HeapInuse-min(before.HeapInuse, after.HeapInuse) > most {
		t.Errorf("the origin could send %d bytes that nobody reads; the heap has grown by %d bytes; want at most %d", sent.Load(), after.HeapInuse-before.HeapInuse, most)
	}
	if held == 0 || held > 64<<20 {
		t.Errorf("%d bytes are counted as held, want some, and no more than there are", held)
	}
}

// A download over a path with a round trip of 50 ms needs a window of megabytes.
func TestAFastReaderOfAnHTTP2OriginGetsALargeWindow(t *testing.T) {
	w := newWorld(t)
	const size = 24 << 20
	sum := sha256.Sum256(make([]byte, size))
	host := w.origin2(t, true, func(rw http.ResponseWriter, q *http.Request) {
		rw.Header().Set("Content-Length", fmt.Sprint(size))
		rw.Write(make([]byte, size))
	})
	far := delayed(t, strings.Replace(host, "localhost", "127.0.0.1", 1), 25*time.Millisecond)
	r := start(t, Config{}, Engine{Intercept: w.in})
	c := r.browser2(w)
	began := time.Now()
	s, err := c.Get("https://" + strings.Replace(far, "127.0.0.1", "localhost", 1) + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	all := sha256.New()
	if _, err := io.Copy(all, s.Body); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("%d MiB in %v", size>>20, took)
	if [32]byte(all.Sum(nil)) != sum {
		t.Error("the body has other bytes than the origin sent")
	}
	if took > 8*time.Second { // a window of 64 KiB takes 19 s
		t.Errorf("%d MiB over a path of 50 ms took %v", size>>20, took)
	}
}

// delayed listens at an address that leads to another one, over a path that takes some time.
func delayed(t *testing.T, to string, by time.Duration) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			go carry(near, far, by)
			go carry(far, near, by)
		}
	}()
	return ln.Addr().String()
}

// carry copies bytes, each of them later by some time.
func carry(to, from net.Conn, by time.Duration) {
	type piece struct {
		b  []byte
		at time.Time
	}
	under := make(chan piece, 4096)
	go func() {
		defer close(under)
		for {
			b := make([]byte, 32<<10)
			n, err := from.Read(b)
			if n > 0 {
				under <- piece{b[:n], time.Now().Add(by)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range under {
		time.Sleep(time.Until(p.at))
		if _, err := to.Write(p.b); err != nil {
			break
		}
	}
	to.Close()
	from.Close()
	for range under {
	}
}
