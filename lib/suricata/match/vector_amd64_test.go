package match

import (
	"testing"

	"shuultuur/test/race"
)

// TestPlainCodeFindsWhatASearchFinds tests the code for processors without vector
// instructions.
func TestPlainCodeFindsWhatASearchFinds(t *testing.T) {
	race.Without(t)
	defer func(v bool) { vectors = v }(vectors)
	vectors = false
	TestPrefiltersFindWhatASearchFinds(t)
}
