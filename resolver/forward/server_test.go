package forward

import (
	"context"
	miekg "github.com/miekg/dns"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A server is a real name server on a separate port, UDP and TCP.
type server struct {
	addr    string
	queries atomic.Int64
	tcp     atomic.Int64
	stop    func()
}

// serve starts a server that answers with the result of h, or not at all for
// nil.
func serve(t testing.TB, h func(q *miekg.Msg, tcp bool) *miekg.Msg) *server {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", h)
}

func serveAt(t testing.TB, addr string, h func(q *miekg.Msg, tcp bool) *miekg.Msg) *server {
	t.Helper()
	s := &server{}
	handler := miekg.HandlerFunc(func(w miekg.ResponseWriter, q *miekg.Msg) {
		_, tcp := w.RemoteAddr().(*net.TCPAddr)
		if tcp {
			s.tcp.Add(1)
		}
		s.queries.Add(1)
		if a := h(q, tcp); a != nil {
			w.WriteMsg(a)
		}
	})
	var pc net.PacketConn
	var ln net.Listener
	for range 20 { // a port that is free for both UDP and TCP
		var err error
		if pc, err = net.ListenPacket("udp", addr); err != nil {
			t.Fatal(err)
		}
		if ln, err = net.Listen("tcp", pc.LocalAddr().String()); err == nil {
			break
		}
		pc.Close()
	}
	if ln == nil {
		t.Fatal("no port is free for both UDP and TCP")
	}
	s.addr = pc.LocalAddr().String()
	u := &miekg.Server{PacketConn: pc, Handler: handler}
	c := &miekg.Server{Listener: ln, Handler: handler, MaxTCPQueries: -1, IdleTimeout: func() time.Duration { return time.Minute }}
	var started, ended sync.WaitGroup
	for _, x := range []*miekg.Server{u, c} {
		started.Add(1)
		x.NotifyStartedFunc = started.Done
		ended.Go(func() { x.ActivateAndServe() })
	}
	started.Wait()
	s.stop = sync.OnceFunc(func() {
		u.Shutdown()
		c.Shutdown()
		ended.Wait()
	})
	t.Cleanup(s.stop)
	return s
}

// says answers every query for addresses with one address.
func says(ip string) func(q *miekg.Msg, tcp bool) *miekg.Msg {
	return func(q *miekg.Msg, _ bool) *miekg.Msg {
		m := new(miekg.Msg).SetReply(q)
		m.RecursionAvailable = true
		if q.IsEdns0() != nil {
			m.SetEdns0(1232, false)
		}
		if q.Question[0].Qtype == miekg.TypeA {
			m.Answer = []miekg.RR{&miekg.A{Hdr: miekg.RR_Header{Name: q.Question[0].Name, Rrtype: miekg.TypeA, Class: 1, Ttl: 60}, A: net.ParseIP(ip)}}
		}
		return m
	}
}

// start makes a forwarder that runs until the test ends.
func start(t testing.TB, cfg Config) *Forwarder {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return f
}

// get looks up the address of a host and returns it, or the error.
func get(f *Forwarder, host string) string {
	addrs, _, err := f.Lookup(context.Background(), host, miekg.TypeA)
	if err != nil {
		return "error: " + err.Error()
	}
	var s []string
	for _, a := range addrs {
		s = append(s, a.String())
	}
	return strings.Join(s, " ")
}

// first returns the first upstream of names without a route.
func first(f *Forwarder) *upstream { return f.routes["\x00"].upstreams[0] }
