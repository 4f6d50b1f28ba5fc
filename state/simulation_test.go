package state

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	fleets    = flag.Int("fleets", 5, "simulated fleets")
	fleetSeed = flag.Uint64("fleetseed", 0, "replay the simulated fleet of this seed alone")
)

// A simulatedFleet is nodes with real instructions, and a Redis and a network that are made up.
type simulatedFleet struct {
	t     *testing.T
	r     *rand.Rand
	dir   string
	redis map[string]string // the fields of the hash
	nodes []*simulatedNode
	news  []published // on their way
	calm  bool        // nothing is lost
}

type simulatedNode struct {
	*Instructions
	file string
	skew time.Duration // of its clock
	cut  bool          // from Redis
	full bool          // its disk
	lost bool          // it lost its connection to Redis, with news
}

type published struct {
	to *simulatedNode
	i  Instruction
}

// TestInstructionsConverge drives nodes through random schedules: instructions that several nodes give
// under one key, news that are lost, late and in another order, partitions, a Redis that forgets,
// crashes, full disks, wrong clocks. When the trouble ends, all nodes have the same in force, which are
// the last ones given by their versions, and none that was refused.
func TestInstructionsConverge(t *testing.T) {
	for range *fleets {
		seed := rand.Uint64()
		if *fleetSeed != 0 {
			seed = *fleetSeed
		}
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { converge(t, seed, dir) })
		}) {
			t.Logf("to see it again: go test ./state -run TestInstructionsConverge -fleets 1 -fleetseed %d", seed)
			return
		}
	}
}

func converge(t *testing.T, seed uint64, dir string) {
	f := &simulatedFleet{t: t, r: rand.New(rand.NewPCG(seed, 1)), dir: dir, redis: map[string]string{}}
	for n := range 2 + f.r.IntN(6) {
		x := &simulatedNode{file: filepath.Join(dir, fmt.Sprint(n), "instructions")}
		if f.r.IntN(3) == 0 {
			x.skew = time.Duration(f.r.IntN(7200)-3600) * time.Second
		}
		if err := os.Mkdir(filepath.Dir(x.file), 0o750); err != nil {
			t.Fatal(err)
		}
		f.start(x)
		x.node = fmt.Sprint("node", n) // so that a seed gives the same again
		f.nodes = append(f.nodes, x)
	}
	given := map[name]Instruction{} // the newest that was acknowledged
	var last string
	for range 300 {
		time.Sleep(time.Duration(f.r.IntN(2000)) * time.Millisecond)
		x := f.nodes[f.r.IntN(len(f.nodes))]
		switch what := f.r.IntN(20); {
		case what < 8:
			i := Instruction{Topic: "t", Key: fmt.Sprint("key", f.r.IntN(8)), Value: fmt.Sprint("value", f.r.IntN(1000))}
			if f.r.IntN(4) == 0 {
				i.Value = ""
			}
			if x.issue(i) != nil {
				continue
			}
			i = x.all[name{i.Topic, i.Key}].Instruction
			last = fmt.Sprint(i)
			if old, there := given[name{i.Topic, i.Key}]; !there || i.newer(&old) {
				given[name{i.Topic, i.Key}] = i
			}
		case what < 12:
			f.publish(x)
		case what < 15:
			f.reconcile(x)
		case what < 16:
			x.cut = !x.cut
		case what < 17:
			x.fill(!x.full)
		case what < 18: // it is killed
			node := x.node
			f.start(x)
			x.node = node
		case what < 19 && f.r.IntN(10) == 0: // Redis comes back without what it had
			clear(f.redis)
		default:
			f.deliver()
		}
	}
	for _, x := range f.nodes {
		x.cut = false
		x.fill(false)
	}
	f.calm = true
	f.deliver()
	for round := range 3 { // of comparing, one of them all instructions, as every ten minutes
		for _, x := range f.nodes {
			x.lost = x.lost || round == 0
			f.reconcile(x)
		}
		f.deliver()
	}
	want := map[string]string{}
	for n, i := range given {
		if i.Value != "" {
			want[n.key] = i.Value
		}
	}
	for n, x := range f.nodes {
		got := map[string]string{}
		for _, i := range x.InForce("t") {
			got[i.Key] = i.Value
		}
		if !maps.Equal(got, want) {
			t.Errorf("node %d has %v in force, want %v; the last one given was %s", n, got, want, last)
		}
	}
	if len(f.redis) != len(given) {
		t.Errorf("Redis has %d instructions, want %d", len(f.redis), len(given))
	}
	for _, x := range f.nodes {
		if err := x.close(); err != nil {
			t.Error(err)
		}
	}
}

