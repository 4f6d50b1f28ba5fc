package upstream

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"shuultuur/lib/message"
)

// This file bounds what HTTP/2 origins send before it is read. x/net grants each stream 4 MiB
// from the beginning, so that a hundred streams whose client does not read take 400 MiB. Here a
// stream begins with firstWindow, which is enough for most responses, and gets twice as much
// whenever its reader turns out to be faster than the window lets the origin send. So a stopped
// reader costs little, and a download over a long path gets the same 4 MiB as before. All beyond
// firstWindow is taken from a budget until the stream ends, because a granted window cannot be
// taken back; firstWindow itself is counted while nobody reads.
//
// x/net keeps its own account of a window of 4 MiB. A pacer below it tells the origin of a
// smaller one, and adds to it what a stream gets. The updates that x/net sends for what was read
// pass unchanged.

const (
	firstWindow = 64 << 10
	mostWindow  = 4 << 20 // that of x/net
	// A window that was read within quick is too small, whatever the reader waited for.
	quick = 250 * time.Millisecond
	// It also is if most of the time until then went by waiting for the origin, unless that is so
	// slow that no window would help.
	patient = 2 * time.Second
)

// noBudget grants nothing.
type noBudget struct{}

func (noBudget) Acquire(netip.Addr, int64) bool { return false }
func (noBudget) Release(netip.Addr, int64)      {}

// SetBudget sets where windows of HTTP/2 come from. Call it before the first request. Without
// one, no stream gets more than firstWindow.
func (t *Transport) SetBudget(b message.Budget) { t.budget = b }

// A pacer is a connection to an HTTP/2 origin, below x/net.
type pacer struct {
	net.Conn

	mu      sync.Mutex
	preface int    // bytes of the preface still to be written
	head    []byte // of the frame being written, while it is incomplete
	left    int    // bytes of its payload still to be written
	last    uint32 // stream of the last HEADERS
	updates []byte // frames that wait for the end of that frame
	out     []byte

	in incoming // used by the reader only
}

func newPacer(c net.Conn) *pacer { return &pacer{Conn: c, preface: len(http2.ClientPreface)} }

// Write implements [net.Conn].
func (p *pacer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := b
	if p.preface > 0 {
		out = p.begin(b)
	}
	p.follow(out)
	if len(p.updates) > 0 && p.left == 0 && len(p.head) == 0 {
		p.out = append(append(p.out[:0], out...), p.updates...)
		out, p.updates = p.out, p.updates[:0]
	}
	n, err := p.Conn.Write(out)
	return min(n, len(b)), err
}

// begin returns the first bytes of the connection with firstWindow in SETTINGS.
func (p *pacer) begin(b []byte) []byte {
	b = append([]byte(nil), b...)
	for rest := b[min(len(b), p.preface):]; len(rest) >= frameHead; {
		n := int(rest[0])<<16 | int(rest[1])<<8 | int(rest[2])
		kind, payload := http2.FrameType(rest[3]), rest[frameHead:]
		if n > len(payload) {
			break
		}
		if rest = payload[n:]; kind != http2.FrameSettings {
			continue
		}
		for s := payload[:n]; len(s) >= 6; s = s[6:] {
			if http2.SettingID(binary.BigEndian.Uint16(s)) == http2.SettingInitialWindowSize {
				binary.BigEndian.PutUint32(s[2:], firstWindow)
			}
		}
	}
	return b
}

const frameHead = 9

// follow finds the frames in b.
func (p *pacer) follow(b []byte) {
	n := min(p.preface, len(b))
	p.preface -= n
	for b = b[n:]; len(b) > 0; {
		if p.left > 0 {
			n := min(p.left, len(b))
			p.left -= n
			b = b[n:]
			continue
		}
		n := min(frameHead-len(p.head), len(b))
		p.head = append(p.head, b[:n]...)
		if b = b[n:]; len(p.head) < frameHead {
			return
		}
		h := p.head
		p.left = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
		if http2.FrameType(h[3]) == http2.FrameHeaders {
			p.last = binary.BigEndian.Uint32(h[5:])
		}
		p.head = p.head[:0]
	}
}

// An incoming follows the frames of an origin.
type incoming struct {
	head     []byte // of the frame that arrives, while it is incomplete
	left     int    // bytes of its payload still to come
	settings bool   // it is SETTINGS
	at       int    // position in its payload
	id       uint16 // of the setting there
}

