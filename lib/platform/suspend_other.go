//go:build !linux

package platform

import "time"

// Suspended returns how long the machine has slept since it was started, where the monotonic
// clock of Go stands still meanwhile.
func Suspended() time.Duration { return 0 }
