package message

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net"

	"shuultuur/lib/ascii"
	"shuultuur/lib/platform"
)

// A FramedBody is the body of the message that its Reader read last. It ends where the framing
// says, and is reused for the next message. Request.Body and Response.Body hold it after
// ReadRequest and ReadResponse.
//
// A malformed chunked body is an *Error; a connection that ends too early is
// io.ErrUnexpectedEOF. Errors persist.
type FramedBody struct {
	r       *Reader
	length  int64 // as in Request.Length
	left    int64 // bytes left: of the body, or of the chunk
	at      place
	status  int // status of an Error
	exts    int // bytes of chunk extensions so far
	trailer Fields
	raw     []byte // the trailer section
	err     error
}

// A place is the position within the framing of a body.
type place uint8

const (
	atEnd      place = iota
	atData           // left > 0
	atDataEnd        // before the CRLF that follows a chunk's data
	atChunk          // before a chunk size
	atTrailers       // after the last chunk's line
)

// begin starts a body and reports whether there is one.
func (b *FramedBody) begin(r *Reader, length int64, status int) bool {
	*b = FramedBody{r: r, length: length, left: length, at: atData, status: status, trailer: b.trailer[:0], raw: b.raw[:0]}
	switch length {
	case None:
		b.at, b.err = atEnd, io.EOF
		return false
	case Chunked:
		b.at, b.left = atChunk, 0
	case UntilClose:
		b.left = math.MaxInt64
	}
	return true
}

// AtEnd implements [Body]. The connection can then be used for another message.
func (b *FramedBody) AtEnd() bool { return b.at == atEnd }

// Remaining implements [Body].
func (b *FramedBody) Remaining() int64 {
	if b.at == atEnd || b.length > 0 {
		return b.left
	}
	return b.length
}

// Ready implements [Body]: the buffered bytes of the body. For a chunked body it is the rest
// of one chunk.
func (b *FramedBody) Ready(dst [][]byte) [][]byte {
	if b.r.a == b.r.b || !b.next(false) {
		return dst
	}
	if n := int(min(b.left, int64(b.r.b-b.r.a))); n > 0 {
		dst = append(dst, b.r.buf[b.r.a:b.r.a+n])
	}
	return dst
}

// Skip implements [Body].
func (b *FramedBody) Skip(n int) {
	b.r.a += n
	b.countRead(n)
	b.next(false) // notice an end that is buffered already
}

// Trailer implements [Body]. It is valid until the next message is read.
func (b *FramedBody) Trailer() Fields { return b.trailer }

// Close implements [Body]. It leaves the connection open.
func (b *FramedBody) Close() error { return nil }

// Read reads body bytes: buffered ones, or if there are none, directly from the connection
// into p if that costs no extra system call.
func (b *FramedBody) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	// Many chunks may be buffered. Read them as long as that needs no waiting.
	waits := false
	for !waits && n < len(p) && b.next(n == 0) {
		q := p[n:min(len(p), n+int(min(b.left, math.MaxInt32)))]
		m := 0
		switch buffered := b.r.b - b.r.a; {
		case buffered > 0:
			m = copy(q, b.r.buf[b.r.a:b.r.b])
			b.r.a += m
		case n > 0:
			waits = true
		case len(q) >= b.r.size || int64(len(q)) == b.left && b.length != Chunked:
			b.r.await()
			m, err = readSome(b.r.src, q)
		default:
			if err = b.r.fill(); err == nil {
				m = copy(q, b.r.buf[b.r.a:b.r.b])
				b.r.a += m
			}
		}
		if err != nil {
			b.stop(err)
			break
		}
		n += m
		b.countRead(m)
	}
	if n > 0 {
		b.next(false) // notice an end that is buffered already
		if len(p) >= b.r.size {
			b.r.Release() // who takes as much may be a while
		}
		return n, nil
	}
	return 0, b.err
}

