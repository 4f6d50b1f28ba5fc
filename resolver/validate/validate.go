// Package validate verifies that answers are those that the owners of zones have signed:
// DNSSEC, RFC 4033 to 4035, 5155, 6840.
//
// [Validator.Validate] groups the records of a message into RRsets, follows the chain of CNAME
// and DNAME from the question, and verifies each set on the way with the keys of the zone that
// signed it. NSEC or NSEC3 records must deny names and types that do not exist. The keys of a
// zone come from its DNSKEY set, which a DS set of its parent authenticates, and so on up to a
// trust anchor. An unsigned answer must be below a delegation that provably has no DS. Keys
// and delegations are fetched with [Ask], and remembered.
//
// An attacker can sign answers that cause much work, so it is bounded for each message:
// questions, signatures tried, hashes (CVE-2023-50387, CVE-2023-50868).
package validate

import (
	"context"
	"errors"
	"fmt"
	miekg "github.com/miekg/dns"
	"strings"
	"sync"
	"time"
)

// A Status is the result of validation.
type Status uint8

const (
	Insecure Status = iota // unsigned, provably
	Secure
	Bogus // should be signed, but is not validly
)

func (s Status) String() string { return [...]string{"insecure", "secure", "bogus"}[s%3] }

// A Result is the result of Validate.
type Result struct {
	Status Status
	EDE    uint16 // for a bogus answer, RFC 8914
	Why    string // the same for people; also why an answer about a time server is not validated
	// Valid are the names that valid aliases lead to, in order, also when the answer is bogus after
	// them. Begins is the status of these aliases.
	Valid  []string
	Begins Status
}

// Extended DNS Errors.
const (
	edeBogus         = 6
	edeExpired       = 7
	edeNotYetValid   = 8
	edeDNSKEYMissing = 9
	edeRRSIGsMissing = 10
	edeNSECMissing   = 12
	edeNoUpstream    = 22
)

// Limits of work for one message.
const (
	mostQuestions  = 64
	mostSignatures = 64 // tried
	mostHashes     = 300
	mostFailures   = 16 // invalid signatures
	mostSets       = 64
	mostLinks      = 16  // CNAME and DNAME
	setSignatures  = 8   // examined per RRset
	sameTag        = 4   // keys tried per tag
	mostKeys       = 64  // per zone
	mostIterations = 100 // for NSEC3; more are insecure (RFC 9276 section 3.2)
	clockSkew      = time.Hour
)

// Ask fetches an answer from upstream with DNSSEC records, whatever the upstream's own
// validation says (DO and CD set). name is in wire form.
type Ask func(ctx context.Context, name []byte, qtype uint16) ([]byte, error)

// Config is the settings of validation.
type Config struct {
	Anchors  []string `yaml:"trust-anchors"`          // DS or DNSKEY records; the root's are known unless some are given
	Negative []string `yaml:"negative-trust-anchors"` // domains not to validate
}

// A Validator validates answers. It is safe for concurrent use.
type Validator struct {
	ask      Ask
	anchors  map[string]anchor // by zone
	negative map[string]bool
	now      func() time.Time
	memory   memory
	Counts   Counts

	heldMu sync.Mutex
	held   map[string]bool // domains to which the chain of trust led when that was last known
}

// work is the remaining budget for one message.
type work struct{ questions, signatures, failures, hashes int }

// A fault is the reason why something is bogus.
type fault struct {
	ede      uint16
	why      string
	untimely bool // nothing is wrong but the time
}

func (f *fault) Error() string { return f.why }

func faultf(ede uint16, format string, args ...any) *fault {
	return &fault{ede: ede, why: fmt.Sprintf(format, args...)}
}

// faultOf returns the fault in err, nil if there is none.
func faultOf(err error) *fault {
	var f *fault
	errors.As(err, &f)
	return f
}

// errInsecure means that a name is provably unsigned.
var errInsecure = errors.New("insecure")

