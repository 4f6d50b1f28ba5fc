// Package streams speaks HTTP/2 with clients (RFC 9113). A [Conn] reads the frames of one
// connection. Each of its requests is a [Stream], which is the net.Conn of somebody who speaks
// HTTP/1.1: what is read from it is the request in that form, and what is written to it leaves
// as frames. So judging, holding and writing are the same for both versions.
//
// The frames are read with x/net's Framer. Its server is not used: it accepts some requests
// that RFC 9113 calls malformed, has fields only as an unordered map, and offers WebSocket
// (RFC 8441) only with an environment variable.
package streams

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"shuultuur/lib/fair"
	"shuultuur/lib/message"
	"shuultuur/proxy/held"
)

const (
	maxStreams   = 128       // concurrent, of one connection
	firstWindow  = 1<<16 - 1 // bytes of a request's body that were not yet read
	streamWindow = 256 << 10 // the same while the body is read, if the client's share has it
	connWindow   = 1 << 20   // the same for all streams of a connection
	maxFrame     = 16 << 10
	maxWindow    = 1<<31 - 1
	largeHeads   = 4 // how many times as large as it may be a head is read, to be answered with 431
	maxWaiting   = 4 // goroutines of a connection without a stream
	// maxResets is how many more streams a client may reset than finish before it is
	// considered an attacker (CVE-2023-44487).
	maxResets = 1000

	settingConnectProtocol = http2.SettingID(8) // RFC 8441 section 3
)

// A Config has what a connection shares with others.
type Config struct {
	Head      int           // largest head of a request, in bytes
	Idle      time.Duration // of a connection without streams; 0: any time
	Silence   time.Duration // of a client that must read; 0: any time
	Memory    *held.Budget  // for frames, and for what was not yet read
	Client    netip.Addr    // whose share of it that is
	Malformed *atomic.Int64 // counts malformed requests and connections
	// Serve serves a stream, in a goroutine of its own. It calls Begin, and End at last.
	Serve func(*Stream)
}

// A Conn is a client's HTTP/2 connection.
type Conn struct {
	Config
	c      net.Conn // TLS
	socket net.Conn // below it
	r      *message.Reader
	fr     *http2.Framer // used by the reader only

	writing sync.Mutex // not to be locked while mu is held
	out     []byte     // frames to send, a block if there are any; guarded by writing
	until   time.Time  // current write deadline; guarded by writing
	broken  error      // why nothing can be written any more; guarded by writing
	headerBlock

	mu      sync.Mutex
	open    map[uint32]*Stream
	running int    // streams being served, including those that were reset
	last    uint32 // highest stream of the client
	send    int64  // bytes that may be sent on all streams together
	initial int64  // bytes that may be sent on a new stream
	frame   int    // largest frame that the client accepts, in bytes
	spare   int64  // bytes subtracted from the receive window and not yet returned
	recv    int64  // bytes the client may still send
	resets  int
	leaving bool // no further streams
	over    bool
	timer   *time.Timer // of Idle, and of the farewell
	crew
	wg sync.WaitGroup
}

// A headerBlock is an unfinished header block; guarded by streams.writing.
type headerBlock struct {
	block  []byte
	resize bool // the client has sent its table size
}

// A crew is the goroutines that have served a stream and wait for another one.
type crew struct {
	jobs    chan *Stream
	waiting int // number waiting for jobs; guarded by streams.mu
}

// New returns the connection c over a socket, of which r has the first bytes.
func New(c, socket net.Conn, r *message.Reader, cfg Config) *Conn {
	m := &Conn{
		Config: cfg, c: c, socket: socket, r: r, open: map[uint32]*Stream{},
		send: 1<<16 - 1, initial: 1<<16 - 1, frame: maxFrame, recv: connWindow,
		crew: crew{jobs: make(chan *Stream, maxStreams)},
	}
	m.fr = http2.NewFramer(nil, r)
	m.fr.SetReuseFrames()
	m.fr.SetMaxReadFrameSize(maxFrame)
	m.fr.MaxHeaderListSize = uint32(largeHeads * cfg.Head)
	m.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	m.timer = time.AfterFunc(m.idleTime(), m.leave)
	return m
}

