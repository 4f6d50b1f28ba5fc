package state_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/lib/wait/waittest"
	"shuultuur/state"
	"shuultuur/test/redistest"
)

// stopping opens a store in a folder, runs it, and returns a function that ends it.
func stopping(t *testing.T, r *state.Redis, data string) (s state.Store, stop func()) {
	t.Helper()
	s, err := state.Open(state.Config{Redis: r}, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		<-done
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

func give(t *testing.T, s state.Store, key, value string) {
	t.Helper()
	if err := s.Issue(state.Instruction{Topic: "t", Key: key, Value: value}); err != nil {
		t.Fatal(err)
	}
}

func inForce(s state.Store) string {
	var all []string
	for _, i := range s.InForce("t") {
		all = append(all, i.Key+"="+i.Value)
	}
	return strings.Join(all, " ")
}

// followOnce waits until a store hands on instructions, and returns them.
func followOnce(t *testing.T, s state.Store) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var got []string
	s.Follow(ctx, func(_ context.Context, all []state.Instruction) error {
		for _, i := range all {
			got = append(got, i.Key+"="+i.Value)
		}
		stop()
		return nil
	})
	return strings.Join(got, " ")
}

func at(s *redistest.Server) state.Redis {
	return state.Redis{Config: redis.Config{Addresses: []string{s.Addr}}}
}

func TestInstructionsOutliveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := stopping(t, nil, dir)
	for i := range 3000 { // the file is rewritten meanwhile
		give(t, s, fmt.Sprint("k", i%10), fmt.Sprint(i))
	}
	give(t, s, "k0", "")
	want := inForce(s)
	stop()
	file := filepath.Join(dir, "instructions")
	b, err := os.ReadFile(file)
	if err != nil || strings.Count(string(b), "\n") > 2100 {
		t.Errorf("the file has %d lines for 10 instructions, %v; want at most 2100", strings.Count(string(b), "\n"), err)
	}
	// A crash has torn the last line, and one line is damaged.
	if err := os.WriteFile(file, append(b, `{"damaged":`+"\n"+`{"topic":"t","key":"k1","val`...), 0o600); err != nil {
		t.Fatal(err)
	}
	s, stop = stopping(t, nil, dir)
	if got := inForce(s); got != want {
		t.Errorf("after a restart %q, want %q", got, want)
	}
	give(t, s, "k0", "new") // the next instruction is on a line of its own
	want = inForce(s)
	stop()
	s, _ = stopping(t, nil, dir)
	if got := inForce(s); got != want || !strings.HasPrefix(got, "k0=new") {
		t.Errorf("after another restart %q, want %q", got, want)
	}
}

// A crash may cut off the last write at any byte. Earlier instructions stay, the next one is not
// appended to the torn line, and the damaged file is set aside, once.
func TestATornInstructionCostsNoOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := stopping(t, nil, dir)
	give(t, s, "a", "1")
	give(t, s, "b", "2")
	kept := inForce(s)
	give(t, s, "c", "3")
	all := inForce(s)
	stop()
	file := filepath.Join(dir, "instructions")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	last := len(b) - 1 - strings.LastIndexByte(strings.TrimSuffix(string(b), "\n"), '\n')
	for cut := range last {
		if err := os.WriteFile(file, b[:len(b)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s, stop := stopping(t, nil, dir)
		got, want := inForce(s), kept
		if cut == 0 {
			want = all
		}
		give(t, s, "d", "4")
		stop()
		s, stop = stopping(t, nil, dir)
		if again := inForce(s); got != want || !strings.HasPrefix(again, want) || !strings.Contains(again, "d=4") {
			t.Errorf("cut by %d bytes: in force %q, want %q; after the next %q", cut, got, want, again)
		}
		stop()
		if n := setAside(t, file); n != min(cut, 1) {
			t.Errorf("cut by %d bytes: %d copies are set aside", cut, n)
		}
	}
}

// setAside removes the copies of a file that were set aside, and returns their number.
func setAside(t *testing.T, file string) int {
	t.Helper()
	all, err := filepath.Glob(file + ".damaged-*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if err := os.Remove(f); err != nil {
			t.Error(err)
		}
	}
	return len(all)
}

