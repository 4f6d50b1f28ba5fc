package validate

import (
	"context"
	"errors"
	miekg "github.com/miekg/dns"
	"slices"
	"strings"
	"time"
)

// errNoCut means that no zone begins at a name.
var errNoCut = errors.New("this is not the top of a zone")

// verify verifies the signatures of a set. It returns nil and the valid signature if it is
// secure, errInsecure if the zone is unsigned, or the fault. The signing zone may be as
// deep as below.
func (v *Validator) verify(ctx context.Context, w *work, s *rrset, below string) (*miekg.RRSIG, error) {
	if v.excepted(s.name) {
		return nil, errInsecure
	}
	var first error
	note := func(err error) {
		if f := faultOf(first); first == nil || f != nil && f.ede == edeBogus {
			first = err
		}
	}
	top := v.anchorOf(s.name)
	tried := 0
	for _, sig := range s.sigs {
		if tried++; tried > setSignatures {
			break
		}
		signer := miekg.CanonicalName(sig.SignerName)
		if err := v.plausible(s, sig, signer, top, below); err != nil {
			note(err)
			continue
		}
		keys, err := v.keys(ctx, w, signer)
		if errors.Is(err, errInsecure) {
			return nil, err
		}
		if err != nil {
			note(err)
			continue
		}
		if err := v.try(w, s, sig, keys); err != nil {
			note(err)
			continue
		}
		v.clamp(s, sig)
		return sig, nil
	}
	// A missing or invalid signature does not matter in an unsigned zone.
	if err := v.unsigned(ctx, w, below); errors.Is(err, errInsecure) || err != nil && first == nil {
		return nil, err
	}
	if first == nil {
		first = faultf(edeRRSIGsMissing, "%s %s is not signed", s.name, miekg.Type(s.rtype))
	}
	return nil, first
}

// plausible checks everything that needs no key; RFC 4035 section 5.3.1.
func (v *Validator) plausible(s *rrset, sig *miekg.RRSIG, signer, top, below string) error {
	now := v.now()
	switch {
	case !miekg.IsSubDomain(signer, below) || top != "" && !miekg.IsSubDomain(top, signer):
		return faultf(edeBogus, "%s %s is signed by %s, which is not its zone", s.name, miekg.Type(s.rtype), signer)
	case int(sig.Labels) > miekg.CountLabel(s.name):
		return faultf(edeBogus, "the signature of %s %s is for a longer name", s.name, miekg.Type(s.rtype))
	case !supported(sig.Algorithm):
		return faultf(edeBogus, "%s %s is signed with algorithm %d", s.name, miekg.Type(s.rtype), sig.Algorithm)
	case serialAfter(uint32(now.Add(-clockSkew).Unix()), sig.Expiration):
		return faultf(edeExpired, "the signature of %s %s by %s has expired", s.name, miekg.Type(s.rtype), signer)
	case serialAfter(sig.Inception, uint32(now.Add(clockSkew).Unix())):
		return faultf(edeNotYetValid, "the signature of %s %s by %s is not valid yet", s.name, miekg.Type(s.rtype), signer)
	}
	return nil
}

// serialAfter reports whether a is later than b, RFC 1982.
func serialAfter(a, b uint32) bool { return int32(a-b) > 0 }

// try verifies a signature with those of the keys that may have made it.
func (v *Validator) try(w *work, s *rrset, sig *miekg.RRSIG, keys []*miekg.DNSKEY) error {
	found := 0
	for _, k := range keys {
		if k.Algorithm != sig.Algorithm || k.KeyTag() != sig.KeyTag {
			continue
		}
		if found++; found > sameTag {
			break
		}
		if w.signatures--; w.signatures < 0 || w.failures <= 0 {
			v.Counts.Limited.Add(1)
			return faultf(edeBogus, "validating %s takes too much work", s.name)
		}
		if sig.Verify(k, s.rrs) == nil {
			return nil
		}
		w.failures--
	}
	if found == 0 {
		return faultf(edeDNSKEYMissing, "%s has no key %d that signed %s %s", sig.SignerName, sig.KeyTag, s.name, miekg.Type(s.rtype))
	}
	return faultf(edeBogus, "the signature of %s %s by %s is wrong", s.name, miekg.Type(s.rtype), sig.SignerName)
}

// clamp limits TTLs to the signed one and to the signature's expiry.
func (v *Validator) clamp(s *rrset, sig *miekg.RRSIG) {
	left := int64(int32(sig.Expiration - uint32(v.now().Unix())))
	ttl := min(sig.OrigTtl, uint32(max(left, 1)))
	for _, rr := range s.rrs {
		rr.Header().Ttl = min(rr.Header().Ttl, ttl)
	}
	for _, x := range s.sigs {
		x.Hdr.Ttl = min(x.Hdr.Ttl, ttl)
	}
}

