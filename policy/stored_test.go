package policy

import (
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// A shelved is a body from a store.
type shelved struct {
	message.MemoryBody
	kept map[[16]byte][]byte
}

func (s *shelved) HasVerdicts() bool                      { return len(s.kept) > 0 }
func (s *shelved) Verdict(key [16]byte) ([]byte, bool)    { v, ok := s.kept[key]; return v, ok }
func (s *shelved) KeepVerdict(key [16]byte, value []byte) { s.kept[key] = value }

// A scanner looks for patterns that may change.
type scanner struct {
	*fake
	lasts   time.Duration
	limited bool
}

func (s scanner) Lifetime() (time.Duration, bool) { return s.lasts, s.limited }

// An observer looks at more than bodies.
type observer struct{ *fake }

func (observer) Contextual() {}

// A verdict on a stored body is kept beside it for as long as it stays the same: without a
// limit, unless a check asks others or examines more than the body.
func TestVerdictsAreKeptBesideStoredBodies(t *testing.T) {
	for name, c := range map[string]struct {
		check func(*fake) filter.Check
		kept  bool // at all
		after bool // still after two hours
	}{
		"a check that looks at the body":  {func(f *fake) filter.Check { return f }, true, true},
		"a scanner":                       {func(f *fake) filter.Check { return scanner{f, time.Hour, true} }, true, false},
		"a scanner that reads files only": {func(f *fake) filter.Check { return scanner{f, 0, false} }, true, true},
		"a scanner that is always asked":  {func(f *fake) filter.Check { return scanner{f, 0, true} }, false, false},
		"a check that looks at requests":  {func(f *fake) filter.Check { return observer{f} }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				f := phrases(10)
				f.asked = &asked
				e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{words}}}, Parts{Revision: "1"}, c.check(f))
				p := etag("1")
				p.from = &shelved{kept: map[[16]byte][]byte{}}
				again := func() bool {
					asked = nil
					p.judge(t, e)
					return len(asked) == 0
				}
				if again() {
					t.Fatal("the check did not examine the body")
				}
				if got := again(); got != c.kept {
					t.Errorf("the stored verdict was used: %v, want %v", got, c.kept)
				}
				time.Sleep(2 * time.Hour)
				if got := again(); got != c.after {
					t.Errorf("kept after two hours: %v, want %v", got, c.after)
				}
			})
		})
	}
}
