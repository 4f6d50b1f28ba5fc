//go:build linux

package proxy

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// tcpPair returns the two ends of a connection. A small receive window slows bytes to the
// second end.
func tcpPair(t *testing.T) (c, client *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); d.Close() })
	c, client = a.(*net.TCPConn), d.(*net.TCPConn)
	c.SetWriteBuffer(16 << 10)
	client.SetReadBuffer(16 << 10)
	return c, client
}

func TestBodiesLeaveFromTheirFiles(t *testing.T) {
	content := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{1}).Read(content)
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const off, n = 12_345, 2 << 20

	t.Run("whole", func(t *testing.T) {
		c, client := tcpPair(t)
		done := make(chan error, 1)
		go func() {
			sent, _, err := sendFile(c, []byte("head"), f, off, n)
			if err == nil && sent != n {
				err = io.ErrShortWrite
			}
			c.Close()
			done <- err
		}()
		got, err := io.ReadAll(client)
		if err != nil || !bytes.Equal(got, append([]byte("head"), content[off:off+n]...)) {
			t.Errorf("the client got %d bytes that differ from the file, or the error %v", len(got), err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("a client that does not read", func(t *testing.T) {
		c, _ := tcpPair(t)
		c.SetDeadline(time.Now().Add(50 * time.Millisecond))
		sent, _, err := sendFile(c, []byte("head"), f, 0, int64(len(content)))
		if !os.IsTimeout(err) || sent >= int64(len(content)) {
			t.Errorf("%d bytes sent to a client that does not read, then %v; want a time-out", sent, err)
		}
	})
	t.Run("a client that went away", func(t *testing.T) {
		c, client := tcpPair(t)
		client.SetLinger(0)
		client.Close()
		if _, _, err := sendFile(c, []byte("head"), f, 0, int64(len(content))); err == nil {
			t.Error("sendFile to a closed connection returned no error")
		}
	})
	t.Run("a file that ends early", func(t *testing.T) {
		c, client := tcpPair(t)
		go io.Copy(io.Discard, client)
		sent, _, err := sendFile(c, nil, f, int64(len(content))-100, 1000)
		if err != io.ErrUnexpectedEOF || sent != 100 {
			t.Errorf("%d bytes sent of a file that is too short, then %v; want 100 and ErrUnexpectedEOF", sent, err)
		}
	})
	t.Run("what the kernel does not send from", func(t *testing.T) {
		c, client := tcpPair(t)
		go io.Copy(io.Discard, client)
		dir, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if _, _, err := sendFile(c, []byte("head"), dir, 0, 100); err != errFile {
			t.Errorf("sendFile of a folder: got %v, want errFile", err)
		}
	})
}
