// Package webpage has bodies for tests: real pages and made-up ones, in each coding.
package webpage

import (
	"bytes"
	"compress/zlib"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"shuultuur/test/data"
)

// Encode applies one content coding.
func Encode(t testing.TB, coding string, p []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	var w io.WriteCloser
	var err error
	switch coding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&buf)
	case "deflate":
		w = zlib.NewWriter(&buf)
	case "raw":
		w, err = flate.NewWriter(&buf, 6)
	case "br":
		w = brotli.NewWriterLevel(&buf, 5)
	case "zstd":
		w, err = zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1))
	default:
		return p
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Pages returns real pages.
func Pages(t testing.TB) (names []string, bodies [][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data.Path(t, "pages"), "*.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		p, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.Base(f))
		bodies = append(bodies, p)
	}
	if len(bodies) == 0 {
		t.Skip("the test data has no pages")
	}
	return names, bodies
}

func EncodeAll(t testing.TB, how string, p []byte) []byte {
	for _, one := range strings.Fields(how) {
		p = Encode(t, one, p)
	}
	return p
}

func SamplePage() []byte {
	var buf bytes.Buffer
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		buf.WriteString("<p class=x>word ")
		for range r.IntN(12) {
			buf.WriteByte(byte('a' + r.IntN(26)))
		}
	}
	return buf.Bytes()
}
