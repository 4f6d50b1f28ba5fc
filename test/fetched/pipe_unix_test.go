//go:build unix

package fetched

import "syscall"

// pipe makes a named pipe, which whoever opens it would wait for.
func pipe(path string) error { return syscall.Mkfifo(path, 0o600) }
