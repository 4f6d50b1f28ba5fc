package validate

import (
	"context"
	miekg "github.com/miekg/dns"
	"sync"
	"time"
)

// How long results are remembered.
const (
	mostEntries  = 20000
	longestKeep  = 24 * time.Hour
	shortestKeep = time.Second
	negativeKeep = 15 * time.Minute // maximum for an unsigned zone, and for the absence of a zone
	bogusKeep    = 10 * time.Second
	unknownKeep  = time.Minute // while it is not known whether the chain of trust leads to a domain
)

// An entry is the remembered state of a zone's keys or its delegation.
type entry struct {
	keys  []*miekg.DNSKEY
	ds    []*miekg.DS
	err   error // errInsecure, errNoCut or a fault
	ttl   time.Duration
	until time.Time
}

// A memory remembers entries. Duplicate requests wait for the one in progress. Requests lead
// only from a zone to its ancestors, so there are no cycles.
type memory struct {
	mu      sync.Mutex
	entries map[setKey]entry
	flights map[setKey]chan struct{}
}

func (m *memory) get(ctx context.Context, k setKey, now func() time.Time, fetch func() (entry, error)) (entry, error) {
	for {
		m.mu.Lock()
		if e, ok := m.entries[k]; ok && now().Before(e.until) {
			m.mu.Unlock()
			return e, nil
		}
		flight := m.flights[k]
		if flight == nil {
			flight = make(chan struct{})
			m.flights[k] = flight
			m.mu.Unlock()
			return m.fly(k, flight, now, fetch)
		}
		m.mu.Unlock()
		select {
		case <-flight:
			// It is remembered now, or it is our turn to try.
		case <-ctx.Done():
			return entry{}, ctx.Err()
		}
	}
}

func (m *memory) fly(k setKey, flight chan struct{}, now func() time.Time, fetch func() (entry, error)) (entry, error) {
	e, err := fetch()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.flights, k)
	close(flight)
	if err != nil {
		return e, err
	}
	for x := range m.entries { // in no particular order: an evicted entry is fetched again
		if len(m.entries) < mostEntries {
			break
		}
		delete(m.entries, x)
	}
	e.until = now().Add(min(max(e.ttl, shortestKeep), longestKeep))
	m.entries[k] = e
	return e, nil
}
