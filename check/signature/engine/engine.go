// Package engine tries Suricata's rules on messages, streams and packets.
//
// [New] compiles rules: it selects the fast pattern of each, and makes a prefilter for the
// patterns of each buffer and direction. The owner of a connection keeps a [Flow] for it and a
// [Tx] for each message, and calls [Engine.Inspect] whenever more of the message is known. The
// engine makes the buffers that prefilters search, collects the rules whose pattern occurs,
// tries their matches from left to right, and remembers in the Tx which parts of a rule
// matched. The result is alerts. The package does not decide about traffic.
package engine

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/check/signature/rule"
)

// messageWork limits the inspection of one message in one direction, in all steps together: 50
// ms, in the same units as ruleWork.
const messageWork = 50 * ruleWork

// A Source provides the properties of a message or packet that rules test. Buffers that do not
// exist, or not yet, are absent.
type Source interface {
	// Buffer returns element i of a buffer as one side sent it.
	Buffer(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool)
	// Numbers returns the values for an integer keyword.
	Numbers(dir rule.Direction, keyword string) ([]uint64, bool)
	// Word reports whether a keyword with words matches.
	Word(dir rule.Direction, keyword, value string) bool
	// Event reports whether an anomaly was seen.
	Event(kind, name string) bool
	// Files returns the files that the message carries.
	Files(dir rule.Direction) []*File
}

// A File is a body, or part of a body, that is a file.
type File struct {
	Name     string
	Data     []byte
	Size     int64
	Complete bool
}

// An Alert reports a rule that matched.
type Alert struct {
	*rule.Rule
	Action   rule.Action // after rate_filter
	Priority int
	Class    *Class
	// Context has the values of JSON datasets for the values that matched.
	Context map[string]any
	// Entropy is the measured entropy of the message, by buffer.
	Entropy map[string]float64
	// Silent alerts take effect but are hidden by a threshold.
	Silent bool

	due *occurrence // not nil while thresholds must still be applied
}

// Config are the rules and settings of an engine.
type Config struct {
	Rules   []*rule.Rule
	Vars    map[string]string // address groups, without "$"
	Ports   map[string]string // port groups
	Classes map[string]*Class // classification.config, by name in lower case
	Limits  []*Limit          // threshold.config
	// Previous is the engine that this one replaces, nil for none. The cost of its rules is
	// shown for comparison.
	Previous *Engine
	State    *State                                         // nil for that of Previous, or a new one
	Scripts  func(name string, text []byte) (Script, error) // nil: rules with scripts are refused
	// Beside are files that rules may name and that are not on the disk: members of tarballs,
	// by the names that [rule.Files] gives them.
	Beside map[string][]byte
	// Packets says that there are packets, so that rules for packets are active.
	Packets bool
	// Patience is how often a rule may exceed its limits. Then it is disabled for the life of
	// the engine. 0 disables none.
	Patience int64
	// Trace records how far each rule gets; every rule is then tried on everything.
	Trace bool
	// Prevent makes drop and pass apply to the whole connection, as in Suricata's inline mode.
	Prevent bool
}

// An Engine is a compiled set of rules. The set never changes.
type Engine struct {
	rules    []*compiledRule
	tables   [2][]*table // by direction, of messages: those of heads first
	heads    [2]int      // number of tables of heads
	streams  [2][]*table
	packets  [2][]*table
	always   [2][]int32 // messages
	alwaysP  [2][]int32 // packets and streams
	onStream [2]bool    // some rule inspects the stream
	singles  [2]addressTable
	chains   [][]transform
	classes  map[string]*Class
	limits   map[[2]uint32][]*Limit
	state    *State
	scripts  map[string]Script
	files    []string // files that rules name and that were read
	config   Config
	work     sync.Pool
	counters Counters
	traces   traces
	before   map[[2]uint32]Cost          // cost of rules before the last reload, by gid and sid
	wants    [2][rule.Complete + 1]Proto // by direction and step
	raw      [2]*table                   // of content outside any buffer, if its patterns are also among those of bodies
	scripted []bool                      // by chain: a script takes part
	fields   [1 << 9]atomic.Pointer[fieldHits]
}

// traces record how far rules got.
type traces struct {
	sync.Mutex
	of map[*compiledRule]*Trace
}

