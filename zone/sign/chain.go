package sign

import (
	"cmp"
	"crypto/sha1"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone"
)

// A plan is the records of a zone, sorted for signing.
type plan struct {
	origin   string
	names    []name     // in canonical order: those above a cut, and the cuts
	sets     []set      // to be signed
	unsigned []miekg.RR // glue, NS records of cuts, names hidden by a DNAME
	soa      *miekg.SOA
	ttl      uint32 // of NSEC and NSEC3 records
	zsk      []*Key

	// aliases are names that have addresses without records: the chain lists A and AAAA for
	// them.
	aliases map[string]bool
}

// A name is an owner name in the chain.
type name struct {
	key   string // orderKey
	owner string
	wire  []byte
	types []uint16
	cut   bool // a delegation
	ds    bool
}

// An entry is a record with its sort key.
type entry struct {
	rr   miekg.RR
	key  string
	wire []byte
}

// arrange sorts records into names and sets and adds the records for signing at the
// apex.
func (s *Signer) arrange(from *zone.Zone, now time.Time) (*plan, error) {
	ksk, zsk := s.active(now)
	if len(ksk) == 0 || len(zsk) == 0 {
		return nil, errors.New("no key is active now: look at the keys' Activate and Inactive times, or make one with shuultuur zone keygen")
	}
	z := &plan{origin: s.origin, zsk: zsk, aliases: map[string]bool{}}
	records := from.Records
	entries := make([]entry, 0, len(records)+8)
	var lastName string
	var lastWire []byte
	var lastKey string
	add := func(rr miekg.RR) error {
		owner := rr.Header().Name
		if owner != lastName || lastWire == nil {
			wire, err := dns.Name(owner)
			if err != nil {
				return err
			}
			lastName, lastWire, lastKey = owner, wire, dns.SortKey(wire)
		}
		entries = append(entries, entry{rr, lastKey, lastWire})
		return nil
	}
	for _, rr := range records {
		if s.MakesRecord(rr) {
			continue
		}
		if soa, ok := rr.(*miekg.SOA); ok {
			z.soa = soa
		}
		if err := add(rr); err != nil {
			return nil, err
		}
	}
	if z.soa == nil || miekg.CanonicalName(z.soa.Hdr.Name) != s.origin {
		return nil, fmt.Errorf("no SOA record of %q among %d records", s.origin, len(records))
	}
	z.ttl = min(z.soa.Minttl, z.soa.Hdr.Ttl) // RFC 9077
	for _, rr := range s.apex(now, ksk, z) {
		if err := add(rr); err != nil {
			return nil, err
		}
	}
	// A name may exist without records: it gets an entry with a record of no type.
	bare := func(owner string) (string, error) {
		wire, err := dns.Name(owner)
		if err != nil {
			return "", err
		}
		key := dns.SortKey(wire)
		entries = append(entries, entry{rr: &miekg.ANY{Hdr: miekg.RR_Header{Name: miekg.CanonicalName(owner)}}, key: key, wire: wire})
		return key, nil
	}
	for _, a := range from.Aliases {
		key, err := bare(a.Name)
		if err != nil {
			return nil, err
		}
		z.aliases[key] = true
	}
	for _, owner := range from.Empty {
		if _, err := bare(owner); err != nil {
			return nil, err
		}
	}
	for _, u := range from.Unknown {
		if _, err := bare(u.Name); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.rr.Header().Rrtype, b.rr.Header().Rrtype))
	})
	return z, z.cut(entries, ksk)
}

// has reports whether a DNSKEY belongs to this signer, whatever its TTL.
func (s *Signer) has(rr *miekg.DNSKEY) bool {
	return slices.ContainsFunc(*s.keys.Load(), func(k *Key) bool {
		return k.PublicKey == rr.PublicKey && k.Algorithm == rr.Algorithm && k.Flags == rr.Flags
	})
}

