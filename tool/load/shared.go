package load

import (
	"context"
	"net/netip"
	"time"
)

// Functions shared with the tools in subfolders.

// Admit resolves host, and refuses it if it is neither loopback nor in allow.
func Admit(host string, allow []string) (netip.Addr, error) {
	g := guard{allow: allow, known: map[string]netip.Addr{}}
	return g.admit(host)
}

// SleepUntil sleeps until a time, with a precision of some 0.1 ms, and returns false if ctx is
// done first.
func SleepUntil(ctx context.Context, at time.Time) bool { return sleepUntil(ctx, at) }

// A Distribution adds up durations. It is for one goroutine at a time.
type Distribution struct{ d dist }

// Add adds one duration; negative ones are ignored.
func (d *Distribution) Add(v time.Duration) { d.d.add(v) }

// Latency returns the distribution.
func (d *Distribution) Latency() Latency { return d.d.latency() }
