// Package nameserver answers DNS queries over UDP, TCP, TLS, HTTPS and QUIC: from
// our own zones, and for our own clients from elsewhere. It handles how queries
// arrive, which clients may ask, and how much. [Responder]s, asked in order,
// provide the answers.
//
//	UDP socket ─ batch of up to 64 ─▶ handler: parse, limits, Responder.Answer,
//	           ◀── one sendmmsg ──        rate limit, OPT, count
//	                                              │ Later
//	TCP, TLS ─ a goroutine each ────▶ handler ───┤
//	HTTPS, QUIC ─ a goroutine each ─▶ handler ───┤
//	                                              ▼
//	                 queue (bounded, domains by turns) ─▶ workers:
//	                 Responder.Wait ─▶ sink: the socket's writer, the
//	                 connection, the request
//
// A query that a responder can answer at once runs to completion on the goroutine
// that read it: no channel, no lock shared with other sockets, no allocation.
// Everything else is bounded: the queue, the workers, the connections, the queries
// in progress on one connection, the tables of the limiters.
//
// Rules and responders are behind two atomic pointers, so that a reload replaces
// them between two queries: the rules made from the settings ([Server.Reload]) and
// the responders ([Server.SetResponders]).
package nameserver

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/handover"
	"shuultuur/lib/platform"
	"shuultuur/lib/setting"
	"shuultuur/nameserver/batch"
	"shuultuur/nameserver/tap"
)

// responders provide the answers.
type responders struct {
	all      []Responder
	transfer []Transferrer
	notify   []Notifier
	update   Updater // nil for none
	witness  []Witness
	auth     Authenticator // nil for none
}

// A Server is a name server. It is a metric.Collector.
type Server struct {
	limits limits
	path   string // of DNS over HTTPS
	places places
	label  string // for metrics: the first address
	logger *slog.Logger
	log    Record
	start  time.Time
	secret [16]byte
	tls    tlsConfigs

	rules      atomic.Pointer[rules]
	responders atomic.Pointer[responders]
	logLeft    atomic.Int64
	alone      sync.Once // it was said that datagrams are read one by one
	nameless   sync.Once // and that a proxy names no clients

	tap *tap.Tap // nil for none

	clients  *limiter
	replies  *limiter
	conns    conns
	queue    *queue
	counters []*counters // of sockets, then the shards
	shards   []*counters
	turn     atomic.Uint32

	sockets   []*socket
	listeners []listener
	quics     []quicListener
	ending
	ctx     context.Context // of transfers; ends with Run
	streams sync.WaitGroup
}

// An ending says in which way a Server is about to end.
type ending struct {
	stopping atomic.Bool
	leaving  atomic.Bool // another process has taken over; connections end when they are silent
}

// A listener is a TCP socket and its transport.
type listener struct {
	net.Listener
	transport dns.Transport
	bare      bool // HTTPS without TLS, behind a proxy
}

// Watch returns who wants to see the messages between us and upstreams, nil for nobody.
func (s *Server) Watch() func(response bool, over dns.Transport, from, to netip.AddrPort, msg []byte) {
	if s.tap == nil {
		return nil
	}
	return s.tap.Upstream
}

// New makes a server but opens no socket. record may be nil.
func New(cfg Config, logger *slog.Logger, record Record) (*Server, error) {
	l, err := cfg.limits(runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, err
	}
	p, err := cfg.places()
	if err != nil {
		return nil, err
	}
	path, err := cfg.path()
	if err != nil {
		return nil, err
	}
	r, err := cfg.rules(&l)
	if err != nil {
		return nil, err
	}
	s := &Server{limits: l, path: path, places: p, logger: logger, log: record, start: time.Now(), label: label(p),
		clients: newLimiter(), replies: newLimiter()}
	s.conns = conns{max: l.connections, perClient: l.perClient, per: map[netip.Addr]int{}, open: map[*conn]struct{}{}}
	if cfg.Dnstap != "" {
		if s.tap, err = tap.New(cfg.Dnstap, cfg.NSID); err != nil {
			return nil, setting.At("dnstap", err)
		}
	}
	key, set, err := cfg.Cookies.secret()
	if err != nil {
		return nil, err
	}
	if s.secret = key; !set {
		rand.Read(s.secret[:])
	}
	s.tls = newTLSConfigs(func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return s.rules.Load().present(hello) })
	s.queue = newQueue(s, l.queue)
	for range max(runtime.GOMAXPROCS(0), 2) {
		s.shards = append(s.shards, new(counters))
	}
	s.counters = append(s.counters, s.shards...)
	s.rules.Store(r)
	s.logLeft.Store(r.log)
	s.responders.Store(&responders{})
	return s, nil
}

// label returns the first address in CoreDNS's notation.
func label(p places) string {
	for _, x := range []struct {
		scheme string
		at     []netip.AddrPort
	}{{"dns", p.plain}, {"tls", p.tls}, {"https", p.https}, {"quic", p.quic}, {"http", p.http}} {
		if len(x.at) > 0 {
			return x.scheme + "://" + x.at[0].String()
		}
	}
	return ""
}

