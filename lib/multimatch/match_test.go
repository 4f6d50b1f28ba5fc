package multimatch

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// automaton is a plain Aho-Corasick automaton, which gives the expected result.
type automaton struct {
	next []map[byte]int
	fail []int
	out  [][]uint32
}

func newAutomaton(patterns [][]byte) *automaton {
	a := &automaton{next: []map[byte]int{{}}, fail: []int{0}, out: [][]uint32{nil}}
	for id, p := range patterns {
		n := 0
		for _, c := range p {
			to, ok := a.next[n][c]
			if !ok {
				to = len(a.next)
				a.next = append(a.next, map[byte]int{})
				a.fail, a.out = append(a.fail, 0), append(a.out, nil)
				a.next[n][c] = to
			}
			n = to
		}
		a.out[n] = append(a.out[n], uint32(id))
	}
	queue := []int{}
	for _, n := range a.next[0] {
		queue = append(queue, n)
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for c, to := range a.next[n] {
			queue = append(queue, to)
			f := a.fail[n]
			for f != 0 {
				if _, ok := a.next[f][c]; ok {
					break
				}
				f = a.fail[f]
			}
			if g, ok := a.next[f][c]; ok && g != to {
				a.fail[to] = g
			}
			a.out[to] = append(a.out[to], a.out[a.fail[to]]...)
		}
	}
	return a
}

func (a *automaton) count(n int, text []byte) []uint32 {
	got := make([]uint32, n)
	at := 0
	for _, c := range text {
		for {
			if to, ok := a.next[at][c]; ok {
				at = to
				break
			}
			if at == 0 {
				break
			}
			at = a.fail[at]
		}
		for _, id := range a.out[at] {
			got[id]++
		}
	}
	return got
}

func unique(patterns [][]byte) [][]byte {
	seen := map[string]bool{"": true}
	var u [][]byte
	for _, p := range patterns {
		if !seen[string(p)] && len(p) <= MaxLen {
			seen[string(p)] = true
			u = append(u, p)
		}
	}
	return u
}

func equal(got, want []uint32) error {
	for id := range want {
		if got[id] != want[id] {
			return fmt.Errorf("pattern %d found %d times, want %d", id, got[id], want[id])
		}
	}
	return nil
}

// agree compares every way to scan text, divided at cuts, with the automaton.
func agree(patterns [][]byte, text []byte, cuts []int) error {
	s, err := New(patterns, nil)
	if err != nil {
		return err
	}
	want := newAutomaton(patterns).count(len(patterns), text)
	h := s.NewHits(0)
	s.Scan(h, text, 0)
	if err := equal(h.N, want); err != nil {
		return fmt.Errorf("whole: %w", err)
	}
	h.Reset()
	at := 0
	for _, c := range append(cuts, len(text)) {
		c = max(at, min(c, len(text)))
		s.Feed(h, text[at:c])
		at = c
	}
	if err := equal(h.N, want); err != nil {
		return fmt.Errorf("fed in pieces: %w", err)
	}
	h.Reset()
	at = 0
	for _, c := range append(cuts, len(text)) {
		c = max(at, min(c, len(text)))
		lo := max(0, at-s.MaxLen()+1)
		s.Scan(h, text[lo:c], at-lo)
		at = c
	}
	if err := equal(h.N, want); err != nil {
		return fmt.Errorf("in steps: %w", err)
	}
	h.Reset()
	h.Once = true
	s.Feed(h, text)
	for id := range want {
		if (want[id] > 0) != (h.N[id] > 0) {
			return fmt.Errorf("once: pattern %d found %d times, want %d", id, h.N[id], want[id])
		}
	}
	for _, id := range h.Seen {
		if h.N[id] == 0 {
			return fmt.Errorf("pattern %d seen and not counted", id)
		}
	}
	return nil
}

func TestAgreesWithAhoCorasick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]string{"ab", "ab ", "sex toy", "abcdefghijklmnopqrstuvwxyz 0", "a\x00\xff"}).Draw(t, "letters")
		word := rapid.SliceOfN(rapid.SampledFrom([]byte(letters)), 1, 24)
		patterns := unique(rapid.SliceOfN(word, 1, 40).Draw(t, "patterns"))
		piece := rapid.OneOf(word, rapid.SampledFrom(patterns))
		text := bytes.Join(rapid.SliceOfN(piece, 0, 60).Draw(t, "text"), nil)
		cuts := rapid.SliceOfN(rapid.IntRange(0, 200), 0, 12).Draw(t, "cuts")
		at := 0
		for i := range cuts {
			at += cuts[i] % 17
			cuts[i] = at
		}
		if err := agree(patterns, text, cuts); err != nil {
			t.Fatalf("%v\npatterns %q\ntext %q\ncuts %v", err, patterns, text, cuts)
		}
	})
}

func FuzzMatch(f *testing.F) {
	f.Add([]byte("sex\nsex toy\ntoy\na\nab\n s \nbreast cancer"), []byte("a sex toy is no breast cancer breast cancer ab s "), uint16(7))
	f.Add([]byte("aaaaaaa\naaaaaaaa\naaa\naa\na\naaaa\naaaaaa"), bytes.Repeat([]byte("a"), 40), uint16(3))
	f.Fuzz(func(t *testing.T, list, text []byte, step uint16) {
		patterns := unique(bytes.Split(list, []byte("\n")))
		if len(patterns) == 0 || len(patterns) > 300 || len(text) > 1<<14 || len(list) > 1<<14 {
			return
		}
		var cuts []int
		for at := int(step)%61 + 1; at < len(text); at += int(step)%61 + 1 {
			cuts = append(cuts, at)
		}
		if err := agree(patterns, text, cuts); err != nil {
			t.Fatalf("%v\npatterns %q\ntext %q", err, patterns, text)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name     string
		patterns [][]byte
	}{
		{"empty pattern", [][]byte{{}}},
		{"same pattern twice", [][]byte{[]byte("a"), []byte("a")}},
		{"pattern too long", [][]byte{make([]byte, MaxLen+1)}},
	} {
		if _, err := New(c.patterns, nil); err == nil {
			t.Errorf("New with %s returned no error", c.name)
		}
	}
}

func TestEmptySetFindsNothing(t *testing.T) {
	s, err := New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := s.NewHits(0)
	s.Scan(h, []byte("any text at all"), 0)
	s.Feed(h, []byte("any text at all"))
	if len(h.Seen) != 0 {
		t.Errorf("a set without patterns found %d", len(h.Seen))
	}
}
