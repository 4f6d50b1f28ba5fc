// Package waittest lets a test wait for what others do.
package waittest

import (
	"testing"
	"time"
)

// Until waits until something is so, and fails the test if it is not within a minute. what says
// what the test waits for.
func Until(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so after a minute: %s", what)
		}
	}
}
