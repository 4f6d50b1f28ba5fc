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
)

// A compressed page that is cut ends with the notice, in its own coding, and
// without an error of that.
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
		for _, coding := range []string{"gzip", "deflate"} {
			var wire bytes.Buffer
			var z interface {
				io.WriteCloser
				Flush() error
			} = gzip.NewWriter(&wire)
			if coding == "deflate" {
				z = zlib.NewWriter(&wire)
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
			var in io.Reader
			if in, err = gzip.NewReader(strings.NewReader(got)); coding == "deflate" {
				in, err = zlib.NewReader(strings.NewReader(got))
			}
			if err != nil {
				t.Fatal(err)
			}
			page, err := io.ReadAll(in)
			if text := string(page); err != nil || !strings.HasPrefix(text, "<p>good ") || !strings.Contains(text, "The rest of this page is blocked") || strings.Contains(text, "bad") || strings.Contains(text, "<script") {
				t.Errorf("%s: %d bytes, %v, end %q", coding, len(text), err, text[max(0, len(text)-200):])
			}
			x.End()
		}
	})
}