// A table is the prefilter of one buffer in one direction.
type table struct {
	buffer rule.Buffer
	chain  int
	at     rule.Progress
	pf     *prefilter
	owners [][]int32
	// anchors are short patterns that can only be at a few positions.
	anchors []anchor
	// streamed says that the rules are tried on the stream, if there is one.
	streamed bool
	// head says that the buffer is part of a head, which is known completely at once.
	head bool
	// fields says that the buffer depends on nothing but the fields of a request.
	fields bool
	// twin is a buffer that usually has the same bytes; its patterns are in this table.
	twin    rule.Buffer
	hasTwin bool
	bytes   counter
	found   counter
}

// New compiles rules. Unusable rules are returned as mistakes.
func New(c Config) (*Engine, []*rule.Error, error) {
	e := &Engine{config: c, classes: c.Classes, state: c.State, scripts: map[string]Script{}, limits: map[[2]uint32][]*Limit{}}
	if c.Previous != nil {
		e.before = c.Previous.costs()
		if e.state == nil {
			e.state = c.Previous.state
		}
	}
	e.config.Previous, e.config.Rules = nil, nil // drop the rules that are not tried
	if e.state == nil {
		e.state = NewState()
	}
	for _, l := range c.Limits {
		k := [2]uint32{l.GID, l.SID}
		if err := l.prepare(c.Vars); err != nil {
			return nil, nil, err
		}
		e.limits[k] = append(e.limits[k], l)
	}
	b := &builder{e: e, vars: c.Vars, ports: c.Ports, addrs: map[string]*addresses{}, psets: map[string]*ports{}, chains: map[string]int{}, loaded: map[string]bool{}}
	var mistakes []*rule.Error
	for n, r := range c.Rules {
		if n%collectRules == collectRules-1 {
			runtime.GC()
		}
		if r.Skip != "" || len(r.Foreign) > 0 {
			continue
		}
		k, err := b.compile(r)
		if err != nil {
			mistakes = append(mistakes, &rule.Error{File: r.File, Line: r.Line, Err: fmt.Errorf("sid %d: %w", r.SID, err)})
			continue
		}
		if k.kinds == onPacket && !c.Packets {
			continue
		}
		e.rules = append(e.rules, k)
	}
	slices.SortStableFunc(e.rules, order)
	e.traces.of = map[*compiledRule]*Trace{}
	e.index()
	e.work.New = func() any { return &work{} }
	return e, mistakes, nil
}

// collectRules is the number of rules after which New runs the garbage collector. Otherwise
// garbage between the compiled rules would keep a third more memory in use.
const collectRules = 2000

// order compares rules by the order in which Suricata runs them: by action, then rules that
// set bits and numbers before those that test them, then by priority.
func order(a, b *compiledRule) int {
	if d := int(a.Action) - int(b.Action); d != 0 {
		return d
	}
	if d := a.rank() - b.rank(); d != 0 {
		return d
	}
	return a.priority - b.priority
}

// rank returns 0 for rules that only set bits and numbers, 1 for those that set and test them,
// 2 for rules without either, 3 for those that only test them.
func (c *compiledRule) rank() int {
	sets, asks := false, false
	for _, x := range c.Conditions {
		switch x := x.(type) {
		case *rule.Bit:
			sets, asks = sets || x.Sets(), asks || !x.Sets()
		case *rule.Int:
			sets, asks = sets || x.Sets(), asks || !x.Sets()
		case *rule.Var:
			asks = true
		}
	}
	for _, g := range c.groups {
		for _, m := range g.matches {
			if p, ok := m.(*expression); ok && len(p.Captures) > 0 {
				sets = true
			}
		}
	}
	switch {
	case sets && !asks:
		return 0
	case sets:
		return 1
	case asks:
		return 3
	}
	return 2
}

// A tableKey identifies a table.
type tableKey struct {
	buffer rule.Buffer
	chain  int
	dir    int
	kind   kind
}

