package message

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// A loop repeats the same bytes without end, like requests on a kept-alive connection.
type loop struct {
	b []byte
	i int
}

func (l *loop) Read(p []byte) (int, error) {
	if l.i == len(l.b) {
		l.i = 0
	}
	n := copy(p, l.b[l.i:])
	l.i += n
	return n, nil
}

const browserRequest = "GET http://www.example.org/wiki/Main_Page?action=view HTTP/1.1\r\n" +
	"Host: www.example.org\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" +
	"Accept-Language: en-US,en;q=0.5\r\n" +
	"Accept-Encoding: gzip, deflate\r\n" +
	"Proxy-Connection: keep-alive\r\n" +
	"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n" +
	"Upgrade-Insecure-Requests: 1\r\n" +
	"Priority: u=0, i\r\n\r\n"

func TestAKeepAliveConnectionAllocatesNothing(t *testing.T) {
	const chunked = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"5\r\n01234\r\n3;x=y\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"
	const sized = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789"
	for _, in := range []string{browserRequest, sized, chunked, browserRequest + sized + chunked} {
		var q Request
		var err error
		r := NewReader(&loop{b: []byte(in)}, 4<<10, 64<<10)
		out, body := make([]byte, 0, 4<<10), make([]byte, 512)
		n := testing.AllocsPerRun(200, func() {
			if e := r.ReadRequest(&q); e != nil {
				err = e
			}
			if q.Body != nil {
				for e := error(nil); e == nil; {
					if _, e = q.Body.Read(body); e != nil && e != io.EOF {
						err = e
					}
				}
			}
			out = AppendLastChunk(AppendChunk(out[:0], 10), trailer(q.Body))
		})
		if n != 0 || err != nil {
			t.Errorf("reading %.30q allocates %v times (%v), want 0", in, n, err)
		}
	}
}

func TestResponsesOfAKeepAliveConnectionAllocateNothing(t *testing.T) {
	in := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10\r\nConnection: keep-alive\r\n\r\n0123456789" +
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" +
		"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"
	var s Response
	var err error
	r := NewReader(&loop{b: []byte(in)}, 4<<10, 64<<10)
	var w struct{ io.Writer } // no ReaderFrom
	w.Writer = io.Discard
	n := testing.AllocsPerRun(300, func() {
		if e := r.ReadResponse(&s, "GET"); e != nil {
			err = e
		}
		if s.Body != nil {
			if _, e := s.Body.(*FramedBody).WriteTo(w); e != nil {
				err = e
			}
		}
	})
	if n != 0 || err != nil {
		t.Errorf("reading the message allocates %v times (%v), want 0", n, err)
	}
}

// reads counts calls of Read and the largest buffer that one was given.
type reads struct {
	io.Reader
	n, most int
}

func (r *reads) Read(p []byte) (int, error) {
	r.n++
	r.most = max(r.most, len(p))
	return r.Reader.Read(p)
}

func TestLargeReadsGoRoundTheBuffer(t *testing.T) {
	const size = 100_000
	src := &reads{Reader: strings.NewReader(get("Content-Length: 100000") + strings.Repeat("x", size))}
	r := NewReader(src, 2<<10, 8<<10)
	var q Request
	if err := r.ReadRequest(&q); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, size)
	if n, err := io.ReadFull(q.Body, p); n != size || err != nil {
		t.Fatalf("reading the body returned %d bytes and the error %v, want %d", n, err, size)
	}
	if src.n > 3 || src.most < 90_000 {
		t.Errorf("the body took %d reads, the largest of %d bytes; want 2, and one of nearly all", src.n, src.most)
	}
}

// TestAReaderKeepsNoBufferForALargeRead: who asks for as much may pass it on for hours.
func TestAReaderKeepsNoBufferForALargeRead(t *testing.T) {
	for name, slow := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "by halves": iotest.HalfReader, "by bytes": iotest.OneByteReader} {
		chunk := "2000\r\n" + strings.Repeat("x", 0x2000) + "\r\n"
		in := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 20) + "0\r\n\r\n"
		r := NewReader(slow(strings.NewReader(in)), fewBytes, fewBytes)
		var s Response
		if err := r.ReadResponse(&s, "GET"); err != nil {
			t.Fatal(err)
		}
		for p := make([]byte, 5000); !s.Body.AtEnd(); {
			n, err := s.Body.Read(p)
			if n == 0 && err != io.EOF {
				t.Fatal(err)
			}
			if n > 0 && len(r.Buffered()) == 0 && r.buf != nil {
				t.Fatalf("%s: an empty buffer is kept", name)
			}
		}
	}
}

