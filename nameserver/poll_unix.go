//go:build unix

package nameserver

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// A poller makes Go's scheduler poll the network. The scheduler polls when no
// goroutine can run, and else every 10 ms: during a flood, a goroutine that
// always finds datagrams would delay connections and upstreams by that time.
// Waiting for the network makes the scheduler poll, so the poller waits for a
// byte that it sends itself through a pipe. It belongs to one goroutine.
type poller struct {
	r, w *os.File
	raw  syscall.RawConn
	last time.Time

	pass func(fd uintptr) bool
	sent bool
	buf  [1]byte
}

// pollEvery is the time between two polls. One costs about 2 µs.
const pollEvery = time.Millisecond

func newPoller() (*poller, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	l := &poller{r: r, w: w}
	if l.raw, err = r.SyscallConn(); err != nil {
		l.close()
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	l.pass = func(fd uintptr) bool {
		if l.sent {
			_, _ = syscall.Read(int(fd), l.buf[:]) // the byte is there, or comes with the next
			return true
		}
		_, err := l.w.Write(l.buf[:])
		l.sent = true
		return err != nil
	}
	return l, nil
}

// poll polls, unless the last time was less than pollEvery before now.
func (l *poller) poll(now time.Time) {
	if now.Sub(l.last) < pollEvery {
		return
	}
	l.last, l.sent = now, false
	_ = l.raw.Read(l.pass) // fails when it is closed
}

func (l *poller) close() {
	l.r.Close()
	l.w.Close()
}
