package nameserver

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"shuultuur/nameserver/batch"
	"shuultuur/nameserver/wire"
)

// A job is a query that waits for somebody. It shares nothing with the
// goroutine that read it, and is small: some 400 bytes and its message.
type job struct {
	query     []byte // as it came
	client    netip.AddrPort
	local     netip.Addr
	transport wire.Transport
	recursion bool
	followed  bool // it has waited for the answer to another already
	crowd     uint16
	at        time.Time
	g         *rules
	rs        *responders
	responder int // which one to ask
	question  uint64
	next      *job // behind it in line, or of those that follow
	follow    *job // those that ask the same
	to        sink
	peer      batch.Peer // of a datagram
	buf       []byte
	msg       []byte // the reply, nil for none
}

// A sink takes a job that is over, with or without a reply, and gives it back
// with release.
type sink interface{ deliver(j *job) }

// A queue holds the queries that wait and the workers that answer them. Both
// have a limit; when the line is full, the oldest of the domain with the most
// goes, whose client is the likeliest to have given up. Who asks the same as
// somebody at work waits for that, without a worker.
type queue struct {
	s    *Server
	ctx  context.Context // ends with the server; jobs' contexts come of it
	stop context.CancelFunc
	wg   sync.WaitGroup
	seed maphash.Seed // of questions

	mu        sync.Mutex
	wake      sync.Cond
	crowds    *crowds
	length    int             // most that are in line, and that follow
	asked     map[uint64]*job // at work, for names of others, by question
	following int
	free      []*job
	bufs      [][]byte // for replies; only what is at work or written has one
	idle      int
	workers   int
	closed    bool
}

func newQueue(s *Server, length int) *queue {
	q := &queue{s: s, length: length, seed: maphash.MakeSeed(), crowds: newCrowds(s.cfg.Workers), asked: map[uint64]*job{}}
	q.wake.L = &q.mu
	q.ctx, q.stop = context.WithCancel(context.Background())
	return q
}

// place is that of a domain among the crowds.
func (u *queue) place(domain []byte, udp bool) uint16 { return u.crowds.place(domain, udp) }

// full says whether no more workers may wait for the crowd of a domain.
func (u *queue) full(crowd uint16) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.crowds.full(crowd)
}

// put hands over what a lane left for later. peer is that of a datagram.
func (u *queue) put(l *lane, to sink, peer *batch.Peer) {
	j := u.job()
	j.hold(l)
	if j.question = 0; j.crowd != 0 {
		j.question = u.questionOf(&l.q)
	}
	j.to = to
	if peer != nil {
		j.peer = *peer
	}
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		to.deliver(j)
		return
	}
	if u.follows(j) {
		u.mu.Unlock()
		return
	}
	u.crowds.enter(j, false)
	var old *job
	if u.crowds.inLine > u.length {
		old = u.crowds.pushOut(j.crowd)
	}
	u.help()
	u.mu.Unlock()
	if old != nil {
		l.lose(queueFull)
		old.to.deliver(old)
	}
}

// questionOf is never 0.
func (u *queue) questionOf(q *wire.Query) uint64 {
	var h maphash.Hash
	h.SetSeed(u.seed)
	h.Write(q.Name)
	var b [5]byte
	binary.BigEndian.PutUint16(b[:], q.Type)
	binary.BigEndian.PutUint16(b[2:], q.Class)
	if q.DO {
		b[4] |= 1
	}
	if q.CD() {
		b[4] |= 2
	}
	h.Write(b[:])
	return h.Sum64() | 1
}

// follows has a job wait for one at work that asks the same, if there is one.
// What came of that lies ready then, unless it cannot be kept: so nobody
// follows twice.
func (u *queue) follows(j *job) bool {
	lead := u.asked[j.question]
	if lead == nil || j.followed || u.following >= u.length {
		return false
	}
	j.followed = true
	lead.follow, j.next = j, lead.follow
	u.following++
	return true
}

