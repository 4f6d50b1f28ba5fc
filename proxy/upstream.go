package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"syscall"
	"time"

	"shuultuur/filter"
	"shuultuur/message"
)

// An upstream is a connection to an origin or to the parent proxy.
type upstream struct {
	c      net.Conn // a *net.TCPConn, or TLS over it
	raw    syscall.RawConn
	r      *message.Reader
	key    string
	since  time.Time // when it became idle
	until  time.Time // its deadline as set
	peek   func(fd uintptr)
	quiet  bool  // what peek found: open, and nothing to read
	wire   *wire // what TLS stands on, nil without
	once   bool  // good for one request
	shared bool  // of a connection that was there before, and may have died meanwhile
	// faults are what is wrong with the certificate of a TLS connection.
	faults []filter.Finding
}

// arm makes sure that the connection fails when it is silent for about d: at
// least three quarters of it. Setting a deadline costs as much as parsing a
// head, so one that is still far enough away stays.
func (u *upstream) arm(now time.Time, d time.Duration) {
	if left := u.until.Sub(now); left < d*3/4 || left > d {
		u.until = now.Add(d)
		u.c.SetDeadline(u.until)
	}
}

// alive says whether an idle connection can be used: it has not been closed
// by the other side, and nothing was sent on it that nobody asked for, which
// the next request would take for its answer.
func (u *upstream) alive() bool {
	if len(u.r.Buffered()) > 0 {
		return false
	}
	u.quiet = false
	if err := u.raw.Control(u.peek); err != nil {
		return false
	}
	return u.quiet || u.wire != nil && u.quietTLS()
}

func (u *upstream) close() { u.c.Close() }

// silent says whether a socket is open and has nothing to read.
func silent(fd uintptr) bool {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return err == syscall.EAGAIN
		}
	}
}

// A pool keeps idle upstream connections by the address they were dialled to.
// The youngest is used first, so that the others can grow old.
type pool struct {
	cfg    *Config
	count  *counters
	parent *parent
	dialer net.Dialer  // refuses addresses that may not be reached
	direct net.Dialer  // for the parent, which the administrator named
	tls    *tls.Config // what connections that were decrypted go on with

	two  *origins2
	mine ports

	mu     sync.Mutex
	byAddr map[string][]*upstream
	n      int
	closed bool
}

func newPool(cfg *Config, par *parent, count *counters) *pool {
	names := &net.Resolver{PreferGo: true} // the C library's takes a thread for each name
	return &pool{
		cfg: cfg, count: count, parent: par,
		dialer: net.Dialer{Timeout: cfg.Dial, Control: cfg.control, Resolver: names},
		direct: net.Dialer{Timeout: cfg.Dial, Resolver: names},
		byAddr: map[string][]*upstream{}, two: newOrigins2(cfg),
		// Certificates are looked at by the Verifier, which says all that is
		// wrong with one, not only the first.
		tls: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(1024), DynamicRecordSizingDisabled: true},
	}
}

// get returns a live idle connection to key (host:port), or nil.
func (p *pool) get(key []byte, now time.Time) *upstream {
	for {
		p.mu.Lock()
		list := p.byAddr[string(key)]
		if len(list) == 0 {
			p.mu.Unlock()
			return nil
		}
		u := list[len(list)-1]
		list[len(list)-1] = nil
		p.byAddr[u.key] = list[:len(list)-1]
		p.n--
		p.mu.Unlock()
		if now.Sub(u.since) < p.cfg.UpstreamIdle && u.alive() {
			p.count.reused.Add(1)
			return u
		}
		u.close()
	}
}

// put keeps u for the next request, or closes it when there are enough.
func (p *pool) put(u *upstream, now time.Time) {
	if u.once {
		u.close()
		return
	}
	u.since = now
	p.mu.Lock()
	list := p.byAddr[u.key]
	if p.closed || p.n >= p.cfg.UpstreamTotal || len(list) >= p.cfg.UpstreamPerHost {
		p.mu.Unlock()
		u.close()
		return
	}
	p.byAddr[u.key] = append(list, u)
	p.n++
	p.mu.Unlock()
}

// dial connects to addr (host:port) with a deadline; both address families
// are tried as RFC 8305 says.
func (p *pool) dial(ctx context.Context, addr string, toParent bool) (*upstream, error) {
	d := &p.dialer
	if toParent {
		d = &p.direct
	}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err == nil && !toParent {
		if err = p.cfg.ownPort(c); err != nil {
			c.Close()
		}
	}
	if err != nil {
		if asRefused(err) != nil {
			p.count.private.Add(1)
		} else {
			p.count.dialFailed.Add(1)
		}
		return nil, err
	}
	p.count.dialed.Add(1)
	p.mine.add(c)
	u := &upstream{c: c, key: addr}
	if u.raw, err = c.(*net.TCPConn).SyscallConn(); err != nil {
		c.Close()
		return nil, err
	}
	u.peek = func(fd uintptr) { u.quiet = silent(fd) }
	u.r = message.NewReader(u.c, 8<<10, p.cfg.Head)
	return u, nil
}

// sweep closes what has been idle for too long.
func (p *pool) sweep(now time.Time) {
	p.two.sweep(false)
	var old []*upstream
	p.mu.Lock()
	for key, list := range p.byAddr {
		i := 0
		for i < len(list) && now.Sub(list[i].since) >= p.cfg.UpstreamIdle {
			i++
		}
		old = append(old, list[:i]...)
		p.n -= i
		if i == len(list) {
			delete(p.byAddr, key)
		} else if i > 0 {
			p.byAddr[key] = append([]*upstream(nil), list[i:]...)
		}
	}
	p.mu.Unlock()
	for _, u := range old {
		u.close()
	}
}

// flush closes all idle connections.
func (p *pool) flush() {
	p.sweep(time.Now().Add(24 * time.Hour))
	p.two.sweep(true)
}

func (p *pool) idle() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.n)
}
