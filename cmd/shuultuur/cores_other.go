//go:build !linux && !windows

package main

import "golang.org/x/sys/unix"

// noCores keeps a crash from leaving a core file.
func noCores() error {
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
