//go:build !linux && !windows

package platform

import "golang.org/x/sys/unix"

// NoCores prevents core files after a crash.
func NoCores() error {
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
