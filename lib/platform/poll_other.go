//go:build !linux && !freebsd

package platform

import (
	"errors"
	"time"
)

// A Poller waits for bytes at many sockets at once.
type Poller struct{}

// NewPoller returns a Poller. It returns [errors.ErrUnsupported] where the system has none.
func NewPoller() (*Poller, error) { return nil, errors.ErrUnsupported }

// Watch makes Wait return the socket once: when there are bytes to read, or it has ended. Closing
// the socket ends the watch.
func (*Poller) Watch(uintptr) error { return errors.ErrUnsupported }

// Wait waits at most d, or forever if d is negative, and appends to dst the sockets at which
// something has arrived. open is false after Close, which ends the Poller.
func (*Poller) Wait(dst []int, _ time.Duration) (arrived []int, open bool) { return dst, false }

// Close makes Wait end the Poller.
func (*Poller) Close() {}
