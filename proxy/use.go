package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/proxy/tunnel"
)

// This file follows requests that go on: uploads, long answers, streams, tunnels. When a minute begins,
// the listener looks at each of them: what has moved in the last one counts as used, and the policy
// judges the request again. One that may not go on is cut. Requests that are over before a minute begins
// are not looked at.

// A use is the use of a connection's current request while it goes on.
type use struct {
	moved   atomic.Int64 // bytes of its body and its answer
	stirred atomic.Int64 // how often bytes moved

	mu      sync.Mutex
	of      *filter.Transaction // what is known of the request; nil: it does not go on
	tunnel  *tunnel.Tunnel      // that it has become, nil if none
	bytes   int64               // moved at the last look
	stir    int64               // stirred at the last look
	minutes filter.Minutes      // in which bytes moved, until then; its memory is used again
	ends    string              // why it was cut, "" if it was not
}

// followed are unused transactions of uses.
var followed = sync.Pool{New: func() any { return new(filter.Transaction) }}

// count counts bytes that have moved.
func (u *use) count(n int64) {
	if n > 0 {
		u.moved.Add(n)
		u.stirred.Add(1)
	}
}

// begin says that the request of t goes on, as tunnel w if that is not nil, or what more is known of it.
// The owner of t calls it.
func (u *use) begin(t *filter.Transaction, w *tunnel.Tunnel) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var charged int64
	var known int
	if u.of == nil {
		u.of = followed.Get().(*filter.Transaction)
		u.bytes, u.stir, u.minutes, u.ends = 0, 0, u.minutes[:0], ""
		u.minutes.Add(filter.MinuteOf(t.Start))
	} else {
		charged, known = u.of.Charged, u.of.Followed
	}
	t.Follow(u.of)
	u.of.Charged, u.of.Followed = charged, known
	u.tunnel = w
}

// now returns what has moved until now.
func (u *use) now() (bytes, stirred int64) {
	bytes, stirred = u.moved.Load(), u.stirred.Load()
	if u.tunnel != nil {
		b, s := u.tunnel.Moved()
		bytes, stirred = bytes+b, stirred+s
	}
	return bytes, stirred
}

// look counts what has moved in a minute, which is over or now, and reports whether something has.
func (u *use) look(minute int64) (used filter.Use) {
	bytes, stirred := u.now()
	used = filter.Use{Minute: minute, Moved: stirred != u.stir, Bytes: bytes - u.bytes}
	if used.Moved {
		u.minutes.Add(minute)
	}
	u.bytes, u.stir = bytes, stirred
	return used
}

// follow looks at the request when a minute is over, and has it judged again. cut cuts the connection
// if it may not go on.
func (u *use) follow(minute int64, now time.Time, by filter.Follower, cut func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil || u.ends != "" {
		return
	}
	used := u.look(minute)
	if by == nil {
		return
	}
	if u.ends = by.Follow(u.of, used, now); u.ends != "" {
		cut()
		return
	}
	if used.Moved {
		u.of.Charged += used.Bytes
	}
}

// end says that the request of t is over, and tells t what was used.
func (u *use) end(t *filter.Transaction) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of != nil {
		u.look(filter.MinuteOf(time.Now()))
		t.Minutes, t.Charged, t.Followed = u.minutes, u.of.Charged, u.of.Followed
		if u.ends != "" {
			if t.Note != "" {
				t.Note += "; "
			}
			t.Note += "ended: " + u.ends
		}
		found := u.of.Findings
		clear(found)
		*u.of = filter.Transaction{Findings: found[:0]}
		followed.Put(u.of)
	}
	u.of, u.tunnel = nil, nil
	u.moved.Store(0)
	u.stirred.Store(0)
}
