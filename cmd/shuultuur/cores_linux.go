package main

import "golang.org/x/sys/unix"

// noCores keeps a crash from leaving a core file. To Linux a limit of one byte
// means not even to start the program that cores are piped to, which a limit
// of none would not (core(5)).
func noCores() error {
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
}
