package report

import (
	"slices"
	"strings"
)

// A Row says what becomes of options of the other program. C is what the importer has read so
// far, and V a value in the form in which it reads them.
type Row[C, V any] struct {
	Keys     string                   // the options, separated by spaces
	Standard []string                 // values that the other program has anyway
	Take     func(c C, value V) *Note // converts other values
	Note     *Note                    // on other values, without Take
}

// Convert returns a note on a value, which is text in the settings, or nil if the row has
// none on it. Where a table has no row, the row is nil and has none either.
func (r *Row[C, V]) Convert(c C, value V, text string) *Note {
	switch {
	case r == nil:
		return nil
	case slices.Contains(r.Standard, text):
		return &Note{Kind: Default}
	case r.Take != nil:
		return r.Take(c, value)
	case r.Note == nil:
		return nil
	}
	own := *r.Note // its place is added to it
	return &own
}

// A Table has the rows of a program by option.
type Table[C, V any] map[string]*Row[C, V]

// Rows returns a table of rows.
func Rows[C, V any](all ...Row[C, V]) Table[C, V] {
	t := Table[C, V]{}
	for _, r := range all {
		for key := range strings.FieldsSeq(r.Keys) {
			t[key] = &r
		}
	}
	return t
}

// Needless is the note on an option that needs no counterpart, and why.
func Needless(why string) *Note { return &Note{Kind: Default, Why: why} }
