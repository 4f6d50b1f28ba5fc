package proxy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"shuultuur/state"
)

// A Memory is the shared memory of the nodes about clients that refuse our
// certificate.
type Memory interface {
	Get(ctx context.Context, key [16]byte) ([]byte, bool)
	Put(ctx context.Context, key [16]byte, value []byte, ttl time.Duration)
	Count(ctx context.Context, counts []state.Count)
}

// A pin is a client that refused our certificate for a host.
type pin struct {
	client netip.Addr
	host   string
}

// key returns the key of k in a Memory.
func (k pin) key() (key [16]byte) {
	b := append([]byte("refused certificate\x00"), k.client.String()...)
	sum := sha256.Sum256(append(append(b, 0), k.host...))
	copy(key[:], sum[:])
	return key
}

const (
	maxPins = 4096
	pinTime = 24 * time.Hour
)

// pins count refusals. If they are full, a random one makes room.
//
// If refusals lead to exceptions, the Memory has the number. It has counters only for pins
// that have refused. With each it stores the current sum, until the last refusal expires, and
// connections look up only that. So pins that never refuse take no counter.
type pins struct {
	mu     sync.Mutex
	n      map[pin]refusals
	shared int       // counters started
	since  time.Time // since this time
}

type refusals struct {
	n           int
	since, last time.Time
	shared      bool   // also counted in the Memory
	why         string // the connection cannot be decrypted; "" if the client refused our certificate
}

// add counts a refusal and returns the number of refusals.
func (s *pins) add(ctx context.Context, in *Interception, k pin) int {
	r, untold := s.addHere(k, in.remembers())
	if untold == 0 {
		return r.n
	}
	n := state.Count{Key: k.key(), Until: r.last.Add(pinTime), Add: int64(untold)}
	switch known := in.count(ctx, &n); {
	case !known:
		n.Sum = max(n.Sum, int64(r.n))
	case n.Sum < n.Add: // two nodes have subtracted the same refusals
		n.Add -= n.Sum
		in.count(ctx, &n)
	}
	in.Memory.Put(ctx, n.Key, binary.AppendVarint(nil, n.Sum), pinTime)
	return int(n.Sum)
}

// note notes that a connection of k cannot be decrypted.
func (s *pins) note(k pin, why string) {
	s.addHere(k, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.n[k]; ok { // nobody has made room meanwhile
		r.why = why
		s.n[k] = r
	}
}

// addHere counts a refusal on this node, and returns the number to add in the Memory.
func (s *pins) addHere(k pin, share bool) (r refusals, untold int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = map[pin]refusals{}
	}
	r, ok := s.n[k]
	now := time.Now()
	if now.Sub(r.last) > pinTime {
		r = refusals{since: now}
	}
	if !ok && len(s.n) >= maxPins {
		for other := range s.n {
			delete(s.n, other)
			break
		}
	}
	r.n, r.last = r.n+1, now
	switch {
	case !share:
		r.shared = false
	case r.shared:
		untold = 1
	case s.room(now):
		r.shared, untold = true, r.n
	}
	s.n[k] = r
	return r, untold
}

// room reports whether another pin may be counted in the Memory today: a client that invents
// names must not use up the counters of limits and quotas.
func (s *pins) room(now time.Time) bool {
	if now.Sub(s.since) > pinTime {
		s.shared, s.since = 0, now
	}
	s.shared++
	return s.shared <= maxPins
}

// count returns the number of refusals of k, on all nodes if known.
func (s *pins) count(ctx context.Context, in *Interception, k pin) int {
	s.mu.Lock()
	r := s.n[k]
	s.mu.Unlock()
	if time.Since(r.last) > pinTime {
		r = refusals{}
	}
	if !in.remembers() {
		return r.n
	}
	key := k.key()
	then, ok := in.Memory.Get(ctx, key)
	if !ok {
		if r.shared { // subtracted by another node, or expired
			return 0
		}
		return r.n
	}
	if n, _ := binary.Varint(then); n >= int64(in.ExceptAfter) {
		return int(n)
	}
	n := state.Count{Key: key, Until: time.Now().Add(pinTime)}
	if !in.count(ctx, &n) {
		return r.n
	}
	return int(n.Sum)
}

// forget subtracts the refusals of k, which has accepted our certificate.
func (s *pins) forget(ctx context.Context, in *Interception, k pin) {
	s.mu.Lock()
	delete(s.n, k)
	s.mu.Unlock()
	if !in.remembers() {
		return
	}
	key := k.key()
	if _, ok := in.Memory.Get(ctx, key); !ok {
		return
	}
	in.Memory.Put(ctx, key, nil, 0)
	n := state.Count{Key: key, Until: time.Now().Add(pinTime)}
	if in.count(ctx, &n); n.Sum > 0 {
		n.Add = -n.Sum
		in.count(ctx, &n)
	}
}

// remembers reports whether refusals are counted with other nodes.
func (in *Interception) remembers() bool { return in.ExceptAfter > 0 && in.Memory != nil }

// count executes n, and reports whether its sum is that of all nodes.
func (in *Interception) count(ctx context.Context, n *state.Count) bool {
	counts := []state.Count{*n}
	in.Memory.Count(ctx, counts)
	*n = counts[0]
	return n.Known
}

// A Refusal is a host whose connections cannot be decrypted: a suggested exception.
type Refusal struct {
	Host    string    `json:"host"`
	Why     string    `json:"why"`
	Remedy  string    `json:"remedy"`
	Clients int       `json:"clients"` // of whose connections this is so
	Times   int       `json:"times"`
	Since   time.Time `json:"since"`
	Last    time.Time `json:"last"`
}

// refusals lists what s has counted within a day.
func (s *pins) refusals(list []Refusal, why, remedy string) []Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	type hostWhy struct{ host, why string }
	by := map[hostWhy]*Refusal{}
	for k, r := range s.n {
		if time.Since(r.last) > pinTime {
			continue
		}
		w := hostWhy{k.host, cmp.Or(r.why, why)}
		h := by[w]
		if h == nil {
			h = &Refusal{Host: k.host, Why: w.why, Remedy: remedy, Since: r.since, Last: r.last}
			by[w] = h
		}
		h.Clients++
		h.Times += r.n
		if r.since.Before(h.Since) {
			h.Since = r.since
		}
		if r.last.After(h.Last) {
			h.Last = r.last
		}
	}
	for _, h := range by {
		list = append(list, *h)
	}
	return list
}
