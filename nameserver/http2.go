package nameserver

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"shuultuur/lib/dns"
)

// Frames, flags, settings and errors of HTTP/2, RFC 9113 sections 6 and 7.
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePush         = 5
	framePing         = 6
	frameGoAway       = 7
	frameWindowUpdate = 8
	frameContinuation = 9

	flagEndStream  = 1
	flagAck        = 1
	flagEndHeaders = 4
	flagPadded     = 8
	flagPriority   = 0x20

	settingPush       = 2
	settingStreams    = 3
	settingWindow     = 4
	settingFrame      = 5
	settingHeaderList = 6

	frameHead   = 9
	maxFrame    = 16 << 10 // of frames that we accept and send: every peer does
	maxWindow   = 1<<31 - 1
	firstWindow = 65535 // the initial flow control window, of streams and connections

	// maxControl bounds the frames between two requests.
	maxControl = 10_000
)

// Limits of linger.
const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// An errorCode ends a stream or a connection, RFC 9113 section 7.
type errorCode uint32

const (
	errNone        errorCode = 0
	errProtocol    errorCode = 1
	errFlowControl errorCode = 3
	errClosed      errorCode = 5
	errFrameSize   errorCode = 6
	errRefused     errorCode = 7
	errCompression errorCode = 9
	errCalm        errorCode = 11
)

func (e errorCode) Error() string { return "HTTP/2 error " + strconv.Itoa(int(e)) }

// An h2conn is one connection of DNS over HTTPS with HTTP/2.
//
// One goroutine reads frames. It answers a request as soon as the request is
// complete, appends the response to out, and writes out when nothing more has
// been read. A query that has to wait goes to a worker, which appends and writes
// its response itself; so does the reader when the client enlarges a window that
// was too small for a response.
type h2conn struct {
	handler
	raw   *conn
	c     net.Conn
	r     *bufio.Reader
	alt   string // the Alt-Svc field
	hpack *hpack.Decoder

	// The request whose header block is being read.
	head  h2head
	block struct {
		data []byte // fragments, when there is more than one
		id   uint32 // 0 for none
		end  bool   // the request ends with it
	}

	msg     []byte    // a query
	buf     []byte    // its reply
	large   []byte    // a frame that does not fit into the buffer of r
	last    uint32    // the highest stream that the client opened
	control int       // frames since the last request
	until   time.Time // when the connection ends without another request
	begun   bool      // the client's settings have arrived
	taken   int       // bytes of our window that unfinished requests occupy
	owed    int       // bytes of our window to give back

	mu      sync.Mutex
	settled sync.Cond // no stream waits for a worker
	out     []byte
	window  int64 // the client's, for the connection
	initial int64 // and for new streams
	streams []h2stream
	waiting int // streams in the hands of workers
	broken  bool
}

// An h2stream is a stream whose request or response is not complete.
type h2stream struct {
	id     uint32
	state  h2state
	window int64 // the client's
	head   h2head
	body   []byte    // of the request so far, or the rest of the response
	since  time.Time // when the response was complete
}

type h2state uint8

const (
	h2Receiving h2state = iota // its body is incomplete
	h2Waiting                  // a worker has it
	h2Reset                    // a worker has it, and the client does not want it any more
	h2Sending                  // its response waits for the client's window
)

// An h2head is the content of a request's header block.
type h2head struct {
	method, target, scheme, kind string
	forwarded                    string // X-Forwarded-For, where it may be believed
	length                       int64  // of the body; -1 where it is not known
	size                         int
	fields                       bool // a field that is no pseudo-header has been read
	webQuery                          // without the text of the ClientID, which is not kept
	bad                          bool // malformed, RFC 9113 section 8.2
}

