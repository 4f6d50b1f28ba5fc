package streams

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"shuultuur/lib/message"
	"shuultuur/proxy/held"
)

// A Stream is one request of an HTTP/2 connection. It is the net.Conn of a server, who reads the
// request in the form of HTTP/1.1, and whose output becomes frames. An extended CONNECT (RFC
// 8441) looks like an upgrade to the server, and then carries plain bytes both ways.
type Stream struct {
	m       *Conn
	id      uint32
	killers sync.WaitGroup

	// The request; guarded by m.mu.
	by      Server    // while it serves the stream
	changed sync.Cond // signals changes here or in the windows of m
	in      []byte    // bytes that the server has not read yet
	read    int       // bytes of in that were read
	raw     int64     // bytes sent by the client that are in in
	chunked bool      // the request has no Content-Length
	left    int64     // bytes left of the Content-Length
	trailer message.Fields
	ended   bool  // by the client
	dead    error // nil until the stream is ended
	recv    int64 // bytes the client may still send
	spare   int64 // bytes of recv not yet returned
	size    int64 // of the window; what exceeds firstWindow is taken from the client's share
	send    int64 // bytes that the client accepts
	rdead   time.Time
	wdead   time.Time

	streamAnswer
}

// A streamAnswer is the response of a stream, as far as the server has written it. Only the
// server uses it.
type streamAnswer struct {
	head     []byte // the part written so far
	state    answerState
	body     int64 // bytes left, of the current chunk if chunked
	line     []byte
	tail     []byte // trailers
	sent     bool   // the end of the response was sent
	bodiless bool   // the request's method was HEAD
	socket   bool   // an extended CONNECT
	key      string // Sec-WebSocket-Key of the upgrade in the server's request
}

// An answerState is the next thing that the server must write.
type answerState uint8

const (
	answerHead  answerState = iota
	answerBody              // body bytes
	answerSize              // a chunk's size line
	answerChunk             // body bytes of a chunk
	answerBreak             // the line break after a chunk
	answerTail              // trailers
	answerRaw               // anything, until the end
	answerOver
)

// betweenNeighbours reports whether a field is not permitted in HTTP/2 (RFC 9113 section
// 8.2.2).
func betweenNeighbours(name string) bool {
	switch name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return true
	}
	return false
}

// A requestHead has the pseudo-header fields and other special fields of a request.
type requestHead struct {
	method, scheme, authority, path, protocol string
	cookies                                   []string
	length                                    int64 // -1 if absent
}

// readHeaderBlock reads a header block. ok is false for a malformed request (RFC 9113 sections
// 8.2 and 8.3.1).
func readHeaderBlock(fields []hpack.HeaderField) (h requestHead, ok bool) {
	h.length = -1
	for _, f := range fields {
		switch f.Name {
		case ":method":
			h.method = f.Value
		case ":scheme":
			h.scheme = f.Value
		case ":authority":
			h.authority = f.Value
		case ":path":
			h.path = f.Value
		case ":protocol":
			h.protocol = f.Value
		case "te":
			if f.Value != "trailers" {
				return h, false
			}
		case "cookie":
			h.cookies = append(h.cookies, f.Value)
		case "content-length":
			n, err := strconv.ParseUint(f.Value, 10, 63)
			if err != nil || h.length >= 0 && h.length != int64(n) {
				return h, false
			}
			h.length = int64(n)
		default:
			if betweenNeighbours(f.Name) {
				return h, false
			}
		}
	}
	if h.authority == "" {
		for _, f := range fields {
			if f.Name == "host" {
				h.authority = f.Value
			}
		}
	}
	if !plain(h.method) || h.scheme == "" || !plain(h.path) || !plain(h.authority) || strings.ContainsRune(h.method, ':') {
		return h, false
	}
	if h.path[0] != '/' && (h.path != "*" || h.method != http.MethodOptions) {
		return h, false
	}
	return h, true
}

