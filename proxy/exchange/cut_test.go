package exchange

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// A compressed page that is cut ends with the notice, in its own coding or uncompressed, and
// without a decoding error.
func TestACompressedPageThatIsCutEndsWithANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		good := func() string {
			var b strings.Builder
			for range 3000 {
				fmt.Fprintf(&b, "<p>good %d", r.Uint32())
			}
			return b.String()
		}
		for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
			var wire bytes.Buffer
			var z interface {
				io.WriteCloser
				Flush() error
			} = gzip.NewWriter(&wire)
			switch coding {
			case "deflate":
				z = zlib.NewWriter(&wire)
			case "br":
				z = brotli.NewWriter(&wire)
			case "zstd":
				z, _ = zstd.NewWriter(&wire, zstd.WithEncoderConcurrency(1))
			}
			var pieces []string
			for _, p := range []string{good(), good(), "a bad one", good()} {
				_, _ = io.WriteString(z, p)
				_ = z.Flush()
				pieces = append(pieces, wire.String())
				wire.Reset()
			}
			x, _ := begin(t, Config{}, impatient("bad", 300*time.Millisecond))
			read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
			s := slowResponse("text/html", slowly(time.Second, pieces...))
			s.Add("Content-Encoding", coding)
			_, got, err := inspect(t, x, s)
			if err != ErrCut {
				t.Errorf("%s: %v", coding, err)
			}
			var in io.Reader = strings.NewReader(got)
			switch string(s.Get("Content-Encoding")) {
			case "gzip":
				in, err = gzip.NewReader(in)
			case "deflate":
				in, err = zlib.NewReader(in)
			default:
				err = nil
			}
			if err != nil {
				t.Fatal(err)
			}
			page, err := io.ReadAll(in)
			if text := string(page); err != nil || !strings.HasPrefix(text, "<p>good ") || !strings.Contains(text, "The rest of this page is blocked") || strings.Contains(text, "bad") || strings.Contains(text, "<script") {
				t.Errorf("coding %s: got %d bytes, error %v, end %q; want the notice and no more", coding, len(text), err, text[max(0, len(text)-200):])
			}
			x.End()
		}
	})
}

// A page in a coding that cannot be ended is forwarded without the coding, whole, and judged to
// its end.
func TestASlowPageInAnyCodingPassesWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page strings.Builder
		r := rand.New(rand.NewPCG(3, 4))
		for range 60_000 {
			fmt.Fprintf(&page, "<p>good %d", r.Uint32())
		}
		for _, coding := range []string{"br", "zstd"} {
			var wire bytes.Buffer
			var z io.WriteCloser = brotli.NewWriter(&wire)
			if coding == "zstd" {
				z, _ = zstd.NewWriter(&wire, zstd.WithEncoderConcurrency(1))
			}
			_, _ = io.WriteString(z, page.String())
			_ = z.Close()
			var pieces []string
			for p := wire.Bytes(); len(p) > 0; p = p[min(len(p), 20_000):] {
				pieces = append(pieces, string(p[:min(len(p), 20_000)]))
			}
			x, _ := begin(t, Config{}, impatient("bad", 300*time.Millisecond))
			read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
			s := slowResponse("text/html", slowly(100*time.Millisecond, pieces...))
			s.Add("Content-Encoding", coding)
			s.Add("ETag", `"a"`)
			first, got, err := inspect(t, x, s)
			if err != nil || got != page.String() || first > 600*time.Millisecond || s.Get("Content-Encoding") != nil || string(s.Get("ETag")) != `W/"a"` || !s.Body.AtEnd() || x.T.Length != int64(wire.Len()) {
				t.Errorf("coding %s: got %d of %d bytes, error %v, the first after %v, fields %q", coding, len(got), page.Len(), err, first, s.Fields)
			}
			x.End()
		}
	})
}

// If there is less room than a tail needs, half of the room is held back, so that neither the
// part that changes the verdict passes, nor the part that led to it.
func TestATailIsKeptBackInLittleRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := begin(t, Config{Held: 4 << 10}, impatient("bad", 300*time.Millisecond))
		read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
		good := strings.Repeat("good ", 819) + "b" // 4 KiB
		_, got, err := inspect(t, x, slowResponse("text/plain", slowly(50*time.Millisecond, good, "ad", " and more")))
		if err != ErrCut || !strings.HasPrefix(good, got) || len(got) > 3<<10 {
			t.Errorf("got %d bytes, error %v; want at most 3 KiB and ErrCut", len(got), err)
		}
		x.End()
	})
}

// A program that streams its request gets the head of the response before it sends the first
// byte.
func TestTheHeadOfAStreamOfUnknownBytesDoesNotWaitForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := begin(t, Config{}, impatient("bad", 300*time.Millisecond))
		read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\nSec-Fetch-Dest: empty\r\n\r\n")
		body := strings.Repeat("\x00\x01\x02", 2000)
		first, got, err := inspect(t, x, slowResponse("application/octet-stream", slowly(5*time.Second, body, body)))
		if err != nil || got != body+body || first > 400*time.Millisecond {
			t.Errorf("got %d of %d bytes, the first after %v, error %v", len(got), 2*len(body), first, err)
		}
		x.End()
	})
}
