package sign

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/miekg/dns"
)

// maxRecord is more than any record takes: 64 KiB of data, the longest name
// and the fixed part.
const maxRecord = 65535 + 255 + 10

// canonical returns the records of one set as a signature covers them (RFC
// 4034 section 6): names in lower case, whole, in the order of their data, each
// once. The result may lie in *buf, which grows as needed.
func canonical(set []dns.RR, buf *[]byte) ([]byte, error) {
	if len(*buf) == 0 {
		*buf = make([]byte, 512)
	}
	if len(set) == 1 { // as most have
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
	owner := nameLen(parts[0])
	slices.SortFunc(parts, func(a, b []byte) int { return bytes.Compare(a[owner+10:], b[owner+10:]) })
	parts = slices.CompactFunc(parts, func(a, b []byte) bool { return bytes.Equal(a[owner+10:], b[owner+10:]) })
	return bytes.Join(parts, nil), nil
}

// pack writes a record in canonical form into *buf, which grows as needed.
func pack(rr dns.RR, buf *[]byte) ([]byte, error) {
	n, err := dns.PackRR(rr, *buf, 0, nil, false)
	for err != nil && len(*buf) < maxRecord {
		*buf = make([]byte, min(8*len(*buf), maxRecord))
		n, err = dns.PackRR(rr, *buf, 0, nil, false)
	}
	if err != nil {
		return nil, fmt.Errorf("sign %q %s: %w", rr.Header().Name, dns.TypeToString[rr.Header().Rrtype], err)
	}
	wire := (*buf)[:n]
	lower(wire[:nameLen(wire)])
	data := wire[nameLen(wire)+10:]
	lowerData(rr.Header().Rrtype, data)
	return wire, nil
}

// lowerData folds the names in a record's data, for the types of RFC 4034
// section 6.2 as far as they are records still.
func lowerData(typ uint16, data []byte) {
	switch typ {
	case dns.TypeNS, dns.TypeMD, dns.TypeMF, dns.TypeCNAME, dns.TypeMB, dns.TypeMG, dns.TypeMR, dns.TypePTR,
		dns.TypeDNAME, dns.TypeMINFO, dns.TypeRP, dns.TypeNSAPPTR:
		lower(data) // nothing but names
	case dns.TypeSOA:
		lower(data[:max(0, len(data)-20)])
	case dns.TypeMX, dns.TypeAFSDB, dns.TypeRT, dns.TypeKX, dns.TypePX:
		lower(data[min(2, len(data)):])
	case dns.TypeSRV:
		lower(data[min(6, len(data)):])
	case dns.TypeNAPTR:
		at := 4
		for i := 0; i < 3 && at < len(data); i++ {
			at += 1 + int(data[at])
		}
		lower(data[min(at, len(data)):])
	}
}

// lower folds names in wire form: the lengths of labels are below 'A', so that
// they need not be told from the letters.
func lower(names []byte) {
	for i, c := range names {
		if 'A' <= c && c <= 'Z' {
			names[i] = c + 'a' - 'A'
		}
	}
}

// nameLen is the length of the whole name that wire begins with.
func nameLen(wire []byte) int {
	n := 0
	for n < len(wire) && wire[n] != 0 {
		n += 1 + int(wire[n])
	}
	return n + 1
}

// wireName is a name in wire form and lower case.
func wireName(name string) ([]byte, error) {
	var buf [256]byte
	n, err := dns.PackDomainName(name, buf[:], 0, nil, false)
	if err != nil {
		return nil, fmt.Errorf("the name %q: %w", name, err)
	}
	lower(buf[:n])
	return bytes.Clone(buf[:n]), nil
}

// orderKey is a string that sorts as the names do (RFC 4034 section 6.1): the
// labels from the right, each followed by a zero byte, what is zero or one in
// a label moved out of the way.
func orderKey(wire []byte) string {
	var starts [128]int
	n := 0
	for at := 0; at < len(wire) && wire[at] != 0; at += 1 + int(wire[at]) {
		starts[n] = at
		n++
	}
	key := make([]byte, 0, len(wire))
	for n--; n >= 0; n-- {
		at := starts[n]
		for _, c := range wire[at+1 : at+1+int(wire[at])] {
			if c <= 1 {
				key = append(key, 1, c+1)
				continue
			}
			key = append(key, c)
		}
		key = append(key, 0)
	}
	return string(key)
}
