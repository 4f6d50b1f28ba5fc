//go:build !small

package virus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

const (
	probeEvery = 250 * time.Millisecond
	probeTime  = time.Second     // for the answer to a probe
	slow       = 2 * time.Second // a body that takes longer has its scanner probed
)

// An outage is why a scanner is left out, and since when.
type outage struct {
	since time.Time
	why   error
}

// errAway says that a scanner is left out: nobody waits for one that hangs.
func (s *scanner) errAway() error {
	if o := s.away.Load(); o != nil {
		return fmt.Errorf("clamd at %s is left out since %s, until it answers: %w", s.address, o.since.Format(time.TimeOnly), o.why)
	}
	return nil
}

// watch probes a scanner in the background, and leaves it out while it does not
// answer. why is what has gone wrong already, nil when it is only slow.
func (c *Check) watch(s *scanner, why error) {
	if why != nil {
		s.away.CompareAndSwap(nil, &outage{time.Now(), why})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil || s.probed {
		return
	}
	s.probed = true
	c.probes.Go(func() {
		for {
			err := s.ping(c.ctx)
			c.mu.Lock()
			if err == nil {
				s.away.Store(nil)
				s.probed = false
				c.mu.Unlock()
				return
			}
			c.mu.Unlock()
			s.away.CompareAndSwap(nil, &outage{time.Now(), err})
			select {
			case <-time.After(probeEvery):
			case <-c.ctx.Done():
				return
			}
		}
	})
}

// ping asks a scanner whether it is there.
func (s *scanner) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, s.network, s.address)
	if err != nil {
		return fmt.Errorf("connect to clamd: %w; is it running?", err)
	}
	defer conn.Close()
	end, _ := ctx.Deadline()
	_ = conn.SetDeadline(end) // the write says what is wrong
	if _, err := conn.Write([]byte("zPING\x00")); err != nil {
		return err
	}
	var b [16]byte
	n, err := conn.Read(b[:])
	if n > 0 && strings.HasPrefix(string(b[:n]), "PONG") {
		return nil
	}
	if err == nil {
		err = errors.New("it answers a PING with something else")
	}
	return fmt.Errorf("ask clamd whether it is there: %w", err)
}