// serveHTTP2 answers the requests of a connection.
func (s *Server) serveHTTP2(x *conn, c net.Conn) {
	h := &h2conn{handler: s.newHandler(), raw: x, c: c, r: bufio.NewReaderSize(c, readSize), alt: x.altSvc(),
		buf: make([]byte, 0, 2048), window: firstWindow, initial: firstWindow}
	h.settled.L = &h.mu
	h.hpack = hpack.NewDecoder(4096, h.field)
	h.hpack.SetMaxStringLength(maxHead)
	x.flush = func() {
		h.mu.Lock()
		h.write()
		h.mu.Unlock()
	}
	h.q.Client, h.q.Local, h.q.Transport = x.client, x.local(), dns.HTTPS
	err := h.serve()
	h.mu.Lock()
	defer h.mu.Unlock()
	var code errorCode
	if errors.As(err, &code) && code != errNone {
		h.drop(badFrame)
	}
	for h.waiting > 0 { // workers still write to the connection
		h.settled.Wait()
	}
	h.goAway(h.last, code)
	h.write()
	if (code != errNone || h.s.stopping.Load()) && h.raw.writeGathered() == nil {
		h.raw.linger(h.c)
	}
}

// goAway sends that no request after the last one is answered.
func (h *h2conn) goAway(last uint32, code errorCode) {
	h.frame(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), uint32(code)))
}

// linger ends what is written to c, which is x or TLS over it, and briefly discards
// what the client still sends: closing a connection with unread bytes resets it, and
// the client may lose the last replies.
func (x *conn) linger(c net.Conn) {
	if encrypted, ok := c.(*tls.Conn); ok {
		_ = errors.Join(encrypted.CloseWrite(), x.writeGathered()) // the client may be gone
	}
	if tcp, ok := x.Conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	x.Conn.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, x.Conn, lingerBytes)
}

// serve reads frames until the connection ends. An errorCode says why we end it.
func (h *h2conn) serve() error {
	h.until = time.Now().Add(h.s.rules.Load().idle)
	h.raw.Conn.SetReadDeadline(h.until)
	var hello [len(preface)]byte
	if _, err := io.ReadFull(h.r, hello[:]); err != nil {
		return err
	}
	if string(hello[:]) != preface {
		return errProtocol
	}
	h.mu.Lock()
	h.settings()
	h.mu.Unlock()
	for {
		kind, flags, id, payload, err := h.next()
		if err != nil {
			return err
		}
		if err := h.handle(kind, flags, id, payload); err != nil {
			return err
		}
	}
}

// settings sends our settings.
func (h *h2conn) settings() {
	b := make([]byte, 0, 12)
	b = binary.BigEndian.AppendUint16(b, settingStreams)
	b = binary.BigEndian.AppendUint32(b, uint32(h.s.rules.Load().pipeline))
	b = binary.BigEndian.AppendUint16(b, settingHeaderList)
	b = binary.BigEndian.AppendUint32(b, maxHead)
	h.frame(frameSettings, 0, 0, b)
}

// next reads a frame. The payload is valid until the next call.
func (h *h2conn) next() (kind, flags byte, id uint32, payload []byte, err error) {
	head, err := h.peek(frameHead)
	if err != nil {
		return 0, 0, 0, nil, err
	}
	n := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	kind, flags, id = head[3], head[4], binary.BigEndian.Uint32(head[5:])&(1<<31-1)
	if n > maxFrame {
		return 0, 0, 0, nil, errFrameSize
	}
	if n <= h.r.Size()-frameHead {
		whole, err := h.peek(frameHead + n)
		if err != nil {
			return 0, 0, 0, nil, err
		}
		h.r.Discard(frameHead + n)
		return kind, flags, id, whole[frameHead:], nil
	}
	h.r.Discard(frameHead)
	if cap(h.large) < maxFrame {
		h.large = make([]byte, maxFrame)
	}
	_, err = io.ReadFull(h.r, h.large[:n])
	return kind, flags, id, h.large[:n], err
}

