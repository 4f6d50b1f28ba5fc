// Package filter defines the terms that all packages share: a [Transaction] is a request of a
// client, a [Check] examines it and reports [Finding]s, a [Decider] turns the findings into a
// [Verdict], and the server that received the transaction carries it out.
//
// Data flows in one direction. A server (proxy, ICAP, name server) fills in a Transaction
// stage by stage and calls [Decider.Decide] after each. The decider runs its checks, cheap
// ones first, appends their findings to [Transaction.Findings] and stores the verdict. When
// the transaction ends, the server passes it on as an event. This package does no work itself.
package filter

import (
	"bytes"
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/content"
	"shuultuur/lib/message"
)

// A Proto is the protocol of a transaction.
type Proto uint8

const (
	HTTP Proto = iota
	TLS        // a CONNECT or a TLS hello that is not decrypted
	DNS
)

func (p Proto) String() string { return [...]string{"http", "tls", "dns"}[p%3] }

// A Stage is a point at which more of a transaction is known.
type Stage uint8

const (
	Name         Stage = iota // host and client are known
	Request                   // the request head
	RequestBody               // the body that the client uploads
	Response                  // the response head
	ResponseBody              // the body that the origin sends
)

func (s Stage) String() string {
	return [...]string{"name", "request", "request-body", "response", "response-body"}[s%5]
}

// A Client is the sender of a request.
type Client struct {
	Addr   netip.Addr // unmapped: IPv4 clients have IPv4 addresses
	User   string     // "" if unknown
	Groups []string
	Source string // how User is known: "address", "basic", "kerberos"; "" if it is not
	// Unknown reports that the groups of User, or who the client is, cannot be had now: Groups
	// has those that are certain. Unknown is not none.
	Unknown bool
	Note    string // what the record says about the identity, for the operator
	Proof   string // the server's proof for the client, in Proxy-Authenticate; "" for none
}

// A Transaction is one request of a client and everything known about it so far: a DNS query,
// a TLS hello, or an HTTP request with its response. The server that received it fills it in,
// stage by stage; checks only read it. It is not safe for concurrent use and is reused for the
// next request of a connection: copy the parts that you want to keep.
type Transaction struct {
	ID     string // ties the event, log lines and the block page together
	Start  time.Time
	Proto  Proto
	Client Client

	// JA4 is the fingerprint of the client's TLS hello if a rule needs it: "" while unknown,
	// NoHello if there was none.
	JA4 string
	// TLS describes the handshakes of a connection if a check needs it, nil before the hello.
	TLS *Handshake
	// Opening is what was said first in the tunnel, for the check [Tunnel].
	Opening Opening

	// From Name on.
	Host string // lower case, no port, no final dot; an IPv6 address without brackets
	Port uint16
	// Asked is the queried name when Host is a name or an address that its answer leads to.
	Asked string

	// Type is the queried record type, for DNS.
	Type uint16
	// Flags is the second word of the query's header, for DNS.
	Flags uint16
	// Terse says that nobody will read the reason: checks omit the evidence of their findings,
	// which can cost more than finding. A caller that needs it has the transaction judged
	// again without Terse.
	Terse bool

	// From Request on. URL is scheme, host, port unless it is the scheme's default, path and
	// query, as in a browser.
	URL     string
	Request *message.Request

	Upload   *content.Body     // at RequestBody
	Searched []byte            // search terms in a form sent to a search engine, once it has arrived
	Response *message.Response // from Response on
	Body     *content.Body     // at ResponseBody

	described described

	// Last is the last stage of this transaction: Name for a tunnel that is not decrypted,
	// Response when no check needs the body. Rules that need a later stage cannot match.
	// Servers set it before Decide.
	Last Stage

	Findings []Finding
	Verdict  Verdict
	Edits    []Edit // edits of the request that goes upstream; read only
	// Flow is the memory of checks about the client's connection. The server that owns the
	// connection sets it; nil means nothing is remembered.
	Flow *Flow

	Record
}

// A Record is the server's notes about a transaction for its event, besides findings and
// verdict. All fields are optional.
type Record struct {
	Status   int           // status sent to the client, 0 if none was
	BytesIn  int64         // body bytes from the client
	BytesOut int64         // body bytes to the client
	HeadOut  int64         // bytes of the head to the client, including its status line
	Looked   int64         // wire bytes of the body that checks inspected
	Length   int64         // wire bytes of the whole body, as far as known
	Duration time.Duration // from the first byte of the request to the last of the response
	Note     string        // errors and omissions, for the operator
	Minutes  Minutes       // in which it was used, if the server knows; see [Transaction.Used]
	Charged  int64         // the bytes that were counted while it went on, for what was found until then:
	Followed int           // so many of Findings

	Server netip.Addr // the address to which the request was sent
	Parent bool       // Server is a parent proxy

	Unread       string   // why a part of the body was not inspected: "too-large"; "" if all was
	Cache        string   // what the cache did: "hit", "miss"; "" without a cache
	Picture      string   // result of the picture classifier: "adult 0.93"
	Conversation string   // ID of the transaction to which this message belongs
	Monitored    []Reason // matching rules with the action monitor
	Signatures   []uint32 // identifiers of matching signatures
}

// A described is the description of the body in the head of a response, and what was found before.
type described struct {
	content.Head
	of     *message.Response
	status int
	memo   *Memo
}

// Signature is the name of the check of signature rules, whose findings on a handshake also
// apply to later requests of the connection.
const Signature = "signature"

// Service is the name of the check of well-known services. Rules name its categories by the key
// service.
const Service = "service"

// Tunnel is the name of the check of what is said first in a tunnel.
const Tunnel = "tunnel"

// An Opening is what is said first in a tunnel.
type Opening struct {
	Kind string // of package opening; "" while it is unknown, or outside tunnels
	Says string // what it is, for people
	// Awaited says that the server will learn it, and have the tunnel judged again: until then, rules
	// about it are undecided.
	Awaited bool
}

// A Handshake describes the TLS of a connection: the client's hello, and the origin's answer
// to ours if the connection is decrypted.
type Handshake struct {
	JA3          string   // of the client's hello, as text: version, ciphers, extensions, groups, point formats
	Protocols    []string // ALPN, in the client's order
	Version      uint16   // the version agreed with the origin, as tls.VersionTLS13; before that the client's legacy version
	Certificates [][]byte // DER, the origin's own first; nil before it has answered
}

// NoHello is the fingerprint of a connection without TLS.
const NoHello = "none"

// Reset prepares t for the next request of the connection, and keeps its memory.
func (t *Transaction) Reset() {
	f, m, s, flow := t.Findings, t.Monitored, t.Signatures, t.Flow
	clear(f)
	clear(m)
	*t = Transaction{}
	t.Findings, t.Monitored, t.Signatures, t.Flow = f[:0], m[:0], s[:0], flow
}

// Content returns the description of the body in the head of the response; empty
// without a response.
func (t *Transaction) Content() *content.Head {
	s := t.Response
	if s == nil {
		return &content.Head{}
	}
	d := &t.described
	if d.of != s || d.status != s.Status {
		*d = described{of: s, status: s.Status, memo: d.memo}
		for i := range s.Fields {
			d.Add(s.Fields[i].Name, s.Fields[i].Value)
		}
		if t.Request != nil {
			d.SetUse(useOf(t.Request))
		}
	}
	return &d.Head
}

// Sent returns the description of the body in the head of the request.
func (t *Transaction) Sent() *content.Head {
	h := &content.Head{}
	h.SetUse(content.Program)
	h.Claim()
	if t.Request != nil {
		for i := range t.Request.Fields {
			h.Add(t.Request.Fields[i].Name, t.Request.Fields[i].Value)
		}
	}
	return h
}

// useOf returns how the client will use the response: as the browser says (Fetch Metadata), or
// else by the type that it prefers.
func useOf(q *message.Request) content.Use {
	switch dest := q.Get("Sec-Fetch-Dest"); string(dest) {
	case "document", "iframe", "frame", "embed", "object":
		return content.Document
	case "empty", "track":
		return content.Program
	case "style":
		return content.Sheet
	case "script":
		if target := bytes.ToLower(q.Target); bytes.Contains(target, []byte("callback=")) || bytes.Contains(target, []byte("jsonp")) {
			return content.Unsaid // data for a program, not a picture
		}
	case "":
		switch accept := q.Get("Accept"); {
		case bytes.HasPrefix(accept, []byte("text/html")):
			return content.Document
		case bytes.HasPrefix(accept, []byte("image/")):
			return content.Embedded
		case bytes.HasPrefix(accept, []byte("text/css")):
			return content.Sheet
		}
		return content.Unsaid
	}
	return content.Embedded
}

// ForPicture reports whether the client shows the body of the response as a picture. Then
// browsers decide by its first bytes, whatever type the head names.
func (t *Transaction) ForPicture() bool {
	if t.Request == nil {
		return false
	}
	if dest := t.Request.Get("Sec-Fetch-Dest"); len(dest) > 0 {
		return string(dest) == "image"
	}
	return bytes.HasPrefix(t.Request.Get("Accept"), []byte("image/"))
}

// IsPicture reports whether the body of the response is a picture.
func (t *Transaction) IsPicture() bool {
	return strings.HasPrefix(t.Body.Type(), "image/") || t.ForPicture() && strings.HasPrefix(t.Body.SniffedType(), "image/")
}