// SetResponders sets the responders, in order, for later queries. auth may be
// nil. Those that are a [Transferrer], a [Notifier] or an [Updater] are used as such.
func (s *Server) SetResponders(auth Authenticator, all ...Responder) {
	rs := &responders{all: all, auth: auth}
	for _, r := range all {
		if t, ok := r.(Transferrer); ok {
			rs.transfer = append(rs.transfer, t)
		}
		if w, ok := r.(Witness); ok {
			rs.witness = append(rs.witness, w)
		}
		if u, ok := r.(Updater); ok {
			rs.update = u
		}
		if n, ok := r.(Notifier); ok {
			rs.notify = append(rs.notify, n)
		}
	}
	s.responders.Store(rs)
}

// Reload puts new settings into use, or returns their mistake and keeps the old
// ones. Addresses, numbers of sockets, connections and workers, the length of the
// queue, the path and the secret of cookies stay as they were at the start.
func (s *Server) Reload(cfg Config) error {
	l, err := cfg.limits(runtime.GOMAXPROCS(0))
	if err != nil {
		return err
	}
	if _, err := cfg.places(); err != nil {
		return err
	}
	if _, err := cfg.path(); err != nil {
		return err
	}
	if _, _, err := cfg.Cookies.secret(); err != nil {
		return err
	}
	r, err := cfg.rules(&l)
	if err != nil {
		return err
	}
	s.rules.Store(r)
	return nil
}

// Listen opens all addresses, or none after an error. Run calls it if
// necessary. For port 0 the system picks a port that is free for TCP and may be
// in use for UDP: then it picks again, a few times.
func (s *Server) Listen(ctx context.Context) error {
	picked := func(a netip.AddrPort) bool { return a.Port() == 0 }
	again := slices.ContainsFunc(s.places.plain, picked) || slices.ContainsFunc(s.places.https, picked)
	ctx = handover.For(ctx, "dns")
	for tries := 1; ; tries++ {
		err := s.listen(ctx)
		if err == nil {
			return nil
		}
		s.closeAll()
		if !again || tries == 8 || !errors.Is(err, platform.EADDRINUSE) {
			return err
		}
	}
}

func (s *Server) listen(ctx context.Context) error {
	for _, a := range s.places.plain {
		at, err := s.listenTCP(ctx, a, dns.TCP)
		if err != nil {
			if missing(a, err) {
				continue
			}
			return setting.At("listen", err)
		}
		conns, err := batch.Listen(ctx, at, s.limits.sockets)
		if err != nil {
			return setting.At("listen", hint(err))
		}
		for i, c := range conns {
			t := new(counters)
			u, err := newSocket(s, c, t)
			if err != nil {
				for _, c := range conns[i:] {
					c.Close()
				}
				return fmt.Errorf("serve udp %s: %w", at, err)
			}
			s.counters = append(s.counters, t)
			s.sockets = append(s.sockets, u)
		}
	}
	for _, a := range s.places.tls {
		if _, err := s.listenTCP(ctx, a, dns.TLS); err != nil && !missing(a, err) {
			return setting.At("tls", err)
		}
	}
	for _, a := range s.places.https {
		at, err := s.listenTCP(ctx, a, dns.HTTPS)
		if err == nil {
			err = s.listenQUIC(ctx, at, dns.HTTPS)
		}
		if err != nil && !missing(a, err) {
			return setting.At("https", err)
		}
	}
	for _, a := range s.places.http {
		if _, err := s.listenTCP(ctx, a, dns.HTTPS); err == nil {
			s.listeners[len(s.listeners)-1].bare = true
		} else if !missing(a, err) {
			return setting.At("http", err)
		}
	}
	for _, a := range s.places.quic {
		if err := s.listenQUIC(ctx, a, dns.QUIC); err != nil && !missing(a, err) {
			return setting.At("quic", err)
		}
	}
	if len(s.listeners)+len(s.quics) == 0 {
		return setting.At("listen", errors.New("this machine has none of these addresses"))
	}
	return nil
}

// listenTCP opens a listener and returns its address: port 0 became another.
func (s *Server) listenTCP(ctx context.Context, a netip.AddrPort, t dns.Transport) (netip.AddrPort, error) {
	network := "tcp6"
	if a.Addr().Is4() {
		network = "tcp4"
	}
	ln, err := handover.Listen(ctx, new(net.ListenConfig), network, a.String())
	if err != nil {
		return a, fmt.Errorf("listen on %s %s: %w", t, a, hint(err))
	}
	s.listeners = append(s.listeners, listener{Listener: ln, transport: t})
	return netip.AddrPortFrom(a.Addr(), uint16(ln.Addr().(*net.TCPAddr).Port)), nil
}

