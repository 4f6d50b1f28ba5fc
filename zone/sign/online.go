package sign

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone"
)

// Sign appends the RRSIG records of a set made for one answer, as [zone.Signer] requires. With
// a nil ctx it returns only cached signatures.
//
// The original TTL (RFC 4034 section 3.1.4) of a signed set is the set's TTL rounded up to a
// power of two: a validator takes a lower TTL for an aged answer, so an alias with a
// decreasing TTL needs one signature.
func (s *Signer) Sign(ctx context.Context, q *dns.Query, r *dns.Reply, set zone.Set) (int, bool) {
	owner := set.Owner
	if set.Wildcard > 0 {
		owner = append([]byte{1, '*'}, set.Owner[set.Wildcard:]...)
	}
	text, ttl, err := canonicalSet(owner, set)
	if err != nil {
		return 0, false
	}
	sigs, ok := s.signatures(ctx, q.At, owner, set.Type, text)
	if !ok {
		return 0, false
	}
	for _, rdata := range sigs.rdata {
		r.Buf = binary.BigEndian.AppendUint16(r.Buf, set.Pointer)
		r.Buf = appendFixed(r.Buf, miekg.TypeRRSIG, ttl, len(rdata))
		r.Buf = append(r.Buf, rdata...)
	}
	return len(sigs.rdata), true
}

func appendFixed(b []byte, typ uint16, ttl uint32, data int) []byte {
	b = binary.BigEndian.AppendUint16(b, typ)
	b = binary.BigEndian.AppendUint16(b, miekg.ClassINET)
	b = binary.BigEndian.AppendUint32(b, ttl)
	return binary.BigEndian.AppendUint16(b, uint16(data))
}

var errSet = errors.New("the set to sign is not a set of whole records")

// canonicalSet returns the records of an answer in canonical form, and the set's TTL.
func canonicalSet(owner []byte, set zone.Set) ([]byte, uint32, error) {
	parts := make([][]byte, 0, set.Count)
	ttl, rest := uint32(0), set.Records
	for range set.Count {
		if len(rest) < 12 {
			return nil, 0, errSet
		}
		end := 12 + int(binary.BigEndian.Uint16(rest[10:]))
		if len(rest) < end {
			return nil, 0, errSet
		}
		ttl = binary.BigEndian.Uint32(rest[6:])
		data := bytes.Clone(rest[12:end])
		lowerData(set.Type, data)
		parts = append(parts, data)
		rest = rest[end:]
	}
	if len(parts) == 0 {
		return nil, 0, errSet
	}
	slices.SortFunc(parts, bytes.Compare)
	parts = slices.CompactFunc(parts, bytes.Equal)
	text := make([]byte, 0, len(set.Records)+len(parts)*len(owner))
	for _, data := range parts {
		text = append(text, owner...)
		text = appendFixed(text, set.Type, roundUp(ttl), len(data))
		text = append(text, data...)
	}
	return text, ttl, nil
}

// roundUp returns the smallest power of two that is not below ttl.
func roundUp(ttl uint32) uint32 {
	if ttl <= 1 {
		return ttl
	}
	return 1 << min(31, bits.Len32(ttl-1))
}

// signatures returns the signatures of a canonical set: cached ones, or with a context new
// ones, if the rate permits.
func (s *Signer) signatures(ctx context.Context, now time.Time, owner []byte, typ uint16, text []byte) (signatureSet, bool) {
	_, zsk := s.active(now)
	if len(zsk) == 0 {
		return signatureSet{}, false
	}
	h := sha256.New()
	for _, k := range zsk {
		h.Write([]byte(k.PublicKey))
	}
	h.Write(text)
	var sum [sha256.Size]byte
	d := digest(h.Sum(sum[:0])[:len(digest{})])
	if sigs, ok := s.demand.find(d, now); ok {
		return sigs, true
	}
	if ctx == nil || ctx.Err() != nil || !s.demand.allow(now, len(zsk)) {
		return signatureSet{}, false
	}
	sigs := signatureSet{inception: uint32(now.Add(-early).Unix())}
	for _, k := range zsk {
		rdata, expiration, err := k.rrsig(owner, typ, text, now)
		if err != nil {
			return signatureSet{}, false
		}
		sigs.rdata = append(sigs.rdata, rdata)
		if sigs.expiration == 0 || expiration < sigs.expiration {
			sigs.expiration = expiration
		}
	}
	s.demand.add(d, sigs)
	return sigs, true
}

