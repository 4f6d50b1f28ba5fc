package nameserver

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"shuultuur/nameserver/batch"
	"shuultuur/nameserver/wire"
)

// A socket is one UDP socket: one goroutine reads a batch, answers it and
// sends the replies; another sends the replies that came later, a batch at a
// time too. Nobody else writes to it.
type socket struct {
	lane
	conn   *batch.Conn
	late   chan *job
	others *lookout
}

func newSocket(s *Server, c *batch.Conn, t *tally) (*socket, error) {
	others, err := newLookout()
	if err != nil {
		return nil, err
	}
	return &socket{lane: lane{s: s, t: t, batch: true}, conn: c, late: make(chan *job, batch.Size), others: others}, nil
}

func (u *socket) close() {
	u.conn.Close()
	u.others.close()
}

// read answers until the conn is stopped.
func (u *socket) read() {
	pause := time.Duration(0)
	for {
		n, err := u.conn.Read()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of a datagram, or out of memory for a moment
			pause = min(max(2*pause, time.Millisecond), 100*time.Millisecond)
			time.Sleep(pause)
			continue
		}
		pause = 0
		u.answerAll(n)
		if lost := u.conn.Flush(); lost > 0 {
			u.t.mu.Lock()
			u.t.lost[unsent] += uint64(lost)
			u.t.mu.Unlock()
		}
		// These calls keep the processor. Here others have their turn, so that a
		// flood delays them by no more than a batch, and what comes to them from
		// the network by a millisecond.
		u.others.look(u.q.At)
		runtime.Gosched()
	}
}

// answerAll answers the batch that was read. There is one reading of the clock
// at its begin and one at its end.
func (u *socket) answerAll(n int) {
	now := time.Now()
	u.q.At = now
	u.t.mu.Lock()
	defer u.t.mu.Unlock()
	defer u.s.caught(&u.lane)
	answered := 0
	for i := range n {
		msg, peer := u.conn.Datagram(i)
		if msg == nil {
			u.t.lost[tooLong]++
			continue
		}
		q := &u.q
		q.Client, q.Local, q.Transport = peer.Addr, peer.Local, wire.UDP
		reply, o := u.answer(msg, u.conn.Buffer(i))
		switch o {
		case wire.Answered:
			u.conn.Reply(i, reply)
			answered++
		case wire.Later:
			u.s.queue.put(&u.lane, u, peer)
		}
	}
	u.t.lasted(time.Since(now), answered)
}

// deliver implements sink.
func (u *socket) deliver(j *job) {
	if len(j.msg) == 0 {
		u.s.queue.release(j)
		return
	}
	u.late <- j
}

// write sends late replies until late is closed: all there are at once.
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
			u.t.lost[unsent] += uint64(lost)
			u.t.mu.Unlock()
		}
		for i, j := range jobs[:n] {
			u.s.queue.release(j)
			jobs[i] = nil
		}
	}
}

// run reads and writes until the server stops; it returns when nothing is read
// any more. done is called when the last reply may be written.
func (u *socket) run(readers, writers *sync.WaitGroup) {
	readers.Go(u.read)
	writers.Go(u.write)
}
