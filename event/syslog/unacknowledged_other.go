//go:build !linux

package syslog

import "net"

// unacknowledged returns 0: the number is not available here.
func unacknowledged(net.Conn) int { return 0 }
