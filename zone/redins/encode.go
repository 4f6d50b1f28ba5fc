package redins

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/zone"
)

// An encodedZone is a zone as JSON: for each name (relative, "@" for the apex) its types.
type encodedZone struct {
	soa    *soaJSON
	labels map[string]map[string]json.RawMessage // by upper-case type
}

// encode writes a zone in the layout of redins. Records that its JSON cannot represent (other
// types, a TTL of zero, a TXT record whose strings are not cut at 255 bytes) go to "rr".
func encode(z *zone.Zone) (*encodedZone, error) {
	origin := zone.Canonical(z.Origin)
	e := &encodedZone{labels: map[string]map[string]json.RawMessage{}}
	sets := map[string]map[uint16][]miekg.RR{}
	for _, rr := range z.Records {
		h := rr.Header()
		label, err := relative(zone.Canonical(h.Name), origin)
		if err != nil {
			return nil, err
		}
		if soa, ok := rr.(*miekg.SOA); ok && label == "@" && e.soa == nil && h.Ttl != 0 {
			e.soa = &soaJSON{NS: soa.Ns, MBox: soa.Mbox, TTL: h.Ttl, Refresh: soa.Refresh, Retry: soa.Retry, Expire: soa.Expire, MinTTL: soa.Minttl, Serial: &soa.Serial}
			continue
		}
		if sets[label] == nil {
			sets[label] = map[uint16][]miekg.RR{}
		}
		sets[label][h.Rrtype] = append(sets[label][h.Rrtype], rr)
	}
	for label, types := range sets {
		if err := e.name(label, origin, types); err != nil {
			return nil, err
		}
	}
	for _, a := range z.Aliases {
		label, err := relative(zone.Canonical(a.Name), origin)
		if err != nil {
			return nil, err
		}
		e.put(label, "ANAME", anameJSON{Location: a.Target})
	}
	return e, nil
}

func relative(name, origin string) (string, error) {
	if name == origin {
		return "@", nil
	}
	label, ok := strings.CutSuffix(name, "."+strings.TrimPrefix(origin, "."))
	if !ok || !miekg.IsSubDomain(origin, name) || label == "" {
		return "", fmt.Errorf("%s is not in zone %s", name, origin)
	}
	return label, nil
}

func (e *encodedZone) put(label, typ string, v any) {
	if e.labels[label] == nil {
		e.labels[label] = map[string]json.RawMessage{}
	}
	e.labels[label][typ] = marshal(v)
}

// marshal is json.Marshal without HTML escapes. Our types never fail to marshal.
func marshal(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("redins: " + err.Error()) // our own types
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// name encodes the records of a name, and decodes them again to verify that nothing is lost.
func (e *encodedZone) name(label, origin string, types map[uint16][]miekg.RR) error {
	var literal []string
	for _, typ := range slices.Sorted(maps.Keys(types)) {
		rrs := types[typ]
		name := miekg.TypeToString[typ]
		if v := setJSON(rrs); v != nil && sameRecords(readBack(label, origin, name, marshal(v)), rrs) {
			e.put(label, name, v)
			continue
		}
		for _, rr := range rrs {
			line, err := presentation(rr)
			if err != nil {
				return err
			}
			literal = append(literal, line)
		}
	}
	if literal == nil {
		return nil
	}
	e.put(label, "RR", literal)
	back := readBack(label, origin, "RR", e.labels[label]["RR"])
	var all []miekg.RR
	for _, typ := range slices.Sorted(maps.Keys(types)) {
		if _, plain := e.labels[label][miekg.TypeToString[typ]]; !plain {
			all = append(all, types[typ]...)
		}
	}
	if !sameRecords(back, all) {
		return fmt.Errorf("%s has records that cannot be written as text and read again: %q", rrOwner(all), literal)
	}
	return nil
}

func rrOwner(rrs []miekg.RR) string { return rrs[0].Header().Name }

// presentation returns a record as text, without owner and class.
func presentation(rr miekg.RR) (string, error) {
	h := rr.Header()
	if h.Class != miekg.ClassINET {
		return "", fmt.Errorf("%s: only class IN is served", h.Name)
	}
	data := strings.TrimPrefix(rr.String(), h.String())
	if u, ok := rr.(*miekg.RFC3597); ok {
		data = fmt.Sprintf(`\# %d %s`, len(u.Rdata)/2, u.Rdata)
	}
	return fmt.Sprintf("%d %s %s", h.Ttl, miekg.Type(h.Rrtype), data), nil
}

// readBack decodes the encoded form.
func readBack(label, origin, typ string, text json.RawMessage) []miekg.RR {
	b := &builder{schema: Z42, ttl: 1<<32 - 1} // where a TTL of 0 would be lost
	b.build(&raw{origin: origin, values: []value{{label: label, typ: typ, json: text}}})
	if len(b.problems) > 0 {
		return nil
	}
	return b.rrs
}

// sameRecords reports whether records are equal on the wire, in this order.
func sameRecords(a, b []miekg.RR) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := wireForm(a[i]), wireForm(b[i])
		if x == nil || !bytes.Equal(x, y) {
			return false
		}
	}
	return true
}

