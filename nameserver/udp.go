package nameserver

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/nameserver/batch"
)

// A socket is one UDP socket. One goroutine reads a batch, answers it and sends
// the replies. Another sends the replies of workers, also in batches. No other
// goroutine writes to it.
type socket struct {
	handler
	conn   *batch.Conn
	late   chan *job // of workers
	poller *poller
}

func newSocket(s *Server, c *batch.Conn, t *counters) (*socket, error) {
	poll, err := newPoller()
	if err != nil {
		return nil, err
	}
	return &socket{handler: handler{s: s, t: t, batch: true}, conn: c, late: make(chan *job, batch.Size), poller: poll}, nil
}

func (u *socket) close() {
	u.conn.Close()
	u.poller.close()
}

// read answers until the conn is stopped.
func (u *socket) read() {
	pause := time.Duration(0)
	for {
		n, err := u.conn.Read()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of one datagram, or out of memory
			pause = min(max(2*pause, time.Millisecond), 100*time.Millisecond)
			time.Sleep(pause)
			continue
		}
		pause = 0
		if u.conn.Alone() {
			u.s.alone.Do(func() {
				u.s.logger.Warn("the system refuses to read datagrams in batches (recvmmsg): each query costs a call of its own")
			})
		}
		u.answerAll(n)
		if lost := u.conn.Flush(); lost > 0 {
			u.t.mu.Lock()
			u.t.drops[unsent] += uint64(lost)
			u.t.mu.Unlock()
		}
		// The system calls keep the processor. Yielding here bounds the delay that a
		// flood causes: one batch for other goroutines, and a millisecond for their
		// network events.
		u.poller.poll(u.q.At)
		runtime.Gosched()
	}
}

// answerAll answers a batch. It reads the clock twice per batch.
func (u *socket) answerAll(n int) {
	now := time.Now()
	u.q.At = now
	u.t.mu.Lock()
	defer u.t.mu.Unlock()
	defer u.s.recovered(&u.handler)
	answered := 0
	for i := range n {
		msg, peer := u.conn.Datagram(i)
		if msg == nil {
			u.t.drops[tooLong]++
			continue
		}
		q := &u.q
		q.Client, q.Local, q.Transport = peer.Addr, peer.Local, dns.UDP
		reply, o := u.answer(msg, u.conn.Buffer(i))
		switch o {
		case dns.Answered:
			u.conn.Reply(i, reply)
			answered++
		case dns.Later:
			u.s.queue.put(&u.handler, u, peer)
		}
	}
	u.t.addTime(time.Since(now), answered)
}

// deliver implements sink.
func (u *socket) deliver(j *job) {
	if len(j.msg) == 0 {
		u.s.queue.release(j)
		return
	}
	u.late <- j
}

// write sends the replies of workers in batches until late is closed.
func (u *socket) write() {
	out := u.conn.NewSender()
	var jobs [batch.Size]*job
	for j := range u.late {
		n := 0
		for more := true; more; {
			jobs[n] = j
			n++
			out.Add(&j.peer, j.msg)
			if out.Full() {
				break
			}
			select {
			case j, more = <-u.late:
			default:
				more = false
			}
		}
		if lost := out.Flush(); lost > 0 {
			u.t.mu.Lock()
			u.t.drops[unsent] += uint64(lost)
			u.t.mu.Unlock()
		}
		for i, j := range jobs[:n] {
			u.s.queue.release(j)
			jobs[i] = nil
		}
	}
}

// run starts the goroutines that read and write.
func (u *socket) run(readers, writers *sync.WaitGroup) {
	readers.Go(u.read)
	writers.Go(u.write)
}
