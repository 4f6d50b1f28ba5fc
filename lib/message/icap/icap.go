// Package icap reads the framing of ICAP messages (RFC 3507): lines, chunk sizes and the
// Encapsulated field. The ICAP server and the ICAP client share it.
//
// Any peer may be hostile: lines are bounded, and malformed input is reported as a [Fault].
package icap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"shuultuur/lib/ascii"
)

// Limits of an ICAP head and of its encapsulated parts.
const (
	MaxLine      = 16 << 10  // bytes of a line; the buffer of a connection is as large
	MaxFields    = 128       // lines of a head
	MaxHeads     = 128 << 10 // bytes of the HTTP heads
	maxChunkLine = 256       // bytes of the line before a chunk
)

// A Fault is an error in an ICAP message, with the status of the server's answer.
type Fault struct {
	Status int
	Reason string
}

func (f *Fault) Error() string { return f.Reason }

// Bad returns the [Fault] for a malformed message, with status 400.
func Bad(format string, args ...any) error { return Refuse(400, format, args...) }

// Refuse returns a [Fault] with another status.
func Refuse(status int, format string, args ...any) error {
	return &Fault{status, fmt.Sprintf(format, args...)}
}

// Unexpected converts the end of a connection within a message to [io.ErrUnexpectedEOF].
func Unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ReadLine reads a line without its CRLF. It is valid until the next read.
func ReadLine(r *bufio.Reader) ([]byte, error) {
	b, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, Bad("a line is longer than %d bytes", MaxLine)
	case err == io.EOF && len(b) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case len(b) < 2 || b[len(b)-2] != '\r':
		return nil, Bad("a line does not end with CRLF")
	}
	return b[:len(b)-2], nil
}

// Field splits a line of a head into name and value.
func Field(line []byte) (name string, value []byte, err error) {
	n, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || len(n) == 0 || bytes.ContainsAny(n, " \t") {
		return "", nil, Bad("malformed field %.40q", line)
	}
	return strings.ToLower(string(n)), bytes.Trim(value, " \t"), nil
}

// ReadChunk reads the line before a chunk. The extension, such as ieof or
// use-original-body=0, is valid until the next read.
func ReadChunk(r *bufio.Reader) (n int64, extension []byte, err error) {
	line, err := ReadLine(r)
	if err != nil {
		return 0, nil, Unexpected(err)
	}
	if len(line) > maxChunkLine {
		return 0, nil, Bad("a chunk line of %d bytes", len(line))
	}
	size, ext, _ := bytes.Cut(line, []byte(";"))
	size = bytes.TrimRight(size, " \t")
	if len(size) == 0 || len(size) > 15 {
		return 0, nil, Bad("malformed chunk size %.20q", size)
	}
	for _, d := range size {
		v := ascii.Unhex(d)
		if v < 0 {
			return 0, nil, Bad("malformed chunk size %.20q", size)
		}
		n = n<<4 | int64(v)
	}
	return n, bytes.TrimSpace(ext), nil
}

// EndChunk reads the CRLF after a chunk.
func EndChunk(r *bufio.Reader) error {
	line, err := ReadLine(r)
	if err == nil && len(line) > 0 {
		err = Bad("a chunk is longer than it says")
	}
	return Unexpected(err)
}

// SkipTrailer reads and drops the lines after the last chunk.
func SkipTrailer(r *bufio.Reader) error {
	for range MaxFields {
		line, err := ReadLine(r)
		if err != nil {
			return Unexpected(err)
		}
		if len(line) == 0 {
			return nil
		}
	}
	return Bad("a trailer of more than %d fields", MaxFields)
}

// Encapsulated is the parsed field of that name (RFC 3507 section 4.4.1).
type Encapsulated struct {
	Present   bool
	Req, Res  int // lengths of the HTTP heads, -1 without one
	Body      bool
	ForAnswer bool // the body is that of a response
	Options   bool // the body describes OPTIONS itself (opt-body), and there is no other
}

// Parse reads a value such as "req-hdr=0, res-hdr=137, res-body=296".
func (e *Encapsulated) Parse(value string) error {
	*e = Encapsulated{Present: true, Req: -1, Res: -1}
	at, open := 0, (*int)(nil) // the head whose length is still unknown
	ended := false
	for part := range strings.SplitSeq(value, ",") {
		name, offset, ok := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.ParseUint(offset, 10, 31)
		switch {
		case !ok || err != nil || ended:
			return Bad("malformed Encapsulated: %.80q", value)
		case int(n) > MaxHeads:
			return Refuse(413, "HTTP heads of %d bytes; at most %d are accepted", n, MaxHeads)
		case open == nil && n != 0, open != nil && int(n) <= at:
			return Bad("offsets in Encapsulated that do not ascend from 0: %.80q", value)
		case open != nil:
			*open = int(n) - at
		}
		at = int(n)
		switch strings.ToLower(name) {
		case "req-hdr":
			if e.Req >= 0 || e.Res >= 0 {
				return Bad("Encapsulated in a wrong order: %.80q", value)
			}
			open = &e.Req
		case "res-hdr":
			if e.Res >= 0 {
				return Bad("Encapsulated in a wrong order: %.80q", value)
			}
			open = &e.Res
		case "req-body":
			e.Body, ended = true, true
		case "res-body":
			e.Body, e.ForAnswer, ended = true, true, true
		case "opt-body":
			e.Options, ended = true, true
		case "null-body":
			ended = true
		default:
			return Bad("Encapsulated names %.20q", name)
		}
		if !ended {
			*open = 0 // until the next offset
		}
	}
	if !ended {
		return Bad("Encapsulated does not end with a body or null-body: %.80q", value)
	}
	return nil
}
