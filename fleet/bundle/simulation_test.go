package bundle

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/lib/setting"
)

var (
	simulatedNodes = flag.Int("nodes", 100, "nodes of the simulated fleet")
	simulations    = flag.Int("fleets", 2, "simulated fleets")
	simulationSeed = flag.Uint64("seed", 0, "replay the simulated fleet of this seed alone")
)

// A simulation is a fleet whose clock and network are made up.
type simulation struct {
	desk    *Desk
	offer   Folder
	mu      sync.Mutex
	rand    *rand.Rand
	reports map[string]Report
	nodes   []*simulated
	broken  []string // what must not happen
}

// A simulated node serves 20 requests a second, of which a bad bundle lets one in five fail.
type simulated struct {
	sim     *simulation
	name    string
	taker   *Taker
	mu      sync.Mutex
	cut     bool // from the network
	runs    string
	serial  uint64
	since   map[string]time.Time // when it began to run each version
	started time.Time
	failed  int64
	at      time.Time // up to when failed counts
}

// began returns when the node began to run a version.
func (n *simulated) began(version string) (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.since[version]
	return at, ok
}

// late waits as a network does, and says whether what was sent is lost.
func (s *simulation) late() (lost bool) {
	s.mu.Lock()
	wait, lost := time.Duration(s.rand.ExpFloat64()*50)*time.Millisecond, s.rand.IntN(100) < 3
	s.mu.Unlock()
	time.Sleep(min(wait, time.Second))
	return lost
}

func (n *simulated) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	lost := n.sim.late()
	n.mu.Lock()
	defer n.mu.Unlock()
	if lost || n.cut {
		return nil, errors.New("lost")
	}
	return n.sim.offer.Get(ctx, name)
}
func (n *simulated) String() string { return "the desk" }

func (n *simulated) Use(_ context.Context, folder string, m *Manifest, _ []string) error {
	b, err := os.ReadFile(filepath.Join(folder, "version"))
	n.count()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil || string(b) != m.Version {
		n.sim.breach("%s got %q, %v, for version %q", n.name, b, err, m.Version)
	}
	if m.Serial <= n.serial {
		n.sim.breach("%s went from %d back to %d", n.name, n.serial, m.Serial)
	}
	n.runs, n.serial = string(b), m.Serial
	if _, ok := n.since[n.runs]; !ok {
		n.since[n.runs] = time.Now()
	}
	return nil
}

func (n *simulated) isBad() bool { return strings.Contains(n.runs, "bad") }

func (n *simulated) count() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.isBad() {
		n.failed += int64(now.Sub(n.at).Seconds() * 4)
	}
	n.at = now
}

func (n *simulated) Drift(*Manifest) []string   { return nil }
func (n *simulated) Wait(context.Context) error { return nil }
func (n *simulated) Fares() (Rates, []string) {
	n.count()
	n.mu.Lock()
	defer n.mu.Unlock()
	return Rates{Requests: int64(time.Since(n.started).Seconds() * 20), Failures: n.failed}, nil
}

func (s *simulation) breach(format string, values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, fmt.Sprintf(format, values...))
}

// send carries a report to the desk.
func (s *simulation) send(r Report) {
	go func() {
		if s.late() {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.reports[r.Node].At.Before(r.At) {
			s.reports[r.Node] = r
		}
	}()
}

// tell carries the news of a bundle to the nodes.
func (s *simulation) tell(uint64) {
	for _, n := range s.nodes {
		go func() {
			if lost := s.late(); !lost {
				n.taker.Wake()
			}
		}()
	}
}

// wait waits until something holds, and says whether it did in time.
func (s *simulation) wait(most time.Duration, holds func() bool) bool {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return holds()
}

// running returns how many nodes run a version.
func (s *simulation) running(version string) (n int) {
	for _, x := range s.nodes {
		x.mu.Lock()
		if x.runs == version {
			n++
		}
		x.mu.Unlock()
	}
	return n
}

// TestAFleetTakesWhatIsGoodAndStopsWhatIsBad drives the code of the nodes and of the desk over a network
// with loss and delay: a good bundle is everywhere soon, a bad one reaches few nodes and is taken back,
// a node that was cut off catches up, and none ever goes back or runs half a bundle.
func TestAFleetTakesWhatIsGoodAndStopsWhatIsBad(t *testing.T) {
	for i := range *simulations {
		seed := rand.Uint64()
		if *simulationSeed != 0 {
			seed = *simulationSeed
			if i > 0 {
				break
			}
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, seed, *simulatedNodes) })
			if t.Failed() {
				t.Logf("to see it again: go test ./fleet/bundle -run TestAFleet -seed %d -nodes %d", seed, *simulatedNodes)
			}
		})
	}
}

