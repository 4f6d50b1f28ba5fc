package engine

import (
	"testing"

	"shuultuur/test/race"
)

// TestPlainCodeFindsWhatASearchFinds tries what processors without vector
// instructions run.
func TestPlainCodeFindsWhatASearchFinds(t *testing.T) {
	race.Without(t)
	defer func(v bool) { vectors = v }(vectors)
	vectors = false
	TestPrefiltersFindWhatASearchFinds(t)
}
