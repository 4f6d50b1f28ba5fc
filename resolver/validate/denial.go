package validate

import (
	"context"
	miekg "github.com/miekg/dns"
	"slices"
	"time"
)

// A proof is the validated NSEC and NSEC3 records of one zone in one message.
type proof struct {
	v      *Validator
	signer string
	nsec   []nsec
	nsec3  []nsec3
	param  *miekg.NSEC3 // salt and iterations, the same for all nsec3
	ttl    time.Duration
	hashed map[string]string
}

type nsec struct {
	owner, next []string // labels
	types       []uint16
}

type nsec3 struct {
	hash  string // in base32, upper case
	next  string
	types []uint16
	out   bool // opt-out
}

// proofs validates a message's denials of a zone, and its SOA. All must be valid, since all
// are passed on.
func (v *Validator) proofs(ctx context.Context, w *work, name, signer string, authority sections) (*proof, error) {
	if v.excepted(name) {
		return nil, errInsecure
	}
	top := v.anchorOf(name)
	if top == "" {
		return nil, errInsecure
	}
	if !miekg.IsSubDomain(signer, name) || !miekg.IsSubDomain(top, signer) {
		return nil, faultf(edeBogus, "%s is not the zone of %s", signer, name)
	}
	keys, err := v.keys(ctx, w, signer)
	if err != nil {
		return nil, err
	}
	p := &proof{v: v, signer: signer, ttl: negativeKeep, hashed: map[string]string{}}
	var sets []*rrset
	for _, s := range authority.sets {
		if s.rtype != miekg.TypeNSEC && s.rtype != miekg.TypeNSEC3 && s.rtype != miekg.TypeSOA || len(s.rrs) == 0 {
			continue
		}
		sig, err := v.denier(w, s, signer, top, keys)
		if err != nil {
			return nil, err
		}
		v.clamp(s, sig)
		p.ttl = min(p.ttl, ttlOf(s))
		sets = append(sets, s)
	}
	for _, s := range sets {
		if err := p.add(s); err != nil {
			return nil, err
		}
	}
	if len(p.nsec)+len(p.nsec3) == 0 {
		return nil, faultf(edeNSECMissing, "nothing signed by %s denies %s", signer, name)
	}
	return p, nil
}

// denier verifies a denying set with the keys of a zone.
func (v *Validator) denier(w *work, s *rrset, signer, top string, keys []*miekg.DNSKEY) (*miekg.RRSIG, error) {
	var why error = faultf(edeRRSIGsMissing, "%s %s is not signed", s.name, miekg.Type(s.rtype))
	for i, sig := range s.sigs {
		if i >= setSignatures {
			break
		}
		if miekg.CanonicalName(sig.SignerName) != signer {
			continue
		}
		if why = v.plausible(s, sig, signer, top, s.name); why != nil {
			continue
		}
		if why = v.try(w, s, sig, keys); why != nil {
			continue
		}
		if expanded(s.name, sig) {
			why = faultf(edeBogus, "%s %s comes from a wildcard", s.name, miekg.Type(s.rtype))
			continue
		}
		return sig, nil
	}
	return nil, why
}

// add adds the records of a verified set.
func (p *proof) add(s *rrset) error {
	for _, rr := range s.rrs {
		switch x := rr.(type) {
		case *miekg.NSEC:
			p.nsec = append(p.nsec, nsec{labels(s.name), labels(x.NextDomain), x.TypeBitMap})
		case *miekg.NSEC3:
			if x.Hash != miekg.SHA1 || x.Flags > 1 || parent(s.name) != p.signer {
				continue
			}
			if x.Iterations > mostIterations {
				p.v.Counts.Iterations.Add(1)
				return errInsecure
			}
			if p.param == nil {
				p.param = x
			}
			if x.Salt != p.param.Salt || x.Iterations != p.param.Iterations {
				continue
			}
			label := miekg.SplitDomainName(s.name)[0]
			p.nsec3 = append(p.nsec3, nsec3{upper(label), upper(x.NextDomain), x.TypeBitMap, x.Flags&1 != 0})
		}
	}
	return nil
}

func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 0x20
		}
	}
	return string(b)
}

func has(types []uint16, t uint16) bool { return slices.Contains(types, t) }

// cut reports whether a bitmap is that of a delegation in the parent zone.
func cut(types []uint16) bool { return has(types, miekg.TypeNS) && !has(types, miekg.TypeSOA) }

