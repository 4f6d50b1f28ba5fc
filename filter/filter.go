// Package filter holds the words every room of the house speaks: a
// [Transaction] is what a client asked, a [Check] looks at it and reports
// [Finding]s, a [Decider] turns the findings into a [Verdict], and the server
// that received the transaction obeys.
//
// Data moves one way. A server (proxy, ICAP, name server) fills in a
// Transaction stage by stage and calls [Decider.Decide] after each; the
// decider asks its checks, cheap ones first, appends what they found to
// [Transaction.Findings] and stores the verdict. When the transaction is over
// the server hands it on as an event. Nothing here does any work.
package filter

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"time"

	"shuultuur/content"
	"shuultuur/message"
)

// A Proto is the protocol a transaction came in by.
type Proto uint8

const (
	HTTP Proto = iota
	TLS        // a CONNECT or a TLS hello that is not decrypted
	DNS
)

func (p Proto) String() string { return [...]string{"http", "tls", "dns"}[p%3] }

// A Stage is a moment at which more is known than before.
type Stage uint8

const (
	Name         Stage = iota // the host is known, and who asks
	Request                   // the request head
	RequestBody               // what the client uploads
	Response                  // the response head
	ResponseBody              // what the origin sent
)

func (s Stage) String() string {
	return [...]string{"name", "request", "request-body", "response", "response-body"}[s%5]
}

// A Client is who asks.
type Client struct {
	Addr   netip.Addr // unmapped: an IPv4 client is an IPv4 address here
	User   string     // "" when not known
	Groups []string
	Source string // how User is known: "address", "basic", "kerberos"; "" when it is not
	Proof  string // what the server shows the client in return, in Proxy-Authenticate; "" is nothing
}

// A Transaction is one question a client put to the gateway and all that is
// known of it so far: a DNS query, a TLS hello, or an HTTP request with its
// response. The server that received it fills it in, stage by stage; checks
// only read it. It belongs to one goroutine at a time and is used again by
// the next request of a connection: who wants to keep a part of it copies it.
type Transaction struct {
	ID     string // ties the event, log lines and the block page together
	Start  time.Time
	Proto  Proto
	Client Client

	// JA4 is the fingerprint of the client's TLS hello where a rule asks for
	// it: "" while it is not known, NoHello where none came.
	JA4 string
	// TLS is what the handshakes of a connection say where a check asks for it,
	// nil while no hello has come.
	TLS *Handshake

	// From Name on.
	Host string // lower case, no port, no final dot; an IPv6 address without brackets
	Port uint16
	// Asked is the name a client asked for where Host is a name or an address
	// that its answer leads to.
	Asked string

	// Type is the type of record that is asked for, for DNS.
	Type uint16
	// Flags is the second word of the query's header, for DNS.
	Flags uint16
	// Terse says that nobody is going to read why: checks leave out the
	// evidence of their findings, which can cost more than finding. Whoever
	// wants to know after all has the transaction judged once more without.
	Terse bool

	// From Request on. URL is scheme, host, port unless it is the scheme's
	// own, path and query, as one would write it in a browser.
	URL     string
	Request *message.Request

	Upload   *content.Body     // at RequestBody
	Searched []byte            // words that a form sent to a search engine asks for, once that has come
	Response *message.Response // from Response on
	Body     *content.Body     // at ResponseBody

	described described

	// Last is the last stage this transaction can come to: Name for a tunnel
	// that is not looked into, Response when nobody wants the body. Rules that
	// need more than that can no longer fit. Servers set it before Decide.
	Last Stage

	Findings []Finding
	Verdict  Verdict
	Edits    []Edit // of the request that goes upstream; read only
	// Flow is what checks keep about the connection of the client. The server
	// that owns the connection sets it; nil keeps nothing.
	Flow *Flow

	Record
}

// A Record is what the server notes about a transaction for its event, besides
// findings and verdict. Every field may be empty.
type Record struct {
	Status   int           // status the client got, 0 when none was sent
	BytesIn  int64         // body bytes from the client
	BytesOut int64         // body bytes to the client
	HeadOut  int64         // bytes of the head to the client, with its status line
	Looked   int64         // wire bytes of the body that checks inspected
	Length   int64         // wire bytes of the whole body, as far as it is known
	Duration time.Duration // from the request's first byte to the answer's last
	Note     string        // what went wrong or was left out, for the operator

	Server netip.Addr // the address that the request was sent to
	Parent bool       // Server is a parent proxy

	Unread       string   // why a part of the body was not inspected: "too-large"; "" when all was
	Cache        string   // what the cache did: "hit", "miss"; "" without one
	Picture      string   // what the classifier of pictures said: "adult 0.93"
	Conversation string   // ID of the transaction that this one is a message of
	Monitored    []Reason // rules with the action monitor that matched
	Signatures   []uint32 // identifiers of the signatures that matched
}