// A file of instructions that was emptied is damaged: one that holds none of them is not empty.
func TestAnEmptiedFileOfInstructionsIsSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "instructions")
	for text, want := range map[string]int{"": 1, "\n": 0} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, stop := stopping(t, nil, dir)
			stop()
		}
		if n := setAside(t, file); n != want {
			t.Errorf("a file with %q: %d copies are set aside, want %d", text, n, want)
		}
	}
}

// An instruction that cannot be kept is refused, and there is a problem until one can be kept
// again.
func TestInstructionsThatCannotBeKeptAreAProblem(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, _ := stopping(t, nil, dir)
	problems := s.(interface{ Problems() []string }).Problems
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Issue(state.Instruction{Topic: "t", Key: "a", Value: "lost"}); err == nil || inForce(s) != "" {
		t.Errorf("giving an instruction that cannot be kept: %v, in force %q; want an error", err, inForce(s))
	}
	if p := problems(); len(p) != 1 || !strings.Contains(p[0], dir) {
		t.Errorf("problems %q, want one with the folder", p)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	give(t, s, "a", "kept")
	if p := problems(); p != nil {
		t.Errorf("problems %q after an instruction was kept, want none", p)
	}
}

func TestANodeThatWasAwayCatchesUp(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	redis, dir := at(r), t.TempDir()
	a := node(t, redis)
	b, stop := stopping(t, &redis, dir)
	give(t, a, "a", "1")
	give(t, a, "b", "1")
	waittest.Until(t, "b has both", func() bool { return inForce(b) == "a=1 b=1" })
	if got := followOnce(t, b); got != "a=1 b=1" {
		t.Errorf("b follows %q, want both", got)
	}
	stop()
	give(t, a, "b", "")
	give(t, a, "c", "2")
	b, _ = stopping(t, &redis, dir)
	waittest.Until(t, "b knows what has changed", func() bool { return inForce(b) == "a=1 c=2" })
	if got := followOnce(t, b); got != "b= c=2" {
		t.Errorf("b follows %q, want only what has changed", got)
	}
	// A field of a key that never existed here, and one that replaces instructions.
	late := node(t, redis)
	waittest.Until(t, "a new node knows all", func() bool { return inForce(late) == "a=1 c=2" })
}

func TestInstructionsGivenWithoutRedisAreShared(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	redis := at(r)
	a, b := node(t, redis), node(t, redis)
	give(t, a, "a", "1")
	waittest.Until(t, "b has it", func() bool { return inForce(b) == "a=1" })
	r.Stop()
	give(t, a, "a", "2")
	give(t, b, "b", "3")
	r.Restart(t) // and has forgotten everything
	waittest.Until(t, "both have all", func() bool { return inForce(a) == "a=2 b=3" && inForce(b) == "a=2 b=3" })
	waittest.Until(t, "Redis has each once", func() bool {
		n, err := r.Do(t, "HLEN", "shuultuur:instructions").Int()
		return n == 2 && err == nil
	})
}

func TestMissedMessagesAreNoticed(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	r.Do(t, "ACL", "SETUSER", "mute", "on", ">secret", "~*", "&*", "+@all", "-publish")
	redis := at(r)
	b := node(t, redis)
	r.Do(t, "HSET", "shuultuur:instructions", "t\x00a\x001700000000000\x00other", `{"topic":"t","key":"a","value":"1","at":1700000000000,"node":"other"}`)
	waittest.Until(t, "b has what nobody has published", func() bool { return inForce(b) == "a=1" })
	// Older, damaged and foreign fields are removed.
	r.Do(t, "HSET", "shuultuur:instructions", "t\x00a\x001600000000000\x00other", `{"topic":"t","key":"a","value":"0","at":1600000000000,"node":"other"}`, "garbage", "x")
	waittest.Until(t, "only the last word is kept", func() bool {
		n, err := r.Do(t, "HLEN", "shuultuur:instructions").Int()
		return n == 1 && err == nil
	})
	if got := inForce(b); got != "a=1" {
		t.Errorf("in force: %q, want a=1", got)
	}
	// One that replaces another does not change their number.
	r.Do(t, "HSET", "shuultuur:instructions", "t\x00a\x001800000000000\x00other", `{"topic":"t","key":"a","value":"2","at":1800000000000,"node":"other"}`)
	r.Do(t, "HDEL", "shuultuur:instructions", "t\x00a\x001700000000000\x00other")
	b.(*state.Fleet).CompareAll(t.Context())
	if got := inForce(b); got != "a=2" {
		t.Errorf("in force after a lost message: %q, want a=2", got)
	}
}

// TestErasedInstructionsStayErased: a node that was away brings back an instruction that another one
// has erased. So does a reading of Redis that began before the erasure.
func TestErasedInstructionsStayErased(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	redis, dirA, dirB := at(r), t.TempDir(), t.TempDir()
	a, stopA := stopping(t, &redis, dirA)
	b, stopB := stopping(t, &redis, dirB)
	give(t, a, "a", "secret")
	give(t, a, "b", "1")
	waittest.Until(t, "b has both", func() bool { return inForce(b) == "a=secret b=1" })
	fields, err := r.Do(t, "HGETALL", "shuultuur:instructions").Texts()
	if err != nil || len(fields) != 4 {
		t.Fatalf("instructions in Redis: got %q, %v, want two fields and their values", fields, err)
	}
	stopB()
	if n, err := a.Erase(func(i *state.Instruction) bool { return i.Key == "a" }, false); n != 1 || err != nil {
		t.Fatalf("erasing the instruction a: got %d, %v, want 1", n, err)
	}
	nowhere := func(what string, nodes ...state.Store) {
		t.Helper()
		waittest.Until(t, what+": only b is left", func() bool {
			for _, n := range nodes {
				if inForce(n) != "b=1" {
					return false
				}
			}
			kept, err := r.Do(t, "HGETALL", "shuultuur:instructions").Texts()
			return err == nil && len(kept) == 4 && !strings.Contains(strings.Join(kept, " "), "secret")
		})
	}
	nowhere("erased", a)
	r.Do(t, append([]string{"HSET", "shuultuur:instructions"}, fields...)...)
	nowhere("in Redis again", a)
	b, stopB = stopping(t, &redis, dirB)
	nowhere("brought back by a node that was away", a, b)
	stopA()
	a, stopA = stopping(t, &redis, dirA)
	r.Do(t, append([]string{"HSET", "shuultuur:instructions"}, fields...)...)
	nowhere("after a restart", a, b)
	give(t, b, "a", "2")
	waittest.Until(t, "it can be given again", func() bool { return inForce(a) == "a=2 b=1" && inForce(b) == "a=2 b=1" })
	stopA()
	stopB()
	for _, dir := range []string{dirA, dirB} {
		if text, err := os.ReadFile(filepath.Join(dir, "instructions")); err != nil || strings.Contains(string(text), "secret") {
			t.Errorf("the file still contains the erased instruction: %v, %s", err, text)
		}
	}
}

// TestAnErasureThatACrashCutShortIsCarriedOut: a node had recorded that another
// one erased an instruction, and still has it in its file.
func TestAnErasureThatACrashCutShortIsCarriedOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "instructions")
	s, stop := stopping(t, nil, dir)
	give(t, s, "a", "secret")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Erase(func(i *state.Instruction) bool { return i.Key == "a" }, false); err != nil {
		t.Fatal(err)
	}
	stop()
	noted, err := os.ReadFile(file)
	if err != nil || len(noted) == 0 || !strings.Contains(string(before), "secret") {
		t.Fatalf("the test's files: %q, then %q, %v", before, noted, err)
	}
	if err := os.WriteFile(file, append(before, noted...), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ = stopping(t, nil, dir)
	if got := inForce(s); got != "" {
		t.Errorf("in force after the erasure: %q, want none", got)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("the file still contains the erased instruction: %v, %s", err, text)
	}
}