// apex returns the records that signing adds at the apex: the keys, the records that the
// parent may fetch (RFC 7344), and NSEC3PARAM.
func (s *Signer) apex(now time.Time, ksk []*Key, z *plan) []miekg.RR {
	var rrs []miekg.RR
	for _, k := range *s.keys.Load() {
		if k.published(now) {
			rr := *k.DNSKEY
			rrs = append(rrs, &rr)
		}
	}
	for _, k := range ksk {
		if !k.synced(now) {
			continue
		}
		cds, cdnskey := k.DS().ToCDS(), k.ToCDNSKEY()
		cds.Hdr.Ttl, cdnskey.Hdr.Ttl = k.Hdr.Ttl, k.Hdr.Ttl
		rrs = append(rrs, cds, cdnskey)
	}
	if s.config.Denial == NSEC3 {
		rrs = append(rrs, &miekg.NSEC3PARAM{
			Hdr:  miekg.RR_Header{Name: s.origin, Rrtype: miekg.TypeNSEC3PARAM, Class: miekg.ClassINET, Ttl: z.ttl},
			Hash: miekg.SHA1,
		})
	}
	return rrs
}

// cut walks the records in order and separates the zone's data from the delegated or
// hidden names below a DNAME (RFC 4035 section 2.2, RFC 6672 section 2.4).
func (z *plan) cut(entries []entry, ksk []*Key) error {
	origin, err := dns.Name(z.origin)
	if err != nil {
		return err
	}
	apex := dns.SortKey(origin)
	z.names, z.sets = make([]name, 0, len(entries)), make([]set, 0, 2*len(entries))
	below := "" // names with this prefix are not signed
	for i := 0; i < len(entries); {
		e := entries[i]
		j := i
		for j < len(entries) && entries[j].key == e.key {
			j++
		}
		all := entries[i:j]
		i = j
		if !strings.HasPrefix(e.key, apex) {
			return fmt.Errorf("%q is outside the zone", e.rr.Header().Name)
		}
		if below != "" && strings.HasPrefix(e.key, below) {
			for _, hidden := range all {
				if hidden.rr.Header().Rrtype != miekg.TypeNone {
					z.unsigned = append(z.unsigned, hidden.rr)
				}
			}
			continue
		}
		n := name{key: e.key, wire: e.wire, owner: e.rr.Header().Name}
		for _, x := range all {
			switch x.rr.Header().Rrtype {
			case miekg.TypeNS:
				n.cut = e.key != apex
			case miekg.TypeDS:
				n.ds = true
			}
		}
		if n.cut {
			below = e.key
		} else if slices.ContainsFunc(all, func(x entry) bool { return x.rr.Header().Rrtype == miekg.TypeDNAME }) {
			below = e.key
		}
		z.name(n, all, ksk)
	}
	return nil
}

// name adds one name with its sets.
func (z *plan) name(n name, all []entry, ksk []*Key) {
	n.types = make([]uint16, 0, min(len(all), 8))
	for i := 0; i < len(all); {
		t := all[i].rr.Header().Rrtype
		j := i
		for j < len(all) && all[j].rr.Header().Rrtype == t {
			j++
		}
		if t == miekg.TypeNone { // a name without records
			i = j
			continue
		}
		rrs := sameTTL(all[i:j])
		i = j
		switch {
		case n.cut && t != miekg.TypeNS && t != miekg.TypeDS:
			z.unsigned = append(z.unsigned, rrs...) // glue at the cut itself
			continue
		case n.cut && t == miekg.TypeNS:
			z.unsigned = append(z.unsigned, rrs...)
		default:
			keys := z.zsk
			if t == miekg.TypeDNSKEY || t == miekg.TypeCDS || t == miekg.TypeCDNSKEY {
				keys = ksk
			}
			z.sets = append(z.sets, set{rrs: rrs, keys: keys})
		}
		n.types = append(n.types, t)
	}
	if z.aliases[n.key] && !n.cut {
		n.types = bitmap(n.types, miekg.TypeA, miekg.TypeAAAA)
	}
	z.names = append(z.names, n)
}

