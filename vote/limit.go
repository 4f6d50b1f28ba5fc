package vote

import (
	"sync"
	"time"
)

// A Rate is a number of votes in a length of time. The zero value is no limit.
type Rate struct {
	Most int64
	In   time.Duration
}

// A limiter bounds the votes of each client. It knows at most so many clients;
// when there are more, it forgets those whose time is over, and then refuses
// nobody whom it does not know.
type limiter struct {
	rate Rate
	mu   sync.Mutex
	used map[string]*allowance // guarded by mu
}

// An allowance is what a client has left: it fills evenly.
type allowance struct {
	left float64
	at   time.Time
}

const maxClients = 100_000

// take takes the votes of each client, all or none, and returns how long to wait
// when one of them has not got as many left. More than a client may ever have at
// once are tooMany.
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

// giveBack gives the votes back that were taken and could not be kept.
func (l *limiter) giveBack(votes map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for client, n := range votes {
		if a := l.used[client]; a != nil {
			a.left = min(float64(l.rate.Most), a.left+float64(n))
		}
	}
}

// of returns the allowance of a client, nil when there is no room for it. The
// lock is held.
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

// forget removes clients whose allowance is full. The lock is held.
func (l *limiter) forget(now time.Time) {
	for c, a := range l.used {
		if now.Sub(a.at) >= l.rate.In {
			delete(l.used, c)
		}
	}
}
