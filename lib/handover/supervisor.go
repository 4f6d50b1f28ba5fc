package handover

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// A Supervisor is notified of the state of the program, as sd_notify(3) describes:
// by datagrams to the socket named in the environment. Without a socket, nothing is
// sent.
type Supervisor struct{ socket string }

// NewSupervisor returns the one of the environment.
func NewSupervisor() Supervisor { return Supervisor{os.Getenv("NOTIFY_SOCKET")} }

// Send sends one or more assignments, separated by line feeds.
func (s Supervisor) Send(state string) error {
	if s.socket == "" {
		return nil
	}
	name := s.socket
	if name[0] == '@' { // abstract
		name = "\x00" + name[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("telling the service manager %q: %w", state, err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("telling the service manager %q: %w", state, err)
	}
	return nil
}

// Watch notifies the supervisor that the program is alive: at once, because the previous
// process may have done so long ago, and then at half the interval that the supervisor allows,
// while alive returns true.
func (s Supervisor) Watch(ctx context.Context, alive func() bool) {
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 || s.socket == "" {
		return
	}
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return
	}
	tick := time.NewTicker(time.Duration(us) * time.Microsecond / 2)
	defer tick.Stop()
	for {
		if alive() {
			_ = s.Send("WATCHDOG=1") // the next one may get through
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