// rrsig makes the data of an RRSIG record for a canonical set.
func (k *Key) rrsig(owner []byte, typ uint16, text []byte, now time.Time) ([]byte, uint32, error) {
	labels := 0
	for at := 0; owner[at] != 0; at += 1 + int(owner[at]) {
		labels++
	}
	if len(owner) > 2 && owner[0] == 1 && owner[1] == '*' {
		labels--
	}
	name, err := dns.Name(k.Hdr.Name)
	if err != nil {
		return nil, 0, err
	}
	inception, expiration := life(now)
	ttl := binary.BigEndian.Uint32(text[len(owner)+4:])
	rdata := prelude(typ, k.Algorithm, uint8(labels), ttl, expiration, inception, k.Tag, name)
	signature, err := k.sign(append(rdata[:len(rdata):len(rdata)], text...))
	if err != nil {
		return nil, 0, err
	}
	return append(rdata, signature...), expiration, nil
}

// Deny appends a proof made for the question, as [zone.Signer] requires.
//
// A separate NSEC record denies a type of a name that exists or that a wildcard covers. A
// name that does not exist also gets such a record, with the type NXNAME (RFC 9824); the code
// is then NOERROR, or NXDOMAIN for a client that supports this. A wildcard answer gets a
// record that covers the name and almost nothing else (RFC 4470). In zones with an NSEC3
// chain, names whose types depend on the answer, such as aliases, get an NSEC3 record for the
// name.
func (s *Signer) Deny(ctx context.Context, q *dns.Query, r *dns.Reply, d zone.Denial) bool {
	if s.config.Denial != NSEC3 && d.Kind == zone.WildcardAnswer {
		return s.cover(ctx, q, r, d, nextCloser(d.Name, d.Encloser))
	}
	owner, typ := d.Name, miekg.TypeNSEC
	types := append(bitmapTypes(d.Types), miekg.TypeRRSIG, miekg.TypeNSEC)
	if slices.Contains(types, miekg.TypeNone) { // an alias
		types = append(types, miekg.TypeA, miekg.TypeAAAA)
	}
	// Each name has an NSEC record here, made for the answer: one that is asked for is found, not
	// denied (RFC 9824 section 3).
	found := s.config.Denial == Compact && q.Type == miekg.TypeNSEC
	if !found && (d.Kind == zone.NoData || d.Kind == zone.WildcardNoData) {
		types = slices.DeleteFunc(types, func(t uint16) bool { return t == miekg.TypeNone || t == q.Type })
	}
	var data []byte
	if s.config.Denial == NSEC3 {
		hash := hash3(d.Name)
		owner, typ = prepend([]byte(text3(hash)), d.Origin), miekg.TypeNSEC3
		next := hash
		for i := len(next) - 1; i >= 0; i-- {
			if next[i]++; next[i] != 0 {
				break
			}
		}
		types = slices.DeleteFunc(types, func(t uint16) bool { return t == miekg.TypeNSEC })
		data = append(data, miekg.SHA1, 0, 0, 0, 0, byte(len(next)))
		data = append(data, next[:]...)
	} else {
		if d.Kind == zone.NoName {
			types = append(types, miekg.TypeNXNAME)
		}
		data = child(d.Name)
	}
	if found = found && r.Answers == 0; found {
		r.Reset() // without the SOA record of a denial
	}
	if !s.proof(ctx, q, r, d, owner, typ, appendBitmap(data, types)) {
		return false
	}
	if found {
		r.Answers, r.Authorities, r.Rcode = r.Authorities, 0, miekg.RcodeSuccess
		return true
	}
	if s.config.Denial == Compact {
		r.CO = q.CO
		if d.Kind == zone.NoName && !q.CO {
			r.Rcode = miekg.RcodeSuccess
		}
	}
	return true
}

// cover appends an NSEC record that covers a name, everything below it, and almost nothing
// else.
func (s *Signer) cover(ctx context.Context, q *dns.Query, r *dns.Reply, d zone.Denial, name []byte) bool {
	return s.proof(ctx, q, r, d, nameBefore(name), miekg.TypeNSEC, appendBitmap(sibling(name), []uint16{miekg.TypeRRSIG, miekg.TypeNSEC}))
}

