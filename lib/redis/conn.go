package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/setting"
)

// A conn is one connection. Two goroutines serve it until it fails, permanently.
type conn struct {
	addr string
	sock net.Conn
	// push, if set, gets unsolicited messages of the server. It must not block.
	push func(Reply)
	// gone, if set, is called after the last push.
	gone func()
	// subscribed means that an error may come without a command: it refuses a subscription,
	// which has no other reply.
	subscribed bool

	wake chan struct{} // there is something to write
	dead chan struct{} // closed when the connection has failed
	// progress counts replies, and each 64 KiB of one.
	progress atomic.Int64

	mu    sync.Mutex
	out   []byte   // guarded by mu: bytes to write
	queue []*Batch // guarded by mu: from first on, batches that wait for replies
	first int      // guarded by mu
	err   error    // guarded by mu: why it has failed

	watch *time.Timer // calls look
	seen  int64       // guarded by mu: progress at the last check
	still int         // guarded by mu: checks without progress while a batch waits
	idle  int         // guarded by mu: checks while no batch waits
}

// looks is how often a connection is checked within the permitted time of silence.
const looks = 4

// A dialer makes connections.
type dialer struct {
	tls                *setting.Renewed[*tls.Config] // nil: plain
	username, password string
	db                 int
	tracked            bool // the server should track keys that we request
}

func (c *Config) dialer() (d dialer, err error) {
	d = dialer{username: c.Username, password: c.Password, db: c.DB}
	d.tls, err = c.tls()
	return d, err
}

// socket connects, with TLS if configured.
func (d *dialer) socket(ctx context.Context, addr string) (net.Conn, error) {
	plain := net.Dialer{KeepAlive: silence}
	if d.tls != nil {
		return (&tls.Dialer{NetDialer: &plain, Config: d.tls.Current()}).DialContext(ctx, "tcp", addr)
	}
	return plain.DialContext(ctx, "tcp", addr)
}

// dial connects and authenticates. The caller runs the connection's goroutines with run, which
// must be called before anything is received.
func (d *dialer) dial(ctx context.Context, addr string, run func(func()), set func(*conn)) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	sock, err := d.socket(ctx, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{addr: addr, sock: sock, wake: make(chan struct{}, 1), dead: make(chan struct{})}
	if set != nil {
		set(c)
	}
	c.mu.Lock()
	c.watch = time.AfterFunc(silence/looks, c.check)
	c.mu.Unlock()
	run(c.write)
	run(c.read)
	if err := d.greet(ctx, c); err != nil {
		c.fail(err)
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	return c, nil
}

// greet sends the first commands.
func (d *dialer) greet(ctx context.Context, c *conn) error {
	var b Batch
	hello := []string{"HELLO", "3"}
	if d.username != "" || d.password != "" {
		user := d.username
		if user == "" {
			user = "default"
		}
		hello = append(hello, "AUTH", user, d.password)
	}
	b.Add(append(hello, "SETNAME", clientName)...)
	if d.db > 0 {
		b.Add("SELECT", strconv.Itoa(d.db))
	}
	if d.tracked {
		b.Add("CLIENT", "TRACKING", "ON", "OPTIN")
	}
	if err := c.do(ctx, &b); err != nil {
		if ctx.Err() != nil {
			err = errSilent
		}
		return err
	}
	i, err := b.Failed()
	if i == 0 && Code(err) == "ERR" {
		return fmt.Errorf("%w (Redis 6.0 or later is needed, or Valkey)", err)
	}
	return err
}

// do sends a batch and waits for the replies.
func (c *conn) do(ctx context.Context, b *Batch) error {
	if err := c.send(b); err != nil {
		return err
	}
	return b.wait(ctx)
}

// send sends a batch. Its replies come later, unless there is an error.
func (c *conn) send(b *Batch) error {
	b.begin()
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return c.err
	}
	if len(c.queue)-c.first >= maxQueue || len(c.out) > 0 && len(c.out)+len(b.out) > maxOutput {
		c.mu.Unlock()
		return ErrBusy
	}
	c.out = append(c.out, b.out...)
	c.queue = append(c.queue, b)
	c.mu.Unlock()
	c.nudge()
	return nil
}

// post sends a command without a reply, as in a subscription.
func (c *conn) post(b *Batch) {
	c.mu.Lock()
	c.out = append(c.out, b.out...)
	c.mu.Unlock()
	c.nudge()
}

