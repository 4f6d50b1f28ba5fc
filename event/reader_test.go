package event

import (
	"slices"
	"strconv"
	"testing"
)

func TestCountsOfManyNamesAreBounded(t *testing.T) {
	c, err := NewCounter([]Question{{By: Host, Top: 2}})
	if err != nil {
		t.Fatal(err)
	}
	c.sums[0].most = 1000
	for i := range 30_000 {
		c.AddSum(0, strconv.Itoa(i), 1, 0)
		if i%1000 == 0 {
			c.AddSum(0, "often", 100, 50)
			c.AddSum(0, "seldom", 50, 0)
		}
		if n := c.sums[0].used; n > 1537 {
			t.Fatalf("the counter keeps %d names, want at most 1537", n)
		}
	}
	want := []Tally{{Name: "often", Events: 3000, Blocked: 1500}, {Name: "seldom", Events: 1500}}
	if got := c.Tallies()[0]; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
