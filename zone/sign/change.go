package sign

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone"
)

// Change turns a change of the zone's source into a change of the served zone: without
// signatures, and with keys and the other records that signing adds at the origin. The records
// of the origin must be part of it. The server of the zone calls SignSet for the sets that it
// changes.
func (s *Signer) Change(c *zone.Change, now time.Time) (*zone.Change, error) {
	ksk, zsk := s.active(now)
	if len(ksk) == 0 || len(zsk) == 0 {
		return nil, errNoKey(s.origin, len(*s.keys.Load()))
	}
	p := &plan{}
	out := *c
	out.Records = slices.DeleteFunc(slices.Clone(c.Records), func(rr miekg.RR) bool {
		if soa, ok := rr.(*miekg.SOA); ok {
			p.soa = soa
		}
		return s.MakesRecord(rr)
	})
	if p.soa == nil {
		return nil, fmt.Errorf("change zone %q: the SOA record is not in the change", s.origin)
	}
	p.ttl = min(p.soa.Minttl, p.soa.Hdr.Ttl)
	s.note(p)
	out.Records = append(out.Records, s.apex(now, ksk, p)...)
	return &out, nil
}

// MakesRecord reports whether signing makes such a record, so that it is not part of the source.
func (s *Signer) MakesRecord(rr miekg.RR) bool {
	switch rr := rr.(type) {
	case *miekg.RRSIG, *miekg.NSEC, *miekg.NSEC3, *miekg.NSEC3PARAM, *miekg.CDS, *miekg.CDNSKEY:
		return true
	case *miekg.DNSKEY:
		return s.has(rr)
	}
	return false
}

// Chain implements [zone.Signer].
func (s *Signer) Chain() uint16 {
	switch s.config.Denial {
	case NSEC:
		return miekg.TypeNSEC
	case NSEC3:
		return miekg.TypeNSEC3
	}
	return 0
}

// SignSet implements [zone.Signer].
func (s *Signer) SignSet(view string, owner []byte, typ uint16, ttl uint32, rdata [][]byte) ([][]byte, error) {
	now := time.Now()
	keys := s.keysFor(typ, now)
	if len(keys) == 0 {
		return nil, errors.New("no key is active now")
	}
	text := canonicalData(owner, typ, ttl, rdata)
	s.signing.Lock()
	defer s.signing.Unlock()
	s.noteTTL(ttl)
	kept := s.sigs[view]
	var all [][]byte
	for _, k := range keys {
		data, expiration, err := k.rrsig(owner, typ, text, now)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
		s.renewBy(view, time.Unix(int64(expiration), 0).Add(-reserve), now.Add(-early))
		if kept != nil {
			kept.put(k.digest(text), signature{string(data[signatureAt(data):]), binary.BigEndian.Uint32(data[12:]), expiration})
		}
	}
	return all, nil
}

// renewBy brings the next signing of a view forward: the replaced signature may have been
// valid for longer than the new one, which begins at a time.
func (s *Signer) renewBy(view string, at, begins time.Time) {
	s.renewMu.Lock()
	defer s.renewMu.Unlock()
	if have := s.renew[view]; !have.IsZero() && at.Before(have) {
		s.renew[view] = at.Truncate(time.Second)
	}
	if begins.After(s.begins[view]) {
		s.begins[view] = begins
	}
}

// signatureAt returns where the signature begins in the data of an RRSIG record, after the
// signer's name.
func signatureAt(data []byte) int { return 18 + dns.NameLen(data[18:]) }

// Forget implements [zone.Signer].
func (s *Signer) Forget(view string, owner []byte, typ uint16, ttl uint32, rdata [][]byte) {
	text := canonicalData(owner, typ, ttl, rdata)
	s.signing.Lock()
	defer s.signing.Unlock()
	if kept := s.sigs[view]; kept != nil {
		for _, k := range *s.keys.Load() {
			kept.drop(k.digest(text))
		}
	}
}

// keysFor returns the keys that sign sets of a type.
func (s *Signer) keysFor(typ uint16, now time.Time) []*Key {
	ksk, zsk := s.active(now)
	if typ == miekg.TypeDNSKEY || typ == miekg.TypeCDS || typ == miekg.TypeCDNSKEY {
		return ksk
	}
	return zsk
}

// digest identifies a set and its key; text is the result of canonical.
func (k *Key) digest(text []byte) digest {
	h := sha256.New()
	h.Write([]byte(k.PublicKey))
	h.Write([]byte{byte(k.Flags >> 8), byte(k.Flags), k.Algorithm})
	h.Write(text)
	var sum [sha256.Size]byte
	return digest(h.Sum(sum[:0])[:len(digest{})])
}

// canonicalData is canonical for the parts of a set.
func canonicalData(owner []byte, typ uint16, ttl uint32, rdata [][]byte) []byte {
	parts := make([][]byte, len(rdata))
	size := 0
	for i, data := range rdata {
		parts[i] = bytes.Clone(data)
		lowerData(typ, parts[i])
		size += len(owner) + 10 + len(data)
	}
	slices.SortFunc(parts, bytes.Compare)
	text := make([]byte, 0, size)
	for _, data := range slices.CompactFunc(parts, bytes.Equal) {
		text = appendFixed(append(text, owner...), typ, ttl, len(data))
		text = append(text, data...)
	}
	return text
}
