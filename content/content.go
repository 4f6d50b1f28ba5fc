// Package content knows what is in a body: decoding, charset, visible text;
// each worked out once, when a check first asks, and bounded.
//
// (Signatures agreed first; the bodies are to be written.)
package content

import "errors"

// Limits bound what one body may cost.
type Limits struct {
	Decoded int64 // most decoded bytes looked at; 0 means 16 MiB
	Text    int   // most bytes of text; 0 means 2 MiB
	Ratio   int   // decoded : wire above which a body is a bomb, once past 1 MiB; 0 means 200
}

// ErrBomb says that a body grows out of all proportion when decoded.
var ErrBomb = errors.New("decompression bomb")

// A Body is what a message carries, shown to the checks while the server
// holds it or lets it go by.
type Body struct{ _ int }

// Reset makes b ready for a body with these Content-Type and Content-Encoding
// values (either may be nil).
func (b *Body) Reset(contentType, contentEncoding []byte, lim Limits) { panic("to be written") }

// Append adds a piece of the body as it came over the wire (transfer coding
// undone, content coding not). The body refers to p until Forget or Release;
// it does not copy it.
func (b *Body) Append(p []byte) { panic("to be written") }

// Forget works out of the pieces appended so far whatever has been asked for
// before (text, decoded bytes) and drops its references to them, so that the
// server may use their storage again. A view first asked for after a Forget
// starts with the next piece.
func (b *Body) Forget() { panic("to be written") }

// Finish says that no more will come.
func (b *Body) Finish() { panic("to be written") }

// Complete says whether Finish has been called.
func (b *Body) Complete() bool { panic("to be written") }

// Len returns the wire bytes appended so far.
func (b *Body) Len() int64 { panic("to be written") }

// Cut says whether a limit was reached, so that later bytes were not looked at.
func (b *Body) Cut() bool { panic("to be written") }

// Type returns the media type, lower case, without parameters; when the
// header has none, what the first decoded bytes look like.
func (b *Body) Type() string { panic("to be written") }

// Decoded returns the body with its content coding undone, as far as it has
// come, at most Limits.Decoded bytes. Valid until the next Append or Release.
func (b *Body) Decoded() ([]byte, error) { panic("to be written") }

// Text returns the visible text, normalised for matching: UTF-8, folded,
// letters and digits only, single blanks between words and one at either end.
// Valid until the next Append or Release.
func (b *Body) Text() ([]byte, error) { panic("to be written") }

// Release gives pooled storage back and drops all references.
func (b *Body) Release() { panic("to be written") }