// TestInstructionsErasedOnAnotherNodeAreWithdrawn, even when its withdrawal was erased before any node had
// received it.
func TestInstructionsErasedOnAnotherNodeAreWithdrawn(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	redis := at(r)
	a, b := node(t, redis), node(t, redis)
	give(t, a, "a", "1")
	if got := followOnce(t, b); got != "a=1" {
		t.Fatalf("b follows %q, want a=1", got)
	}
	give(t, a, "a", "")
	if _, err := a.Erase(func(i *state.Instruction) bool { return i.Key == "a" }, false); err != nil {
		t.Fatal(err)
	}
	if got := followOnce(t, b); got != "a=" {
		t.Errorf("b follows %q, want a withdrawn", got)
	}
}

func TestANodeThatWasAwayForMonthsBringsNothingBack(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	redis, dir := at(r), t.TempDir()
	file := filepath.Join(dir, "instructions")
	old := time.Now().Add(-100 * 24 * time.Hour)
	line := fmt.Sprintf(`{"topic":"t","key":"old","value":"1","at":%d,"node":"x","done":true}`+"\n", old.Add(-time.Hour).UnixMilli())
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	a := node(t, redis)
	give(t, a, "new", "2")
	b, _ := stopping(t, &redis, dir)
	waittest.Until(t, "both agree", func() bool { return inForce(a) == "new=2" && inForce(b) == "new=2" })
	if got := followOnce(t, b); !strings.Contains(got, "old=") {
		t.Errorf("b follows %q, want the old one withdrawn", got)
	}
}