// ReadArrived implements [ArrivedReader] for bodies of known length that come from a
// *net.TCPConn.
func (b *FramedBody) ReadArrived(p []byte) (n int) {
	c, ok := b.r.src.(*net.TCPConn)
	if !ok || b.err != nil || b.at != atData || b.length <= 0 || b.r.a < b.r.b {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	p = p[:min(int64(len(p)), b.left)]
	_ = raw.Read(func(fd uintptr) bool { // the next Read gets any error as well
		n, _ = platform.Read(fd, p)
		return true
	})
	if n <= 0 {
		return 0
	}
	b.countRead(n)
	return n
}

// countRead counts n bytes as read.
func (b *FramedBody) countRead(n int) {
	b.left -= int64(n)
	switch {
	case b.left > 0:
	case b.length == Chunked:
		b.at = atDataEnd
	default:
		b.end()
	}
}

// end is the regular end.
func (b *FramedBody) end() { b.at, b.left, b.err = atEnd, 0, io.EOF }

// stop ends the body with an error, or regularly if the end of the connection is its end.
func (b *FramedBody) stop(err error) {
	var e *Error
	switch {
	case err == io.EOF && b.length == UntilClose:
		b.end()
	case errors.As(err, &e):
		b.err = &Error{b.status, e.Reason}
	default:
		b.err = withinMessage(err)
	}
}

// next advances to the next data and reports whether there is some. If not, b.err says why, or
// is nil if that is unknown without waiting.
func (b *FramedBody) next(wait bool) bool {
	for b.err == nil {
		var err error
		switch b.at {
		case atEnd:
			err = io.EOF
		case atData:
			return true
		case atDataEnd:
			if !wait && b.r.b-b.r.a < 2 {
				return false
			}
			b.at = atChunk
			err = b.r.crlf("chunk data does not end with CRLF")
		case atChunk:
			if !wait && bytes.IndexByte(b.r.Buffered(), '\n') < 0 {
				return false
			}
			err = b.chunk()
		case atTrailers:
			p := b.r.Buffered()
			if !wait && !bytes.HasPrefix(p, crlf) && !bytes.Contains(p, headEnd) {
				return false
			}
			err = b.trailers()
		}
		if err != nil {
			b.stop(err)
		}
	}
	return false
}

var crlf, headEnd = []byte("\r\n"), []byte("\r\n\r\n")

// crlf consumes CRLF. Anything else is refused at its first byte.
func (r *Reader) crlf(reason string) error {
	for i, want := range crlf {
		p, err := r.Peek(i + 1)
		if err != nil {
			return err
		}
		if p[i] != want {
			return bad(reason)
		}
	}
	r.a += len(crlf)
	return nil
}

// chunk reads a chunk's line: its size and extensions, which are dropped.
func (b *FramedBody) chunk() error {
	line, err := b.r.line()
	if err != nil {
		return err
	}
	size, ext, e := parseChunk(line)
	if e != nil {
		return e
	}
	b.exts += ext
	if b.exts > maxExtensions {
		return bad("too many chunk extensions")
	}
	b.left, b.at = size, atData
	if size == 0 {
		b.at = atTrailers
	}
	return nil
}

// line consumes a line and returns it without its CRLF. It is valid until the
// next read.
func (r *Reader) line() ([]byte, error) {
	for {
		win := r.Buffered()
		i := bytes.IndexByte(win[:min(len(win), maxChunkLine)], '\n')
		switch {
		case i == 0 || i > 0 && win[i-1] != '\r':
			return nil, errBareLF()
		case i > 0:
			r.a += i + 1
			return win[:i-1], nil
		case len(win) >= maxChunkLine:
			return nil, bad("chunk line too long")
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// parseChunk parses a chunk's size and returns the length of its extensions.
func parseChunk(line []byte) (size int64, ext int, err *Error) {
	n := 0
	for ; n < len(line) && class[line[n]]&hexByte != 0; n++ {
		if n == 15 {
			return 0, 0, bad("chunk size too large")
		}
		size = size<<4 | int64(ascii.Unhex(line[n]))
	}
	if n == 0 {
		return 0, 0, bad("malformed chunk size")
	}
	if !extensions(line[n:]) {
		return 0, 0, bad("malformed chunk extension")
	}
	return size, len(line) - n, nil
}

// extensions reports whether e is well formed (RFC 9112 section 7.1.1). We ignore extensions,
// but where one hop sees an extension and another the end of a line, a request can be
// smuggled.
func extensions(e []byte) bool {
	for len(e) > 0 {
		e = blanks(e)
		if len(e) == 0 || e[0] != ';' {
			return false
		}
		e = blanks(e[1:])
		n := tokenLen(e)
		if n == 0 {
			return false
		}
		e = e[n:]
		v := blanks(e)
		if len(v) == 0 || v[0] != '=' {
			continue
		}
		if v = blanks(v[1:]); len(v) > 0 && v[0] == '"' {
			n = quotedLen(v)
		} else {
			n = tokenLen(v)
		}
		if n == 0 {
			return false
		}
		e = v[n:]
	}
	return true
}

func blanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

func tokenLen(b []byte) int {
	n := 0
	for n < len(b) && class[b[n]]&tokenByte != 0 {
		n++
	}
	return n
}

// quotedLen returns the length of the quoted string that begins b, or 0.
func quotedLen(b []byte) int {
	for i := 1; i < len(b); i++ {
		c := b[i]
		switch {
		case c == '"':
			return i + 1
		case c == '\\':
			if i++; i == len(b) {
				return 0
			}
			c = b[i]
		}
		if c < ' ' && c != '\t' || c == 0x7f {
			return 0
		}
	}
	return 0
}

// trailers reads the trailer section.
func (b *FramedBody) trailers() error {
	p, err := b.r.Peek(1)
	if err != nil {
		return err
	}
	if p[0] == '\r' || p[0] == '\n' {
		if err = b.r.crlf("trailer section does not end with CRLF"); err == nil {
			b.end()
		}
		return err
	}
	if b.raw, err = b.r.head(b.raw[:0]); err != nil {
		return err
	}
	var f framing
	fs, e := parseFields(b.raw, 0, b.trailer[:0], &f, b.status == 502)
	if e != nil {
		return firstOf(e, b.raw)
	}
	for i := range fs {
		if forbiddenInTrailer(fs[i].Name) {
			return bad("field that may not be in a trailer section")
		}
	}
	b.trailer = fs
	b.end()
	return nil
}

// forbiddenInTrailer lists the fields about framing, routing, authentication and content of a
// message. They come too late in a trailer (RFC 9110 section 6.5.1), and would change the head
// if merged into it.
func forbiddenInTrailer(name []byte) bool {
	for _, s := range [...]string{
		"Content-Length", "Transfer-Encoding", "Host", "Trailer", "TE",
		"Connection", "Keep-Alive", "Proxy-Connection", "Upgrade", "Expect",
		"Content-Encoding", "Content-Type", "Content-Range",
		"Authorization", "Proxy-Authorization", "Cookie",
	} {
		if EqualName(name, s) {
			return true
		}
	}
	return false
}

// Discard reads and drops the rest of the body, so that the connection can be reused. It fails
// if there are more than max bytes.
func (b *FramedBody) Discard(max int64) error {
	for b.next(true) {
		if b.left > max {
			return errTooMuch
		}
		if b.r.a == b.r.b {
			if err := b.r.fill(); err != nil {
				b.stop(err)
				break
			}
		}
		n := int(min(b.left, int64(b.r.b-b.r.a)))
		max -= int64(n)
		b.r.a += n
		b.countRead(n)
	}
	if b.err == io.EOF {
		return nil
	}
	return b.err
}

var errTooMuch = errors.New("message: the rest of the body is too long to be skipped")

const spliceMin = 64 << 10 // below, setting up the pipe costs more than it saves

// WriteTo writes the rest of the body to w. On Linux the kernel moves it (splice) if it is
// long, of known length or ended by the connection, and goes from one *net.TCPConn to another, or
// to a [Steady] of one.
func (b *FramedBody) WriteTo(w io.Writer) (int64, error) { return b.Copy(w, math.MaxInt64) }

// Copy implements [Body].
func (b *FramedBody) Copy(w io.Writer, max int64) (n int64, err error) {
	if b.length != Chunked {
		if n, err = b.copyBuffered(w, max); err != nil || n == max {
			return n, err
		}
		if m, ok, err := b.splice(w, max-n); ok {
			return n + m, err
		}
	}
	m, err := CopyRead(w, b, max-n)
	return n + m, err
}

func (b *FramedBody) copyBuffered(w io.Writer, max int64) (int64, error) {
	m := min(b.left, max, int64(b.r.b-b.r.a))
	if m == 0 || b.err != nil {
		return 0, nil
	}
	n, err := w.Write(b.r.buf[b.r.a : b.r.a+int(m)])
	b.r.a += n
	b.countRead(n)
	return int64(n), err
}

// splice has the kernel move at most max bytes to w. It reports whether it can.
func (b *FramedBody) splice(w io.Writer, max int64) (n int64, ok bool, err error) {
	want := min(b.left, max)
	src, ok := b.r.src.(*net.TCPConn)
	if !ok || b.err != nil || want < spliceMin {
		return 0, false, nil
	}
	dst, arm := tcp(w)
	if dst == nil {
		return 0, false, nil
	}
	taken, n, err := Splice(dst, src, want, b.r.await, arm)
	if err == errors.ErrUnsupported {
		return 0, false, nil
	}
	if b.left -= taken; b.left == 0 {
		b.end()
	}
	if err != nil {
		b.err = err // bytes may have been lost in between
		return n, true, err
	}
	if n < want {
		b.stop(io.EOF)
		if b.err != io.EOF {
			err = b.err
		}
	}
	return n, true, err
}
