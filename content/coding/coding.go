// Package coding undoes the codings of a body: content codings, transfer codings, and escapes.
//
// A server appends what it receives to [Pieces]. A [Stream] is one pass over them: it pulls them
// through the decoders of a [List] of content codings, block by block, and suspends when it
// needs a piece that has not arrived. [Stream.Seal] ends a coding early with a text.
package coding

import (
	"bytes"

	"shuultuur/lib/ascii"
)

// MaxCodings is the number of nested codings that are decoded.
const MaxCodings = 10

// A Coding is a supported content coding.
type Coding uint8

const (
	None Coding = iota
	Gzip
	Deflate
	Brotli
	Zstd
)

func (c Coding) String() string { return [...]string{"identity", "gzip", "deflate", "br", "zstd"}[c] }

// A List has the content codings of a body, in the order of application.
type List struct {
	codings [MaxCodings + 1]Coding // supported ones, and one more than are decoded
	n       uint8
	foreign bool // there are unsupported ones, so that browsers decode none
}

// All returns the supported codings.
func (l *List) All() []Coding { return l.codings[:l.n] }

// Foreign reports whether there are unsupported codings, so that browsers decode none.
func (l *List) Foreign() bool { return l.foreign }

// Set makes c the only supported coding.
func (l *List) Set(c Coding) { l.codings[0], l.n = c, 1 }

// Deflated reports whether there is a single coding that [Stream.Seal] can end.
func (l *List) Deflated() bool {
	return !l.foreign && l.n == 1 && l.codings[0].deflated()
}

// DecodedByBrowsers reports whether there are only codings that every browser decodes.
func (l *List) DecodedByBrowsers() bool { return !l.foreign && l.n > 0 && l.n <= MaxCodings }

func (c Coding) deflated() bool { return c == Gzip || c == Deflate }

// Add reads a Content-Encoding field. Chromium decodes a list of codings only if it
// supports all of them, and otherwise leaves the body unchanged. Other browsers skip those that
// they do not support. So it records the supported ones, and whether there are others.
func (l *List) Add(v []byte) {
	for more := true; more; {
		var one []byte
		one, v, more = bytes.Cut(v, []byte(","))
		one = bytes.Trim(one, " \t")
		c := codingOf(one)
		if c == None {
			l.foreign = true
			// Its possible meanings: "gzip;q=1", "\"gzip\"".
			if end := bytes.IndexAny(one, "; \t("); end >= 0 {
				one = one[:end]
			}
			c = codingOf(bytes.Trim(one, "\"'"))
		}
		switch {
		case c == None:
		case int(l.n) < len(l.codings):
			l.codings[l.n] = c
			l.n++
		}
	}
}

// codingOf returns the coding called v, or codingNone if it is not supported.
func codingOf(v []byte) Coding {
	switch {
	case ascii.EqualLower(v, "gzip"), ascii.EqualLower(v, "x-gzip"):
		return Gzip
	case ascii.EqualLower(v, "deflate"):
		return Deflate
	case ascii.EqualLower(v, "br"):
		return Brotli
	case ascii.EqualLower(v, "zstd"):
		return Zstd
	}
	return None
}

// ByMagic returns the coding that the first bytes show.
func ByMagic(p []byte) Coding {
	switch {
	case bytes.HasPrefix(p, []byte("\x1F\x8B\x08")):
		return Gzip
	case bytes.HasPrefix(p, []byte("\x28\xB5\x2F\xFD")):
		return Zstd
	case len(p) > 2 && p[0]&0x0F == 8 && p[0]>>4 < 8 && p[1]&0x20 == 0 && (uint(p[0])<<8|uint(p[1]))%31 == 0:
		return Deflate
	}
	return None
}
