//go:build !linux

package handover

import (
	"errors"
	"syscall"
)

// bindsFree reports whether a socket can have an address that the machine does not have yet.
const bindsFree = false

func freeBind(string, syscall.RawConn) error { return errors.ErrUnsupported }
