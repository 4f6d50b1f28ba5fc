// Package accounting receives RADIUS accounting (RFC 2866) from access points, switches
// and VPNs, which report when a user's session on an address begins, continues and
// ends.
//
// Data moves as follows: [Server.Run] reads packets from sockets. A packet from a known
// client whose authenticator matches the shared secret becomes a change of a session
// ([read]). Changes wait for a few milliseconds at most. The table of sessions writes
// them to disk together, and only then are they acknowledged: a client repeats a packet
// that was not acknowledged.
package accounting

import (
	"context"
	"crypto/hmac"
	"crypto/md5" // RFC 2866 requires it
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"layeh.com/radius"

	"shuultuur/identity/session"
	"shuultuur/lib/handover"
	"shuultuur/lib/metric"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

const (
	maxPacket = 4096 // RFC 2866, 3
	queued    = 4096
	batch     = 512
)

// A Server receives packets.
type Server struct {
	rules    rules
	addrs    []setting.Address
	sessions Sessions
	log      *slog.Logger

	open  []*net.UDPConn
	queue chan change

	taken, unused, refused, dropped atomic.Uint64

	warned atomic.Int64 // when a refusal was last logged, in Unix seconds
}

// A rules is a Config in the form in which packets are matched.
type rules struct {
	clients  []client // narrowest network first
	class    bool
	units    bool // only those of the form OU=name in Class
	filter   bool
	expire   time.Duration
	unsigned bool
}

type client struct {
	net    netip.Prefix
	secret []byte
}

// New reads the settings. sessions may be nil if the settings are only checked.
func New(cfg *Config, addrs []setting.Address, sessions Sessions, log *slog.Logger) (*Server, error) {
	if release.Small {
		return nil, release.Lacks("RADIUS accounting")
	}
	if cfg == nil || len(cfg.Clients) == 0 { // also if only listen.radius is set
		return nil, setting.At("clients", errors.New("no client is named: write its address or network and the shared secret, such as {10.1.0.2: secret}"))
	}
	if len(addrs) == 0 {
		return nil, errors.New("packets come to no address: name one at listen.radius, such as 10.0.0.1:1813")
	}
	s := &Server{addrs: addrs, sessions: sessions, log: log, queue: make(chan change, queued)}
	r := &s.rules
	r.unsigned = cfg.Unsigned == nil || *cfg.Unsigned
	for name, secret := range cfg.Clients {
		n, err := network(name)
		if err != nil {
			return nil, setting.At("clients", err)
		}
		if secret == "" {
			return nil, setting.At("clients."+name, errors.New("the shared secret is empty: anybody could send packets"))
		}
		r.clients = append(r.clients, client{n, []byte(secret)})
	}
	slices.SortStableFunc(r.clients, func(a, b client) int { return b.net.Bits() - a.net.Bits() })
	groups := cfg.Groups
	if len(groups) == 0 {
		groups = []string{"filter-id"}
	}
	for i, g := range groups {
		switch g {
		case "class":
			r.class = true
		case "class-ou":
			r.units = true
		case "filter-id":
			r.filter = true
		default:
			return nil, setting.At(fmt.Sprintf("groups[%d]", i), fmt.Errorf("%q is not an attribute that names groups: write class, class-ou or filter-id", g))
		}
	}
	r.expire = cfg.Expire.Or(24 * time.Hour)
	if r.expire <= 0 || r.expire > session.MaxTime {
		return nil, setting.At("expire", fmt.Errorf("sessions are to end within %v", session.MaxTime))
	}
	return s, nil
}

func network(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fmt.Errorf("%q is not an address or a network", s)
	}
	return p.Masked(), nil
}

// secret returns the secret shared with a client, or nil for an unknown
// address.
func (r *rules) secret(a netip.Addr) []byte {
	for _, c := range r.clients {
		if c.net.Contains(a) {
			return c.secret
		}
	}
	return nil
}

// Listen opens the sockets.
func (s *Server) Listen(ctx context.Context) error {
	for _, a := range s.addrs {
		var lc net.ListenConfig
		c, err := handover.ListenPacket(ctx, &lc, "udp", string(a))
		if err != nil {
			return errors.Join(fmt.Errorf("cannot listen for RADIUS accounting on %q: %w", a, err), s.Close())
		}
		u := c.(*net.UDPConn)
		_ = u.SetReadBuffer(4 << 20) // for bursts; the system may grant less
		s.open = append(s.open, u)
	}
	return nil
}

// Addr returns the address of the first socket, or "" if there is none.
func (s *Server) Addr() string {
	if len(s.open) == 0 {
		return ""
	}
	return s.open[0].LocalAddr().String()
}

