package pause

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/lib/problem"
	"shuultuur/policy"
	"shuultuur/state"
)

func keeper(t *testing.T, dir string) (*Keeper, state.Store) {
	t.Helper()
	s, err := state.Open(state.Config{}, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return New(s, slog.New(slog.DiscardHandler)), s
}

func pausedFor(k *Keeper) string {
	var all []string
	for _, p := range k.At(time.Now()) {
		all = append(all, p.Whom())
	}
	return strings.Join(all, " ")
}

func TestPausesBeginEndAndOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		k, s := keeper(t, dir)
		set := func(who string, length time.Duration) string {
			now := time.Now()
			message, err := k.Set(who, now.Add(length), now, "127.0.0.1")
			if err != nil {
				return err.Error()
			}
			return message
		}
		if message := set("kids", time.Hour); !strings.HasPrefix(message, "filtering is paused for kids until ") {
			t.Errorf("Set for kids: got message %q", message)
		}
		set("10.1.0.0/16", time.Minute)
		set("", 2*time.Hour)
		if got := pausedFor(k); got != "everybody 10.1.0.0/16 kids" {
			t.Errorf("paused for %q, want everybody, 10.1.0.0/16 and kids", got)
		}
		if message := set("anna", 0); message != `there is no pause for "anna"` {
			t.Errorf("resuming without a pause: got message %q", message)
		}
		time.Sleep(2 * time.Minute)
		k.end(time.Now())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		k, _ = keeper(t, dir)
		if got := pausedFor(k); got != "everybody kids" {
			t.Errorf("after a restart: paused for %q, want everybody and kids", got)
		}
		if message := set("", 0); message != "filtering resumes for everybody" || pausedFor(k) != "" {
			t.Errorf("resuming for everybody: got message %q, and paused for %q", message, pausedFor(k))
		}
		if message := set("", 0); message != "" {
			t.Errorf("resuming without any pause: got message %q, want none", message)
		}
	})
}

func TestPausesAreBounded(t *testing.T) {
	k, _ := keeper(t, "")
	now := time.Now()
	for i := range policy.MaxPauses + 1 {
		_, err := k.Set(fmt.Sprintf("10.1.%d.%d", i/256, i%256), now.Add(time.Hour), now, "")
		if want := i == policy.MaxPauses; (err != nil) != want {
			t.Fatalf("pause %d: got error %v", i, err)
		}
	}
	if _, err := k.Set("10.1.0.0", now.Add(2*time.Hour), now, ""); err != nil {
		t.Errorf("a pause that there is cannot be made longer: %v", err)
	}
}

// TestPausesUnderAWrongClock: a pause counts for as long as it was meant, whatever the clock shows in
// between, and one that seems to last for years does not count.
func TestPausesUnderAWrongClock(t *testing.T) {
	k, _ := keeper(t, t.TempDir())
	now := time.Now().Round(0) // the wall clock alone
	if _, err := k.Set("kids", now.Add(time.Hour), now, ""); err != nil {
		t.Fatal(err)
	}
	for _, step := range []time.Duration{time.Hour, 24 * time.Hour, 365 * 24 * time.Hour, -48 * time.Hour, -365 * 24 * time.Hour, time.Unix(0, 0).Sub(now)} {
		k.end(now.Add(step))
		if all := k.At(now.Add(step)); len(all) > 0 {
			t.Errorf("while the clock is wrong by %v, filtering is paused for %v", step, all)
		}
		k.end(now)
		if all := k.At(now); len(all) != 1 {
			t.Errorf("after the clock was wrong by %v, filtering is paused for %v, want kids", step, all)
		}
	}
	ahead := now.AddDate(10, 0, 0) // somebody pauses while the clock is wrong, and it comes back
	if _, err := k.Set("staff", ahead.Add(time.Hour), ahead, ""); err != nil {
		t.Fatal(err)
	}
	if all := k.At(now); len(all) != 1 || all[0].Who != "kids" {
		t.Errorf("filtering is paused for %v, want kids: the other pause would last for ten years", all)
	}
	if all := problem.Texts(k.Problems()); !strings.Contains(strings.Join(all, "\n"), "a pause for staff until") {
		t.Errorf("the problems are %q, want that the pause does not count", all)
	}
	if _, err := k.Set("staff", now, now, ""); err != nil {
		t.Errorf("a pause that does not count cannot be ended: %v", err)
	}
	if all := problem.Texts(k.Problems()); strings.Contains(strings.Join(all, "\n"), "staff") {
		t.Errorf("after its end the problems are %q", all)
	}
}
