package redis

import (
	"context"
	"sync"
	"time"
)

// A Subscription sets the channels to listen to and the function to call. The functions
// are called by one goroutine at a time and must not block.
type Subscription struct {
	Node     string   // one of Client.Nodes; "" for any
	Channels []string // by name
	Patterns []string // by glob
	// Ready is called when the server has confirmed all of them: later messages arrive.
	Ready func()
	// Message is called for each message. payload is valid until it returns.
	Message func(channel string, payload []byte)
}

// Subscribe listens, on a separate connection, until ctx ends or the connection fails, and
// returns why. The caller may subscribe again.
func (c *Client) Subscribe(ctx context.Context, s Subscription) error {
	var work sync.WaitGroup
	defer work.Wait()
	addr := s.Node
	switch {
	case addr != "":
	case c.cluster != nil:
		addr = c.Nodes()[0]
	default:
		var err error
		if addr, err = c.single.find(ctx); err != nil {
			return err
		}
	}
	left := len(s.Channels) + len(s.Patterns)
	ready := make(chan struct{})
	d := c.dialer
	d.tracked = false
	conn, err := d.dial(ctx, addr, work.Go, func(conn *conn) {
		conn.push = func(r Reply) {
			if s.pushed(r) {
				if left--; left == 0 {
					s.Ready()
					close(ready)
				}
			}
		}
		conn.subscribed = true
	})
	if err != nil {
		return err
	}
	defer conn.fail(ErrClosed)
	var b Batch
	for command, names := range map[string][]string{"SUBSCRIBE": s.Channels, "PSUBSCRIBE": s.Patterns} {
		if len(names) > 0 {
			b.Add(append([]string{command}, names...)...)
		}
	}
	conn.post(&b)
	late := time.NewTimer(silence)
	defer late.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ctx.Done():
			return ErrClosed
		case <-conn.dead:
			return conn.failure()
		case <-ready:
			late.Stop()
			ready = nil
		case <-late.C:
			return errSilent
		}
	}
}

// pushed handles a push, and reports whether it confirms a subscription: ["subscribe",
// channel, count], ["message", channel, payload] or ["pmessage", pattern, channel, payload].
func (s *Subscription) pushed(r Reply) (confirms bool) {
	var parts [4][]byte
	n := 0
	for item := range r.items {
		if b, err := item.Bytes(); err == nil && n < len(parts) {
			parts[n] = b
		}
		n++
	}
	switch kind := string(parts[0]); {
	case kind == "message" && n == 3:
		s.Message(string(parts[1]), parts[2])
	case kind == "pmessage" && n == 4:
		s.Message(string(parts[2]), parts[3])
	}
	return (string(parts[0]) == "subscribe" || string(parts[0]) == "psubscribe") && n == 3
}
