package forward

import (
	"slices"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// within ends an answer of the group g at the first alias to a name that other upstreams answer
// for: what these say about it counts.
func (f *Forwarder) within(q *query, g *group, msg []byte) []byte {
	if len(f.routes) < 2 || q.class != dns.ClassIN || q.qtype == dns.TypeCNAME || q.qtype == dns.TypeANY {
		return msg
	}
	off, err := dns.SkipQuestions(msg)
	if err != nil || msg[6] == 0 && msg[7] == 0 {
		return msg
	}
	names := map[string]bool{}
	leaves := false
	_, err = dns.FollowAliases(make([]byte, 0, 256), msg, off, uint16(msg[6])<<8|uint16(msg[7]), 0, q.name, q.qtype, func(target []byte) bool {
		other, _ := f.route(target, q.qtype, q.opt.Set)
		leaves = other != g
		names[dns.Text(target)] = true
		return !leaves
	})
	if err != nil || !leaves {
		return msg
	}
	var m miekg.Msg
	if m.Unpack(msg) != nil {
		return msg
	}
	out, err := upTo(&m, names).Pack()
	if err != nil {
		return msg
	}
	return out
}

// upTo removes from an answer what does not lead from its question to names: it keeps aliases to
// them, with signatures and proofs.
func upTo(m *miekg.Msg, names map[string]bool) *miekg.Msg {
	owners := map[string]bool{}
	m.Answer = slices.DeleteFunc(m.Answer, func(rr miekg.RR) bool {
		switch x := rr.(type) {
		case *miekg.CNAME:
			if !names[miekg.CanonicalName(x.Target)] {
				return true
			}
			owners[miekg.CanonicalName(x.Hdr.Name)] = true
		case *miekg.RRSIG:
			return x.TypeCovered != miekg.TypeCNAME && x.TypeCovered != miekg.TypeDNAME
		case *miekg.DNAME:
		default:
			return true
		}
		return false
	})
	m.Answer = slices.DeleteFunc(m.Answer, func(rr miekg.RR) bool {
		name := miekg.CanonicalName(rr.Header().Name)
		for owner := range owners {
			if name == owner || rr.Header().Rrtype == miekg.TypeDNAME && miekg.IsSubDomain(name, owner) {
				return false
			}
			if s, ok := rr.(*miekg.RRSIG); ok && s.TypeCovered == miekg.TypeDNAME && miekg.IsSubDomain(name, owner) {
				return false
			}
		}
		return true
	})
	m.Ns = slices.DeleteFunc(m.Ns, func(rr miekg.RR) bool {
		t := rr.Header().Rrtype
		if s, ok := rr.(*miekg.RRSIG); ok {
			t = s.TypeCovered
		}
		return t != miekg.TypeNSEC && t != miekg.TypeNSEC3
	})
	m.Extra = slices.DeleteFunc(m.Extra, func(rr miekg.RR) bool { return rr.Header().Rrtype != miekg.TypeOPT })
	m.Rcode, m.Compress = miekg.RcodeSuccess, true // another name does or does not exist
	return m
}