// peek waits for n bytes. A connection that has no unfinished request for too
// long ends with errNone.
func (h *h2conn) peek(n int) ([]byte, error) {
	for h.r.Buffered() < n {
		h.raw.Conn.SetReadDeadline(h.until)
		if h.s.stopping.Load() {
			return nil, errNone // the deadline may have replaced that of the stop
		}
		if _, err := h.r.Peek(h.r.Buffered() + 1); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				return nil, err
			}
			if h.s.stopping.Load() || !h.busy() {
				return nil, errNone
			}
			h.until = time.Now().Add(time.Second)
		}
	}
	return h.r.Peek(n)
}

// busy reports whether workers hold queries of the connection, or the client has
// not had time to read a response.
func (h *h2conn) busy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.streams {
		if x := &h.streams[i]; x.state == h2Waiting || x.state == h2Sending && time.Since(x.since) < writeTime {
			return true
		}
	}
	return false
}

// handle handles one frame. An error ends the connection.
func (h *h2conn) handle(kind, flags byte, id uint32, payload []byte) error {
	if h.block.id != 0 && (kind != frameContinuation || id != h.block.id) {
		return errProtocol
	}
	if !h.begun && (kind != frameSettings || flags&flagAck != 0) {
		return errProtocol
	}
	if h.control++; h.control > maxControl {
		return errCalm
	}
	switch kind {
	case frameData:
		return h.data(flags, id, payload)
	case frameHeaders:
		return h.headers(flags, id, payload)
	case frameContinuation:
		if h.block.id == 0 {
			return errProtocol
		}
		return h.fragment(flags, payload)
	case framePriority:
		return h.priority(id, payload)
	case frameReset:
		return h.reset(id, payload)
	case frameSettings:
		return h.clientSettings(flags, id, payload)
	case framePing:
		if id != 0 {
			return errProtocol
		}
		if len(payload) != 8 {
			return errFrameSize
		}
		if flags&flagAck == 0 {
			h.mu.Lock()
			h.frame(framePing, flagAck, 0, payload)
			h.mu.Unlock()
		}
	case frameGoAway:
		if id != 0 {
			return errProtocol
		}
		if len(payload) < 8 {
			return errFrameSize
		}
	case frameWindowUpdate:
		return h.enlarge(id, payload)
	case framePush:
		return errProtocol
	}
	return nil // of unknown kind
}

// unpadded removes the padding of a frame.
func unpadded(flags byte, payload []byte) ([]byte, error) {
	if flags&flagPadded == 0 {
		return payload, nil
	}
	if len(payload) == 0 || int(payload[0]) >= len(payload) {
		return nil, errProtocol
	}
	return payload[1 : len(payload)-int(payload[0])], nil
}

// headers begins a request, or reads its trailers.
func (h *h2conn) headers(flags byte, id uint32, payload []byte) error {
	if id%2 == 0 {
		return errProtocol
	}
	payload, err := unpadded(flags, payload)
	if err != nil {
		return err
	}
	if flags&flagPriority != 0 {
		if len(payload) < 5 {
			return errFrameSize
		}
		if binary.BigEndian.Uint32(payload)&(1<<31-1) == id {
			return errProtocol
		}
		payload = payload[5:]
	}
	if h.s.leaving.Load() { // it is answered, as all are that the client sends before it reads this
		h.mu.Lock()
		h.goAway(1<<31-1, errNone)
		h.mu.Unlock()
	}
	if id <= h.last && !h.receives(id) {
		return errClosed
	}
	if id <= h.last && flags&flagEndStream == 0 {
		return errProtocol // trailers end a request
	}
	h.block.id, h.block.data, h.block.end = id, h.block.data[:0], flags&flagEndStream != 0
	return h.fragment(flags, payload)
}

// receives reports whether the body of a request is incomplete.
func (h *h2conn) receives(id uint32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.find(id)
	return x != nil && x.state == h2Receiving
}

// find returns a stream that is not complete, or nil. The caller holds mu.
func (h *h2conn) find(id uint32) *h2stream {
	for i := range h.streams {
		if h.streams[i].id == id {
			return &h.streams[i]
		}
	}
	return nil
}