// Validate validates an answer, as far as the name until when that is not empty: the answer ends
// with an alias to it, which the caller follows. It lowers the case of the owner names of m and limits TTLs as
// the signatures require (RFC 4035 section 5.3.3).
func (v *Validator) Validate(ctx context.Context, m *miekg.Msg, until string) Result {
	w := &work{mostQuestions, mostSignatures, mostFailures, mostHashes}
	res := Result{Begins: Secure}
	err := v.message(ctx, w, m, until, &res)
	switch f := faultOf(err); {
	case err == nil:
		v.Counts.Secure.Add(1)
		res.Status = Secure
	case errors.Is(err, errInsecure):
		v.Counts.Insecure.Add(1)
		res.Status = Insecure
	case f != nil && v.graced(ctx, m, f):
		v.Counts.Insecure.Add(1)
		res.Status, res.Why = Insecure, f.why
	case f != nil:
		v.Counts.Bogus.Add(1)
		res.Status, res.EDE, res.Why = Bogus, f.ede, f.why
	default:
		v.Counts.Bogus.Add(1)
		res.Status, res.EDE, res.Why = Bogus, edeNoUpstream, err.Error()
	}
	return res
}

// message validates m, as Validate does, and notes the valid aliases in res; nil means secure.
func (v *Validator) message(ctx context.Context, w *work, m *miekg.Msg, until string, res *Result) error {
	if len(m.Question) != 1 {
		return faultf(edeBogus, "the answer has %d questions", len(m.Question))
	}
	q := m.Question[0]
	if m.Rcode != miekg.RcodeSuccess && m.Rcode != miekg.RcodeNameError || q.Qclass != miekg.ClassINET || q.Qtype == miekg.TypeRRSIG {
		return errInsecure
	}
	answer, authority := group(m.Answer), group(m.Ns)
	if len(answer.sets)+len(authority.sets) > mostSets {
		return faultf(edeBogus, "the answer has too many RRsets")
	}
	name := miekg.CanonicalName(q.Name)
	insecure := false
	for range mostLinks {
		next, done, err := v.link(ctx, w, name, q.Qtype, answer, authority)
		if errors.Is(err, errInsecure) {
			insecure, err = true, nil
			res.Begins = Insecure
		}
		if err != nil {
			return err
		}
		if done && m.Rcode == miekg.RcodeNameError && !insecure {
			return faultf(edeBogus, "%s is denied, together with records of it", name)
		}
		if done {
			return insecureError(insecure)
		}
		if next == "" {
			if err := v.denial(ctx, w, name, m, authority); err != nil {
				return err
			}
			return insecureError(insecure)
		}
		res.Valid = append(res.Valid, next)
		if next == until {
			return insecureError(insecure)
		}
		name = next
	}
	return faultf(edeBogus, "the chain of CNAMEs is too long")
}

func insecureError(insecure bool) error {
	if insecure {
		return errInsecure
	}
	return nil
}

// link validates the records in the answer for name: its records, which end the chain, or a
// CNAME or DNAME, which leads to the next name. An insecure link has both a next name and an
// error.
func (v *Validator) link(ctx context.Context, w *work, name string, qtype uint16, answer, authority sections) (next string, done bool, err error) {
	if qtype == miekg.TypeANY {
		for _, s := range answer.sets {
			if s.name != name {
				continue
			}
			done = true
			switch e := v.positive(ctx, w, s, authority); {
			case errors.Is(e, errInsecure):
				err = e
			case e != nil:
				return "", false, e
			}
		}
		return "", done, err
	}
	if s := answer.of(name, qtype); s != nil {
		return "", true, v.positive(ctx, w, s, authority)
	}
	if s := answer.of(name, miekg.TypeCNAME); s != nil {
		if d := answer.dname(name); d != nil && len(s.sigs) == 0 {
			return v.dname(ctx, w, d, name, s, authority)
		}
		c := s.rrs[0].(*miekg.CNAME)
		if len(s.rrs) > 1 {
			return "", false, faultf(edeBogus, "%s has several CNAMEs", name)
		}
		return miekg.CanonicalName(c.Target), false, v.positive(ctx, w, s, authority)
	}
	if d := answer.dname(name); d != nil {
		return v.dname(ctx, w, d, name, nil, authority)
	}
	return "", false, nil
}