// A described is what the head of a response says about its body.
type described struct {
	content.Head
	of     *message.Response
	status int
}

// Signature is the name of the check of signature rules, whose findings on a
// handshake count for the requests that follow on the connection.
const Signature = "signature"

// A Handshake is what the TLS of a connection says: the client's hello, and the
// origin's answer to ours where the connection is decrypted.
type Handshake struct {
	JA3          string   // of the client's hello, as text: version, ciphers, extensions, groups, point formats
	Protocols    []string // ALPN, in the client's order
	Version      uint16   // what the origin agreed to, as tls.VersionTLS13; before that the client's legacy version
	Certificates [][]byte // DER, the origin's own first; nil before it has answered
}

// NoHello stands for the fingerprint of a connection that is not TLS.
const NoHello = "none"

// Reset makes t ready for the next request of the same connection, keeping its
// storage.
func (t *Transaction) Reset() {
	f, m, s := t.Findings, t.Monitored, t.Signatures
	clear(f)
	clear(m)
	*t = Transaction{Findings: f[:0], Flow: t.Flow, Record: Record{Monitored: m[:0], Signatures: s[:0]}}
}

// Content returns what the head of the response says about its body; that of no
// response says nothing.
func (t *Transaction) Content() *content.Head {
	s := t.Response
	if s == nil {
		return &content.Head{}
	}
	d := &t.described
	if d.of != s || d.status != s.Status {
		*d = described{of: s, status: s.Status}
		for i := range s.Fields {
			d.Add(s.Fields[i].Name, s.Fields[i].Value)
		}
		if t.Request != nil {
			d.SetUse(useOf(t.Request))
		}
	}
	return &d.Head
}

// Sent returns what the head of the request says about its body.
func (t *Transaction) Sent() *content.Head {
	h := &content.Head{}
	h.SetUse(content.Program)
	if t.Request != nil {
		for i := range t.Request.Fields {
			h.Add(t.Request.Fields[i].Name, t.Request.Fields[i].Value)
		}
	}
	return h
}

