package nameserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/test/peer"
)

// frame returns a query after its length.
func frame(t testing.TB, m *miekg.Msg) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// next reads one framed message.
func next(t testing.TB, r io.Reader) *miekg.Msg {
	t.Helper()
	var n uint16
	if err := binary.Read(r, binary.BigEndian, &n); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	m := new(miekg.Msg)
	if err := m.Unpack(b); err != nil {
		t.Fatal(err)
	}
	return m
}

func dial(t testing.TB, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.at(dns.TCP))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// ended reports whether the server closes the connection without another byte.
func ended(t testing.TB, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read %d bytes, %v; want the end of the connection", n, err)
	}
}

func TestPipelinedQueriesAreAnsweredAndLateOnesDoNotHoldThem(t *testing.T) {
	z := &zone{gate: make(chan struct{})}
	s := start(t, Config{}, nil, z)
	c := dial(t, s)
	var all []byte
	for id := range uint16(50) {
		m := query("www.test.", miekg.TypeA)
		if id%10 == 0 {
			m = query("later.test.", miekg.TypeA)
		}
		m.Id = id
		all = append(all, frame(t, m)...)
	}
	c.Write(all[:len(all)-5]) // the last one in two pieces
	time.AfterFunc(10*time.Millisecond, func() { c.Write(all[len(all)-5:]) })
	for id := range uint16(50) {
		if id%10 == 0 {
			continue
		}
		if m := next(t, c); m.Id != id || len(m.Answer) != 1 {
			t.Fatalf("got %v, want ID %d with 1 record", m, id)
		}
	}
	close(z.gate)
	seen := map[uint16]bool{}
	for range 5 {
		m := next(t, c)
		if seen[m.Id] = true; m.Id%10 != 0 || len(m.Answer) != 1 {
			t.Fatalf("got %v, want a deferred answer", m)
		}
	}
	if len(seen) != 5 {
		t.Errorf("deferred answers: got %v, want 5", seen)
	}
}

func TestAConnectionHoldsOnlySoManyQueries(t *testing.T) {
	z := &zone{gate: make(chan struct{})}
	s := start(t, Config{Pipeline: 4}, nil, z)
	c := dial(t, s)
	var all []byte
	for range 9 {
		all = append(all, frame(t, query("later.test.", miekg.TypeA))...)
	}
	c.Write(append(all, frame(t, query("www.test.", miekg.TypeA))...))
	for s.sums().requests[dns.TCP][0][0] < 5 { // four in progress, one waits for a slot
		time.Sleep(time.Millisecond)
	}
	close(z.gate)
	for range 10 {
		next(t, c)
	}
}

func TestConnectionsEnd(t *testing.T) {
	s := start(t, Config{Idle: setting.Duration(2 * time.Second)}, nil)
	t.Run("silent", func(t *testing.T) {
		c := dial(t, s)
		c.Write(frame(t, query("www.test.", miekg.TypeA)))
		next(t, c)
		ended(t, c)
	})
	t.Run("half a query", func(t *testing.T) {
		c := dial(t, s)
		c.Write([]byte{0, 20, 1, 2, 3})
		ended(t, c)
	})
	t.Run("half a query and gone", func(t *testing.T) {
		before := s.lost(badFrame)
		c := dial(t, s)
		c.Write([]byte{0, 20, 1, 2, 3})
		c.(*net.TCPConn).CloseWrite()
		ended(t, c)
		if s.lost(badFrame) != before+1 {
			t.Error("the broken framing was not counted")
		}
	})
	t.Run("no header", func(t *testing.T) { // is dropped; the connection stays
		c := dial(t, s)
		c.Write(append([]byte{0, 3, 1, 2, 3}, frame(t, query("www.test.", miekg.TypeA))...))
		next(t, c)
	})
	for s.conns.count() > 0 {
		time.Sleep(time.Millisecond)
	}
}

func TestKeepaliveSaysTheIdleTime(t *testing.T) {
	s := start(t, Config{Idle: setting.Duration(7 * time.Second)}, nil)
	m := query("www.test.", miekg.TypeA)
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []miekg.EDNS0{&miekg.EDNS0_TCP_KEEPALIVE{Code: miekg.EDNS0TCPKEEPALIVE}}
	o := exchange(t, s, "tcp", m).IsEdns0().Option
	if len(o) != 1 || o[0].(*miekg.EDNS0_TCP_KEEPALIVE).Timeout != 70 {
		t.Errorf("keepalive option over TCP: got %v, want 7 s", o)
	}
	if o := exchange(t, s, "udp", m).IsEdns0().Option; len(o) != 0 {
		t.Errorf("options over UDP: got %v, want none", o)
	}
}

