//go:build !linux

package proxy

import (
	"errors"
	"net"
	"os"
)

// errFile reports that the kernel cannot send from this file. The head was sent.
var errFile = errors.New("the file cannot be sent from")

// sendFile writes only head: the body is written from memory.
func sendFile(c *net.TCPConn, head []byte, _ *os.File, _, _ int64) (sent int64, rest []byte, err error) {
	if n, err := c.Write(head); err != nil {
		return 0, head[n:], err
	}
	return 0, nil, errFile
}
