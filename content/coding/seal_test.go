package coding

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"shuultuur/content/limit"
	"shuultuur/test/webpage"
)

// sealed cuts wire at a position and seals it there; nil if that is impossible.
func sealed(t testing.TB, coding string, wire []byte, cut int, text string) []byte {
	in := Pieces{Limits: limit.Limits{}.WithDefaults()}
	var l List
	l.Add([]byte(coding))
	var s Stream
	s.Reset(&in, l.All())
	defer s.Close()
	for from := 0; from < cut; from += 1000 {
		in.Append(wire[from:min(from+1000, cut)])
		for {
			p, err := s.Pull()
			if err != nil {
				t.Fatal(err)
			}
			if p == nil {
				break
			}
		}
		s.Forget()
		in.Forget()
	}
	end := s.Seal([][]byte{wire[cut:]}, []byte(text))
	if end == nil {
		return nil
	}
	return append(bytes.Clone(wire[:cut]), end...)
}

// TestACutPageIsSealed: other decoders read a page that was cut anywhere, up to the words
// after it, and accept its checksum.
func TestACutPageIsSealed(t *testing.T) {
	const words = "<p>The rest of this page is blocked.</p>"
	r := rand.New(rand.NewPCG(1, 2))
	pages := [][]byte{webpage.SamplePage(), []byte(words + strings.Repeat(words, 500)), make([]byte, 90_000)}
	for i := range pages[2] {
		pages[2][i] = byte(r.IntN(256)) // is stored uncompressed
	}
	for n, page := range pages {
		for _, how := range []string{"gzip", "deflate", "raw", "flushed", "fixed"} {
			var wire []byte
			coding := "gzip"
			switch how {
			case "flushed":
				var buf bytes.Buffer
				z, _ := gzip.NewWriterLevel(&buf, 6)
				for p := page; len(p) > 0; p = p[min(len(p), 700):] {
					_, _ = z.Write(p[:min(len(p), 700)])
					_ = z.Flush()
				}
				_ = z.Close()
				wire = buf.Bytes()
			case "fixed":
				wire = webpage.Encode(t, "gzip", page[:500])
			case "gzip":
				wire = webpage.Encode(t, how, page)
			default:
				coding = "deflate"
				wire = webpage.Encode(t, how, page)
			}
			shown, tries := 0, 0
			for cut := 40; cut < len(wire)-8; cut += 1 + r.IntN(len(wire)/40+1) {
				tries++
				out := sealed(t, coding, wire, cut, words)
				if out == nil {
					continue
				}
				var in io.Reader
				var err error
				switch how {
				case "raw":
					in = flate.NewReader(bytes.NewReader(out))
				case "deflate":
					in, err = zlib.NewReader(bytes.NewReader(out))
				default:
					in, err = gzip.NewReader(bytes.NewReader(out))
				}
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(in)
				if err != nil {
					t.Fatalf("page %d, %s cut after %d of %d bytes: reading it: %v", n, how, cut, len(wire), err)
				}
				if bytes.HasSuffix(bytes.TrimRight(got, " "), []byte(words)) && len(got) > len(words) {
					shown++
				}
			}
			if shown == 0 || how != "fixed" && n < 2 && shown < tries*3/4 {
				t.Errorf("page %d, %s: the words at the end are shown in %d of %d cases", n, how, shown, tries)
			}
		}
	}
}

// A page in a coding that cannot be ended is not sealed.
func TestOtherCodingsAreNotSealed(t *testing.T) {
	for _, coding := range []string{"br", "zstd"} {
		wire := webpage.Encode(t, coding, webpage.SamplePage())
		if out := sealed(t, coding, wire, len(wire)/2, "x"); out != nil {
			t.Errorf("%s: Seal returned %d bytes, want none", coding, len(out))
		}
	}
}

func FuzzSeal(f *testing.F) {
	f.Add(webpage.Encode(f, "gzip", []byte("some words and some words")), uint16(20))
	f.Add(webpage.Encode(f, "gzip", bytes.Repeat([]byte("<p>"), 5000)), uint16(30))
	f.Fuzz(func(t *testing.T, wire []byte, cut uint16) {
		in := Pieces{Limits: limit.Limits{Decoded: 1 << 20}.WithDefaults()}
		var s Stream
		s.Reset(&in, []Coding{Gzip})
		defer s.Close()
		k := min(int(cut), len(wire))
		in.Append(wire[:k])
		for p, err := s.Pull(); p != nil && err == nil; p, err = s.Pull() {
			continue
		}
		end := s.Seal([][]byte{wire[k:]}, []byte("words"))
		if end == nil {
			return
		}
		z, err := gzip.NewReader(io.MultiReader(bytes.NewReader(wire[:k]), bytes.NewReader(end)))
		if err != nil {
			return // its header has a checksum that does not fit
		}
		z.Multistream(false)
		if _, err := io.Copy(io.Discard, z); err != nil {
			t.Fatal(err)
		}
	})
}
