package message

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
)

// Limits that no legitimate message reaches. They bound the work and memory of a message; the
// caller limits the size of a head (NewReader).
const (
	minBuffer         = 1024     // a chunk line must fit
	maxFields         = 256      // field lines of a request's head or trailer section
	maxResponseFields = 4096     // the same of a response
	maxEmptyLines     = 4        // before a request line (RFC 9112, 2.2)
	maxMethod         = 32       // bytes; the longest registered method has 17
	maxChunkLine      = 256      // bytes of chunk size and extensions
	maxExtensions     = 16 << 10 // bytes of chunk extensions in one body
	maxIdleReads      = 100      // reads that return neither bytes nor an error
	maxTicket         = 96 << 10 // bytes of a field with a ticket; those of Windows have 87,384 at most
)

var (
	errUnread = errors.New("message: the body before was not read to its end")
	errFull   = errors.New("message: more bytes asked for than the buffer holds")
)

// A Reader reads messages from a connection. Reset reuses it for the next connection. It is
// not safe for concurrent use.
type Reader struct {
	src     io.Reader
	size    int
	buf     []byte // nil until bytes are expected, and after Detach and Release
	a, b    int    // buf[a:b] has been read and not consumed
	maxHead int
	tickets bool   // see Tickets
	relaxed bool   // see Relax
	arm     func() // see Steady
	answer  bool   // a response's head is being read
	body    FramedBody
	err     error // after a failed head: the beginning of the next one is unknown
}

// NewReader returns a Reader with a buffer of size bytes, at least 1024. A head may have
// maxHead bytes, which may be more than size.
//
// If r is a *net.TCPConn itself, and not a wrapper, the kernel moves long bodies to another
// TCP connection without copying them to the process (see [FramedBody.WriteTo]).
func NewReader(r io.Reader, size, maxHead int) *Reader {
	size = max(size, minBuffer)
	return &Reader{src: r, size: size, maxHead: maxHead}
}

// Steady makes r call arm before each wait for bytes of a body or of a response's head. It sets the
// deadline of the connection, which is for silence then, however long they take.
func (r *Reader) Steady(arm func()) { r.arm = arm }

// Tickets says whether the field with a client's ticket (Negotiate) counts against the limit of a
// head. Tickets of people in many groups are as large as all other fields may be together.
func (r *Reader) Tickets(uncounted bool) { r.tickets = uncounted }

// await is called before each wait for bytes.
func (r *Reader) await() {
	if r.arm != nil && (r.answer || !r.body.AtEnd()) {
		r.arm()
	}
}

// Reset makes the reader read from src, and drops buffered bytes.
func (r *Reader) Reset(src io.Reader) {
	r.src, r.a, r.b, r.err = src, 0, 0, nil
	r.body = FramedBody{raw: r.body.raw[:0], trailer: r.body.trailer[:0]}
}

// Read reads raw bytes, buffered ones first. Tunnels and upgraded connections use it.
func (r *Reader) Read(p []byte) (int, error) {
	if r.a < r.b {
		n := copy(p, r.buf[r.a:r.b])
		r.a += n
		return n, nil
	}
	return r.src.Read(p)
}

// Buffered returns the bytes that have been read from the connection but not consumed.
func (r *Reader) Buffered() []byte { return r.buf[r.a:r.b] }

// Detach returns the same as [Reader.Buffered], consumes it and releases the buffer, because a
// connection that becomes a tunnel may last for hours. Later reads use a new buffer.
func (r *Reader) Detach() []byte {
	b := bytes.Clone(r.Buffered())
	if len(b) == 0 {
		b = nil
	}
	r.buf, r.a, r.b = nil, 0, 0
	return b
}

// Release gives the buffer to other readers until it is needed again, if nothing is in it: a
// receiver may take what was read for hours. Slices of the buffer become invalid.
func (r *Reader) Release() {
	if r.a < r.b || r.buf == nil {
		return
	}
	switch r.size {
	case fewBytes:
		fewBuffers.Put((*[fewBytes]byte)(r.buf))
	case manyBytes:
		manyBuffers.Put((*[manyBytes]byte)(r.buf))
	default:
		return
	}
	r.buf, r.a, r.b = nil, 0, 0
}

// The sizes of buffers that readers share.
const (
	fewBytes  = 4 << 10
	manyBytes = 8 << 10
)

var (
	fewBuffers  = sync.Pool{New: func() any { return new([fewBytes]byte) }}
	manyBuffers = sync.Pool{New: func() any { return new([manyBytes]byte) }}
)

