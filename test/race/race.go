// Package race tells tests whether the race detector is on, which allocates memory and makes
// code ten times as slow. "make test" runs the tests that ask a second time without it
// ([shuultuur/test/report]).
package race

import "testing"

// Without skips a test while the race detector is on. It is for long computations in one
// goroutine, which have no races to find.
func Without(t *testing.T) {
	t.Helper()
	if On {
		t.Skip("much work in one goroutine: run without the race detector")
	}
}
