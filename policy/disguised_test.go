package policy

import (
	"context"
	"testing"

	"shuultuur/filter"
)

// undoer reports its category only for policies that want disguised words found.
type undoer struct{ *fake }

func (u undoer) Find(_ context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	if s == filter.ResponseBody && t.Verdict.Disguised {
		dst = append(dst, filter.Finding{Check: u.name, Category: "phrase", Score: 80})
	}
	return dst, nil
}

func TestDisguisesAreUndoneForThePolicyThatWantsIt(t *testing.T) {
	for _, disguised := range []bool{false, true} {
		limit, want := 50, filter.Pass
		if disguised {
			want = filter.Block
		}
		e := newEngineOf(t, Config{{Name: "p", Disguised: disguised, Rules: []Rule{{Name: "words", Action: "block", Category: []string{"phrase"}, Over: &limit}}}},
			Parts{}, undoer{phrases(0)})
		if tr, _ := (page{}).judge(t, e); tr.Verdict.Action != want {
			t.Errorf("disguised %v: got %v", disguised, tr.Verdict.Action)
		}
	}
}
