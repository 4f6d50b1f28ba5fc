package platform

import "golang.org/x/sys/unix"

// NoCores prevents core files after a crash. A limit of one byte keeps Linux even from starting
// the program to which cores are piped; a limit of zero would not (core(5)).
func NoCores() error {
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
}
