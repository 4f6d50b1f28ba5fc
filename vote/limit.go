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

// take takes n votes of a client, and returns how long to wait when it has not
// got as many.
func (l *limiter) take(client string, n int, now time.Time) (wait time.Duration) {
	if l.rate.Most == 0 {
		return 0
	}
	most, each := float64(l.rate.Most), l.rate.In.Seconds()/float64(l.rate.Most)
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.used[client]
	if a == nil {
		if len(l.used) >= maxClients {
			l.forget(now)
		}
		if len(l.used) >= maxClients {
			return 0
		}
		a = &allowance{most, now}
		l.used[client] = a
	}
	a.left = min(most, a.left+now.Sub(a.at).Seconds()/each)
	a.at = now
	if need := min(float64(n), most); a.left < need {
		return time.Duration((need-a.left)*each*float64(time.Second)) + time.Second
	}
	a.left -= float64(n)
	return 0
}

// forget removes clients whose allowance is full. The lock is held.
func (l *limiter) forget(now time.Time) {
	for c, a := range l.used {
		if now.Sub(a.at) >= l.rate.In {
			delete(l.used, c)
		}
	}
}