// Read never returns bytes of the next message, whatever the size of the buffer.
func TestBodyEndsAtItsFraming(t *testing.T) {
	for _, c := range []struct{ head, body string }{
		{get("Content-Length: 5000"), strings.Repeat("a", 5000)},
		{get("Transfer-Encoding: chunked"), "1388\r\n" + strings.Repeat("a", 5000) + "\r\n0\r\n\r\n"},
	} {
		for _, size := range []int{1, 7, 1000, 4096, 5000, 5001, 70000} {
			r := NewReader(strings.NewReader(c.head+c.body+get("X: next")), 0, 8<<10)
			var q Request
			if err := r.ReadRequest(&q); err != nil {
				t.Fatal(err)
			}
			n := 0
			p := make([]byte, size)
			for {
				m, err := q.Body.Read(p)
				if n += m; err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if n != 5000 {
				t.Errorf("with reads of %d the body has %d bytes, want 5000", size, n)
			}
			if err := r.ReadRequest(&q); err != nil || string(q.Get("x")) != "next" {
				t.Errorf("with reads of %d the next request is not read: %v", size, err)
			}
		}
	}
}

func TestRemainingAndAtEnd(t *testing.T) {
	var s Response
	r := NewReader(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"+
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"+
		"HTTP/1.1 200 OK\r\n\r\nabc"), 0, 8<<10)
	for _, want := range []int64{3, Chunked, UntilClose} {
		if err := r.ReadResponse(&s, "GET"); err != nil {
			t.Fatal(err)
		}
		b := s.Body.(*FramedBody)
		if b.Remaining() != want || b.AtEnd() {
			t.Errorf("before reading: Remaining %d, AtEnd %v; want %d, false", b.Remaining(), b.AtEnd(), want)
		}
		if got, err := io.ReadAll(b); string(got) != "abc" || err != nil {
			t.Errorf("the body is %q (%v), want abc", got, err)
		}
		if b.Remaining() != 0 || !b.AtEnd() {
			t.Errorf("after reading: Remaining %d, AtEnd %v; want 0, true", b.Remaining(), b.AtEnd())
		}
	}
}

// TestTheEndIsNoticedWithTheLastData: an end of the body that is already buffered is noticed with
// the last data, so that the connection is free without another read.
func TestTheEndIsNoticedWithTheLastData(t *testing.T) {
	for _, in := range []string{
		get("Content-Length: 3") + "abc",
		post("3\r\nabc\r\n0\r\n\r\n"),
		post("1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"),
	} {
		r := NewReader(strings.NewReader(in), 0, 8<<10)
		var q Request
		if err := r.ReadRequest(&q); err != nil {
			t.Fatal(err)
		}
		b := q.Body.(*FramedBody)
		p := make([]byte, 10)
		if n, err := b.Read(p); string(p[:n]) != "abc" || err != nil || !b.AtEnd() {
			t.Errorf("%q: Read returned %q, %v with AtEnd %v; want abc at the end", in, p[:n], err, b.AtEnd())
		}
		if n, err := b.Read(p); n != 0 || err != io.EOF {
			t.Errorf("%q: Read after the end returned %d, %v; want 0 and EOF", in, n, err)
		}
	}
}

