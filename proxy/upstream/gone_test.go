//go:build linux

package upstream

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shuultuur/lib/setting"
)

// The peer of a kept connection that is gone is noticed as soon as one that does not accept. A body
// for which the origin makes no room yet is no sign of that.
func TestAKeptConnectionWhosePeerIsGoneIsNoticed(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(s *side) {
		for r := s.request(); r != nil; r = s.request() {
			io.Copy(io.Discard, r.Body)
			s.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	for _, tt := range []struct {
		body int
		want int // milliseconds
	}{{0, 4000}, {5, 4000}, {100_000, 0}} {
		up := newTransport(t, Config{Dial: setting.Duration(4 * time.Second)})
		q := ask("POST", o.addr)
		if tt.body > 0 {
			q = posted(t, o.addr, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", tt.body)+strings.Repeat("x", tt.body), int64(tt.body))
		}
		trip(t, t.Context(), up, q)
		kept := up.pool.get([]byte(o.addr), time.Now())
		if kept == nil {
			t.Fatalf("after a body of %d bytes no connection is kept", tt.body)
		}
		defer kept.Close()
		kept.raw.Control(func(fd uintptr) {
			if got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); err != nil || got != tt.want {
				t.Errorf("after a body of %d bytes data may be unacknowledged for %d ms, %v; want %d", tt.body, got, err, tt.want)
			}
		})
	}
}
