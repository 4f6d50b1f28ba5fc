package forward

import (
	"context"
	"fmt"
	miekg "github.com/miekg/dns"
	"net/netip"
	"time"

	"shuultuur/lib/dns"
)

// Lookup returns the addresses of a host name, and their TTL. qtype is A (1) or AAAA (28). No
// address and no error means that the name has none of that type, or does not exist.
func (f *Forwarder) Lookup(ctx context.Context, host string, qtype uint16) ([]netip.Addr, time.Duration, error) {
	name, err := dns.Name(host)
	if err != nil {
		return nil, 0, err
	}
	least := mostKeep
	for range dns.MaxAliases {
		msg, _, err := f.Exchange(ctx, name, qtype, miekg.ClassINET, Option{})
		if err != nil {
			return nil, 0, err
		}
		c, open := dns.OpenAlias(msg)
		if !open {
			addrs, ttl, err := addresses(msg, dns.Text(name), qtype)
			return addrs, min(ttl, least), err
		}
		least = min(least, leastTTL(msg))
		name = c.Last
	}
	return nil, 0, fmt.Errorf("looking up %q: more than %d aliases", host, dns.MaxAliases)
}

// leastTTL returns the lowest TTL of the answers in a message.
func leastTTL(msg []byte) time.Duration {
	off, err := dns.SkipQuestions(msg)
	least := mostKeep
	for i := 0; err == nil && i < int(msg[6])<<8|int(msg[7]); i++ {
		var x dns.Record
		if x, err = dns.ReadRecord(msg, off); err == nil {
			least, off = min(least, time.Duration(x.TTL)*time.Second), x.End
		}
	}
	return least
}

// locate looks up the IPv4 and IPv6 addresses of an upstream through the bootstrap servers.
func (f *Forwarder) locate(ctx context.Context, host string) ([]netip.Addr, time.Duration, error) {
	name, err := dns.Name(host)
	if err != nil {
		return nil, 0, err
	}
	var all []netip.Addr
	least := mostKeep
	for _, qtype := range []uint16{miekg.TypeA, miekg.TypeAAAA} {
		msg, _, e := f.exchange(ctx, f.boot, &query{name: name, qtype: qtype, class: miekg.ClassINET, watch: f.watching()})
		if e != nil {
			err = e
			continue
		}
		addrs, ttl, e := addresses(msg, host, qtype)
		if e != nil {
			err = e
			continue
		}
		if len(addrs) > 0 {
			all, least = append(all, addrs...), min(least, ttl)
		}
	}
	if len(all) == 0 {
		if err == nil {
			err = fmt.Errorf("%q has no address", host)
		}
		return nil, 0, err
	}
	return all, least, nil
}

// addresses returns the records of a type at the end of an answer's CNAME chain.
func addresses(msg []byte, host string, qtype uint16) ([]netip.Addr, time.Duration, error) {
	var m miekg.Msg
	if err := m.Unpack(msg); err != nil {
		return nil, 0, fmt.Errorf("reading the answer for %q: %w", host, err)
	}
	if m.Rcode != miekg.RcodeSuccess && m.Rcode != miekg.RcodeNameError {
		return nil, 0, fmt.Errorf("looking up %q: %s", host, miekg.RcodeToString[m.Rcode])
	}
	owner := miekg.CanonicalName(host)
	ttl := uint32(1<<31 - 1)
	for range m.Answer { // at most one CNAME per record
		next := ""
		for _, rr := range m.Answer {
			if c, ok := rr.(*miekg.CNAME); ok && miekg.CanonicalName(c.Hdr.Name) == owner {
				next, ttl = miekg.CanonicalName(c.Target), min(ttl, c.Hdr.Ttl)
				break
			}
		}
		if next == "" {
			break
		}
		owner = next
	}
	var addrs []netip.Addr
	for _, rr := range m.Answer {
		h := rr.Header()
		if h.Rrtype != qtype || miekg.CanonicalName(h.Name) != owner {
			continue
		}
		var ip netip.Addr
		switch x := rr.(type) {
		case *miekg.A:
			ip, _ = netip.AddrFromSlice(x.A.To4())
		case *miekg.AAAA:
			ip, _ = netip.AddrFromSlice(x.AAAA)
		}
		if ip.IsValid() {
			addrs, ttl = append(addrs, ip), min(ttl, h.Ttl)
		}
	}
	if len(addrs) == 0 {
		for _, rr := range m.Ns {
			if soa, ok := rr.(*miekg.SOA); ok {
				return nil, time.Duration(min(ttl, soa.Hdr.Ttl, soa.Minttl)) * time.Second, nil // RFC 2308 section 5
			}
		}
		return nil, 0, nil
	}
	return addrs, time.Duration(ttl) * time.Second, nil
}

// Pointer returns the PTR name of an address, as text with the final dot, "" if there is none.
func (f *Forwarder) Pointer(ctx context.Context, a netip.Addr) (string, error) {
	msg, _, err := f.Exchange(ctx, dns.Reverse(a), miekg.TypePTR, miekg.ClassINET, Option{})
	if err != nil {
		return "", err
	}
	var m miekg.Msg
	if err := m.Unpack(msg); err != nil {
		return "", fmt.Errorf("reading the name of %s: %w", a, err)
	}
	for _, rr := range m.Answer {
		if p, ok := rr.(*miekg.PTR); ok {
			return p.Ptr, nil
		}
	}
	return "", nil
}

// DS returns the DS records that the parent zone has for a zone served here.
func (f *Forwarder) DS(ctx context.Context, origin string) (all []*miekg.DS, err error) {
	name, err := dns.Name(origin)
	if err != nil {
		return nil, err
	}
	msg, _, err := f.Exchange(ctx, name, miekg.TypeDS, miekg.ClassINET, Option{})
	if err != nil {
		return nil, err
	}
	var m miekg.Msg
	if err := m.Unpack(msg); err != nil {
		return nil, fmt.Errorf("reading the DS records of %q: %w", origin, err)
	}
	if m.Rcode != miekg.RcodeSuccess && m.Rcode != miekg.RcodeNameError {
		return nil, fmt.Errorf("looking up the DS records of %q: %s", origin, dns.RcodeName(uint16(m.Rcode)))
	}
	for _, rr := range m.Answer {
		if ds, ok := rr.(*miekg.DS); ok && miekg.CanonicalName(ds.Hdr.Name) == miekg.CanonicalName(origin) {
			all = append(all, ds)
		}
	}
	return all, nil
}
