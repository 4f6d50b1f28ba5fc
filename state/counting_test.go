package state

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	counts    = flag.Int("counts", 300, "simulated fleets that count")
	countSeed = flag.Uint64("countseed", 0, "replay the fleet that counts of this seed alone")
)

// A countingFleet is nodes with real counters, and a Redis and a network that are made up.
type countingFleet struct {
	r     *rand.Rand
	now   time.Time
	redis map[[16]byte]map[string]string // hashes
	nodes []*countingNode
	named int // nodes by now
}

type countingNode struct {
	counters
	name    string
	added   map[[16]byte]int64
	members map[[16]byte]map[int]bool
	highest int64 // sum of the counter that only grows
	way     []*exchangeOnItsWay
}

// An exchangeOnItsWay is sent, then carried out by Redis, then answered. It can be lost in between.
type exchangeOnItsWay struct {
	parts   []part
	done    bool // by Redis
	answers []map[string]string
}

func (f *countingFleet) start() *countingNode {
	f.named++
	x := &countingNode{name: fmt.Sprintf("node%d-", f.named), added: map[[16]byte]int64{}, members: map[[16]byte]map[int]bool{}}
	x.shared, x.log = true, slog.New(slog.DiscardHandler)
	return x
}

// dirtyKeys takes what is to be exchanged, as a flush does.
func (x *countingNode) dirtyKeys() (keys [][16]byte) {
	for i := range x.shard {
		keys, x.shard[i].dirty = append(keys, x.shard[i].dirty...), nil
	}
	return keys
}

// send sends counters: those that have changed, or all of keys.
func (x *countingNode) send(keys [][16]byte, changed bool) {
	if parts := x.pack(x.name, keys, changed); len(parts) > 0 {
		x.way = append(x.way, &exchangeOnItsWay{parts: parts})
	}
}

// next reports whether Redis carries out this exchange next: those of a node arrive in order.
func (x *countingNode) next(e *exchangeOnItsWay) bool {
	i := slices.IndexFunc(x.way, func(e *exchangeOnItsWay) bool { return !e.done })
	return i >= 0 && x.way[i] == e
}

// carryOut has Redis carry out an exchange. Only some of its counters may be written before Redis ends.
func (f *countingFleet) carryOut(e *exchangeOnItsWay, some int) {
	for _, p := range e.parts[:some] {
		if p.value != "" {
			if f.redis[p.key] == nil {
				f.redis[p.key] = map[string]string{}
			}
			f.redis[p.key][p.field] = p.value
		}
		e.answers = append(e.answers, maps.Clone(f.redis[p.key]))
	}
	e.done = true
}

var errOnItsWay = errors.New("lost on its way")

// answer ends an exchange.
func (x *countingNode) answer(e *exchangeOnItsWay, err error) {
	x.way = slices.DeleteFunc(x.way, func(other *exchangeOnItsWay) bool { return other == e })
	for i := range e.parts {
		var all func(func(field, value []byte)) error
		if err == nil {
			all = func(take func(field, value []byte)) error {
				for field, value := range e.answers[i] {
					take([]byte(field), []byte(value))
				}
				return nil
			}
		}
		_ = x.unpack(&e.parts[i], all, err) // the counters stay marked to be sent
	}
}

func (f *countingFleet) add(x *countingNode, key [16]byte, set bool) {
	c := []Count{{Key: key, Until: f.now.Add(time.Hour), Set: set, Add: int64(f.r.IntN(9)), Member: f.r.IntN(2048)}}
	if set {
		c[0].Add = 0
	}
	x.take(f.now, c)
	if set {
		if x.members[key] == nil {
			x.members[key] = map[int]bool{}
		}
		x.members[key][c[0].Member] = true
		return
	}
	x.added[key] += c[0].Add
	if key[0] == 0 && f.r.IntN(8) == 0 { // another limit of the same request is exceeded
		x.undo(f.now, c)
		x.added[key] -= c[0].Add
	}
}

// TestCountersOfAFleetAreExact drives nodes through random schedules: exchanges that overlap, are late,
// lost before or after Redis has carried them out, or carried out in part; nodes that are killed; a
// Redis that forgets. When the trouble ends, all nodes have the same sums: what the living have counted,
// and what Redis still has of others; and the same sets: all that anybody still knows.
func TestCountersOfAFleetAreExact(t *testing.T) {
	for range *counts {
		seed := rand.Uint64()
		if *countSeed != 0 {
			seed = *countSeed
		}
		if err := countTogether(seed); err != nil {
			t.Fatalf("%v; to see it again: go test ./state -run TestCountersOfAFleetAreExact -counts 1 -countseed %d", err, seed)
		}
	}
}

func addMembers(to map[int]bool, c *counter) {
	for m := range setWords * 64 {
		if c.has(m) {
			to[m] = true
		}
	}
}

