// Package policy decides: it runs the checks, and the rules of the client's policy turn their
// findings into a verdict.
//
// [New] reads the settings once and compiles them into an [Engine] that never changes. For a
// transaction the engine selects the first policy that covers the client: its networks, users,
// groups and schedule must all match, if given. It runs the checks whose categories a rule of
// that policy names, cheap ones first, and tests the rules in order. The first rule that
// matches wins. If none matches, the transaction passes.
//
// A rule matches when one of its categories was found, none of its unless categories was, and
// each of its conditions on the request and response holds. Stages follow one another, so a
// rule may be undecided: a check that could report one of its categories wants a later stage,
// or a condition needs a later head.
//
// Order is kept across stages: while an earlier rule is undecided, a later rule that matches
// has to wait. There is one exception, for speed. A rule that refuses (block, warn, redirect)
// does not wait for undecided rules that block, because in either case the client does not get
// the page. Then the reason given is the rule that was certain first. At the transaction's
// last stage no rule is undecided.
//
// The lists of e2guardian translate as follows. An exception is an allow rule in front (pass,
// look no further). A grey list is a category in unless of the rules for the ban lists: they
// do not match, but content is still scanned. A semi-exception is the same with more rules
// that have this unless.
package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/policy/preset"
	"shuultuur/policy/schedule"
)

// Config holds the policies in order: the first that covers a client applies.
type Config []Policy

// A Policy decides on the traffic of some clients.
type Policy struct {
	Name string `yaml:"name"`
	// Base is the name of a policy that this one builds on: what it does not say itself is as in the
	// base, and the rules of the base follow its own.
	Base string `yaml:"base"`

	// Whom it covers. A key that is not given covers everybody.
	Networks []Network `yaml:"networks" names:"people"`
	Users    []string  `yaml:"users" names:"people"`  // in any case of letters
	Groups   []string  `yaml:"groups" names:"people"` // one of the client's groups suffices
	// Unknown covers clients whose groups cannot be had now, such as while a directory does not
	// answer, too. Without a policy that does, the strictest of those that may be theirs applies.
	Unknown  bool     `yaml:"unknown"`
	Schedule Schedule `yaml:"schedule"`

	Rules []Rule `yaml:"rules"` // the first that matches decides

	// Decrypt decrypts the TLS connections of these clients. A host that an allow rule lets
	// through by its name stays encrypted. A last rule, "certificate", then blocks origins whose
	// certificate has a fault that no other rule deals with.
	Decrypt bool `yaml:"decrypt"`
	// Store lets the cache store the responses in these clients' decrypted connections, if they
	// are public. Without it, such content is never stored, nor served from the store.
	Store bool `yaml:"store"`
	// Hide changes pages as the lists of ad blockers say: a style sheet hides elements,
	// scriptlets run, response headers are added.
	Hide bool `yaml:"hide"`
	// Disguised makes checks also find listed words in disguise: lookalike letters, spaced
	// letters, digits for letters.
	Disguised bool `yaml:"disguised"`
	// Archives is "text" to read the words in software packages, too (wheels, jars, crates, modules
	// of Go): source code is full of words that mean something else there.
	Archives string `yaml:"archives"`

	// Patience is how long a body is held while its verdict is undecided. After that, the
	// judged part passes, piece by piece. "hold" waits for the end. Default: 300ms.
	Patience Patience `yaml:"patience"`
	// Trickle is how often a byte of a file is sent to a client that is no browser while a scanner
	// looks at the file, so that the client does not give up; 1s or more. Default: never.
	Trickle Duration `yaml:"trickle"`

	Limits []Limit `yaml:"limits"` // on requests and on queries
	Quotas []Quota `yaml:"quotas"` // per day

	Learn      Learn    `yaml:"learn"`
	WarnFor    Duration `yaml:"warn-for"`     // how long a click on a warn page is valid; default 30m
	WarnOnLoss OnLoss   `yaml:"warn-on-loss"` // for a click whose token may have been used before
	OnError    OnError  `yaml:"on-error"`     // what the failure of a check means for rules that name its categories
	// UntilLoaded is what rules make of lists that have not been fetched yet.
	UntilLoaded UntilLoaded `yaml:"until-loaded"`
	SafeSearch  bool        `yaml:"safesearch"` // makes search engines filter their results
	YouTube     string      `yaml:"youtube"`    // off, moderate or strict
	Tenants     Tenants     `yaml:"tenants"`
	DNS         DNS         `yaml:"dns"` // how the name server answers these clients

	Expect setting.OneOrMore[Expectation] `yaml:"expect"` // required verdicts; checked at each save
}

// DNS says how a name server treats the clients of a policy.
type DNS struct {
	Answer filter.Answer `yaml:"answer"`  // how to refuse a name; overrides the name server's settings
	Error  string        `yaml:"error"`   // the Extended DNS Error of a refusal: blocked (default), censored or filtered
	Drop   []string      `yaml:"drop"`    // from HTTPS and SVCB records: h3, ech
	OwnDNS bool          `yaml:"own-dns"` // let browsers use their own encrypted DNS
}

