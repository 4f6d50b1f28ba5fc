package forward

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// silentFor is how long nothing may arrive on a connection with a waiting query before the query
// is also sent on another: the server may have restarted, or the network has changed, and
// nobody says so. It leaves time for a new connection within two seconds.
const silentFor = 700 * time.Millisecond

// patienceWith is silentFor, or less where a query has little time.
func patienceWith(timeout time.Duration) time.Duration { return min(silentFor, timeout*35/100) }

// pulse tells a live connection from a dead one.
type pulse struct {
	heard   atomic.Int64 // when something arrived last, Unix nanoseconds; 0: never
	suspect atomic.Bool  // nothing arrived for too long: new queries go elsewhere
}

// beat notes that something arrived.
func (p *pulse) beat() {
	p.heard.Store(time.Now().UnixNano())
	p.suspect.Store(false)
}

// giveUp counts a connection that gets no more queries, once.
func (p *pulse) giveUp(st *stats) {
	if p.suspect.CompareAndSwap(false, true) {
		st.reconnects.Add(1)
	}
}

func (p *pulse) silentSince(t time.Time) bool { return p.heard.Load() < t.UnixNano() }

var errNotSilent = errors.New("the connection is alive")

// hedged runs first. If first still waits after a time and suspect returns true, it runs again as
// well, and the first good result counts. Both have ended when it returns.
func hedged(ctx context.Context, after time.Duration, suspect func() bool, first, again func(context.Context) (answer, error)) (answer, error) {
	ctx1, cancel1 := context.WithCancel(ctx)
	defer cancel1()
	ctx2, cancel2 := context.WithCancel(ctx)
	defer cancel2()
	second := make(chan reply, 1)
	timer := time.AfterFunc(after, func() {
		if !suspect() {
			second <- reply{err: errNotSilent}
			return
		}
		a, err := again(ctx2)
		if err == nil {
			cancel1()
		}
		second <- reply{a, err}
	})
	a, err := first(ctx1)
	if timer.Stop() {
		return a, err
	}
	if err == nil {
		cancel2()
		<-second
		return a, nil
	}
	if r := <-second; r.err == nil || errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return r.a, r.err
	}
	return a, err
}