// take returns the next job whose crowd may have another worker, nil if there
// is none.
func (u *queue) take() *job {
	for {
		i, ok := u.crowds.ready()
		if !ok {
			return nil
		}
		j := u.crowds.leave(i)
		u.crowds.turn = u.crowds.of[i].next // the ring is as it was, or i is not in it
		if u.follows(j) {
			continue
		}
		if j.question != 0 && u.asked[j.question] == nil {
			u.asked[j.question] = j
		}
		u.crowds.begin(i)
		return j
	}
}

// help has another worker come if there is work for it.
func (u *queue) help() {
	if u.idle == 0 && u.workers == u.s.cfg.Workers {
		return
	}
	if _, ok := u.crowds.ready(); !ok {
		return
	}
	if u.idle > 0 {
		u.wake.Signal()
		return
	}
	u.workers++
	t := u.s.shard(u.workers)
	u.wg.Go(func() { u.work(t) })
}

// over ends what take began. Those that followed the job are the next of
// their crowd.
func (u *queue) over(j *job) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.crowds.end(j.crowd)
	if u.asked[j.question] == j {
		delete(u.asked, j.question)
	}
	for f := j.follow; f != nil; {
		next := f.next
		u.crowds.enter(f, true)
		u.following--
		f = next
	}
	j.follow = nil
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
	query, buf := j.query, j.buf
	*j = job{}
	if cap(query) <= keptQuery {
		j.query = query
	}
	u.mu.Lock()
	defer u.mu.Unlock()
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
	keptQuery   = 512
)

// work answers until the queue is closed and empty.
func (u *queue) work(t *tally) {
	l := &lane{s: u.s, t: t}
	for {
		u.mu.Lock()
		j := u.take()
		for j == nil && !u.closed {
			u.idle++
			u.wake.Wait()
			u.idle--
			j = u.take()
		}
		if j == nil {
			u.mu.Unlock()
			return
		}
		u.help()
		u.mu.Unlock()
		u.answer(l, j)
		u.over(j)
		j.to.deliver(j)
	}
}

// answer waits for a job's answer, no longer than its client does.
func (u *queue) answer(l *lane, j *job) {
	left := u.s.cfg.Wait - time.Since(j.at)
	if left <= 0 {
		l.lose(queueOld)
		return
	}
	ctx, cancel := context.WithTimeout(u.ctx, left)
	defer cancel()
	l.resume(j)
	defer u.s.caught(l)
	j.buf = u.buffer()
	msg, o := l.wait(ctx, j.buf)
	if o == wire.Answered {
		j.msg = msg
		if cap(msg) > cap(j.buf) {
			j.buf = msg[:0]
		}
	}
}

// hold makes a job of what a lane left for later, and resume has another lane
// go on with it.
func (j *job) hold(l *lane) {
	q := &l.q
	j.query = append(j.query[:0], q.Msg...)
	j.client, j.local, j.transport, j.at, j.recursion = q.Client, q.Local, q.Transport, q.At, q.Recursion
	j.g, j.rs, j.responder, j.crowd = l.g, l.rs, l.next, l.crowd
}

func (l *lane) resume(j *job) {
	q := &l.q
	q.Parse(j.query)
	q.Client, q.Local, q.Transport, q.At, q.Recursion = j.client, j.local, j.transport, j.at, j.recursion
	l.g, l.rs, l.next = j.g, j.rs, j.responder
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
	for u.crowds.ring > 0 {
		left = append(left, u.crowds.leave(u.crowds.turn))
	}
	u.wake.Broadcast()
	u.mu.Unlock()
	for _, j := range left {
		j.to.deliver(j)
	}
	u.wg.Wait()
	u.stop()
}

// state is how many stand in line or follow, and how many are at work.
func (u *queue) state() (queued, waiting int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.crowds.inLine + u.following, u.crowds.busy
}
