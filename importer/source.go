package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"shuultuur/filter"
)

// A Source has the other program's rules as that program interprets them. It shares only the
// reading of files with the conversion, so that it can find differences.
type Source struct {
	// Unknown has the parts that cannot be evaluated with the data in a log. They count as not
	// matching.
	Unknown []string

	w     *work
	rules sourceRules
	more  int // number of Unknown beyond the first maxUnknown
}

// sourceRules decide as one program does.
type sourceRules interface {
	// decide returns the program's decision with the data known at a stage; false
	// if it decides at another stage.
	decide(ctx context.Context, t *filter.Transaction, stage filter.Stage) (decision, bool)
}

// A decision is the result of a rule, or of the lack of one, for a request.
type decision struct {
	refuse bool
	by     string
}

// maxUnknown bounds the unknown names in a report.
const maxUnknown = 100

// sources has the functions that read the rules of a program.
var sources = map[string]func(s *Source, path string) (sourceRules, error){
	Squid: newSquidSource, AdGuardHome: newAdGuardSource, Pihole: newPiholeSource, SquidGuard: newSquidGuardSource, Privoxy: newPrivoxySource,
	Unbound: newUnboundSource, Dnsmasq: newDnsmasqSource, Blocky: newBlockySource,
	Technitium: newTechnitiumSource, NextDNS: newNextDNSSource, OPNsense: newOPNsenseSource,
}

// NewSource reads the rules of a program at path. ok is false if the program is
// not supported.
func NewSource(ctx context.Context, program, path string) (s *Source, ok bool, err error) {
	make := sources[program]
	if make == nil {
		return nil, false, nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, true, err
	}
	s = &Source{w: &work{ctx: ctx, rep: &Report{}}}
	if s.rules, err = make(s, path); err != nil {
		return nil, true, fmt.Errorf("reading the rules of %s: %w", program, err)
	}
	if s.more > 0 {
		s.Unknown = append(s.Unknown, fmt.Sprintf("%d more rules", s.more))
	}
	return s, true, nil
}

// Close releases the source of the rules.
func (s *Source) Close() error {
	if c, ok := s.rules.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// noteUntested notes a part that counts as not matching.
func (s *Source) noteUntested(format string, args ...any) {
	if len(s.Unknown) == maxUnknown {
		s.more++
		return
	}
	s.Unknown = append(s.Unknown, fmt.Sprintf(format, args...))
}

// Wants implements [filter.Decider].
func (s *Source) Wants(*filter.Transaction, filter.Stage) bool { return false }

// Decide implements [filter.Decider].
func (s *Source) Decide(ctx context.Context, t *filter.Transaction, stage filter.Stage) filter.Verdict {
	d, ok := s.rules.decide(ctx, t, stage)
	if !ok {
		return t.Verdict
	}
	t.Verdict.Action = filter.Pass
	if d.refuse {
		t.Verdict.Action = filter.Block
	}
	t.Verdict.Reason.Rule = d.by
	return t.Verdict
}

// linesOf calls take with the lines of a file, which may be long.
func (s *Source) linesOf(path string, take func(n int, line string)) error {
	return errors.Join(s.w.ctx.Err(), textLines(path, func(n int, b []byte) error { take(n, string(b)); return nil }))
}

// firstParent calls is with a name and then with its parents, and returns the first for which it is
// true.
func firstParent(name string, is func(string) bool) string {
	for at := 0; ; {
		if is(name[at:]) {
			return cmp.Or(name[at:], ".")
		}
		dot := strings.IndexByte(name[at:], '.')
		if dot < 0 {
			return ""
		}
		at += dot + 1
	}
}
