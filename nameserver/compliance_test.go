package nameserver

import (
	"context"
	"fmt"
	miekg "github.com/miekg/dns"

	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"shuultuur/lib/dns"
	"strings"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
	"shuultuur/test/peer"
	zones "shuultuur/zone"
)

// complianceZone has an RRset that no datagram of 512 bytes holds.
func complianceZone() string {
	var b strings.Builder
	b.WriteString("$ORIGIN compliant.example.\n$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 127.0.0.1\n")
	for i := range 12 {
		fmt.Fprintf(&b, "big TXT \"%d%s\"\n", i, strings.Repeat("x", 100))
	}
	return b.String()
}

// A compliance is a query of RFC 8906 section 8, or of ISC's compliance tester
// (DNS-Compliance-Testing), by its name there.
type compliance struct {
	name    string
	network string
	query   func(m *miekg.Msg)
}

func optOf(version uint8, size uint16, flags uint32, options ...miekg.EDNS0) func(*miekg.Msg) {
	return func(m *miekg.Msg) {
		o := &miekg.OPT{Hdr: miekg.RR_Header{Name: ".", Rrtype: miekg.TypeOPT, Class: size, Ttl: flags}, Option: options}
		o.SetVersion(version)
		m.Extra = append(m.Extra, o)
	}
}

func both(fs ...func(*miekg.Msg)) func(*miekg.Msg) {
	return func(m *miekg.Msg) {
		for _, f := range fs {
			f(m)
		}
	}
}

func compliances() (all []compliance) {
	add := func(name, network string, f func(*miekg.Msg)) { all = append(all, compliance{name, network, f}) }
	flag := func(f func(h *miekg.MsgHdr)) func(*miekg.Msg) { return func(m *miekg.Msg) { f(&m.MsgHdr) } }
	big := func(m *miekg.Msg) { m.Question[0].Name, m.Question[0].Qtype = "big."+m.Question[0].Name, miekg.TypeTXT }
	unknown := &miekg.EDNS0_LOCAL{Code: 100}
	nsid, expire := &miekg.EDNS0_NSID{Code: miekg.EDNS0NSID}, &miekg.EDNS0_EXPIRE{Code: miekg.EDNS0EXPIRE, Empty: true}
	cookie := &miekg.EDNS0_COOKIE{Code: miekg.EDNS0COOKIE, Cookie: "0102030405060708"}
	subnet := &miekg.EDNS0_SUBNET{Code: miekg.EDNS0SUBNET, Family: 1, Address: net.IPv4zero}

	add("dns", "udp", both())
	add("aa", "udp", flag(func(h *miekg.MsgHdr) { h.Authoritative = true }))
	add("ad", "udp", flag(func(h *miekg.MsgHdr) { h.AuthenticatedData = true }))
	add("cd", "udp", flag(func(h *miekg.MsgHdr) { h.CheckingDisabled = true }))
	add("ra", "udp", flag(func(h *miekg.MsgHdr) { h.RecursionAvailable = true }))
	add("tc", "udp", flag(func(h *miekg.MsgHdr) { h.Truncated = true }))
	add("zflag", "udp", flag(func(h *miekg.MsgHdr) { h.Zero = true }))
	add("opcode", "udp", func(m *miekg.Msg) { m.Opcode, m.Question = 15, nil })
	add("opcodeflg", "udp", func(m *miekg.Msg) {
		m.MsgHdr = miekg.MsgHdr{Id: m.Id, Opcode: 15, Authoritative: true, Truncated: true, RecursionDesired: true, RecursionAvailable: true,
			Zero: true, AuthenticatedData: true, CheckingDisabled: true}
		m.Question = nil
	})
	add("tcp", "tcp", both())
	add("edns", "udp", optOf(0, 4096, 0))
	add("edns1", "udp", optOf(1, 4096, 0))
	add("edns@512", "udp", both(big, optOf(0, 512, 0x8000)))
	add("ednsopt", "udp", optOf(0, 4096, 0, unknown))
	add("edns1opt", "udp", optOf(1, 4096, 0, unknown))
	add("do", "udp", optOf(0, 4096, 0x8000))
	add("docd", "udp", both(flag(func(h *miekg.MsgHdr) { h.CheckingDisabled = true }), optOf(0, 4096, 0x8000)))
	add("edns1do", "udp", optOf(1, 4096, 0x8000))
	add("ednsflags", "udp", optOf(0, 4096, 0x80))
	add("edns1flags", "udp", optOf(1, 4096, 0x40))
	add("optlist", "udp", optOf(0, 4096, 0, nsid, subnet, expire, cookie))
	for _, o := range []struct {
		name string
		opt  miekg.EDNS0
	}{{"nsid", nsid}, {"cookie", cookie}, {"expire", expire}, {"subnet", subnet}} {
		add("edns"+o.name, "udp", optOf(0, 4096, 0, o.opt))
		add("edns1"+o.name, "udp", optOf(1, 4096, 0, o.opt))
	}
	add("ednstcp", "tcp", both(big, optOf(0, 512, 0x8000)))
	add("bind11", "udp", optOf(0, 4096, 0x8000, cookie))
	add("dig11", "udp", both(flag(func(h *miekg.MsgHdr) { h.RecursionDesired, h.AuthenticatedData = true, true }), optOf(0, 4096, 0, cookie)))
	for _, typ := range []uint16{miekg.TypeA, miekg.TypeNS, miekg.TypeMD, miekg.TypeMF, miekg.TypeCNAME, miekg.TypeMB, miekg.TypeNULL, miekg.TypePTR, miekg.TypeHINFO, miekg.TypeMX,
		miekg.TypeTXT, miekg.TypeRP, miekg.TypeSIG, miekg.TypeKEY, miekg.TypeAAAA, miekg.TypeLOC, miekg.TypeNXT, miekg.TypeSRV, miekg.TypeNAPTR, miekg.TypeDNAME, miekg.TypeAPL,
		miekg.TypeSSHFP, miekg.TypeDNSKEY, miekg.TypeNSEC3PARAM, miekg.TypeTLSA, miekg.TypeCDS, miekg.TypeHTTPS, miekg.TypeSPF, miekg.TypeURI, miekg.TypeCAA, 666, 1000} {
		add(miekg.Type(typ).String(), "udp", func(m *miekg.Msg) { m.Question[0].Qtype = typ })
	}
	return all
}

