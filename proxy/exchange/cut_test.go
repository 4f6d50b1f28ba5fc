package exchange

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
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
	bubble(t, func(t *testing.T) {
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

// bubble runs f in a bubble of synctest and empties the pools of decoders after it: those of zstd have
// channels, and a channel made in one bubble must not be used in another.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
	runtime.GC()
	runtime.GC() // a pool gives up what it holds at the second
}

// TestTheHeadOfASlowPageDoesNotWait: once patience is over, the head goes out however little has come,
// and the rest is judged as ever: it arrives whole, or ends with the notice and without what is bad.
func TestTheHeadOfASlowPageDoesNotWait(t *testing.T) {
	const patience = 300 * time.Millisecond
	bubble(t, func(t *testing.T) { // one, because decoders are used again
		for _, coding := range []string{"", "gzip", "deflate", "br", "zstd"} {
			for _, bad := range []bool{false, true} {
				var wire bytes.Buffer
				z := encoder(coding, &wire)
				var pieces []string
				last := "<p>the end"
				if bad {
					last = "<p>a bad end"
				}
				for _, p := range []string{"<p>good", "<p>a word", last} {
					_, _ = io.WriteString(z, p)
					_ = z.Flush()
					pieces = append(pieces, wire.String())
					wire.Reset()
				}
				_ = z.Close()
				pieces[2] += wire.String()
				x, _ := begin(t, Config{}, impatient("bad", patience))
				read(t, x, "GET http://x.test/ HTTP/1.1\r\nHost: x.test\r\n\r\n")
				s := slowResponse("text/html", slowly(200*time.Millisecond, pieces...))
				if coding != "" {
					s.Add("Content-Encoding", coding)
				}
				begun := time.Now()
				if pass, inspect := x.JudgeResponse(t.Context(), s); !pass || !inspect {
					t.Fatal("the body is not inspected")
				}
				if _, err := x.InspectResponse(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > patience {
					t.Errorf("coding %q: the head goes out after %v, patience is %v", coding, took, patience)
				}
				got, err := io.ReadAll(s.Body)
				if bad != (err == ErrCut) {
					t.Errorf("coding %q, bad %v: %v", coding, bad, err)
				}
				text, err := decoded(string(s.Get("Content-Encoding")), got)
				notice := strings.Contains(text, "The rest of this page is blocked")
				if err != nil || bad && (!notice || strings.Contains(text, "bad end")) || !bad && text != "<p>good<p>a word<p>the end" {
					t.Errorf("coding %q, bad %v: got %q, %v", coding, bad, text, err)
				}
				x.End()
			}
		}
	})
}

// An encoding writes in a coding.
type encoding interface {
	io.WriteCloser
	Flush() error
}

func encoder(coding string, to io.Writer) encoding {
	switch coding {
	case "gzip":
		return gzip.NewWriter(to)
	case "deflate":
		return zlib.NewWriter(to)
	case "br":
		return brotli.NewWriter(to)
	case "zstd":
		z, _ := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
		return z
	}
	return plain{to}
}

type plain struct{ io.Writer }

func (plain) Flush() error { return nil }
func (plain) Close() error { return nil }

func decoded(coding string, body []byte) (string, error) {
	var in io.Reader = bytes.NewReader(body)
	var err error
	switch coding {
	case "gzip":
		in, err = gzip.NewReader(in)
	case "deflate":
		in, err = zlib.NewReader(in)
	case "br":
		in = brotli.NewReader(in)
	case "zstd":
		in, err = zstd.NewReader(in)
	}
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(in)
	return string(text), err
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
