package tunnel

import (
	"sync"
	"time"

	"shuultuur/lib/platform"
)

// This file parks tunnels. Most tunnels are silent for most of their life, and a goroutine that
// waits takes a stack of several KiB. So a direction in which nothing arrives for a moment ends
// its goroutine and is parked: what is left is its socket and its state. When something arrives,
// or its time is over, it continues in a fresh goroutine.

// Stillness is how long nothing arrives in a direction before it is parked.
const Stillness = time.Second

// mostStill is the most by which that grows, because parking costs as much as judging a message:
// a direction that was parked for a short time is parked later the next time.
const mostStill = 16

// A Parking holds the parked directions of tunnels. The zero Parking is ready for use.
type Parking struct {
	mu      sync.Mutex
	poller  *platform.Poller // nil before the first one is parked
	useless bool             // this system has no poller, or the listener has ended
	wg      sync.WaitGroup   // of the goroutine that waits for the poller
	at      []*Direction     // by descriptor of src; nil where none is parked
}

// park parks d unless its tunnel is about to end. If it reports true, d belongs to another
// goroutine.
func (k *Parking) park(d *Direction) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d.opposite().over.Load() || d.ended.Load() || d.t.owner.Aborted() || !k.ready(d.t.cfg.Silence) {
		return false
	}
	d.dst.SetWriteDeadline(time.Time{}) // a timer would wait in vain
	raw, err := d.socket.SyscallConn()
	if err != nil {
		return false
	}
	watched := false
	_ = raw.Control(func(fd uintptr) { // it fails if the socket was closed
		d.fd = int32(fd) //nolint:gosec // descriptors are small
		for len(k.at) <= int(d.fd) {
			k.at = append(k.at, nil)
		}
		if watched = k.poller.Watch(fd) == nil; watched {
			k.at[d.fd] = d
		}
	})
	if !watched {
		return false
	}
	d.parked, d.since = true, time.Now().UnixNano()
	d.until = d.since + int64(d.t.cfg.Silence-d.still)
	return true
}

// adaptPace adapts to the pace at which something arrives.
func (d *Direction) adaptPace(now time.Time) {
	cfg := d.t.cfg
	longer := 2 * d.still
	switch parked := time.Duration(now.UnixNano() - d.since); {
	case parked > 8*d.still:
		d.still = cfg.Still
	case longer <= mostStill*cfg.Still && (cfg.Silence == 0 || longer < cfg.Silence):
		d.still = longer
	}
	d.quiet.Store(false)
}

// ready makes a poller if there is none. idle is the longest silence of a tunnel, 0 for any.
func (k *Parking) ready(idle time.Duration) bool {
	if k.poller == nil && !k.useless {
		var err error
		if k.poller, err = platform.NewPoller(); err != nil {
			k.useless, k.poller = true, nil
			return false
		}
		poller := k.poller
		k.wg.Go(func() { k.run(poller, idle) })
	}
	return !k.useless
}

// run continues directions until close.
func (k *Parking) run(poller *platform.Poller, idle time.Duration) {
	wait := time.Duration(-1)
	if idle > 0 {
		wait = max(idle/16, 5*time.Millisecond)
	}
	next := time.Now().Add(wait)
	var arrived []int
	for open := true; open; {
		if arrived, open = poller.Wait(arrived[:0], wait); len(arrived) > 0 {
			k.arrived(arrived)
		}
		if now := time.Now(); idle > 0 && now.After(next) {
			k.expire(now, idle)
			next = now.Add(wait)
		}
	}
}

// arrived continues the directions whose sources have these descriptors.
func (k *Parking) arrived(fds []int) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, fd := range fds {
		if d := k.at[fd]; d != nil {
			d.adaptPace(now)
			k.resume(d)
		}
	}
}

// expire ends the tunnels in which nothing arrives in either direction.
func (k *Parking) expire(now time.Time, idle time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.at {
		if d == nil || now.UnixNano() < d.until {
			continue
		}
		d.quiet.Store(true)
		if d.silent = d.opposite().quiet.Load(); d.silent {
			k.resume(d)
		} else {
			d.until = now.Add(idle).UnixNano()
		}
	}
}

// wake continues d if it is parked: something else has happened to its tunnel.
func (k *Parking) wake(d *Direction) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.resume(d)
}

// resume continues d in a fresh goroutine if it is parked. k.mu must be held.
func (k *Parking) resume(d *Direction) {
	if d.parked {
		d.parked = false
		if k.at[d.fd] == d { // else its socket was closed, and another one has its descriptor
			k.at[d.fd] = nil
		}
		go d.resume()
	}
}

// Close ends k, and waits for that, when all tunnels have ended.
func (k *Parking) Close() {
	k.mu.Lock()
	k.useless = true
	if k.poller != nil {
		k.poller.Close()
		k.poller = nil
	}
	k.mu.Unlock()
	k.wg.Wait()
}

// Len returns the number of parked directions.
func (k *Parking) Len() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.at {
		if d != nil {
			n++
		}
	}
	return n
}
