package eventtest_test

import (
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/event/jsonl"
	"shuultuur/event/sqlite"
)

// TestGoodStoresPass runs the suite on a store with indexes and on one of lines.
func TestGoodStoresPass(t *testing.T) {
	keep := func(path string, d time.Duration) (event.Store, error) { return sqlite.Open(path, d) }
	indexed := func(path string) (event.Store, error) { return keep(path, 365*24*time.Hour) }
	t.Run("indexed", func(t *testing.T) { eventtest.Run(t, indexed) })
	t.Run("clock", func(t *testing.T) { eventtest.Clock(t, true, keep) })
	t.Run("erasure", func(t *testing.T) { eventtest.Erases(t, indexed) })
	t.Run("lines", func(t *testing.T) {
		eventtest.Run(t, func(path string) (event.Store, error) { return jsonl.Open(path) })
	})
}
