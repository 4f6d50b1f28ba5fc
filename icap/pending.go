package icap

import (
	"sync"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/exchange"
)

// A transaction is a request with its response. It is reused.
type transaction struct {
	exchange.Exchange
	flow filter.Flow
	res  message.Response
	out  message.Request // the request as it is forwarded

	portal      bool         // it leads to the page on which the client signs in
	credentials string       // that came with the request
	next        *transaction // the next one with the same key, in pending
	since       time.Time
}

// pending holds requests that passed and wait for their response, by all that the
// proxy says of a request and its response alike.
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

// get removes and returns the request of a response: that with the ID, if the proxy
// returns one, or else the one that has waited longest. It returns nil if there is
// none, or if requests of several users wait and nothing says whose the response is.
func (p *pending) get(key []byte, id string, credentials []byte) *transaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	var x, before, last *transaction
	for at := p.of[string(key)]; at != nil; last, at = at, at.next {
		switch {
		case id != "" && id != at.T.ID, credentials != nil && string(credentials) != at.credentials:
		case x == nil:
			x, before = at, last
		case x.T.Client.User != at.T.Client.User:
			return nil
		}
	}
	switch {
	case x == nil:
		return nil
	case before != nil:
		before.next = x.next
	case x.next != nil:
		p.of[string(key)] = x.next
	default:
		delete(p.of, string(key))
	}
	p.n--
	x.next = nil
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
