// Package state remembers what rules ask about earlier traffic.
//
// A [Flow] has the bits, numbers and strings of one connection. A [State] has what outlives
// connections: counts of thresholds, bits of hosts and pairs, and datasets, which are read from
// files and saved some time after a change. [Limits] are the lines of threshold.config;
// [State.Limit] counts an [Occurrence] of a rule and says whether it alerts.
package state

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/suricata/rule"
)

// Limits of the state.
const (
	shards     = 64
	maxEntries = 1 << 14  // of thresholds and bits in a shard
	maxSet     = 1 << 20  // values that rules add to a dataset
	maxSaved   = 100      // datasets that one source saves
	maxValues  = 64 << 20 // bytes of the values in all datasets of one source, if rules add to them
	maxNames   = 4096     // bits and numbers of one connection
)

// A State is the memory of rules beyond one connection: thresholds, host bits and datasets. It
// outlives the rules: an engine made by a reload takes it over. It is safe for concurrent use.
type State struct {
	shard [shards]struct {
		sync.Mutex
		counts map[countKey]*count
		bits   map[bitKey]time.Time // expiry times
	}
	mu    sync.RWMutex
	sets  map[string]*set
	rooms map[string]*room // by source

	delay   atomic.Int64 // time between a change of datasets and saving them; 0: they are not saved
	planned atomic.Bool  // a save is scheduled
	// Unsaved counts failed saves of datasets. They are repeated.
	Unsaved atomic.Int64
	lost    atomic.Pointer[string] // why the last save failed, nil if it did not
}

// New returns an empty state.
func New() *State {
	s := &State{sets: map[string]*set{}, rooms: map[string]*room{}}
	for i := range s.shard {
		s.shard[i].counts = map[countKey]*count{}
		s.shard[i].bits = map[bitKey]time.Time{}
	}
	return s
}

type bitKey struct {
	name string
	kind byte
	a, b netip.Addr
}

func hash(a, b netip.Addr, n uint32) int {
	h := n * 0x9E3779B1
	x, y := a.As16(), b.As16()
	for i := range x {
		h = (h ^ uint32(x[i])) * 16777619
		h = (h ^ uint32(y[i])) * 16777619
	}
	return int(h >> 26 % shards)
}

func bitOf(b *rule.Bit, name string, src, dst netip.Addr) bitKey {
	k := bitKey{name: name, kind: b.Kind[0]}
	switch b.Track {
	case "ip_src", "src", "":
		k.a = src
	case "ip_dst", "dst":
		k.a = dst
	case "ip_pair", "both":
		k.a, k.b = src, dst
		if k.b.Less(k.a) {
			k.a, k.b = k.b, k.a
		}
	}
	return k
}

// Bit changes or tests a host bit.
func (s *State) Bit(b *rule.Bit, name string, src, dst netip.Addr, now time.Time) bool {
	k := bitOf(b, name, src, dst)
	sh := &s.shard[hash(k.a, k.b, 1)]
	sh.Lock()
	defer sh.Unlock()
	until, ok := sh.bits[k]
	if ok && now.After(until) {
		delete(sh.bits, k)
		ok = false
	}
	switch b.Command {
	case "isset":
		return ok
	case "isnotset":
		return !ok
	case "unset":
		delete(sh.bits, k)
		return true
	case "toggle":
		if ok {
			delete(sh.bits, k)
			return true
		}
	}
	if len(sh.bits) >= maxEntries {
		for old := range sh.bits {
			delete(sh.bits, old)
			break
		}
	}
	expire := time.Duration(b.Expire) * time.Second
	if b.Expire == 0 {
		expire = time.Hour
	}
	sh.bits[k] = now.Add(expire)
	return true
}