// exchange sends the query of a case to a server and returns its answer; recurse is for
// resolvers.
func (x *compliance) exchange(t *testing.T, addr string, recurse bool) (m, r *miekg.Msg) {
	t.Helper()
	m = query("compliant.example.", miekg.TypeSOA)
	m.RecursionDesired = recurse
	x.query(m)
	c := &miekg.Client{Net: x.network, Timeout: time.Minute, UDPSize: 4096}
	r, _, err := c.Exchange(m, addr)
	if err != nil {
		t.Fatalf("%s at %s: %v", x.name, addr, err)
	}
	return m, r
}

// shape returns the parts of an answer that RFC 8906 covers, without the data.
func shape(m, r *miekg.Msg) string {
	s := fmt.Sprintf("%s qr=%v opcode=%d aa=%v tc=%v rd=%v z=%v answers=%v", strings.Replace(miekg.RcodeToString[r.Rcode], "BADSIG", "BADVERS", 1), r.Response, r.Opcode, r.Authoritative, r.Truncated, r.RecursionDesired, r.Zero, len(r.Answer) > 0)
	if o := r.IsEdns0(); o != nil {
		s += fmt.Sprintf(" OPT version=%d do=%v flags=%x", o.Version(), o.Do(), o.Hdr.Ttl&0x7fff)
		for _, opt := range o.Option {
			if opt.Option() == 100 {
				s += " option 100"
			}
		}
	}
	return s
}

// peerOf starts another name server with settings in which PORT is its port,
// and returns its address.
func peerOf(t *testing.T, name, settings string) string {
	t.Helper()
	port, file := peer.Port(t), filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(settings, "PORT", port)), 0o644); err != nil {
		t.Fatal(err)
	}
	peer.Start(t, name, "-d", "-c", file)
	addr := "127.0.0.1:" + port
	c := &miekg.Client{Timeout: 200 * time.Millisecond}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if r, _, err := c.Exchange(new(miekg.Msg).SetQuestion("compliant.example.", miekg.TypeSOA), addr); err == nil && len(r.Answer) == 1 {
			return addr
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not answer within the time limit", name)
		}
	}
}

// passes is a policy that lets everything pass.
type passes struct{}

func (passes) Wants(*filter.Transaction, filter.Stage) bool { return false }
func (passes) Decide(_ context.Context, t *filter.Transaction, _ filter.Stage) {
}