// index makes prefilters for the fast patterns.
func (e *Engine) index() {
	patterns := map[tableKey]map[pattern][]int32{}
	anchors := map[tableKey][]anchor{}
	for n, c := range e.rules {
		e.note(c)
		for d := range 2 {
			dir := rule.Direction(1 << d)
			if c.dirs&dir == 0 {
				continue
			}
			for _, k := range []kind{onMessage, onPacket, onStream} {
				if c.kinds&k == 0 || k == onPacket && !e.config.Packets {
					continue
				}
				if e.config.Trace || c.fast < 0 || c.groups[c.fast].dir&dir == 0 && !c.Exchange {
					e.addUnindexed(k, d, int32(n))
					continue
				}
				g := &c.groups[c.fast]
				if g.dir&dir == 0 {
					continue // the other direction will match
				}
				key := tableKey{g.Buffer, g.chain, d, k}
				switch {
				case k == onPacket:
					key.kind = c.kinds // rules on the stream have their own tables
				case g.outside() && !e.config.Packets:
					key.kind = onStream // made from the message
				}
				if patterns[key] == nil {
					patterns[key] = map[pattern][]int32{}
				}
				if a, ok := c.anchor(); ok {
					a.owner = int32(n)
					anchors[key] = append(anchors[key], a)
					continue
				}
				p := newPattern(c.pattern(), !c.text.NoCase)
				patterns[key][p] = append(patterns[key][p], int32(n))
			}
		}
	}
	e.shareTables(patterns, anchors)
	var body [2]*table
	for key, ps := range patterns {
		t := &table{anchors: anchors[key], buffer: key.buffer, chain: key.chain, at: key.buffer.Info().Progress, streamed: key.kind == onPacket|onStream}
		t.head = e.inHead(key.buffer)
		t.fields = t.head && key.dir == 0 && t.at == rule.Headers && key.buffer != rule.Start && (key.chain == 0 || !e.scripted[key.chain-1])
		var list []pattern
		for p, owners := range ps {
			list = append(list, p)
			t.owners = append(t.owners, owners)
		}
		t.pf = newPrefilter(list)
		if key.buffer == rule.FileData && key.chain == 0 && key.kind == onMessage {
			t.twin, t.hasTwin, body[key.dir] = bodies[key.dir], true, t
		}
		e.onStream[key.dir] = e.onStream[key.dir] || key.kind == onStream
		switch {
		case key.buffer == rule.Payload && key.chain == 0 && !e.config.Packets:
			e.raw[key.dir] = t
		case key.kind == onMessage:
			e.tables[key.dir] = append(e.tables[key.dir], t)
		case key.kind == onStream:
			e.streams[key.dir] = append(e.streams[key.dir], t)
		default:
			e.packets[key.dir] = append(e.packets[key.dir], t)
		}
	}
	for d := range e.tables {
		e.chooseContents(d, body[d])
		slices.SortFunc(e.tables[d], orderTables)
		e.heads[d] = sort.Search(len(e.tables[d]), func(i int) bool { return !e.tables[d][i].head })
	}
}

// orderTables puts tables of heads first.
func orderTables(a, b *table) int {
	if a.head != b.head {
		if a.head {
			return -1
		}
		return 1
	}
	return (int(a.buffer)-int(b.buffer))*1000 + a.chain - b.chain
}

// shareTables merges tables for the same bytes: those of files and bodies, and that of the
// stream if it is made from the message.
func (e *Engine) shareTables(patterns map[tableKey]map[pattern][]int32, anchors map[tableKey][]anchor) {
	for d, twin := range bodies {
		e.guard(d, patterns)
		to := tableKey{rule.FileData, 0, d, onMessage}
		if raw := patterns[tableKey{rule.Payload, 0, d, onStream}]; raw != nil && !e.config.Packets {
			if patterns[to] == nil {
				patterns[to] = map[pattern][]int32{}
			}
			merge(patterns[to], raw)
		}
		from := tableKey{twin, 0, d, onMessage}
		if patterns[from] == nil || patterns[to] == nil {
			continue
		}
		merge(patterns[to], patterns[from])
		anchors[to] = append(anchors[to], anchors[from]...)
		delete(patterns, from)
	}
}

