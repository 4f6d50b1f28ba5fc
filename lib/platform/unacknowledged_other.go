//go:build !linux

package platform

import "time"

// LimitUnacknowledged ends a TCP connection whose peer has not acknowledged data, or made room for
// it, for some time. It does so on Linux only.
func LimitUnacknowledged(uintptr, time.Duration) error { return nil }
