package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/wait"
)

const (
	// slots is the number of hash slots of a cluster.
	slots = 16384
	// maxNodes bounds the known nodes.
	maxNodes = 1000
	// redirects bounds the redirections of a command.
	redirects = 8
	// lookEvery is how often a cluster is asked for its nodes, lookSoon the shortest interval
	// after failures.
	lookEvery = 10 * time.Second
	lookSoon  = 200 * time.Millisecond
	// tryAgain is the wait while the keys of a command are on two nodes.
	tryAgain = 20 * time.Millisecond
)

// A cluster knows which node has a key.
type cluster struct {
	client *Client
	table  atomic.Pointer[[slots]*node] // nil before it is known
	look   chan struct{}                // requests a refresh

	mu     sync.Mutex
	nodes  map[string]*node // guarded by mu: every node, by address
	lead   []string         // guarded by mu: the masters, sorted
	closed bool             // guarded by mu
}

func newCluster(c *Client) *cluster {
	return &cluster{client: c, look: make(chan struct{}, 1), nodes: map[string]*node{}}
}

// masters returns the addresses of the masters.
func (k *cluster) masters() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.lead)
}

// at returns the node at an address.
func (k *cluster) at(addr string) *node {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.nodes[addr]
	if n == nil {
		n = k.client.node(addr)
		if n.closed = k.closed; !n.closed && len(k.nodes) < maxNodes {
			k.nodes[addr] = n
		} else {
			n.closed = true
		}
	}
	return n
}

// close closes all connections.
func (k *cluster) close() {
	k.mu.Lock()
	k.closed = true
	all := slices.Collect(maps.Values(k.nodes))
	k.mu.Unlock()
	for _, n := range all {
		n.close()
	}
}

// follow keeps the table up to date.
func (k *cluster) follow() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-k.client.ctx.Done():
			return
		case <-tick.C:
		case <-k.look:
		}
		ctx, cancel := context.WithTimeout(k.client.ctx, lookEvery)
		_ = k.refresh(ctx) // after an error the table stays, and failing commands request another refresh
		cancel()
		if wait.For(k.client.ctx, lookSoon) != nil {
			return
		}
	}
}

func (k *cluster) nudge() {
	select {
	case k.look <- struct{}{}:
	default:
	}
}

// refresh asks one node after the other for the slots.
func (k *cluster) refresh(ctx context.Context) error {
	var errs []error
	asked := map[string]bool{}
	for _, addr := range append(k.masters(), k.client.cfg.Addresses...) {
		if asked[addr] {
			continue
		}
		asked[addr] = true
		part, cancel := context.WithTimeout(ctx, dialTime)
		err := k.ask(part, addr)
		cancel()
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", addr, err))
	}
	return errors.Join(errs...)
}

// ask asks one node.
func (k *cluster) ask(ctx context.Context, addr string) error {
	c, err := k.at(addr).get(ctx)
	if err != nil {
		return err
	}
	var b Batch
	b.Add("CLUSTER", "SLOTS")
	if err := c.do(ctx, &b); err != nil {
		return err
	}
	ranges, err := slotRanges(b.Reply(0), addr)
	if err != nil {
		return err
	}
	table := new([slots]*node)
	lead := map[string]bool{}
	for _, r := range ranges {
		n := k.at(r.addr)
		lead[r.addr] = true
		for i := r.first; i <= r.last; i++ {
			table[i] = n
		}
	}
	k.table.Store(table)
	k.mu.Lock()
	k.lead = slices.Sorted(maps.Keys(lead))
	var old []*node
	for a, n := range k.nodes {
		if !lead[a] && a != addr { // batches in progress get an error
			delete(k.nodes, a)
			old = append(old, n)
		}
	}
	k.mu.Unlock()
	for _, n := range old {
		n.close()
	}
	return nil
}

// A slotRange is a range of slots and their master.
type slotRange struct {
	first, last int64
	addr        string
}

// slotRanges reads the reply to CLUSTER SLOTS: first slot, last slot, master, replicas, where
// a node is host, port and more. An empty host means the node that was asked.
func slotRanges(r Reply, asked string) (all []slotRange, err error) {
	items, err := r.Items()
	if err != nil {
		return nil, err
	}
	for item := range items {
		var s slotRange
		i := 0
		for part := range item.items {
			switch i++; i {
			case 1:
				s.first, err = part.Int()
			case 2:
				s.last, err = part.Int()
			case 3:
				s.addr, err = nodeAddress(part, asked)
			}
			if err != nil {
				return nil, err
			}
		}
		if i < 3 || s.first < 0 || s.last >= slots || s.first > s.last {
			return nil, malformed("slots %d to %d of %q", s.first, s.last, s.addr)
		}
		all = append(all, s)
	}
	if len(all) == 0 || len(all) > slots {
		return nil, errors.New("no node of the cluster has slots")
	}
	return all, nil
}

