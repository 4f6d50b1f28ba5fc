package resolver

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// A blocker writes answers for refused names.
type blocker struct {
	answer filter.Answer
	ttl    uint32
	v4, v6 [][]byte // of the sinkhole
	soa    []byte   // data of the SOA record in negative answers
	// contact and organization tell clients whom to contact, in JSON.
	contact, organization []byte
}

// maxBlockTTL bounds how long a refusal is cached after its rule has changed.
const maxBlockTTL = 24 * time.Hour

func newBlocker(cfg Block) (b blocker, err error) {
	ttl := cfg.TTL.Or(10 * time.Second)
	if ttl > maxBlockTTL {
		return b, setting.At("ttl", fmt.Errorf("%v is longer than %v", cfg.TTL, setting.Duration(maxBlockTTL)))
	}
	if err := b.contacts(cfg); err != nil {
		return b, err
	}
	b.answer, b.ttl = cfg.Answer, uint32(ttl/time.Second)
	if b.answer == filter.Usual {
		b.answer = filter.Zero
	}
	for i, addr := range cfg.Sinkhole {
		addr = addr.Unmap()
		if !addr.IsValid() || addr.IsUnspecified() || addr.Zone() != "" {
			return b, setting.At(fmt.Sprintf("sinkhole[%d]", i), fmt.Errorf("%q is not an address to send a browser to", addr))
		}
		if addr.Is4() {
			b.v4 = append(b.v4, addr.AsSlice())
		} else {
			b.v6 = append(b.v6, addr.AsSlice())
		}
	}
	if b.answer == filter.Sinkhole && len(cfg.Sinkhole) == 0 {
		return b, setting.At("answer", errors.New("there is no sinkhole; name its addresses under sinkhole"))
	}
	// The names are in a domain that does not exist, so no client queries them.
	b.soa = append(b.soa, "\x02ns\x07invalid\x00\x0ahostmaster\x07invalid\x00"...)
	for _, v := range [...]uint32{1, 3600, 600, 86400, b.ttl} {
		b.soa = append(b.soa, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
	return b, nil
}

// noData answers that the name has no records of this type.
func (b *blocker) noData(a *dns.Reply) {
	a.Record(nil, dns.TypeSOA, dns.ClassIN, b.ttl, b.soa)
	a.Authorities++
}

// refuse writes a refusal in the form of how.
func (b *blocker) refuse(typ uint16, a *dns.Reply, how filter.Answer) {
	if how == filter.Usual {
		how = b.answer
	}
	if how == filter.Sinkhole && len(b.v4) == 0 && len(b.v6) == 0 {
		how = filter.Zero
	}
	switch how {
	case filter.NXDomain:
		a.Rcode = dns.RcodeNXDomain
		b.noData(a)
	case filter.Refused:
		a.Rcode = dns.RcodeRefused
	case filter.Zero:
		switch typ {
		case dns.TypeA:
			b.address(a, typ, zero[:4])
		case dns.TypeAAAA:
			b.address(a, typ, zero[:])
		default:
			b.noData(a)
		}
	case filter.Sinkhole:
		b.sinkhole(typ, a)
	default:
		b.noData(a)
	}
}

var zero [16]byte

func (b *blocker) sinkhole(typ uint16, a *dns.Reply) {
	addrs := b.v4
	if typ == dns.TypeAAAA {
		addrs = b.v6
	}
	if typ != dns.TypeA && typ != dns.TypeAAAA || len(addrs) == 0 {
		b.noData(a)
		return
	}
	for _, addr := range addrs {
		b.address(a, typ, addr)
	}
}

func (b *blocker) address(a *dns.Reply, typ uint16, addr []byte) {
	a.Record(nil, typ, dns.ClassIN, b.ttl, addr)
	a.Answers++
}

// maxPart bounds a part of the text of an error, in bytes.
const maxPart = 100

func appendPart(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, name...)
	return append(dst, value[:min(len(value), maxPart)]...)
}

// isPrivate reports whether an address is in a network that is not part of the Internet (RFC
// 1918, RFC 4193, loopback, link-local, unspecified, RFC 6598).
func isPrivate(a netip.Addr) bool {
	a = a.Unmap()
	if nat64.Contains(a) { // RFC 6052: the embedded address counts
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified() || shared.Contains(a) || this.Contains(a)
}

var (
	shared = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598
	this   = netip.MustParsePrefix("0.0.0.0/8")     // RFC 791
	nat64  = netip.MustParsePrefix("64:ff9b::/96")  // RFC 6052
)
