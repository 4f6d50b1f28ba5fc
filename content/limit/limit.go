// Package limit bounds what is read of a body: its size ([Limits]), the memory of its decoders
// ([Budget]) and the work that it causes ([Work]). A [Reason] says why a part was not read.
package limit

import "errors"

// Limits limit the work and memory for one body. The zero Limits are the defaults.
type Limits struct {
	Decoded int64  // decoded bytes that are inspected; 0 means 64 MiB
	Whole   int64  // bytes that Decoded and Text keep; 0 means 16 MiB and 2 MiB
	Ends    int64  // bytes of a document that is read from its end, as PDF; 0 means 16 MiB
	Ratio   int    // decoded : wire above which a body is a bomb, once past BombFloor; 0 means 1,000
	Scripts bool   // strings in scripts count as text
	Memory  Budget // for the windows of decoders that are suspended between pieces; nil means no limit
	Text    Budget // for text beyond 64 KiB; without room only its end is kept; nil means no limit
}

// WithDefaults returns l with what 0 stands for.
func (l Limits) WithDefaults() Limits {
	if l.Decoded <= 0 {
		l.Decoded = 64 << 20
	}
	if l.Ends <= 0 {
		l.Ends = DefaultEnds
	}
	if l.Ratio <= 0 {
		l.Ratio = 1000
	}
	return l
}

// A Budget is memory that several bodies share.
type Budget interface {
	// Acquire takes n bytes, or returns false and takes none. It does not wait.
	Acquire(n int64) bool
	// Release returns n taken bytes.
	Release(n int64)
}

// DefaultEnds is the default of Limits.Ends.
const DefaultEnds = 16 << 20

// BombFloor is the size of a decoded body below which no ratio is suspicious: a timetable of empty
// cells compresses as well as a bomb, and what is decoded is bounded anyway.
const BombFloor = 8 << 20

// ErrBomb reports a body that grows too much when decoded.
var ErrBomb = errors.New("decompression bomb")

// A Reason says why a part of a body was not inspected.
type Reason uint8

const (
	AllRead         Reason = iota
	TooLarge               // it has more bytes than are read; those before them were
	Intricate              // a limit of its structure was reached, such as documents within documents
	Bomb                   // it grows too much when decoded
	NoCapacity             // no memory is left for it
	UnknownCoding          // a content coding that cannot be decoded
	Encrypted              // a document with a password
	UnsupportedType        // a type that is not searched for text
	TookTooLong            // the limit of Bound was reached
	Cut                    // the body, or its coding, broke off
)

func (r Reason) String() string {
	return [...]string{"", "too large", "too intricate", "decompression bomb", "no capacity", "unknown coding", "encrypted", "unsupported type", "took too long", "cut"}[r]
}

// A Work ends the reading of a body, and of the bodies within it, when its server says so.
type Work struct {
	stop func() bool // nil for no limit
	left int         // work until stop is asked again
	over bool        // it said yes

	Expansion int // bytes of text left for references to entities
}

// MostExpansion is the number of bytes of text that references to entities may give.
const MostExpansion = 1 << 20

// AskedAfter is the work between two questions to stop: bytes read, or steps of about the same
// length.
const AskedAfter = 32 << 10

var ErrTookTooLong = errors.New("reading took too long")

// Spend counts work, and reports whether reading must end. Without a body nothing is bounded.
func (u *Work) Spend(work int) bool {
	if u == nil {
		return false
	}
	if u.left -= work; u.left <= 0 && u.stop != nil && !u.over {
		u.left = AskedAfter
		u.over = u.stop()
	}
	return u.over
}

// AskStop sets what says that reading must end; nil means nothing.
func (u *Work) AskStop(stop func() bool) { u.stop, u.left = stop, 0 }

// Over reports whether reading has ended.
func (u *Work) Over() bool { return u.over }
