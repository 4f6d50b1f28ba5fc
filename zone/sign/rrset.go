package sign

import (
	"bytes"
	"fmt"
	"slices"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone"
)

// canonical returns the records of one set in canonical form (RFC 4034 section 6): names in
// lower case and uncompressed, sorted by data, without duplicates. The result may be in *buf,
// which grows as needed.
func canonical(set []miekg.RR, buf *[]byte) ([]byte, error) {
	if len(set) == 1 { // the usual case
		return pack(set[0], buf)
	}
	parts := make([][]byte, 0, len(set))
	for _, rr := range set {
		wire, err := pack(rr, buf)
		if err != nil {
			return nil, err
		}
		parts = append(parts, bytes.Clone(wire))
	}
	owner := dns.NameLen(parts[0])
	slices.SortFunc(parts, func(a, b []byte) int { return bytes.Compare(a[owner+10:], b[owner+10:]) })
	parts = slices.CompactFunc(parts, func(a, b []byte) bool { return bytes.Equal(a[owner+10:], b[owner+10:]) })
	return bytes.Join(parts, nil), nil
}

// pack writes a record in canonical form into *buf, which grows as needed.
func pack(rr miekg.RR, buf *[]byte) ([]byte, error) {
	wire, err := zone.Pack(rr, buf)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	lowerData(rr.Header().Rrtype, wire[dns.NameLen(wire)+10:])
	return wire, nil
}

// lowerData lowers the case of names in a record's data, for the types of RFC 4034 section 6.2
// that still exist.
func lowerData(typ uint16, data []byte) {
	switch typ {
	case miekg.TypeNS, miekg.TypeMD, miekg.TypeMF, miekg.TypeCNAME, miekg.TypeMB, miekg.TypeMG, miekg.TypeMR, miekg.TypePTR,
		miekg.TypeDNAME, miekg.TypeMINFO, miekg.TypeRP, miekg.TypeNSAPPTR:
		dns.ToLower(data) // nothing but names
	case miekg.TypeSOA:
		dns.ToLower(data[:max(0, len(data)-20)])
	case miekg.TypeMX, miekg.TypeAFSDB, miekg.TypeRT, miekg.TypeKX, miekg.TypePX:
		dns.ToLower(data[min(2, len(data)):])
	case miekg.TypeSRV:
		dns.ToLower(data[min(6, len(data)):])
	case miekg.TypeNAPTR:
		at := 4
		for i := 0; i < 3 && at < len(data); i++ {
			at += 1 + int(data[at])
		}
		dns.ToLower(data[min(at, len(data)):])
	}
}