// guard adds a second pattern to the prefilter of bodies for each rule whose fast pattern is
// common in pages. The rule is then not tried if that pattern is absent.
func (e *Engine) guard(d int, patterns map[tableKey]map[pattern][]int32) {
	for _, c := range e.rules {
		if c.fast < 0 {
			continue
		}
		fast := &c.groups[c.fast]
		to := patterns[tableKey{fast.Buffer, fast.chain, d, c.kinds & onMessage}]
		if fast.Buffer == rule.Payload {
			to = patterns[tableKey{fast.Buffer, fast.chain, d, onStream}]
		} else if !inBody(fast, d) {
			continue
		}
		if to == nil {
			continue
		}
		_, guard := c.rarest()
		if guard != nil && len(guard.Pattern) >= gram && rareness(guard.Pattern) >= min(guarding, rareness(c.pattern())+rarer) {
			if p := patternOf(guard); to[p] == nil {
				to[p] = nil // searched for, but not the fast pattern of a rule
			}
		}
	}
}

// required returns a content without which a match cannot hold, nil if there is none.
func required(m rule.Match) *rule.Content {
	switch m := m.(type) {
	case *rule.Content:
		if !m.Negated && len(m.Pattern) > 0 {
			return m
		}
	case *expression:
		if text, folded := m.re.Literal(); !m.Negated && len(text) >= gram-1 {
			return &rule.Content{Pattern: text, NoCase: folded}
		}
	}
	return nil
}

// merge adds the owners of patterns in from to those in to.
func merge(to, from map[pattern][]int32) {
	for p, owners := range from {
		to[p] = append(to[p], owners...)
	}
}

// atLeast is the number of bytes of a body that belong to the beginning of a message: most
// contents that must be at the beginning end there.
const atLeast = 512

// reach returns how many bytes of the body are searched together with the head, at least
// atLeast. The table's patterns and anchors that are not searched for in the body alone end
// within them.
func (t *table) reach() int {
	n := max(t.pf.longest, atLeast)
	for _, a := range t.anchors {
		n = max(n, a.to+len(a.pattern))
	}
	return n
}

// addUnindexed adds a rule without a pattern for a prefilter.
func (e *Engine) addUnindexed(k kind, d int, n int32) {
	e.onStream[d] = e.onStream[d] || k == onStream
	if k == onMessage {
		e.always[d] = append(e.always[d], n)
	} else if c := e.rules[n]; c.single {
		e.singles[d].add(c, n)
	} else if l := e.alwaysP[d]; len(l) == 0 || l[len(l)-1] != n {
		e.alwaysP[d] = append(l, n)
	}
}

// Rules returns the number of active rules.
func (e *Engine) Rules() int { return len(e.rules) }

// State returns the state of the rules.
func (e *Engine) State() *State { return e.state }

// A Tx is one exchange of messages on a connection: a request and its response, a DNS message,
// or a TLS handshake. It belongs to one goroutine at a time.
type Tx struct {
	Flow   *Flow
	Source Source
	App    Proto // HTTP1, HTTP2, TLS, DNS; 0 for none
	L4     Proto
	// Client opened the connection, Server accepted it.
	Client, Server netip.AddrPort
	Now            time.Time
	Packet         Packet // the zero value if there are no packets
	Info           any    // for scripts
	// Unsettled leaves thresholds to the caller, who must call [Engine.Settle] on the alerts
	// in the order in which they count. It must not be used with engines that are
	// [Engine.Serial].
	Unsettled bool
	// Over records the inspections that limits ended. A caller that reports it must clear
	// it.
	Over ExceededLimits

	dir      [2]progress
	pending  []candidate
	measured map[string]float64      // entropy, by buffer
	near     []nearBuffer            // first elements made so far
	slots    [2][rule.Buffers]uint16 // by buffer: index in near of those without transforms, counted from 1
	cache    map[bufferKey]*buffer
	few      []int64            // candidate rules with their directions
	fired    map[int64]struct{} // the same, if there are many
	state    *State
	vars     []uint64
	work     *work // the inspection in progress
}

// maxOver limits the rules that an Over lists.
const maxOver = 8

// ExceededLimits records the inspections that limits ended.
type ExceededLimits struct {
	Rules []uint32 // numbers of rules that exceeded their limit
	// Disabled are the numbers of rules that are disabled because they exceeded their limit
	// too often.
	Disabled []uint32
	Message  bool // the limit of the message was reached before all rules were tried
	// Transform says that a pcrexform was given up, so that rules inspected the original
	// buffer.
	Transform bool
}

// Add adds the inspections that ended elsewhere for the same message.
func (o *ExceededLimits) Add(p ExceededLimits) {
	o.Rules, o.Disabled = append(o.Rules, p.Rules...), append(o.Disabled, p.Disabled...)
	o.Message, o.Transform = o.Message || p.Message, o.Transform || p.Transform
}

