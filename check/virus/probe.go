//go:build !small

package virus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
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

// sickFor is how long a scanner that lacks something is asked after the others.
const sickFor = 10 * time.Second

// noteSick notes that a scanner answered that it lacks something. It answers PINGs all the same.
func (s *scanner) noteSick(why *answerError) {
	if s.ailing() == nil {
		s.sick.Store(&outage{time.Now(), why})
	}
}

// ailing returns why a scanner is asked after the others, nil if it is not.
func (s *scanner) ailing() *outage {
	if o := s.sick.Load(); o != nil && time.Since(o.since) < sickFor {
		return o
	}
	return nil
}

// order returns the scanners: those with a free place first, those that lack something last.
func (c *Check) order() []*scanner {
	if len(c.scanners) < 2 {
		return c.scanners
	}
	var well, busy, ill []*scanner
	for _, s := range c.scanners {
		switch {
		case s.ailing() != nil:
			ill = append(ill, s)
		case s.gate.Full():
			busy = append(busy, s)
		default:
			well = append(well, s)
		}
	}
	return append(append(well, busy...), ill...)
}

// A noPlaceError says that all connections to a scanner were in use. That says nothing of the scanner.
type noPlaceError struct {
	s    *scanner
	what string
}

func (e *noPlaceError) Error() string {
	return fmt.Sprintf("all connections to clamd at %s%s are in use (checks.virus.connections)", e.s.address, e.what)
}

// take waits for a place of a client. It fails if the scanner is away by then.
func (s *scanner) take(ctx context.Context, who netip.Addr) error {
	if err := s.gate.Take(ctx, who); err != nil {
		return &noPlaceError{s, ""}
	}
	if away := s.errAway(); away != nil {
		s.gate.Give(who)
		return away
	}
	return nil
}

// Problems returns what is wrong with the scanners, for the operator.
func (c *Check) Problems() (all []string) {
	for _, s := range c.scanners {
		if away := s.errAway(); away != nil {
			all = append(all, away.Error())
		} else if o := s.ailing(); o != nil {
			all = append(all, fmt.Sprintf("clamd at %s is asked after the others, since %s: %v", s.address, o.since.Format(time.TimeOnly), o.why))
		}
	}
	return all
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

// eicar is the file that every scanner takes for a virus. It is here in two parts, so that none
// takes this program for one.
const eicar = `X5O!P%@AP[4\PZX54(P^)7CC)7}` + `$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*`

// Try scans the test file of the EICAR with settings that are not in use, and returns what the
// scanner names it, "" if it finds nothing.
func Try(ctx context.Context, cfg Config, patience time.Duration) (name string, err error) {
	c, err := New(cfg, nil)
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, s := range c.scanners {
		if err := s.ping(ctx); err != nil {
			return "", err
		}
		at, err := s.dial(ctx)
		if err != nil {
			return "", err
		}
		end, _ := ctx.Deadline()
		_ = at.SetDeadline(end) // the write reports an error
		if err = at.begin(); err == nil {
			err = at.chunk([]byte(eicar))
		}
		if err == nil {
			name, err = at.end()
		}
		at.Close()
		if err != nil {
			return "", err
		}
	}
	return name, nil
}