func TestDiscard(t *testing.T) {
	for _, c := range []struct {
		in   string
		max  int64
		want error
	}{
		{get("Content-Length: 3") + "abc", 3, nil},
		{get("Content-Length: 3") + "abc", 2, errTooMuch},
		{get("Content-Length: 3") + "ab", 3, io.ErrUnexpectedEOF},
		{post("3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n"), 5, nil},
		{post("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), 4, errTooMuch},
		{post("ffffff\r\nabc"), 100, errTooMuch},
		{post("0\r\n\r\n"), 0, nil},
	} {
		r := NewReader(iotest.HalfReader(strings.NewReader(c.in)), 0, 8<<10)
		var q Request
		if err := r.ReadRequest(&q); err != nil {
			t.Fatal(err)
		}
		b := q.Body.(*FramedBody)
		if err := b.Discard(c.max); err != c.want || b.AtEnd() != (err == nil) {
			t.Errorf("%q: Discard(%d) returned %v with AtEnd %v, want %v", c.in, c.max, err, b.AtEnd(), c.want)
		}
	}
	r := NewReader(strings.NewReader("HTTP/1.1 200 OK\r\n\r\nabc"), 0, 8<<10)
	var s Response
	if err := r.ReadResponse(&s, "GET"); err != nil {
		t.Fatal(err)
	}
	if err := s.Body.(*FramedBody).Discard(1 << 40); err != errTooMuch {
		t.Errorf("Discard of a body until close returned %v, want %v", err, errTooMuch)
	}
}

// tcpPair returns both ends of a loopback connection.
func tcpPair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// relay sends in over TCP, reads it as a response, copies its body to another TCP connection
// with copy, and returns the bytes that arrive there.
func relay(t *testing.T, in []byte, copy func(b *FramedBody, w io.Writer) error) (got []byte, b *FramedBody, err error) {
	origin, upstream := tcpPair(t)
	down, client := tcpPair(t)
	go func() {
		origin.Write(in)
		origin.CloseWrite()
	}()
	out := make(chan []byte)
	go func() {
		p, _ := io.ReadAll(client)
		out <- p
	}()
	var s Response
	r := NewReader(upstream, 4<<10, 8<<10)
	if err := r.ReadResponse(&s, "GET"); err != nil {
		t.Fatal(err)
	}
	b = s.Body.(*FramedBody)
	err = copy(b, down)
	down.CloseWrite()
	return <-out, b, err
}

func TestWriteToBetweenTCPConnections(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	chunked := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	for p := data; len(p) > 0; p = p[1<<15:] {
		chunked = append(append(AppendChunk(chunked, 1<<15), p[:1<<15]...), "\r\n"...)
	}
	chunked = AppendLastChunk(chunked, nil)
	whole := func(b *FramedBody, w io.Writer) error { _, err := io.Copy(w, b); return err }
	pieces := func(b *FramedBody, w io.Writer) error {
		for !b.AtEnd() {
			if n, err := b.Copy(w, 100_000); err != nil || n > 100_000 {
				return err
			}
		}
		return nil
	}
	for _, c := range []struct {
		name string
		in   []byte
		copy func(*FramedBody, io.Writer) error
		err  error
	}{
		{"length", append([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n"), data...), whole, nil},
		{"until close", append([]byte("HTTP/1.1 200 OK\r\n\r\n"), data...), whole, nil},
		{"chunked", chunked, whole, nil},
		{"length in pieces", append([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n"), data...), pieces, nil},
		{"until close in pieces", append([]byte("HTTP/1.1 200 OK\r\n\r\n"), data...), pieces, nil},
		{"cut", append([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n"), data...), whole, io.ErrUnexpectedEOF},
		{"more than length", append([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n"), append(data, "HTTP/1.1"...)...), whole, nil},
	} {
		got, b, err := relay(t, c.in, c.copy)
		if err != c.err || b.AtEnd() != (err == nil) {
			t.Errorf("%s: copying returned %v with AtEnd %v, want %v", c.name, err, b.AtEnd(), c.err)
		}
		if !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes arrived, want %d", c.name, len(got), len(data))
		}
	}
}

func BenchmarkReadRequest(b *testing.B) {
	r := NewReader(&loop{b: []byte(browserRequest)}, 4<<10, 64<<10)
	var q Request
	b.SetBytes(int64(len(browserRequest)))
	b.ReportAllocs()
	for b.Loop() {
		if err := r.ReadRequest(&q); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChunkedBody(b *testing.B) {
	var in []byte
	in = append(in, post("")...)
	for range 8 {
		in = append(append(AppendChunk(in, 1000), bytes.Repeat([]byte("x"), 1000)...), "\r\n"...)
	}
	in = AppendLastChunk(in, nil)
	r := NewReader(&loop{b: in}, 4<<10, 64<<10)
	var q Request
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if err := r.ReadRequest(&q); err != nil {
			b.Fatal(err)
		}
		if err := q.Body.(*FramedBody).Discard(1 << 20); err != nil {
			b.Fatal(err)
		}
	}
}
