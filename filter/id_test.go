package filter

import (
	"testing"
	"time"
)

func TestTransactionIDsSortAndDiffer(t *testing.T) {
	var n IDs
	now := time.Now()
	last := ""
	for i := range 1000 {
		if i == 500 {
			now = now.Add(-time.Second) // the clock was set back
		}
		id := n.Next(now)
		if id <= last || len(id) != 11 {
			t.Fatalf("the ID %q follows %q, want a later one of 11 letters", id, last)
		}
		last = id
	}
}
