package main

import "golang.org/x/sys/unix"

// noCores prevents core files after a crash. With a limit of one byte, Linux
// does not even start the program that cores are piped to; with a limit of zero
// it would (core(5)).
func noCores() error {
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
}