func TestKeysOfAnotherTypeAreReplaced(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (state.Redis, func(words ...string)){
		"one server": func(t *testing.T) (state.Redis, func(words ...string)) {
			s := redistest.Start(t)
			return at(s), func(words ...string) { s.Do(t, words...) }
		},
		"a cluster": func(t *testing.T) (state.Redis, func(words ...string)) {
			all := redistest.StartCluster(t, 3)
			cfg := redis.Config{Addresses: []string{all[0].Addr}, Cluster: true}
			c, err := redis.Connect(t.Context(), cfg, redis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return state.Redis{Config: cfg}, func(words ...string) {
				var b redis.Batch
				b.Add(words...)
				if err := c.Do(t.Context(), &b); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 100
			cfg, do := start(t)
			counter := "shuultuur:c:" + fmt.Sprintf("%032x", 7)
			do("SADD", counter, "x")
			do("SET", "shuultuur:instructions", "x")
			do("SADD", "shuultuur:v:"+fmt.Sprintf("%032x", 8), "x")
			a, b := node(t, cfg), node(t, cfg)
			passed := 0
			for range most {
				for _, s := range []state.Store{a, b} {
					if !limited(s, 7, most) {
						passed++
					}
				}
			}
			if passed > most*11/10 {
				t.Errorf("a limit of %d lets %d through", most, passed)
			}
			give(t, a, "a", "1")
			waittest.Until(t, "an instruction arrives", func() bool { return inForce(b) == "a=1" })
			a.Put(t.Context(), key(8), []byte("v"), time.Hour)
			waittest.Until(t, "a verdict arrives", func() bool { v, ok := b.Get(t.Context(), key(8)); return ok && string(v) == "v" })
			if st := a.Stats(); st.Replaced+b.Stats().Replaced < 2 || st.Lost != "" {
				t.Errorf("%d and %d keys were replaced, want 2 in all; Redis is lost: %q", st.Replaced, b.Stats().Replaced, st.Lost)
			}
		})
	}
}