// A Packet is the state of the connection at the current packet.
type Packet struct {
	Established bool
	Stream      bool // reassembled, not a single packet
	Fragment    bool
	InStream    bool // the payload became part of the stream, where it is inspected
}

type progress struct {
	at      rule.Progress
	started bool
	scanned []int   // by table: bytes of its buffer that the prefilter has searched
	spent   int     // work of trying rules
	shaped  int     // work of transforms
	over    bool    // the limit of a message was exceeded
	begun   int     // bytes of the beginning that were searched
	stream  []int32 // rules on the stream whose pattern occurs
}

// A candidate is a rule that may match, or that partly matches.
type candidate struct {
	rule int32
	dir  rule.Direction
	done uint64 // bits of groups that matched
	dead bool
	// context has the values of datasets for groups that matched.
	context map[string]any
}

type bufferKey struct {
	dir    rule.Direction
	buffer rule.Buffer
	elem   int
	chain  int
}

type buffer struct {
	data []byte
	ok   bool
	at   rule.Progress
}

// A nearBuffer is the first element of a buffer.
type nearBuffer struct {
	key uint32
	buffer
}

// nearBuffers is the number of buffers that most messages need for all public rules.
const nearBuffers = 64

// Buffer returns element i of a buffer as one side sent it, without transforms, for a running
// script. The bytes belong to the message: do not change or keep them.
func (tx *Tx) Buffer(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	if tx.work == nil {
		return tx.Source.Buffer(dir, b, i)
	}
	return tx.work.raw(dir, b, i)
}

// cached returns the cache entry of a buffer, and whether it existed.
func (tx *Tx) cached(k bufferKey) (*buffer, bool) {
	if k.elem > 0 {
		x, ok := tx.cache[k]
		if !ok {
			if tx.cache == nil {
				tx.cache = map[bufferKey]*buffer{}
			}
			x = &buffer{}
			tx.cache[k] = x
		}
		return x, ok
	}
	key, plain := uint32(k.chain)<<16|uint32(k.buffer)<<8|uint32(k.dir), &tx.slots[k.dir>>1][k.buffer]
	if k.chain == 0 && *plain > 0 {
		return &tx.near[*plain-1].buffer, true
	}
	for i := range tx.near {
		if (k.chain > 0 || i >= math.MaxUint16) && tx.near[i].key == key {
			return &tx.near[i].buffer, true
		}
	}
	if tx.near == nil {
		tx.near = nears.Get().(*[nearBuffers]nearBuffer)[:0]
	}
	tx.near = append(tx.near, nearBuffer{key: key})
	if n := len(tx.near); k.chain == 0 && n <= math.MaxUint16 {
		*plain = uint16(n)
	}
	return &tx.near[len(tx.near)-1].buffer, false
}

// nears reuses memory for buffers.
var nears = sync.Pool{New: func() any { return new([nearBuffers]nearBuffer) }}

// Close says that the message is complete, so that its memory can be reused. tx keeps some for
// another message.
func (tx *Tx) Close() {
	if cap(tx.near) == nearBuffers {
		near := (*[nearBuffers]nearBuffer)(tx.near[:nearBuffers])
		clear(near[:])
		nears.Put(near)
	}
	few, pending := tx.few[:0], tx.pending
	if clear(pending); cap(pending) > 2*fewFired {
		pending = nil
	}
	*tx = Tx{}
	tx.few, tx.pending = few, pending[:0]
}

// A work is the scratch memory of one inspection.
type work struct {
	hits     []int32
	seen     sight
	body     sight // of the body of the message
	in       inspector
	failures failures
	tx       *Tx
	e        *Engine
	dir      rule.Direction
	context  map[string]any
	captures []capture
	rule     *compiledRule
	spent    int       // work of the rules tried on the message
	clock    time.Time // when the last rule ended
	begin    streamBeginning
	whole    [2]payloadCopy
	again    Tx // for rules on content outside any buffer
	key      []byte
}

// A payloadCopy is the complete payload of one side.
type payloadCopy struct {
	data   []byte
	joined bool   // data is valid for the current message
	room   []byte // memory for data
}