func TestTooManyConnectionsAreClosed(t *testing.T) {
	s := start(t, Config{Connections: 3, PerClient: 2}, nil)
	alive := func(from string) net.Conn {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", s.at(dns.TCP))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(time.Minute))
		c.Write(frame(t, query("www.test.", miekg.TypeA)))
		return c
	}
	first := alive("127.0.0.1")
	next(t, first)
	next(t, alive("127.0.0.1"))
	ended(t, alive("127.0.0.1"))
	next(t, alive("127.0.0.2"))
	ended(t, alive("127.0.0.3"))
	if s.lost(clientFull) != 1 || s.lost(connFull) != 1 {
		t.Errorf("counted %d connections refused by client and %d in all, want 1 and 1", s.lost(clientFull), s.lost(connFull))
	}
	first.Close()
	for s.conns.count() > 2 {
		time.Sleep(time.Millisecond)
	}
	next(t, alive("127.0.0.1"))
}

func TestPROXYHeadersOfTrustedNetworks(t *testing.T) {
	// Only the client that a load balancer names may query.
	client := []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s := start(t, Config{Allow: client, Trusted: trusted, PerClient: 1}, nil)
	ask := func(s *Server, header string) net.Conn {
		c := dial(t, s)
		c.Write(append([]byte(header), frame(t, query("www.test.", miekg.TypeA))...))
		return c
	}
	for name, header := range map[string]string{
		"version 1":       "PROXY TCP4 198.51.100.7 127.0.0.1 1234 53\r\n",
		"version 1, IPv6": "PROXY TCP6 2001:db8::7 ::1 1234 53\r\n",
		"version 2":       "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc6\x33\x64\x08\x7f\x00\x00\x01\x04\xd2\x00\x35",
	} {
		if m := next(t, ask(s, header)); m.Rcode != 0 {
			t.Errorf("PROXY header %s: got %v, want NOERROR", name, m)
		}
	}
	if m := next(t, ask(s, "")); m.Rcode != miekg.RcodeRefused {
		t.Errorf("no PROXY header: got %v, want REFUSED", m)
	}
	ended(t, ask(s, "PROXY TCP4 bad\r\n"))
	if s.lost(badPROXY) != 1 {
		t.Error("the malformed PROXY header was not counted")
	}
	ask(s, "PROXY TCP4 198.51.100.9 127.0.0.1 1234 53\r\n")
	c := ask(s, "PROXY TCP4 198.51.100.9 127.0.0.1 1235 53\r\n")
	for s.lost(clientFull) == 0 { // one of the two
		time.Sleep(time.Millisecond)
	}
	c.Close()
	// From an address that is not trusted, the header is not a query.
	s = start(t, Config{Allow: client}, nil)
	c = ask(s, "PROXY TCP4 198.51.100.7 127.0.0.1 1234 53\r\n")
	c.(*net.TCPConn).CloseWrite()
	ended(t, c)
}

// secure starts a server with all encrypted transports.
func secure(t *testing.T, cfg Config, rs ...Responder) (*Server, *tls.Config) {
	t.Helper()
	cert, key, pool := certificate(t)
	cfg.TLS, cfg.HTTPS, cfg.QUIC = []string{"127.0.0.1:0"}, []string{"127.0.0.1:0"}, []string{"127.0.0.1:0"}
	cfg.Cert, cfg.Key = setting.File(cert), setting.File(key)
	return start(t, cfg, nil, rs...), &tls.Config{RootCAs: pool, ServerName: "dns.test"}
}

// padded sends a query with the padding option.
func padded(name string, typ uint16) *miekg.Msg {
	m := query(name, typ)
	m.Id = 0
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []miekg.EDNS0{&miekg.EDNS0_PADDING{Padding: make([]byte, 10)}}
	return m
}

func TestDNSOverTLS(t *testing.T) {
	z := &zone{gate: make(chan struct{})}
	close(z.gate)
	s, cfg := secure(t, Config{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, z)
	for _, header := range []string{"", "PROXY TCP4 198.51.100.7 127.0.0.1 1234 853\r\n"} {
		raw, err := net.Dial("tcp", s.at(dns.TLS))
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(raw, header)
		mine := cfg.Clone()
		mine.NextProtos = []string{"dot"}
		c := tls.Client(raw, mine)
		c.Write(append(frame(t, padded("www.test.", miekg.TypeA)), frame(t, padded("later.test.", miekg.TypeA))...))
		for range 2 {
			m := next(t, c)
			m.Compress = true
			b, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Answer) != 1 || len(b) != padBlock {
				t.Errorf("padded query: got %d bytes, %v", len(b), m)
			}
		}
		if p := c.ConnectionState().NegotiatedProtocol; p != "dot" {
			t.Errorf("negotiated protocol is %q, want dot", p)
		}
	}
	raw, err := net.Dial("tcp", s.at(dns.TLS))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(time.Minute))
	raw.Write(frame(t, query("www.test.", miekg.TypeA))) // no TLS
	raw.Read(make([]byte, 7))                            // an alert
	ended(t, raw)
}

