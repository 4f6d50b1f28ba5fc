// Package engine tries Suricata's rules on messages, streams and packets.
//
// [New] compiles rules: their addresses (package address), their groups (package match) and the
// index of their patterns (package index). The owner of a connection keeps a [state.Flow] for it
// and a [Tx] for each message, which it describes by a [Source] such as those of package traffic,
// and calls [Engine.Inspect] whenever more of the message is known. The engine makes the buffers
// that the index searches, collects the rules whose pattern occurs, tries their groups and
// conditions, and remembers in the Tx which parts of a rule matched. The result is alerts. The
// package does not decide about traffic.
package engine

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/index"
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
	"shuultuur/lib/suricata/traffic"
)

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
	Files(dir rule.Direction) []*traffic.File
}

// Config are the rules and settings of an engine.
type Config struct {
	Rules   []*rule.Rule
	Vars    map[string]string // address groups, without "$"
	Ports   map[string]string // port groups
	Classes map[string]*Class // classification.config, by name in lower case
	Limits  []*state.Limit    // threshold.config
	// Previous is the engine that this one replaces, nil for none. The cost of its rules is
	// shown for comparison.
	Previous *Engine
	State    *state.State                                   // nil for that of Previous, or a new one
	Scripts  func(name string, text []byte) (Script, error) // nil: rules with scripts are refused
	// Beside are files that rules may name and that are not on the disk: members of tarballs,
	// by the names that [rule.Files] gives them.
	Beside map[string][]byte
	// Sets are datasets that settings define, by name.
	Sets map[string]Set
	// Saves is the folder below which each source has one for the datasets that its rules save.
	// "" saves none.
	Saves string
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

// A Set is a dataset that settings define: its type, and its values if there are any.
type Set struct {
	Type string
	Data []byte
}

// An Engine is a compiled set of rules. The set never changes.
type Engine struct {
	rules    []*compiledRule
	index    *index.Index
	chains   [][]match.Transform
	classes  map[string]*Class
	limits   state.Limits
	state    *state.State
	scripts  map[*rule.Lua]Script
	loaded   map[string]Script // by source, folder and name
	files    []string          // files that rules name and that were read
	config   Config
	work     sync.Pool
	counters Counters
	traces   traces
	before   map[[2]uint32]Cost               // cost of rules before the last reload, by gid and sid
	wants    [2][rule.Complete + 1]rule.Proto // by direction and step
	scripted []bool                           // by chain: a script takes part
	fields   [1 << 9]atomic.Pointer[fieldHits]
}

// New compiles rules. Unusable rules are returned as mistakes.
func New(c Config) (*Engine, []*rule.Error, error) {
	e := &Engine{config: c, classes: c.Classes, state: c.State, scripts: map[*rule.Lua]Script{}, loaded: map[string]Script{}}
	if c.Previous != nil {
		e.before = c.Previous.costs()
		if e.state == nil {
			e.state = c.Previous.state
		}
	}
	e.config.Previous, e.config.Rules = nil, nil // drop the rules that are not tried
	if e.state == nil {
		e.state = state.New()
	}
	var err error
	if e.limits, err = state.NewLimits(c.Limits, c.Vars); err != nil {
		return nil, nil, err
	}
	b := &builder{e: e, ends: address.NewParser(c.Vars, c.Ports), chains: map[string]int{}, loaded: map[string]bool{}, types: types(c)}
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
		if !c.Packets && (k.Kinds&(index.OnPacket|index.OnFrame) == k.Kinds || k.app != 0 && k.app&^(rule.Captured|rule.DOH) == 0) {
			continue
		}
		e.rules = append(e.rules, k)
	}
	slices.SortStableFunc(e.rules, order)
	e.traces.of = map[*compiledRule]*Trace{}
	entries := make([]*index.Entry, len(e.rules))
	for i, k := range e.rules {
		entries[i] = &k.Entry
		e.note(k)
	}
	e.index = index.New(entries, index.Config{Packets: c.Packets, All: c.Trace, Scripted: e.scripted})
	e.work.New = func() any { return &work{} }
	return e, mistakes, nil
}

// collectRules is the number of rules after which New runs the garbage collector. Otherwise
// garbage between the compiled rules would keep a third more memory in use.
const collectRules = 2000

// Rules returns the number of active rules.
func (e *Engine) Rules() int { return len(e.rules) }

// State returns the state of the rules.
func (e *Engine) State() *state.State { return e.state }

// A Script is a Lua script.
type Script interface {
	// Message reports whether the script inspects messages, not packets.
	Message() bool
	// Directions returns who sends the messages that the script inspects.
	Directions() rule.Direction
	// Buffer returns the buffer that the script asks for, unless it asks for none.
	Buffer() (b rule.Buffer, ok bool)
	// Match runs the script. buf is the open buffer, nil if there is none.
	Match(tx *Tx, dir rule.Direction, r *rule.Rule, buf []byte, cursor int) bool
	// Transform changes a buffer.
	Transform(buf []byte, args []string) ([]byte, bool)
}

// Files returns the files that rules name and that were read from the disk: scripts and lists.
// Saved datasets are not included.
func (e *Engine) Files() []string { return e.files }
