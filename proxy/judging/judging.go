// Package judging limits the time of judgements. A body may be made so that reading it takes for ever,
// and a few of those would take all turns to judge.
//
// While a body is judged, its [Limit] is in the list of a [Watch], which counts the seconds. When it
// has taken too long, the limit ends: it is the context of the checks, and what the readers of
// package content ask. The part that was not read is unread, and rules decide. Code that does
// not notice keeps its goroutine, but not its turn.
//
// A judgement pays for two short locks. The watch is a timer that runs only while something is
// judged.
package judging

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/fair"
)

const (
	// watchEvery is the unit of time of a limit.
	watchEvery = time.Second
	// longestWait is how long one judgement may wait for other servers. Checks have time-outs of
	// their own, which are shorter.
	longestWait = 15 * 60
	// Grace is how many seconds a judgement may go on after its limit until it is stuck: readers and
	// checks ask for the limit much more often.
	Grace = 10
	// TellFor is how long the operator is told of a judgement that took too long.
	TellFor = 10 * time.Minute
)

// Values of Limit.ended.
const (
	running int32 = iota
	tookTooLong
	clientLeft
)

// A Limit is the context of the judgements of one body. It ends when they have taken too long, or
// nobody needs them any more.
type Limit struct {
	w        *Watch
	id, host string
	who      netip.Addr
	left     func() bool // the client has left; nil: unknown
	ended    atomic.Int32
	Over     func() bool // reports whether the judgement must end

	// Guarded by w.mu. Times are in seconds.
	at                 int       // index in w.all
	bytes              int64     // of the body so far
	took, waited, late int64     // took is for all judgements of the body
	waiting            bool      // for another server
	turn               bool      // it has a turn to judge
	since              time.Time // when it got that
	lent               bool      // its turn, which it had, while it waits
	stuck              bool

	mu     sync.Mutex      // checks may keep a context for longer
	parent context.Context // of the body
	inner  context.Context // made for those who wait for Done
	cancel context.CancelFunc
}

// Prepare prepares l for a body of the transaction t. left reports whether its client has gone; nil:
// that is unknown.
func (l *Limit) Prepare(ctx context.Context, w *Watch, t *filter.Transaction, left func() bool) {
	l.w, l.id, l.host, l.who, l.left = w, t.ID, t.Host, t.Client.Addr, left
	if l.Over == nil {
		l.Over = l.pass
	}
	l.mu.Lock()
	l.parent = ctx
	l.mu.Unlock()
}

// Reset releases what belongs to the body.
func (l *Limit) Reset() {
	l.mu.Lock()
	if l.cancel != nil {
		l.cancel()
	}
	l.parent, l.inner, l.cancel = context.Background(), nil, nil
	l.mu.Unlock()
	l.id, l.host, l.left, l.took = "", "", nil, 0
	l.ended.Store(running)
}

func (l *Limit) over() bool { return l.ended.Load() != running }

// pass is over for readers, who ask after each part of their work: then it is the turn of whoever has little
// to do. A long page would have the processor for ten milliseconds at a time otherwise, at each of the steps
// of a short one.
func (l *Limit) pass() bool {
	runtime.Gosched()
	return l.over()
}

// TookTooLong reports whether the judgement ended because of its time.
func (l *Limit) TookTooLong() bool { return l.ended.Load() == tookTooLong }

// ClientLeft reports whether the judgement ended because nobody needs it any more.
func (l *Limit) ClientLeft() bool { return l.ended.Load() == clientLeft }

// current returns the context of the body, or the one that ends with the limit if there is one.
func (l *Limit) current() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner != nil {
		return l.inner
	}
	return l.parent
}

// Deadline implements [context.Context]: time that is spent is not time that passes.
func (l *Limit) Deadline() (time.Time, bool) { return l.current().Deadline() }

// Value implements [context.Context].
func (l *Limit) Value(key any) any { return l.current().Value(key) }

// Err implements [context.Context].
func (l *Limit) Err() error {
	switch l.ended.Load() {
	case tookTooLong:
		return context.DeadlineExceeded
	case clientLeft:
		return context.Canceled
	}
	return l.current().Err()
}

// Done implements [context.Context].
func (l *Limit) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner == nil {
		l.inner, l.cancel = context.WithCancel(l.parent)
		if l.over() {
			l.cancel()
		}
	}
	return l.inner.Done()
}

// end ends the judgement.
func (l *Limit) end(why int32) {
	l.ended.Store(why)
	l.mu.Lock()
	if l.cancel != nil {
		l.cancel()
	}
	l.mu.Unlock()
}

