package nameserver

import (
	"context"
	"fmt"
	miekg "github.com/miekg/dns"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
)

// pass is a policy that lets everything pass.
type pass struct{}

func (pass) Wants(*filter.Transaction, filter.Stage) bool { return false }
func (pass) Decide(_ context.Context, t *filter.Transaction, _ filter.Stage) {
}

// distant is an upstream that answers every address query after a delay, except
// names below silent.test.
func distant(t *testing.T, while time.Duration) (addr string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var late sync.WaitGroup
	srv := &miekg.Server{PacketConn: pc, Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, q *miekg.Msg) {
		asked.Add(1)
		if miekg.IsSubDomain("silent.test.", q.Question[0].Name) {
			return
		}
		m := new(miekg.Msg).SetReply(q)
		m.Answer = []miekg.RR{&miekg.A{Hdr: miekg.RR_Header{Name: q.Question[0].Name, Rrtype: miekg.TypeA, Class: 1, Ttl: 60}, A: net.IPv4(192, 0, 2, 1)}}
		late.Add(1)
		time.AfterFunc(while, func() {
			defer late.Done()
			w.WriteMsg(m)
		})
	})}
	started, ended := make(chan struct{}), make(chan struct{})
	srv.NotifyStartedFunc = func() { close(started) }
	go func() { defer close(ended); srv.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { srv.Shutdown(); <-ended; late.Wait() })
	return pc.LocalAddr().String(), asked
}

// resolving starts a server that asks an upstream, all with their defaults.
func resolving(t *testing.T, upstream string) *Server {
	t.Helper()
	f, err := forward.New(forward.Config{Upstreams: []string{upstream}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := resolver.NewStore(resolver.CacheConfig{}, "", f.Ask)
	if err != nil {
		t.Fatal(err)
	}
	r, err := resolver.New(resolver.Config{}, resolver.Parts{Decider: pass{}, Store: store, Routed: [][]byte{[]byte("\x04test\x00")},
		Identify: func(a netip.Addr, _ string) filter.Client { return filter.Client{Addr: a} }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		store.Close()
	})
	s, err := New(Config{Listen: []string{"127.0.0.1:0"}}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetResponders(nil, r)
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	serving := make(chan error, 1)
	stop, end := context.WithCancel(context.Background())
	go func() { serving <- s.Run(stop) }()
	t.Cleanup(func() { end(); <-serving })
	return s
}

// atOnce queries n different names of a domain concurrently, over a few
// sockets, and returns the time until all were answered. Lost queries are
// repeated, as clients do.
func atOnce(t *testing.T, s *Server, n int, domain string) time.Duration {
	t.Helper()
	const sockets = 10
	begin := time.Now()
	var all sync.WaitGroup
	for k := range sockets {
		all.Go(func() {
			conn, err := net.Dial("udp", s.at(dns.UDP))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			c := &miekg.Conn{Conn: conn}
			waiting := map[uint16]*miekg.Msg{}
			for i := range n / sockets {
				m := recursive(fmt.Sprintf("h%d.%s", k*n/sockets+i, domain), miekg.TypeA)
				m.Id = uint16(i)
				waiting[m.Id] = m
			}
			for again := range 5 {
				for _, m := range waiting {
					c.WriteMsg(m)
				}
				c.SetReadDeadline(time.Now().Add(time.Second))
				for len(waiting) > 0 {
					m, err := c.ReadMsg()
					if err != nil {
						t.Logf("%d to be asked again after %d", len(waiting), again)
						break
					}
					if m.Rcode != 0 || len(m.Answer) != 1 {
						t.Errorf("query in a burst: got %v, want 1 record", m)
					}
					delete(waiting, m.Id)
				}
			}
			if len(waiting) > 0 {
				t.Errorf("%d of %d queries have no answer", len(waiting), n/sockets)
			}
		})
	}
	all.Wait()
	return time.Since(begin)
}

// TestAColdBurstIsAnswered: a thousand clients query uncached names of one domain at the same
// time; its servers are 20 ms away.
func TestAColdBurstIsAnswered(t *testing.T) {
	upstream, asked := distant(t, 20*time.Millisecond)
	s := resolving(t, upstream)
	t.Logf("answered after %v", atOnce(t, s, 1000, "school.test."))
	if n := s.lost(queueFull) + s.lost(queueOld); n != 0 || asked.Load() < 1000 {
		t.Errorf("%d queries lost, %d sent upstream", n, asked.Load())
	}
}

// TestAColdBurstIsAnsweredBesideASilentDomain: queries for another domain, whose servers are
// silent, fill the queue.
func TestAColdBurstIsAnsweredBesideASilentDomain(t *testing.T) {
	upstream, _ := distant(t, 20*time.Millisecond)
	s := resolving(t, upstream)
	stop := make(chan struct{})
	var flood sync.WaitGroup
	flood.Go(func() {
		conn, err := net.Dial("udp", s.at(dns.UDP))
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		c := &miekg.Conn{Conn: conn}
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			for j := range 20 {
				c.WriteMsg(recursive(fmt.Sprintf("x%d-%d.silent.test.", i, j), miekg.TypeA))
			}
		}
	})
	for s.lost(queueFull) == 0 {
		time.Sleep(time.Millisecond)
	}
	t.Logf("answered after %v", atOnce(t, s, 1000, "school.test."))
	close(stop)
	flood.Wait()
}

// recursive makes a query that wants other servers to be asked.
func recursive(name string, typ uint16) *miekg.Msg {
	m := query(name, typ)
	m.RecursionDesired = true
	return m
}
