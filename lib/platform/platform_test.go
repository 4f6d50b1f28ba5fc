package platform_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/lib/platform"
)

func TestLocksExclude(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	for _, c := range []struct {
		name          string
		first, second bool // shared
		want          error
	}{
		{"exclusive, exclusive", false, false, platform.ErrLocked},
		{"exclusive, shared", false, true, platform.ErrLocked},
		{"shared, exclusive", true, false, platform.ErrLocked},
		{"shared, shared", true, true, nil},
	} {
		a, b := open(), open()
		if err := platform.TryLock(a, c.first); err != nil {
			t.Fatalf("%s: the first lock: %v", c.name, err)
		}
		if err := platform.TryLock(b, c.second); !errors.Is(err, c.want) {
			t.Errorf("%s: the second lock gives %v, want %v", c.name, err, c.want)
		}
		// A locked file can be read: a lock file says who holds it.
		if _, err := a.WriteAt([]byte("holder"), 0); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "holder" {
			t.Errorf("%s: reading the locked file: got %q, %v", c.name, text, err)
		}
		a.Close()
		b.Close()
	}
	a, b := open(), open()
	if err := platform.Lock(a); err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() { got <- platform.Lock(b) }()
	a.Close()
	if err := <-got; err != nil {
		t.Errorf("the lock of a closed file is not passed on: %v", err)
	}
}

func TestReadsTakeWhatHasArrived(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	read := func(from func(uintptr, []byte) (int, error)) (string, error) {
		t.Helper()
		var buf [16]byte
		var n int
		var failed error
		if err := raw.Control(func(fd uintptr) { n, failed = from(fd, buf[:]) }); err != nil {
			t.Fatal(err)
		}
		return string(buf[:n]), failed
	}
	// arrived waits until the bytes have passed the loopback.
	arrived := func() {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if err := raw.Read(func(fd uintptr) bool {
			_, err := platform.Peek(fd, make([]byte, 1))
			return err != platform.ErrWait
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []func(uintptr, []byte) (int, error){platform.Peek, platform.Read} {
		if text, err := read(from); err != platform.ErrWait {
			t.Errorf("read from a quiet connection: got %q, %v, want ErrWait", text, err)
		}
	}
	if _, err := io.WriteString(client, "some bytes"); err != nil {
		t.Fatal(err)
	}
	arrived()
	for _, from := range []func(uintptr, []byte) (int, error){platform.Peek, platform.Peek, platform.Read} {
		if text, err := read(from); text != "some bytes" || err != nil {
			t.Errorf("read: got %q, %v, want some bytes", text, err)
		}
	}
	if text, err := read(platform.Read); err != platform.ErrWait {
		t.Errorf("second read: got %q, %v, want ErrWait", text, err)
	}
	client.Close()
	arrived()
	for _, from := range []func(uintptr, []byte) (int, error){platform.Peek, platform.Read} {
		if text, err := read(from); text != "" || err != nil {
			t.Errorf("read at the end: got %q, %v, want none", text, err)
		}
	}
}

func TestMapShowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := platform.Map(f, 10)
	if err != nil || string(data) != "0123456789" {
		t.Fatalf("Map: got %q, %v", data, err)
	}
	if err := platform.Unmap(data); err != nil {
		t.Error(err)
	}
}

func TestProcessorTimeGrows(t *testing.T) {
	start, began := platform.CPU(), time.Now()
	for sum := 0; platform.CPU() == start; sum++ {
		if time.Since(began) > 10*time.Second {
			t.Fatal("CPU did not grow within 10 seconds of work")
		}
	}
}