func simulate(t *testing.T, seed uint64, nodes int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &simulation{rand: rand.New(rand.NewPCG(seed, 1)), reports: map[string]Report{}, offer: Folder(t.TempDir())}
	k := newKey(t)
	var err error
	s.desk, err = NewDesk(&Config{Desk: &Offers{To: string(s.offer), Key: k.secret, Wait: setting.Duration(2 * time.Minute)}}, Dir(t.TempDir()), func() (all []Report) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.reports {
			all = append(all, r)
		}
		return all
	}, s.tell, quiet)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for i := range nodes {
		n := &simulated{sim: s, name: fmt.Sprint("node-", i), since: map[string]time.Time{}, started: time.Now(), at: time.Now()}
		n.taker, err = NewTaker(&Config{Name: n.name, Bundles: &Source{From: string(s.offer), Key: k.public}}, Dir(t.TempDir()), "1", n, s.send, quiet)
		if err != nil {
			t.Fatal(err)
		}
		n.taker.cfg.place = n
		s.nodes = append(s.nodes, n)
		running.Go(func() { n.taker.Run(ctx) })
	}
	running.Go(func() { s.desk.Run(ctx) })
	defer func() { cancel(); running.Wait(); time.Sleep(2 * time.Second) }()
	publish := func(version string, all bool) time.Time {
		t.Helper()
		if _, err := s.desk.Publish(ctx, content(version, map[string]string{"version": version}), all, time.Now()); err != nil {
			t.Fatal(err)
		}
		return time.Now()
	}

	time.Sleep(time.Second)
	began := publish("1", true)
	if !s.wait(3*time.Minute, func() bool { return s.running("1") == nodes }) {
		t.Fatalf("%d of %d nodes run the first bundle after three minutes", s.running("1"), nodes)
	}
	var took []time.Duration
	for _, n := range s.nodes {
		at, _ := n.began("1")
		took = append(took, at.Sub(began))
	}
	slices.Sort(took)
	if p90 := took[nodes*9/10]; p90 > 5*time.Second {
		t.Errorf("nine of ten nodes run a bundle within %v, want 5 s; the slowest after %v", p90, took[nodes-1])
	}
	time.Sleep(20 * time.Minute)

	publish("2 bad", false)
	if !s.wait(4*time.Minute, func() bool { return s.desk.Status().Stopped != "" }) {
		t.Fatalf("a bad bundle was not stopped: %+v", s.desk.Status().Waits)
	}
	first := time.Now()
	for _, n := range s.nodes {
		if at, ok := n.began("2 bad"); ok && at.Before(first) {
			first = at
		}
	}
	if took := time.Since(first); took > time.Minute {
		t.Errorf("the bad bundle was stopped after %v", took)
	}
	if !s.wait(3*time.Minute, func() bool { return s.running("1") == nodes }) {
		t.Errorf("%d of %d nodes are back three minutes after the bundle was", s.running("1"), nodes)
	}
	bad := 0
	for _, n := range s.nodes {
		if _, ran := n.began("2 bad"); ran {
			bad++
		}
	}
	if most := max(1, nodes/20); bad == 0 || bad > most {
		t.Errorf("%d nodes ran the bad bundle, want 1 to %d", bad, most)
	}

	s.mu.Lock()
	away := s.nodes[s.rand.IntN(nodes)]
	s.mu.Unlock()
	away.mu.Lock()
	away.cut = true
	away.mu.Unlock()
	time.Sleep(silent + time.Minute) // nobody waits for a node that is away
	publish("3", false)
	if !s.wait(30*time.Minute, func() bool { return s.running("3") >= nodes-1 }) {
		t.Fatalf("%d of %d nodes run the third bundle after half an hour: %+v", s.running("3"), nodes, s.desk.Status())
	}
	away.mu.Lock()
	away.cut = false
	away.mu.Unlock()
	if !s.wait(3*time.Minute, func() bool { return s.running("3") == nodes }) {
		t.Errorf("a node that was cut off does not run the third bundle")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.broken {
		t.Error(b)
	}
}
