package nameserver

import (
	"net/netip"
	"strings"

	"shuultuur/lib/dns"
)

// itself answers questions about the server: its version and name in the class
// CHAOS, and the encrypted transports that it offers.
func (l *handler) itself() bool {
	q, g := &l.q, l.g
	if q.Class == dns.ClassCH {
		return q.Type == dns.TypeTXT && l.chaos()
	}
	return q.Class == dns.ClassIN && q.Recursion && g.name != nil && string(q.Name) == discovery && l.designated()
}

// discovery is the name that clients query for the encrypted transports of a
// resolver with a known address (RFC 9462 section 4).
const discovery = "\x04_dns\x08resolver\x04arpa\x00"

// chaos answers queries for names that identify servers (RFC 4892), if the
// settings have answers.
func (l *handler) chaos() bool {
	var text []byte
	switch string(l.q.Name) {
	case "\x07version\x04bind\x00", "\x07version\x06server\x00":
		text = l.g.version
	case "\x08hostname\x04bind\x00", "\x02id\x06server\x00":
		text = l.g.nsid
	}
	if len(text) == 0 {
		return false
	}
	r := &l.r
	r.AA = true
	at := r.Begin(nil, dns.TypeTXT, dns.ClassCH, 0)
	r.Buf = append(append(r.Buf, byte(len(text))), text...)
	r.End(at)
	r.Answers++
	return true
}

// Parameters of SVCB records (RFC 9460 section 14.3.2, RFC 9461 section 5).
const (
	paramALPN    = 1
	paramPort    = 3
	paramIPv4    = 4
	paramIPv6    = 6
	paramDoHPath = 7
)

// discoveryTTL is the TTL of the announcement, in seconds.
const discoveryTTL = 300

// An offer is one encrypted transport at one port.
type offer struct {
	alpn  string // with the length of each
	port  uint16
	path  bool
	addrs []netip.Addr // unspecified: the one that the client asked
}

// offers returns the encrypted transports that are listened for, cheapest for
// clients first.
func (s *Server) offers() (all []offer) {
	for _, t := range []struct {
		transport dns.Transport
		alpn      string
	}{{dns.HTTPS, "\x02h2\x02h3"}, {dns.TLS, "\x03dot"}, {dns.QUIC, "\x03doq"}} {
		first := len(all)
	next:
		for _, a := range s.Addrs(t.transport) {
			for i := first; i < len(all); i++ {
				if all[i].port == a.Port() {
					all[i].addrs = append(all[i].addrs, a.Addr())
					continue next
				}
			}
			all = append(all, offer{t.alpn, a.Port(), t.transport == dns.HTTPS, []netip.Addr{a.Addr()}})
		}
	}
	return all
}

// designated answers with an SVCB record for each transport, in order of
// preference. The addresses are in the additional section, too.
func (l *handler) designated() bool {
	r, s, name := &l.r, l.s, l.g.name
	offers := s.offers()
	if len(offers) == 0 {
		return false
	}
	r.RA = true
	if l.q.Type != dns.TypeSVCB { // the name exists: do not let others cache that it does not
		return true
	}
	var buf [8]netip.Addr
	known := buf[:0]
	for i, o := range offers {
		m := r.Mark()
		at := r.Begin(nil, dns.TypeSVCB, dns.ClassIN, discoveryTTL)
		r.Buf = append(r.Buf, 0, byte(i+1))
		r.Buf = append(r.Buf, name...)
		r.Buf = append(append(r.Buf, 0, paramALPN, 0, byte(len(o.alpn))), o.alpn...)
		r.Buf = append(r.Buf, 0, paramPort, 0, 2, byte(o.port>>8), byte(o.port))
		four, six := l.hints(paramIPv4, o.addrs), l.hints(paramIPv6, o.addrs)
		known = append(append(known, four...), six...)
		if o.path {
			path := s.path + "{?dns}"
			r.Buf = append(append(r.Buf, 0, paramDoHPath, byte(len(path)>>8), byte(len(path))), path...)
		}
		r.End(at)
		if r.Overflows() {
			r.Undo(m)
			r.TC = true
			return true
		}
		r.Answers++
	}
	for i, a := range known {
		if !first(known, i) {
			continue
		}
		m, typ := r.Mark(), uint16(dns.TypeAAAA)
		if a.Is4() {
			typ = dns.TypeA
		}
		r.Record(name, typ, dns.ClassIN, discoveryTTL, a.AsSlice())
		if r.Additionals++; r.Overflows() {
			r.Undo(m)
			break
		}
	}
	return true
}

// first reports whether no element before the i-th is the same.
func first(all []netip.Addr, i int) bool {
	for _, a := range all[:i] {
		if a == all[i] {
			return false
		}
	}
	return true
}

// hints appends a parameter with the addresses of one family, and returns them.
func (l *handler) hints(param byte, addrs []netip.Addr) (all []netip.Addr) {
	for _, a := range addrs {
		if a.IsUnspecified() {
			a = l.q.Local
		}
		if a.IsValid() && a.Is4() == (param == paramIPv4) {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return nil
	}
	r := &l.r
	n := len(all) * len(all[0].AsSlice())
	r.Buf = append(r.Buf, 0, param, byte(n>>8), byte(n))
	for _, a := range all {
		r.Buf = append(r.Buf, a.AsSlice()...)
	}
	return all
}

// maxClientID is the longest ClientID: a label of a name.
const maxClientID = 63

// isClientID reports whether s is an identifier of a client: letters, digits and
// hyphens.
func isClientID(s string) bool {
	if s == "" || len(s) > maxClientID {
		return false
	}
	for i := range len(s) {
		if c := s[i] | 0x20; (c < 'a' || c > 'z') && (s[i] < '0' || s[i] > '9') && s[i] != '-' {
			return false
		}
	}
	return true
}

// identify is the ClientID of a request: that of its path, else the one in the
// server name. before is that of the request before, which is often the same.
func (x *webQuery) identify(before, named string) string {
	id := x.clientID
	x.clientID = ""
	switch {
	case id == "":
		return named
	case id == before:
		return before
	}
	return strings.ToLower(strings.Clone(id))
}

// clientIDIn is the ClientID in the name that a client connected to.
func (g *rules) clientIDIn(server string) string {
	n := len(server) - len(g.suffix)
	if g.suffix == "" || n <= 0 || !strings.EqualFold(server[n:], g.suffix) {
		return ""
	}
	if id := server[:n]; isClientID(id) {
		return strings.ToLower(id)
	}
	return ""
}
