//go:build !small

package icap

import (
	"sync"
	"time"

	"shuultuur/filter"
	"shuultuur/message"
	"shuultuur/proxy/exchange"
)

// A transaction is a request with its response. It is reused.
type transaction struct {
	exchange.Exchange
	flow filter.Flow
	res  message.Response
	out  message.Request // the request as it is forwarded

	next  *transaction // the next one with the same key, in pending
	since time.Time
}

// pending holds requests that passed and wait for their response, by client
// address, method and URL.
type pending struct {
	most int
	wait time.Duration

	mu sync.Mutex
	n  int
	of map[string]*transaction
}

func (p *pending) init(most int, wait time.Duration) {
	p.most, p.wait, p.of = most, wait, map[string]*transaction{}
	if wait == 0 {
		p.most = 0
	}
}

func (p *pending) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// put lets x wait and reports whether there is room.
func (p *pending) put(key []byte, x *transaction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n >= p.most {
		return false
	}
	p.n++
	x.since, x.next = time.Now(), nil
	at := p.of[string(key)]
	if at == nil {
		p.of[string(key)] = x
		return true
	}
	for at.next != nil {
		at = at.next
	}
	at.next = x
	return true
}

// get removes and returns the request that has waited longest for a response,
// or nil.
func (p *pending) get(key []byte) *transaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.of[string(key)]
	if x == nil {
		return nil
	}
	p.n--
	if x.next == nil {
		delete(p.of, string(key))
	} else {
		p.of[string(key)], x.next = x.next, nil
	}
	return x
}

// take removes and returns all requests that have waited long enough at a time;
// with the zero time, all.
func (p *pending) take(now time.Time) (over []*transaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, x := range p.of {
		for x != nil && (now.IsZero() || now.Sub(x.since) >= p.wait) {
			next := x.next
			x.next = nil
			over = append(over, x)
			p.n--
			x = next
		}
		if x == nil {
			delete(p.of, key)
		} else {
			p.of[key] = x
		}
	}
	return over
}
