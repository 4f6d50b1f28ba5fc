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
	probeTime  = time.Second     // limit for the answer to a probe
	slow       = 2 * time.Second // after this time for a body, its scanner is probed
)

// An outage says why, and since when, a scanner is not used.
type outage struct {
	since time.Time
	why   error
}

// errAway returns the error of a scanner that is not in use, so that no request
// waits for it.
func (s *scanner) errAway() error {
	if o := s.away.Load(); o != nil {
		return fmt.Errorf("clamd at %s is not used until it answers, since %s: %w", s.address, o.since.Format(time.TimeOnly), o.why)
	}
	return nil
}

// watch probes a scanner in the background, and does not use it until it answers. why is the
// error that occurred, nil if the scanner is only slow.
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

// ping sends a PING to a scanner and waits for its answer.
func (s *scanner) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, s.network, s.address)
	if err != nil {
		return unreached(err)
	}
	defer conn.Close()
	end, _ := ctx.Deadline()
	_ = conn.SetDeadline(end) // the write reports an error
	if _, err := conn.Write([]byte("zPING\x00")); err != nil {
		return err
	}
	var b [16]byte
	n, err := conn.Read(b[:])
	if n > 0 && strings.HasPrefix(string(b[:n]), "PONG") {
		return nil
	}
	if err == nil {
		err = errors.New("it does not answer PONG to a PING")
	}
	return fmt.Errorf("probing clamd: %w", err)
}
