package files

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// Limits of a list's sources. Exceeding one is an error.
const (
	maxUnpacked = 16 << 30 // bytes of a compressed source, unpacked
	// The largest ratio of unpacked to compressed size, and a size that is always permitted.
	// Real lists become four times as large, sorted ones ten times, a bomb of zeros a thousand
	// times.
	maxRatio      = 100
	leastUnpacked = 64 << 20
	MaxFiles      = 100_000 // of a tree
	maxDepth      = 6       // folders in folders
)

// Unpack returns the text of a file, which may be compressed, as detected from its beginning.
func Unpack(f *os.File) (io.Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	br := bufio.NewReaderSize(f, 64<<10)
	mark, _ := br.Peek(4)
	var r io.Reader
	switch {
	case bytes.HasPrefix(mark, []byte("\x1f\x8b")):
		r, err = gzip.NewReader(br)
	case string(mark) == "\x28\xb5\x2f\xfd":
		// Use one goroutine, and permit the window that a list may need.
		var zr *zstd.Decoder
		if zr, err = zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(128<<20), zstd.WithDecoderLowmem(true)); err == nil {
			r = zr.IOReadCloser()
		}
	default:
		return br, nil
	}
	if err != nil {
		return nil, err
	}
	most := MostUnpacked(info.Size())
	return &limitedReader{r: r, left: most, most: most}, nil
}

// MostUnpacked bounds the unpacked size of a compressed file of a size.
func MostUnpacked(size int64) int64 {
	return min(maxUnpacked, maxRatio*size+leastUnpacked)
}

// IsTar looks for the magic of a POSIX or GNU archive.
func IsTar(head []byte) bool {
	return len(head) >= 262 && string(head[257:262]) == "ustar"
}

// A limitedReader fails when there is too much to read.
type limitedReader struct {
	r    io.Reader
	left int64
	most int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("more than %d bytes when unpacked: too many for its size", l.most)
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
