package booth

import (
	"context"
	"testing"
	"time"

	"shuultuur/lib/clock"
	"shuultuur/lib/setting"
	"shuultuur/vote"
	"shuultuur/vote/storetest"
)

// TestAWrongClockDeletesNoVotes moves the wall clock by a year for a minute. Old votes are deleted when it is
// right.
func TestAWrongClockDeletesNoVotes(t *testing.T) {
	const day = 24 * time.Hour
	b, err := Open(t.Context(), Config{Keep: setting.Duration(30 * day)}, Parts{
		Data: t.TempDir(), Key: []byte("the key of all nodes"),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.log.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
		b.Close()
	})
	begin := time.Now()
	old, fresh := storetest.Vote(1), storetest.Vote(2)
	old.At, fresh.At = begin.Add(-29*day), begin
	if _, err := b.store.Count(t.Context(), []vote.Vote{old, fresh}); err != nil {
		t.Fatal(err)
	}
	var running, moved time.Duration
	b.clock = clock.New(clock.Config{Wall: func() time.Time { return begin.Add(running + moved) }, Running: func() time.Duration { return running }})
	minutes := 0
	run := func(d time.Duration) {
		for end := running + d; running < end; running += time.Minute {
			b.clean(t.Context(), minutes)
			minutes++
		}
	}
	total := func(want int64, when string) {
		t.Helper()
		if _, err := b.store.State(t.Context(), old.ID); (err == nil) != (want == 2) {
			t.Errorf("%s: the old vote: %v, want %d votes", when, err, want)
		}
		if _, err := b.store.State(t.Context(), fresh.ID); err != nil {
			t.Errorf("%s: the fresh vote: %v", when, err)
		}
	}
	run(2 * time.Hour)
	total(2, "at first")
	moved = 365 * day
	run(time.Hour)
	total(2, "a year ahead")
	if b.clock.Problem() == "" || len(b.Problems()) == 0 {
		t.Error("nothing is said about the clock")
	}
	moved = 0
	run(2 * day)
	total(1, "two days later")
}