// denies reports whether the bitmap of the name itself denies a type: not with a CNAME, which
// would have been the answer, and at a cut only for its own side (RFC 6840 section 4.1). The
// root, at the top, has no parent side.
func denies(types []uint16, qtype uint16, top bool) bool {
	switch {
	case has(types, qtype), qtype != miekg.TypeCNAME && has(types, miekg.TypeCNAME):
		return false
	case qtype == miekg.TypeDS:
		return !has(types, miekg.TypeSOA) || top
	}
	return !cut(types)
}

// under reports whether name is below top.
func under(name, top []string) bool {
	return len(name) > len(top) && slices.Equal(name[len(name)-len(top):], top)
}

// covers reports whether an NSEC proves that name does not exist.
func (n *nsec) covers(name []string) bool {
	if compare(n.owner, name) >= 0 {
		return false
	}
	if under(name, n.owner) && (cut(n.types) || has(n.types, miekg.TypeDNAME)) {
		return false // another zone is responsible below it
	}
	if compare(n.next, n.owner) <= 0 { // the last one points to the apex
		return under(name, n.next)
	}
	return compare(name, n.next) < 0
}

// encloser returns how many labels of name exist, according to the NSEC that covers it.
func (n *nsec) encloser(name []string) int { return max(common(name, n.owner), common(name, n.next)) }

// common counts the last labels that two names share.
func common(a, b []string) int {
	i := 0
	for i < len(a) && i < len(b) && a[len(a)-1-i] == b[len(b)-1-i] {
		i++
	}
	return i
}

// wildcardAt returns the wildcard below the last n labels of name.
func wildcardAt(name []string, n int) []string {
	return append([]string{"*"}, name[len(name)-n:]...)
}

func (p *proof) matching(name []string) *nsec {
	for i := range p.nsec {
		if slices.Equal(p.nsec[i].owner, name) {
			return &p.nsec[i]
		}
	}
	return nil
}

func (p *proof) covering(name []string) *nsec {
	for i := range p.nsec {
		if p.nsec[i].covers(name) {
			return &p.nsec[i]
		}
	}
	return nil
}

// noName verifies that a name does not exist: RFC 4035 section 5.4, RFC 5155 section 8.4.
func (p *proof) noName(w *work, name string) error {
	n := labels(name)
	if c := p.covering(n); c != nil && !under(c.next, n) {
		if p.covering(wildcardAt(n, c.encloser(n))) != nil {
			return nil
		}
	}
	if len(p.nsec3) > 0 {
		e, err := p.encloser(w, name)
		if err != nil {
			return err
		}
		if e.next == nil {
			return faultf(edeNSECMissing, "it is not proven that %s does not exist", name)
		}
		if x, err := p.covering3(w, "*."+e.name); err != nil || x == nil {
			return orFault(err, edeNSECMissing, "it is not proven that no wildcard matches %s", name)
		}
		return insecureError(e.next.out)
	}
	return faultf(edeNSECMissing, "it is not proven that %s does not exist", name)
}

// noData verifies that a name has no records of a type: RFC 4035 section 5.4, RFC 5155
// sections 8.5 to 8.7.
func (p *proof) noData(w *work, name string, qtype uint16) error {
	n := labels(name)
	if m := p.matching(n); m != nil && denies(m.types, qtype, len(n) == 0) {
		return nil
	}
	if c := p.covering(n); c != nil {
		if under(c.next, n) {
			return nil // an empty non-terminal
		}
		if m := p.matching(wildcardAt(n, c.encloser(n))); m != nil && denies(m.types, qtype, false) {
			return nil
		}
	}
	if len(p.nsec3) > 0 {
		return p.noData3(w, name, qtype)
	}
	return faultf(edeNSECMissing, "it is not proven that %s has no %s", name, miekg.Type(qtype))
}

func (p *proof) noData3(w *work, name string, qtype uint16) error {
	m, err := p.match3(w, name)
	if err != nil {
		return err
	}
	if m != nil {
		if denies(m.types, qtype, name == ".") {
			return nil
		}
		return faultf(edeNSECMissing, "it is not proven that %s has no %s", name, miekg.Type(qtype))
	}
	e, err := p.encloser(w, name)
	if err != nil {
		return err
	}
	if e.next == nil {
		return faultf(edeNSECMissing, "it is not proven that %s has no %s", name, miekg.Type(qtype))
	}
	star, err := p.match3(w, "*."+e.name)
	if err != nil {
		return err
	}
	if star != nil && denies(star.types, qtype, false) {
		return insecureError(e.next.out)
	}
	if e.next.out && star == nil {
		return errInsecure // there may be an unsigned delegation
	}
	return faultf(edeNSECMissing, "it is not proven that %s has no %s", name, miekg.Type(qtype))
}

