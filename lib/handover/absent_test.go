//go:build linux

package handover

import (
	"context"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"shuultuur/test/peer"
)

// TestAListenerWaitsForItsAddress gives a machine an address after the program listens on it.
func TestAListenerWaitsForItsAddress(t *testing.T) {
	for _, tt := range []struct{ name, addr, with string }{
		{"IPv4", "192.0.2.77:5353", "192.0.2.77/32"},
		{"IPv6", "[2001:db8::77]:5353", "2001:db8::77/128"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runtime.LockOSThread() // the thread ends with the test, and its network with it
			if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
				t.Skipf("no network of its own: %v", err)
			}
			ip := func(args ...string) {
				t.Helper()
				if out, err := exec.Command(peer.Program(t, "ip"), args...).CombinedOutput(); err != nil {
					t.Skipf("ip %q: %v, %s", args, err, out)
				}
			}
			ip("link", "set", "lo", "up")
			s := &Sockets{}
			ctx := s.With(t.Context())
			l, err := Listen(ctx, new(net.ListenConfig), "tcp", tt.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			p, err := ListenPacket(ctx, new(net.ListenConfig), "udp", tt.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if got := s.Absent(); !slices.Equal(got, []string{tt.addr}) {
				t.Errorf("absent: %q, want %q", got, tt.addr)
			}

			ip("address", "add", tt.with, "dev", "lo", "nodad")
			if got := s.Absent(); len(got) > 0 {
				t.Errorf("the address is there, but absent are %q", got)
			}
			for _, network := range []string{"tcp", "udp"} {
				c, err := net.Dial(network, tt.addr)
				for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); c, err = net.Dial(network, tt.addr) {
					time.Sleep(10 * time.Millisecond) // the system adds the route of an IPv6 address later
				}
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Write([]byte("hello")); err != nil {
					t.Error(err)
				}
			}
			in, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			in.Close()
			b := make([]byte, 10)
			_ = p.SetReadDeadline(time.Now().Add(10 * time.Second))
			if n, _, err := p.ReadFrom(b); err != nil || string(b[:n]) != "hello" {
				t.Errorf("the datagram is %q, %v", b[:n], err)
			}

			ip("address", "del", tt.with, "dev", "lo")
			if got := s.Absent(); !slices.Equal(got, []string{tt.addr}) {
				t.Errorf("the address is gone, but absent are %q", got)
			}
		})
	}
}

func TestAnAddressInUseIsNotWaitedFor(t *testing.T) {
	l, err := Listen(context.Background(), new(net.ListenConfig), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l, err := Listen(context.Background(), new(net.ListenConfig), "tcp", l.Addr().String()); err == nil {
		l.Close()
		t.Error("two listeners have one address")
	}
}
