//go:build !linux

package platform

// HasRoom reports whether a socket takes a block of bytes now, or has failed; also if that is unknown. It
// does not wait.
func HasRoom(uintptr) bool { return true }

// Queued returns how many bytes written to a socket its peer has not acknowledged; 0 if that is unknown.
func Queued(uintptr) int { return 0 }
