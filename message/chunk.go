package message

import (
	"io"
	"strconv"
)

// AppendChunk appends the line that begins a chunk of size bytes. CRLF must
// follow the data. A chunk of size 0 would end the body: see
// [AppendLastChunk].
func AppendChunk(dst []byte, size int) []byte {
	dst = strconv.AppendInt(dst, int64(size), 16)
	return append(dst, "\r\n"...)
}

// AppendLastChunk appends the end of a chunked body.
func AppendLastChunk(dst []byte, trailer Fields) []byte {
	dst = append(dst, "0\r\n"...)
	dst = appendFields(dst, trailer)
	return append(dst, "\r\n"...)
}

// A ChunkWriter writes a chunked body to W, one Write per chunk, so that a
// chunk is one system call and one TLS record. A head leaves together with the
// first chunk, and the end with the last one where it is known in time.
//
// It is used again after End by setting W and Before.
type ChunkWriter struct {
	W io.Writer
	// Before goes out in front of the first chunk: the message's head. It is
	// set before the first call.
	Before []byte

	buf *[copySize]byte // pooled, held from the first call to End
	n   int             // bytes of buf that are to go out
}

// The size of a chunk is written with leading zeros (1*HEXDIG), so that data
// can be read into its place before its size is known.
const (
	chunkLine = len("7fff\r\n")
	chunkTail = len("\r\n")
	chunkMin  = 4 << 10 // do not read into less room
)

// Write writes p as one chunk or more.
func (c *ChunkWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		room, err := c.room()
		if err != nil {
			return n, err
		}
		m := copy(room, p)
		c.seal(m)
		if err := c.Flush(); err != nil {
			return n, err
		}
		n += m
		p = p[m:]
	}
	return n, nil
}

// ReadFrom writes what r gives, each read at once as a chunk. When r is a
// [Body] and has come to its end, the last data waits for End to leave with
// it.
func (c *ChunkWriter) ReadFrom(r io.Reader) (int64, error) {
	return c.copy(r, 1<<63-1)
}

func (c *ChunkWriter) copy(r io.Reader, max int64) (n int64, err error) {
	b, _ := r.(*Body)
	if b == nil || len(b.r.Buffered()) == 0 {
		// Nobody knows when the body comes: the head goes now.
		if err := c.Flush(); err != nil {
			return 0, err
		}
	}
	for n < max {
		room, err := c.room()
		if err != nil {
			return n, err
		}
		m, rerr := r.Read(room[:min(int64(len(room)), max-n)])
		c.seal(m)
		n += int64(m)
		if b != nil && b.Done() {
			return n, nil
		}
		if err := c.Flush(); err != nil {
			return n, err
		}
		if rerr == io.EOF {
			return n, nil
		}
		if rerr != nil {
			return n, rerr
		}
	}
	return n, nil
}

// Flush sends what waits: the head, when no data has come yet.
func (c *ChunkWriter) Flush() error {
	if err := c.begin(); err != nil || c.n == 0 {
		return err
	}
	n := c.n
	c.n = 0
	_, err := c.W.Write(c.buf[:n])
	return err
}

// End writes what waits, the last chunk and the trailers. When the source has
// failed it must not be called: the receiver has to see that the body is cut.
func (c *ChunkWriter) End(trailer Fields) error {
	err := c.begin()
	if err == nil {
		_, err = c.W.Write(AppendLastChunk(c.buf[:c.n], trailer))
	}
	buffers.Put(c.buf)
	c.buf, c.n = nil, 0
	return err
}

// begin takes a buffer and puts the head into it, or sends the head if it is
// so long that it would leave no room.
func (c *ChunkWriter) begin() (err error) {
	if c.buf != nil {
		return nil
	}
	c.buf, c.n = buffers.Get().(*[copySize]byte), 0
	if len(c.Before) > copySize-chunkMin {
		_, err = c.W.Write(c.Before)
	} else {
		c.n = copy(c.buf[:], c.Before)
	}
	c.Before = nil
	return err
}

// room returns the place for a chunk's data.
func (c *ChunkWriter) room() ([]byte, error) {
	err := c.begin()
	if err == nil && c.n > copySize-chunkMin {
		err = c.Flush()
	}
	return c.buf[c.n+chunkLine : copySize-chunkTail], err
}

// seal makes a chunk of the m bytes in the room.
func (c *ChunkWriter) seal(m int) {
	if m == 0 {
		return
	}
	p := c.buf[c.n:]
	for i := range 4 {
		p[i] = "0123456789abcdef"[m>>(12-4*i)&15]
	}
	copy(p[4:], crlf)
	copy(p[chunkLine+m:], crlf)
	c.n += chunkLine + m + chunkTail
}