func countTogether(seed uint64) error {
	f := &countingFleet{r: rand.New(rand.NewPCG(seed, 2)), now: time.Now(), redis: map[[16]byte]map[string]string{}}
	for range 2 + f.r.IntN(5) {
		f.nodes = append(f.nodes, f.start())
	}
	keys := make([][16]byte, 4) // the last two are sets
	for k := range keys {
		keys[k] = [16]byte{byte(k), 7}
	}
	forgets, forgot := f.r.IntN(2) == 0, false
	for range 400 {
		n := f.r.IntN(len(f.nodes))
		x := f.nodes[n]
		var e *exchangeOnItsWay
		if len(x.way) > 0 {
			e = x.way[f.r.IntN(len(x.way))]
		}
		switch what := f.r.IntN(40); {
		case what < 16:
			k := f.r.IntN(len(keys))
			f.add(x, keys[k], k >= 2)
		case what < 20:
			x.send(x.dirtyKeys(), true)
		case what < 22: // a request waits for these
			x.send(keys[:1+f.r.IntN(3)], false)
		case what < 29 && e != nil && x.next(e):
			f.carryOut(e, len(e.parts))
		case what < 36 && e != nil && e.done:
			x.answer(e, nil)
		case what < 37 && e != nil: // lost, or the answer is
			if x.next(e) && f.r.IntN(2) == 0 {
				f.carryOut(e, f.r.IntN(len(e.parts)+1))
			}
			x.answer(e, errOnItsWay)
		case what < 38 && f.r.IntN(4) == 0: // killed; what is on its way may arrive
			for _, e := range x.way {
				if x.next(e) && f.r.IntN(2) == 0 {
					f.carryOut(e, f.r.IntN(len(e.parts)+1))
				}
			}
			f.nodes[n] = f.start()
		case what < 39 && forgets && f.r.IntN(4) == 0: // Redis comes back without what it had, and all connect again
			clear(f.redis)
			for _, x := range f.nodes {
				for len(x.way) > 0 {
					x.answer(x.way[0], errOnItsWay)
				}
				x.resendAll()
			}
			forgot = true
		}
		if sum := x.value(f.now, keys[1], false); x == f.nodes[n] && sum < x.highest && !forgot {
			return fmt.Errorf("node %d had a sum of %d, and has %d", n, x.highest, sum)
		} else if x == f.nodes[n] {
			x.highest = sum
		}
	}
	known := map[[16]byte]map[int]bool{} // members that a living node knows
	for _, key := range keys[2:] {
		known[key] = map[int]bool{}
		for _, x := range f.nodes {
			if c := x.of(key).m[key]; c != nil {
				addMembers(known[key], c)
			}
		}
	}
	// Calm: what is on its way ends, and everybody sends what is to be sent. One that has counted
	// nothing asks then, and everybody.
	finish := func(send func(x *countingNode)) {
		for range 2 {
			for _, x := range f.nodes {
				for len(x.way) > 0 {
					e := x.way[f.r.IntN(len(x.way))]
					if x.next(e) {
						f.carryOut(e, len(e.parts))
					}
					if e.done {
						x.answer(e, nil)
					}
				}
			}
			for _, x := range f.nodes {
				send(x)
			}
		}
	}
	finish(func(x *countingNode) { x.send(x.dirtyKeys(), true) })
	before := maps.Clone(f.redis)
	for key := range before {
		before[key] = maps.Clone(before[key])
	}
	f.nodes = append(f.nodes, f.start())
	finish(func(x *countingNode) {
		for k, key := range keys { // a counter that nobody asks about is not there
			x.take(f.now, []Count{{Key: key, Until: f.now.Add(time.Hour), Set: k >= 2, Member: -1}})
		}
		x.send(keys, false)
	})
	finish(func(*countingNode) {})
	if !maps.EqualFunc(before, f.redis, maps.Equal) {
		return errors.New("nodes had more to send than they sent by themselves")
	}
	for k, key := range keys {
		want := int64(0)
		members := known[key]
		living := map[string]bool{}
		for _, x := range f.nodes {
			want += x.added[key]
			for m := range x.members[key] {
				if !members[m] {
					return fmt.Errorf("counter %d: a node has forgotten what it counted itself", k)
				}
			}
			living[strings.TrimSuffix(x.name, "-")] = true
		}
		for field, value := range f.redis[key] {
			if name, _, _ := strings.Cut(field, "-"); living[name] {
				continue
			}
			c := &counter{}
			if k >= 2 {
				c.own, c.all = new([setWords]uint64), new([setWords]uint64)
			}
			want += c.merge([]byte(value))
			if k >= 2 {
				addMembers(members, c)
			}
		}
		if k >= 2 {
			want = int64(len(members))
		}
		for n, x := range f.nodes {
			if got := x.value(f.now, key, k >= 2); got != want {
				return fmt.Errorf("counter %d: node %d of %d has %d, want %d", k, n, len(f.nodes), got, want)
			}
		}
	}
	return nil
}