func nodeAddress(r Reply, asked string) (string, error) {
	items, err := r.Items()
	if err != nil {
		return "", err
	}
	var parts []string
	for item := range items {
		if len(parts) == 2 {
			break
		}
		s, err := item.Text()
		if err != nil {
			return "", err
		}
		parts = append(parts, s)
	}
	if len(parts) < 2 {
		return "", malformed("a node without an address")
	}
	if parts[0] == "" || parts[0] == "?" {
		parts[0], _, _ = net.SplitHostPort(asked)
	}
	return joined(parts[0], parts[1]), nil
}

func joined(host, port string) string { return net.JoinHostPort(host, port) }

// of returns the node with the key, any node for no key.
func (k *cluster) of(key []byte) *node {
	table := k.table.Load()
	if len(key) > 0 {
		if n := table[slot(key)]; n != nil {
			return n
		}
		k.nudge()
	}
	for _, addr := range k.masters() {
		return k.at(addr)
	}
	return k.at(k.client.cfg.Addresses[0])
}

// slot returns the slot of a key: CRC-16/XMODEM of the key, or of the text in its first
// braces.
func slot(key []byte) uint16 {
	if i := bytes.IndexByte(key, '{'); i >= 0 {
		if n := bytes.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1 : i+1+n]
		}
	}
	crc := uint16(0)
	for _, c := range key {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slots
}

// A portion is the part of a batch that goes to one node.
type portion struct {
	node   *node
	asking bool
	which  []int // commands of the whole batch
	batch  Batch
}

// do executes a batch: the commands for each node in one pipeline, then redirected ones again.
func (k *cluster) do(ctx context.Context, b *Batch) error {
	replies := make([][]byte, len(b.cmds))
	shares := k.divide(b)
	for try := 0; len(shares) > 0; try++ {
		if len(shares) == 1 {
			shares[0].batch.Then = b.Then
		}
		if err := k.run(ctx, shares); err != nil {
			return err
		}
		var again []*portion
		for _, s := range shares {
			for at, i := range s.which {
				r := s.batch.Reply(at)
				to, asking := k.redirect(r, s.node)
				if to == nil || try == redirects {
					replies[i] = r.b
					continue
				}
				again = add(again, to, asking, b, i)
			}
		}
		if len(again) > 0 && try > 0 && wait.For(ctx, tryAgain) != nil {
			return ctx.Err()
		}
		shares = again
	}
	b.begin()
	for _, r := range replies {
		b.raw = append(b.raw, r...)
		b.ends = append(b.ends, len(b.raw))
	}
	return nil
}

// divide divides the commands of a batch among the nodes.
func (k *cluster) divide(b *Batch) (all []*portion) {
	for i, c := range b.cmds {
		all = add(all, k.of(b.out[c.key:c.keyEnd]), false, b, i)
	}
	return all
}

// add adds command i of a batch to the portion of a node.
func add(all []*portion, n *node, asking bool, b *Batch, i int) []*portion {
	at := slices.IndexFunc(all, func(s *portion) bool { return s.node == n && s.asking == asking })
	if at < 0 {
		at = len(all)
		all = append(all, &portion{node: n, asking: asking})
	}
	s := all[at]
	s.which = append(s.which, i)
	s.batch.take(b, i, asking)
	return all
}

// run sends all portions, then waits for all of them.
func (k *cluster) run(ctx context.Context, shares []*portion) (err error) {
	sent := shares[:0:0]
	for _, s := range shares {
		c, e := s.node.get(ctx)
		if e == nil {
			e = c.send(&s.batch)
		}
		if e != nil {
			err = e
			continue
		}
		sent = append(sent, s)
	}
	for _, s := range sent {
		if e := s.batch.wait(ctx); e != nil {
			err = e
		}
	}
	if err != nil {
		k.nudge() // there may have been a failover
	}
	return err
}

// redirect returns the node to which to redirect a command, nil for none.
func (k *cluster) redirect(r Reply, from *node) (to *node, asking bool) {
	err := r.Err()
	switch code := Code(err); code {
	case "MOVED", "ASK":
		words := strings.Fields(err.Error())
		if len(words) != 3 {
			return nil, false
		}
		host, port, bad := net.SplitHostPort(words[2])
		if bad != nil {
			return nil, false
		}
		if host == "" {
			host, _, _ = net.SplitHostPort(from.address())
		}
		if code == "MOVED" {
			k.nudge()
		}
		return k.at(joined(host, port)), code == "ASK"
	case "TRYAGAIN":
		return from, false
	case "CLUSTERDOWN":
		k.nudge()
	}
	return nil, false
}