// leastFrame is the size of frames that every origin accepts.
const leastFrame uint32 = 16 << 10

// Read implements [net.Conn]. Whatever frames the origin accepts, x/net hears of the least size: it keeps
// a buffer of one frame, up to 512 KiB, for each upload, also while the origin does not read.
func (p *pacer) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.in.follow(b[:n])
	return n, err
}

// follow finds the frames in b, and changes the setting for their size.
func (i *incoming) follow(b []byte) {
	for len(b) > 0 {
		if i.left > 0 {
			n := min(i.left, len(b))
			for k := range b[:n] {
				if !i.settings {
					break
				}
				i.setting(&b[k])
			}
			i.left -= n
			b = b[n:]
			continue
		}
		n := min(frameHead-len(i.head), len(b))
		i.head = append(i.head, b[:n]...)
		if b = b[n:]; len(i.head) < frameHead {
			return
		}
		h := i.head
		i.left = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
		i.settings, i.at = http2.FrameType(h[3]) == http2.FrameSettings, 0
		i.head = h[:0]
	}
}

// setting takes the next byte of SETTINGS: two of an identifier, then four of a value.
func (i *incoming) setting(b *byte) {
	switch k := i.at % 6; {
	case k < 2:
		i.id = i.id<<8 | uint16(*b)
	case http2.SettingID(i.id) == http2.SettingMaxFrameSize:
		*b = byte(leastFrame >> (8 * (5 - k)))
	}
	i.at++
}

// grant lets the origin send n more bytes on a stream.
func (p *pacer) grant(stream uint32, n int64) error {
	f := [frameHead + 4]byte{2: 4, 3: byte(http2.FrameWindowUpdate)}
	binary.BigEndian.PutUint32(f[5:], stream)
	binary.BigEndian.PutUint32(f[frameHead:], uint32(n))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left > 0 || len(p.head) > 0 {
		p.updates = append(p.updates, f[:]...)
		return nil
	}
	_, err := p.Conn.Write(f[:])
	return err
}

// stream returns the stream of the HEADERS written last.
func (p *pacer) stream() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// A window is that of a stream, for its reader.
type window struct {
	p      *pacer
	budget message.Budget
	who    netip.Addr

	mu      sync.Mutex
	stream  uint32 // 0 until it is known
	size    int64
	taken   int64 // from budget, beyond firstWindow
	resting int64 // firstWindow while nobody reads, if the budget has it
	read    int64 // bytes since began
	began   time.Time
	waited  time.Duration // for the origin, since then
	closed  bool
}

// begin is called before a Read.
func (w *window) begin() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake()
	return time.Now()
}

func (w *window) wake() {
	if w.resting > 0 {
		w.budget.Release(w.who, w.resting)
		w.resting = 0
	}
}

// end is called after a Read of n bytes that began at since; left bytes are still to come,
// negative if unknown.
func (w *window) end(since time.Time, n int, left int64) { w.ended(since, time.Now(), n, left) }

func (w *window) ended(since, now time.Time, n int, left int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || n == 0 || left == 0 {
		return
	}
	if w.began.IsZero() {
		w.began, w.size = now, firstWindow // the wait for the first byte is no sign of anything
	} else {
		w.waited += now.Sub(since)
	}
	w.read += int64(n)
	if w.read >= w.size {
		took := now.Sub(w.began)
		if took < quick || took < patient && w.waited > took/2 {
			w.grow(left)
		}
		w.read, w.began, w.waited = 0, now, 0
	}
	if w.budget.Acquire(w.who, firstWindow) {
		w.resting = firstWindow
	}
}

// grow doubles the window, if there is room and use for it.
func (w *window) grow(left int64) {
	if w.size >= mostWindow || w.stream == 0 || left > 0 && left <= w.size || !w.budget.Acquire(w.who, w.size) {
		return
	}
	w.taken += w.size
	if w.p.grant(w.stream, w.size) == nil { // else x/net gets the error, too
		w.size *= 2
	}
}

// close gives back what the stream has taken.
func (w *window) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.wake()
	if w.taken > 0 {
		w.budget.Release(w.who, w.taken)
		w.taken = 0
	}
}

// opened records the stream, when its HEADERS have been written.
func (w *window) opened() {
	id := w.p.stream()
	w.mu.Lock()
	w.stream = id
	w.mu.Unlock()
}
