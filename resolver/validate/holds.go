package validate

import (
	"context"
	"errors"
	"time"

	miekg "github.com/miekg/dns"
)

// typeHeld is the type under which the memory has what [Validator.Holds] found out. No records
// have it.
const typeHeld = 0

// heldTime is the longest time to find out whether a chain of trust leads to a domain: the
// servers of a local one may ignore questions for types that they do not know.
const heldTime = 1500 * time.Millisecond

// Holds reports whether answers for name can be validated although servers of its own answer
// for domain, which encloses it: it has a trust anchor there, or the servers sign their zone,
// and the chain of trust from above leads to it. A chain that is not known to hold does not,
// but one that held does until the contrary is known: no outage makes what was verified
// unverified.
func (v *Validator) Holds(ctx context.Context, name, domain string) bool {
	name, domain = miekg.CanonicalName(name), miekg.CanonicalName(domain)
	if top := v.anchorOf(name); top == "" || v.excepted(domain) {
		return false
	} else if miekg.IsSubDomain(domain, top) {
		return true
	}
	e, err := v.memory.get(ctx, setKey{domain, typeHeld}, v.now, func() (entry, error) { return v.tryHold(ctx, domain), nil })
	return err == nil && e.err == nil
}

// tryHold validates the answer of the servers of a domain for its keys, or for their absence
// when no zone begins there.
func (v *Validator) tryHold(ctx context.Context, domain string) entry {
	ctx, cancel := context.WithTimeout(ctx, heldTime)
	defer cancel()
	w := &work{mostQuestions, mostSignatures, mostFailures, mostHashes}
	m, err := v.question(ctx, w, domain, miekg.TypeDNSKEY)
	if err == nil {
		if !signed(m) {
			return entry{err: errInsecure, ttl: negativeKeep}
		}
		err = v.message(ctx, w, m, "", new(Result))
	}
	switch f := faultOf(err); {
	case err == nil:
		v.setHeld(domain, true)
		return entry{ttl: negativeKeep}
	case errors.Is(err, errInsecure), f != nil && f.ede != edeNoUpstream:
		v.setHeld(domain, false)
		return entry{err: errInsecure, ttl: negativeKeep}
	}
	if v.wasHeld(domain) {
		return entry{ttl: bogusKeep}
	}
	return entry{err: errInsecure, ttl: unknownKeep}
}

// signed reports whether a message has signatures.
func signed(m *miekg.Msg) bool {
	for _, rrs := range [][]miekg.RR{m.Answer, m.Ns} {
		for _, rr := range rrs {
			if rr.Header().Rrtype == miekg.TypeRRSIG {
				return true
			}
		}
	}
	return false
}

func (v *Validator) setHeld(domain string, held bool) {
	v.heldMu.Lock()
	defer v.heldMu.Unlock()
	if held {
		v.held[domain] = true
	} else {
		delete(v.held, domain)
	}
}

func (v *Validator) wasHeld(domain string) bool {
	v.heldMu.Lock()
	defer v.heldMu.Unlock()
	return v.held[domain]
}