// useOf says what becomes of the response to a request, as far as a browser says
// it (Fetch Metadata), or before that, what it would like to have most.
func useOf(q *message.Request) content.Use {
	switch dest := q.Get("Sec-Fetch-Dest"); string(dest) {
	case "document", "iframe", "frame", "embed", "object":
		return content.Document
	case "empty", "track":
		return content.Program
	case "style":
		return content.Sheet
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

// ForPicture says whether the client shows the body of the response as a picture.
// Browsers go by its first bytes then, whatever type it is said to have.
func (t *Transaction) ForPicture() bool {
	if t.Request == nil {
		return false
	}
	if dest := t.Request.Get("Sec-Fetch-Dest"); len(dest) > 0 {
		return string(dest) == "image"
	}
	return bytes.HasPrefix(t.Request.Get("Accept"), []byte("image/"))
}

// IsPicture says whether the body of the response is a picture.
func (t *Transaction) IsPicture() bool {
	return strings.HasPrefix(t.Body.Type(), "image/") || t.ForPicture() && strings.HasPrefix(t.Body.Looks(), "image/")
}

// A Category is a word a check may report.
type Category struct {
	Name string
	// Scored says that findings of it carry a score which means nothing
	// without a limit, so that a rule has to say "over".
	Scored bool
	// Locked says that findings of it count while filtering is paused, and that
	// nobody below the owner may change what is done about them.
	Locked bool
}

// A Finding is what a check saw. Findings are facts, not decisions.
type Finding struct {
	Check    string `json:"check"`
	Category string `json:"category"`
	Score    int    `json:"score"`
	// Evidence says what was seen and where it is written, for a person:
	// list entry or phrases with file:line. Several parts are joined by "; ".
	Evidence string `json:"evidence"`
	// Modifier is what an ad blocker's rule wants done besides blocking, as
	// name=value: "redirect=noopjs", "removeparam=fbclid&gclid",
	// "dnsrewrite=NOERROR;A;192.0.2.1".
	Modifier string `json:"modifier,omitempty"`
	// Page is what a scanner of others would have the client get instead, where
	// the settings pass that on; nil is a page of ours.
	Page *Page `json:"-"`
}

// A Page is an answer to a client that others have made.
type Page struct {
	Status   int
	Type     string // media type
	Body     []byte
	Location string // where a status of 3xx leads
}

// Unread is the category that a check reports when it has not inspected a body
// that it wants, or not all of it. The evidence says why. Every check whose
// cost is Heavy may report it. A server that cannot show a body to any check
// reports it with the check Content. Of an archive, a download that nobody reads
// in the browser, it reports UnreadArchive instead.
const (
	Unread        = "unread"
	UnreadArchive = "unread-archive"
	Content       = "content"
)

// A Cost says how much work a check does.
type Cost uint8

const (
	Cheap Cost = iota // look-ups in memory, a few microseconds
	Heavy             // it reads bodies or asks others: only while cheap checks have not decided
)

// A Check looks and reports. It never decides: the same finding may be fatal
// for a pupil and nothing to a teacher. A check is used by many goroutines at
// once and never changes.
type Check interface {
	Name() string
	Cost() Cost
	// Categories lists every category the check can report, so that a rule
	// that names one nobody reports is refused when it is read.
	Categories() []Category
	// Wants says whether Find could report anything at stage s. For a body it
	// is asked when only the head is known; true means "hold the body". While
	// not even the head is known (t.Request or t.Response is nil) it says
	// whether that may still come to be: an earlier rule waits for it.
	Wants(t *Transaction, s Stage) bool
	// Find appends what it sees to dst. An error means the check could not do
	// its work; the policy turns it into the finding "<name>-error".
	Find(ctx context.Context, t *Transaction, s Stage, dst []Finding) ([]Finding, error)
}

// An Action is what a server is to do.
type Action uint8

const (
	Pass     Action = iota // go on
	Allow                  // look no further
	Warn                   // a page the user may click through
	Block                  // refuse
	Redirect               // send elsewhere
)

var actions = [...]string{"pass", "allow", "warn", "block", "redirect"}

func (a Action) String() string { return actions[int(a)%len(actions)] }

// A Show is what a client sees in place of a refused picture.
type Show uint8

const (
	Nothing     Show = iota // an empty picture
	Blurred                 // large patches of its light and colour
	Placeholder             // that something is hidden, and how to see it
)

// A Reason says why.
type Reason struct {
	Policy string
	Rule   string // "" when no rule fitted
	// Finding is the one the rule fitted, or the zero Finding for a rule that
	// looks at the request itself.
	Finding Finding
	// Learned is true when the verdict was remembered, not worked out again.
	Learned bool
}

// A Verdict is what was decided at a stage.
type Verdict struct {
	Action Action
	Reason Reason
	// To is where a Redirect goes (a URL), or for a Warn the signed token
	// with which the client may go on.
	To string
	// After is how long a Block of a limit or a quota lasts, or what passes
	// for a pause only; 0: it does not end by itself.
	After time.Duration
	// Patience is how long a body is held while the verdict is open. Then what
	// was judged passes. 0 holds it to its end.
	Patience time.Duration
	// Disguised says that words are looked for behind disguises too: letters that
	// look like others, letters that stand apart, digits for letters.
	Disguised bool
	// Replace says that a message of a conversation is replaced by a notice,
	// and the conversation goes on.
	Replace bool
	// Show is what stands for a picture that a Block or Warn refuses.
	Show Show
	// Edits change the request before it goes upstream (SafeSearch, tenant
	// restriction). They are shared: read only.
	Edits []Edit
	// Names says how a name server puts the verdict into an answer.
	Names Names
}

// A Balance is what a client has used of a quota of its policy, and what is
// left.
type Balance struct {
	Of    string    `json:"of"`    // categories, or "everything"
	By    string    `json:"by"`    // whose use counts: user, client or policy
	Unit  string    `json:"unit"`  // "minutes" or "bytes"
	Most  int64     `json:"most"`  // in a day
	Used  int64     `json:"used"`  // may be more than Most: what is under way is let finish
	Left  int64     `json:"left"`  // 0 or more
	Known bool      `json:"known"` // Used holds what the other nodes of a fleet have counted
	Until time.Time `json:"until"` // when the day ends, and nothing is used
	Text  string    `json:"text"`  // for a person: "25m left of 1h"
}

// Final says that the transaction ends here, with an answer of ours.
func (v *Verdict) Final() bool { return v.Action >= Warn }

// An EditKind says what an Edit changes.
type EditKind uint8

const (
	SetHeader EditKind = iota // set field Name to Value, replacing all of that name
	SetQuery                  // set query parameter Name to Value
	DropQuery                 // take out query parameters written Name
	DialHost                  // connect to host Value instead; Host and SNI stay
)

// An Edit is one change to a request on its way upstream.
type Edit struct {
	Kind        EditKind
	Name, Value string
}

// A Decider is all that the servers know of policy.
type Decider interface {
	// Wants says whether any check that counts for this client would look at
	// stage s. Asked for a body when its head is known.
	Wants(t *Transaction, s Stage) bool
	// Decide runs the checks of stage s, appends to t.Findings, sets t.Verdict
	// and returns it. For a body it may be called again with more of it.
	Decide(ctx context.Context, t *Transaction, s Stage) Verdict
}

// A Witness looks at requests that a server refuses by itself because they are
// malformed. Nothing is decided about them. A [Decider] whose checks do that is
// one, and so is such a [Check].
type Witness interface {
	// Refused appends to t.Findings what is found in a head that could not be
	// read, or not to its end. Of t only who asks, and when, is known.
	Refused(t *Transaction, head []byte)
}
