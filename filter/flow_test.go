package filter

import (
	"sync"
	"testing"
)

func TestFlowKeepsValuesOfManyRequestsAndChecks(t *testing.T) {
	var f Flow
	a, b := new(int), new(int)
	var work sync.WaitGroup
	add := func(key any) int {
		return f.Update(key, func(old any) any { n, _ := old.(int); return n + 1 }).(int)
	}
	for range 8 {
		work.Go(func() {
			for range 100 {
				add(a)
			}
		})
	}
	work.Wait()
	if n := add(a); n != 801 {
		t.Errorf("the value is %d after concurrent updates, want 801", n)
	}
	if n := add(b); n != 1 {
		t.Errorf("another check has the value %d, want 1", n)
	}
	if f.Reset(); add(a) != 1 {
		t.Error("Reset keeps a value")
	}
}

func TestResetKeepsTheFlowOnly(t *testing.T) {
	f := new(Flow)
	tx := Transaction{ID: "x", Flow: f, Findings: []Finding{{Check: "a"}}, Record: Record{Monitored: []Reason{{Rule: "r"}}}}
	tx.Reset()
	if tx.Flow != f || tx.ID != "" || len(tx.Findings) != 0 || len(tx.Monitored) != 0 {
		t.Errorf("after Reset the transaction is %+v, want its Flow and nothing else", tx)
	}
}
