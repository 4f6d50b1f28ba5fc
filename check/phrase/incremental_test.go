package phrase

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/test/race"
)

// coded encodes p with a content coding.
func coded(t *testing.T, coding string, p []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	default:
		return p
	}
	if _, err := w.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// scorePage returns a page with words of the list in random places of all kinds.
func scorePage(r *rand.Rand) []byte {
	var b bytes.Buffer
	places := []string{
		"<p>%s</p>", "%s ", "%s<b>", "<img alt='%s'>", "<a title=\"x %s\">", "<!-- %s -->", "<title>%s</title>", "<iframe srcdoc='<p>%s'></iframe>",
		"<script type=application/ld+json>{\"a\":\"%s\"}</script>", "<style>p::before{content:'%s'}</style>", "<noscript>%s</noscript>", "<li>%s", "&#%[2]d;%s",
		"<iframe src='data:text/html,%s'></iframe>", "<input value='%s'>", "<textarea>%s</textarea>", "<meta name=description content='%s'>", "<script>var a='%s'</script>",
	}
	words := []string{"sex", "toy", "sex toy", "school", "casino", "bonus", "medical", "café", "казино", "色情", "e\u0301te\u0301", "x&shy;y", "plain", "word", "nothing", strings.Repeat("filling ", 40)}
	for range 40 + r.IntN(60) {
		fmt.Fprintf(&b, places[r.IntN(len(places))], words[r.IntN(len(words))], 97+r.IntN(20))
	}
	return b.Bytes()
}

// TestIncrementalEqualsWhole: the findings do not depend on how a body is divided, or on what
// is forgotten meanwhile.
func TestIncrementalEqualsWhole(t *testing.T) {
	splits := 10000
	if race.On || testing.Short() {
		splits = 300
	}
	one := 1
	c := newCheck(t, testLists{
		weighted: "#listcategory: \"Toys\"\n<sex toy><10>\n<sex><3>\n<casino>,<bonus><20>\n#listcategory: \"Games\"\n<казино><7>\n<色情><5>\n<été><2>\n<xy><1>\n<filling filling><1>\n<school><-4>\n<medical><-2>\n<a><1>\n",
	}, Config{WeightedPhraseMode: &one, Full: true})
	for _, typ := range []string{"text/html; charset=utf-8", "text/html"} {
		for _, coding := range []string{"", "gzip", "deflate", "br", "zstd"} {
			t.Run(typ+" "+coding, func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(uint64(len(coding)), uint64(len(typ))))
				for n := splits / 2; n > 0; n -= 25 {
					page := scorePage(r)
					wire := coded(t, coding, page)
					whole := transaction(typ, coding, wire)
					want, err := c.Find(context.Background(), whole, filter.ResponseBody, nil)
					if err != nil {
						t.Fatal(err)
					}
					whole.Body.Release()
					for range 25 {
						if got := findIn(t, c, typ, coding, wire, r); !slices.Equal(got, want) {
							t.Fatalf("found in pieces\n%+v\nfound in the whole\n%+v\n%q", got, want, page)
						}
					}
				}
			})
		}
	}
}

// findIn is like Find for a body that arrives in pieces.
func findIn(t *testing.T, c *Check, typ, coding string, wire []byte, r *rand.Rand) []filter.Finding {
	t.Helper()
	tr := transaction(typ, coding, nil)
	b := tr.Body
	b.Reset(content.Describe(typ, coding), content.Limits{})
	defer b.Release()
	var found []filter.Finding
	most := 1 + r.IntN(len(wire))
	for first := true; ; first = false {
		n := min(len(wire), 1+r.IntN(most))
		piece := bytes.Clone(wire[:n])
		b.Append(piece)
		wire = wire[n:]
		if len(wire) == 0 {
			b.Finish()
		}
		if first || len(wire) == 0 || r.IntN(3) == 0 {
			var err error
			if found, err = c.Find(context.Background(), tr, filter.ResponseBody, nil); err != nil {
				t.Fatal(err)
			}
		}
		if len(wire) == 0 {
			return found
		}
		if r.IntN(2) == 0 {
			b.Forget()
			clear(piece)
		}
	}
}