// sameTTL gives the records of a set their lowest TTL (RFC 2181 section 5.2), because a
// signature has only one.
func sameTTL(all []entry) []miekg.RR {
	rrs := make([]miekg.RR, len(all))
	ttl := all[0].rr.Header().Ttl
	for _, e := range all {
		ttl = min(ttl, e.rr.Header().Ttl)
	}
	for i, e := range all {
		rrs[i] = e.rr
		if e.rr.Header().Ttl != ttl {
			rrs[i] = miekg.Copy(e.rr)
			rrs[i].Header().Ttl = ttl
		}
	}
	return rrs
}

// chainNSEC adds the NSEC record of each name (RFC 4034 section 4).
func (z *plan) chainNSEC() {
	for i, n := range z.names {
		z.sets = append(z.sets, set{keys: z.zsk, rrs: []miekg.RR{&miekg.NSEC{
			Hdr:        miekg.RR_Header{Name: n.owner, Rrtype: miekg.TypeNSEC, Class: miekg.ClassINET, Ttl: z.ttl},
			NextDomain: z.names[(i+1)%len(z.names)].owner,
			TypeBitMap: bitmap(n.types, miekg.TypeRRSIG, miekg.TypeNSEC),
		}}})
	}
}

// bitmap returns types and more sorted, each once.
func bitmap(types []uint16, more ...uint16) []uint16 {
	all := append(append(make([]uint16, 0, len(types)+len(more)), types...), more...)
	slices.Sort(all)
	return slices.Compact(all)
}

// chainNSEC3 adds the NSEC3 record of each name and of each empty non-terminal (RFC 5155
// section 7.1).
func (z *plan) chainNSEC3(optOut bool) error {
	type link struct {
		hash  [20]byte
		types []uint16
	}
	links := make([]link, 0, len(z.names))
	seen := make(map[string]bool, len(z.names))
	flags := uint8(0)
	if optOut {
		flags = 1
	}
	for _, n := range z.names {
		seen[n.key] = true
	}
	apex := len(z.names[0].wire)
	for _, n := range z.names {
		if optOut && n.cut && !n.ds {
			continue
		}
		types := n.types
		if len(types) > 0 && (!n.cut || n.ds) {
			types = bitmap(types, miekg.TypeRRSIG)
		}
		links = append(links, link{hash3(n.wire), types})
		// Add empty non-terminals above it that are not there yet.
		wire, key := n.wire, n.key
		for len(wire) > apex {
			wire = wire[1+int(wire[0]):]
			key = key[:strings.LastIndexByte(key[:len(key)-1], 0)+1]
			if seen[key] {
				break
			}
			seen[key] = true
			links = append(links, link{hash3(wire), nil})
		}
	}
	slices.SortStableFunc(links, func(a, b link) int { return slices.Compare(a.hash[:], b.hash[:]) })
	for i, l := range links {
		next := links[(i+1)%len(links)].hash
		if len(links) > 1 && next == l.hash {
			return fmt.Errorf("two names have the same NSEC3 hash %s", text3(l.hash))
		}
		z.sets = append(z.sets, set{keys: z.zsk, rrs: []miekg.RR{&miekg.NSEC3{
			Hdr:  miekg.RR_Header{Name: under(text3(l.hash), z.origin), Rrtype: miekg.TypeNSEC3, Class: miekg.ClassINET, Ttl: z.ttl},
			Hash: miekg.SHA1, Flags: flags, HashLength: 20, NextDomain: text3(next), TypeBitMap: l.types,
		}}})
	}
	return nil
}

// hash3 returns the hash of a name in wire form: SHA-1 without salt and extra iterations.
func hash3(wire []byte) [20]byte { return sha1.Sum(wire) }

func text3(hash [20]byte) string {
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(hash[:]))
}

// under prepends a label to a name.
func under(label, name string) string {
	if name == "." {
		return label + "."
	}
	return label + "." + name
}