// supported reports whether an algorithm is supported. Those with SHA-1 are not (RFC 9905), so
// that zones signed only with them are insecure.
func supported(algorithm uint8) bool {
	switch algorithm {
	case miekg.RSASHA256, miekg.RSASHA512, miekg.ECDSAP256SHA256, miekg.ECDSAP384SHA384, miekg.ED25519:
		return true
	}
	return false
}

// keys returns the valid signing keys of a zone.
func (v *Validator) keys(ctx context.Context, w *work, zone string) ([]*miekg.DNSKEY, error) {
	e, err := v.memory.get(ctx, setKey{zone, miekg.TypeDNSKEY}, v.now, func() (entry, error) { return v.fetchKeys(ctx, w, zone) })
	if err != nil {
		return nil, err
	}
	return e.keys, e.err
}

// fetchKeys fetches the keys of a zone and verifies them by its anchor or its DS set; RFC 4035
// section 5.2.
func (v *Validator) fetchKeys(ctx context.Context, w *work, zone string) (entry, error) {
	trusted, ok := v.anchors[zone]
	if !ok {
		ds, err := v.delegation(ctx, w, zone)
		if errors.Is(err, errNoCut) {
			err = faultf(edeBogus, "%s signs but is not a zone", zone)
		}
		if err != nil {
			return v.settle(err)
		}
		trusted.ds = ds
	}
	m, err := v.question(ctx, w, zone, miekg.TypeDNSKEY)
	if err != nil {
		return entry{}, err
	}
	s := group(m.Answer).of(zone, miekg.TypeDNSKEY)
	if s == nil {
		return v.settle(faultf(edeDNSKEYMissing, "%s has no DNSKEY", zone))
	}
	all := usable(s.rrs)
	if len(all) > mostKeys {
		return v.settle(faultf(edeBogus, "%s has more than %d keys", zone, mostKeys))
	}
	vouched := trusted.matchingKeys(all)
	if len(vouched) == 0 {
		return v.settle(faultf(edeDNSKEYMissing, "no DNSKEY of %s is trusted", zone))
	}
	var why error = faultf(edeRRSIGsMissing, "the DNSKEY set of %s is not signed", zone)
	var late *fault
	for i, sig := range s.sigs {
		if i >= setSignatures {
			break
		}
		signer := miekg.CanonicalName(sig.SignerName)
		if signer != zone {
			continue
		}
		if why = v.plausible(s, sig, signer, zone, zone); why != nil {
			if f := faultOf(why); (f.ede == edeExpired || f.ede == edeNotYetValid) && v.try(w, s, sig, vouched) == nil {
				f.untimely, late = true, f
			}
			continue
		}
		if why = v.try(w, s, sig, vouched); why == nil {
			v.clamp(s, sig)
			return entry{keys: all, ttl: ttlOf(s)}, nil
		}
	}
	if late != nil {
		why = late
	}
	return v.settle(why)
}

// usable returns the DNSKEY records that may sign zone data.
func usable(rrs []miekg.RR) []*miekg.DNSKEY {
	var keys []*miekg.DNSKEY
	for _, rr := range rrs {
		k := rr.(*miekg.DNSKEY)
		if k.Flags&miekg.ZONE == 0 || k.Flags&miekg.REVOKE != 0 || k.Protocol != 3 || !supported(k.Algorithm) || len(k.PublicKey) > 1400 {
			continue // 1400: 8192 bits of RSA in base64
		}
		keys = append(keys, k)
	}
	return keys
}

func ttlOf(s *rrset) time.Duration {
	return time.Duration(s.rrs[0].Header().Ttl) * time.Second
}

// settle makes an entry from an error, unless that may be temporary.
func (v *Validator) settle(err error) (entry, error) {
	switch {
	case errors.Is(err, errInsecure), errors.Is(err, errNoCut):
		return entry{err: err, ttl: negativeKeep}, nil
	case faultOf(err) != nil:
		return entry{err: err, ttl: bogusKeep}, nil
	}
	return entry{}, err
}

// delegation returns the DS set of a zone: errInsecure if it provably has none, errNoCut if no
// zone begins at the name.
func (v *Validator) delegation(ctx context.Context, w *work, zone string) ([]*miekg.DS, error) {
	e, err := v.memory.get(ctx, setKey{zone, miekg.TypeDS}, v.now, func() (entry, error) { return v.fetchDS(ctx, w, zone) })
	if err != nil {
		return nil, err
	}
	return e.ds, e.err
}

