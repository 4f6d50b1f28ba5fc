package batch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"
)

// echo returns every datagram until the conn is stopped.
func echo(c *Conn) error {
	for {
		n, err := c.Read()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range n {
			msg, _ := c.Datagram(i)
			if len(msg) > 0 {
				c.Reply(i, append(c.Buffer(i), msg...))
			}
		}
		if lost := c.Flush(); lost > 0 {
			return fmt.Errorf("%d replies lost", lost)
		}
	}
}

// serve runs echo on every conn until the test ends.
func serve(t *testing.T, conns []*Conn) {
	done := make(chan error, len(conns))
	for _, c := range conns {
		go func() { done <- echo(c) }()
	}
	t.Cleanup(func() {
		for _, c := range conns {
			c.Stop()
		}
		for _, c := range conns {
			if err := <-done; err != nil {
				t.Error(err)
			}
			c.Close()
		}
	})
}

func TestRepliesLeaveFromTheAddressAsked(t *testing.T) {
	for _, portable := range []bool{false, true} {
		for _, x := range []struct{ listen, ask string }{
			{"127.0.0.1:0", "127.0.0.1"}, {"0.0.0.0:0", "127.0.0.2"}, {"[::1]:0", "::1"}, {"[::]:0", "::1"},
		} {
			t.Run(fmt.Sprintf("%s portable %v", x.listen, portable), func(t *testing.T) {
				if x.ask == "127.0.0.2" && runtime.GOOS != "linux" {
					x.ask = "127.0.0.1"
				}
				conns, err := Listen(context.Background(), netip.MustParseAddrPort(x.listen), 2)
				if err != nil {
					t.Fatal(err)
				}
				if portable {
					for _, c := range conns {
						c.fast, c.out.fast = nil, nil
					}
				}
				serve(t, conns)
				for i := range 8 {
					// A connected socket takes no reply from another address.
					c, err := net.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr(x.ask), conns[0].LocalAddr().Port()).String())
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					c.SetDeadline(time.Now().Add(time.Minute))
					fmt.Fprintf(c, "hello %d", i)
					buf := make([]byte, 100)
					n, err := c.Read(buf)
					if want := fmt.Sprintf("hello %d", i); err != nil || string(buf[:n]) != want {
						t.Fatalf("got %q, %v, want %q", buf[:n], err, want)
					}
				}
			})
		}
	}
}

func TestBurstsAreAnsweredWhole(t *testing.T) {
	conns, err := Listen(context.Background(), netip.MustParseAddrPort("127.0.0.1:0"), 1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("udp", conns[0].LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const many = 3*Size + 5
	for i := range many {
		fmt.Fprintf(c, "%04d", i)
	}
	c.Write(make([]byte, InBytes+1)) // is not answered
	serve(t, conns)
	c.SetDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 100)
	var got []string
	for range many {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("after %d: %v", len(got), err)
		}
		got = append(got, string(buf[:n]))
	}
	if slices.Sort(got); got[0] != "0000" || len(slices.Compact(got)) != many {
		t.Errorf("replies: got %q, want each once", got)
	}
}

func TestLateRepliesHaveTheirOwnSender(t *testing.T) {
	conns, err := Listen(context.Background(), netip.MustParseAddrPort("0.0.0.0:0"), 1)
	if err != nil {
		t.Fatal(err)
	}
	conn := conns[0]
	defer conn.Close()
	c, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", conn.LocalAddr().Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "x")
	if n, err := conn.Read(); n != 1 || err != nil {
		t.Fatalf("reading a datagram: got %d, %v, want 1", n, err)
	}
	_, p := conn.Datagram(0)
	if want := c.LocalAddr().(*net.UDPAddr).AddrPort(); p.Addr != want || p.Local != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("datagram from %v to %v, want it from %v", p.Addr, p.Local, want)
	}
	later := *p
	s := conn.NewSender()
	for i := range Size {
		s.Add(&later, []byte{byte(i)})
	}
	if !s.Full() {
		t.Error("Full is false although Size replies are queued")
	}
	if lost := s.Flush(); lost != 0 {
		t.Errorf("Flush lost %d replies, want 0", lost)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 10)
	for i := range Size {
		if n, err := c.Read(buf); n != 1 || buf[0] != byte(i) {
			t.Fatalf("reply %d: got %v, %v, want one byte with its number", i, buf[:n], err)
		}
	}
}

func TestTheOneThatCannotBeSentIsCountedAlone(t *testing.T) {
	conns, err := Listen(context.Background(), netip.MustParseAddrPort("127.0.0.1:0"), 1)
	if err != nil {
		t.Fatal(err)
	}
	conn := conns[0]
	defer conn.Close()
	c, err := net.Dial("udp", conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "x")
	if n, err := conn.Read(); n != 1 || err != nil {
		t.Fatalf("reading a datagram: got %d, %v, want 1", n, err)
	}
	conn.Reply(0, []byte("a"))
	conn.Reply(0, make([]byte, 70000)) // longer than any datagram
	conn.Reply(0, []byte("b"))
	if lost := conn.Flush(); lost != 1 {
		t.Errorf("Flush lost %d replies, want 1", lost)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 10)
	for _, want := range []string{"a", "b"} {
		if n, err := c.Read(buf); string(buf[:n]) != want {
			t.Fatalf("got %q, want %q, %v", buf[:n], want, err)
		}
	}
}

// TestAFreePortIsNobodyElses: Linux gives sockets that may be shared a port that is shared
// already, by another process too, and half of the datagrams would go there.
func TestAFreePortIsNobodyElses(t *testing.T) {
	addr := netip.MustParseAddrPort("127.0.0.1:0")
	taken := map[uint16]bool{}
	for range 2000 {
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(addr))
		if err != nil {
			t.Skip("the system has too few sockets:", err)
		}
		defer c.Close()
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := reusePort(raw, true); err != nil {
			t.Fatal(err)
		}
		taken[c.LocalAddr().(*net.UDPAddr).AddrPort().Port()] = true
	}
	for range 40 {
		conns, err := Listen(context.Background(), addr, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range conns {
			defer c.Close()
		}
		port := conns[0].LocalAddr().Port()
		if taken[port] {
			t.Fatalf("Listen took port %d, which another socket has", port)
		}
		if canSpread && len(conns) != 2 {
			t.Fatalf("%d sockets have port %d, want 2", len(conns), port)
		}
		taken[port] = true
	}
}
