package reading

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"shuultuur/content"
	"shuultuur/test/webpage"
)

// A Collector is a check that keeps all text.
type Collector struct {
	All    []byte
	closed int
}

func (c *Collector) Follow(*content.Body) content.Follower { c.All = append(c.All[:0], ' '); return c }

func (c *Collector) Close() { c.closed++ }

func (c *Collector) Read(text []byte, fresh int) {
	known := text[:fresh]
	if !bytes.HasSuffix(c.All, known) || len(known) < min(4<<10, len(c.All)) {
		panic(fmt.Sprintf("looked back at %q, after %q", known, c.All))
	}
	c.All = append(c.All, text[fresh:]...)
}

// In returns the text of p appended in pieces of sizes from r, and the text that Text
// returns at the end if nothing was forgotten.
func In(t *testing.T, h *content.Head, p []byte, lim content.Limits, r *rand.Rand) (text string, err error) {
	var b content.Body
	var c Collector
	b.Reset(h, lim)
	b.Follow(&c)
	for len(p) > 0 {
		n := 1 + r.IntN(min(len(p), 1+r.IntN(len(p))))
		piece := bytes.Clone(p[:n])
		b.Append(piece)
		p = p[n:]
		switch r.IntN(3) {
		case 0:
			_ = b.Read(context.Background())
		case 1:
			b.Forget()
			clear(piece)
		}
	}
	b.Finish()
	err = b.Read(context.Background())
	b.Release()
	if c.closed != 1 {
		t.Fatalf("the follower was closed %d times, want once", c.closed)
	}
	return string(c.All), err
}

// Gzip compresses s.
func Gzip(s string) string {
	var t testing.T
	return string(webpage.Encode(&t, "gzip", []byte(s)))
}

// CheckNormal fails unless s is normalised as Text guarantees.
func CheckNormal(t *testing.T, s string) {
	if s == "" || s[0] != ' ' || s[len(s)-1] != ' ' {
		t.Fatalf("the text lacks a blank at an end: %q", s)
	}
	if bytes.Contains([]byte(s), []byte("  ")) || !utf8.ValidString(s) {
		t.Fatalf("the text has two blanks in a row or is not UTF-8: %q", s)
	}
}

// InPieces returns the text of p read in pieces of a size.
func InPieces(t *testing.T, typ string, p []byte, piece int, lim content.Limits) string {
	var b content.Body
	var c Collector
	b.Reset(content.Describe(typ, ""), lim)
	defer b.Release()
	b.Follow(&c)
	for len(p) > 0 {
		n := min(piece, len(p))
		b.Append(bytes.Clone(p[:n]))
		b.Forget()
		p = p[n:]
	}
	b.Finish()
	if err := b.Read(t.Context()); err != nil {
		t.Error(err)
	}
	return string(c.All)
}

// Text returns the text of a complete body in one piece.
func Text(t *testing.T, contentType, body string) string {
	t.Helper()
	var b content.Body
	b.Reset(content.Describe(contentType, ""), content.Limits{})
	defer b.Release()
	b.Append([]byte(body))
	b.Finish()
	got, err := b.Text()
	if err != nil {
		t.Errorf("reading the text of %q: %v", body, err)
	}
	return string(got)
}