// buffer returns an empty buffer of r.
func (r *Reader) buffer() []byte {
	switch r.size {
	case fewBytes:
		return fewBuffers.Get().(*[fewBytes]byte)[:]
	case manyBytes:
		return manyBuffers.Get().(*[manyBytes]byte)[:]
	}
	return make([]byte, r.size)
}

// Peek waits until n bytes are buffered and returns them without consuming them. n may not
// exceed the buffer's size. Fewer than n bytes come with an error.
func (r *Reader) Peek(n int) ([]byte, error) {
	for r.b-r.a < n {
		if err := r.fill(); err != nil {
			return r.buf[r.a:r.b], err
		}
	}
	return r.buf[r.a : r.a+n], nil
}

// Discard consumes n buffered bytes.
func (r *Reader) Discard(n int) { r.a += min(n, r.b-r.a) }

// fill reads once from the connection into the buffer. It ignores an error that comes together
// with bytes, because the next read gets it again.
func (r *Reader) fill() error {
	switch {
	case r.buf == nil:
		r.buf = r.buffer()
	case r.a == r.b:
		r.a, r.b = 0, 0
	case r.b == len(r.buf):
		if r.a == 0 {
			return errFull
		}
		r.b = copy(r.buf, r.buf[r.a:r.b])
		r.a = 0
	}
	r.await()
	n, err := readSome(r.src, r.buf[r.b:])
	r.b += n
	return err
}