// noCloser verifies that a wildcard may be expanded to name, of which n labels exist: RFC 4035
// section 5.3.4, RFC 5155 section 8.8.
func (p *proof) noCloser(w *work, name string, n int) error {
	l := labels(name)
	if c := p.covering(l); c != nil && c.encloser(l) == n {
		return nil
	}
	if len(p.nsec3) > 0 {
		starts := miekg.Split(name)
		if i := len(starts) - n - 1; i >= 0 {
			x, err := p.covering3(w, name[starts[i]:])
			if err != nil {
				return err
			}
			if x != nil {
				return insecureError(x.out)
			}
		}
	}
	return faultf(edeNSECMissing, "it is not proven that no name is closer to %s than the wildcard", name)
}

// noDS returns the meaning of the denial of a DS set for a name: errInsecure for a
// delegation without DS, errNoCut for no delegation.
func (p *proof) noDS(w *work, name string) error {
	n := labels(name)
	types, found := []uint16(nil), false
	if m := p.matching(n); m != nil {
		types, found = m.types, true
	} else if c := p.covering(n); c != nil {
		return errNoCut // the name does not exist, or is an empty non-terminal
	}
	if !found && len(p.nsec3) > 0 {
		m, err := p.match3(w, name)
		if err != nil {
			return err
		}
		if m == nil {
			return p.noDS3(w, name)
		}
		types, found = m.types, true
	}
	switch {
	case !found:
		return faultf(edeNSECMissing, "it is not proven that %s has no DS", name)
	case !denies(types, miekg.TypeDS, false):
		return faultf(edeBogus, "the proof that %s has no DS lists one", name)
	case has(types, miekg.TypeNS):
		return errInsecure
	}
	return errNoCut
}

func (p *proof) noDS3(w *work, name string) error {
	e, err := p.encloser(w, name)
	if err != nil {
		return err
	}
	switch {
	case e.next == nil:
		return faultf(edeNSECMissing, "it is not proven that %s has no DS", name)
	case e.next.out:
		return errInsecure
	}
	return errNoCut
}

// An enclosure is the closest existing ancestor and the record that covers the name one label
// longer.
type enclosure struct {
	name string
	next *nsec3
}

// encloser verifies the closest encloser proof of RFC 5155 section 8.3.
func (p *proof) encloser(w *work, name string) (enclosure, error) {
	longer := name
	for at := name; miekg.IsSubDomain(p.signer, at); at = parent(at) {
		m, err := p.match3(w, at)
		if err != nil {
			return enclosure{}, err
		}
		if m != nil {
			if at == name || cut(m.types) || has(m.types, miekg.TypeDNAME) {
				return enclosure{}, nil // it exists, or another zone is responsible
			}
			x, err := p.covering3(w, longer)
			return enclosure{at, x}, err
		}
		longer = at
		if at == "." {
			break
		}
	}
	return enclosure{}, nil
}

// hash returns the hash of a name, within the limit of work.
func (p *proof) hash(w *work, name string) (string, error) {
	if h, ok := p.hashed[name]; ok {
		return h, nil
	}
	if w.hashes--; w.hashes < 0 {
		p.v.Counts.Limited.Add(1)
		return "", faultf(edeBogus, "validating %s takes too many hashes", name)
	}
	h := miekg.HashName(name, p.param.Hash, p.param.Iterations, p.param.Salt)
	p.hashed[name] = h
	return h, nil
}

func (p *proof) match3(w *work, name string) (*nsec3, error) {
	h, err := p.hash(w, name)
	if err != nil {
		return nil, err
	}
	for i := range p.nsec3 {
		if p.nsec3[i].hash == h {
			return &p.nsec3[i], nil
		}
	}
	return nil, nil
}

func (p *proof) covering3(w *work, name string) (*nsec3, error) {
	h, err := p.hash(w, name)
	if err != nil {
		return nil, err
	}
	for i := range p.nsec3 {
		x := &p.nsec3[i]
		if x.hash < x.next && x.hash < h && h < x.next || x.hash >= x.next && (h > x.hash || h < x.next) {
			return x, nil
		}
	}
	return nil, nil
}

func orFault(err error, ede uint16, format string, args ...any) error {
	if err != nil {
		return err
	}
	return faultf(ede, format, args...)
}
