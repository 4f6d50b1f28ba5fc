package state

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/lib/clock"
)

// TestAWrongClockForgetsNothing moves the wall clock for ten seconds, and for good. What expires only by
// the wrong time is there when it is right again; what is old is forgotten once the clock is believed.
func TestAWrongClockForgetsNothing(t *testing.T) {
	const day = 24 * time.Hour
	begin := time.Now()
	for _, step := range []time.Duration{-time.Hour, time.Hour, -day, day, -365 * day, 365 * day, time.Unix(0, 0).Sub(begin)} {
		for name, back := range map[string]bool{"for ten seconds": true, "for good": false} {
			t.Run(fmt.Sprintf("%v %s", step, name), func(t *testing.T) {
				m, err := New(Config{})
				if err != nil {
					t.Fatal(err)
				}
				var running, moved time.Duration
				file, _, _, err := openJournal(filepath.Join(t.TempDir(), "instructions"), m.log)
				if err != nil {
					t.Fatal(err)
				}
				s := m.Instructions
				s.file = file
				t.Cleanup(func() { s.close() })
				s.clock = clock.New(clock.Config{Wall: func() time.Time { return begin.Add(running + moved) }, Running: func() time.Duration { return running }})
				if err := s.Issue(
					Instruction{Topic: "pause", Key: "anna", Value: "open", Until: begin.Add(10 * day)},
					Instruction{Topic: "decision", Key: "chess.example", Value: "open"},
					Instruction{Topic: "decision", Key: "bet.example"}, // withdrawn
				); err != nil {
					t.Fatal(err)
				}
				m.counters.take(begin, []Count{{Key: [16]byte{1}, Add: 30, Window: 10 * day}})
				run := func(d time.Duration) {
					for end := running + d; running < end; running += min(time.Minute, end-running) {
						m.counters.sweep(s.certain())
						s.agree()
					}
				}
				has := func() string { return fmt.Sprintf("%d instructions, %d counters", len(s.all), m.counters.held.Load()) }
				const all = "3 instructions, 1 counters"
				run(2 * time.Hour)
				if got := has(); got != all {
					t.Fatalf("before the step: %s, want %s", got, all)
				}
				moved = step
				if back {
					run(10 * time.Second)
					moved = 0
				}
				run(20 * time.Minute)
				if got := has(); got != all {
					t.Errorf("after the step: %s, want %s", got, all)
				}
				// A clock that has run steadily for long enough is believed, whatever it shows, unless it shows a
				// time before the program was built.
				run(130 * day)
				want := "1 instructions, 0 counters"
				if moved <= -365*day {
					want = has()
				}
				if got := has(); got != want {
					t.Errorf("after 130 days: %s, want %s", got, want)
				}
			})
		}
	}
}

// TestANodeThatWasAwayWaitsForItsClock: a node whose clock says that it was away for a year neither withdraws
// what the others no longer have, nor shares it, before the clock is believed.
func TestANodeThatWasAwayWaitsForItsClock(t *testing.T) {
	begin := time.Now()
	var running, moved time.Duration
	m, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Instructions
	s.clock = clock.New(clock.Config{Wall: func() time.Time { return begin.Add(running + moved) }, Running: func() time.Duration { return running }})
	if err := s.Issue(Instruction{Topic: "decision", Key: "chess.example", Value: "open"}); err != nil {
		t.Fatal(err)
	}
	found := map[name]Instruction{{"pause", "otto"}: {Topic: "pause", Key: "otto", Value: "open", At: begin.UnixMilli(), Node: "b"}}
	running = time.Minute
	s.agree()
	state := func() string {
		s.compare(found, s.certain())
		all, _ := s.unshared(10)
		i := s.all[name{"decision", "chess.example"}]
		return fmt.Sprintf("value %q, shares %d", i.Value, len(all))
	}
	for _, step := range []struct {
		run, moved time.Duration
		want       string
	}{
		{0, 0, `value "open", shares 1`},
		{time.Minute, 365 * 24 * time.Hour, `value "open", shares 0`},
		{time.Minute, 0, `value "open", shares 1`},
		{time.Minute, 365 * 24 * time.Hour, `value "open", shares 0`},
		{25 * time.Hour, 365 * 24 * time.Hour, `value "", shares 1`}, // it really was away: the withdrawal is told
	} {
		for end := running + step.run; running < end; running += min(time.Minute, end-running) {
			moved = step.moved
			s.certain()
		}
		if got := state(); got != step.want {
			t.Errorf("moved by %v: %s, want %s", step.moved, got, step.want)
		}
	}
}

// TestUseIsKeptByAStartWithAWrongClock: the file that is written at its end has what was used, too.
func TestUseIsKeptByAStartWithAWrongClock(t *testing.T) {
	begin := time.Now()
	for _, step := range []time.Duration{-365 * 24 * time.Hour, -time.Hour, time.Hour, 365 * 24 * time.Hour, time.Unix(0, 0).Sub(begin)} {
		file := filepath.Join(t.TempDir(), "state")
		count := Count{Key: [16]byte{1}, Add: 30, Window: 24 * time.Hour}
		first := newMemory(1<<20, nil)
		first.file = file
		first.counters.take(begin, []Count{count})
		if err := first.save(); err != nil {
			t.Fatal(err)
		}
		wrong := newMemory(1<<20, nil)
		wrong.file = file
		if err := wrong.load(begin.Add(step)); err != nil {
			t.Fatal(err)
		}
		if err := wrong.save(); err != nil {
			t.Fatal(err)
		}
		right := newMemory(1<<20, nil)
		right.file = file
		if err := right.load(begin); err != nil {
			t.Fatal(err)
		}
		counts := []Count{count}
		counts[0].Add = 0
		if right.counters.take(begin, counts); counts[0].Sum < 30 {
			t.Errorf("a start with a clock that is %v off: %d of 30 are used", step, counts[0].Sum)
		}
	}
}

func TestAnInstructionOfANodeIn1970IsAsOldAsItsOrder(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name      string
		at, until time.Time
		want      bool
	}{
		{"in force", now, now.Add(time.Hour), false},
		{"over", now.Add(-time.Hour), now.Add(-time.Minute), false},
		{"over for long", now.Add(-2 * keepOver), now.Add(-keepOver - time.Hour), true},
		{"long and just over", now.Add(-2 * keepOver), now.Add(-time.Hour), false},
		{"of now, by a clock in 1970", now, time.Unix(0, 0).Add(time.Hour), false},
		{"of long ago, by a clock in 1970", now.Add(-keepOver - time.Hour), time.Unix(0, 0).Add(time.Hour), true},
	} {
		i := Instruction{Topic: "x", Key: "y", Value: "z", At: tt.at.UnixMilli(), Until: tt.until}
		if got := i.stale(now); got != tt.want {
			t.Errorf("%s: stale is %v, want %v", tt.name, got, tt.want)
		}
	}
}
