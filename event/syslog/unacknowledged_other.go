//go:build !linux

package syslog

import "net"

// unacknowledged is not known here.
func unacknowledged(net.Conn) int { return 0 }
