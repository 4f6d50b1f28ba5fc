package nameserver

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/nameserver/batch"
)

// A job is a waiting query. It shares nothing with the goroutine that read it,
// and is small: about 400 bytes and its message.
type job struct {
	query     []byte // as it came
	client    netip.AddrPort
	clientID  string
	local     netip.Addr
	transport dns.Transport
	streamID  uint32 // of an HTTP/2 connection
	recursion bool
	followed  bool   // it has waited for another job already
	domain    uint16 // index of its queue
	of        uint16 // index of its client; 0 for zones of our own, which have all workers
	at        time.Time
	g         *rules
	rs        *responders
	responder int // index of the one to ask
	question  uint64
	next      *job // next in its queue, or among the followers
	followers *job // jobs with the same question
	to        sink
	peer      batch.Peer // of a datagram
	buf       []byte
	msg       []byte // the reply, nil for none
}

// A sink takes a finished job, with or without a reply, and returns it with
// queue.release.
type sink interface{ deliver(j *job) }

// A queue holds the queries that wait and the workers that answer them. Both
// are limited. When the queue is full, it drops the oldest query of the domain
// with the most, whose client has most likely given up. Duplicate queries wait
// for the one in progress and occupy no worker.
type queue struct {
	s    *Server
	ctx  context.Context // ends with the server; parent of the jobs' contexts
	stop context.CancelFunc
	wg   sync.WaitGroup
	seed maphash.Seed // of questions

	mu        sync.Mutex
	wake      sync.Cond
	domains   *domainQueues
	length    int             // limit of the queued jobs, and of the followers
	leaders   map[uint64]*job // in progress, for foreign names, by question
	following int
	free      []*job
	bufs      [][]byte // for replies; only jobs in progress and being written have one
	idle      int
	workers   int
	closed    bool
}

func newQueue(s *Server, length int) *queue {
	q := &queue{s: s, length: length, seed: maphash.MakeSeed(), domains: newDomainQueues(s.limits.workers), leaders: map[uint64]*job{}}
	q.wake.L = &q.mu
	q.ctx, q.stop = context.WithCancel(context.Background())
	return q
}

// place returns the index of a domain's queue.
func (u *queue) place(domain []byte, udp bool) uint16 { return u.domains.place(domain, udp) }

// full reports whether a domain has all workers that it may have.
func (u *queue) full(domain uint16) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.domains.full(domain)
}

// put takes over the query of a handler. peer is that of a datagram.
func (u *queue) put(l *handler, to sink, peer *batch.Peer) {
	j := u.job()
	j.hold(l)
	if j.question = 0; j.domain != 0 {
		j.question, j.of = u.questionOf(&l.q), u.domains.clientOf(j)
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
	u.domains.enter(j, false)
	var old *job
	if u.domains.queued > u.length {
		old = u.domains.displace(j.domain)
	}
	u.help()
	u.mu.Unlock()
	if old != nil {
		l.drop(queueFull)
		old.to.deliver(old)
	}
}

// questionOf returns a hash of the question, never 0.
func (u *queue) questionOf(q *dns.Query) uint64 {
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

// follows makes a job wait for one in progress with the same question, if there
// is one. The answer is in the cache then, unless it cannot be cached: so no job
// follows twice.
func (u *queue) follows(j *job) bool {
	lead := u.leaders[j.question]
	if lead == nil || j.followed || u.following >= u.length {
		return false
	}
	j.followed = true
	lead.followers, j.next = j, lead.followers
	u.following++
	return true
}

// take returns the next job whose domain may have another worker, or nil.
func (u *queue) take() *job {
	for {
		i, ok := u.domains.ready()
		if !ok {
			return nil
		}
		j := u.domains.leave(i)
		u.domains.turn = u.domains.of[i].next // the ring is as it was, or i is not in it
		if u.follows(j) {
			continue
		}
		if j.question != 0 && u.leaders[j.question] == nil {
			u.leaders[j.question] = j
		}
		u.domains.begin(j)
		return j
	}
}

// help wakes or starts another worker if there is a job for it.
func (u *queue) help() {
	if u.idle == 0 && u.workers == u.s.limits.workers {
		return
	}
	if _, ok := u.domains.ready(); !ok {
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

// finish ends a job that take began. Its followers are the next jobs of their
// domain.
func (u *queue) finish(j *job) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.domains.end(j)
	if u.leaders[j.question] == j {
		delete(u.leaders, j.question)
	}
	for f := j.followers; f != nil; {
		next := f.next
		u.domains.enter(f, true)
		u.following--
		f = next
	}
	j.followers = nil
}

// job returns an empty job. There are never more than are queued, in progress
// and being written.
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

// release takes back a job from its sink.
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

// buffer returns memory for a reply.
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
	keptBuffer  = 4 << 10         // the largest that is reused
	keptQuery   = 512
)

// work answers queries until the queue is closed and empty.
func (u *queue) work(t *counters) {
	l := &handler{s: u.s, t: t}
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
		u.finish(j)
		j.to.deliver(j)
	}
}

// answer answers a job, within the time that its client waits.
func (u *queue) answer(l *handler, j *job) {
	left := u.s.limits.wait - time.Since(j.at)
	if left <= 0 {
		l.drop(queueOld)
		return
	}
	ctx, cancel := context.WithTimeout(u.ctx, left)
	defer cancel()
	l.resume(j)
	defer u.s.recovered(l)
	j.buf = u.buffer()
	msg, o := l.wait(ctx, j.buf)
	if o == dns.Answered {
		j.msg = msg
		if cap(msg) > cap(j.buf) {
			j.buf = msg[:0]
		}
	}
}

// hold copies the query of a handler into a job, and resume lets another handler
// continue with it.
func (j *job) hold(l *handler) {
	q := &l.q
	j.query = append(j.query[:0], q.Msg...)
	j.client, j.local, j.transport, j.at, j.recursion, j.streamID = q.Client, q.Local, q.Transport, q.At, q.Recursion, l.streamID
	j.clientID = q.ClientID
	j.g, j.rs, j.responder, j.domain = l.g, l.rs, l.next, l.domain
}

func (l *handler) resume(j *job) {
	q := &l.q
	q.Parse(j.query)
	q.Client, q.Local, q.Transport, q.At, q.Recursion = j.client, j.local, j.transport, j.at, j.recursion
	q.ClientID = j.clientID
	l.g, l.rs, l.next = j.g, j.rs, j.responder
}

// recovered prevents a panic in one query from ending the program.
func (s *Server) recovered(l *handler) {
	if v := recover(); v != nil {
		l.drop(panicked)
		s.logger.Error("panic while answering a query", "name", dns.Text(l.q.Name), "type", l.q.Type, "panic", v, "stack", string(debug.Stack()))
	}
}

// close lets the workers finish their jobs and waits for them. Queued jobs get
// no answer. stop ends the jobs in progress early.
func (u *queue) close() {
	u.mu.Lock()
	u.closed = true
	var left []*job
	for u.domains.ring > 0 {
		left = append(left, u.domains.leave(u.domains.turn))
	}
	u.wake.Broadcast()
	u.mu.Unlock()
	for _, j := range left {
		j.to.deliver(j)
	}
	u.wg.Wait()
	u.stop()
}

// state returns the number of queued jobs and followers, and of busy workers.
func (u *queue) state() (queued, waiting int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.domains.queued + u.following, u.domains.busy
}
