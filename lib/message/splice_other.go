//go:build !linux

package message

import (
	"errors"
	"net"
)

// Splice has the kernel move bytes from src to dst. This system cannot.
func Splice(dst, src *net.TCPConn, n int64, reading, writing func()) (taken, moved int64, err error) {
	return 0, 0, errors.ErrUnsupported
}
