package jsonl

import (
	"context"

	"shuultuur/event"
)

// Erase removes the rows of a person, and rows whose notes name the person.
func (s *Store) Erase(ctx context.Context, p event.Person, dry bool) (int64, error) {
	return s.EraseLines(ctx, func(line []byte) bool {
		r, err := ParseLine(line)
		if err != nil {
			return p.In(string(line))
		}
		return p.Of(&r) || p.In(r.Note)
	}, dry)
}