// proof appends a record of a proof with its signatures.
func (s *Signer) proof(ctx context.Context, q *dns.Query, r *dns.Reply, d zone.Denial, owner []byte, typ uint16, data []byte) bool {
	text := append(bytes.Clone(owner), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	appendFixed(text[:len(owner)], typ, roundUp(d.TTL), len(data))
	text = append(text, data...)
	sigs, ok := s.signatures(ctx, q.At, owner, typ, text)
	if !ok {
		return false
	}
	for i := -1; i < len(sigs.rdata); i++ {
		if bytes.Equal(owner, d.Name) {
			r.Buf = binary.BigEndian.AppendUint16(r.Buf, d.Pointer)
		} else {
			r.Buf = append(r.Buf, owner...)
		}
		if i < 0 {
			r.Buf = appendFixed(r.Buf, typ, d.TTL, len(data))
			r.Buf = append(r.Buf, data...)
			continue
		}
		r.Buf = appendFixed(r.Buf, miekg.TypeRRSIG, d.TTL, len(sigs.rdata[i]))
		r.Buf = append(r.Buf, sigs.rdata[i]...)
	}
	r.Authorities += uint16(1 + len(sigs.rdata))
	return true
}

// bitmapTypes parses a type bitmap (RFC 4034 section 4.1.2).
func bitmapTypes(b []byte) []uint16 {
	var types []uint16
	for len(b) > 2 && len(b) >= 2+int(b[1]) {
		for i, set := range b[2 : 2+int(b[1])] {
			for bit := range 8 {
				if set&(0x80>>bit) != 0 {
					types = append(types, uint16(b[0])<<8|uint16(8*i+bit))
				}
			}
		}
		b = b[2+int(b[1]):]
	}
	return types
}

// appendBitmap writes one.
func appendBitmap(b []byte, types []uint16) []byte {
	types = bitmap(types)
	for len(types) > 0 {
		window := types[0] >> 8
		var set [32]byte
		n := 0
		for len(types) > 0 && types[0]>>8 == window {
			low := types[0] & 0xff
			set[low/8] |= 0x80 >> (low % 8)
			n = int(low/8) + 1
			types = types[1:]
		}
		b = append(b, byte(window), byte(n))
		b = append(b, set[:n]...)
	}
	return b
}

// nextCloser returns the part of name that is one label longer than its closest encloser,
// which starts at encloser.
func nextCloser(name []byte, encloser int) []byte {
	at := 0
	for at < len(name) && name[at] != 0 {
		next := at + 1 + int(name[at])
		if next >= encloser {
			break
		}
		at = next
	}
	return name[at:]
}

func prepend(label, name []byte) []byte {
	return append(append([]byte{byte(len(label))}, label...), name...)
}

// child returns the immediate successor of name in canonical order: name with a label of one
// zero byte in front, if there is room.
func child(name []byte) []byte {
	if len(name) <= 253 {
		return prepend([]byte{0}, name)
	}
	return sibling(name)
}

// sibling returns the successor of name and everything below it.
func sibling(name []byte) []byte {
	if name[0] == 0 {
		return name // the root follows the last name
	}
	label, parent := bytes.Clone(name[1:1+int(name[0])]), name[1+int(name[0]):]
	if len(label) < 63 && len(name) < 255 {
		return prepend(append(label, 0), parent)
	}
	for len(label) > 1 && label[len(label)-1] == 255 {
		label = label[:len(label)-1]
	}
	switch c := &label[len(label)-1]; *c {
	case 255: // the last of all labels: the successor is a sibling of the parent
		return sibling(parent)
	case 'A' - 1:
		*c = 'Z' + 1 // upper case equals lower case
	default:
		*c++
	}
	return prepend(label, parent)
}

// nameBefore returns a name before name such that no name in use is between them.
func nameBefore(name []byte) []byte {
	label, parent := bytes.Clone(name[1:1+int(name[0])]), name[1+int(name[0]):]
	room := 255 - len(parent) - 1
	last := len(label) - 1
	if label[last] == 0 {
		if last == 0 {
			return parent
		}
		label = label[:last]
		name = prepend(label, parent)
		if n := min(63, 255-len(name)-1); n > 0 {
			return prepend(bytes.Repeat([]byte{255}, n), name)
		}
		return name
	}
	if label[last]--; label[last] == 'Z' {
		label[last] = 'A' - 1
	}
	for len(label) < min(63, room) {
		label = append(label, 255)
	}
	return prepend(label, parent)
}

// prelude returns the data of an RRSIG before its signature.
func prelude(typ uint16, algorithm, labels uint8, ttl, expiration, inception uint32, tag uint16, signer []byte) []byte {
	b := make([]byte, 0, 18+len(signer)+64)
	b = binary.BigEndian.AppendUint16(b, typ)
	b = append(b, algorithm, labels)
	b = binary.BigEndian.AppendUint32(b, ttl)
	b = binary.BigEndian.AppendUint32(b, expiration)
	b = binary.BigEndian.AppendUint32(b, inception)
	b = binary.BigEndian.AppendUint16(b, tag)
	return append(b, signer...)
}

// signature signs a canonical set for an RRSIG whose other fields are set.
func (k *Key) signature(sig *miekg.RRSIG, set []byte) ([]byte, error) {
	signer, err := dns.Name(sig.SignerName)
	if err != nil {
		return nil, err
	}
	text := prelude(sig.TypeCovered, sig.Algorithm, sig.Labels, sig.OrigTtl, sig.Expiration, sig.Inception, sig.KeyTag, signer)
	return k.sign(append(text, set...))
}
