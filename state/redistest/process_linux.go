package redistest

import "syscall"

// withParent lets the server end with a test that is killed.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