// fragment reads a part of a header block, and handles the request when the
// block is complete.
func (h *h2conn) fragment(flags byte, payload []byte) error {
	block := payload
	if len(h.block.data) > 0 || flags&flagEndHeaders == 0 {
		if len(h.block.data)+len(payload) > 2*maxHead {
			return errCalm
		}
		h.block.data = append(h.block.data, payload...)
		block = h.block.data
	}
	if flags&flagEndHeaders == 0 {
		return nil
	}
	id := h.block.id
	h.block.id = 0
	h.head = h2head{length: -1}
	if _, err := h.hpack.Write(block); err != nil {
		return errCompression
	}
	if h.hpack.Close() != nil {
		return errCompression
	}
	if id <= h.last {
		return h.trailers(id)
	}
	h.last = id
	return h.open(id)
}

// field takes a field of a header block.
func (h *h2conn) field(f hpack.HeaderField) {
	x := &h.head
	if x.size += len(f.Name) + len(f.Value) + 32; x.size > 2*maxHead {
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		x.pseudo(f.Name, f.Value)
		return
	}
	x.fields = true
	switch f.Name {
	case "content-type":
		x.kind = f.Value
	case "x-forwarded-for":
		if h.raw.bare {
			x.forwarded = strings.TrimPrefix(x.forwarded+","+f.Value, ",")
		}
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 31)
		x.bad = x.bad || err != nil || x.length >= 0 && x.length != int64(n)
		x.length = int64(n)
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		x.bad = true
	case "te":
		x.bad = x.bad || f.Value != "trailers"
	default:
		for i := range len(f.Name) {
			if 'A' <= f.Name[i] && f.Name[i] <= 'Z' {
				x.bad = true
			}
		}
	}
}

// pseudo takes a pseudo-header field. Each comes once, before the others.
func (x *h2head) pseudo(name, value string) {
	var to *string
	switch name {
	case ":method":
		to = &x.method
	case ":path":
		to = &x.target
	case ":scheme":
		to = &x.scheme
	case ":authority":
		x.bad = x.bad || x.fields
		return
	default:
		x.bad = true
		return
	}
	x.bad = x.bad || x.fields || *to != "" || value == ""
	*to = value
}

// trailers ends a request whose trailers have been read.
func (h *h2conn) trailers(id uint32) error {
	h.mu.Lock()
	x := h.find(id)
	bad := h.head.bad || h.head.method+h.head.target+h.head.scheme != ""
	head, body := x.head, x.body
	h.remove(id)
	h.mu.Unlock()
	if bad {
		return h.abort(id, errProtocol, len(body))
	}
	return h.request(id, &head, body)
}

