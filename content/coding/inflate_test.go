package coding

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	kflate "github.com/klauspost/compress/flate"

	"shuultuur/content/limit"
	"shuultuur/test/race"
	"shuultuur/test/webpage"
)

// parts is a source that returns parts of a given size.
type parts struct {
	p    []byte
	size int
}

func (s *parts) next() ([]byte, error) {
	if len(s.p) == 0 {
		return nil, io.EOF
	}
	n := min(len(s.p), s.size)
	p := s.p[:n]
	s.p = s.p[n:]
	return p, nil
}

// inflateAll decompresses bare deflate that arrives in parts of size bytes.
func inflateAll(d *inflater, p []byte, size int) ([]byte, error) {
	d.reset(&parts{p, size})
	var out []byte
	for {
		q, err := d.block()
		out = append(out, q...)
		if err == io.EOF {
			return out, nil
		}
		if err != nil || len(out) > 64<<20 {
			return out, err
		}
	}
}

// deflate compresses p at a level of compress/flate, with occasional flushes.
func deflate(t testing.TB, p []byte, level int, flush bool) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := flate.NewWriter(&buf, level)
	if err != nil {
		t.Fatal(err)
	}
	for len(p) > 0 {
		n := min(len(p), 50000)
		if _, err := w.Write(p[:n]); err != nil {
			t.Fatal(err)
		}
		if flush {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		p = p[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func inflateSamples() [][]byte {
	r := rand.New(rand.NewPCG(7, 8))
	noise := make([]byte, 200000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	skewed := make([]byte, 300000) // long codes: subtables
	for i := range skewed {
		skewed[i] = byte(min(255, int(r.ExpFloat64()*12)))
	}
	return [][]byte{
		nil, []byte("a"), []byte(strings.Repeat("ab", 40000)), make([]byte, 400000),
		webpage.SamplePage(), noise, skewed, append(bytes.Clone(noise[:33000]), noise[:33000]...),
	}
}

func TestInflate(t *testing.T) {
	d := &inflater{}
	for i, p := range inflateSamples() {
		for _, level := range []int{flate.HuffmanOnly, 0, 1, 6, 9} {
			for _, flush := range []bool{false, true} {
				packed := deflate(t, p, level, flush)
				for _, size := range []int{len(packed), 8192, 15} {
					got, err := inflateAll(d, packed, size)
					if err != nil || !bytes.Equal(got, p) {
						t.Errorf("sample %d level %d flush %v in parts of %d: %d bytes, %v; want %d", i, level, flush, size, len(got), err, len(p))
					}
				}
			}
		}
	}
}

func TestInflateRealPages(t *testing.T) {
	race.Without(t)
	names, bodies := webpage.Pages(t)
	d := &inflater{}
	for i, p := range bodies {
		for _, level := range []int{1, 6} {
			if got, err := inflateAll(d, deflate(t, p, level, false), 8192); err != nil || !bytes.Equal(got, p) {
				t.Errorf("%s, level %d: got %d bytes, %v; want %d", names[i], level, len(got), err, len(p))
			}
		}
	}
}

// againstFlate compares with compress/flate: both must accept or refuse, and their output must
// have a common beginning.
func againstFlate(t *testing.T, d *inflater, p []byte, size int) {
	t.Helper()
	got, err := inflateAll(d, p, size)
	r := flate.NewReader(io.MultiReader(bytes.NewReader(p), iotest.ErrReader(io.ErrUnexpectedEOF)))
	want, wantErr := io.ReadAll(io.LimitReader(r, 64<<20))
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("got %d bytes, %v; compress/flate %d bytes, %v", len(got), err, len(want), wantErr)
	}
	n := min(len(got), len(want))
	if !bytes.Equal(got[:n], want[:n]) || err == nil && len(got) != len(want) {
		t.Fatalf("%d bytes differ from the %d of compress/flate", len(got), len(want))
	}
	if errors.Is(wantErr, io.ErrUnexpectedEOF) && errors.Is(err, io.ErrUnexpectedEOF) && len(got) < len(want) {
		t.Fatalf("cut off: %d bytes, compress/flate gives %d: % x in parts of %d", len(got), len(want), p, size)
	}
}

func TestInflateOfBrokenInput(t *testing.T) {
	d := &inflater{}
	r := rand.New(rand.NewPCG(9, 10))
	for _, p := range inflateSamples() {
		p = p[:min(len(p), 5000)]
		for _, level := range []int{flate.HuffmanOnly, 0, 1, 6, 9} {
			packed := deflate(t, p, level, false)
			for range 40 {
				q := bytes.Clone(packed[:1+r.IntN(len(packed))])
				for range r.IntN(4) {
					q[r.IntN(len(q))] ^= 1 << r.IntN(8)
				}
				againstFlate(t, d, q, 1+r.IntN(len(q)))
			}
		}
	}
}

func FuzzInflate(f *testing.F) {
	for _, p := range inflateSamples() {
		p = p[:min(len(p), 600)]
		for _, level := range []int{flate.HuffmanOnly, 0, 6} {
			f.Add(deflate(f, p, level, true), 7)
		}
	}
	d := &inflater{}
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		againstFlate(t, d, p, 1+(size&0xFFFF))
	})
}

func TestGzipMembers(t *testing.T) {
	one, two := webpage.Encode(t, "gzip", []byte("one ")), webpage.Encode(t, "gzip", []byte("two"))
	for _, c := range []struct {
		name string
		in   []byte
		want string
		bad  bool
	}{
		{"two members", append(bytes.Clone(one), two...), "one two", false},
		{"rubbish after", append(bytes.Clone(one), "rubbish"...), "one ", false},
		{"one byte after", append(bytes.Clone(one), 0), "one ", false},
		{"no gzip", []byte("hello, world"), "", true},
		// Browsers show these.
		{"another checksum", append(bytes.Clone(one[:len(one)-8]), 0, 0, 0, 0, 4, 0, 0, 0), "one ", false},
		{"a second member behind another checksum", append(append(bytes.Clone(one[:len(one)-8]), 0, 0, 0, 0, 4, 0, 0, 0), two...), "one two", false},
		{"no trailer", one[:len(one)-8], "one ", false},
		{"half a trailer", one[:len(one)-3], "one ", false},
		{"cut in a block", one[:len(one)-9], "one ", true},
		{"all header fields", append([]byte("\x1f\x8b\x08\x1f\x00\x00\x00\x00\x00\x03\x02\x00xyname\x00comment\x00hc"), one[10:]...), "one ", false},
		{"nothing", nil, "", true},
	} {
		if got, why := Decode("gzip", c.in, 1<<20); string(got) != c.want || (why != limit.AllRead) != c.bad {
			t.Errorf("%s: the decoded bytes are %q, unread: %v; want %q, a reason: %v", c.name, got, why, c.want, c.bad)
		}
	}
}

func BenchmarkInflate(b *testing.B) {
	_, bodies := webpage.Pages(b)
	var size int64
	var packed [][]byte
	for _, p := range bodies {
		packed = append(packed, deflate(b, p, 6, false))
		size += int64(len(p))
	}
	b.Run("own", func(b *testing.B) {
		d := &inflater{}
		b.SetBytes(size)
		for b.Loop() {
			for _, p := range packed {
				d.reset(&parts{p, partSize})
				for {
					if _, err := d.block(); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	})
	b.Run("klauspost", func(b *testing.B) {
		r := kflate.NewReader(nil)
		in := bytes.NewReader(nil)
		buf := make([]byte, blockSize)
		b.SetBytes(size)
		for b.Loop() {
			for _, p := range packed {
				in.Reset(p)
				if err := r.(kflate.Resetter).Reset(in, nil); err != nil {
					b.Fatal(err)
				}
				for {
					if _, err := r.Read(buf); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	})
}
