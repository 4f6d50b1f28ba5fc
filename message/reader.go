package message

import "io"

// A Reader reads messages from a connection. It is used again for the next
// connection with Reset. Stub signatures: the body of this file is to be
// written.
type Reader struct {
	r    io.Reader
	buf  []byte
	a, b int
}

// NewReader returns a Reader with a buffer of size bytes; a head must fit
// into maxHead, which may be more.
func NewReader(r io.Reader, size, maxHead int) *Reader { panic("to be written") }

// Reset makes the reader read from src, dropping what is buffered.
func (r *Reader) Reset(src io.Reader) { panic("to be written") }

// Read reads raw bytes: buffered ones first. For tunnels and upgrades.
func (r *Reader) Read(p []byte) (int, error) { panic("to be written") }

// Buffered returns what has been read from the connection and not consumed.
func (r *Reader) Buffered() []byte { panic("to be written") }

// Peek waits until n bytes are buffered and returns them without consuming;
// n may not exceed the buffer's size. Less than n comes with an error.
func (r *Reader) Peek(n int) ([]byte, error) { panic("to be written") }

// Discard consumes n buffered bytes.
func (r *Reader) Discard(n int) { panic("to be written") }

// ReadRequest reads the next request head into q, whose storage is used again,
// and sets q.Body. io.EOF means the connection ended between requests.
func (r *Reader) ReadRequest(q *Request) error { panic("to be written") }

// ReadResponse reads the next response head into s. method is that of the
// request it answers (HEAD and CONNECT have no body). 1xx responses are
// returned like any other; the caller reads on.
func (r *Reader) ReadResponse(s *Response, method string) error { panic("to be written") }

// AppendHead appends the head as it goes on the wire: request line from
// Method, Target and HTTP/1.1, then Fields in order, then the empty line.
func (q *Request) AppendHead(dst []byte) []byte { panic("to be written") }

// AppendHead appends status line, fields and the empty line.
func (s *Response) AppendHead(dst []byte) []byte { panic("to be written") }
