package proxy

import (
	"crypto/tls"
	"io"
	"net"
	"time"
)

// clientHello returns the bytes of a hello as crypto/tls sends it.
func clientHello(name string, protos ...string) []byte {
	a, b := net.Pipe()
	defer a.Close()
	go func() {
		tls.Client(b, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: protos}).Handshake()
		b.Close()
	}()
	a.SetDeadline(time.Now().Add(time.Minute))
	var hello []byte // the handshake message without its record header
	for len(hello) < 4 || len(hello) < 4+int(hello[1])<<16+int(hello[2])<<8+int(hello[3]) {
		head := make([]byte, 5)
		io.ReadFull(a, head)
		body := make([]byte, int(head[3])<<8|int(head[4]))
		io.ReadFull(a, body)
		hello = append(hello, body...)
	}
	return append([]byte{22, 3, 1, byte(len(hello) >> 8), byte(len(hello))}, hello...)
}