// Inspect tries the rules on the known part of a message in one direction. at is the progress
// of the message: from Body on, part of the body is known, from Trailer on all of it. It may
// be called again at each step, also at the same one.
func (e *Engine) Inspect(tx *Tx, dir rule.Direction, at rule.Progress, dst []Alert) []Alert {
	if len(e.rules) == 0 || tx.Flow.Passed {
		return dst
	}
	d := int(dir >> 1)
	w := e.work.Get().(*work)
	defer e.release(w)
	w.tx, w.e, w.dir = tx, e, dir
	tx.state, tx.work = e.state, w
	p := &tx.dir[d]
	headed := p.at >= rule.Headers
	p.at = max(p.at, at)
	w.hits = w.hits[:0]
	if !p.started {
		p.started = true
		p.scanned = make([]int, len(e.tables[d]))
		for _, n := range e.always[d] {
			if e.rules[n].app == 0 || e.rules[n].app&tx.App != 0 {
				w.hits = append(w.hits, n)
			}
		}
	}
	known, from := false, e.heads[d]
	if !headed {
		known, from = w.fields(p), 0
	}
	for i, t := range e.tables[d][from:] {
		if known && t.fields {
			continue
		}
		if p.at >= t.at || t.buffer == rule.Payload && p.at > rule.NotStarted {
			w.prefilter(t, &p.scanned[from+i])
		}
	}
	w.beginning(p)
	more := false
	for _, n := range sortUnique(w.hits) {
		if k := e.rules[n]; k.kinds&onStream != 0 {
			p.stream = append(p.stream, n)
			more = true
		} else {
			tx.add(n, dir, k.Exchange)
		}
	}
	if more {
		p.stream = sortUnique(p.stream)
	}
	if dst = w.pending(p, dst); tx.Flow.Passed {
		return dst
	}
	return w.outside(dst)
}

// pending tries the candidates.
func (w *work) pending(p *progress, dst []Alert) []Alert {
	tx, e := w.tx, w.e
	if len(tx.pending) == 0 {
		return dst
	}
	slices.SortFunc(tx.pending, func(a, b candidate) int { return int(a.rule) - int(b.rule) })
	w.spent, w.clock = p.spent, time.Now()
	for i := range tx.pending {
		c := &tx.pending[i]
		if c.dead || c.dir&w.dir == 0 {
			continue
		}
		if w.spent+p.shaped > messageWork {
			w.giveUp(p)
			break
		}
		k := e.rules[c.rule]
		if k.disabled.Load() {
			continue
		}
		dst = w.try(k, int(c.rule), c, dst)
		if tx.Flow.Passed {
			return dst
		}
	}
	p.spent = w.spent
	tx.pending = slices.DeleteFunc(tx.pending, func(c candidate) bool { return c.dead })
	return dst
}

// keptText limits the memory for text that is kept for the next message; a quarter of it
// limits that for characters. Most pages need less, and allocating it costs more than
// searching them.
const keptText = 2 << 20

func (e *Engine) release(w *work) {
	w.tx.work = nil
	w.tx, w.context, w.rule = nil, nil, nil
	w.in.buf, w.in.text, w.in.captures, w.in.ctx, w.in.known = nil, nil, nil, nil, bufferFacts{}
	w.body.data, w.begin.seen.data = nil, nil
	w.whole[0].joined, w.whole[1].joined = false, false
	w.whole[0].data, w.whole[1].data = nil, nil
	for _, room := range []*[]byte{&w.in.spare, &w.whole[0].room, &w.whole[1].room} {
		if cap(*room) > keptText {
			*room = nil
		}
	}
	if cap(w.in.runes) > keptText/4 {
		w.in.runes = nil
	}
	w.captures = w.captures[:0]
	e.work.Put(w)
}

// fewFired is the number of candidates up to which they are kept in a list.
const fewFired = 32

// add makes a rule a candidate, unless it is one.
func (tx *Tx) add(n int32, dir rule.Direction, exchange bool) {
	if exchange {
		dir = rule.Both
	}
	key := int64(n)<<2 | int64(dir)
	if tx.fired == nil { // for a few, a list is faster
		if slices.Contains(tx.few, key) {
			return
		}
		if tx.few == nil {
			tx.few, tx.pending = make([]int64, 0, fewFired), slices.Grow(tx.pending, fewFired/2)
		}
		if len(tx.few) < fewFired {
			tx.few = append(tx.few, key)
		} else {
			tx.fired = map[int64]struct{}{}
			for _, k := range tx.few {
				tx.fired[k] = struct{}{}
			}
		}
	}
	if tx.fired != nil {
		if _, ok := tx.fired[key]; ok {
			return
		}
		tx.fired[key] = struct{}{}
	}
	tx.pending = append(tx.pending, candidate{rule: n, dir: dir})
}

