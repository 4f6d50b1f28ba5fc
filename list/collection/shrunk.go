package collection

import (
	"fmt"

	"shuultuur/list"
)

// fewestCut is how many entries must be gone from the end of a file for it to look cut: people take out
// a few.
const fewestCut = 10

// shrunk returns why a list that was read from the same files as another before is damaged rather
// than changed: a file from which something was read has nothing, or less than half of it, and either
// more refused lines or nothing but its beginning.
func shrunk(r, before *list.Report) error {
	now := map[string]*list.Source{}
	left, had := 0, 0
	for i := range r.Sources {
		now[r.Sources[i].Path] = &r.Sources[i]
		left += r.Sources[i].Used
	}
	for i := range before.Sources {
		was := &before.Sources[i]
		had += was.Used
		switch is := now[was.Path]; {
		case is == nil || was.Used == 0:
		case is.Used == 0 && is.Lines == 0:
			return &shrunkError{fmt.Sprintf("%s is empty, and %d entries were read from it before", was.Path, was.Used)}
		case is.Used == 0:
			return &shrunkError{fmt.Sprintf("none of the %d lines of %s is an entry, and %d entries were read from it before", is.Lines, was.Path, was.Used)}
		case is.Used*2 < was.Used && is.Bad > was.Bad:
			return &shrunkError{fmt.Sprintf("%d of the %d lines of %s are refused; %d entries are left of %d", is.Bad, is.Lines, was.Path, is.Used, was.Used)}
		case is.Used*2 < was.Used && was.Used-is.Used >= fewestCut && is.Marks.Begins(was.Marks):
			return &shrunkError{fmt.Sprintf("%s is cut short: it is the beginning of what it was, with %d entries of %d", was.Path, is.Used, was.Used)}
		}
	}
	if had > 0 && left == 0 {
		return &shrunkError{fmt.Sprintf("there is nothing in it, and %d entries were read before", had)}
	}
	return nil
}

// A shrunkError reports a list whose content looks damaged beside what it was.
type shrunkError struct{ Why string }

func (e *shrunkError) Error() string { return e.Why }
