package nameserver

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"shuultuur/nameserver/batch"
	"shuultuur/nameserver/wire"
)

// A job is a query that waits for somebody, with everything it needs: it
// shares nothing with the goroutine that read it.
type job struct {
	lane
	buf  []byte
	to   sink
	peer batch.Peer // of a datagram
	msg  []byte     // the reply, nil for none
}

// A sink takes a job that is over, with or without a reply, and gives it back
// with release.
type sink interface{ deliver(j *job) }

// A queue holds the queries that wait and the workers that answer them. Both
// have a limit; a query that finds the queue full throws out the oldest one,
// whose client is the likeliest to have given up.
type queue struct {
	s    *Server
	ctx  context.Context // ends with the server; jobs' contexts come of it
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	wake    sync.Cond
	ring    []*job
	head, n int
	free    []*job
	bufs    [][]byte // for replies; only what is at work or written has one
	idle    int
	workers int
	closed  bool
	shares  shares
}

func newQueue(s *Server, length int) *queue {
	q := &queue{s: s, ring: make([]*job, length), shares: newShares(length + s.cfg.Workers)}
	q.wake.L = &q.mu
	q.ctx, q.stop = context.WithCancel(context.Background())
	return q
}

// put hands over what a lane left for later. peer is that of a datagram.
func (u *queue) put(l *lane, to sink, peer *batch.Peer) {
	j := u.job()
	j.takeOver(l)
	j.to = to
	if peer != nil {
		j.peer = *peer
	}
	u.mu.Lock()
	u.shares.take(j.share, 1)
	if u.closed {
		u.mu.Unlock()
		to.deliver(j)
		return
	}
	var old *job
	if u.n == len(u.ring) {
		old = u.pop()
	}
	u.ring[(u.head+u.n)%len(u.ring)] = j
	u.n++
	if u.idle > 0 {
		u.wake.Signal()
	} else if u.workers < u.s.cfg.Workers {
		u.workers++
		t := u.s.shard(u.workers)
		u.wg.Go(func() { u.work(t) })
	}
	u.mu.Unlock()
	if old != nil {
		l.lose(queueFull)
		old.msg = nil
		old.to.deliver(old)
	}
}

// job returns an empty job; there are never more than wait, are at work, and
// are being written.
func (u *queue) job() *job {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.free); n > 0 {
		j := u.free[n-1]
		u.free = u.free[:n-1]
		return j
	}
	return &job{}
}

// release takes back a job that its sink is done with.
func (u *queue) release(j *job) {
	buf := j.buf
	j.to, j.msg, j.buf, j.g, j.rs = nil, nil, nil, nil, nil
	j.r.Buf = nil
	u.mu.Lock()
	defer u.mu.Unlock()
	u.shares.take(j.share, -1)
	u.free = append(u.free, j)
	if buf != nil && cap(buf) <= keptBuffer {
		u.bufs = append(u.bufs, buf)
	}
}

// buffer returns room for a reply.
func (u *queue) buffer() []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.bufs); n > 0 {
		b := u.bufs[n-1]
		u.bufs = u.bufs[:n-1]
		return b[:0]
	}
	return make([]byte, 0, firstBuffer)
}

const (
	firstBuffer = 1232 + tsigRoom // most replies fit
	keptBuffer  = 4 << 10         // the largest that is used again
)

func (u *queue) pop() *job {
	j := u.ring[u.head]
	u.ring[u.head] = nil
	u.head = (u.head + 1) % len(u.ring)
	u.n--
	return j
}

// work answers until the queue is closed and empty.
func (u *queue) work(t *tally) {
	for {
		u.mu.Lock()
		for u.n == 0 && !u.closed {
			u.idle++
			u.wake.Wait()
			u.idle--
		}
		if u.n == 0 {
			u.mu.Unlock()
			return
		}
		j := u.pop()
		u.mu.Unlock()
		j.t, j.batch = t, false
		u.answer(j)
		j.to.deliver(j)
	}
}

// answer waits for a job's answer, no longer than its client does.
func (u *queue) answer(j *job) {
	j.msg = nil
	left := u.s.cfg.Wait - time.Since(j.q.At)
	if left <= 0 {
		j.lose(queueOld)
		return
	}
	ctx, cancel := context.WithTimeout(u.ctx, left)
	defer cancel()
	defer u.s.caught(&j.lane)
	j.buf = u.buffer()
	msg, o := j.wait(ctx, j.buf)
	if o == wire.Answered {
		j.msg = msg
		if cap(msg) > cap(j.buf) {
			j.buf = msg[:0]
		}
	}
}

// caught keeps a fault in one query from ending the program.
func (s *Server) caught(l *lane) {
	if v := recover(); v != nil {
		l.lose(panicked)
		s.logger.Error("panic while answering a query", "name", wire.Text(l.q.Name), "type", l.q.Type, "panic", v, "stack", string(debug.Stack()))
	}
}

// close ends the workers when they are done with what they have; what still
// waits for one gets no answer. stop makes them hurry.
func (u *queue) close() {
	u.mu.Lock()
	u.closed = true
	var left []*job
	for u.n > 0 {
		left = append(left, u.pop())
	}
	u.wake.Broadcast()
	u.mu.Unlock()
	for _, j := range left {
		j.msg = nil
		j.to.deliver(j)
	}
	u.wg.Wait()
	u.stop()
}

// state is how many wait and how many are at work.
func (u *queue) state() (queued, waiting int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n, u.workers - u.idle
}
