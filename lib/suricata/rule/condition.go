package rule

// A Condition concerns the connection, the transaction or the packet as a whole: *Flow, *Bit,
// *Int, *Var, *Integer, *Event, *Threshold, *Word, *Dataset of an address, *Lua without a
// buffer.
type Condition interface{}

// Flow is a condition on the connection.
type Flow struct {
	Direction      Direction // 0 for either
	Established    bool
	NotEstablished bool
	OnlyStream     bool
	NoStream       bool
	OnlyFrag       bool
	NoFrag         bool
	Stateless      bool
}

// A Bit is one of flowbits, hostbits and xbits.
type Bit struct {
	Kind    string // "flow", "host", "x"
	Command string // set unset toggle isset isnotset
	Names   []string
	Track   string // ip_src ip_dst ip_pair tx; src dst both
	Expire  int    // seconds; 0 for as long as the host is remembered
}

// Sets reports whether the bit is changed rather than tested.
func (b *Bit) Sets() bool {
	return b.Command == "set" || b.Command == "unset" || b.Command == "toggle"
}

// Int is flowint.
type Int struct {
	Name, Op string // + - = == != < > <= >= isset isnotset notset
	Value    uint32
	Var      string // name of the variable that is the other operand
}

// Sets reports whether the number is changed.
func (i *Int) Sets() bool { return i.Op == "+" || i.Op == "-" || i.Op == "=" }

// A Var is flowvar or pktvar: a string captured by an earlier match.
type Var struct {
	Scope, Name string
	Value       []byte
	Negated     bool
}

// An Integer is a keyword that compares a number of the message, connection or packet. Index
// selects which of several elements must match: "" for any, "all", "all1", "nb" (the number of
// matching ones, by Count), or a position.
type Integer struct {
	Keyword string
	Compare
	Index    string
	Position int
	Count    Compare
	Absent   bool
	OrAbsent bool
}

// An Event is one of app-layer-event, stream-event and decode-event.
type Event struct {
	Kind, Name string
	Negated    bool
}

// A Word is a keyword with words as its value, which the engine evaluates by name.
type Word struct {
	Keyword string
	Value   string
	Negated bool
}

// A Threshold limits alerts or counts matches.
type Threshold struct {
	Type       string // limit threshold both backoff detection_filter rate_filter suppress
	Track      string // by_src by_dst by_both by_rule by_flow
	Count      int
	Seconds    int
	Multiplier int
	UniqueOn   string
	NewAction  string // of rate_filter
	Timeout    int
	Addresses  string // of suppress
}
