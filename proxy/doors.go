package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"shuultuur/lib/handover"
	"shuultuur/lib/setting"
)

// A Door is a set of listening addresses from the settings, with the function that serves
// them.
type Door struct {
	Key      string // relative to listen
	Addrs    []setting.Address
	KeepDest bool // TPROXY
	Serve    func(context.Context, net.Listener) error
	open     []net.Listener
}

// Doors are all listeners of clients.
type Doors struct {
	All []*Door
	Own func([]netip.AddrPort) // called with the addresses of the doors
}

// Listen opens all doors, or none.
func (s *Doors) Listen(ctx context.Context) error {
	var own []netip.AddrPort
	for _, d := range s.All {
		for _, a := range d.Addrs {
			on, err := Listen(handover.For(ctx, d.Key), string(a), d.KeepDest)
			if err != nil {
				return errors.Join(setting.At(d.Key, fmt.Errorf("cannot listen on %q: %w", a, err)), s.Close())
			}
			d.open = append(d.open, on)
			if a, ok := on.Addr().(*net.TCPAddr); ok {
				own = append(own, a.AddrPort())
			}
		}
	}
	s.Own(own)
	return nil
}

// Run serves until ctx ends or a door fails.
func (s *Doors) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, d := range s.All {
		for _, l := range d.open {
			wg.Go(func() {
				defer stop() // when one ends, all end
				if err := d.Serve(ctx, l); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			})
		}
	}
	<-ctx.Done()
	wg.Wait()
	return errors.Join(errs...)
}

// Close closes the doors.
func (s *Doors) Close() error {
	var errs []error
	for _, d := range s.All {
		for _, l := range d.open {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// At returns the address of the first door with this key, "" if it is not open.
func (s *Doors) At(key string) string {
	for _, d := range s.All {
		if d.Key == key && len(d.open) > 0 {
			return d.open[0].Addr().String()
		}
	}
	return ""
}
