//go:build linux || freebsd

package peer

import "syscall"

func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
