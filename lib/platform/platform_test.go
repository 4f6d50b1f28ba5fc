package platform_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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

// connected returns both ends of a connection, and a function that calls another with the socket of the
// server's end.
func connected(t *testing.T) (client, server net.Conn, socket func(func(uintptr))) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	raw, err := server.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return client, server, func(f func(uintptr)) {
		t.Helper()
		if err := raw.Control(f); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadsTakeWhatHasArrived(t *testing.T) {
	client, c, socket := connected(t)
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	read := func(from func(uintptr, []byte) (int, error)) (string, error) {
		t.Helper()
		var buf [16]byte
		var n int
		var failed error
		socket(func(fd uintptr) { n, failed = from(fd, buf[:]) })
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
	if platform.Forget(data); string(data) != "0123456789" {
		t.Errorf("memory that the system may take back shows %q", data)
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

// TestThePollerTellsOnceOfEachWatch: of bytes, and of the end.
func TestThePollerTellsOnceOfEachWatch(t *testing.T) {
	p, err := platform.NewPoller()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	client, _, socket := connected(t)
	var watched int
	watch := func() {
		t.Helper()
		socket(func(fd uintptr) {
			watched = int(fd)
			if err := p.Watch(fd); err != nil {
				t.Fatal(err)
			}
		})
	}
	wait := func(what string, d time.Duration, want ...int) {
		t.Helper()
		if got, open := p.Wait(nil, d); !slices.Equal(got, want) || !open {
			t.Fatalf("%s: Wait returns %v, %v, want %v", what, got, open, want)
		}
	}
	watch()
	wait("a quiet connection", 0)
	if _, err := io.WriteString(client, "some bytes"); err != nil {
		t.Fatal(err)
	}
	wait("bytes", time.Minute, watched)
	wait("bytes that were told of", 0)
	watch()
	wait("bytes that were not read, watched again", time.Minute, watched)
	socket(func(fd uintptr) {
		if n, err := platform.Read(fd, make([]byte, 16)); n != 10 || err != nil {
			t.Fatalf("Read: got %d, %v", n, err)
		}
	})
	watch()
	wait("bytes that were read", 0)
	client.Close()
	wait("the end", time.Minute, watched)
	p.Close()
	if got, open := p.Wait(nil, -1); len(got) != 0 || open {
		t.Errorf("after Close: Wait returns %v, %v", got, open)
	}
}

// TestTheEndOfAPeerIsSeenBehindUnreadBytes: and a reset is told apart from it.
func TestTheEndOfAPeerIsSeenBehindUnreadBytes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	for name, c := range map[string]struct {
		end           func(*net.TCPConn) error
		ended, broken bool
	}{
		"open":         {func(*net.TCPConn) error { return nil }, false, false},
		"half closed":  {(*net.TCPConn).CloseWrite, true, false},
		"reset":        {func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) }, true, true},
		"closed whole": {(*net.TCPConn).Close, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			client, _, socket := connected(t)
			if _, err := io.WriteString(client, "some bytes"); err != nil {
				t.Fatal(err)
			}
			if err := c.end(client.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			var ended, broken bool
			for began := time.Now(); time.Since(began) < 10*time.Second; runtime.Gosched() {
				socket(func(fd uintptr) { ended, broken = platform.Ended(fd) })
				if ended == c.ended {
					break
				}
			}
			if ended != c.ended || broken != c.broken {
				t.Errorf("ended %v, broken %v, want %v, %v", ended, broken, c.ended, c.broken)
			}
		})
	}
}

// TestAPeerThatAcknowledgesNothingHasALimit: the option is taken, and 0 takes it back.
func TestAPeerThatAcknowledgesNothingHasALimit(t *testing.T) {
	_, _, socket := connected(t)
	for _, d := range []time.Duration{time.Second, 0} {
		socket(func(fd uintptr) {
			if err := platform.LimitUnacknowledged(fd, d); err != nil {
				t.Errorf("%v: %v", d, err)
			}
		})
	}
}

func TestOwnersOfFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no owner by number")
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	look := func(name string) os.FileInfo {
		t.Helper()
		info, err := os.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	if user, _, ok := platform.Owner(look(file)); !ok || user != os.Geteuid() {
		t.Errorf("Owner: got %d, %v, want %d", user, ok, os.Geteuid())
	}
	root := os.Geteuid() == 0
	if platform.OfRoot(look(file)) != root || platform.OfRoot(look(folder)) != root {
		t.Errorf("OfRoot of what %d owns is not %v", os.Geteuid(), root)
	}
	if platform.Open(look(file).Mode()) || !platform.Open(0o640) || !platform.Open(0o602) {
		t.Error("Open does not say who else may use a file")
	}
	if err := os.Link(file, file+"2"); err != nil {
		t.Fatal(err)
	}
	if platform.OfRoot(look(file)) {
		t.Error("a file with a second name counts as root's")
	}
	if err := platform.Writable(folder); err != nil {
		t.Error(err)
	}
	if err := platform.Writable(filepath.Join(folder, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Writable of a file that is not there: %v", err)
	}
}

func TestLimitsOfTheProcessAreKnown(t *testing.T) {
	if soft, hard, err := platform.Files(); err != nil || soft == 0 || soft > hard {
		t.Errorf("Files: got %d of %d, %v", soft, hard, err)
	}
	if limit := platform.MemoryLimit(); limit < 0 {
		t.Errorf("MemoryLimit: got %d", limit)
	}
	if d := platform.Suspended(); d < 0 {
		t.Errorf("Suspended: got %v", d)
	}
}