// ask converts a header block to an HTTP/1.1 head. It reports whether the request is well
// formed.
func (st *Stream) ask(fields []hpack.HeaderField, end bool) bool {
	h, ok := readHeaderBlock(fields)
	if !ok {
		return false
	}
	if st.socket = h.method == http.MethodConnect; st.socket {
		if h.protocol != "websocket" || end || h.length >= 0 {
			return false
		}
		h.method = http.MethodGet
	} else if h.protocol != "" {
		return false
	}
	if end && h.length > 0 {
		return false
	}
	b := make([]byte, 0, 1<<10)
	b = append(append(append(append(b, h.method...), ' '), h.path...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, h.authority...), "\r\n"...)
	for _, f := range fields {
		switch f.Name {
		case "host", "te", "content-length":
			continue
		case "cookie": // joined to one field (RFC 9113 section 8.2.3)
			if h.cookies != nil {
				b = appendField(b, "Cookie", strings.Join(h.cookies, "; "))
				h.cookies = nil
			}
			continue
		}
		if f.Name[0] != ':' {
			b = appendField(b, http.CanonicalHeaderKey(f.Name), f.Value)
		}
	}
	st.bodiless = h.method == http.MethodHead
	st.ended = end
	switch {
	case st.socket:
		var key [16]byte
		_, _ = rand.Read(key[:]) // cannot fail
		st.key = base64.StdEncoding.EncodeToString(key[:])
		b = append(b, "Connection: Upgrade\r\nUpgrade: websocket\r\n"...)
		b = appendField(b, "Sec-WebSocket-Key", st.key)
	case h.length >= 0:
		st.left = h.length
		b = appendField(b, "Content-Length", strconv.FormatInt(h.length, 10))
	case !end:
		st.chunked = true
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	st.in = append(b, "\r\n"...)
	return true
}

func appendField(b []byte, name, value string) []byte {
	return append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
}

// plain reports whether s can be part of a head without ending an element there.
func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// take appends received data for the server to read; m.mu must be held. n is the size that
// counts for the window.
func (st *Stream) take(data []byte, n int64, end bool) http2.ErrCode {
	if st.recv -= n; st.recv < 0 {
		return http2.ErrCodeFlowControl
	}
	switch size := int64(len(data)); {
	case st.socket:
		st.in = append(st.in, data...)
	case st.chunked:
		if size > 0 {
			st.in = append(append(message.AppendChunk(st.in, len(data)), data...), "\r\n"...)
		}
		if end {
			st.in = message.AppendLastChunk(st.in, st.trailer)
		}
	default:
		if st.left -= size; st.left < 0 || end && st.left > 0 {
			return http2.ErrCodeProtocol
		}
		st.in = append(st.in, data...)
	}
	st.raw += int64(len(data))
	st.ended = end
	st.changed.Broadcast()
	return 0
}

// grow doubles the window of a body that is being read, if the client's share has room, and returns by how
// much; m.mu must be held.
func (st *Stream) grow() int64 {
	more := min(st.size, streamWindow-st.size)
	if more <= 0 || st.dead != nil || !st.m.Memory.Origins().Acquire(st.m.Client, more) {
		return 0
	}
	st.size += more
	return more
}

// A Server serves a stream.
type Server interface {
	// Abort ends its work. Any goroutine may call it.
	Abort()
}

// WebSocket reports whether the request is an extended CONNECT.
func (st *Stream) WebSocket() bool { return st.socket }

// Begin tells who serves the stream: it is aborted if the client gives up.
func (st *Stream) Begin(by Server) {
	st.m.mu.Lock()
	st.by = by
	gone := st.dead != nil
	st.m.mu.Unlock()
	if gone {
		by.Abort()
	}
}

// End ends the stream when its server is done with it. Nobody aborts the server any more.
func (st *Stream) End() {
	st.finish()
	st.m.release(st)
}

// kill ends the stream; its readers and writers get err.
func (st *Stream) kill(err error) {
	m := st.m
	m.mu.Lock()
	if st.dead == nil {
		st.dead = err
	}
	st.changed.Broadcast()
	by := st.by
	if by != nil {
		st.killers.Add(1)
	}
	m.mu.Unlock()
	if by != nil {
		by.Abort()
		st.killers.Done()
	}
}

// finish ends the stream when its server is done with it.
func (st *Stream) finish() {
	m := st.m
	m.mu.Lock()
	st.by = nil
	dead, asked, unread := st.dead, st.ended, st.raw
	if st.dead == nil {
		st.dead = net.ErrClosed
	}
	st.raw = 0
	if more := st.size - firstWindow; more > 0 {
		m.Memory.Return(m.Client, more)
		st.size = firstWindow
	}
	m.mu.Unlock()
	st.killers.Wait()
	code := http2.ErrCodeInternal
	if dead == nil && st.state == answerRaw && !st.sent { // the tunnel has ended
		st.ending()
		_ = m.write(func(b []byte) []byte { return appendFrame(b, http2.FrameData, http2.FlagDataEndStream, st.id, 0) })
	}
	switch {
	case dead != nil && dead != net.ErrClosed:
		code = http2.ErrCodeNo // both sides know
		asked = true
	case st.sent:
		code = http2.ErrCodeNo
	default:
		asked = false
	}
	_ = m.credit(nil, unread) // the reader reports errors
	if !asked {
		_ = m.write(func(b []byte) []byte { return appendReset(b, st.id, code) })
	}
}

// Read returns bytes of the request.
func (st *Stream) Read(p []byte) (int, error) {
	m := st.m
	m.mu.Lock()
	for st.read == len(st.in) {
		switch {
		case st.dead != nil:
			defer m.mu.Unlock()
			return 0, st.dead
		case st.ended:
			m.mu.Unlock()
			return 0, io.EOF
		case isPast(st.rdead):
			m.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		st.wait(st.rdead)
	}
	if st.dead != nil {
		defer m.mu.Unlock()
		return 0, st.dead
	}
	n := copy(p, st.in[st.read:])
	if st.read += n; st.read == len(st.in) {
		st.in, st.read = st.in[:0], 0
	}
	raw := min(st.raw, int64(n))
	st.raw -= raw
	m.mu.Unlock()
	return n, m.credit(st, raw)
}

func isPast(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// wait waits for a change; m.mu must be held.
func (st *Stream) wait(until time.Time) {
	if !until.IsZero() {
		t := time.AfterFunc(time.Until(until), func() {
			st.m.mu.Lock()
			defer st.m.mu.Unlock()
			st.changed.Broadcast()
		})
		defer t.Stop()
	}
	st.changed.Wait()
}

// Write converts the server's response to frames.
func (st *Stream) Write(p []byte) (n int, err error) {
	n = len(p)
	for len(p) > 0 && err == nil {
		switch st.state {
		case answerHead:
			p, err = st.writeHead(p)
		case answerSize, answerBreak, answerTail:
			p, err = st.writeLine(p)
		case answerBody, answerChunk, answerRaw:
			part := p
			if st.state != answerRaw {
				part = p[:min(int64(len(p)), st.body)]
			}
			p = p[len(part):]
			st.body -= int64(len(part))
			end := st.state == answerBody && st.body == 0
			if err = st.writeData(part, end); st.body > 0 || st.state == answerRaw {
				continue
			}
			if end {
				st.state = answerOver
			} else {
				st.state = answerBreak
			}
		default:
			err = errors.New("bytes after the end of a response")
		}
	}
	m := st.m
	m.writing.Lock()
	defer m.writing.Unlock()
	if failed := m.flush(); err == nil {
		err = failed
	}
	return n, err
}

// writeHead collects a head, and sends it when it is complete.
func (st *Stream) writeHead(p []byte) (rest []byte, err error) {
	head := p
	if len(st.head) > 0 {
		st.head = append(st.head, p...)
		head = st.head
	}
	i := bytes.Index(head, []byte("\r\n\r\n"))
	if i < 0 {
		if len(st.head) == 0 {
			st.head = append(st.head, p...)
		}
		return nil, nil
	}
	rest = p[len(p)-(len(head)-i-4):]
	err = st.answer(head[:i+2])
	st.head = st.head[:0]
	return rest, err
}

// answer sends a head, whose lines end with CRLF.
func (st *Stream) answer(head []byte) error {
	first, rest, _ := bytes.Cut(head, []byte("\r\n"))
	if len(first) < 12 {
		return errors.New("a response without a status")
	}
	code := string(first[9:12])
	switch {
	case st.socket && code == "101":
		code, st.state = "200", answerRaw
	case code[0] == '1':
	case st.bodiless || code == "204" || code == "304":
		st.state = answerOver
	default:
		st.state, st.body = answerBody, 0
	}
	accepted := false
	m := st.m
	if err := st.alive(); err != nil {
		return err
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	m.status(code)
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		k, v, _ := bytes.Cut(line, []byte(":"))
		index, name := lowerName(k)
		value := bytes.Trim(v, " \t")
		switch {
		case name == "sec-websocket-accept" && st.state == answerRaw:
			accepted = string(value) == acceptKey(st.key)
			continue
		case name == "content-length" && st.state == answerBody:
			st.body, _ = strconv.ParseInt(string(value), 10, 64) // written by the server
		case name == "transfer-encoding" && st.state == answerBody:
			st.state = answerSize
			continue
		case betweenNeighbours(name):
			continue
		}
		m.field(index, name, value)
	}
	if st.state == answerRaw && !accepted {
		st.state = answerOver
		return errors.New("the origin does not speak WebSocket: its Sec-WebSocket-Accept is wrong")
	}
	if st.state == answerBody && st.body == 0 {
		st.state = answerOver
	}
	if st.state == answerOver {
		st.ending()
	}
	m.add(func(b []byte) []byte { return m.appendBlock(b, st.id, st.sent) })
	return nil
}

// acceptKey returns a server's answer to a WebSocket key (RFC 6455 section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// writeLine reads a line of the chunked coding.
func (st *Stream) writeLine(p []byte) (rest []byte, err error) {
	i := bytes.IndexByte(p, '\n')
	if i < 0 {
		st.line = append(st.line, p...)
		return nil, nil
	}
	line := append(st.line, p[:i]...)
	rest, st.line = p[i+1:], st.line[:0]
	line = bytes.TrimSuffix(line, []byte("\r"))
	switch st.state {
	case answerBreak:
		st.state = answerSize
	case answerSize:
		n, err := strconv.ParseUint(string(line), 16, 62)
		if err != nil {
			return rest, err
		}
		if st.body, st.state = int64(n), answerChunk; n == 0 {
			st.state = answerTail
		}
	case answerTail:
		if len(line) > 0 {
			st.tail = append(append(st.tail, line...), "\r\n"...)
			return rest, nil
		}
		st.state = answerOver
		return rest, st.end()
	}
	return rest, nil
}

// end sends the trailers, or else an empty frame that ends the stream.
func (st *Stream) end() error {
	if len(st.tail) == 0 {
		return st.writeData(nil, true)
	}
	if err := st.alive(); err != nil {
		return err
	}
	m := st.m
	m.writing.Lock()
	defer m.writing.Unlock()
	m.begun()
	for tail := st.tail; len(tail) > 0; {
		var line []byte
		line, tail, _ = bytes.Cut(tail, []byte("\r\n"))
		k, v, _ := bytes.Cut(line, []byte(":"))
		index, name := lowerName(k)
		m.field(index, name, bytes.Trim(v, " \t"))
	}
	st.ending()
	m.add(func(b []byte) []byte { return m.appendBlock(b, st.id, true) })
	return nil
}

// ending records that the last frame of the response is about to be sent.
func (st *Stream) ending() {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	st.sent = true
}

// alive returns an error if nothing more can be sent.
func (st *Stream) alive() error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	return st.dead
}

// writeData sends DATA frames as far as the client's windows permit.
func (st *Stream) writeData(p []byte, end bool) error {
	m := st.m
	for {
		n, err := st.room(len(p))
		if err != nil {
			return err
		}
		part := p[:n]
		p = p[n:]
		flags := http2.Flags(0)
		if last := len(p) == 0; last && end {
			flags = http2.FlagDataEndStream
			st.ending()
		}
		m.writing.Lock()
		if len(m.out)+9+n > held.Medium {
			err = m.flush()
		}
		m.add(func(b []byte) []byte {
			return append(appendFrame(b, http2.FrameData, flags, st.id, n), part...)
		})
		m.writing.Unlock()
		if err != nil || len(p) == 0 {
			return err
		}
	}
}

// room waits until some of n bytes may be sent, and subtracts them from the windows.
func (st *Stream) room(n int) (int, error) {
	m := st.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > 0 {
		if err := st.open(); err != nil {
			return 0, err
		}
	}
	if st.dead != nil {
		return 0, st.dead
	}
	k := min(int64(n), int64(m.frame), st.send, m.send)
	if k = max(k, 0); k > 0 {
		st.send -= k
		m.send -= k
		if m.Silence > 0 && !st.wdead.IsZero() { // a client that reads slowly is not silent
			st.wdead = time.Now().Add(m.Silence)
		}
	}
	return int(k), nil
}

// open waits until the windows of the client permit to send; m.mu must be held.
func (st *Stream) open() error {
	m := st.m
	for st.dead == nil && min(st.send, m.send) <= 0 {
		if isPast(st.wdead) {
			return os.ErrDeadlineExceeded
		}
		m.mu.Unlock()
		m.writing.Lock()
		err := m.flush() // the client may have to read that before it opens the window
		m.writing.Unlock()
		m.mu.Lock()
		if err != nil {
			return err
		}
		if st.dead == nil && min(st.send, m.send) <= 0 {
			st.wait(st.wdead)
		}
	}
	return st.dead
}

// AwaitRoom implements [message.Receiver].
func (st *Stream) AwaitRoom() error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	return st.open()
}

// CloseWrite ends sending on a stream that has become a tunnel.
func (st *Stream) CloseWrite() error {
	if st.state != answerRaw {
		return errors.ErrUnsupported
	}
	if st.sent {
		return nil
	}
	err := st.writeData(nil, true)
	st.m.writing.Lock()
	defer st.m.writing.Unlock()
	return errors.Join(err, st.m.flush())
}

// EndEarly ends a response in order before the end that its server has announced.
func (st *Stream) EndEarly() error {
	if st.sent || st.state == answerHead || st.state == answerRaw {
		return errors.ErrUnsupported
	}
	err := st.writeData(nil, true)
	st.state = answerOver
	st.m.writing.Lock()
	defer st.m.writing.Unlock()
	return errors.Join(err, st.m.flush())
}

// Close ends the stream.
func (st *Stream) Close() error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	if st.dead == nil {
		st.dead = net.ErrClosed
	}
	st.changed.Broadcast()
	return nil
}

func (st *Stream) LocalAddr() net.Addr  { return st.m.socket.LocalAddr() }
func (st *Stream) RemoteAddr() net.Addr { return st.m.socket.RemoteAddr() }

func (st *Stream) SetDeadline(t time.Time) error      { return st.deadline(t, true, true) }
func (st *Stream) SetReadDeadline(t time.Time) error  { return st.deadline(t, true, false) }
func (st *Stream) SetWriteDeadline(t time.Time) error { return st.deadline(t, false, true) }

func (st *Stream) deadline(t time.Time, reads, writes bool) error {
	st.m.mu.Lock()
	defer st.m.mu.Unlock()
	if reads {
		st.rdead = t
	}
	if writes {
		st.wdead = t
	}
	st.changed.Broadcast()
	return nil
}
