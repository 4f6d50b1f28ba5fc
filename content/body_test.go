package content

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/test/data"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// encode applies one content coding.
func encode(t testing.TB, coding string, p []byte) []byte {
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

// pages returns real pages.
func pages(t testing.TB) (names []string, bodies [][]byte) {
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

var codings = []struct{ header, how string }{
	{"", ""},
	{"identity", ""},
	{"gzip", "gzip"},
	{"x-gzip", "gzip"},
	{"GZIP", "gzip"},
	{"deflate", "deflate"},
	{"deflate", "raw"},
	{"br", "br"},
	{"zstd", "zstd"},
	{"gzip, br", "gzip br"},
	{"br, zstd , gzip", "br zstd gzip"},
}

func encodeAll(t testing.TB, how string, p []byte) []byte {
	for _, one := range strings.Fields(how) {
		p = encode(t, one, p)
	}
	return p
}

func samplePage() []byte {
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

func TestCodingsAreDecoded(t *testing.T) {
	page := samplePage()
	var plain Body
	plain.Reset(Describe("text/html", ""), Limits{})
	plain.Append(page)
	plain.Finish()
	text, err := plain.Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range codings {
		wire := encodeAll(t, c.how, page)
		for _, size := range []int{len(wire), 1000, 17} {
			for _, late := range []bool{false, true} {
				var b Body
				var read collector
				b.Reset(Describe("text/html", c.header), Limits{})
				b.Follow(&read)
				for rest := wire; len(rest) > 0; {
					n := min(size, len(rest))
					b.Append(rest[:n:n])
					rest = rest[n:]
					if late {
						if _, err := b.Text(); err != nil {
							t.Fatal(err)
						}
						if _, err := b.Decoded(); err != nil {
							t.Fatal(err)
						}
						b.Forget()
					}
				}
				b.Finish()
				err := b.Read(context.Background())
				if got := read.all; err != nil || !bytes.Equal(got, text) {
					t.Errorf("%q in %d bytes, late %v: text of %d bytes, error %v; want %d bytes", c.header, size, late, len(read.all), err, len(text))
				}
				got, err := b.Decoded()
				if err != nil || !bytes.Equal(got, page) {
					t.Errorf("%q in %d bytes, late %v: %d bytes decoded, error %v; want %d", c.header, size, late, len(got), err, len(page))
				}
				if b.Len() != int64(len(wire)) || b.Unread() != AllRead || !b.Complete() {
					t.Errorf("%q: Len is %d, Unread %v, Complete %v", c.header, b.Len(), b.Unread(), b.Complete())
				}
				b.Release()
			}
		}
	}
}

func TestATruncatedCodingGivesItsBeginning(t *testing.T) {
	page := samplePage()
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		wire := encode(t, coding, page)
		for _, done := range []bool{false, true} {
			var b Body
			b.Reset(Describe("text/html", coding), Limits{})
			b.Append(wire[:len(wire)*9/10])
			if done {
				b.Finish()
			}
			got, err := b.Text()
			if (err != nil) != done {
				t.Errorf("%s cut off, finished %v: Text returned the error %v", coding, done, err)
			}
			if done && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s cut off: error %v, want io.ErrUnexpectedEOF", coding, err)
			}
			if coding != "zstd" && len(got) < 10000 { // zstd decodes by blocks
				t.Errorf("%s cut off: Text returned only %d bytes", coding, len(got))
			}
			b.Release()
		}
	}
}

func TestBrokenCodingIsAnError(t *testing.T) {
	page := samplePage()
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		wire := encode(t, coding, page)
		for i := range 20 {
			wire[len(wire)/2+i] ^= 0x55
		}
		var b Body
		b.Reset(Describe("text/html", coding), Limits{})
		b.Append(wire)
		b.Finish()
		got, err := b.Decoded()
		if err == nil {
			t.Errorf("%s damaged: Decoded returned %d bytes and no error", coding, len(got))
		}
		b.Release()
	}
}