// dname follows a DNAME; the CNAME synthesised from it has no signature (RFC 6672 section
// 5.3.1).
func (v *Validator) dname(ctx context.Context, w *work, d *rrset, name string, cname *rrset, authority sections) (string, bool, error) {
	if len(d.rrs) > 1 {
		return "", false, faultf(edeBogus, "%s has several DNAMEs", d.name)
	}
	target := miekg.CanonicalName(d.rrs[0].(*miekg.DNAME).Target)
	front := strings.TrimSuffix(name, d.name)
	if d.name == "." {
		front = name
	}
	next := front + target
	if target == "." {
		next = front
	}
	if cname != nil && (len(cname.rrs) != 1 || miekg.CanonicalName(cname.rrs[0].(*miekg.CNAME).Target) != next) {
		return "", false, faultf(edeBogus, "the CNAME of %s does not follow from the DNAME of %s", name, d.name)
	}
	if _, ok := miekg.IsDomainName(next); !ok {
		return "", false, faultf(edeBogus, "the DNAME of %s would make %s too long", d.name, name)
	}
	return next, false, v.positive(ctx, w, d, authority)
}

// positive validates an RRset of the answer; a wildcard expansion needs the proof that no
// closer name exists (RFC 4035 section 5.3.4).
func (v *Validator) positive(ctx context.Context, w *work, s *rrset, authority sections) error {
	below := s.name
	if s.rtype == miekg.TypeDS {
		below = parent(below)
	}
	sig, err := v.verify(ctx, w, s, below)
	if err != nil {
		return err
	}
	if !expanded(s.name, sig) {
		return nil
	}
	p, err := v.proofs(ctx, w, s.name, miekg.CanonicalName(sig.SignerName), authority)
	if err != nil {
		return err
	}
	return p.noCloser(w, s.name, int(sig.Labels))
}

// expanded reports whether the owner is a wildcard expansion.
func expanded(name string, sig *miekg.RRSIG) bool {
	n := miekg.CountLabel(name)
	if strings.HasPrefix(name, "*.") {
		n--
	}
	return n > int(sig.Labels)
}

// denial validates that name, the last of the chain, has no such records. It corrects an
// NXDOMAIN for a name that provably exists without them, which some servers send for empty
// non-terminals.
func (v *Validator) denial(ctx context.Context, w *work, name string, m *miekg.Msg, authority sections) error {
	qtype := m.Question[0].Qtype
	signer := authority.denier(name, qtype)
	if signer == "" {
		// No signed denial: this is correct only in an unsigned zone.
		return v.proveInsecure(ctx, w, name, qtype, faultf(edeNSECMissing, "nothing proves that %s has no %s", name, miekg.Type(qtype)))
	}
	p, err := v.proofs(ctx, w, name, signer, authority)
	if err != nil {
		return v.proveInsecure(ctx, w, name, qtype, err)
	}
	if m.Rcode == miekg.RcodeNameError {
		err = p.noName(w, name)
		if err != nil && len(p.nsec) > 0 && p.noData(w, name, qtype) == nil {
			m.Rcode, err = miekg.RcodeSuccess, nil
		}
	} else {
		err = p.noData(w, name, qtype)
	}
	if err != nil {
		return v.proveInsecure(ctx, w, name, qtype, err)
	}
	return nil
}

// proveInsecure returns errInsecure if the denial of name needs no signature, else err.
func (v *Validator) proveInsecure(ctx context.Context, w *work, name string, qtype uint16, err error) error {
	if errors.Is(err, errInsecure) {
		return err
	}
	if qtype == miekg.TypeDS {
		name = parent(name)
	}
	if e := v.unsigned(ctx, w, name); errors.Is(e, errInsecure) {
		return e
	}
	return err
}

// unsigned returns errInsecure if name is in an unsigned zone, nil if it should be signed,
// else the fault.
func (v *Validator) unsigned(ctx context.Context, w *work, name string) error {
	top := v.anchorOf(name)
	if top == "" {
		return errInsecure
	}
	for at := range fromTop(name, top) {
		if v.negative[at] {
			return errInsecure
		}
		if at == top {
			continue
		}
		if _, err := v.delegation(ctx, w, at); err != nil && !errors.Is(err, errNoCut) {
			return err
		}
	}
	return nil
}
