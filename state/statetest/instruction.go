package statetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/lib/wait/waittest"
	"shuultuur/state"
)

// give gives an instruction of the topic "t".
func give(t *testing.T, s Store, key, value string) {
	t.Helper()
	if err := s.Issue(state.Instruction{Topic: "t", Key: key, Value: value}); err != nil {
		t.Fatal(err)
	}
}

// inForce returns the instructions of the topic "t" as "key=value key=value".
func inForce(s Store) string {
	var all []string
	for _, i := range s.InForce("t") {
		all = append(all, i.Key+"="+i.Value)
	}
	return strings.Join(all, " ")
}

// A follower collects the instructions that Follow passes to it.
type follower struct {
	mu  sync.Mutex
	all []string
}

func (f *follower) got() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.all, " ")
}

// follow follows a store until the test ends. refuse is how many calls return an error first.
func follow(t *testing.T, s Store, refuse int) *follower {
	t.Helper()
	f := &follower{}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Follow(ctx, func(_ context.Context, all []state.Instruction) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if refuse--; refuse >= 0 {
				return errors.New("not now")
			}
			for _, i := range all {
				f.all = append(f.all, i.Key+"="+i.Value)
			}
			return nil
		})
	}()
	t.Cleanup(func() { stop(); <-done })
	return f
}

// instructing holds the tests of instructions to one store.
var instructing = map[string]func(t *testing.T, s Store){
	"an instruction that is erased is gone": func(t *testing.T, s Store) {
		give(t, s, "a", "1")
		give(t, s, "b", "2")
		give(t, s, "a", "")
		n, err := s.Erase(func(i *state.Instruction) bool { return i.Key == "a" }, false)
		if got := inForce(s); n != 1 || err != nil || got != "b=2" {
			t.Errorf("%d erased %v; in force: %q, want b=2", n, err, got)
		}
		give(t, s, "a", "3")
		if got := inForce(s); got != "a=3 b=2" {
			t.Errorf("given again: %q, want a=3 b=2", got)
		}
	},
	"an instruction is in force until it is replaced or withdrawn": func(t *testing.T, s Store) {
		give(t, s, "a", "1")
		give(t, s, "b", "2")
		give(t, s, "a", "3")
		if got := inForce(s); got != "a=3 b=2" {
			t.Errorf("in force: %q, want a=3 b=2", got)
		}
		give(t, s, "b", "")
		if got := inForce(s); got != "a=3" {
			t.Errorf("in force: %q, want a=3", got)
		}
		if got := s.InForce("other"); len(got) != 0 {
			t.Errorf("of another topic: %v", got)
		}
	},
	"an instruction ends in time": func(t *testing.T, s Store) {
		if err := s.Issue(state.Instruction{Topic: "t", Key: "a", Value: "1", Until: in(time.Second)}, state.Instruction{Topic: "t", Key: "b", Value: "2", By: "anna"}); err != nil {
			t.Fatal(err)
		}
		if got := inForce(s); got != "a=1 b=2" {
			t.Errorf("in force: %q, want both", got)
		}
		time.Sleep(1100 * time.Millisecond)
		if got := s.InForce("t"); len(got) != 1 || got[0].By != "anna" || got[0].Node == "" || got[0].At == 0 {
			t.Errorf("in force: %+v, want the second one, with who gave it, where and when", got)
		}
	},
	"an instruction that cannot be kept is refused": func(t *testing.T, s Store) {
		for _, i := range []state.Instruction{
			{Key: "a", Value: "1"},
			{Topic: "t", Key: "a\x00b", Value: "1"},
			{Topic: "t", Key: "a\nb", Value: "1"},
			{Topic: "t", Key: "a", Value: strings.Repeat("x", 9000)},
			{Topic: "t", Key: "a", Value: "\xff"},
		} {
			if err := s.Issue(state.Instruction{Topic: "t", Key: "fine", Value: "1"}, i); err == nil {
				t.Errorf("%.20q with %d bytes was taken", i.Key, len(i.Value))
			}
		}
		if got := inForce(s); got != "" {
			t.Errorf("in force: %.100q, want nothing: all or none", got)
		}
	},
	"what a store is given it need not follow": func(t *testing.T, s Store) {
		f := follow(t, s, 0)
		give(t, s, "a", "1")
		time.Sleep(100 * time.Millisecond)
		if got := f.got(); got != "" {
			t.Errorf("followed %q", got)
		}
	},
}

// instructed holds the tests of instructions that two stores share.
var instructed = map[string]func(t *testing.T, a, b Store){
	"an instruction to one reaches the other": func(t *testing.T, a, b Store) {
		f := follow(t, b, 0)
		give(t, a, "a", "1")
		waittest.Until(t, "the other has done it", func() bool { return f.got() == "a=1" && inForce(b) == "a=1" })
		give(t, a, "a", "")
		waittest.Until(t, "it is withdrawn there too", func() bool { return f.got() == "a=1 a=" && inForce(b) == "" })
	},
	"what cannot be done is tried again": func(t *testing.T, a, b Store) {
		f := follow(t, b, 1)
		give(t, a, "a", "1")
		waittest.Until(t, "the other has done it", func() bool { return f.got() == "a=1" })
	},
	"both agree, whoever was last": func(t *testing.T, a, b Store) {
		var work sync.WaitGroup
		for n, s := range []Store{a, b} {
			work.Go(func() {
				for i := range 20 {
					if err := s.Issue(state.Instruction{Topic: "t", Key: fmt.Sprint("k", i%4), Value: fmt.Sprint(n, "-", i)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		work.Wait()
		waittest.Until(t, "both say the same", func() bool { return inForce(a) == inForce(b) && strings.Count(inForce(a), "=") == 4 })
		// The next instruction of one node is later than that of the other.
		give(t, b, "k0", "last")
		waittest.Until(t, "both have the last word", func() bool {
			return strings.Contains(inForce(a), "k0=last") && strings.Contains(inForce(b), "k0=last")
		})
	},
	"many instructions at once all arrive": func(t *testing.T, a, b Store) {
		f := follow(t, b, 0)
		var many []state.Instruction
		var want []string
		for i := range 1200 {
			many = append(many, state.Instruction{Topic: "t", Key: fmt.Sprintf("%04d", i), Value: "x"})
			want = append(want, fmt.Sprintf("%04d=x", i))
		}
		if err := a.Issue(many...); err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, "all are done", func() bool {
			got := strings.Fields(f.got())
			slices.Sort(got)
			return slices.Equal(slices.Compact(got), want)
		})
	},
}
