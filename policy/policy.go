// Package policy decides: it asks the checks what they see and lets the rules
// of the client's policy turn that into a verdict.
//
// Data moves so: [New] reads the settings once and compiles them into an
// [Engine] that never changes. For a transaction the engine picks the first
// policy that covers the client (networks, users, groups and schedule: each
// that is given must match), runs those checks whose categories a rule of that
// policy names, cheap ones first, and walks the rules in order. The first rule
// that fits wins. If none fits, the transaction passes.
//
// A rule fits when all it says is true: one of its categories was found, none
// of its unless categories was, and each of its conditions on the request and
// response holds. Stages come one after the other, so a rule may be open: it
// does not fit yet but may still, because a check that could report one of its
// categories wants a later stage, or because a condition needs a later head.
// Order is kept across stages: while an earlier rule is open, a later rule
// that fits has to wait. With one exception, for speed: a rule that refuses
// (block, warn, redirect) does not wait for open rules that block, because
// whatever those turn out to be, the page as it is does not reach the client.
// Then the reason given is the rule that was certain first. At the
// transaction's last stage nothing is open.
//
// How the lists of e2guardian are said here: an exception is an allow rule in
// front (pass, look no further); grey is the category in unless of the rules
// that hold the ban lists (they do not fit, content is still scanned);
// semi-exception is the same with more rules carrying that unless.
package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"shuultuur/filter"
)

// Config are the policies in order: the first that covers a client counts.
type Config []Policy

// A Policy says for some clients what is to happen.
type Policy struct {
	Name string `yaml:"name"`

	// Whom it covers. What is not given covers everybody.
	Networks []Network `yaml:"networks"`
	Users    []string  `yaml:"users"`  // compared as they are written
	Groups   []string  `yaml:"groups"` // one of the client's is enough
	Schedule Schedule  `yaml:"schedule"`

	Rules []Rule `yaml:"rules"` // the first that fits

	// Decrypt looks into the TLS connections of these clients. A host that an
	// allow rule lets through by its name stays closed. Behind the rules then
	// stands one more, "certificate", which blocks origins whose certificate
	// has a fault that no rule before it deals with.
	Decrypt bool `yaml:"decrypt"`

	Limits []Limit `yaml:"limits"` // of requests and of queries
	Quotas []Quota `yaml:"quotas"` // of a day

	Learn      Learn    `yaml:"learn"`
	WarnFor    Duration `yaml:"warn-for"`     // how long a click on a warn page holds; 30m unless given
	WarnOnLoss OnLoss   `yaml:"warn-on-loss"` // a click of which nobody knows whether it is the first
	SafeSearch bool     `yaml:"safesearch"`   // search engines filter their answers
	YouTube    string   `yaml:"youtube"`      // off, moderate or strict
	Tenants    Tenants  `yaml:"tenants"`
	DNS        DNS      `yaml:"dns"` // what is said to these clients when they ask for names
}

// DNS says how a name server treats the clients of a policy.
type DNS struct {
	Answer filter.Answer `yaml:"answer"`  // how a refused name is answered, instead of as the name server's settings say
	Error  string        `yaml:"error"`   // the Extended DNS Error of a refusal: blocked (default), censored or filtered
	Drop   []string      `yaml:"drop"`    // from HTTPS and SVCB records: h3, ech
	OwnDNS bool          `yaml:"own-dns"` // let browsers use encrypted DNS of their own
}

// A Rule is an action and when to take it. Between keys stands "and", within
// a list "or". A rule that says nothing but its action always fits.
type Rule struct {
	Name   string `yaml:"name"`
	Action string `yaml:"action"` // allow, warn, block or redirect

	// Category names what checks report: "adult" is that of any check,
	// "phrase/adult" that of one. Case does not matter. "virus-error" is what
	// comes of a check that could not do its work.
	Category []string `yaml:"category"`
	// Over is the limit for scored categories, which fit with a greater score.
	// It means nothing to others.
	Over *int `yaml:"over"`
	// Unless are categories that keep the rule from fitting.
	Unless []string `yaml:"unless"`

	Host      []string          `yaml:"host"`      // "example.com" and what is below it; "*" any
	URL       []string          `yaml:"url"`       // RE2, no case, on host and path with query, decoded
	Extension []string          `yaml:"extension"` // of the path, or of the name in Content-Disposition
	Type      []string          `yaml:"type"`      // media type of the response: "text/html", "image/*"
	Header    map[string]string `yaml:"header"`    // field of the request to RE2, no case; every one must match
	JA4       []string          `yaml:"ja4"`       // fingerprint of the TLS hello
	Agent     []string          `yaml:"agent"`     // RE2, no case, on User-Agent
	Referer   []string          `yaml:"referer"`   // host of the referring page, as Host; the client can lie
	Method    []string          `yaml:"method"`
	Search    []string          `yaml:"search"` // words or phrases in what is searched for at a known engine
	// Query are types of records ("AAAA", "HTTPS", "TYPE65"): the rule fits
	// questions for names only, and of these only those for one of the types.
	Query    []string `yaml:"query"`
	Schedule Schedule `yaml:"schedule"`

	// To is where a redirect goes. {url}, {host}, {category}, {policy} and
	// {id} stand for those of the transaction, escaped for a query. A redirect
	// never fits on the host it leads to.
	To      string   `yaml:"to"`
	WarnFor Duration `yaml:"warn-for"` // for this rule, instead of the policy's
	// Answer is how a name server refuses a name by this rule, instead of as
	// the policy says.
	Answer filter.Answer `yaml:"answer"`
}

// Limits of the settings. They bound what one decision can cost.
const (
	maxRules  = 64 * ruleWords // of one policy
	maxChecks = 64
)

// A Duration is a length of time in the settings.
type Duration = filter.Duration

// A Network is an address range in the settings: CIDR, or one address.
type Network struct{ netip.Prefix }

func (n *Network) UnmarshalText(text []byte) error {
	s := string(text)
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap().WithZone("")
		n.Prefix = netip.PrefixFrom(a, a.BitLen())
		return nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return fmt.Errorf(`%q is not an address or a network; write it like "10.1.0.0/16" or "2001:db8::/32"`, s)
	}
	if p != p.Masked() {
		return fmt.Errorf("network %q has bits beyond its mask; did you mean %q or %q?", s, p.Masked(), p.Addr())
	}
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	n.Prefix = p
	return nil
}

// Learn says how long verdicts on bodies are remembered; zero: not at all.
type Learn struct {
	For Duration `yaml:"for"`
}

// UnmarshalYAML reads a mapping with "for", or just the time, or on or off.
func (l *Learn) UnmarshalYAML(read func(any) error) error {
	var s string
	if read(&s) == nil {
		switch s {
		case "on", "true":
			l.For = Duration(time.Hour)
			return nil
		case "off", "false":
			l.For = 0
			return nil
		}
		return l.For.UnmarshalText([]byte(s))
	}
	type plain Learn
	return read((*plain)(l))
}

var errNoPolicies = errors.New("no policy is given, so nobody could pass; write at least one")
