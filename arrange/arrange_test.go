package arrange

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTheOrderIsThatOfSlices(t *testing.T) {
	type row struct{ key, was int }
	for n := range 200 {
		rows := make([]row, n)
		for i := range rows {
			rows[i] = row{rand.IntN(10), i}
		}
		want := slices.Clone(rows)
		by := func(a, b row) int { return cmp.Compare(a.key, b.key) }
		slices.SortStableFunc(want, by)
		By(rows, by)
		if !slices.Equal(rows, want) {
			t.Fatalf("sorting %d rows: got %v, want %v", n, rows, want)
		}
	}
}
