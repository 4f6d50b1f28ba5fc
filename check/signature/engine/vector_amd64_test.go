package engine

import "testing"

// TestPlainCodeFindsWhatASearchFinds tries what processors without vector
// instructions run.
func TestPlainCodeFindsWhatASearchFinds(t *testing.T) {
	defer func(v bool) { vectors = v }(vectors)
	vectors = false
	TestPrefiltersFindWhatASearchFinds(t)
}
