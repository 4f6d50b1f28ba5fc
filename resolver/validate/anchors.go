package validate

import (
	"errors"
	"fmt"
	miekg "github.com/miekg/dns"
	"sync/atomic"
	"time"

	"shuultuur/lib/setting"
)

// rootAnchors are the keys of the root: of 2017 and of 2024, as IANA publishes
// them at https://data.iana.org/root-anchors/root-anchors.xml.
var rootAnchors = []string{
	". IN DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D",
	". IN DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16",
}

// Counts are the counters of a Validator.
type Counts struct {
	Secure, Insecure, Bogus atomic.Int64
	Questions               atomic.Int64 // to upstreams, for keys and delegations
	Limited                 atomic.Int64 // abandoned because of the work
	Iterations              atomic.Int64 // insecure because of NSEC3 iterations
}

// New makes a validator that queries with ask.
func New(cfg Config, ask Ask) (*Validator, error) {
	v := &Validator{ask: ask, anchors: map[string]anchor{}, negative: map[string]bool{}, held: map[string]bool{}, now: time.Now}
	v.memory = memory{entries: map[setKey]entry{}, flights: map[setKey]chan struct{}{}}
	for i, s := range cfg.Anchors {
		if err := v.trust(s); err != nil {
			return nil, setting.At(fmt.Sprintf("trust-anchors[%d]", i), err)
		}
	}
	if _, ok := v.anchors["."]; !ok { // an anchor of a local domain leaves the others as they are
		for _, s := range rootAnchors {
			if err := v.trust(s); err != nil {
				return nil, err
			}
		}
	}
	for i, s := range cfg.Negative {
		if _, ok := miekg.IsDomainName(s); !ok || s == "" {
			return nil, setting.At(fmt.Sprintf("negative-trust-anchors[%d]", i), fmt.Errorf("%q is not a domain", s))
		}
		v.negative[miekg.CanonicalName(s)] = true
	}
	return v, nil
}

// trust adds a record to the anchors.
func (v *Validator) trust(s string) error {
	rr, err := miekg.NewRR(s)
	if err != nil {
		return fmt.Errorf("%q is not a record: %w", s, err)
	}
	if rr == nil {
		return errors.New("a trust anchor is a DS or DNSKEY record, this one is empty")
	}
	zone := miekg.CanonicalName(rr.Header().Name)
	a := v.anchors[zone]
	switch x := rr.(type) {
	case *miekg.DS:
		if !supported(x.Algorithm) || x.DigestType != miekg.SHA256 && x.DigestType != miekg.SHA384 {
			return fmt.Errorf("%q: algorithm %d or digest type %d is not supported", s, x.Algorithm, x.DigestType)
		}
		a.ds = append(a.ds, x)
	case *miekg.DNSKEY:
		if !supported(x.Algorithm) {
			return fmt.Errorf("%q: algorithm %d is not supported", s, x.Algorithm)
		}
		a.keys = append(a.keys, x)
	default:
		return fmt.Errorf("%q is neither a DS nor a DNSKEY record", s)
	}
	v.anchors[zone] = a
	return nil
}

// anchorOf returns the nearest zone above name, or name, that has an anchor.
func (v *Validator) anchorOf(name string) string {
	for at := name; ; at = parent(at) {
		if _, ok := v.anchors[at]; ok {
			return at
		}
		if at == "." {
			return ""
		}
	}
}

// excepted reports whether a name is not to be validated.
func (v *Validator) excepted(name string) bool {
	if len(v.negative) == 0 {
		return false
	}
	for at := name; ; at = parent(at) {
		if v.negative[at] {
			return true
		}
		if at == "." {
			return false
		}
	}
}