// Waiting implements [filter.Waiter]: who waits for another server needs no turn, so others have it
// meanwhile. A judgement that cannot have it back goes on without.
func (l *Limit) Waiting(on bool) {
	l.w.mu.Lock()
	had := l.lent
	l.waiting, l.lent = on, on && l.turn
	lend := l.lent
	l.turn = l.turn && !on
	l.w.mu.Unlock()
	judges := l.w.judges
	switch {
	case lend:
		judges.Charge(l.who, time.Since(l.since))
		judges.Release(1)
	case had:
		turn, _ := judges.Acquire(l, l.who, 1, fair.Forever)
		l.w.mu.Lock()
		l.turn, l.since = turn, time.Now()
		l.w.mu.Unlock()
	}
}

// IsWaiting reports whether a check waits for another server.
func (l *Limit) IsWaiting() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.waiting
}

// A Watch ends judgements.
type Watch struct {
	judges *fair.Semaphore // the turns to judge
	stuck  func()

	mu      sync.Mutex
	all     []*Limit // judgements in progress
	running bool     // a timer will look
	last    struct { // judgement that took too long
		at time.Time
		id string
	}
	log *slog.Logger
}

// NewWatch returns a watch over those who have turns of judges. It calls stuck for each judgement that
// does not end when it must.
func NewWatch(judges *fair.Semaphore, stuck func(), log *slog.Logger) *Watch {
	return &Watch{judges: judges, stuck: stuck, log: log}
}

// Begin begins a part of the judgement of a body that has so many bytes by now. turn says that it
// has a turn to judge.
func (w *Watch) Begin(l *Limit, bytes int64, turn bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.at, l.bytes, l.turn, l.since = len(w.all), bytes, turn, time.Now()
	l.waited, l.late, l.waiting, l.lent = 0, 0, false, false
	w.all = append(w.all, l)
	if !w.running {
		w.running = true
		time.AfterFunc(watchEvery, w.look)
	}
}

// Finish ends what Begin began, and reports whether the judgement still has its turn.
func (w *Watch) Finish(l *Limit) (turn bool) {
	defer func() {
		if turn {
			w.judges.Charge(l.who, time.Since(l.since))
		}
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.all) - 1
	w.all[l.at] = w.all[last]
	w.all[l.at].at = l.at
	w.all[last] = nil
	w.all = w.all[:last]
	if l.stuck {
		l.stuck = false
		w.log.Warn("the judgement of a body that did not end has ended", "id", l.id, "host", l.host)
	}
	return l.turn
}

// look counts a second of all judgements in progress, and ends those that must end.
func (w *Watch) look() {
	crowded := w.judges.Waiting() > 0
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.all {
		w.tick(l, crowded)
	}
	if w.running = len(w.all) > 0; w.running {
		time.AfterFunc(watchEvery, w.look)
	}
}

// tick counts a second of one judgement. crowded says that others wait for turns.
func (w *Watch) tick(l *Limit, crowded bool) {
	if l.waiting {
		l.waited++
	} else {
		l.took++
	}
	switch {
	case l.over():
		if l.late++; l.late >= Grace && !l.stuck {
			w.abandon(l)
		}
	case l.took > int64(filter.JudgeTime(l.bytes)/watchEvery), l.waited > longestWait:
		l.end(tookTooLong)
		w.last.at, w.last.id = time.Now(), l.id
		w.log.Error("a body took too long to judge; it counts as unread", "id", l.id, "host", l.host, "client", l.who, "bytes", l.bytes)
	case l.current().Err() != nil, crowded && l.left != nil && l.left():
		l.end(clientLeft)
	}
}

// abandon gives the turn of a judgement that does not end to others.
func (w *Watch) abandon(l *Limit) {
	l.stuck = true
	w.stuck()
	if l.turn {
		l.turn = false
		w.judges.Charge(l.who, time.Since(l.since))
		w.judges.Release(1)
	}
	w.log.Error("the judgement of a body does not end; others get its turn", "id", l.id, "host", l.host, "client", l.who, "bytes", l.bytes)
}

// Problems returns what is wrong with the judgement of bodies, for the operator.
func (w *Watch) Problems() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, longest := 0, int64(0)
	for _, l := range w.all {
		if l.stuck {
			n, longest = n+1, max(longest, l.took)
		}
	}
	if n > 0 {
		all = append(all, fmt.Sprintf("judgements of bodies do not end: %d now, the longest for %d s; others have their turns; the log names the hosts; restart to end them, and report it", n, longest))
	}
	if ago := time.Since(w.last.at); !w.last.at.IsZero() && ago < TellFor {
		all = append(all, fmt.Sprintf("a body took too long to judge %s ago (%s) and counts as unread; the log names its host", ago.Truncate(time.Second), w.last.id))
	}
	return all
}
