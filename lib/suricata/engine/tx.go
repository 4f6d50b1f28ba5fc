package engine

import (
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
)

// A Tx is one exchange of messages on a connection: a request and its response, a DNS message,
// or a TLS handshake. It belongs to one goroutine at a time.
type Tx struct {
	Flow   *state.Flow
	Source Source
	App    rule.Proto // HTTP1, HTTP2, TLS, DNS; 0 for none
	L4     rule.Proto
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
	state    *state.State
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
	rule    int32
	dir     rule.Direction
	done    uint64 // bits of groups that matched
	dead    bool
	matched bool
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

// ends returns source and destination of data that one side sends.
func (tx *Tx) ends(dir rule.Direction) (src, dst netip.AddrPort) {
	if dir == rule.ToServer {
		return tx.Client, tx.Server
	}
	return tx.Server, tx.Client
}

// Forget resets a Tx and keeps its memory.
func (tx *Tx) Forget() {
	clear(tx.near)
	*tx = Tx{near: tx.near[:0]}
}

// Measured returns the entropy that rules measured, by buffer.
func (tx *Tx) Measured() map[string]float64 { return tx.measured }

// State returns the state of rules beyond the connection.
func (tx *Tx) State() *state.State { return tx.state }

// Variable returns the value of byte_extract or byte_math in a slot, for the rule being tried.
func (tx *Tx) Variable(i int) (uint64, bool) {
	if i >= len(tx.vars) {
		return 0, false
	}
	return tx.vars[i], true
}