// Close closes the sockets.
func (s *Server) Close() error {
	var errs []error
	for _, c := range s.open {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Run receives packets until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	var readers, writer sync.WaitGroup
	for _, c := range s.open {
		readers.Go(func() { s.receive(ctx, c) })
	}
	writer.Go(s.write)
	readers.Wait()
	close(s.queue)
	writer.Wait()
	return nil
}

// receive reads packets from a socket.
func (s *Server) receive(ctx context.Context, c *net.UDPConn) {
	b := make([]byte, maxPacket+1)
	for {
		n, from, err := c.ReadFromUDPAddrPort(b)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(time.Millisecond) // the ICMP error of an earlier answer
			continue
		}
		at := netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		ch, err := s.rules.read(b[:n], at.Addr(), time.Now())
		if err != nil {
			s.refused.Add(1)
			if now := time.Now().Unix(); now-s.warned.Swap(now) >= 1 {
				s.log.Warn("a packet of RADIUS accounting is not taken", "from", at, "error", err)
			}
			continue
		}
		ch.back = func(answer []byte) { _, _ = c.WriteToUDPAddrPort(answer, from) }
		select {
		case s.queue <- ch:
		default:
			s.dropped.Add(1) // the client repeats it
		}
	}
}

// write applies changes, including those that arrived while the disk was busy,
// and acknowledges them.
func (s *Server) write() {
	for first := range s.queue {
		all := []change{first}
	more:
		for len(all) < batch {
			select {
			case ch, ok := <-s.queue:
				if !ok {
					break more
				}
				all = append(all, ch)
			default:
				break more
			}
		}
		s.apply(all)
	}
}

// apply makes changes in order and acknowledges those that are on disk, and those that will
// never change anything: their clients would send them again for ever.
func (s *Server) apply(all []change) {
	changes := make([]*session.Change, 0, len(all))
	of := make([]*change, 0, len(all))
	for n := range all {
		ch := &all[n]
		if ch.unused != "" {
			s.acknowledge(ch)
			continue
		}
		changes, of = append(changes, &session.Change{Event: &ch.Event}), append(of, ch)
	}
	var failed []string
	for n, err := range s.sessions.Change(changes...) {
		if err != nil {
			s.dropped.Add(1)
			failed = append(failed, fmt.Sprintf("%s: %v", of[n].By, err))
			continue
		}
		of[n].unused = of[n].Unused
		s.acknowledge(of[n])
	}
	if len(failed) > 0 {
		s.log.Error("packets of RADIUS accounting are not carried out; their clients send them again", "refused", len(failed), "error", failed[0])
	}
}

// acknowledge answers a packet that need not be sent again.
func (s *Server) acknowledge(ch *change) {
	if ch.unused == "" {
		s.taken.Add(1)
	} else {
		s.unused.Add(1)
		if now := time.Now().Unix(); now-s.warned.Swap(now) >= 1 {
			s.log.Info("a packet of RADIUS accounting changes nothing", "from", ch.By.String(), "user", ch.User, "error", ch.unused)
		}
	}
	ch.back(ch.answer)
}

var (
	packetsDesc = metric.NewDesc("shuultuur_radius_packets_total", "Packets of RADIUS accounting: taken, unused (late, or of no use here), refused (stranger, wrong secret, damaged), dropped for want of room or disk.", "what")
)

// Collect implements [metric.Collector].
func (s *Server) Collect(ch chan<- metric.Metric) {
	for what, n := range map[string]*atomic.Uint64{"taken": &s.taken, "unused": &s.unused, "refused": &s.refused, "dropped": &s.dropped} {
		ch <- metric.New(packetsDesc, metric.Count, float64(n.Load()), what)
	}
}

// verify reports whether a packet is authenticated by a secret (RFC 2866, 3; RFC
// 3579, 3.2) and has a Message-Authenticator.
func verify(b, secret []byte) (signed bool, err error) {
	var zero [16]byte
	h := md5.New()
	h.Write(b[:4])
	h.Write(zero[:])
	h.Write(b[20:])
	h.Write(secret)
	if !hmac.Equal(h.Sum(nil), b[4:20]) {
		return false, errors.New("the authenticator is not that of the shared secret: is the secret the same on both sides?")
	}
	for i := 20; i+2 <= len(b); i += int(b[i+1]) {
		if b[i] != messageAuthenticator || b[i+1] != 18 {
			continue
		}
		c := slices.Clone(b)
		copy(c[4:20], zero[:])
		copy(c[i+2:i+18], zero[:])
		m := hmac.New(md5.New, secret)
		m.Write(c)
		if !hmac.Equal(m.Sum(nil), b[i+2:i+18]) {
			return false, errors.New("the Message-Authenticator is not that of the shared secret")
		}
		return true, nil
	}
	return false, nil
}

const messageAuthenticator = 80

// answer returns the acknowledgement of a packet.
func answer(q *radius.Packet) ([]byte, error) {
	return q.Response(radius.CodeAccountingResponse).Encode()
}