func TestTLSConnectionsAreResumed(t *testing.T) {
	s, cfg := secure(t, Config{})
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for _, want := range []bool{false, true} {
		c, err := tls.Dial("tcp", s.at(dns.TLS), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		c.Write(frame(t, query("www.test.", miekg.TypeA)))
		next(t, c)
		if got := c.ConnectionState().DidResume; got != want {
			t.Errorf("session resumed: %v, want %v", got, want)
		}
		c.Close()
	}
}

// transferring answers AXFR with three messages.
type transferring struct{ zone }

func (*transferring) Transfer(_ context.Context, q *dns.Query, send func([]byte) error) (dns.Outcome, error) {
	if q.Type != miekg.TypeAXFR || !bytes.Equal(q.Name, apex) {
		return dns.Declined, nil
	}
	for range 3 {
		var r dns.Reply
		r.Start(q, nil, 65535)
		r.Record(nil, miekg.TypeSOA, 1, 60, soaData)
		r.Answers++
		if err := send(r.Finish(&dns.Options{Max: 65535})); err != nil {
			return dns.Answered, err
		}
	}
	return dns.Answered, nil
}

func (*transferring) Notify(q *dns.Query, r *dns.Reply) dns.Outcome {
	if !bytes.Equal(q.Name, apex) {
		return dns.Declined
	}
	r.AA = true
	return dns.Answered
}

func TestTransfersAndNotify(t *testing.T) {
	s := start(t, Config{}, nil, &transferring{})
	c := dial(t, s)
	c.Write(append(frame(t, query("www.test.", miekg.TypeA)), append(frame(t, query("test.", miekg.TypeAXFR)), frame(t, query("other.test.", miekg.TypeAXFR))...)...))
	for i := range 5 {
		if m := next(t, c); m.Rcode != 0 || i < 4 && len(m.Answer) != 1 || i == 4 && len(m.Answer) != 0 {
			t.Errorf("message %d of the transfer: got %v", i, m)
		}
	}
	for name, want := range map[string]int{"test.": 0, "example.org.": miekg.RcodeNotAuth} {
		m := new(miekg.Msg).SetNotify(name)
		if r := exchange(t, s, "udp", m); r.Rcode != want || r.Opcode != miekg.OpcodeNotify {
			t.Errorf("NOTIFY of %s: got %v", name, r)
		}
	}
}

// keys accepts one key, whose signature is a meaningless TSIG record.
type keys struct{ good bool }

func (k keys) Verify(*dns.Query) bool { return k.good }
func (k keys) Sign(_ *dns.Query, reply []byte) []byte {
	reply[11]++
	return append(reply, 0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 1, 7)
}

func TestSignedQueriesGetSignedReplies(t *testing.T) {
	s := start(t, Config{}, nil)
	msg := frame(t, query("www.test.", miekg.TypeA))
	msg[2+11] = 1
	msg = append(msg, 0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 0)
	for _, x := range []struct {
		auth  Authenticator
		rcode byte
		tail  bool
	}{{nil, dns.RcodeNotAuth, false}, {keys{false}, dns.RcodeNotAuth, true}, {keys{true}, 0, true}} {
		s.SetResponders(x.auth, &zone{})
		for _, network := range []string{"udp", "tcp"} {
			b := raw(t, s, network, msg[2:])
			if b[3]&15 != x.rcode || (b[11] == 1) != x.tail || (b[len(b)-1] == 7) != x.tail {
				t.Errorf("authenticator %v, %s: got % x", x.auth, network, b)
			}
		}
	}
}

func TestKdigSpeaksToEveryTransport(t *testing.T) {
	kdig := peer.Program(t, "kdig")
	s, _ := secure(t, Config{Listen: []string{"127.0.0.1:0"}})
	for transport, flag := range map[dns.Transport][]string{
		dns.UDP: {"+notcp"}, dns.TCP: {"+tcp", "+keepopen"}, dns.TLS: {"+tls"}, dns.HTTPS: {"+https"}, dns.QUIC: {"+quic"},
	} {
		a := s.Addrs(transport)[0]
		out, err := exec.Command(kdig, append(flag, "+short", "+cookie", "+padding", "@127.0.0.1", "-p", fmt.Sprint(a.Port()), "www.test.", "A")...).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != "192.0.2.1" {
			t.Errorf("kdig over %s: got %q, %v, want 192.0.2.1", transport, got, err)
		}
	}
}