// start starts a node, or starts it again after a crash.
func (f *simulatedFleet) start(x *simulatedNode) {
	if x.Instructions != nil && x.file != "" {
		_ = x.Instructions.file.close() // a killed process syncs nothing, and closes its files
	}
	s, err := openInstructions(x.file, slog.New(slog.DiscardHandler))
	if err != nil {
		f.t.Fatal(err)
	}
	x.Instructions, x.full, x.lost = s, false, true
}

// fill fills the disk of a node, or makes room. A full one takes no new file either.
func (x *simulatedNode) fill(full bool) {
	x.full, x.Instructions.file.path = full, x.file
	if full {
		_ = x.Instructions.file.close() // it is opened again for what comes next
		x.Instructions.file.path = filepath.Join(x.file+".full", "instructions")
	}
}

// issue gives an instruction. A wrong clock gives it the place of another time.
func (x *simulatedNode) issue(i Instruction) error {
	x.last = max(x.last, time.Now().Add(x.skew).UnixMilli())
	return x.Issue(i)
}

// publish shares what Redis lacks, as Fleet.publishAll does. It may be lost before it arrives, or its
// reply.
func (f *simulatedFleet) publish(x *simulatedNode) {
	part, older := x.unshared(pipeline)
	if x.cut || !f.calm && f.r.IntN(8) == 0 {
		x.lost = true
		return
	}
	for _, i := range part {
		b, err := json.Marshal(i)
		if err != nil {
			f.t.Fatal(err)
		}
		f.redis[i.field()] = string(b)
		for _, to := range f.nodes {
			if to != x {
				f.news = append(f.news, published{to, i})
			}
		}
	}
	if !f.calm && f.r.IntN(8) == 0 {
		x.lost = true
		return // it does not know what is there
	}
	x.markShared(part)
	f.remove(older)
}

func (f *simulatedFleet) remove(fields []string) {
	for _, name := range fields {
		delete(f.redis, name)
	}
}

// deliver delivers news in any order, and loses some.
func (f *simulatedFleet) deliver() {
	f.r.Shuffle(len(f.news), func(i, j int) { f.news[i], f.news[j] = f.news[j], f.news[i] })
	late := f.news[:0:0]
	for _, n := range f.news {
		switch {
		case !f.calm && f.r.IntN(3) == 0:
			late = append(late, n)
		case n.to.cut || !f.calm && f.r.IntN(5) == 0:
			n.to.lost = true
		default:
			n.to.take([]Instruction{n.i}, true)
		}
	}
	f.news = late
}

// reconcile compares a node with Redis, as Fleet.compare and Fleet.reconcile do.
func (f *simulatedFleet) reconcile(x *simulatedNode) {
	if x.cut {
		return
	}
	if !x.lost && x.agrees(len(f.redis)) {
		x.agree()
		return
	}
	x.lost = false
	all := copies{now: x.certain(), newest: map[name]Instruction{}}
	for _, field := range slices.SortedFunc(maps.Keys(f.redis), strings.Compare) {
		all.add([]byte(field), []byte(f.redis[field]))
	}
	f.remove(x.Instructions.meet(&all))
	f.publish(x)
}
