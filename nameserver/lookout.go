package nameserver

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// A lookout has Go's scheduler look at the network. The scheduler does that
// when nothing else is left to run, and else every 10 ms: a goroutine that
// always finds datagrams, as in a flood, keeps connections and upstreams
// waiting for as long. To wait for the network oneself makes it look, so a byte
// is sent through a pipe. It belongs to one goroutine.
type lookout struct {
	r, w *os.File
	raw  syscall.RawConn
	last time.Time

	pass func(fd uintptr) bool
	sent bool
	buf  [1]byte
}

// lookEvery is how often it looks. Each time costs some 2 µs.
const lookEvery = time.Millisecond

func newLookout() (*lookout, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	l := &lookout{r: r, w: w}
	if l.raw, err = r.SyscallConn(); err != nil {
		l.close()
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	l.pass = func(fd uintptr) bool {
		if l.sent {
			_, _ = syscall.Read(int(fd), l.buf[:]) // it is there, or comes with the next
			return true
		}
		_, err := l.w.Write(l.buf[:])
		l.sent = true
		return err != nil
	}
	return l, nil
}

// look looks, if the last time was long enough before now.
func (l *lookout) look(now time.Time) {
	if now.Sub(l.last) < lookEvery {
		return
	}
	l.last, l.sent = now, false
	_ = l.raw.Read(l.pass) // fails when it is closed
}

func (l *lookout) close() {
	l.r.Close()
	l.w.Close()
}
