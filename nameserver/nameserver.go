// Package nameserver answers DNS queries that come by UDP, TCP, TLS, HTTPS and
// QUIC: zones of our own, and names of others for our own clients. It knows
// how queries travel, who may ask and how much; the answers come from
// [wire.Responder]s, asked in order.
//
//	UDP socket ─ batch of up to 64 ─▶ lane: parse, limits, Responder.Answer,
//	             ◀── one sendmmsg ──        rate limit, OPT, count
//	                                          │ Later
//	TCP, TLS ─ a goroutine each ────▶ lane ───┤
//	HTTPS, QUIC ─ a goroutine each ─▶ lane ───┤
//	                                          ▼
//	                       queue (bounded, domains by turns) ─▶ workers:
//	                       Responder.Wait ─▶ sink: the socket's writer, the
//	                       connection, the request
//
// A query that a responder can answer at once runs to completion on the
// goroutine that read it: no channel, no lock shared with other sockets, no
// allocation. Everything else is bounded: the queue, the workers, the
// connections, the queries under way on one connection, the tables of the
// limiters.
//
// What decides is behind two atomic pointers, so that a reload swaps it
// between two queries: the rules made of the settings ([Server.Reload]) and
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"shuultuur/filter"
	"shuultuur/nameserver/batch"
	"shuultuur/nameserver/wire"
)

// A Record is told of a query that was answered, on the goroutine that
// answered it: it copies what it keeps and does not block. Of many only
// Config.Log a second are told.
type Record func(q *wire.Query, r *wire.Reply, took time.Duration)

// responders are who answers.
type responders struct {
	all      []wire.Responder
	transfer []wire.Transferrer
	notify   []wire.Notifier
	auth     wire.Authenticator // nil for none
}

// A Server is a name server. It is a prometheus.Collector.
type Server struct {
	cfg    Config
	places places
	label  string // for metrics: where we listen
	logger *slog.Logger
	log    Record
	start  time.Time
	secret [16]byte
	tls    *tls.Config
	dot    *tls.Config // one for all connections: it has the keys by which they are resumed

	rules      atomic.Pointer[rules]
	responders atomic.Pointer[responders]
	logLeft    atomic.Int64

	clients *limiter
	replies *limiter
	conns   conns
	queue   *queue
	tallies []*tally // of sockets, then the shards
	shards  []*tally
	turn    atomic.Uint32

	sockets   []*socket
	listeners []listener
	quics     []quicListener
	stopping  atomic.Bool
	ctx       context.Context // of transfers; ends with Run
	streams   sync.WaitGroup
}

// A listener is a TCP socket and what is spoken on it.
type listener struct {
	net.Listener
	transport wire.Transport
}

// New makes a server of settings that fit together; it opens nothing yet.
// record may be nil.
func New(cfg Config, logger *slog.Logger, record Record) (*Server, error) {
	if err := cfg.defaults(runtime.GOMAXPROCS(0)); err != nil {
		return nil, err
	}
	p, err := cfg.places()
	if err != nil {
		return nil, err
	}
	r, err := cfg.rules()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, places: p, logger: logger, log: record, start: time.Now(), label: label(p),
		clients: newLimiter(), replies: newLimiter()}
	s.conns = conns{max: cfg.Connections, perClient: cfg.PerClient, per: map[netip.Addr]int{}, open: map[*conn]struct{}{}}
	key, set, err := cfg.Cookies.secret()
	if err != nil {
		return nil, err
	}
	if s.secret = key; !set {
		rand.Read(s.secret[:])
	}
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return s.rules.Load().cert, nil
	}}
	s.dot = s.tls.Clone()
	s.dot.NextProtos = []string{"dot"}
	s.queue = newQueue(s, cfg.Queue)
	for range max(runtime.GOMAXPROCS(0), 2) {
		s.shards = append(s.shards, new(tally))
	}
	s.tallies = append(s.tallies, s.shards...)
	s.rules.Store(r)
	s.logLeft.Store(r.log)
	s.responders.Store(&responders{})
	return s, nil
}

// label is the first address, as CoreDNS writes it.
func label(p places) string {
	for _, x := range []struct {
		scheme string
		at     []netip.AddrPort
	}{{"dns", p.plain}, {"tls", p.tls}, {"https", p.https}, {"quic", p.quic}} {
		if len(x.at) > 0 {
			return x.scheme + "://" + x.at[0].String()
		}
	}
	return ""
}

// SetResponders says who answers from the next query on, in order; auth may
// be nil. Those of all that are a [wire.Transferrer] or a [wire.Notifier] are
// asked as such.
func (s *Server) SetResponders(auth wire.Authenticator, all ...wire.Responder) {
	rs := &responders{all: all, auth: auth}
	for _, r := range all {
		if t, ok := r.(wire.Transferrer); ok {
			rs.transfer = append(rs.transfer, t)
		}
		if n, ok := r.(wire.Notifier); ok {
			rs.notify = append(rs.notify, n)
		}
	}
	s.responders.Store(rs)
}

// Reload takes new settings into use, or says what is wrong with them and
// keeps the old ones. Addresses, numbers of sockets, connections, workers and
// the queue's length, and the cookies' secret stay as they were at the start.
func (s *Server) Reload(cfg Config) error {
	if err := cfg.defaults(runtime.GOMAXPROCS(0)); err != nil {
		return err
	}
	if _, err := cfg.places(); err != nil {
		return err
	}
	if _, _, err := cfg.Cookies.secret(); err != nil {
		return err
	}
	r, err := cfg.rules()
	if err != nil {
		return err
	}
	s.rules.Store(r)
	return nil
}