// A Rule is an action and when to take it. All keys must match, and in a list one element. A
// rule without conditions always matches.
type Rule struct {
	Name   string `yaml:"name"`
	Action string `yaml:"action"` // allow, monitor, warn, block, redirect, or for pictures blur or placeholder
	// Off switches the rule off, or without an action the rule of this name in the policy's base.
	Off bool `yaml:"off"`
	// From is the name of the policy whose rule it is, if that is a base: see [Config.Complete].
	From string `yaml:"-"`

	// Category names findings of checks: "adult" from any check, "phrase/adult" from one. Case
	// does not matter. "virus-error" means that the check virus failed; see OnError.
	Category []string `yaml:"category"`
	// Over is the limit for scored categories, which match with a greater score. Other
	// categories ignore it.
	Over *int `yaml:"over"`
	// Service names well-known services, such as youtube. They abbreviate categories of the check
	// "service".
	Service []string `yaml:"service"`
	// Signature selects signature rules by number, Priority those of this priority and more
	// urgent ones (1 is the most urgent), and Obey those whose action is drop or reject. They
	// abbreviate categories of the check "signature".
	Signature []uint32 `yaml:"signature"`
	Priority  int      `yaml:"priority"`
	Obey      bool     `yaml:"obey"`
	// Wrapped says whether the categories are those of addresses inside the one that is asked, as
	// translators and redirects have them (checks.category.deep): true for these alone, false for
	// none of them. Without it they count, except in allow rules.
	Wrapped *bool `yaml:"wrapped"`
	// Unless are categories that keep the rule from matching.
	Unless []string `yaml:"unless"`

	Host []string `yaml:"host"` // "example.com" includes subdomains; "*" is any host
	// Except are hosts, as in Host, that keep the rule from matching.
	Except []string `yaml:"except"`
	URL    []string `yaml:"url"` // RE2, ignoring case, on the decoded host, path and query
	// FullURL are expressions on the URL as it was sent, with scheme, port and case; of a tunnel, host
	// and port. Of those that begin with "!" none may match, of the others one has to.
	FullURL   []string          `yaml:"full-url"`
	Extension []string          `yaml:"extension"` // of the path, or of the name in Content-Disposition
	Type      []string          `yaml:"type"`      // media type of the response: "text/html", "image/*"
	Header    map[string]string `yaml:"header"`    // field of the request to RE2, ignoring case; all must match
	JA4       []string          `yaml:"ja4"`       // fingerprint of the TLS hello
	Agent     []string          `yaml:"agent"`     // RE2, ignoring case, on User-Agent
	Referer   []string          `yaml:"referer"`   // host of the referring page, as in Host; the client can forge it
	Method    []string          `yaml:"method"`    // "CONNECT" is a tunnel; those that begin with "!" must not be it
	Port      []string          `yaml:"port"`      // of the host: "8080", "8000-8100"
	Scheme    []string          `yaml:"scheme"`    // of the URL: "http", "https", "ftp"; tunnels have none
	Search    []string          `yaml:"search"`    // words or phrases in a search at a known engine
	// Query are DNS record types ("AAAA", "HTTPS", "TYPE65"): the rule matches only queries of
	// these types.
	Query    []string `yaml:"query"`
	Schedule Schedule `yaml:"schedule"`

	// Conditions on the body of the request: a form, an upload, client messages of a
	// conversation.
	Words   []string     `yaml:"words"`   // words or phrases in its text
	Pattern []string     `yaml:"pattern"` // card, iban, or an expression (RE2) between slashes
	Larger  setting.Size `yaml:"larger"`  // more bytes than this
	Upload  []string     `yaml:"upload"`  // media type of the body or of a file in it, declared or detected
	File    []string     `yaml:"file"`    // name of a file in it: *.docx
	Hash    []string     `yaml:"hash"`    // MD5, SHA-1 or SHA-256 of it, or of a file in it

	// Conversation says how to refuse a message: close (default) ends the conversation, replace
	// puts a notice in its place.
	Conversation string `yaml:"conversation"`

	// To is the destination of a redirect. {url}, {host}, {category}, {policy}, {client},
	// {login} and {id} stand for values of the transaction, escaped for a query. A redirect
	// never matches on its own destination host.
	To string `yaml:"to"`
	// Text is what people read on the page of a refusal by this rule, instead of the reason.
	Text    string   `yaml:"text"`
	WarnFor Duration `yaml:"warn-for"` // for this rule; overrides the policy's
	OnError OnError  `yaml:"on-error"` // for this rule; overrides the policy's
	// Answer is how the name server refuses a name by this rule; it overrides the policy's.
	Answer filter.Answer `yaml:"answer"`
}

// MoveFiles implements [setting.FileNamer]: conditions may name a list as "@FILE".
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

// signatures returns the categories for signature, priority and obey.
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

// Limits of the settings. They bound the cost of a decision.
const (
	maxRules  = 64 * ruleWords // per policy
	maxChecks = 64
	maxText   = 1000 // of a rule, in bytes
)

// A Duration is a length of time in the settings.
type Duration = setting.Duration

// Patience is a duration; 0 is the default, Hold has no end.
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
		return errors.New(`write "hold" to hold bodies to their end, or a time such as 300ms`)
	}
	*p = Patience(d)
	return nil
}

// duration converts the patience for [filter.Verdict].
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
type Network = setting.Network

// Types of the settings of a policy.
type (
	Schedule  = schedule.Schedule
	Window    = schedule.Window
	Tenants   = preset.Tenants
	Microsoft = preset.Microsoft
	Slack     = preset.Slack
)

// Learn says how long verdicts on bodies are remembered; zero means not at all.
type Learn struct {
	For Duration `yaml:"for"`
}

// UnmarshalYAML reads a mapping with "for", just the duration, or on or off.
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

var errNoPolicies = errors.New("there is no policy, so nobody could pass; write at least one")

const ruleWords = 8
