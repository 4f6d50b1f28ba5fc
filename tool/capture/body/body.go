// Package body undoes the content codings of bodies as tolerantly as browsers do.
package body

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
	"github.com/ulikunitz/xz/lzma"
)

// maxRatio limits the expansion of a byte by a coding.
const maxRatio = 2048

// A Reader decodes the content codings of a body as tolerantly as browsers do.
type Reader struct {
	Codings []string
	Layers  int // number of codings to decode
	Limit   int
	raw     []byte
	out     []byte
	done    bool
}

// New parses a Content-Encoding with at most layers codings.
func New(coding string, layers, limit int) *Reader {
	b := &Reader{Limit: limit, Layers: layers}
	for c := range strings.SplitSeq(strings.ToLower(coding), ",") {
		c = strings.TrimSpace(c)
		switch {
		case c == "" || c == "identity" || c == "none" || c == "inflate":
		case strings.Contains(c, "gzip"):
			b.Codings = append(b.Codings, "gzip")
		case strings.Contains(c, "deflate"):
			b.Codings = append(b.Codings, "deflate")
		case c == "br" || c == "zstd":
			b.Codings = append(b.Codings, c)
		case strings.Contains(c, "lzma"):
			b.Codings = append(b.Codings, "lzma")
		}
	}
	if layers > 0 && len(b.Codings) > layers {
		b.Codings = b.Codings[len(b.Codings)-layers:]
	}
	return b
}

// Full reports whether all bytes that rules inspect have arrived.
func (b *Reader) Full() bool { return len(b.raw) >= b.Limit }

// Reserve makes room for n bytes, within the limit.
func (b *Reader) Reserve(n int64) { b.raw = make([]byte, 0, min(n, int64(b.Limit), maxAhead)) }

// maxAhead limits the memory that is reserved for a body in advance.
const maxAhead = 128 << 10

// Write appends bytes of the body, as far as rules inspect them.
func (b *Reader) Write(p []byte) {
	if room := b.Limit - len(b.raw); len(p) > room {
		p = p[:max(0, room)]
	}
	b.raw = append(b.raw, p...)
	b.done = false
}

// Decoded returns the decoded body as far as possible.
func (b *Reader) Decoded() []byte {
	if b.done {
		return b.out
	}
	b.done = true
	b.out = b.raw
	for i := len(b.Codings) - 1; i >= 0 && len(b.out) > 0; i-- {
		out := b.undo(b.Codings[i], b.out)
		if len(out) == 0 {
			break // it does not have the declared coding
		}
		b.out = out
	}
	return b.out
}

func (b *Reader) undo(coding string, in []byte) []byte {
	read := func(r io.Reader) []byte {
		scratch := scratches.Get().(*bytes.Buffer)
		defer scratches.Put(scratch)
		scratch.Reset()
		_, _ = scratch.ReadFrom(io.LimitReader(r, int64(min(b.Limit*20, len(in)*maxRatio)))) // keep the bytes before an error
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
	case "lzma":
		if z, err := (lzma.ReaderConfig{DictCap: maxDictionary}).NewReader(bytes.NewReader(in)); err == nil {
			return read(truncated{z})
		}
	}
	return nil
}

// truncated reads on after an error: LZMA then still has the bytes before it.
type truncated struct{ io.Reader }

func (r truncated) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n == 0 && err != nil && err != io.EOF {
		return r.Reader.Read(p)
	}
	return n, err
}

// maxDictionary limits the memory of LZMA.
const maxDictionary = 8 << 20

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
