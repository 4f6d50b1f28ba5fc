package platform

import "golang.org/x/sys/unix"

// NoCores prevents core files after a crash. A limit of one byte keeps Linux even from starting
// the program to which cores are piped; a limit of zero would not (core(5)). It only lowers the
// limits: a service manager or a container that has set them to zero lets nobody raise them again.
func NoCores() error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: min(now.Max, 1), Max: min(now.Max, 1)})
}
