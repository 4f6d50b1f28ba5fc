// Package rule parses Suricata's rule language.
//
// [Parser.Read] splits a file into lines, and [Parser.Parse] parses a line to a [Rule]: the
// header, properties of the rule (msg, sid, classtype), the conditions that concern the
// connection or the message as a whole, and one [Group] for each buffer with its matches in
// their order. Package engine compiles rules and inspects messages with them.
package rule

import "fmt"

// An Action is the first word of a rule.
type Action uint8

// The actions, in the order in which Suricata runs rules.
const (
	Pass Action = iota
	Drop
	Reject
	RejectDst
	RejectBoth
	Alert
	Config // changes the log of Suricata; never alerts
)

func (a Action) String() string {
	return [...]string{"pass", "drop", "reject", "rejectdst", "rejectboth", "alert", "config"}[a%7]
}

// A Direction is the direction of the bytes that a rule inspects.
type Direction uint8

// The directions; Both is their union.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// Index returns 0 for bytes to the server, and 1 for those to the client.
func (d Direction) Index() int { return int(d >> 1) }

// A Rule is one line of a rule file.
type Rule struct {
	File string
	Line int
	// Source is the archive or fetched source that contains File, "" for a file on the disk.
	Source string

	*Header // rules with equal headers share one
	About

	Groups     []*Group    // matches on buffers, in the order of the rule
	Conditions []Condition // conditions that do not concern one buffer
	NoAlert    bool
	Bypass     bool // the connection is not inspected after a match
	Alerts     bool // a pass rule that also alerts
	*Rare
}

// Rare has the properties that few rules have. Rules without any share one.
type Rare struct {
	Vars    []string // variables of byte_extract and byte_math, by slot
	Packet  []string // keywords that need packets, in the order of the rule
	Foreign []string // keywords of unsupported protocols and services
	Skip    string   // why the rule is not loaded ("requires"), "" if it is
	Options []Option
}

var noRare Rare

// A Header is the part before the parenthesis.
type Header struct {
	Action   Action
	Proto    string // "http", "tcp"; lower case
	Hook     string // "request_headers" of "http1:request_headers"
	Src, Dst string // addresses as written
	SrcPort  string
	DstPort  string
	Twoway   bool // <>: either side may be the source
	Exchange bool // =>: request and response of one transaction
}

// About has the properties of the rule itself.
type About struct {
	Msg        string
	SID        uint32
	GID        uint32 // default 1
	Rev        uint32
	Class      string
	Priority   int // 0 for that of the class
	References []string
	Metadata   []string // "key value"
	Target     string   // "src_ip" or "dest_ip"
}

// An Option is one keyword of a rule as written.
type Option struct {
	Name  string
	Value string // without quotes; "" if none
	Has   bool   // it has a value
}

// A Group is all matches on one buffer, or on one element of a buffer with several.
type Group struct {
	Buffer     Buffer
	Transforms []Transform
	Matches    []Match
	// Absent says that the buffer must not exist; with OrElse it may exist if the matches
	// succeed.
	Absent, OrElse bool
}

// A Transform changes a buffer before it is inspected.
type Transform struct{ Name, Arg string }

// A Match is a condition on a buffer: *Content, *PCRE, *DataAt, *ByteTest,
// *ByteJump, *ByteExtract, *ByteMath, *Size, *Base64, *Entropy, *Lua, *Dataset.
type Match interface{}

// A Number is a constant, or the variable in slot Var-1.
type Number struct{ N, Var int32 }

// An Operand is a number to compare or calculate with: a constant, or all bits of the
// variable in slot Var-1.
type Operand struct {
	N   int64
	Var int32
}

// Content is a byte string to find.
type Content struct {
	Pattern                                   []byte
	Negated, NoCase, Starts, Ends             bool
	HasOffset, HasDepth, HasDistance, HasWith bool
	Offset, Depth, Distance, Within           Number
	Fast, FastOnly                            bool
	FastOff, FastLen                          uint16 // the part used as the fast pattern; all if FastLen is 0
	RelativeNext                              bool
}

// Relative reports whether the search starts at the end of the previous match.
func (c *Content) Relative() bool { return c.HasDistance || c.HasWith }

// PCRE is a regular expression on bytes.
type PCRE struct {
	Expr         string
	Flags        string
	Negated      bool
	Relative     bool
	RelativeNext bool
	Captures     []Capture
}

// A Capture is the variable for a group of a regular expression.
type Capture struct{ Scope, Name string } // Scope is "flow", "pkt" or "alert"

// DataAt is isdataat.
type DataAt struct {
	At                Number
	Negated, Relative bool
}

// A Reader describes how to read a number from a buffer.
type Reader struct {
	Bytes    Number
	Offset   Number
	Relative bool
	Little   bool
	Text     bool // digits in Base, not bytes
	Base     int
	Mask     uint32
	DCE      bool
}

// ByteTest compares a number in the buffer.
type ByteTest struct {
	Reader
	Op      string // < > <= >= = & ^
	Negated bool
	Value   Operand
}

// ByteJump moves the cursor by a number in the buffer.
type ByteJump struct {
	Reader
	Multiplier, Post   int
	PostVar            int
	Align, Begin, End  bool
	RelativeToPosition bool
}

// ByteExtract stores a number in a variable.
type ByteExtract struct {
	Reader
	Slot       int
	Multiplier uint64
	Align      int
}

// ByteMath computes with a number in the buffer.
type ByteMath struct {
	Reader
	Slot  int
	Op    string
	Value Operand
}

// Size compares the length of the buffer.
type Size struct{ Compare }

// Base64 decodes from the cursor and inspects the result.
type Base64 struct {
	Bytes, Offset int
	Relative      bool
	Inner         []Match
	RFC           string
}

// Entropy compares the Shannon entropy of the buffer in bits per byte.
type Entropy struct {
	Bytes, Offset int
	Op            string
	Value, High   float64
}

// Lua runs a script.
type Lua struct {
	File    string
	Negated bool
}

// Dataset tests or changes a set with the value of the buffer.
type Dataset struct {
	Command    string // isset, isnotset, set, unset
	Name, Type string
	Load, Save string
	Format     string // "", "csv", "json", "ndjson"
	ValueKey   string
	ArrayKey   string
	Enrichment string
	RemoveKey  bool
	Subdomain  bool
	Rep        *Compare // datarep: comparison of the reputation
	IsRep      bool
	MemoryCap  int64
	HashSize   int
}

// A Compare is a condition on an integer.
type Compare struct {
	Op   string // = != < > <= >= <> (between, exclusive) in (between, inclusive) & !&
	A, B uint64
}

// Match reports whether n satisfies the condition.
func (c *Compare) Match(n uint64) bool {
	switch c.Op {
	case "=":
		return n == c.A
	case "!=":
		return n != c.A
	case "<":
		return n < c.A
	case ">":
		return n > c.A
	case "<=":
		return n <= c.A
	case ">=":
		return n >= c.A
	case "<>":
		return n > c.A && n < c.B
	case "!<>":
		return n <= c.A || n >= c.B
	case "&":
		return n&c.A == c.B
	case "!&":
		return n&c.A != c.B
	case "bits":
		return n&c.A != 0
	}
	return false
}

// An Error is a mistake in a rule and how to correct it.
type Error struct {
	File    string
	Line    int
	Keyword string // "" if the whole line is wrong
	Err     error
}

func (e *Error) Error() string {
	at := fmt.Sprintf("%s:%d: ", e.File, e.Line)
	if e.Keyword != "" {
		at += e.Keyword + ": "
	}
	return at + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }
