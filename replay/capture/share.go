package capture

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"shuultuur/arrange"
)

// Bounds of what several goroutines have at hand.
const (
	maxCores     = 64
	roundPackets = 512
	maxRounds    = 24 // read and not yet written
)

// shared is what a Run has whose connections several goroutines read. Packets
// come in rounds. The hash of its connection says which part takes a packet;
// each part goes from round to round by itself. A writer puts together what the
// parts made of a round, in the order of the packets, so that records, and alerts
// with their thresholds, are those of one goroutine.
type shared struct {
	parts []*part
	seed  maphash.Seed
	round *round // being filled
	// rounds are those that were given to the parts, for the writer.
	rounds chan *round
	done   chan struct{} // the writer has written all
}

// A part reads some of the connections.
type part struct {
	run   *Run
	queue chan *round
}

// A round is a run of packets, or the end of connections.
type round struct {
	packets [][]numbered // by part
	kept    [][]entry    // by part
	count   int
	left    sync.WaitGroup // parts that have it still before them
	// end says that connections without packets for longer than than end.
	end     bool
	than    time.Duration
	now     time.Time
	current *packet
}

// A numbered packet knows its place among all.
type numbered struct {
	*packet
	sequence int64
}

// startWorkers starts n goroutines that read connections, and one that writes.
func (r *Run) startWorkers(n int) {
	s := &shared{seed: maphash.MakeSeed(), rounds: make(chan *round, maxRounds), done: make(chan struct{})}
	for i := range n {
		p := &part{queue: make(chan *round, maxRounds+1)}
		c := r.config
		c.Cores = 1
		p.run = New(c, r.engine, r.out)
		p.run.maxFlows = maxFlows / n
		s.parts = append(s.parts, p)
		go p.work(i)
	}
	s.round = s.fresh()
	r.shared = s
	go func() {
		defer close(s.done)
		for x := range s.rounds {
			x.left.Wait()
			r.merge(x)
		}
	}()
}

func (s *shared) fresh() *round {
	return &round{packets: make([][]numbered, len(s.parts)), kept: make([][]entry, len(s.parts))}
}

// add gives a packet to the part that has its connection.
func (s *shared) add(r *Run, p *packet) {
	i := maphash.Comparable(s.seed, r.keyOf(p)) % uint64(len(s.parts))
	s.round.packets[i] = append(s.round.packets[i], numbered{p, r.sequence})
	s.round.count++
	r.now, r.current = p.time, p
	if s.round.count >= roundPackets {
		s.send()
	}
}

// send gives the round to the parts. It waits while too many are under way.
func (s *shared) send() {
	x := s.round
	x.left.Add(len(s.parts))
	s.rounds <- x
	for _, p := range s.parts {
		p.queue <- x
	}
	s.round = s.fresh()
}

// end ends connections without packets for longer than so.
func (s *shared) end(r *Run, than time.Duration) {
	s.send()
	x := s.round
	x.end, x.than, x.now, x.current = true, than, r.now, r.current
	s.send()
}

// work reads one round after the other.
func (p *part) work(i int) {
	r := p.run
	for x := range p.queue {
		var kept []entry
		r.kept = &kept
		for _, n := range x.packets[i] {
			r.sequence = n.sequence
			r.handle(n.packet)
		}
		if x.end {
			r.now, r.current = x.now, x.current
			r.expire(x.than)
		}
		x.packets[i], x.kept[i] = nil, kept
		x.left.Done()
	}
}

// merge writes what came of a round.
func (r *Run) merge(x *round) {
	all := slices.Concat(x.kept...)
	arrange.By(all, func(a, b entry) int { return cmp.Compare(a.sequence, b.sequence) })
	for i := range all {
		r.write(&all[i])
	}
}

// stop waits until all that was read is written, and ends the goroutines.
func (r *Run) stop() {
	s := r.shared
	if s == nil || s.rounds == nil {
		return
	}
	s.send()
	for _, p := range s.parts {
		close(p.queue)
	}
	close(s.rounds)
	<-s.done
	s.rounds = nil
}

// sum adds up what the parts have read. It is for when they have stopped.
func (s *shared) sum(t *Stats) {
	t.packets, t.bytes, t.payload, t.flows, t.wrong = 0, 0, 0, 0, 0
	for _, p := range s.parts {
		x := p.run.Stats()
		t.packets, t.bytes, t.payload = t.packets+x.packets, t.bytes+x.bytes, t.payload+x.payload
		t.flows, t.wrong = t.flows+x.flows, t.wrong+x.wrong
	}
}