// Addrs returns the addresses for a transport, after Listen. They are the same
// for UDP and TCP. HTTPS includes TCP and, for HTTP/3, UDP, but no addresses without
// TLS, which clients do not reach by themselves.
func (s *Server) Addrs(t dns.Transport) (all []netip.AddrPort) {
	if t == dns.UDP {
		t = dns.TCP
	}
	for _, ln := range s.listeners {
		if ln.transport == t && !ln.bare {
			all = append(all, ln.Addr().(*net.TCPAddr).AddrPort())
		}
	}
	for _, q := range s.quics {
		if t == dns.QUIC && q.transport == t {
			all = append(all, q.udp.LocalAddr().(*net.UDPAddr).AddrPort())
		}
	}
	return all
}

func (s *Server) closeAll() {
	for _, ln := range s.listeners {
		ln.Close()
	}
	for _, u := range s.sockets {
		u.close()
	}
	for _, q := range s.quics {
		q.close()
	}
	s.listeners, s.sockets, s.quics = nil, nil, nil
	s.counters = s.counters[:len(s.shards)]
}

// Run answers until ctx ends. Then it stops reading, gives queries in progress
// a second to finish, and returns. Call it once.
func (s *Server) Run(ctx context.Context) error {
	if len(s.listeners)+len(s.quics) == 0 {
		if err := s.Listen(ctx); err != nil {
			return err
		}
	}
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	var readers, writers, servers sync.WaitGroup
	for _, u := range s.sockets {
		u.run(&readers, &writers)
	}
	servers.Go(func() { s.refill(ctx) })
	if s.tap != nil {
		servers.Go(func() { s.tap.Run(ctx) })
	}
	web := s.newWeb()
	for _, ln := range s.listeners {
		servers.Go(func() { s.accept(ln) })
	}
	for _, q := range s.quics {
		web.accepting.Go(func() { s.acceptQUIC(q, web) })
	}
	<-ctx.Done()

	for _, u := range s.sockets {
		u.conn.Stop()
	}
	for _, ln := range s.listeners {
		ln.Close()
	}
	s.leaveQUIC(ctx, web)
	s.waitForConns(ctx)
	s.stopping.Store(true)
	s.conns.interrupt()
	readers.Wait()
	grace, release := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer release()
	stopped := context.AfterFunc(grace, s.queue.stop) // ends workers that still wait
	s.queue.close()
	stopped()
	for _, u := range s.sockets {
		close(u.late)
	}
	writers.Wait()
	web.stop()
	for _, q := range s.quics {
		q.close()
	}
	web.accepting.Wait()
	servers.Wait()
	cancel() // ends transfers
	s.conns.closeAll()
	s.streams.Wait()
	for _, u := range s.sockets {
		u.close()
	}
	return nil
}

// staysFor is how long a server answers its connections while another process answers new ones. DNS
// cannot tell a client that its connection is about to end, so a query may be lost with it. But what
// is decided anew after the handover is not known here.
const staysFor = 5 * time.Minute

// waitForConns waits for the connections to end while another process answers new
// ones: at least as long as a connection may be silent. Those over HTTPS say that they end.
func (s *Server) waitForConns(ctx context.Context) {
	hurry, ok := handover.HurryFrom(ctx)
	if !ok {
		return
	}
	s.leaving.Store(true)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(max(staysFor, s.rules.Load().idle+time.Second))
	for s.conns.count() > 0 {
		select {
		case <-tick.C:
		case <-end:
			return
		case <-hurry:
			return
		}
	}
}

// Problems lists what an operator should look at.
func (s *Server) Problems() []string {
	if s.tap != nil {
		if p := s.tap.Problem(); p != "" {
			return []string{p}
		}
	}
	return nil
}

// refill gives the record its quota for each second.
func (s *Server) refill(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		s.logLeft.Store(s.rules.Load().log)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// micros returns a time in microseconds since the server was made, for
// limiters.
func (s *Server) micros(at time.Time) int64 { return int64(at.Sub(s.start) / time.Microsecond) }

// shard returns counters that several goroutines share.
func (s *Server) shard(i int) *counters { return s.shards[uint(i)%uint(len(s.shards))] }

// missing reports that an address is from ":53" and the machine lacks its
// family.
func missing(a netip.AddrPort, err error) bool {
	return a.Addr().IsUnspecified() && (errors.Is(err, platform.EAFNOSUPPORT) || errors.Is(err, platform.EADDRNOTAVAIL))
}

// hint returns advice for an address that cannot be opened.
func hint(err error) error {
	switch {
	case errors.Is(err, platform.EADDRINUSE):
		return fmt.Errorf("%w; stop the name server that uses it: on many systems systemd-resolved, with DNSStubListener=no in its resolved.conf", err)
	case errors.Is(err, platform.EACCES):
		return fmt.Errorf("%w; ports below 1024 need a privilege: CAP_NET_BIND_SERVICE", err)
	}
	return err
}
