package load

import (
	"context"
	"net/netip"
	"time"
)

// What the tools in folders below have in common with this one.

// Admit resolves host and refuses it when it is neither loopback nor one of
// allow.
func Admit(host string, allow []string) (netip.Addr, error) {
	g := guard{allow: allow, known: map[string]netip.Addr{}}
	return g.admit(host)
}

// SleepUntil waits for a moment, to some 0.1 ms, and says false when ctx is
// done first.
func SleepUntil(ctx context.Context, at time.Time) bool { return sleepUntil(ctx, at) }

// A Distribution adds up durations. It is for one goroutine at a time.
type Distribution struct{ d dist }

// Add counts one duration; one below zero is left out.
func (d *Distribution) Add(v time.Duration) { d.d.add(v) }

// Latency returns what was added up.
func (d *Distribution) Latency() Latency { return d.d.latency() }