// A Category is a kind of finding that a check can report.
type Category struct {
	Name string
	// Scored says that findings carry a score, which means nothing without a limit, so a rule
	// must give "over".
	Scored bool
	// Locked says that findings are refused even while filtering is paused, and that only the
	// owner may change their treatment.
	Locked bool
	// Missing names the list that it is of and that has not been fetched yet: until then, that it is not
	// found says nothing.
	Missing string
}

// A Finding is a result of a check. Findings are facts, not decisions.
type Finding struct {
	Check    string `json:"check"`
	Category string `json:"category"`
	Score    int    `json:"score"`
	// Evidence says what was found and where it is written, for people: list entry or phrases
	// with file:line. Several parts are joined by "; ".
	Evidence string `json:"evidence"`
	// Modifier is the effect of an ad blocker's rule besides blocking, as name=value:
	// "redirect=noopjs", "removeparam=fbclid&gclid", "dnsrewrite=NOERROR;A;192.0.2.1".
	Modifier string `json:"modifier,omitempty"`
	// Wrapped says that it is about an address inside the one that is asked. It may be a reason to
	// refuse, and never one to let pass.
	Wrapped bool `json:"wrapped,omitempty"`
	// Page is the page that an external scanner would send to the client, if the settings pass
	// that on; nil means our own page.
	Page *Page `json:"-"`
}

// A Page is a response made by an external scanner.
type Page struct {
	Status   int
	Type     string // media type
	Body     []byte
	Location string // target of a redirect (status 3xx)
}

// Unread is the category that a check reports when it could not inspect a body that it wants,
// or only a part of it. The evidence says why. Every check whose cost is Heavy may report it.
// A server that cannot show a body to any check reports it with the check Content. For an
// archive, which no browser displays, it reports UnreadArchive instead.
//
// Four reasons have names of their own, because people answer them differently. A rule that names
// Unread means these, too; one that names UnreadOther means the rest.
const (
	Unread          = "unread"
	UnreadLarge     = "unread-large"     // the part that was read is clean so far
	UnreadEncrypted = "unread-encrypted" // a document with a password
	UnreadDamaged   = "unread-damaged"   // it broke off, or is no document of its kind
	UnreadBomb      = "unread-bomb"      // it grows too much when decoded
	UnreadOther     = "unread-other"     // in rules: Unread alone
	UnreadArchive   = "unread-archive"
	Content         = "content"
)

// UnreadReasons are the categories that a rule about Unread means besides.
var UnreadReasons = [...]string{UnreadLarge, UnreadEncrypted, UnreadDamaged, UnreadBomb}

// UnreadBecause returns the category of a body that was not inspected for a reason.
func UnreadBecause(why content.Reason, archive bool) string {
	switch {
	case archive:
		return UnreadArchive
	case why == content.TooLarge:
		return UnreadLarge
	case why == content.Encrypted:
		return UnreadEncrypted
	case why == content.Cut:
		return UnreadDamaged
	case why == content.Bomb:
		return UnreadBomb
	}
	return Unread
}

// IsUnread reports whether a category says that a body was not inspected.
func IsUnread(category string) bool {
	return category == Unread || category == UnreadArchive || slices.Contains(UnreadReasons[:], category)
}

// A Cost is the amount of work of a check.
type Cost uint8

const (
	Cheap Cost = iota // look-ups in memory, a few microseconds
	Heavy             // reads bodies or queries other servers: runs only if cheap checks have not decided
)

// A Check examines and reports. It never decides: the same finding may be fatal for a pupil
// and irrelevant for a teacher. A check is immutable and safe for concurrent use.
type Check interface {
	Name() string
	Cost() Cost
	// Categories lists every category that the check can report, so that a rule with an unknown
	// one is refused when it is read.
	Categories() []Category
	// Wants reports whether Find could report anything at stage s. For a body it is called when
	// only the head is known; true means "hold the body". While not even the head is known
	// (t.Request or t.Response is nil), it reports whether that is still possible, because an
	// earlier rule waits for it.
	Wants(t *Transaction, s Stage) bool
	// Find appends findings to dst. An error means that the check failed; the policy turns it
	// into the finding "<name>-error".
	Find(ctx context.Context, t *Transaction, s Stage, dst []Finding) ([]Finding, error)
}

// A Contextual check may find something else in the same body under the same URL: its findings
// depend on the request too, or on earlier transactions, or finding has side effects.
type Contextual interface {
	Check
	Contextual()
}

// A Changing check asks others, whose answers may change although no setting and no file has
// changed.
type Changing interface {
	Check
	// Lifetime returns how long a verdict that follows from its findings may be kept. limited is
	// false if that is as long as settings and files stay the same.
	Lifetime() (d time.Duration, limited bool)
}

