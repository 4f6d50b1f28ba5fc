package upstream

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// A written is a connection that keeps what is written to it.
type written struct {
	net.Conn
	bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) { return w.Buffer.Write(b) }
func (w *written) Read([]byte) (int, error)    { return 0, io.EOF }

// However x/net cuts its frames, updates go between them and SETTINGS name the first window.
func TestUpdatesOfWindowsGoBetweenFrames(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var frames bytes.Buffer
		frames.WriteString(http2.ClientPreface)
		fr := http2.NewFramer(&frames, nil)
		fr.WriteSettings(http2.Setting{ID: http2.SettingEnablePush}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: mostWindow})
		fr.WriteWindowUpdate(0, 1<<30)
		begin := frames.Len()
		var want []string
		for i := range uint32(20) {
			switch random.IntN(3) {
			case 0:
				fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, EndHeaders: true, BlockFragment: make([]byte, random.IntN(300))})
			case 1:
				fr.WriteData(2*i+1, false, make([]byte, random.IntN(3000)))
			case 2:
				fr.WritePing(false, [8]byte{})
			}
		}
		all := bytes.Clone(frames.Bytes())
		reader := http2.NewFramer(nil, bytes.NewReader(all[len(http2.ClientPreface):]))
		for {
			f, err := reader.ReadFrame()
			if err != nil {
				break
			}
			want = append(want, fmt.Sprint(f.Header()))
		}
		var out written
		p := newPacer(&out)
		granted := 0
		for n := begin; len(all) > 0; n = 1 + random.IntN(4000) {
			n = min(n, len(all))
			if k, err := p.Write(all[:n]); k != n || err != nil {
				t.Fatalf("seed %d: Write returns %d, %v, want %d", seed, k, err, n)
			}
			all = all[n:]
			if random.IntN(2) == 0 {
				granted++
				if err := p.grant(99, firstWindow); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !bytes.HasPrefix(out.Bytes(), []byte(http2.ClientPreface)) {
			t.Fatalf("seed %d: the preface is %q", seed, out.Bytes()[:24])
		}
		reader = http2.NewFramer(nil, bytes.NewReader(out.Bytes()[len(http2.ClientPreface):]))
		var got []string
		updates := 0
		for {
			f, err := reader.ReadFrame()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("seed %d: reading the frames after %d: %v", seed, len(got), err)
			}
			if s, ok := f.(*http2.SettingsFrame); ok {
				if v, _ := s.Value(http2.SettingInitialWindowSize); v != firstWindow {
					t.Fatalf("seed %d: SETTINGS name a window of %d bytes, want %d", seed, v, firstWindow)
				}
			}
			if u, ok := f.(*http2.WindowUpdateFrame); ok && u.StreamID == 99 {
				updates++
				continue
			}
			got = append(got, fmt.Sprint(f.Header()))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || updates != granted {
			t.Fatalf("seed %d: %d of %d updates, frames\n%v, want\n%v", seed, updates, granted, got, want)
		}
	}
}

// room is a budget.
type room struct {
	mu          sync.Mutex
	left, taken int64
}

func (r *room) Acquire(_ netip.Addr, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken+n > r.left {
		return false
	}
	r.taken += n
	return true
}

func (r *room) Release(_ netip.Addr, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= n
}

func (r *room) used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

func TestAWindowGrowsWithItsReader(t *testing.T) {
	for _, tt := range []struct {
		name         string
		room         int64
		left         int64         // of the body
		reads, waits time.Duration // between two reads, and in a read
		want         int64
	}{
		{"a fast reader", 64 << 20, -1, 0, 0, mostWindow},
		{"a fast reader over a long path", 64 << 20, -1, 0, 100 * time.Millisecond, 512 << 10}, // until more helps nothing
		{"a slow reader", 64 << 20, -1, 100 * time.Millisecond, 0, firstWindow},
		{"no room", 0, -1, 0, 0, firstWindow},
		{"some room", 4 * firstWindow, -1, 0, 0, 4 * firstWindow},
		{"a short rest", 64 << 20, firstWindow, 0, 0, firstWindow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &room{left: tt.room}
			w := window{p: newPacer(&written{}), budget: b, stream: 1}
			now := time.Now()
			for range 2000 {
				since := now
				now = now.Add(tt.waits)
				w.begin()
				w.ended(since, now, 16<<10, tt.left)
				now = now.Add(tt.reads)
			}
			if w.size != tt.want {
				t.Errorf("the window is %d bytes, want %d", w.size, tt.want)
			}
			if most := w.size; b.taken > most || b.taken < w.size-firstWindow {
				t.Errorf("%d bytes are taken for a window of %d", b.taken, w.size)
			}
			w.close()
			w.ended(now, now, 1, -1)
			if b.taken != 0 {
				t.Errorf("%d bytes are taken after the end", b.taken)
			}
		})
	}
}
