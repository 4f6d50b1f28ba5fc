//go:build !linux && !windows

package main

import "golang.org/x/sys/unix"

// noCores prevents core files after a crash.
func noCores() error {
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
