package proxy

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/platform"
	"shuultuur/proxy/streams"
)

// This file watches requests that wait: for a turn, a judge, the origin's head or its next byte.
// Their goroutines see nothing of the client meanwhile, so the listener looks at all of them from
// time to time. A request whose client has gone ends, with its connection to the origin. One that
// has waited for its origin for longer than the policy's patience gives up its turn, because
// waiting takes no processor.
//
// A client that has closed its connection looks like one that has only ended its own side and
// still reads. What is sent to it tells them apart: a closed connection answers with a reset. So
// a client of HTTP/1.1 that has ended its side gets a 102 (Processing), which it may ignore (RFC
// 9110 section 15.2). Where none can be sent, because the response has begun or the client speaks
// HTTP/1.0, a client that has ended its side counts as gone when nothing moves.

const (
	// vigilEvery is the interval between two looks.
	vigilEvery = 200 * time.Millisecond
	// vigilGrace is how long nothing moves after the end of a client's side until it is asked
	// whether it is there, or counts as gone: two looks, and a little less because tickers are
	// not exact. With one look before and one after it, the end is noticed within a second.
	vigilGrace = 2*vigilEvery - vigilEvery/4
	// longestTurn is the longest time for which a request keeps its turn while it waits for its
	// origin, if bodies are held without end.
	longestTurn = 2 * time.Second
)

// processing is the response that asks a client whether it is there.
const processing = "HTTP/1.1 102 Processing\r\n\r\n"

// A vigil is what others see of the request of a connection.
type vigil struct {
	begun atomic.Int64 // when it began, in Unix nanoseconds; 0 between requests
	moved atomic.Int64 // when bytes last went to the client
	lent  atomic.Int64 // when it gives up its turn; 0 for not yet
	gone  atomic.Bool  // its client has gone

	mu     sync.Mutex // held while something is sent for the request by others
	silent bool       // nothing was sent to the client, which takes 1xx responses; guarded by mu

	// Guarded by listener.mu.
	ended int64 // when the client's side was seen ended; 0 if it was not
	asked bool  // it got a 102
}

// begin begins the vigil of a request. http11 says that its client takes 1xx responses.
func (v *vigil) begin(now time.Time, http11 bool) {
	v.mu.Lock()
	v.silent = http11
	v.mu.Unlock()
	v.moved.Store(now.UnixNano())
	v.begun.Store(now.UnixNano())
}

// end ends it.
func (v *vigil) end() {
	v.begun.Store(0)
	v.lent.Store(0)
}

// speak says that the response begins.
func (v *vigil) speak() {
	v.mu.Lock()
	v.silent = false
	v.mu.Unlock()
}

// reset prepares v for another connection.
func (v *vigil) reset() {
	v.end()
	v.gone.Store(false)
	v.ended, v.asked = 0, false
}

// lendTurn lets the request keep its turn no longer than for the policy's patience, because from
// now on it waits for the network.
func (x *request) lendTurn() {
	d := x.t.Verdict.Patience
	if d <= 0 || d > longestTurn {
		d = longestTurn
	}
	x.c.vigil.lent.Store(time.Now().Add(d).UnixNano())
}

// watch looks at the requests of the listener until stop is closed.
func (l *listener) watch(stop <-chan struct{}) {
	tick := time.NewTicker(vigilEvery)
	defer tick.Stop()
	minute := filter.MinuteOf(time.Now())
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			l.look(now.UnixNano())
			if begun := filter.MinuteOf(now); begun != minute {
				l.follow(minute, now)
				minute = begun
			}
		}
	}
}

// look looks at all requests once.
func (l *listener) look(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		if m := c.streams.Load(); m != nil {
			m.Each(func(s streams.Server) { s.(*conn).takeTurn(now) }) // the connection itself notices its end
			continue
		}
		c.takeTurn(now)
		if c.hasLeft(now) {
			c.vigil.gone.Store(true)
			c.p.counters.add(requestsAbandoned)
			c.Abort()
		}
	}
}

// takeTurn takes the turn of a request that has waited for its origin for too long.
func (c *conn) takeTurn(now int64) {
	if at := c.vigil.lent.Load(); at != 0 && now > at {
		c.x.yield()
	}
}

// hasLeft reports whether the client of a request has gone; listener.mu is held.
func (c *conn) hasLeft(now int64) bool {
	v := &c.vigil
	begun := v.begun.Load()
	if begun == 0 || now-begun < int64(vigilEvery) || c.tunnel.Load() != nil || v.gone.Load() {
		v.ended, v.asked = 0, false
		return false
	}
	ended, broken := ended(c.socket)
	switch {
	case broken:
		return true
	case !ended:
		v.ended, v.asked = 0, false
		return false
	case v.ended < begun:
		v.ended, v.asked = now, false
		return false
	case now-max(v.ended, v.moved.Load()) < int64(vigilGrace):
		return false
	}
	return !c.ask()
}

// ask asks a client that has ended its side whether it is there: if not, the connection will be
// broken. It reports false if the client cannot be asked.
func (c *conn) ask() bool {
	v := &c.vigil
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.silent {
		return false
	}
	if !v.asked {
		v.asked = true
		_, err := c.c.Write([]byte(processing))
		return err == nil
	}
	return true
}

// ended returns what [platform.Ended] says of a client's socket.
func ended(socket net.Conn) (ended, broken bool) {
	s, ok := socket.(syscall.Conn)
	if !ok {
		return false, false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true, true
	}
	if err := raw.Control(func(fd uintptr) { ended, broken = platform.Ended(fd) }); err != nil {
		return true, true
	}
	return ended, broken
}
