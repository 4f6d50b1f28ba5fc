package content_test

import (
	"bytes"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/webpage"
)

// TestRequestsWithCodingsThatTheyDoNotHave: such a body is read as it is by every view of it, in
// pieces of any length, and one that has its coding is decoded.
func TestRequestsWithCodingsThatTheyDoNotHave(t *testing.T) {
	form := []byte("text=" + strings.Repeat("poker+", 300) + "&end=casino")
	long := []byte(strings.Repeat("a plain sentence about poker. ", 20_000) + "casino")
	read := func(h *content.Head, wire []byte, size int, forget bool) (text, decoded, blocks, taken string, unread content.Reason) {
		var b content.Body
		defer b.Release()
		b.Reset(h, content.Limits{})
		taker := &bytesTaker{}
		owner := new(int)
		_, _ = b.FeedTaker(owner, func() content.Taker { return taker })
		_, _ = b.Text()
		for p := bytes.Clone(wire); len(p) > 0; p = p[min(len(p), size):] {
			b.Append(p[:min(len(p), size)])
			_, _ = b.Decoded()
			_, _ = b.FeedTaker(owner, nil)
			if forget {
				_, _ = b.Text()
				b.Forget()
			}
		}
		b.Finish()
		_, _ = b.FeedTaker(owner, nil)
		d, _ := b.Decoded()
		x, _ := b.Text()
		var all bytes.Buffer
		if !forget {
			for p := range b.Blocks() {
				all.Write(p)
			}
		}
		return string(x), string(d), all.String(), taker.String(), b.Unread()
	}
	for name, c := range map[string]struct {
		coding     string
		wire, want []byte
	}{
		"gzip, plain":            {"gzip", form, form},
		"br, plain":              {"br", form, form},
		"deflate, plain":         {"deflate", form, form},
		"zstd, plain":            {"zstd", form, form},
		"gzip, JSON":             {"gzip", []byte(`{"text":"casino"}`), []byte(`{"text":"casino"}`)},
		"br, JSON":               {"br", []byte(`{"text":"casino"}`), []byte(`{"text":"casino"}`)},
		"deflate, JSON":          {"deflate", []byte(`{"text":"casino"}`), []byte(`{"text":"casino"}`)},
		"gzip, short":            {"gzip", []byte("casino"), []byte("casino")},
		"br, short":              {"br", []byte("casino"), []byte("casino")},
		"gzip, behind its magic": {"gzip", []byte("\x1f\x8b\x08=1&text=a casino of poker and more"), []byte("\x1f\x8b\x08=1&text=a casino of poker and more")},
		"two, plain":             {"gzip, br", form, form},
		"gzip, long":             {"gzip", long, long},
		"br, long":               {"br", long, long},
		"gzip":                   {"gzip", webpage.Encode(t, "gzip", form), form},
		"br":                     {"br", webpage.Encode(t, "br", form), form},
		"deflate":                {"deflate", webpage.Encode(t, "deflate", form), form},
		"zstd":                   {"zstd", webpage.Encode(t, "zstd", form), form},
		"gzip of little":         {"gzip", webpage.Encode(t, "gzip", []byte("casino")), []byte("casino")},
		"br of little":           {"br", webpage.Encode(t, "br", []byte("casino")), []byte("casino")},
		"br of much":             {"br", webpage.Encode(t, "br", long), long},
		"two":                    {"gzip, br", webpage.EncodeAll(t, "gzip br", form), form},
	} {
		for _, size := range []int{len(c.wire), 1000, 7, 1} {
			if len(c.wire) > 10_000 && size < 1000 {
				continue
			}
			for _, forget := range []bool{false, true} {
				h := content.Describe("text/plain; charset=utf-8", c.coding)
				h.SetUse(content.Program)
				h.Claim()
				text, decoded, blocks, taken, unread := read(h, c.wire, size, forget)
				if !strings.Contains(text, "casino") || decoded != string(c.want) || taken != string(c.want) || !forget && blocks != string(c.want) || unread != content.AllRead {
					t.Errorf("%s in pieces of %d, forgotten %v: text %.60q, decoded %.60q, blocks %.60q, taken %.60q, unread %q", name, size, forget, text, decoded, blocks, taken, unread)
				}
			}
		}
	}
	h := content.Describe("text/plain", "gzip") // of a response
	if _, decoded, _, _, unread := read(h, form, len(form), false); decoded != "" || unread != content.UnknownCoding {
		t.Errorf("a response: decoded %.60q, unread %q; want nothing", decoded, unread)
	}
	h = content.Describe("text/plain", "gzip")
	h.Claim()
	cut := webpage.Encode(t, "gzip", long)
	if _, decoded, _, _, unread := read(h, cut[:len(cut)/2], 1000, false); !strings.HasPrefix(string(long), decoded) || len(decoded) == 0 || unread != content.Cut {
		t.Errorf("half of a body: decoded %.60q, unread %q; want its beginning, cut", decoded, unread)
	}
}

type bytesTaker struct{ bytes.Buffer }

func (b *bytesTaker) Take(p []byte) { b.Write(p) }
func (*bytesTaker) Close()          {}
