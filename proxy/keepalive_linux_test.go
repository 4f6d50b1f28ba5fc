package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAClientThatVanishesIsNoticed within 75 seconds, whether the socket was opened or inherited.
func TestAClientThatVanishesIsNoticed(t *testing.T) {
	o := origin(t, func(http.ResponseWriter, *http.Request) {})
	own, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	f, err := own.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	own.Close()
	defer f.Close()
	inherited, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	for name, ln := range map[string]net.Listener{"opened": opened, "inherited": inherited} {
		r := start(t, Config{}, Engine{})
		l := &listener{}
		done := make(chan error, 1)
		go func() { done <- r.serve(t.Context(), ln, l) }()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET %s/ HTTP/1.1\r\nHost: x\r\n\r\n", o.URL)
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatal(name, err)
		}
		l.mu.Lock()
		for x := range l.open {
			raw, err := x.socket.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			var on, idle, interval, count int
			_ = raw.Control(func(fd uintptr) {
				on, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE)
				idle, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
				interval, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
				count, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
			})
			if on == 0 || idle+interval*count > 75 {
				t.Errorf("%s: keep-alive %d notices after %d s + %d × %d s", name, on, idle, count, interval)
			}
		}
		if len(l.open) != 1 {
			t.Errorf("%s: %d connections are open", name, len(l.open))
		}
		l.mu.Unlock()
		c.Close()
		ln.Close()
		<-done
	}
}
