package filter

import (
	"testing"
)

func TestResetForgetsTheFindingsButKeepsTheirStorage(t *testing.T) {
	x := Transaction{ID: "a", Record: Record{Status: 200}, Findings: make([]Finding, 3, 8)}
	x.Findings[0].Evidence = "kept alive by the array"
	whole := x.Findings[:3]
	x.Reset()
	if x.ID != "" || x.Status != 0 || len(x.Findings) != 0 || cap(x.Findings) != 8 {
		t.Errorf("after Reset the transaction is %+v, with room for %d findings", x, cap(x.Findings))
	}
	if whole[0].Evidence != "" {
		t.Errorf("after Reset the storage of findings still has %q", whole[0].Evidence)
	}
}

func TestOnlyAnswersOfOursAreFinal(t *testing.T) {
	for a, want := range map[Action]bool{Pass: false, Allow: false, Warn: true, Block: true, Redirect: true} {
		if v := (Verdict{Action: a}); v.Final() != want {
			t.Errorf("%s: Final() = %v, want the opposite", a, v.Final())
		}
	}
}