// Run serves the connection until it ends, and all its streams.
func (m *Conn) Run() {
	err := m.begin()
	for err == nil {
		err = m.next()
	}
	m.end(err)
}

// Leave makes the client open no more streams. It does not wait.
func (m *Conn) Leave() { m.timer.Reset(0) }

// Each calls f with the server of each stream. f must not wait.
func (m *Conn) Each(f func(Server)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, st := range m.open {
		if st.by != nil {
			f(st.by)
		}
	}
}

// idleTime is how long the connection may be without streams.
func (m *Conn) idleTime() time.Duration {
	if d := m.Idle; d > 0 {
		return d
	}
	return fair.Forever
}

// begin exchanges the first frames.
func (m *Conn) begin() error {
	err := m.write(func(b []byte) []byte {
		b = appendFrame(b, http2.FrameSettings, 0, 0, 4*6)
		for _, s := range [...]http2.Setting{
			{ID: http2.SettingMaxConcurrentStreams, Val: maxStreams}, {ID: http2.SettingInitialWindowSize, Val: firstWindow},
			{ID: http2.SettingMaxHeaderListSize, Val: uint32(m.Head)}, {ID: settingConnectProtocol, Val: 1},
		} {
			b = appendUint32(append(b, byte(s.ID>>8), byte(s.ID)), s.Val)
		}
		return appendWindow(b, 0, connWindow-(1<<16-1))
	})
	if err != nil {
		return err
	}
	preface, err := m.r.Peek(len(http2.ClientPreface))
	if err != nil {
		return err
	}
	if string(preface) != http2.ClientPreface {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	m.r.Discard(len(http2.ClientPreface))
	f, err := m.fr.ReadFrame()
	if err != nil {
		return err
	}
	s, ok := f.(*http2.SettingsFrame)
	if !ok || s.IsAck() {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return m.settings(s)
}

// next reads a frame and handles it.
func (m *Conn) next() error {
	f, err := m.fr.ReadFrame()
	if e, ok := errors.AsType[http2.StreamError](err); ok {
		return m.reset(e.StreamID, e.Code)
	}
	if err != nil {
		return err
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return m.headers(f)
	case *http2.DataFrame:
		return m.data(f)
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		return m.settings(f)
	case *http2.WindowUpdateFrame:
		return m.window(f)
	case *http2.RSTStreamFrame:
		return m.gaveUp(f.StreamID)
	case *http2.PingFrame:
		if f.IsAck() {
			return nil
		}
		return m.write(func(b []byte) []byte {
			return append(appendFrame(b, http2.FramePing, http2.FlagPingAck, 0, 8), f.Data[:]...)
		})
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			return m.reset(f.StreamID, http2.ErrCodeProtocol)
		}
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil // a client that sends GOAWAY closes the connection when it is done
}

// settings applies the client's settings.
func (m *Conn) settings(f *http2.SettingsFrame) error {
	resize := false
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		switch s.ID {
		case http2.SettingInitialWindowSize:
			more := int64(s.Val) - m.initial
			m.initial = int64(s.Val)
			for _, st := range m.open {
				if st.send += more; st.send > maxWindow {
					return http2.ConnectionError(http2.ErrCodeFlowControl)
				}
				st.changed.Broadcast()
			}
		case http2.SettingMaxFrameSize:
			m.frame = int(min(s.Val, maxFrame)) // a TLS record has no room for more
		case http2.SettingHeaderTableSize:
			resize = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.write(func(b []byte) []byte {
		m.resize = m.resize || resize
		return appendFrame(b, http2.FrameSettings, http2.FlagSettingsAck, 0, 0)
	})
}

// idleID reports whether id is a stream that was never opened.
func (m *Conn) idleID(id uint32) bool { return id%2 == 0 || id > m.last }

// headers opens a stream or ends a request with trailers.
func (m *Conn) headers(f *http2.MetaHeadersFrame) error {
	id := f.StreamID
	if id%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	m.mu.Lock()
	st, old := m.open[id], id <= m.last
	if old {
		m.mu.Unlock()
		if st == nil {
			return http2.ConnectionError(http2.ErrCodeStreamClosed)
		}
		return m.trailers(st, f)
	}
	m.last = id
	refused := m.running >= maxStreams
	ignored := m.leaving
	initial := m.initial
	m.mu.Unlock()
	if f.HasPriority() && f.Priority.StreamDep == id {
		return m.reset(id, http2.ErrCodeProtocol)
	}
	switch {
	case ignored: // the client knows, and will retry elsewhere
		return nil
	case refused:
		return m.reset(id, http2.ErrCodeRefusedStream)
	}
	st = &Stream{m: m, id: id, send: initial, recv: firstWindow, size: firstWindow}
	st.changed.L = &m.mu
	if f.Truncated || listSize(f) > m.Head {
		m.Malformed.Add(1)
		return m.write(func(b []byte) []byte {
			m.status("431")
			return m.appendBlock(b, id, true)
		})
	}
	if !st.ask(f.Fields, f.StreamEnded()) {
		m.Malformed.Add(1)
		return m.reset(id, http2.ErrCodeProtocol)
	}
	m.mu.Lock()
	m.open[id] = st
	m.running++
	m.timer.Stop()
	waiting := m.waiting > 0
	if waiting {
		m.waiting--
	}
	m.mu.Unlock()
	if waiting {
		m.jobs <- st // it never blocks, because there is a place for each possible stream
	} else {
		m.wg.Go(func() { m.work(st) })
	}
	return nil
}

// work serves st, and then streams from jobs while the connection lasts: the stack of a
// goroutine that has served a request need not grow for the next.
func (m *Conn) work(st *Stream) {
	for ok := true; ok; st, ok = <-m.jobs {
		m.Serve(st)
		m.mu.Lock()
		stays := m.waiting < maxWaiting && !m.over
		if stays {
			m.waiting++
		}
		m.mu.Unlock()
		if !stays {
			return
		}
	}
}

// listSize returns the size of a header list (RFC 9113 section 6.5.2).
func listSize(f *http2.MetaHeadersFrame) (n int) {
	for _, h := range f.Fields {
		n += int(h.Size())
	}
	return n
}

// release releases a stream that was served.
func (m *Conn) release(st *Stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, st.id)
	m.running--
	m.resets = max(0, m.resets-1)
	if m.running > 0 {
		return
	}
	if m.leaving {
		m.timer.Reset(farewell)
	} else {
		m.timer.Reset(m.idleTime())
	}
}

// data handles data of a request's body.
func (m *Conn) data(f *http2.DataFrame) error {
	n := int64(f.Length)
	m.mu.Lock()
	if m.idleID(f.StreamID) {
		m.mu.Unlock()
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if m.recv -= n; m.recv < 0 {
		m.mu.Unlock()
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	st, code := m.open[f.StreamID], http2.ErrCodeStreamClosed
	if st != nil && !st.ended && st.dead == nil {
		code = st.take(f.Data(), n, f.StreamEnded())
	} else if st != nil && st.dead != nil && st.dead != errGaveUp {
		st, code = nil, 0 // it crossed our reset
	}
	if code == 0 && st != nil {
		pad := n - int64(len(f.Data()))
		m.mu.Unlock()
		return m.credit(st, pad) // no one will read that
	}
	m.mu.Unlock()
	if err := m.credit(nil, n); err != nil || code == 0 {
		return err
	}
	return m.reset(f.StreamID, code)
}

// trailers ends a request.
func (m *Conn) trailers(st *Stream, f *http2.MetaHeadersFrame) error {
	m.mu.Lock()
	if st.ended && st.sent && st.dead == nil {
		m.mu.Unlock()
		return http2.ConnectionError(http2.ErrCodeStreamClosed)
	}
	code := http2.ErrCode(0)
	switch {
	case st.dead == errGaveUp:
		code = http2.ErrCodeStreamClosed
	case st.dead != nil: // they crossed our reset
	case st.ended:
		code = http2.ErrCodeStreamClosed
	case !f.StreamEnded() || len(f.PseudoFields()) > 0 || f.Truncated:
		code = http2.ErrCodeProtocol
	default:
		for _, h := range f.Fields {
			if !betweenNeighbours(h.Name) {
				st.trailer.Add(h.Name, h.Value)
			}
		}
		code = st.take(nil, 0, true)
	}
	m.mu.Unlock()
	if code != 0 {
		return m.reset(st.id, code)
	}
	return nil
}

// window records that the client accepts more data.
func (m *Conn) window(f *http2.WindowUpdateFrame) error {
	more := int64(f.Increment)
	m.mu.Lock()
	if f.StreamID == 0 {
		m.send += more
		for _, st := range m.open {
			st.changed.Broadcast()
		}
		wrong := m.send > maxWindow
		m.mu.Unlock()
		if wrong {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		return nil
	}
	if m.idleID(f.StreamID) {
		m.mu.Unlock()
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	wrong := false
	if st := m.open[f.StreamID]; st != nil {
		st.send += more
		wrong = st.send > maxWindow
		st.changed.Broadcast()
	}
	m.mu.Unlock()
	if wrong {
		return m.reset(f.StreamID, http2.ErrCodeFlowControl)
	}
	return nil
}

// errGaveUp is the error of a stream that the client has reset.
var errGaveUp = errors.New("the client gave up the stream")

// gaveUp ends a stream that the client has reset.
func (m *Conn) gaveUp(id uint32) error {
	m.mu.Lock()
	if m.idleID(id) {
		m.mu.Unlock()
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	st := m.open[id]
	m.resets++
	tooMany := m.resets > maxResets
	m.mu.Unlock()
	if tooMany {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	if st != nil {
		st.kill(errGaveUp)
	}
	return nil
}

// reset ends a stream that cannot continue, whether it was opened or not.
func (m *Conn) reset(id uint32, code http2.ErrCode) error {
	m.mu.Lock()
	m.last = max(m.last, id|1)
	st := m.open[id]
	m.mu.Unlock()
	if st != nil {
		st.kill(http2.StreamError{StreamID: id, Code: code})
	}
	return m.write(func(b []byte) []byte { return appendReset(b, id, code) })
}

// credit returns n bytes of the windows of a stream (nil for none) and of the connection to
// the client, in larger portions.
func (m *Conn) credit(st *Stream, n int64) error {
	if n == 0 {
		return nil
	}
	m.mu.Lock()
	m.spare += n
	all, one := int64(0), int64(0)
	if m.spare >= connWindow/4 {
		all, m.spare = m.spare, 0
		m.recv += all
	}
	if st != nil {
		if st.spare += n; st.spare >= st.size/4 && !st.ended {
			one, st.spare = st.spare+st.grow(), 0
			st.recv += one
		}
	}
	m.mu.Unlock()
	if all == 0 && one == 0 {
		return nil
	}
	return m.write(func(b []byte) []byte {
		if all > 0 {
			b = appendWindow(b, 0, uint32(all))
		}
		if one > 0 {
			b = appendWindow(b, st.id, uint32(one))
		}
		return b
	})
}

// farewell is how long a client has to read GOAWAY and close the connection itself. If it is
// closed on what the client sends meanwhile, that resets it, and GOAWAY may be lost.
const farewell = 3 * time.Second

// leave tells the client to open no further streams; the connection ends after the open ones.
func (m *Conn) leave() {
	m.mu.Lock()
	notified, left, last := m.leaving, m.running, m.last
	m.leaving = true
	m.mu.Unlock()
	switch {
	case !notified:
		_ = m.write(func(b []byte) []byte { return appendGoAway(b, last, http2.ErrCodeNo) }) // the reader reports errors
		if left == 0 {
			m.timer.Reset(farewell)
		}
	case left == 0:
		m.socket.Close()
	}
}

// end ends the connection because of err.
func (m *Conn) end(err error) {
	if code, ok := errors.AsType[http2.ConnectionError](err); ok || errors.Is(err, http2.ErrFrameTooLarge) {
		if !ok {
			code = http2.ConnectionError(http2.ErrCodeFrameSize)
		}
		m.Malformed.Add(1)
		m.mu.Lock()
		last := m.last
		m.mu.Unlock()
		_ = m.write(func(b []byte) []byte { return appendGoAway(b, last, http2.ErrCode(code)) }) // the connection ends in any case
	}
	m.mu.Lock()
	m.over, m.leaving = true, true
	all := make([]*Stream, 0, len(m.open))
	for _, st := range m.open {
		all = append(all, st)
	}
	m.mu.Unlock()
	for _, st := range all {
		st.kill(net.ErrClosed)
	}
	m.c.Close() // unblocks the writer
	close(m.jobs)
	m.wg.Wait()
	m.timer.Stop()
}

// write appends frames and sends them.
func (m *Conn) write(frames func([]byte) []byte) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.add(frames)
	return m.flush()
}

// add appends frames to those to send; writing must be held.
func (m *Conn) add(frames func([]byte) []byte) {
	if m.out == nil {
		m.out = m.Memory.Block(held.Medium)
	}
	m.out = frames(m.out)
}

// flush sends the appended frames; writing must be held.
func (m *Conn) flush() error {
	out := m.out
	m.out = nil
	if len(out) == 0 || m.broken != nil {
		m.Memory.Free(out)
		return m.broken
	}
	now, d := time.Now(), m.Silence
	if left := m.until.Sub(now); d > 0 && left < d*3/4 {
		m.until = now.Add(d)
		m.c.SetWriteDeadline(m.until)
	}
	if _, err := m.c.Write(out); err != nil {
		m.broken = err
		m.socket.Close() // the reader ends the rest
	}
	m.Memory.Free(out)
	return m.broken
}

// appendBlock appends the current header block; writing must be held.
func (m *Conn) appendBlock(b []byte, id uint32, end bool) []byte {
	block := m.block
	kind, flags := http2.FrameHeaders, http2.Flags(0)
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for {
		n := min(len(block), maxFrame)
		if n == len(block) {
			flags |= http2.FlagHeadersEndHeaders
		}
		b = append(appendFrame(b, kind, flags, id, n), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			return b
		}
		kind, flags = http2.FrameContinuation, 0
	}
}

// appendFrame appends the head of a frame of n bytes (RFC 9113 section 4.1).
func appendFrame(b []byte, t http2.FrameType, flags http2.Flags, id uint32, n int) []byte {
	return appendUint32(append(b, byte(n>>16), byte(n>>8), byte(n), byte(t), byte(flags)), id)
}

func appendUint32(b []byte, v uint32) []byte {
	return append(b, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

func appendWindow(b []byte, id, more uint32) []byte {
	return appendUint32(appendFrame(b, http2.FrameWindowUpdate, 0, id, 4), more)
}

func appendReset(b []byte, id uint32, code http2.ErrCode) []byte {
	return appendUint32(appendFrame(b, http2.FrameRSTStream, 0, id, 4), uint32(code))
}

func appendGoAway(b []byte, last uint32, code http2.ErrCode) []byte {
	return appendUint32(appendUint32(appendFrame(b, http2.FrameGoAway, 0, 0, 8), last), uint32(code))
}
