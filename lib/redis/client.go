package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"shuultuur/lib/wait"
)

// Options are optional features of a client.
type Options struct {
	// Invalid, if set, makes servers track the keys of AddTracked. It is called for each of
	// these keys that was changed, by any client, and with nil when any of them may have
	// changed. It is called in order with Batch.Then for the same server, and must not block.
	// key is valid until it returns.
	Invalid func(key []byte)
}

// A Client executes commands. It is safe for concurrent use.
type Client struct {
	cfg    Config
	dialer dialer
	opt    Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	sentinels *sentinels // nil unless Sentinels are used
	cluster   *cluster   // nil unless this is a cluster
	single    *node      // nil in a cluster
}

// Connect makes a client. It returns an error if no server answers; the caller may try again
// later. Mistakes in the settings are a setting.Error.
func Connect(ctx context.Context, cfg Config, opt Options) (*Client, error) {
	d, err := cfg.dialer()
	if err != nil {
		return nil, err
	}
	d.tracked = opt.Invalid != nil
	c := &Client{cfg: cfg, dialer: d, opt: opt}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	switch {
	case cfg.Cluster:
		c.cluster = newCluster(c)
		err = c.cluster.refresh(ctx)
		c.work.Go(c.cluster.follow)
	case cfg.Sentinel != "":
		c.sentinels = &sentinels{client: c, name: cfg.Sentinel, addrs: slices.Clone([]string(cfg.Addresses))}
		c.single = &node{client: c, find: c.sentinels.master}
		if _, err = c.single.get(ctx); err == nil {
			c.work.Go(c.sentinels.follow)
		}
	default:
		c.single = c.node(cfg.Addresses[0])
		_, err = c.single.get(ctx)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("connecting to Redis: %w", err)
	}
	return c, nil
}

// Close closes all connections. Waiting batches get an error.
func (c *Client) Close() {
	c.cancel()
	if c.single != nil {
		c.single.close()
	}
	if c.cluster != nil {
		c.cluster.close()
	}
	c.work.Wait()
}

// Do sends the commands of a batch, those for one server in one pipeline, and waits until all
// replies have arrived or ctx ends. An [Error] is the first command that a server refused;
// then all replies are there. After any other error there are none, and it is unknown whether
// the commands were executed. In a cluster, commands follow keys that have moved.
func (c *Client) Do(ctx context.Context, b *Batch) error {
	if len(b.cmds) == 0 {
		return nil
	}
	if c.cluster != nil {
		if err := c.cluster.do(ctx, b); err != nil {
			return err
		}
	} else {
		conn, err := c.single.get(ctx)
		if err == nil {
			err = conn.do(ctx, b)
		}
		if err != nil {
			return err
		}
	}
	_, err := b.Failed()
	return err
}

// Nodes returns the addresses of the masters: one, or those of a cluster.
func (c *Client) Nodes() []string {
	if c.cluster != nil {
		return c.cluster.masters()
	}
	return []string{c.single.address()}
}

// DoAt is Do at one of Nodes, whatever the keys of the commands are.
func (c *Client) DoAt(ctx context.Context, addr string, b *Batch) error {
	n := c.single
	if c.cluster != nil {
		n = c.cluster.at(addr)
	}
	conn, err := n.get(ctx)
	if err == nil {
		err = conn.do(ctx, b)
	}
	if err == nil {
		_, err = b.Failed()
	}
	return err
}

// node makes a node with a known address.
func (c *Client) node(addr string) *node {
	return &node{client: c, addr: addr, find: func(context.Context) (string, error) { return addr, nil }}
}

// A node is a server and the connection to it.
type node struct {
	client *Client
	find   func(context.Context) (string, error) // returns its present address

	mu       sync.Mutex
	addr     string        // guarded by mu: the last one
	conn     *conn         // guarded by mu: nil while there is none
	dialing  chan struct{} // guarded by mu: closed when the dial in progress ends
	err      error         // guarded by mu: why there is no connection
	since    time.Time     // guarded by mu: when it was made
	failures int           // guarded by mu: failed dials, and connections shorter than lastPause
	next     time.Time     // guarded by mu: when to dial again
	closed   bool          // guarded by mu
}

