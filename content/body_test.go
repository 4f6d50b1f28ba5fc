package content_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
	"shuultuur/test/webpage"
)

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

func TestCodingsAreDecoded(t *testing.T) {
	page := webpage.SamplePage()
	var plain content.Body
	plain.Reset(content.Describe("text/html", ""), content.Limits{})
	plain.Append(page)
	plain.Finish()
	text, err := plain.Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range codings {
		wire := webpage.EncodeAll(t, c.how, page)
		for _, size := range []int{len(wire), 1000, 17} {
			for _, late := range []bool{false, true} {
				var b content.Body
				var read reading.Collector
				b.Reset(content.Describe("text/html", c.header), content.Limits{})
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
				if got := read.All; err != nil || !bytes.Equal(got, text) {
					t.Errorf("%q in %d bytes, late %v: text of %d bytes, error %v; want %d bytes", c.header, size, late, len(read.All), err, len(text))
				}
				got, err := b.Decoded()
				if err != nil || !bytes.Equal(got, page) {
					t.Errorf("%q in %d bytes, late %v: %d bytes decoded, error %v; want %d", c.header, size, late, len(got), err, len(page))
				}
				if b.Len() != int64(len(wire)) || b.Unread() != content.AllRead || !b.Complete() {
					t.Errorf("%q: Len is %d, Unread %v, Complete %v", c.header, b.Len(), b.Unread(), b.Complete())
				}
				b.Release()
			}
		}
	}
}

func TestATruncatedCodingGivesItsBeginning(t *testing.T) {
	page := webpage.SamplePage()
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		wire := webpage.Encode(t, coding, page)
		for _, done := range []bool{false, true} {
			var b content.Body
			b.Reset(content.Describe("text/html", coding), content.Limits{})
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
	page := webpage.SamplePage()
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		wire := webpage.Encode(t, coding, page)
		for i := range 20 {
			wire[len(wire)/2+i] ^= 0x55
		}
		if coding == "gzip" || coding == "deflate" { // a block of a type that does not exist
			wire = append(webpage.Encode(t, coding, nil)[:map[string]int{"gzip": 10, "deflate": 2}[coding]], 0x07, 0, 0, 0, 0, 0, 0, 0, 0)
		}
		var b content.Body
		b.Reset(content.Describe("text/html", coding), content.Limits{})
		b.Append(wire)
		b.Finish()
		got, err := b.Decoded()
		if err == nil {
			t.Errorf("%s damaged: Decoded returned %d bytes and no error", coding, len(got))
		}
		b.Release()
	}
}
