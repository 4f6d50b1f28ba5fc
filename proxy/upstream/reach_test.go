package upstream

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"shuultuur/lib/dns"
)

// A nameServer answers questions for addresses. answer returns the addresses and whether there is
// an answer.
type nameServer struct {
	addr  string
	asked atomic.Int64
}

func newNameServer(t *testing.T, answer func(n int64, q dnsmessage.Question) ([]netip.Addr, bool)) *nameServer {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s := &nameServer{addr: c.LocalAddr().String()}
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil {
				continue
			}
			q := m.Questions[0]
			addrs, ok := answer(s.asked.Add(1), q)
			if !ok {
				continue
			}
			m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
			for _, a := range addrs {
				h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}
				if a.Is4() {
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
				} else {
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
				}
			}
			out, err := m.Pack()
			if err == nil {
				c.WriteTo(out, from)
			}
		}
	}()
	return s
}

// asking returns a resolver that asks the servers instead of the system's.
func asking(servers ...*nameServer) *net.Resolver {
	var others []string
	for _, s := range servers[1:] {
		others = append(others, s.addr)
	}
	r := newNames(func(string) []string { return others })
	dial := r.Dial
	r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, network, servers[0].addr)
	}
	return r
}

var localhost4 = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

// Neither the addresses of one family nor those of the other wait for an answer that does not come.
func TestAFamilyWhoseAddressesAreUnknownHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for silent, at := range map[dnsmessage.Type]string{dnsmessage.TypeAAAA: "127.0.0.1", dnsmessage.TypeA: "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
		if err != nil {
			t.Skip(err)
		}
		origin := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })}
		go origin.Serve(l)
		t.Cleanup(func() { origin.Close() })
		_, port, _ := net.SplitHostPort(l.Addr().String())
		s := newNameServer(t, func(_ int64, q dnsmessage.Question) ([]netip.Addr, bool) {
			return []netip.Addr{netip.MustParseAddr(at)}, q.Type != silent
		})
		up := newTransport(t, Config{Private: []netip.Prefix{netip.MustParsePrefix("::1/128")}})
		up.dialer.Resolver = asking(s)
		began := time.Now()
		if status, _ := trip(t, t.Context(), up, ask("GET", net.JoinHostPort("name.example", port))); status != 204 {
			t.Errorf("the status is %d, want 204", status)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("without an answer for %v it took %v", silent, took)
		}
	}
}

// A dead address costs a fraction of a second once, and nothing for a while after that.
func TestADeadAddressIsTriedLast(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, answers("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"))
	_, port, _ := net.SplitHostPort(o.addr)
	dead := map[string]bool{"127.0.0.2:" + port: true, "127.0.0.3:" + port: true, "127.0.0.4:" + port: true}
	s := newNameServer(t, func(_ int64, q dnsmessage.Question) (all []netip.Addr, ok bool) {
		if q.Type == dnsmessage.TypeA {
			for _, a := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.1"} {
				all = append(all, netip.MustParseAddr(a))
			}
		}
		return all, true
	})
	up := newTransport(t, Config{})
	up.dialer.Resolver = asking(s)
	var tried atomic.Int64
	up.dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		if !dead[address] {
			return nil
		}
		tried.Add(1)
		<-ctx.Done() // as if nobody answered
		return ctx.Err()
	}
	for i := range 3 {
		before := tried.Load()
		began := time.Now()
		if status, _ := trip(t, t.Context(), up, ask("GET", net.JoinHostPort("name.example", port))); status != 204 {
			t.Errorf("the status is %d, want 204", status)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("request %d took %v", i, took)
		}
		if i > 0 && tried.Load() != before {
			t.Errorf("request %d tried %d dead addresses", i, tried.Load()-before)
		}
	}
}

// Where no address accepts, the error names one.
func TestAHostWithoutALiveAddressIsNamed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	s := newNameServer(t, func(_ int64, q dnsmessage.Question) ([]netip.Addr, bool) {
		if q.Type != dnsmessage.TypeA {
			return nil, true
		}
		return localhost4, true
	})
	up := newTransport(t, Config{})
	up.dialer.Resolver = asking(s)
	c := &Caller{}
	if _, err := up.RoundTrip(c.Context(t.Context()), ask("GET", net.JoinHostPort("name.example", port))); err == nil || c.Server != localhost4[0] {
		t.Errorf("error %v of server %v, want one of 127.0.0.1", err, c.Server)
	}
	up.dialer.Resolver = asking(newNameServer(t, func(int64, dnsmessage.Question) ([]netip.Addr, bool) {
		return []netip.Addr{netip.MustParseAddr("10.9.9.9")}, true
	}))
	if _, err := up.RoundTrip(t.Context(), ask("GET", net.JoinHostPort("private.example", port))); !isRefused(err) {
		t.Errorf("a name in a private network: %v, want a refusal", err)
	}
}

func isRefused(err error) bool {
	for err != nil {
		if _, ok := err.(*RefusedError); ok {
			return true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return false
		}
		err = u.Unwrap()
	}
	return false
}

// A dead server and a lost packet cost a fraction of a second.
func TestAnotherNameServerIsAskedSoon(t *testing.T) {
	t.Parallel()
	good := func(_ int64, q dnsmessage.Question) ([]netip.Addr, bool) {
		if q.Type != dnsmessage.TypeA {
			return nil, true
		}
		return localhost4, true
	}
	silent := newNameServer(t, func(int64, dnsmessage.Question) ([]netip.Addr, bool) { return nil, false })
	lossy := newNameServer(t, func(n int64, q dnsmessage.Question) ([]netip.Addr, bool) {
		addrs, _ := good(n, q)
		return addrs, n > 1
	})
	gone, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := &nameServer{addr: gone.LocalAddr().String()}
	gone.Close()
	for name, servers := range map[string][]*nameServer{
		"the first is silent": {silent, newNameServer(t, good)},
		"the first is gone":   {refusing, newNameServer(t, good)},
		"the second is gone":  {newNameServer(t, good), refusing},
		"a packet is lost":    {lossy},
	} {
		began := time.Now()
		addrs, err := asking(servers...).LookupNetIP(t.Context(), "ip4", "name.example.")
		if err != nil || len(addrs) != 1 || addrs[0].Unmap() != localhost4[0] {
			t.Errorf("%s: %v, %v", name, addrs, err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
	began := time.Now()
	if _, err := asking(refusing).LookupNetIP(t.Context(), "ip4", "name.example."); err == nil || time.Since(began) > 3*time.Second {
		t.Errorf("without a server: %v after %v", err, time.Since(began))
	}
}

// RFC 6147: a gateway without IPv4 reaches hosts of IPv4 through the translator.
func TestAddressesOfATranslatorAreTriedToo(t *testing.T) {
	prefix := netip.MustParsePrefix("2001:db8:64::/96")
	r := race{t: newTransport(t, Config{NAT64: prefix}), port: 80}
	r.add(found{addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}})
	want := netip.AddrPortFrom(dns.TranslatedIPv6(prefix, netip.MustParseAddr("192.0.2.1")), 80)
	if len(r.waiting) != 2 || r.waiting[1] != want || want.Addr() != netip.MustParseAddr("2001:db8:64::c000:201") {
		t.Errorf("the addresses are %v, want %v second", r.waiting, want)
	}
}
