package capture

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// maxRatio limits the expansion of a byte by a coding.
const maxRatio = 2048

// A bodyReader decodes the content codings of a body as tolerantly as browsers do.
type bodyReader struct {
	codings []string
	layers  int // number of codings to decode
	limit   int
	raw     []byte
	out     []byte
	done    bool
}

// newBodyReader parses a Content-Encoding with at most layers codings.
func newBodyReader(coding string, layers, limit int) *bodyReader {
	b := &bodyReader{limit: limit, layers: layers}
	for c := range strings.SplitSeq(strings.ToLower(coding), ",") {
		c = strings.TrimSpace(c)
		switch {
		case c == "" || c == "identity" || c == "none" || c == "inflate":
		case strings.Contains(c, "gzip"):
			b.codings = append(b.codings, "gzip")
		case strings.Contains(c, "deflate"):
			b.codings = append(b.codings, "deflate")
		case c == "br" || c == "zstd":
			b.codings = append(b.codings, c)
		case strings.Contains(c, "lzma"):
			b.codings = append(b.codings, "lzma")
		}
	}
	if layers > 0 && len(b.codings) > layers {
		b.codings = b.codings[len(b.codings)-layers:]
	}
	return b
}

// full reports whether all bytes that rules inspect have arrived.
func (b *bodyReader) full() bool { return len(b.raw) >= b.limit }

func (b *bodyReader) write(p []byte) {
	if room := b.limit - len(b.raw); len(p) > room {
		p = p[:max(0, room)]
	}
	b.raw = append(b.raw, p...)
	b.done = false
}

// decoded returns the decoded body as far as possible.
func (b *bodyReader) decoded(bool) []byte {
	if b.done {
		return b.out
	}
	b.done = true
	b.out = b.raw
	for i := len(b.codings) - 1; i >= 0 && len(b.out) > 0; i-- {
		out := b.undo(b.codings[i], b.out)
		if len(out) == 0 {
			break // it does not have the declared coding
		}
		b.out = out
	}
	return b.out
}

func (b *bodyReader) undo(coding string, in []byte) []byte {
	read := func(r io.Reader) []byte {
		scratch := scratches.Get().(*bytes.Buffer)
		defer scratches.Put(scratch)
		scratch.Reset()
		_, _ = scratch.ReadFrom(io.LimitReader(r, int64(min(b.limit*20, len(in)*maxRatio)))) // keep the bytes before an error
		return slices.Clone(scratch.Bytes())
	}
	switch coding {
	case "gzip", "deflate":
		if out := inflate(in, read); len(out) > 0 {
			return out
		}
	case "br":
		return read(brotli.NewReader(bytes.NewReader(in)))
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(in), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
		if err != nil {
			return nil
		}
		defer z.Close()
		return read(z)
	}
	return nil
}

// Decoders are reused: a reader has tables and a window of 70 KiB.
var (
	scratches = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	gzips     = sync.Pool{New: func() any { return new(gzip.Reader) }}
)

// inflate decompresses gzip, zlib and bare deflate, whatever the field says.
func inflate(in []byte, read func(io.Reader) []byte) []byte {
	if len(in) > 2 && in[0] == 0x1f && in[1] == 0x8b {
		z := gzips.Get().(*gzip.Reader)
		defer gzips.Put(z)
		if err := z.Reset(bytes.NewReader(in)); err == nil {
			if out := read(z); len(out) > 0 {
				return out
			}
		}
		if n := gzipHead(in); n > 0 {
			return read(flate.NewReader(bytes.NewReader(in[n:])))
		}
	}
	if z, err := zlib.NewReader(bytes.NewReader(in)); err == nil {
		if out := read(z); len(out) > 0 {
			return out
		}
	}
	if out := read(flate.NewReader(bytes.NewReader(in))); len(out) > 0 {
		return out
	}
	if len(in) > 2 {
		return read(flate.NewReader(bytes.NewReader(in[2:])))
	}
	return nil
}

// gzipHead returns the length of a gzip header without verifying checksums.
func gzipHead(in []byte) int {
	if len(in) < 10 {
		return 0
	}
	n, flags := 10, in[3]
	if flags&4 != 0 {
		if len(in) < n+2 {
			return 0
		}
		n += 2 + int(in[n]) + int(in[n+1])<<8
	}
	for _, bit := range []byte{8, 16} {
		if flags&bit != 0 && n < len(in) {
			i := bytes.IndexByte(in[n:], 0)
			if i < 0 {
				return 0
			}
			n += i + 1
		}
	}
	if flags&2 != 0 {
		n += 2
	}
	if n > len(in) {
		return 0
	}
	return n
}
