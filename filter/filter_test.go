package filter

import (
	"errors"
	"fmt"
	"testing"
)

func TestASettingsMistakeKeepsItsPath(t *testing.T) {
	cause := errors.New("no such action")
	for _, c := range []struct {
		err  error
		want string
	}{
		{Setting("action", cause), "action: no such action"},
		{Setting("rules[2]", Setting("action", cause)), "rules[2].action: no such action"},
		{Setting("policies", Setting("[0]", Setting("rules[2]", cause))), "policies[0].rules[2]: no such action"},
		// One that was wrapped says more than its path: it stays as it is.
		{Setting("checks", fmt.Errorf("reading: %w", Setting("path", cause))), "checks: reading: path: no such action"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if !errors.Is(c.err, cause) {
			t.Errorf("%v has lost its cause", c.err)
		}
	}
	if err := Setting("action", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestResetForgetsTheFindingsButKeepsTheirStorage(t *testing.T) {
	x := Transaction{ID: "a", Status: 200, Findings: make([]Finding, 3, 8)}
	x.Findings[0].Evidence = "kept alive by the array"
	whole := x.Findings[:3]
	x.Reset()
	if x.ID != "" || x.Status != 0 || len(x.Findings) != 0 || cap(x.Findings) != 8 {
		t.Errorf("after Reset: %+v, room for %d findings", x, cap(x.Findings))
	}
	if whole[0].Evidence != "" {
		t.Errorf("the storage still holds %q", whole[0].Evidence)
	}
}

func TestOnlyAnswersOfOursAreFinal(t *testing.T) {
	for a, want := range map[Action]bool{Pass: false, Allow: false, Warn: true, Block: true, Redirect: true} {
		if v := (Verdict{Action: a}); v.Final() != want {
			t.Errorf("%s: final is %v", a, v.Final())
		}
	}
}