func (c *conn) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write writes out until the connection fails.
func (c *conn) write() {
	var out []byte
	for {
		select {
		case <-c.wake:
		case <-c.dead:
			return
		}
		c.mu.Lock()
		out, c.out = c.out, out[:0]
		c.mu.Unlock()
		if _, err := c.sock.Write(out); err != nil {
			c.fail(err)
			return
		}
		if cap(out) > 2*readBuffer {
			out = nil
		}
	}
}

// read reads replies until the connection fails.
func (c *conn) read() {
	c.fail(c.receive())
	if c.gone != nil {
		c.gone()
	}
}

// receive reads replies. It returns why there are no more.
func (c *conn) receive() error {
	var s scanner
	var pushed []byte
	var head *Batch // to which the reply belongs
	keep, from := false, 0
	buf := make([]byte, readBuffer)
	have := 0 // bytes in buf
	for {
		n, err := c.sock.Read(buf[have:])
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the server has closed the connection")
			}
			return err
		}
		have += n
		for rest := buf[:have]; ; {
			if s.kind == 0 && len(rest) > 0 && rest[0] != '>' && head == nil {
				if head, err = c.head(rest); err != nil {
					return err
				}
				keep, from = head.state.Load() != abandoned, len(head.raw)
			}
			before := s.size / readBuffer
			used, whole, err := s.scan(rest)
			if err != nil {
				return err
			}
			switch {
			case head == nil:
				pushed = append(pushed, rest[:used]...)
			case keep:
				head.raw = append(head.raw, rest[:used]...)
				if len(head.raw) > maxReplies {
					return malformed("more than %d bytes in reply to %d commands", maxReplies, len(head.cmds))
				}
			}
			if head != nil && s.size/readBuffer > before {
				c.progress.Add(1)
			}
			rest = rest[used:]
			if !whole {
				have = copy(buf, rest)
				break
			}
			s.kind, s.size = 0, 0
			if head == nil {
				if c.push != nil {
					c.push(Reply{pushed})
				}
				if pushed = pushed[:0]; cap(pushed) > readBuffer {
					pushed = nil
				}
				continue
			}
			c.progress.Add(1)
			if head.complete(from, keep) {
				c.pop()
				head.finish(nil)
			}
			head = nil
		}
	}
}

// head returns the batch that waits for the next reply, which begins with b.
func (c *conn) head(b []byte) (*Batch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first < len(c.queue) {
		return c.queue[c.first], nil
	}
	if c.subscribed && b[0] == '-' {
		if i := indexEnd(b); i > 0 {
			return nil, Reply{b[:i]}.Err()
		}
	}
	return nil, malformed("%.40q, which no command asked for", b)
}

func indexEnd(b []byte) int {
	for i, c := range b {
		if c == '\n' && i >= 2 {
			return i + 1
		}
	}
	return 0
}

// pop removes the batch with all its replies from the queue.
func (c *conn) pop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.queue[c.first] = nil
	c.first++
	switch {
	case c.first == len(c.queue):
		c.queue, c.first = c.queue[:0], 0
	case c.first > maxQueue: // it is never empty
		c.queue, c.first = append([]*Batch(nil), c.queue[c.first:]...), 0
	}
}

// fail closes the connection. Every waiting batch gets the error.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	queue := c.queue[c.first:]
	c.queue, c.out, c.first = nil, nil, 0
	c.watch.Stop()
	c.mu.Unlock()
	close(c.dead)
	if t, ok := c.sock.(*tls.Conn); ok {
		t.NetConn().Close() // without a TLS alert, which might block
	} else {
		c.sock.Close()
	}
	for _, b := range queue {
		b.finish(err)
	}
}

// failure returns why the connection has failed.
func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// check fails a connection on which replies do not arrive, and pings an idle one.
func (c *conn) check() {
	if c.stuck() {
		c.fail(errSilent)
	}
}

func (c *conn) stuck() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.watch.Reset(silence / looks)
	now := c.progress.Load()
	switch moved := now != c.seen; {
	case moved:
		c.seen, c.still, c.idle = now, 0, 0
	case c.first < len(c.queue):
		c.still++
		return c.still > looks
	default:
		c.still = 0
		if c.idle++; c.idle >= looks/2 {
			var ping Batch
			ping.Add("PING")
			ping.begin()
			c.out, c.queue, c.idle = append(c.out, ping.out...), append(c.queue, &ping), 0
			c.nudge()
		}
	}
	return false
}