// readSome reads at least one byte or returns an error.
func readSome(src io.Reader, p []byte) (int, error) {
	for range maxIdleReads {
		n, err := src.Read(p)
		if n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

// ReadRequest reads the next request head into q, reusing its memory, and sets q.Body. io.EOF
// means that the connection ended between requests.
//
// An *Error has the response; after it, and after a connection failure within a head,
// nothing more can be read. The previous body must have been read to its end
// ([FramedBody.Discard]).
func (r *Reader) ReadRequest(q *Request) error {
	if err := r.ready(); err != nil {
		return err
	}
	raw, fields := q.raw[:0], q.Fields[:0]
	*q = Request{}
	err := r.skipEmptyLines()
	if err == nil {
		raw, err = r.head(raw)
	}
	q.raw, q.Fields = raw, fields
	if err != nil {
		return r.fail(err)
	}
	if e := q.parse(); e != nil {
		return r.fail(firstOf(e, raw))
	}
	if r.body.begin(r, q.Length, 400) {
		q.Body = &r.body
	}
	return nil
}

// ReadResponse reads the next response head into s. method is that of the request, because
// responses to HEAD and CONNECT have no body. Responses 1xx are returned like any other; the
// caller then reads the next.
func (r *Reader) ReadResponse(s *Response, method string) error {
	if err := r.ready(); err != nil {
		return err
	}
	r.answer = true
	defer func() { r.answer = false }()
	raw, fields := s.raw[:0], s.Fields[:0]
	*s = Response{}
	icy, err := false, error(nil)
	if r.relaxed {
		icy, err = r.isICY()
	}
	if !icy && err == nil {
		err = r.startsWith("HTTP/1.")
	}
	switch {
	case err != nil:
	case r.relaxed:
		raw, err = r.relaxedHead(raw, &s.Folded)
	default:
		if raw, err = r.head(raw); isBareLF(err) {
			raw, err = r.relaxedHead(raw, nil)
		}
	}
	if icy && err == nil {
		raw = append([]byte("HTTP/1.0"), raw[len(icyVersion):]...)
	}
	s.raw, s.Fields = raw, fields
	if err != nil {
		return r.fail(badGateway(err))
	}
	if e := s.parse(method, r.relaxed); e != nil {
		return r.fail(badGateway(firstOf(e, raw)))
	}
	if r.body.begin(r, s.Length, 502) {
		s.Body = &r.body
	}
	return nil
}

// ready reports whether the next head begins at the beginning of the buffer.
func (r *Reader) ready() error {
	if r.err != nil {
		return r.err
	}
	if !r.body.AtEnd() {
		return errUnread
	}
	return nil
}

// fail makes a malformed head the end of the connection. A connection error while the head is
// still complete in the buffer is not final: a deadline can be extended.
func (r *Reader) fail(err error) error {
	var e *Error
	if errors.As(err, &e) {
		r.err = err
	}
	return err
}

// firstOf returns the error that head would have returned for raw in pieces, if any, else e.
func firstOf(e *Error, raw []byte) *Error {
	if bareLF(raw, 0) {
		return errBareLF()
	}
	return e
}

func errBareLF() *Error { return bad("line ends with LF alone") }

func isBareLF(err error) bool {
	e, ok := err.(*Error)
	return ok && *e == *errBareLF()
}

// badGateway converts err to an error of a response.
func badGateway(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return &Error{502, e.Reason}
	}
	return err
}

// skipEmptyLines consumes the empty lines that some clients send after a body, and checks the
// first byte of the request line, so that a client of another protocol gets an error at once.
func (r *Reader) skipEmptyLines() error {
	for range maxEmptyLines + 1 {
		b, err := r.Peek(1)
		if err != nil {
			return err
		}
		if b[0] != '\r' {
			if class[b[0]]&tokenByte == 0 {
				return bad("request line does not begin with a method")
			}
			return nil
		}
		if b, err = r.Peek(2); err != nil {
			return withinMessage(err)
		}
		if b[1] != '\n' {
			return bad("CR without LF")
		}
		r.a += 2
	}
	return bad("too many empty lines before the request line")
}

// startsWith refuses bytes that do not begin a response, without waiting for the end of the
// head.
func (r *Reader) startsWith(s string) error {
	for n := 1; n <= len(s); n++ {
		b, err := r.Peek(n)
		if err != nil {
			if n == 1 {
				return err
			}
			return withinMessage(err)
		}
		if b[n-1] != s[n-1] {
			return bad("status line does not begin with HTTP/1.")
		}
	}
	return nil
}

// withinMessage converts the end of the connection to an error within a message.
func withinMessage(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// head appends the head at the beginning of the buffer to raw, including its empty line, and
// consumes it. A head that does not fit the buffer moves to raw as it arrives. Each byte is
// searched once (and three twice), however slowly they arrive.
func (r *Reader) head(raw []byte) ([]byte, error) {
	most, tried := r.maxHead, !r.tickets
	for searched := 0; ; {
		win := r.buf[r.a:r.b]
		if i := bytes.Index(win[searched:], headEnd); i >= 0 {
			n := searched + i + 4
			if size := len(raw) + n; size > most || size > r.maxHead && size-ticketSize(raw, win[:n]) > r.maxHead {
				if bareLF(win, searched) {
					return raw, errBareLF()
				}
				return raw, tooLarge(raw, win)
			}
			raw = append(raw, win[:n]...)
			r.a += n
			return raw, nil
		}
		// A client that ends lines with only LF would wait forever.
		if bareLF(win, searched) {
			return raw, errBareLF()
		}
		if len(raw)+len(win) >= most && !tried {
			tried = true // looking for the field again with each byte would cost too much
			if ticketSize(raw, win) > 0 {
				most += maxTicket
			}
		}
		if len(raw)+len(win) >= most {
			return raw, tooLarge(raw, win)
		}
		searched = max(len(win)-3, 0)
		if len(win) == r.size {
			raw = append(raw, win[:searched]...)
			r.a += searched
			searched = 0
		}
		if err := r.fill(); err != nil {
			err = withinMessage(err)
			if len(raw) > 0 {
				r.err = err
			}
			return raw, err
		}
	}
}

// ticketSize returns the size of the fields with a ticket in a head that begins with raw and goes
// on with win, as far as it has arrived; at most maxTicket.
func ticketSize(raw, win []byte) (size int) {
	const name, scheme = "proxy-authorization:", "negotiate "
	for line := range bytes.SplitAfterSeq(slices.Concat(raw, win), []byte("\n")) {
		if len(line) < len(name) || !EqualName(line[:len(name)], name) {
			continue
		}
		value := bytes.TrimLeft(line[len(name):], " \t")
		if len(value) >= len(scheme) && EqualName(value[:len(scheme)], scheme) {
			size += len(line)
		}
	}
	return min(size, maxTicket)
}

// bareLF reports whether there is an LF without CR at or after from. The caller has checked
// byte 0, or it was the third last checked.
func bareLF(b []byte, from int) bool {
	for i := max(from, 1); ; i++ {
		j := bytes.IndexByte(b[min(i, len(b)):], '\n')
		if j < 0 {
			return false
		}
		if i += j; b[i-1] != '\r' {
			return true
		}
	}
}

// tooLarge names the request line if nothing else has arrived.
func tooLarge(raw, win []byte) *Error {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(win, '\n') < 0 {
		return &Error{414, "request line too long"}
	}
	return &Error{431, "head too large"}
}
