package demo

import (
	"bytes"
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

var encode = flag.Bool("encode", false, "encode the pages of the demonstration anew")

// TestEncodedPagesOfTheDemonstration compares the pages that are stored encoded with their
// originals. After you change one, run: go test ./tool/demo -run Demonstration -encode
func TestEncodedPagesOfTheDemonstration(t *testing.T) {
	for _, s := range steps {
		if s.coding != "br" && s.coding != "zstd" {
			continue
		}
		page, err := site.ReadFile("site/" + s.page)
		if err != nil {
			t.Fatal(err)
		}
		name := "site/" + s.page + "." + s.coding
		if *encode {
			var b bytes.Buffer
			var c io.WriteCloser = brotli.NewWriter(&b)
			if s.coding == "zstd" {
				c, _ = zstd.NewWriter(&b) // it cannot fail without options
			}
			_, _ = c.Write(page) // into memory
			_ = c.Close()
			if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		stored, err := site.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var from io.Reader = brotli.NewReader(bytes.NewReader(stored))
		if strings.HasSuffix(name, "zstd") {
			if from, err = zstd.NewReader(bytes.NewReader(stored)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := io.ReadAll(from); err != nil || !bytes.Equal(got, page) {
			t.Errorf("%s is not %s encoded (%v): run this test with -encode", name, s.page, err)
		}
	}
}
