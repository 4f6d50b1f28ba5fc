// Package original decides requests by the rules of another program as that program interprets
// them. It shares only the reading of files with the conversion, so that it can find differences.
//
// Data moves as follows: a program's package reads its configuration into [Rules], which a [Source]
// asks for each request of a log in place of our own policies. Parts that a log cannot decide are
// collected as unknown.
package original

import (
	"context"
	"errors"
	"fmt"
	"io"

	"shuultuur/filter"
	"shuultuur/tool/importer/input"
)

// A Source has the other program's rules as that program interprets them. It shares only the
// reading of files with the conversion, so that it can find differences.
type Source struct {
	// Unknown has the parts that cannot be evaluated with the data in a log. They count as not
	// matching.
	Unknown []string

	Ctx   context.Context
	rules Rules
	more  int // number of Unknown beyond the first maxUnknown
}

// Rules decide as one program does.
type Rules interface {
	// decide returns the program's decision with the data known at a stage; false
	// if it decides at another stage.
	Decide(ctx context.Context, t *filter.Transaction, stage filter.Stage) (Decision, bool)
}

// A Decision is the result of a rule, or of the lack of one, for a request.
type Decision struct {
	Refuse bool
	By     string
}

// maxUnknown bounds the unknown names in a report.
const maxUnknown = 100

// Read reads rules at a path.
func Read(ctx context.Context, path string, read func(s *Source, path string) (Rules, error)) (s *Source, err error) {
	s = &Source{Ctx: ctx}
	if s.rules, err = read(s, path); err != nil {
		return nil, err
	}
	if s.more > 0 {
		s.Unknown = append(s.Unknown, fmt.Sprintf("%d more rules", s.more))
	}
	return s, nil
}

// Close releases the source of the rules.
func (s *Source) Close() error {
	if c, ok := s.rules.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Untested notes a part that counts as not matching.
func (s *Source) Untested(format string, args ...any) {
	if len(s.Unknown) == maxUnknown {
		s.more++
		return
	}
	s.Unknown = append(s.Unknown, fmt.Sprintf(format, args...))
}

// Wants implements [filter.Decider].
func (s *Source) Wants(*filter.Transaction, filter.Stage) bool { return false }

// Decide implements [filter.Decider].
func (s *Source) Decide(ctx context.Context, t *filter.Transaction, stage filter.Stage) {
	d, ok := s.rules.Decide(ctx, t, stage)
	if !ok {
		return
	}
	t.Verdict.Action = filter.Pass
	if d.Refuse {
		t.Verdict.Action = filter.Block
	}
	t.Verdict.Reason.Rule = d.By
}

// LinesOf calls take with the lines of a file, which may be long.
func (s *Source) LinesOf(path string, take func(n int, line string)) error {
	return errors.Join(s.Ctx.Err(), input.Lines(path, func(n int, b []byte) error { take(n, string(b)); return nil }))
}