func wireForm(rr miekg.RR) []byte {
	rr = miekg.Copy(rr)
	rr.Header().Name = zone.Canonical(rr.Header().Name)
	b := make([]byte, miekg.Len(rr)+64)
	n, err := miekg.PackRR(rr, b, 0, nil, false)
	if err != nil {
		return nil
	}
	return b[:n]
}

// setJSON returns the JSON of an RRset, nil when there is none for it or the TTLs differ.
func setJSON(rrs []miekg.RR) any {
	ttl := rrs[0].Header().Ttl
	for _, rr := range rrs {
		if rr.Header().Ttl != ttl {
			return nil
		}
	}
	list := func(each func(miekg.RR) any) any {
		set := rrset{TTL: ttl}
		for _, rr := range rrs {
			set.Records = append(set.Records, marshal(each(rr)))
		}
		return set
	}
	switch first := rrs[0].(type) {
	case *miekg.A, *miekg.AAAA:
		return list(func(rr miekg.RR) any {
			var ip netip.Addr
			if a, ok := rr.(*miekg.A); ok {
				ip, _ = netip.AddrFromSlice(a.A.To4())
			} else {
				ip, _ = netip.AddrFromSlice(rr.(*miekg.AAAA).AAAA.To16())
			}
			return addressJSON{IP: ip.String()}
		})
	case *miekg.CNAME:
		return cnameJSON{ttl, first.Target}
	case *miekg.DNAME:
		return cnameJSON{ttl, first.Target}
	case *miekg.PTR:
		return ptrJSON{ttl, first.Ptr}
	case *miekg.TXT:
		return list(func(rr miekg.RR) any { return textJSON{strings.Join(rr.(*miekg.TXT).Txt, "")} })
	case *miekg.NS:
		return list(func(rr miekg.RR) any { return nsJSON{rr.(*miekg.NS).Ns} })
	case *miekg.MX:
		return list(func(rr miekg.RR) any { return mxJSON{rr.(*miekg.MX).Mx, rr.(*miekg.MX).Preference} })
	case *miekg.SRV:
		return list(func(rr miekg.RR) any {
			v := rr.(*miekg.SRV)
			return srvJSON{v.Target, v.Priority, v.Weight, v.Port}
		})
	case *miekg.CAA:
		return list(func(rr miekg.RR) any { v := rr.(*miekg.CAA); return caaJSON{v.Tag, v.Value, v.Flag} })
	case *miekg.TLSA:
		return list(func(rr miekg.RR) any {
			v := rr.(*miekg.TLSA)
			return tlsaJSON{v.Usage, v.Selector, v.MatchingType, v.Certificate}
		})
	case *miekg.DS:
		return list(func(rr miekg.RR) any {
			v := rr.(*miekg.DS)
			return dsJSON{v.KeyTag, v.Algorithm, v.DigestType, v.Digest}
		})
	}
	return nil
}
