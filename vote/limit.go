package vote

import (
	"sync"
	"time"
)

// A Rate is a number of votes per time. The zero value sets no limit.
type Rate struct {
	Most int64
	In   time.Duration
}

// A limiter bounds the votes of each client. It remembers a bounded number of
// clients. If there are more, it forgets those whose period is over; if that is
// not enough, unknown clients are not limited.
type limiter struct {
	rate Rate
	mu   sync.Mutex
	used map[string]*allowance // guarded by mu
}

// An allowance is the number of votes that a client has left. It refills
// steadily.
type allowance struct {
	left float64
	at   time.Time
}

const maxClients = 100_000

// take deducts the votes of each client, all or none. It returns the time to
// wait if a client has not enough votes left. tooMany reports that a client sent
// more than it may ever have at once.
func (l *limiter) take(votes map[string]int, now time.Time) (wait time.Duration, tooMany bool) {
	if l.rate.Most == 0 {
		return 0, false
	}
	most, each := float64(l.rate.Most), l.rate.In.Seconds()/float64(l.rate.Most)
	l.mu.Lock()
	defer l.mu.Unlock()
	for client, n := range votes {
		if float64(n) > most {
			return 0, true
		}
		a := l.of(client, now)
		if a == nil {
			continue
		}
		a.left = min(most, a.left+now.Sub(a.at).Seconds()/each)
		a.at = now
		if a.left < float64(n) {
			wait = max(wait, time.Duration((float64(n)-a.left)*each*float64(time.Second))+time.Second)
		}
	}
	if wait > 0 {
		return wait, false
	}
	for client, n := range votes {
		if a := l.used[client]; a != nil {
			a.left -= float64(n)
		}
	}
	return 0, false
}

// giveBack returns votes that were deducted and could not be stored.
func (l *limiter) giveBack(votes map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for client, n := range votes {
		if a := l.used[client]; a != nil {
			a.left = min(float64(l.rate.Most), a.left+float64(n))
		}
	}
}

// of returns the allowance of a client, or nil if there is no room for it. The
// caller holds the lock.
func (l *limiter) of(client string, now time.Time) *allowance {
	a := l.used[client]
	if a == nil && len(l.used) >= maxClients {
		l.forget(now)
	}
	if a == nil && len(l.used) < maxClients {
		a = &allowance{float64(l.rate.Most), now}
		l.used[client] = a
	}
	return a
}

// forget removes clients whose allowance is full. The caller holds the lock.
func (l *limiter) forget(now time.Time) {
	for c, a := range l.used {
		if now.Sub(a.at) >= l.rate.In {
			delete(l.used, c)
		}
	}
}
