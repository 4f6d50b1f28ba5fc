//go:build linux || freebsd

package peertest

import "syscall"

func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
