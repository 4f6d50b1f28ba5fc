package match

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"shuultuur/lib/suricata/rule"
)

// naive tries two contents, the second relative to the first, at every position.
func naive(buf []byte, a, b *rule.Content) bool {
	for i := 0; i+len(a.Pattern) <= len(buf); i++ {
		if !bytes.HasPrefix(buf[i:], a.Pattern) {
			continue
		}
		end := i + len(a.Pattern)
		for j := max(0, end+int(b.Distance.N)); j+len(b.Pattern) <= len(buf); j++ {
			if b.HasWith && j+len(b.Pattern) > end+int(b.Distance.N)+int(b.Within.N) {
				break
			}
			if bytes.HasPrefix(buf[j:], b.Pattern) {
				return true
			}
		}
	}
	return false
}

// FuzzContent compares the inspection of two contents with a naive one.
func FuzzContent(f *testing.F) {
	f.Add([]byte("abcabcxabcd"), "abc", "d", 0, 1)
	f.Add([]byte("aaaaab"), "a", "b", 0, 1)
	f.Add([]byte("ba"), "a", "b", -2, 0)
	f.Fuzz(func(t *testing.T, buf []byte, x, y string, distance, within int) {
		if x == "" || y == "" || len(buf) > 300 || distance > 1000 || distance < -1000 || within < 0 || within > 1000 {
			return
		}
		a := &rule.Content{Pattern: []byte(x), RelativeNext: true}
		b := &rule.Content{Pattern: []byte(y), HasDistance: true, Distance: rule.Number{N: int32(distance)}, HasWith: within >= len(y), Within: rule.Number{N: int32(within)}}
		in := Inspector{}
		in.start(buf)
		got := in.inspect([]rule.Match{a, b}, 0) == holds
		if want := naive(buf, a, b); got != want {
			t.Errorf("%q then %q (distance %d, within %d) in %q: %v, want %v", x, y, distance, within, buf, got, want)
		}
	})
}

// TestRememberedFailuresChangeNothing tries random rules on random buffers with and without
// remembering failures: result and steps must be the same.
func TestRememberedFailuresChangeNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	word := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab"[r.IntN(2)]
		}
		return b
	}
	var kept failures
	used, over := 0, 0
	for range 4000 {
		var ms []rule.Match
		for i := range 2 + r.IntN(5) {
			c := &rule.Content{Pattern: word(1 + r.IntN(3)), RelativeNext: true}
			if i > 0 {
				c.HasDistance, c.Distance = true, rule.Number{N: int32(r.IntN(4) - 1)}
				c.HasWith, c.Within = r.IntN(2) == 0, rule.Number{N: int32(3 + r.IntN(40))}
				c.Negated = r.IntN(5) == 0
			}
			ms = append(ms, c)
			if r.IntN(4) == 0 {
				ms = append(ms, &rule.DataAt{Relative: true, Negated: r.IntN(2) == 0, At: rule.Number{N: int32(r.IntN(60))}})
			}
		}
		buf := word(20 + r.IntN(100))
		var plain, remembering Inspector
		plain.start(buf)
		remembering.start(buf)
		remembering.remember(&kept)
		want, got := plain.inspect(ms, 0), remembering.inspect(ms, 0)
		if got != want || remembering.Over != plain.Over || !plain.Over && remembering.steps != plain.steps {
			t.Fatalf("%q: result %d in %d steps, want %d in %d", buf, got, remembering.steps, want, plain.steps)
		}
		if remembering.Work < plain.Work {
			used++
		}
		if plain.Over {
			over++
		}
	}
	if used < 100 || over < 10 {
		t.Errorf("the memory was used in %d trials, and %d took all steps", used, over)
	}
}