// Listen opens every address, or none. Run does it too if it was not called.
func (s *Server) Listen(ctx context.Context) error {
	err := s.listen(ctx)
	if err != nil {
		s.closeAll()
	}
	return err
}

func (s *Server) listen(ctx context.Context) error {
	for i, a := range s.places.plain {
		at, err := s.listenTCP(ctx, a, wire.TCP)
		if err != nil {
			if missing(a, err) {
				continue
			}
			return filter.Setting(fmt.Sprintf("listen[%d]", min(i, len(s.cfg.Listen)-1)), err)
		}
		conns, err := batch.Listen(ctx, at, s.cfg.Sockets)
		if err != nil {
			return filter.Setting(fmt.Sprintf("listen[%d]", min(i, len(s.cfg.Listen)-1)), hint(err))
		}
		for i, c := range conns {
			t := new(tally)
			u, err := newSocket(s, c, t)
			if err != nil {
				for _, c := range conns[i:] {
					c.Close()
				}
				return fmt.Errorf("serve udp %s: %w", at, err)
			}
			s.tallies = append(s.tallies, t)
			s.sockets = append(s.sockets, u)
		}
	}
	for _, a := range s.places.tls {
		if _, err := s.listenTCP(ctx, a, wire.TLS); err != nil && !missing(a, err) {
			return filter.Setting("tls", err)
		}
	}
	for _, a := range s.places.https {
		at, err := s.listenTCP(ctx, a, wire.HTTPS)
		if err == nil {
			err = s.listenQUIC(ctx, at, wire.HTTPS)
		}
		if err != nil && !missing(a, err) {
			return filter.Setting("https", err)
		}
	}
	for _, a := range s.places.quic {
		if err := s.listenQUIC(ctx, a, wire.QUIC); err != nil && !missing(a, err) {
			return filter.Setting("quic", err)
		}
	}
	if len(s.listeners)+len(s.quics) == 0 {
		return filter.Setting("listen", errors.New("this machine has none of the addresses"))
	}
	return nil
}

// listenTCP opens a listener and returns its address: port 0 became another.
func (s *Server) listenTCP(ctx context.Context, a netip.AddrPort, t wire.Transport) (netip.AddrPort, error) {
	network := "tcp6"
	if a.Addr().Is4() {
		network = "tcp4"
	}
	ln, err := new(net.ListenConfig).Listen(ctx, network, a.String())
	if err != nil {
		return a, fmt.Errorf("listen on %s %s: %w", t, a, hint(err))
	}
	s.listeners = append(s.listeners, listener{ln, t})
	return netip.AddrPortFrom(a.Addr(), uint16(ln.Addr().(*net.TCPAddr).Port)), nil
}

// Addrs is where the server listens for a transport, after Listen; for UDP
// and TCP the same. HTTPS is both of TCP and, for HTTP/3, of UDP.
func (s *Server) Addrs(t wire.Transport) (all []netip.AddrPort) {
	if t == wire.UDP {
		t = wire.TCP
	}
	for _, ln := range s.listeners {
		if ln.transport == t {
			all = append(all, ln.Addr().(*net.TCPAddr).AddrPort())
		}
	}
	for _, q := range s.quics {
		if t == wire.QUIC && q.transport == t {
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
	s.tallies = s.tallies[:len(s.shards)]
}

// Run answers until ctx ends. Then it reads no more, lets what is under way
// finish, for a second at most, and returns. It is called once.
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
	web := s.newWeb()
	for _, ln := range s.listeners {
		if ln.transport == wire.HTTPS {
			servers.Go(func() { web.serve(ln) })
		} else {
			servers.Go(func() { s.accept(ln) })
		}
	}
	for _, q := range s.quics {
		servers.Go(func() { s.acceptQUIC(q, web) })
	}
	<-ctx.Done()

	s.stopping.Store(true)
	for _, u := range s.sockets {
		u.conn.Stop()
	}
	for _, ln := range s.listeners {
		ln.Close()
	}
	s.conns.interrupt()
	readers.Wait()
	grace, release := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer release()
	stopped := context.AfterFunc(grace, s.queue.stop) // workers that still wait
	s.queue.close()
	stopped()
	for _, u := range s.sockets {
		close(u.late)
	}
	writers.Wait()
	web.stop(grace)
	for _, q := range s.quics {
		q.close()
	}
	servers.Wait()
	cancel() // transfers
	s.conns.closeAll()
	s.streams.Wait()
	for _, u := range s.sockets {
		u.close()
	}
	return nil
}

// refill gives the record its share of each second.
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

// micros is a time in microseconds since the server was made, for limiters.
func (s *Server) micros(at time.Time) int64 { return int64(at.Sub(s.start) / time.Microsecond) }

// shard is a tally for one of many.
func (s *Server) shard(i int) *tally { return s.shards[uint(i)%uint(len(s.shards))] }

// lane is a new lane for a goroutine that is not a socket's.
func (s *Server) lane() lane { return lane{s: s, t: s.shard(int(s.turn.Add(1)))} }

// missing says that an address is one of ":53" and this machine does not have
// its family.
func missing(a netip.AddrPort, err error) bool {
	return a.Addr().IsUnspecified() && (errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL))
}

// hint says what to do about an address that cannot be had.
func hint(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; stop the name server that is there: on many systems systemd-resolved, with DNSStubListener=no in its resolved.conf", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w; ports below 1024 take a privilege: CAP_NET_BIND_SERVICE", err)
	}
	return err
}

// quicListener is QUIC on one UDP socket: DNS or HTTP/3.
type quicListener struct {
	transport wire.Transport
	udp       *net.UDPConn
	tr        *quic.Transport
	ln        *quic.Listener
}

func (q *quicListener) close() {
	q.ln.Close()
	q.tr.Close()
	q.udp.Close()
}
