package storetest_test

import (
	"path/filepath"
	"testing"

	"shuultuur/vote"
	"shuultuur/vote/store"
	"shuultuur/vote/storetest"
)

// TestAGoodStorePasses runs the suite on a file of SQLite.
func TestAGoodStorePasses(t *testing.T) {
	storetest.Run(t, func(t *testing.T) vote.Store {
		s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "votes.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}
