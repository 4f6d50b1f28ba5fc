//go:build linux && (amd64 || arm64)

package batch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// TestASandboxWithoutBatchesAnswersAll: one that forbids reading in batches, writing in batches, or
// both. Replies that were queued before, and by others, are sent, too.
func TestASandboxWithoutBatchesAnswersAll(t *testing.T) {
	for _, refused := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS} {
		for _, which := range []string{"reading", "writing", "both"} {
			conns, err := Listen(context.Background(), netip.MustParseAddrPort("127.0.0.1:0"), 1)
			if err != nil {
				t.Fatal(err)
			}
			conn := conns[0]
			late := conn.NewSender()
			if which != "writing" {
				conn.fast.do = func(uintptr) bool {
					conn.fast.n, conn.fast.errno = 0, refused
					return true
				}
			}
			if which != "reading" {
				for _, s := range []*Sender{conn.out, late} {
					s.fast.do = func(uintptr) bool {
						s.fast.n, s.fast.errno = 0, refused
						return true
					}
				}
			}
			c, err := net.Dial("udp", conn.LocalAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(c, "x")
			if n, err := conn.Read(); n != 1 || err != nil {
				t.Fatalf("%s refused with %v: Read gives %d, %v", which, refused, n, err)
			}
			if conn.Alone() != (which != "writing") {
				t.Errorf("%s refused with %v: Alone says %v", which, refused, conn.Alone())
			}
			_, p := conn.Datagram(0)
			conn.Reply(0, []byte("a"))
			later := *p
			late.Add(&later, []byte("b"))
			if lost := conn.Flush() + late.Flush(); lost > 0 {
				t.Errorf("%s refused with %v: %d replies are lost", which, refused, lost)
			}
			c.SetDeadline(time.Now().Add(time.Minute))
			buf := make([]byte, 10)
			for _, want := range []string{"a", "b"} {
				if n, err := c.Read(buf); string(buf[:n]) != want {
					t.Fatalf("%s refused with %v: got %q, %v, want %q", which, refused, buf[:n], err, want)
				}
			}
			c.Close()
			conn.Close()
		}
	}
}
