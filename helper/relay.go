package helper

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync"
	"time"
)

// Limits of a relay.
const (
	waitAway   = 2 * time.Second // time that a question waits for an absent gateway
	waitAnswer = 30 * time.Second
	redial     = 50 * time.Millisecond
	tick       = 100 * time.Millisecond
	maxFailed  = 1024 // questions that are remembered after BH
)

// A waiting is an open question.
type waiting struct {
	channel, text, line string // text is the line without the channel
	since               time.Time
}

// A relay passes questions to a gateway and returns the answers.
type relay struct {
	socket, kind string
	out          io.Writer
	down         string // URL to which requests go while no gateway answers

	conn    net.Conn // nil while the gateway is absent
	waiting []waiting
	failed  map[string]time.Time // when questions were answered with BH, which Squid asks again at once
}

// Relay passes Squid's questions from in to the gateway at socket, and its
// answers to out, until in ends and all are answered. If the connection is
// lost, it connects again and sends the questions that have arrived meanwhile.
// A question that waits longer than 2 s for a gateway, or 30 s for its answer,
// is answered with BH; kind rewrite gets a redirection to down unless that is
// "". Squid asks a question that was answered with BH twice more: while no gateway
// is there, it does not wait again.
func Relay(ctx context.Context, socket, kind, down string, in io.Reader, out io.Writer) error {
	r := &relay{socket: socket, kind: kind, out: out, down: down, failed: map[string]time.Time{}}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	questions := make(chan inputLine)
	var broke error
	go func() { // a read of in cannot be interrupted: it ends when Squid closes its end, or with the process
		defer close(questions)
		b := bufio.NewReaderSize(in, maxLine)
		for {
			line, err := readLine(b)
			long := err == errLong
			if err != nil && !long {
				if err != io.EOF {
					broke = err
				}
				return
			}
			select {
			case questions <- inputLine{line, long}:
			case <-ctx.Done():
				return
			}
		}
	}()
	err := r.run(ctx, questions)
	if err == nil && ctx.Err() == nil {
		err = broke
	}
	return err
}

// An inputLine is a line from Squid, or the beginning of an overlong one.
type inputLine struct {
	line string
	long bool
}

// dialled is the result of an attempt to connect.
type dialled struct {
	conn net.Conn
	err  error
}

// run passes questions on and answers back until there are none or ctx ends. Long because all
// cases of one select share its variables.
func (r *relay) run(ctx context.Context, questions <-chan inputLine) error {
	conns, answers := make(chan dialled), make(chan answer)
	ctx, stop := context.WithCancel(ctx)
	var others sync.WaitGroup // that dial and listen
	defer others.Wait()
	defer r.disconnect()
	defer stop()
	dial := func(wait time.Duration) {
		others.Go(func() {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			d := net.Dialer{Timeout: waitAway}
			c, err := d.DialContext(ctx, "unix", r.socket)
			select {
			case conns <- dialled{c, err}:
			case <-ctx.Done():
				if c != nil {
					c.Close()
				}
			}
		})
	}
	dial(0)
	beat := time.NewTicker(tick)
	defer beat.Stop()
	for questions != nil || len(r.waiting) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case q, ok := <-questions:
			if !ok {
				questions = nil
				continue
			}
			channel, text := channelOf(r.kind, q.line)
			if q.long {
				if _, err := r.out.Write(answered(channel, tooLong(r.kind))); err != nil {
					return err
				}
				continue
			}
			if err := r.question(waiting{channel, text, q.line, time.Now()}); err != nil {
				return err
			}
		case d := <-conns:
			if d.err != nil {
				dial(redial)
				continue
			}
			r.conn = d.conn
			others.Go(func() { listen(ctx, d.conn, answers) })
			_, _ = fmt.Fprintf(r.conn, "%s%s\n", greeting, r.kind) // if it fails, reading answers fails too
			for _, w := range r.waiting {
				r.ask(w.line)
			}
		case a := <-answers:
			if a.from != r.conn {
				continue // from an earlier connection
			}
			if a.over {
				r.disconnect()
				dial(redial)
				continue
			}
			if err := r.answer(a.line); err != nil {
				return err
			}
		case now := <-beat.C:
			late, err := r.expire(now)
			if err != nil {
				return err
			}
			if late && r.conn != nil {
				r.disconnect() // otherwise its next answer would be matched to another question
				dial(redial)
			}
		}
	}
	return nil
}

// question asks a question, or answers it if it failed a moment ago.
func (r *relay) question(w waiting) error {
	if at, again := r.failed[w.text]; again && r.conn == nil && w.since.Sub(at) < waitAway {
		return r.fail(w)
	}
	r.waiting = append(r.waiting, w)
	r.ask(w.line)
	return nil
}

// fail answers a question that no gateway answers.
func (r *relay) fail(w waiting) error {
	if len(r.failed) < maxFailed {
		r.failed[w.text] = time.Now()
	}
	_, err := r.out.Write(answered(w.channel, r.noGateway()))
	return err
}

func (r *relay) ask(line string) {
	if r.conn == nil {
		return
	}
	_ = r.conn.SetWriteDeadline(time.Now().Add(waitAway)) // fails if conn is closed, and then so does the write
	if _, err := io.WriteString(r.conn, line+"\n"); err != nil {
		r.conn.Close() // its reader reports the end
	}
}

func (r *relay) disconnect() {
	if r.conn != nil {
		r.conn.Close()
		r.conn = nil
	}
}

// An answer is a line from the gateway, or the end of its connection.
type answer struct {
	from net.Conn
	line string
	over bool
}

// listen reads answers until the connection ends.
func listen(ctx context.Context, c net.Conn, to chan<- answer) {
	b := bufio.NewReaderSize(c, maxLine)
	for over := false; !over; {
		line, err := readLine(b)
		over = err != nil
		select {
		case to <- answer{c, line, over}:
		case <-ctx.Done():
			return
		}
	}
}

// answer passes an answer on to Squid.
func (r *relay) answer(line string) error {
	channel, _ := number(line)
	for i, w := range r.waiting {
		if w.channel == channel {
			r.waiting = append(r.waiting[:i], r.waiting[i+1:]...)
			_, err := io.WriteString(r.out, line+"\n")
			return err
		}
	}
	return nil // it arrived too late
}

// expire answers questions that have waited too long, and reports whether there
// were any.
func (r *relay) expire(now time.Time) (late bool, err error) {
	most := waitAnswer
	if r.conn == nil {
		most = waitAway
	}
	left := r.waiting[:0]
	for _, w := range r.waiting {
		if now.Sub(w.since) < most {
			left = append(left, w)
			continue
		}
		late = true
		if e := r.fail(w); e != nil {
			err = e
		}
	}
	r.waiting = left
	maps.DeleteFunc(r.failed, func(_ string, at time.Time) bool { return now.Sub(at) >= waitAway })
	return late, err
}

// noGateway returns the answer if there is no gateway.
func (r *relay) noGateway() []byte {
	if r.kind == "rewrite" && r.down != "" {
		return appendPair([]byte("OK status=302"), "url", r.down, true)
	}
	return broken("no gateway answers on " + strings.ToValidUTF8(r.socket, "?"))
}