// peculiar are the answers in which the peers differ from RFC 8906: Unbound
// treats a query with TC as malformed, both return reserved flags, and NSD
// omits DO with BADVERS (section 8.2.9).
var peculiar = map[string]string{
	"tc, resolver":        "NOERROR qr=true opcode=0 aa=false tc=false rd=true z=false answers=true",
	"opcodeflg, own zone": "NOTIMP qr=true opcode=15 aa=false tc=false rd=true z=false answers=false",
	"opcodeflg, resolver": "NOTIMP qr=true opcode=15 aa=false tc=false rd=true z=false answers=false",
	"edns1do, own zone":   "BADVERS qr=true opcode=0 aa=false tc=false rd=false z=false answers=false OPT version=0 do=true flags=0",
}

// TestEveryPathIsCompliant sends the queries to our own zone, to the resolver
// and to a server that refuses, and compares with NSD and Unbound.
func TestEveryPathIsCompliant(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "compliant.example.zone")
	if err := os.WriteFile(file, []byte(complianceZone()), 0o644); err != nil {
		t.Fatal(err)
	}
	nsd := peerOf(t, "nsd", fmt.Sprintf("server:\n  ip-address: 127.0.0.1@PORT\n  zonesdir: %q\n  username: \"\"\n  chroot: \"\"\n  logfile: \"\"\n  pidfile: \"\"\n  xfrdfile: %q\n  zonelistfile: %q\n  database: \"\"\n  rrl-ratelimit: 0\n  minimal-responses: yes\nremote-control:\n  control-enable: no\nzone:\n  name: compliant.example\n  zonefile: compliant.example.zone\n",
		dir, filepath.Join(dir, "xfrd"), filepath.Join(dir, "list")))
	unbound := peerOf(t, "unbound", fmt.Sprintf("server:\n  interface: 127.0.0.1@PORT\n  do-daemonize: no\n  username: \"\"\n  chroot: \"\"\n  pidfile: \"\"\n  use-syslog: no\n  do-not-query-localhost: no\n  module-config: \"iterator\"\n  access-control: 127.0.0.0/8 allow\nremote-control:\n  control-enable: no\nforward-zone:\n  name: \".\"\n  forward-addr: %s\n",
		strings.Replace(nsd, ":", "@", 1)))

	own := zones.NewResponder()
	if _, err := zones.NewFiles(zones.Config{Files: []zones.File{{Path: setting.Source(file)}}}, "", own, nil, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	f, err := forward.New(forward.Config{Upstreams: []string{nsd}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	store, err := resolver.NewStore(resolver.CacheConfig{}, "", f.Ask)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	others, err := resolver.New(resolver.Config{}, resolver.Parts{Decider: passes{}, Store: store, Identify: func(a netip.Addr, _ string) filter.Client { return filter.Client{Addr: a} }})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	none := RRL{Rate: -1}
	authority := start(t, Config{RRL: none, Recursion: elsewhere}, nil, own, others)
	resolver := start(t, Config{RRL: none}, nil, others)
	refuser := start(t, Config{RRL: none, Recursion: elsewhere}, nil, others)

	for _, x := range compliances() {
		t.Run(x.name, func(t *testing.T) {
			for _, p := range []struct {
				path, peer string
				s          *Server
				recurse    bool
			}{{"own zone", nsd, authority, false}, {"resolver", unbound, resolver, true}, {"refused", "", refuser, true}} {
				m, r := x.exchange(t, p.s.at(0), p.recurse)
				got := shape(m, r)
				if p.peer == "" {
					if o := m.IsEdns0(); r.Rcode != dns.RcodeRefused && !(o != nil && o.Version() > 0 && r.Rcode == dns.RcodeBadVers) && !(m.Opcode == 15 && r.Rcode == dns.RcodeNotImp) {
						t.Errorf("%s: got %s, want REFUSED", p.path, got)
					}
					if r.Zero || r.Truncated || r.Authoritative || (r.IsEdns0() != nil) != (m.IsEdns0() != nil) || r.RecursionDesired != m.RecursionDesired && m.Opcode == 0 {
						t.Errorf("%s: wrong flags or OPT record: %s", p.path, got)
					}
					continue
				}
				want := peculiar[x.name+", "+p.path]
				if want == "" {
					_, other := x.exchange(t, p.peer, p.recurse)
					want = shape(m, other)
				}
				if got != want {
					t.Errorf("%s: got\n%s, want\n%s", p.path, got, want)
				}
			}
		})
	}
}
