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
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/setting"
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
	// Store lets the cache keep what the decrypted connections of these clients
	// carry, as far as it is meant for everybody. Without it such content is
	// never stored, nor served from the store.
	Store bool `yaml:"store"`
	// Hide changes pages as the lists of ad blockers say: elements are hidden by
	// a style sheet, scriptlets run, response headers are added.
	Hide bool `yaml:"hide"`
	// Disguised makes checks look for listed words behind disguises too: letters
	// that look like others, letters that stand apart, digits for letters.
	Disguised bool `yaml:"disguised"`

	// Patience is how long a body is held while its verdict is open; then what
	// was judged passes, piece by piece. "hold" waits for its end. Default: 300ms.
	Patience Patience `yaml:"patience"`

	Limits []Limit `yaml:"limits"` // of requests and of queries
	Quotas []Quota `yaml:"quotas"` // of a day

	Learn      Learn    `yaml:"learn"`
	WarnFor    Duration `yaml:"warn-for"`     // how long a click on a warn page holds; 30m unless given
	WarnOnLoss OnLoss   `yaml:"warn-on-loss"` // a click of which nobody knows whether it is the first
	SafeSearch bool     `yaml:"safesearch"`   // search engines filter their answers
	YouTube    string   `yaml:"youtube"`      // off, moderate or strict
	Tenants    Tenants  `yaml:"tenants"`
	DNS        DNS      `yaml:"dns"` // what is said to these clients when they ask for names

	Expect setting.OneOrMore[Expectation] `yaml:"expect"` // what has to come out; checked at each save
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
	Action string `yaml:"action"` // allow, monitor, warn, block, redirect, or for pictures blur or placeholder

	// Category names what checks report: "adult" is that of any check,
	// "phrase/adult" that of one. Case does not matter. "virus-error" is what
	// comes of a check that could not do its work.
	Category []string `yaml:"category"`
	// Over is the limit for scored categories, which fit with a greater score.
	// It means nothing to others.
	Over *int `yaml:"over"`
	// Signature names signature rules by number, Priority those of this priority
	// and more urgent ones (1 is the most urgent), and Obey those whose action is
	// drop or reject. They are short for categories of the check "signature".
	Signature []uint32 `yaml:"signature"`
	Priority  int      `yaml:"priority"`
	Obey      bool     `yaml:"obey"`
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

	// What the body of the request has to hold: a form, an upload, messages of
	// the client in a conversation.
	Words   []string     `yaml:"words"`   // words or phrases in its text
	Pattern []string     `yaml:"pattern"` // card, iban, or an expression (RE2) between slashes
	Larger  setting.Size `yaml:"larger"`  // more bytes than this
	Upload  []string     `yaml:"upload"`  // media type of it, or of a file in it: as declared, or as it looks
	File    []string     `yaml:"file"`    // name of a file in it: *.docx
	Hash    []string     `yaml:"hash"`    // MD5, SHA-1 or SHA-256 of it, or of a file in it

	// Conversation is what a refused message means: close (default) ends the
	// conversation, replace puts a notice in its place.
	Conversation string `yaml:"conversation"`

	// To is where a redirect goes. {url}, {host}, {category}, {policy}, {client},
	// {login} and {id} stand for those of the transaction, escaped for a query. A
	// redirect never fits on the host it leads to.
	To      string   `yaml:"to"`
	WarnFor Duration `yaml:"warn-for"` // for this rule, instead of the policy's
	// Answer is how a name server refuses a name by this rule, instead of as
	// the policy says.
	Answer filter.Answer `yaml:"answer"`
}

// MoveFiles implements [setting.Named]: conditions may name a list as "@FILE".
func (r *Rule) MoveFiles(to func(path string) string) {
	for _, values := range [][]string{r.Extension, r.Type, r.Search} {
		for i, v := range values {
			if file, named := strings.CutPrefix(v, "@"); named {
				values[i] = "@" + to(file)
			}
		}
	}
}

// mostPriority is the least urgent priority of signature rules.
const mostPriority = 4

// signatures returns the categories that signature, priority and obey stand for.
func (r *Rule) signatures() (categories []string, err error) {
	for _, sid := range r.Signature {
		categories = append(categories, fmt.Sprintf("signature/%d", sid))
	}
	if r.Priority < 0 || r.Priority > mostPriority {
		return nil, setting.At("priority", fmt.Errorf("%d is not from 1 to %d", r.Priority, mostPriority))
	}
	for p := 1; p <= r.Priority; p++ {
		categories = append(categories, fmt.Sprintf("signature/priority-%d", p))
	}
	if r.Obey {
		categories = append(categories, "signature/drop")
	}
	return categories, nil
}

// Limits of the settings. They bound what one decision can cost.
const (
	maxRules  = 64 * ruleWords // of one policy
	maxChecks = 64
)

// A Duration is a length of time in the settings.
type Duration = setting.Duration

// Patience is a length of time; 0 is the default, Hold has no end.
type Patience time.Duration

// Hold is the patience "hold".
const Hold Patience = -1

func (p *Patience) UnmarshalText(text []byte) error {
	if string(text) == "hold" {
		*p = Hold
		return nil
	}
	var d setting.Duration
	if err := d.UnmarshalText(text); err != nil {
		return err
	}
	if d.Off() {
		return errors.New(`write "hold" for bodies to be held to their end, or a time such as 300ms`)
	}
	*p = Patience(d)
	return nil
}

// duration is the patience as [filter.Verdict] has it.
func (p Patience) duration() time.Duration {
	switch p {
	case 0:
		return 300 * time.Millisecond
	case Hold:
		return 0
	}
	return time.Duration(p)
}

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
