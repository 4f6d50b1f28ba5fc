package nameserver

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	miekg "github.com/miekg/dns"
	"net"
	"net/netip"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
)

// raw sends bytes over UDP or TCP and returns those of the reply.
func raw(t testing.TB, s *Server, network string, msg []byte) []byte {
	t.Helper()
	c, err := net.Dial(network, s.at(dns.UDP))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	conn := &miekg.Conn{Conn: c, UDPSize: 4096}
	if _, err := conn.Write(msg); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 65535)
	n, err := conn.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// TestEDNSAsRFC8906Section8 has the section's tests by their numbers.
func TestEDNSAsRFC8906Section8(t *testing.T) {
	s := start(t, Config{NSID: "one"}, nil)
	plain := func(f func(m *miekg.Msg)) func(m *miekg.Msg) { return f }
	edns := func(version uint8, ttl uint32, options ...miekg.EDNS0) func(m *miekg.Msg) {
		return func(m *miekg.Msg) {
			o := &miekg.OPT{Hdr: miekg.RR_Header{Name: ".", Rrtype: miekg.TypeOPT, Class: 1232, Ttl: ttl}}
			o.SetVersion(version)
			o.Option = options
			m.Extra = append(m.Extra, o)
		}
	}
	unknown := &miekg.EDNS0_LOCAL{Code: 100}
	cookie := &miekg.EDNS0_COOKIE{Code: miekg.EDNS0COOKIE, Cookie: "0102030405060708"}
	none := plain(func(*miekg.Msg) {})
	for _, x := range []struct {
		section string
		network string
		typ     uint16
		make    func(m *miekg.Msg)
		rcode   int
		answers int // -1 for any
		opt     bool
		do      bool
		options int
	}{
		{"8.1.1 is the zone served", "udp", miekg.TypeSOA, none, 0, 1, false, false, 0},
		{"8.1.2 unknown type", "udp", 1000, none, 0, 0, false, false, 0},
		{"8.1.3.1 CD", "udp", miekg.TypeSOA, func(m *miekg.Msg) { m.CheckingDisabled = true }, 0, 1, false, false, 0},
		{"8.1.3.2 AD", "udp", miekg.TypeSOA, func(m *miekg.Msg) { m.AuthenticatedData = true }, 0, 1, false, false, 0},
		{"8.1.3.3 Z", "udp", miekg.TypeSOA, func(m *miekg.Msg) { m.Zero = true }, 0, 1, false, false, 0},
		{"8.1.3.4 RD", "udp", miekg.TypeSOA, func(m *miekg.Msg) { m.RecursionDesired = true }, 0, 1, false, false, 0},
		{"8.1.5 TCP", "tcp", miekg.TypeSOA, none, 0, 1, false, false, 0},
		{"8.2.1 minimal EDNS", "udp", miekg.TypeSOA, edns(0, 0), 0, 1, true, false, 0},
		{"8.2.2 version 1", "udp", miekg.TypeSOA, edns(1, 0), 16, 0, true, false, 0},
		{"8.2.3 unknown option", "udp", miekg.TypeSOA, edns(0, 0, unknown), 0, 1, true, false, 0},
		{"8.2.4 unknown flag", "udp", miekg.TypeSOA, edns(0, 0x40), 0, 1, true, false, 0},
		{"8.2.5 version 1, unknown flag", "udp", miekg.TypeSOA, edns(1, 0x40), 16, 0, true, false, 0},
		{"8.2.6 version 1, unknown option", "udp", miekg.TypeSOA, edns(1, 0, unknown), 16, 0, true, false, 0},
		{"8.2.7 truncated", "udp", miekg.TypeTXT, func(m *miekg.Msg) { m.Question[0].Name = "big.test."; m.SetEdns0(512, true) }, 0, -1, true, true, 0},
		{"8.2.8 DO", "udp", miekg.TypeSOA, edns(0, 0x8000), 0, 1, true, true, 0},
		{"8.2.9 version 1, DO", "udp", miekg.TypeSOA, edns(1, 0x8000), 16, 0, true, true, 0},
		{"8.2.10 several options", "udp", miekg.TypeSOA, edns(0, 0, &miekg.EDNS0_NSID{Code: miekg.EDNS0NSID}, cookie,
			&miekg.EDNS0_SUBNET{Code: miekg.EDNS0SUBNET, Family: 1, Address: net.IPv4zero}, &miekg.EDNS0_EXPIRE{Code: miekg.EDNS0EXPIRE, Empty: true}), 0, 1, true, false, 3},
	} {
		t.Run(x.section, func(t *testing.T) {
			m := query("test.", x.typ)
			x.make(m)
			msg, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			b := raw(t, s, x.network, msg)
			r := new(miekg.Msg)
			if err := r.Unpack(b); err != nil {
				t.Fatal(err)
			}
			if r.Rcode != x.rcode || x.answers >= 0 && len(r.Answer) != x.answers || r.RecursionDesired != m.RecursionDesired || r.Zero || r.AuthenticatedData ||
				r.CheckingDisabled != m.CheckingDisabled || x.rcode == 0 && !r.Authoritative {
				t.Errorf("wrong header or number of answers: %v", r)
			}
			o := r.IsEdns0()
			if (o != nil) != x.opt {
				t.Fatalf("reply has the OPT record %v, want one: %v", o, x.opt)
			}
			if o != nil && (o.Version() != 0 || o.Do() != x.do || len(o.Option) != x.options || o.Hdr.Ttl&0x7fff != 0) {
				t.Errorf("wrong OPT record: %v", o)
			}
			if x.answers < 0 && !r.Truncated {
				t.Error("the reply is not truncated")
			}
		})
	}
	t.Run("8.1.4 unknown opcode", func(t *testing.T) {
		b := raw(t, s, "udp", []byte{0x12, 0x34, 15 << 3, 0, 0, 0, 0, 0, 0, 0, 0, 0})
		if want := []byte{0x12, 0x34, 0x80 | 15<<3, 4, 0, 0, 0, 0, 0, 0, 0, 0}; !bytes.Equal(b, want) {
			t.Errorf("reply to an unknown opcode: got % x, want % x", b, want)
		}
	})
}

