package gateway

import (
	"testing"

	"shuultuur/filter"
)

// TestLookingForAnAnswerIsNotRecorded: a block page that is left open looks for the answer every
// minute. The vote itself is in the record.
func TestLookingForAnAnswerIsNotRecorded(t *testing.T) {
	for category, want := range map[string]bool{"answer": true, "vote": false, "own-page": false} {
		x := filter.Transaction{}
		x.Verdict.Reason.Finding = filter.Finding{Check: "proxy", Category: category}
		if isLookForAnswer(&x) != want {
			t.Errorf("proxy/%s: the record leaves it out: %v, want %v", category, !want, want)
		}
		x.Verdict.Reason.Finding.Check = "category"
		if isLookForAnswer(&x) {
			t.Errorf("the category %s of a list is left out of the record", category)
		}
	}
}