// open handles a request whose head is complete.
func (h *h2conn) open(id uint32) error {
	h.mu.Lock()
	full := len(h.streams) >= h.s.rules.Load().pipeline
	h.mu.Unlock()
	x := &h.head
	switch {
	case x.bad || x.method == "" || x.target == "" || x.scheme == "" || h.block.end && x.length > 0:
		return h.abort(id, errProtocol, 0)
	case full:
		return h.abort(id, errRefused, 0)
	case x.size > 2*maxHead:
		h.respond(id, refusal(http.StatusRequestHeaderFieldsTooLarge), false)
		return h.abort(id, errNone, 0)
	case h.block.end:
		return h.request(id, x, nil)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams = append(h.streams, h2stream{id: id, window: h.initial, head: *x})
	return nil
}

// data takes a part of the body of a request.
func (h *h2conn) data(flags byte, id uint32, payload []byte) error {
	if id == 0 || id > h.last {
		return errProtocol
	}
	size := len(payload)
	if h.taken += size; h.taken > firstWindow {
		return errFlowControl
	}
	body, err := unpadded(flags, payload)
	if err != nil {
		return err
	}
	h.mu.Lock()
	x := h.find(id)
	if x == nil || x.state != h2Receiving {
		h.mu.Unlock()
		return h.abort(id, errClosed, size)
	}
	total := len(x.body) + len(body)
	end := flags&flagEndStream != 0
	switch {
	case x.head.length >= 0 && (int64(total) > x.head.length || end && int64(total) < x.head.length):
		n := len(x.body)
		h.remove(id)
		h.mu.Unlock()
		return h.abort(id, errProtocol, n+size)
	case total > maxMessage || x.head.length > maxMessage:
		n := len(x.body)
		h.remove(id)
		h.mu.Unlock()
		h.respond(id, refusal(http.StatusRequestEntityTooLarge), false)
		return h.abort(id, errNone, n+size)
	}
	h.giveBack(size - len(body))
	if !end {
		x.body = append(x.body, body...)
		h.mu.Unlock()
		return nil
	}
	if len(x.body) > 0 {
		body = append(x.body, body...)
	}
	head := x.head
	h.remove(id)
	h.mu.Unlock()
	return h.request(id, &head, body)
}

// giveBack returns bytes of our window to the client, many at a time.
func (h *h2conn) giveBack(n int) {
	if h.owed += n; h.owed < firstWindow/4 {
		return
	}
	h.frame(frameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(make([]byte, 0, 4), uint32(h.owed)))
	h.taken -= h.owed
	h.owed = 0
}

// abort resets a stream of which n bytes occupy our window.
func (h *h2conn) abort(id uint32, code errorCode, n int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.giveBack(n)
	h.remove(id)
	h.frame(frameReset, 0, id, binary.BigEndian.AppendUint32(make([]byte, 0, 4), uint32(code)))
	return nil
}

// remove forgets a stream. The caller holds mu.
func (h *h2conn) remove(id uint32) {
	for i := range h.streams {
		if h.streams[i].id == id {
			n := len(h.streams) - 1
			h.streams[i] = h.streams[n]
			h.streams[n] = h2stream{}
			h.streams = h.streams[:n]
			return
		}
	}
}

// request answers a request.
func (h *h2conn) request(id uint32, x *h2head, body []byte) error {
	defer h.s.recovered(&h.handler)
	h.control = 0
	if len(body) > 0 {
		h.mu.Lock()
		h.giveBack(len(body))
		h.mu.Unlock()
	}
	h.q.At = time.Now()
	h.until = h.q.At.Add(h.s.rules.Load().idle)
	req := webRequest{method: x.method, target: x.target, kind: x.kind, body: body}
	if h.raw.bare {
		var ok bool
		if h.q.Client, ok = h.raw.clientOf(x.forwarded); !ok {
			h.respond(id, refusal(http.StatusBadRequest), x.method == "HEAD")
			return nil
		}
	}
	var status int
	if h.msg, status = req.read(h.msg[:0], h.s.path, h.s.rules.Load().json); status != http.StatusOK {
		h.respond(id, refusal(status), x.method == "HEAD")
		return nil
	}
	h.q.ClientID = req.identify(h.q.ClientID, h.raw.named)
	x.webQuery = req.webQuery
	reply, o := h.answer(h.msg, h.buf[:0])
	if o == dns.Later {
		h.mu.Lock()
		h.streams = append(h.streams, h2stream{id: id, state: h2Waiting, window: h.initial, head: *x})
		h.waiting++
		h.mu.Unlock()
		h.handler.streamID = id
		h.s.queue.put(&h.handler, h, nil)
		return nil
	}
	if cap(reply) > cap(h.buf) && cap(reply) <= keptBuffer {
		h.buf = reply[:0]
	}
	h.respond(id, x.answered(reply), x.method == "HEAD")
	return nil
}

// deliver implements sink.
func (h *h2conn) deliver(j *job) {
	h.mu.Lock()
	if x := h.find(j.streamID); x == nil || x.state == h2Reset {
		h.remove(j.streamID)
	} else {
		h.reply(j.streamID, x.window, x.head.answered(j.msg), x.head.method == "HEAD")
	}
	h.write()
	_ = h.raw.writeGathered() // the reader sees the error
	h.waiting--
	h.settled.Broadcast()
	h.mu.Unlock()
	h.s.queue.release(j)
}

// respond appends the response of a stream that is not among the streams.
func (h *h2conn) respond(id uint32, x webReply, head bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reply(id, h.initial, x, head)
	h.write()
}

// reply appends a response, as much of it as the windows allow. The caller holds
// mu.
func (h *h2conn) reply(id uint32, window int64, x webReply, head bool) {
	at := len(h.out)
	h.out = append(h.out, 0, 0, 0, frameHeaders, flagEndHeaders, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	h.out = appendHead(h.out, &x, h.alt)
	n := len(h.out) - at - frameHead
	h.out[at+1], h.out[at+2] = byte(n>>8), byte(n)
	if head || len(x.body) == 0 {
		h.out[at+4] |= flagEndStream
		h.remove(id)
		return
	}
	sent := h.body(id, &window, x.body)
	if sent == len(x.body) {
		h.remove(id)
		return
	}
	rest := h2stream{id: id, state: h2Sending, window: window, body: append([]byte(nil), x.body[sent:]...), since: time.Now()}
	if s := h.find(id); s != nil {
		*s = rest
	} else {
		h.streams = append(h.streams, rest)
	}
}

// body appends as much of a body as the windows allow.
func (h *h2conn) body(id uint32, window *int64, body []byte) (sent int) {
	for {
		n := int(min(int64(len(body)-sent), h.window, *window, maxFrame))
		if n <= 0 {
			return sent
		}
		flags := byte(0)
		if sent+n == len(body) {
			flags = flagEndStream
		}
		h.frame(frameData, flags, id, body[sent:sent+n])
		sent += n
		h.window -= int64(n)
		*window -= int64(n)
	}
}

// appendHead appends the header block of a response. It uses no dynamic table,
// so that it depends on nothing (RFC 7541 section 6.2.2); the numbers are
// indices of the static table.
func appendHead(b []byte, x *webReply, alt string) []byte {
	switch x.status {
	case http.StatusOK:
		b = append(b, 0x88)
	case http.StatusBadRequest:
		b = append(b, 0x8c)
	case http.StatusNotFound:
		b = append(b, 0x8d)
	default:
		b = append(b, 0x08, 3)
		b = strconv.AppendInt(b, int64(x.status), 10)
	}
	b = append(b, 0x0f, 31-15, byte(len(x.kind)))
	b = append(b, x.kind...)
	b = append(b, 0x0f, 28-15)
	b = appendNumber(b, "", len(x.body))
	switch x.status {
	case http.StatusOK:
		b = append(b, 0x0f, 24-15)
		b = appendNumber(b, "max-age=", int(x.maxAge))
		if alt != "" {
			b = append(b, 0, 7)
			b = append(b, "alt-svc"...)
			b = append(b, byte(len(alt)))
			b = append(b, alt...)
		}
	case http.StatusMethodNotAllowed:
		b = append(b, 0x0f, 22-15, 15)
		b = append(b, "GET, HEAD, POST"...)
	}
	return b
}

// appendNumber appends a field's value that ends in a number.
func appendNumber(b []byte, text string, n int) []byte {
	at := len(b)
	b = append(append(b, 0), text...)
	b = strconv.AppendInt(b, int64(n), 10)
	b[at] = byte(len(b) - at - 1)
	return b
}

// frame appends a frame. The caller holds mu.
func (h *h2conn) frame(kind, flags byte, id uint32, payload []byte) {
	n := len(payload)
	h.out = append(h.out, byte(n>>16), byte(n>>8), byte(n), kind, flags, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	h.out = append(h.out, payload...)
}

// write writes the responses that are ready, each as one TLS record: clients
// exist that expect no more than one response in a record. The caller holds mu.
func (h *h2conn) write() {
	if len(h.out) == 0 || h.broken {
		h.out = h.out[:0]
		return
	}
	if _, err := h.c.Write(h.out); err != nil {
		h.broken = true
		h.raw.Conn.Close() // the reader ends
	}
	if h.out = h.out[:0]; cap(h.out) > 4*writeAt {
		h.out = nil
	}
}

// priority checks a PRIORITY frame and ignores it.
func (h *h2conn) priority(id uint32, payload []byte) error {
	switch {
	case id == 0:
		return errProtocol
	case len(payload) != 5:
		return h.abort(id, errFrameSize, 0)
	case binary.BigEndian.Uint32(payload)&(1<<31-1) == id:
		return h.abort(id, errProtocol, 0)
	}
	return nil
}

// reset forgets a stream that the client does not want any more.
func (h *h2conn) reset(id uint32, payload []byte) error {
	if id == 0 || id > h.last {
		return errProtocol
	}
	if len(payload) != 4 {
		return errFrameSize
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.find(id)
	switch {
	case x == nil:
	case x.state == h2Waiting || x.state == h2Reset:
		x.state = h2Reset // it counts until its worker has finished
	default:
		if x.state == h2Receiving {
			h.giveBack(len(x.body))
		}
		h.remove(id)
	}
	return nil
}

// clientSettings takes the settings of the client.
func (h *h2conn) clientSettings(flags byte, id uint32, payload []byte) error {
	if id != 0 {
		return errProtocol
	}
	if flags&flagAck != 0 {
		if len(payload) != 0 {
			return errFrameSize
		}
		return nil
	}
	if len(payload)%6 != 0 {
		return errFrameSize
	}
	h.begun = true
	h.mu.Lock()
	defer h.mu.Unlock()
	for ; len(payload) > 0; payload = payload[6:] {
		v := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case settingPush:
			if v > 1 {
				return errProtocol
			}
		case settingFrame:
			if v < maxFrame || v > 1<<24-1 {
				return errProtocol
			}
		case settingWindow:
			if v > maxWindow {
				return errFlowControl
			}
			for i := range h.streams {
				if h.streams[i].window += int64(v) - h.initial; h.streams[i].window > maxWindow {
					return errFlowControl
				}
			}
			h.initial = int64(v)
		}
	}
	h.frame(frameSettings, flagAck, 0, nil)
	h.resume()
	return nil
}

// enlarge enlarges a window of the client.
func (h *h2conn) enlarge(id uint32, payload []byte) error {
	if len(payload) != 4 {
		return errFrameSize
	}
	if id > h.last {
		return errProtocol
	}
	n := int64(binary.BigEndian.Uint32(payload) & (1<<31 - 1))
	if id == 0 {
		h.mu.Lock()
		defer h.mu.Unlock()
		if n == 0 {
			return errProtocol
		}
		if h.window += n; h.window > maxWindow {
			return errFlowControl
		}
		h.resume()
		return nil
	}
	if n == 0 {
		return h.abort(id, errProtocol, 0)
	}
	h.mu.Lock()
	x := h.find(id)
	if x != nil && x.window+n > maxWindow {
		if x.state == h2Waiting {
			x.state = h2Reset
		} else if x.state != h2Reset {
			h.remove(id)
		}
		h.mu.Unlock()
		return h.abort(id, errFlowControl, 0)
	}
	defer h.mu.Unlock()
	if x != nil {
		x.window += n
		h.resume()
	}
	return nil
}

// resume continues responses that the windows allow now. The caller holds mu.
func (h *h2conn) resume() {
	for i := 0; i < len(h.streams); i++ {
		x := &h.streams[i]
		if x.state != h2Sending {
			continue
		}
		x.body = x.body[h.body(x.id, &x.window, x.body):]
		if len(x.body) == 0 {
			h.remove(x.id)
			i--
		}
	}
}

// serveHTTPS serves a connection of DNS over HTTPS.
func (s *Server) serveHTTPS(x *conn) {
	defer x.Close()
	c, ok := s.handshake(x, s.tls.https)
	if !ok {
		return
	}
	defer c.Close()
	if c.ConnectionState().NegotiatedProtocol == "h2" {
		s.serveHTTP2(x, c)
	} else {
		s.serveHTTP1(x, c)
	}
}