func TestMalformedQueriesGetAnErrorOrNoReply(t *testing.T) {
	s := start(t, Config{}, nil)
	good, err := query("www.test.", miekg.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for name, msg := range map[string][]byte{
		"no question":   good[:12],
		"two questions": append(append(bytes.Clone(good[:5]), 2), append(bytes.Clone(good[6:]), good[12:]...)...),
		"cut short":     good[:len(good)-2],
		"OPT as type":   append(bytes.Clone(good[:len(good)-4]), 0, 41, 0, 1),
		"AXFR over UDP": append(bytes.Clone(good[:len(good)-4]), 0, 252, 0, 1),
	} {
		if b := raw(t, s, "udp", msg); b[3]&15 != dns.RcodeFormErr || b[2]&0x80 == 0 {
			t.Errorf("%s: got % x, want FORMERR", name, b)
		}
	}
	if b := raw(t, s, "udp", append(bytes.Clone(good[:len(good)-4]), 0, 251, 0, 1)); b[2]&2 == 0 {
		t.Errorf("IXFR over UDP: % x, want TC", b)
	}
	c, err := net.Dial("udp", s.at(dns.UDP))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write(good[:11])
	answer := bytes.Clone(good)
	answer[2] |= 0x80
	c.Write(answer)
	c.Write(make([]byte, 3000))
	c.Write(good) // answered, and nothing before it
	c.SetDeadline(time.Now().Add(time.Minute))
	b := make([]byte, 512)
	if n, err := c.Read(b); err != nil || n < 12 || b[7] != 1 {
		t.Errorf("first reply after messages without one: got % x, %v", b[:n], err)
	}
	if s.lost(notDNS) != 2 || s.lost(tooLong) != 1 {
		t.Errorf("counted %d messages as not DNS and %d as too long, want 2 and 1", s.lost(notDNS), s.lost(tooLong))
	}
}

func TestSubnetIsEchoedWithTheScope(t *testing.T) {
	s := start(t, Config{}, nil, &scoped{})
	m := query("www.test.", miekg.TypeA)
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []miekg.EDNS0{&miekg.EDNS0_SUBNET{Code: miekg.EDNS0SUBNET, Family: 1, SourceNetmask: 22, Address: net.IPv4(198, 51, 100, 0).To4()}}
	o := exchange(t, s, "udp", m).IsEdns0().Option
	if len(o) != 1 || o[0].String() != "198.51.100.0/22/24" {
		t.Errorf("client subnet in the reply: got %v", o)
	}
}

// scoped answers for /24.
type scoped struct{ zone }

func (*scoped) Answer(q *dns.Query, r *dns.Reply, _ *filter.Transaction) dns.Outcome {
	r.HasScope, r.Scope = true, 24
	return dns.Answered
}

// The test vectors of RFC 9018 appendix A.
func TestCookiesAreRFC9018s(t *testing.T) {
	for _, x := range []struct {
		secret, client, cookie string
		now                    uint32
		renewed                string
	}{
		{"e5e973e5a6b2a43f48e7dc849e37bfcf", "198.51.100.100", "2464c4abcf10c957", 1559731985, "2464c4abcf10c957010000005cf79f111f8130c3eee29480"},
		{"e5e973e5a6b2a43f48e7dc849e37bfcf", "203.0.113.203", "fc93fc62807ddb86", 1559734700, "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e"},
		{"445536bcd2513298075a5d379663c962", "2001:db8:220:1:59de:d0f4:8769:82b8", "22681ab97d52c298", 1559741961, "22681ab97d52c298010000005cf7c609a6bb79d16625507a"},
	} {
		var key [16]byte
		hex.Decode(key[:], []byte(x.secret))
		client, _ := hex.DecodeString(x.cookie)
		var c [cookieLen]byte
		addr := netip.MustParseAddr(x.client)
		makeCookie(&key, &c, client, addr, x.now)
		if got := hex.EncodeToString(c[:]); got != x.renewed {
			t.Errorf("renewed cookie: got %s, want %s", got, x.renewed)
		}
		for _, age := range []struct {
			d           int
			good, young bool
		}{{0, true, true}, {1799, true, true}, {1801, true, false}, {3600, true, false}, {3601, false, false}, {-300, true, true}, {-301, false, false}} {
			good, young := checkCookie(&key, c[:], addr, uint32(int(x.now)+age.d))
			if good != age.good || good && young != age.young {
				t.Errorf("cookie after %d s: valid %v, young %v", age.d, good, young)
			}
		}
		if good, _ := checkCookie(&key, c[:], netip.MustParseAddr("192.0.2.1"), x.now); good {
			t.Error("checkCookie accepted the cookie of another client")
		}
		c[20] ^= 1
		if good, _ := checkCookie(&key, c[:], addr, x.now); good {
			t.Error("checkCookie accepted a changed cookie")
		}
	}
}

// withCookie sends a query with a cookie in hex. It returns the reply and the cookie in it.
func withCookie(t *testing.T, s *Server, cookie string) (*miekg.Msg, string) {
	t.Helper()
	m := query("www.test.", miekg.TypeA)
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []miekg.EDNS0{&miekg.EDNS0_COOKIE{Code: miekg.EDNS0COOKIE, Cookie: cookie}}
	r := exchange(t, s, "udp", m)
	if o := r.IsEdns0(); o != nil && len(o.Option) == 1 {
		return r, o.Option[0].(*miekg.EDNS0_COOKIE).Cookie
	}
	return r, ""
}

func TestCookiesByMode(t *testing.T) {
	const mine = "0102030405060708"
	for mode, want := range map[string]int{"on": 0, "require": dns.RcodeBadCookie} {
		s := start(t, Config{Cookies: Cookies{Mode: mode}}, nil)
		r, c := withCookie(t, s, mine)
		if r.Rcode != want || len(c) != 48 || c[:16] != mine {
			t.Errorf("%s: client cookie only: got rcode %d, cookie %q", mode, r.Rcode, c)
		}
		if r, again := withCookie(t, s, c); r.Rcode != 0 || len(r.Answer) != 1 || again != c {
			t.Errorf("%s: our cookie: got rcode %d, cookie %q", mode, r.Rcode, again)
		}
		if r, _ := withCookie(t, s, mine+"01000000000000000000000000000000"); r.Rcode != want {
			t.Errorf("%s: forged cookie: got rcode %d", mode, r.Rcode)
		}
		if r := exchange(t, s, "udp", query("www.test.", miekg.TypeA)); r.Rcode != 0 {
			t.Errorf("%s: no cookie: got rcode %d, want 0", mode, r.Rcode)
		}
	}
	s := start(t, Config{Cookies: Cookies{Mode: "off"}}, nil)
	if r, c := withCookie(t, s, mine); r.Rcode != 0 || c != "" {
		t.Errorf("cookies off: got rcode %d, cookie %q, want no cookie", r.Rcode, c)
	}
	s = start(t, Config{}, nil)
	msg := []byte{0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 12, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8}
	b := raw(t, s, "udp", msg)
	if len(b) != 12+11+4+24 || binary.BigEndian.Uint16(b[4:]) != 0 || b[3] != 0 {
		t.Errorf("cookie without a question: got % x", b)
	}
}
