package multimatch

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPlainCodeMarksWhatVectorsMark tests the code for processors without vector instructions
// beside that for others.
func TestPlainCodeMarksWhatVectorsMark(t *testing.T) {
	if !vectors {
		t.Skip("this processor has no AVX2")
	}
	defer func(v bool) { vectors = v }(vectors)
	random := rand.New(rand.NewPCG(3, 9))
	letters := func(n, kinds int) []byte {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(random.IntN(kinds)) * 11
		}
		return p
	}
	marked := 0
	for range 200 {
		kinds := 2 + random.IntN(22)
		var patterns [][]byte
		for range 1 + random.IntN(300) {
			patterns = append(patterns, letters(2+random.IntN(11), kinds))
		}
		s, err := New(patterns, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 1 + random.IntN(9)
		text := letters(n*blockLen+ahead, kinds)
		var got, want [9]marks
		vectors = true
		s.sift(got[:n], text)
		vectors = false
		s.sift(want[:n], text)
		if got != want {
			t.Fatalf("%d patterns, text %x: marks %x, want %x", len(patterns), text, got, want)
		}
		marked += len(slices.DeleteFunc(want[:n], func(m marks) bool { return m.near == 0 || m.far == 0 }))
	}
	if marked < 100 {
		t.Errorf("only %d blocks had marks of both kinds", marked)
	}
}
