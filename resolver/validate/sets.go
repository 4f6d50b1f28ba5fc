package validate

import (
	miekg "github.com/miekg/dns"
	"iter"
	"strings"

	"shuultuur/lib/dns"
)

// An rrset is the records of one name and type with their signatures.
type rrset struct {
	name  string // lower case
	rtype uint16
	rrs   []miekg.RR
	sigs  []*miekg.RRSIG
}

// sections are the RRsets of a section of a message.
type sections struct {
	sets []*rrset
	by   map[setKey]*rrset
}

type setKey struct {
	name  string
	rtype uint16
}

// group groups records into RRsets, and lowers the case of their owners.
func group(rrs []miekg.RR) sections {
	s := sections{by: map[setKey]*rrset{}}
	for _, rr := range rrs {
		h := rr.Header()
		h.Name = miekg.CanonicalName(h.Name)
		if h.Class != miekg.ClassINET {
			continue
		}
		sig, ok := rr.(*miekg.RRSIG)
		k := setKey{h.Name, h.Rrtype}
		if ok {
			k.rtype = sig.TypeCovered
		}
		set := s.by[k]
		if set == nil {
			set = &rrset{name: k.name, rtype: k.rtype}
			s.by[k] = set
			s.sets = append(s.sets, set)
		}
		if ok {
			set.sigs = append(set.sigs, sig)
			continue
		}
		set.rrs = append(set.rrs, rr)
	}
	return s
}

// of returns the set of a name and type, nil if it has no records.
func (s sections) of(name string, rtype uint16) *rrset {
	if x := s.by[setKey{name, rtype}]; x != nil && len(x.rrs) > 0 {
		return x
	}
	return nil
}

// dname returns the DNAME set of a proper ancestor of name.
func (s sections) dname(name string) *rrset {
	for at := parent(name); ; at = parent(at) {
		if d := s.of(at, miekg.TypeDNAME); d != nil {
			return d
		}
		if at == "." {
			return nil
		}
	}
}

// denier returns the deepest zone whose signed NSEC or NSEC3 records may deny name.
func (s sections) denier(name string, qtype uint16) string {
	best, depth := "", -1
	for _, x := range s.sets {
		if x.rtype != miekg.TypeNSEC && x.rtype != miekg.TypeNSEC3 || len(x.rrs) == 0 {
			continue
		}
		for _, sig := range x.sigs {
			signer := miekg.CanonicalName(sig.SignerName)
			if !miekg.IsSubDomain(signer, name) || qtype == miekg.TypeDS && signer == name && name != "." {
				continue
			}
			if n := miekg.CountLabel(signer); n > depth {
				best, depth = signer, n
			}
		}
	}
	return best
}

// parent returns the name without its first label; the root is its own.
func parent(name string) string {
	i, end := miekg.NextLabel(name, 0)
	if end || i >= len(name) {
		return "."
	}
	return name[i:]
}

// fromTop iterates from an ancestor of name down to name, both included.
func fromTop(name, top string) iter.Seq[string] {
	return func(yield func(string) bool) {
		starts := miekg.Split(name)
		n := len(starts) - miekg.CountLabel(top)
		if !yield(top) {
			return
		}
		for i := n - 1; i >= 0; i-- {
			if !yield(name[starts[i]:]) {
				return
			}
		}
	}
}

// labels returns the labels of a name as bytes in lower case, first to last.
func labels(name string) (all []string) {
	wire, err := dns.Name(name)
	if err != nil {
		return nil
	}
	for i := 0; wire[i] != 0; i += 1 + int(wire[i]) {
		all = append(all, string(wire[i+1:i+1+int(wire[i])]))
	}
	return all
}

// compare orders names as RFC 4034 section 6.1 does.
func compare(a, b []string) int {
	for i := 1; i <= len(a) && i <= len(b); i++ {
		if c := strings.Compare(a[len(a)-i], b[len(b)-i]); c != 0 {
			return c
		}
	}
	return len(a) - len(b)
}
