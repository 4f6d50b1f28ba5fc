package message

import (
	"net"
	"time"
)

// How long [Linger] reads: until the client is silent, and at most for as long as the upload of
// a large file may take to notice the response.
const (
	lingerSilence = time.Second
	lingerMost    = 30 * time.Second
)

// Linger ends our side of a connection and continues to read: a connection closed with unread
// bytes is reset, and a reset destroys the response (RFC 9112 section 9.6). Only time limits it:
// a client that sends fast must also see the response before the first reset. It returns at once
// for a connection whose sides do not end alone. The caller closes the connection.
func Linger(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	var b [4 << 10]byte
	for end := time.Now().Add(lingerMost); ; {
		now := time.Now()
		_ = c.SetReadDeadline(now.Add(min(lingerSilence, end.Sub(now))))
		if _, err := c.Read(b[:]); err != nil {
			return
		}
	}
}
