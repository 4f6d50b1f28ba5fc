package proxy

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Browsers try https first for an address without it, and take http when that fails. A gateway
// that completes TLS itself to explain why the origin cannot be reached or trusted makes https
// succeed, and the site, which has only http, cannot be opened. So where the origin answers on
// port 80, a client's first connections fail as they would without us. One that comes again, and
// has not taken http meanwhile, wants https, and gets the page that explains.

const (
	// firstAttempts is how long the first connections fail: a browser repeats a failed handshake
	// at once with other offers, and reloads the page of a failure after a second.
	firstAttempts = 800 * time.Millisecond
	// fallbackTime is how long a failure is remembered.
	fallbackTime = 10 * time.Minute
	maxFallbacks = 4096
	// plainTime is how long port 80 may take to answer.
	plainTime = 2 * time.Second
)

// fallbacks remember clients whose https was made to fail. If they are full, all are forgotten.
type fallbacks struct {
	mu  sync.Mutex
	all map[pin]*fallback
	any atomic.Bool // all is not empty
}

// A fallback is a client and a host whose https failed.
type fallback struct {
	since time.Time
	taken bool // the client has taken http
}

// fails reports whether the client's https to a host is to fail now.
func (f *fallbacks) fails(k pin, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.all[k]
	switch {
	case x == nil || now.Sub(x.since) > fallbackTime:
		if f.all == nil || len(f.all) >= maxFallbacks {
			f.all = map[pin]*fallback{}
		}
		f.all[k] = &fallback{since: now}
		f.any.Store(true)
		return true
	case x.taken:
		x.since = now
		return true
	}
	return now.Sub(x.since) < firstAttempts
}

// take notes that the client asks a host by http.
func (f *fallbacks) take(client netip.Addr, host string) {
	if !f.any.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.all[pin{client, host}]; x != nil {
		x.taken = true
	}
}