func (v *Validator) fetchDS(ctx context.Context, w *work, zone string) (entry, error) {
	if v.excepted(zone) || v.anchorOf(zone) == "" {
		return v.settle(errInsecure)
	}
	if zone == "." {
		return v.settle(faultf(edeBogus, "the root has no parent"))
	}
	m, err := v.question(ctx, w, zone, miekg.TypeDS)
	if err != nil {
		return entry{}, err
	}
	answer, authority := group(m.Answer), group(m.Ns)
	if s := answer.of(zone, miekg.TypeDS); s != nil {
		sig, err := v.verify(ctx, w, s, parent(zone))
		if err == nil && sig != nil && expanded(zone, sig) {
			err = faultf(edeBogus, "the DS of %s comes from a wildcard", zone)
		}
		if err != nil {
			return v.settle(err)
		}
		return v.settleDS(s)
	}
	if s := answer.of(zone, miekg.TypeCNAME); s != nil {
		if _, err := v.verify(ctx, w, s, parent(zone)); err != nil {
			return v.settle(err)
		}
		return v.settle(errNoCut)
	}
	if answer.dname(zone) != nil {
		return v.settle(errNoCut) // it is validated together with its answer
	}
	signer := authority.denier(zone, miekg.TypeDS)
	if signer == "" {
		if err := v.unsigned(ctx, w, parent(zone)); err != nil {
			return v.settle(err)
		}
		return v.settle(faultf(edeNSECMissing, "nothing proves that %s has no DS", zone))
	}
	p, err := v.proofs(ctx, w, zone, signer, authority)
	if err != nil {
		return v.settle(err)
	}
	e, err := v.settle(p.noDS(w, zone))
	e.ttl = min(e.ttl, p.ttl)
	return e, err
}

// settleDS keeps the usable DS records; without any, the zone counts as unsigned (RFC 4035
// section 5.2).
func (v *Validator) settleDS(s *rrset) (entry, error) {
	var all []*miekg.DS
	for _, rr := range s.rrs {
		if d := rr.(*miekg.DS); supported(d.Algorithm) && (d.DigestType == miekg.SHA256 || d.DigestType == miekg.SHA384) {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return entry{err: errInsecure, ttl: ttlOf(s)}, nil
	}
	return entry{ds: all[:min(len(all), mostKeys)], ttl: ttlOf(s)}, nil
}

// question queries upstream for keys and DS records.
func (v *Validator) question(ctx context.Context, w *work, name string, qtype uint16) (*miekg.Msg, error) {
	if w.questions--; w.questions < 0 {
		v.Counts.Limited.Add(1)
		return nil, faultf(edeBogus, "validating takes too many queries")
	}
	v.Counts.Questions.Add(1)
	var room [256]byte
	n, err := miekg.PackDomainName(name, room[:], 0, nil, false)
	if err != nil {
		return nil, faultf(edeBogus, "%s is not a name", name)
	}
	msg, err := v.ask(ctx, room[:n], qtype)
	if err != nil {
		return nil, err
	}
	m := new(miekg.Msg)
	if err := m.Unpack(msg); err != nil {
		return nil, faultf(edeBogus, "the answer for %s %s cannot be read: %v", name, miekg.Type(qtype), err)
	}
	if m.Rcode != miekg.RcodeSuccess && m.Rcode != miekg.RcodeNameError {
		return nil, faultf(edeNoUpstream, "%s was answered for %s %s", miekg.RcodeToString[m.Rcode], name, miekg.Type(qtype))
	}
	return m, nil
}

// An anchor is trusted for a zone without its parent.
type anchor struct {
	ds   []*miekg.DS
	keys []*miekg.DNSKEY
}

// matchingKeys returns the keys that the anchor or DS set refers to.
func (a anchor) matchingKeys(keys []*miekg.DNSKEY) []*miekg.DNSKEY {
	var out []*miekg.DNSKEY
	for _, k := range keys {
		named := slices.ContainsFunc(a.keys, func(x *miekg.DNSKEY) bool {
			return x.Algorithm == k.Algorithm && strings.EqualFold(x.Hdr.Name, k.Hdr.Name) && x.PublicKey == k.PublicKey
		})
		tag := k.KeyTag()
		named = named || slices.ContainsFunc(a.ds, func(d *miekg.DS) bool {
			if d.KeyTag != tag || d.Algorithm != k.Algorithm {
				return false
			}
			mine := k.ToDS(d.DigestType)
			return mine != nil && strings.EqualFold(mine.Digest, d.Digest)
		})
		if named {
			out = append(out, k)
		}
	}
	return out
}
