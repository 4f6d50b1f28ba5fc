package upstream

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// This file looks up names with the system's settings, and asks sooner than the system does: the
// other servers, and again, after a fraction of a second instead of five. It asks once for as long as an
// answer lives (kept.go).

const (
	askAgain   = 300 * time.Millisecond
	mostAsked  = 3 // servers
	resolvConf = "/etc/resolv.conf"
)

// SystemNames returns a resolver by the system's settings.
func SystemNames() *net.Resolver { return newNames(systemServers) }

// newNames returns a resolver. others returns the servers to ask beside one, both as host:port.
func newNames(others func(server string) []string) *net.Resolver {
	kept := new(keptAnswers)
	return &net.Resolver{
		PreferGo: true, // the C library's takes a thread per name
		Dial: func(ctx context.Context, network, server string) (net.Conn, error) {
			var d net.Dialer
			if !strings.HasPrefix(network, "udp") {
				return d.DialContext(ctx, network, server)
			}
			q := &question{kept: kept, arrived: make(chan []byte, 16), failed: make(chan error, mostAsked), closed: make(chan struct{})}
			for _, s := range append([]string{server}, others(server)...) {
				if c, err := d.DialContext(ctx, network, s); err == nil {
					q.servers = append(q.servers, c.(*net.UDPConn))
				} else if len(q.servers) == 0 && s == server {
					return nil, err
				}
			}
			q.UDPConn = q.servers[0]
			return q, nil
		},
	}
}

// systemServers returns the other servers of resolv.conf(5).
func systemServers(server string) (others []string) {
	text, err := os.ReadFile(resolvConf)
	if err != nil {
		return nil
	}
	known := false
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "nameserver" {
			if s := net.JoinHostPort(f[1], "53"); s == server {
				known = true
			} else if !slices.Contains(others, s) && len(others) < mostAsked-1 {
				others = append(others, s)
			}
		}
	}
	if !known {
		return nil
	}
	return others
}

// A question is the connection on which package net asks one, over UDP. It goes to one server
// after the other until there is an answer.
type question struct {
	*net.UDPConn // of the first server: deadlines and addresses
	servers      []*net.UDPConn
	kept         *keptAnswers
	arrived      chan []byte
	failed       chan error // of servers that cannot be asked
	failures     int
	closed       chan struct{}
	once         sync.Once
	asked        sync.Once

	mu    sync.Mutex
	until time.Time
}

// Write implements [net.Conn]. It gets one message.
func (q *question) Write(p []byte) (int, error) {
	p = slices.Clone(p)
	q.asked.Do(func() {
		if reply := q.kept.get(p); reply != nil {
			q.arrived <- reply
			return
		}
		for _, c := range q.servers {
			go q.read(c, p)
		}
		go q.ask(p)
	})
	return len(p), nil
}

// ask sends the question until q is closed.
func (q *question) ask(p []byte) {
	for i := 0; ; i++ {
		_, _ = q.servers[i%len(q.servers)].Write(p) // the next one may do better
		select {
		case <-time.After(askAgain):
		case <-q.closed:
			return
		}
	}
}

// read hands on what one server sends after a question.
func (q *question) read(c *net.UDPConn, asked []byte) {
	for {
		p := make([]byte, 4096)
		n, err := c.Read(p)
		if err != nil {
			q.failed <- err
			return
		}
		q.kept.put(asked, p[:n])
		select {
		case q.arrived <- p[:n]:
		default:
		}
	}
}

// Read implements [net.Conn].
func (q *question) Read(p []byte) (int, error) {
	q.mu.Lock()
	until := q.until
	q.mu.Unlock()
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case b := <-q.arrived:
			return copy(p, b), nil
		case err := <-q.failed:
			if q.failures++; q.failures == len(q.servers) {
				return 0, err
			}
		case <-late:
			return 0, os.ErrDeadlineExceeded
		case <-q.closed:
			return 0, net.ErrClosed
		}
	}
}

// SetDeadline implements [net.Conn].
func (q *question) SetDeadline(t time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.until = t
	return nil
}

// SetReadDeadline implements [net.Conn].
func (q *question) SetReadDeadline(t time.Time) error { return q.SetDeadline(t) }

// Close implements [net.Conn].
func (q *question) Close() error {
	q.once.Do(func() {
		close(q.closed)
		for _, c := range q.servers {
			c.Close()
		}
	})
	return nil
}
