//go:build !linux || !(amd64 || arm64)

package load

import "net"

func newUDP(c *net.UDPConn) (link, error) { return newDatagrams(c), nil }