// prefilter searches for the fast patterns of one buffer, and of its twin if that has other
// bytes.
func (w *work) prefilter(t *table, scanned *int) {
	w.elements(t, scanned)
	if !t.hasTwin {
		return
	}
	b := w.buffer(w.dir, t.twin, 0, 0)
	if !b.ok || len(b.data) == 0 {
		return
	}
	if f := w.buffer(w.dir, t.buffer, 0, t.chain); !f.ok || !sameMemory(f.data, b.data) {
		w.anchored(t, b.data)
		w.search(t, b.data, &w.body)
		w.body.data = b.data
	}
}

// elements searches each element of a buffer.
func (w *work) elements(t *table, scanned *int) {
	for i := 0; ; i++ {
		var b buffer
		if i == 0 {
			b = w.buffer(w.dir, t.buffer, i, t.chain)
		} else { // mostly needed only now
			b = w.make(w.dir, t.buffer, i, t.chain)
		}
		if !b.ok {
			return
		}
		data := b.data
		w.anchored(t, data)
		only := !t.buffer.Info().Multi || i == 0 && w.isBody(t, data)
		if only {
			if *scanned >= len(data) {
				return
			}
			if *scanned > 0 && t.chain == 0 {
				data = data[max(0, *scanned-t.pf.longest):]
			}
			*scanned = len(b.data)
		}
		seen := &w.seen
		if t.hasTwin {
			seen = &w.body
		}
		if w.search(t, data, seen); len(data) == len(b.data) {
			seen.data = data
		}
		if only {
			return
		}
	}
}

// isBody reports whether a file is the body of a message, whose earlier bytes do not change
// when more arrives.
func (w *work) isBody(t *table, data []byte) bool {
	return t.hasTwin && !w.e.config.Packets && sameMemory(data, w.buffer(w.dir, t.twin, 0, 0).data)
}