// Pauses after failed dials: the first, doubled up to the last, plus a random half.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// get returns the connection, dialling if there is none.
func (n *node) get(ctx context.Context) (*conn, error) {
	for dialed := false; ; dialed = true {
		n.mu.Lock()
		if n.conn != nil {
			select {
			case <-n.conn.dead:
				n.dropConn(n.conn.failure())
			default:
				defer n.mu.Unlock()
				return n.conn, nil
			}
		}
		switch {
		case n.closed:
			n.mu.Unlock()
			return nil, ErrClosed
		case n.dialing == nil && (dialed || time.Now().Before(n.next)):
			defer n.mu.Unlock()
			return nil, n.err
		case n.dialing == nil:
			n.dialing = make(chan struct{})
			n.client.work.Go(n.dial)
		}
		dialing := n.dialing
		n.mu.Unlock()
		select {
		case <-dialing:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// dial makes a connection.
func (n *node) dial() {
	var c *conn
	addr, err := n.find(n.client.ctx)
	if err == nil {
		c, err = n.client.dialer.dial(n.client.ctx, addr, n.client.work.Go, n.track)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.dialing)
	n.dialing, n.err = nil, err
	if addr != "" {
		n.addr = addr
	}
	if err != nil {
		n.postponeDial()
		return
	}
	n.conn, n.since = c, time.Now()
	if n.closed {
		c.fail(ErrClosed)
	}
}

// dropConn drops the connection. The caller holds the lock.
func (n *node) dropConn(why error) {
	n.conn, n.err = nil, why
	switch {
	case time.Since(n.since) > lastPause:
		n.failures = 0
	case n.failures == 0:
		n.failures = 1 // the next dial is immediate
	default: // it failed too early
		n.postponeDial()
	}
}

// postponeDial postpones the next dial. The caller holds the lock.
func (n *node) postponeDial() {
	pause := min(firstPause<<min(n.failures, 10), lastPause)
	n.failures, n.next = n.failures+1, time.Now().Add(pause+rand.N(pause/2))
}

// track makes a connection report changed keys.
func (n *node) track(c *conn) {
	invalid := n.client.opt.Invalid
	if invalid == nil {
		return
	}
	c.push = func(r Reply) { invalidated(r, invalid) }
	c.gone = func() { invalid(nil) }
}

// invalidated handles a push: ["invalidate", [key, …]], or null for all keys.
func invalidated(r Reply, invalid func(key []byte)) {
	i, ours := 0, false
	for item := range r.items {
		switch i++; {
		case i == 1:
			name, err := item.Bytes()
			ours = err == nil && string(name) == "invalidate"
		case i == 2 && ours && item.Null():
			invalid(nil)
		case i == 2 && ours:
			for key := range item.items {
				if b, err := key.Bytes(); err == nil && b != nil {
					invalid(b)
				}
			}
		}
	}
}

func (n *node) address() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// hangUp closes the connection; another is opened when needed.
func (n *node) hangUp(err error) {
	n.mu.Lock()
	c := n.conn
	if c != nil {
		n.dropConn(err)
	}
	n.mu.Unlock()
	if c != nil {
		c.fail(err)
	}
}

// close closes the node.
func (n *node) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.hangUp(ErrClosed)
}

// sentinels find the master.
type sentinels struct {
	client *Client
	name   string

	mu    sync.Mutex
	addrs []string // guarded by mu: the one that answered last first
}

const (
	// askSentinels is how often the Sentinels are asked for the master: nothing announces a
	// failover when the old master stays up.
	askSentinels = 2 * time.Second
	// maxSentinels bounds the known Sentinels.
	maxSentinels = 100
)

// master asks the Sentinels, one after the other, for the master's address and for other
// Sentinels.
func (s *sentinels) master(ctx context.Context) (addr string, err error) {
	s.mu.Lock()
	addrs := slices.Clone(s.addrs)
	s.mu.Unlock()
	var errs []error
	for i, at := range addrs {
		addr, others, err := s.ask(ctx, at)
		if err != nil {
			errs = append(errs, fmt.Errorf("sentinel %s: %w", at, err))
			continue
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		known := append([]string{at}, slices.Delete(addrs, i, i+1)...)
		for _, o := range others {
			if len(known) < maxSentinels && !slices.Contains(known, o) {
				known = append(known, o)
			}
		}
		s.addrs = known
		return addr, nil
	}
	return "", errors.Join(errs...)
}

// ask asks one Sentinel. Sentinels have no databases, and not the users of the master.
func (s *sentinels) ask(ctx context.Context, at string) (master string, others []string, err error) {
	var work sync.WaitGroup
	defer work.Wait()
	d := dialer{tls: s.client.dialer.tls}
	c, err := d.dial(ctx, at, work.Go, nil)
	if err != nil {
		return "", nil, err
	}
	defer c.fail(ErrClosed)
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	var b Batch
	b.Add("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.name)
	b.Add("SENTINEL", "SENTINELS", s.name)
	if err := c.do(ctx, &b); err != nil {
		return "", nil, err
	}
	pair, err := b.Reply(0).Texts()
	if err == nil && len(pair) != 2 {
		err = fmt.Errorf("it does not know a master %q", s.name)
	}
	if err != nil {
		return "", nil, err
	}
	items, err := b.Reply(1).Items()
	if err != nil {
		return "", nil, err
	}
	for item := range items {
		var host, port string
		if err := item.EachPair(func(k, v []byte) {
			switch string(k) {
			case "ip":
				host = string(v)
			case "port":
				port = string(v)
			}
		}); err == nil && host != "" && port != "" {
			others = append(others, joined(host, port))
		}
	}
	return joined(pair[0], pair[1]), others, nil
}

// follow closes the connection to a server that is no longer the master.
func (s *sentinels) follow() {
	for wait.For(s.client.ctx, askSentinels) == nil {
		if addr, err := s.master(s.client.ctx); err == nil && addr != s.client.single.address() {
			s.client.single.hangUp(fmt.Errorf("the master is now %s", addr))
		}
	}
}