// An Action is the action that a server has to take.
type Action uint8

const (
	Pass     Action = iota // continue
	Allow                  // continue without further checks
	Warn                   // a page the user may click through
	Block                  // refuse
	Redirect               // send elsewhere
)

var actions = [...]string{"pass", "allow", "warn", "block", "redirect"}

func (a Action) String() string { return actions[int(a)%len(actions)] }

// A Show is the replacement of a refused picture.
type Show uint8

const (
	Nothing     Show = iota // an empty picture
	Blurred                 // large patches of its brightness and colour
	Placeholder             // a note that something is hidden, and how to see it
)

// A Reason says why a verdict was reached.
type Reason struct {
	Policy string
	Rule   string // "" if no rule matched
	// Finding is the one that the rule matched, or the zero Finding for a rule about the request
	// itself.
	Finding Finding
	// Learned says that the verdict was remembered.
	Learned bool
	// Hours says that the rule holds at certain hours only.
	Hours bool
}

// A Verdict is the decision at a stage.
type Verdict struct {
	Action Action
	Reason Reason
	// Text is what the rule tells whom it refuses, instead of the reason; "" if nothing.
	Text string
	// To is the target of a Redirect (a URL), or for a Warn the signed token with which the
	// client may continue.
	To string
	// After is how long a Block of a limit or a quota lasts, or how long a pause lets the
	// request pass; 0: no end.
	After time.Duration
	// Holds is how long a verdict on a query for a name holds for sure: until a schedule, a quota or a
	// day may change it; 0: nothing is known to change it.
	Holds time.Duration
	// Patience is how long a body is held while the verdict is undecided. Then the judged part
	// passes. 0 holds it to its end.
	Patience time.Duration
	// Trickle is how often a client gets a byte of a body that waits for its verdict, 0 for never.
	Trickle time.Duration
	// Disguised makes checks find words in disguise too: lookalike letters, spaced letters,
	// digits for letters.
	Disguised bool
	// Packages makes checks count the words in software packages, too.
	Packages bool
	// Replace says that a notice replaces a message of a conversation, which continues.
	Replace bool
	// Show is the replacement of a picture that a Block or Warn refuses.
	Show Show
	// Edits change the request before it goes upstream (SafeSearch, tenant
	// restriction). They are shared: read only.
	Edits []Edit
	// Names says how a name server answers by the verdict.
	Names Names
}

// A Balance is a client's use of a quota, and the remainder.
type Balance struct {
	Of    string    `json:"of"`    // categories, or "everything"
	By    string    `json:"by"`    // whose use counts: user, client or policy
	Unit  string    `json:"unit"`  // "minutes" or "bytes"
	Most  int64     `json:"most"`  // in a day
	Used  int64     `json:"used"`  // may exceed Most: requests in progress may finish
	Left  int64     `json:"left"`  // 0 or more
	Known bool      `json:"known"` // Used includes the counts of the other nodes of a fleet
	Until time.Time `json:"until"` // the end of the day, when use is reset
	Text  string    `json:"text"`  // for a person: "25m left of 1h"
	// Names says that the minutes are those in which a name was asked for: of a device that sends no
	// requests here, what it does with a name that it remembers is not seen.
	Names bool `json:"names,omitempty"`
}

// Final reports that the transaction ends here, with our own answer.
func (v *Verdict) Final() bool { return v.Action >= Warn }

// An EditKind is the kind of an Edit.
type EditKind uint8

const (
	SetHeader EditKind = iota // set field Name to Value, replacing all of that name
	SetQuery                  // set query parameter Name to Value
	DropQuery                 // remove query parameters written Name
	DialHost                  // connect to host Value instead; Host and SNI stay
)

// An Edit is one change to a request on its way upstream.
type Edit struct {
	Kind        EditKind
	Name, Value string
}

// A Decider is the servers' view of the policy.
type Decider interface {
	// Wants reports whether any relevant check for this client examines stage s. For a body,
	// call it when its head is known.
	Wants(t *Transaction, s Stage) bool
	// Decide runs the checks of stage s, appends to t.Findings and sets t.Verdict. For a body it
	// may be called again as more of it arrives.
	Decide(ctx context.Context, t *Transaction, s Stage)
}

// A Witness examines malformed requests that a server refuses by itself. Nothing is decided
// about them. A [Decider] whose checks do that is one, and so is such a [Check].
type Witness interface {
	// SeeRefused appends to t.Findings the findings in a head that is malformed or incomplete,
	// or in a DNS message that the name server answers by itself. Only client, protocol and
	// time of t are known.
	SeeRefused(t *Transaction, head []byte)
}