// sameMemory reports whether two slices share the same memory.
func sameMemory(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// search searches for the patterns of a table in data.
func (w *work) search(t *table, data []byte, seen *sight) {
	seen.reset(t.pf.n)
	found := t.pf.scan(data, seen, func(p int32) { w.hits = append(w.hits, t.owners[p]...) })
	t.bytes.add(int64(len(data)))
	t.found.add(int64(found))
}

// buffer returns element i of a buffer after its transforms.
func (w *work) buffer(dir rule.Direction, b rule.Buffer, i, chain int) buffer {
	tx := w.tx
	at := tx.dir[dir>>1].at
	if b == rule.Payload && i == 0 {
		if data, ok := w.payload(dir); ok { // its memory is reused
			x := buffer{data: data, ok: true, at: at}
			w.transform(&x, chain)
			return x
		}
	}
	kept, before := tx.cached(bufferKey{dir, b, i, chain})
	if before && (kept.ok && kept.at >= rule.Trailer || kept.at == at && (at != rule.Body || b.Info().Progress < rule.Body) || kept.at >= rule.Headers && w.e.inHead(b)) {
		return *kept
	}
	x := w.make(dir, b, i, chain)
	// Other buffers may have been made, and the entry moved.
	kept, _ = tx.cached(bufferKey{dir, b, i, chain})
	*kept = x
	return x
}

// make makes element i of a buffer. The first is made from the one without transforms.
func (w *work) make(dir rule.Direction, b rule.Buffer, i, chain int) (x buffer) {
	if chain > 0 && i == 0 {
		x = w.buffer(dir, b, 0, 0)
	} else {
		x.data, x.ok = w.raw(dir, b, i)
	}
	x.at = w.tx.dir[dir>>1].at
	w.transform(&x, chain)
	return x
}

// transform applies a chain of transforms to a buffer.
func (w *work) transform(x *buffer, chain int) {
	if !x.ok || chain == 0 {
		return
	}
	p := &w.tx.dir[w.dir>>1]
	for _, f := range w.e.chains[chain-1] {
		if len(x.data) == 0 {
			break
		}
		if p.spent+p.shaped > messageWork {
			w.giveUp(p)
			x.ok = false
			break
		}
		began := time.Now()
		out, ok := f(x.data)
		p.shaped += tryWork + len(x.data)
		if spent := int(time.Since(began)); spent > slowSearch {
			p.shaped += spent
		}
		if !ok {
			if out == nil {
				x.ok = false
			} else if sameMemory(out, givenUp) && !w.tx.Over.Transform {
				w.e.counters.OverRule.add(1)
				w.tx.Over.Transform = true
			}
			break
		}
		x.data = out
	}
}

// inHead reports whether a buffer is part of a head, which is known completely at once.
func (e *Engine) inHead(b rule.Buffer) bool {
	info := b.Info()
	return !e.config.Packets && info.Protocol == "http" && info.Progress <= rule.Headers
}

// raw returns element i of a buffer without transforms.
func (w *work) raw(dir rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	tx := w.tx
	switch b {
	case rule.Payload:
		if data, ok := w.payload(dir); ok {
			return data, i == 0
		}
	case rule.IPSrc, rule.IPDst:
		src, dst := tx.ends(dir)
		if b == rule.IPDst {
			src = dst
		}
		return src.Addr().AsSlice(), i == 0
	case rule.FileData, rule.FileName, rule.FileMagic:
		files := tx.Source.Files(dir)
		if i >= len(files) {
			return nil, false
		}
		switch f := files[i]; b {
		case rule.FileName:
			return []byte(f.Name), f.Name != ""
		case rule.FileMagic:
			magic := f.Magic()
			return []byte(magic), magic != ""
		default:
			return f.Data, true
		}
	}
	return tx.Source.Buffer(dir, b, i)
}

// ends returns source and destination of data that one side sends.
func (tx *Tx) ends(dir rule.Direction) (src, dst netip.AddrPort) {
	if dir == rule.ToServer {
		return tx.Client, tx.Server
	}
	return tx.Server, tx.Client
}

// A Class is a line of classification.config.
type Class struct {
	Name, Text string
	Priority   int
}

// A Script is a Lua script.
type Script interface {
	// Message reports whether the script inspects messages, not packets.
	Message() bool
	// Directions returns who sends the messages that the script inspects.
	Directions() rule.Direction
	// Match runs the script. buf is the open buffer, nil if there is none.
	Match(tx *Tx, dir rule.Direction, r *rule.Rule, buf []byte, cursor int) bool
	// Transform changes a buffer.
	Transform(buf []byte, args []string) ([]byte, bool)
}

type script struct {
	*rule.Lua
	code Script
}

// Files returns the files that rules name and that were read from the disk: scripts and lists.
// Saved datasets are not included.
func (e *Engine) Files() []string { return e.files }

// read returns a file that a rule in the file from names.
func (e *Engine) read(from, name string) (data []byte, err error) {
	at := strings.LastIndexAny(from, "/:") + 1
	if data, ok := e.config.Beside[from[:at]+path.Clean(name)]; ok {
		return data, nil
	}
	full := relativeTo(from, name)
	if data, err = os.ReadFile(full); err == nil && !slices.Contains(e.files, full) {
		e.files = append(e.files, full)
	}
	return data, err
}

// relativeTo returns the path of a file that a rule in the file from names.
func relativeTo(from, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(from), name)
}

// loadScript loads a script once.
func (e *Engine) loadScript(from, file string) (Script, error) {
	if e.config.Scripts == nil {
		return nil, errors.New("scripts are not allowed here")
	}
	key := filepath.Dir(from) + "\x00" + file
	if s, ok := e.scripts[key]; ok {
		return s, nil
	}
	text, err := e.read(from, file)
	if err != nil {
		return nil, err
	}
	s, err := e.config.Scripts(file, text)
	if err != nil {
		return nil, err
	}
	e.scripts[key] = s
	return s, nil
}

func (e *Engine) loadTransform(from, arg string) (transform, error) {
	parts := strings.Split(arg, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	s, err := e.loadScript(from, parts[0])
	if err != nil {
		return nil, err
	}
	return func(in []byte) ([]byte, bool) { return s.Transform(in, parts[1:]) }, nil
}
