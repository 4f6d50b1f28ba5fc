package capture

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// Limits of the data that several goroutines hold.
const (
	maxCores     = 64
	roundPackets = 512
	maxRounds    = 24 // read and not yet written
)

// shared is the state of a Run with several goroutines. Packets are collected in rounds. The
// hash of a packet's connection selects the part that parses it; each part proceeds from round
// to round independently. A writer merges the results of a round in the order of the packets,
// so that records and alerts, with their thresholds, are the same as with one goroutine.
type shared struct {
	parts []*part
	seed  maphash.Seed
	round *round // being collected
	// rounds are those passed to the parts, for the writer.
	rounds chan *round
	done   chan struct{} // closed when the writer has written everything
}

// A part parses some of the connections.
type part struct {
	run   *Run
	queue chan *round
}

// A round is a series of packets, or the end of connections.
type round struct {
	packets [][]numberedPacket // by part
	kept    [][]entry          // by part
	count   int
	left    sync.WaitGroup // parts that have not finished it
	// end means that connections without packets for longer than than must end.
	end     bool
	than    time.Duration
	now     time.Time
	current *packet
}

// A numberedPacket is a packet with its number.
type numberedPacket struct {
	*packet
	sequence int64
}

// startWorkers starts n goroutines that parse connections, and one that writes.
func (r *Run) startWorkers(n int) {
	s := &shared{seed: maphash.MakeSeed(), rounds: make(chan *round, maxRounds), done: make(chan struct{})}
	for i := range n {
		p := &part{queue: make(chan *round, maxRounds+1)}
		c := r.config
		c.Cores = 1
		p.run = New(c, r.engine, r.out)
		p.run.maxFlows, p.run.transfers = maxFlows/n, r.transfers
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
	return &round{packets: make([][]numberedPacket, len(s.parts)), kept: make([][]entry, len(s.parts))}
}

// add adds a packet to those for the part with its connection.
func (s *shared) add(r *Run, p *packet) {
	i := maphash.Comparable(s.seed, r.keyOf(p)) % uint64(len(s.parts))
	s.round.packets[i] = append(s.round.packets[i], numberedPacket{p, r.sequence})
	s.round.count++
	r.now, r.current = p.time, p
	if s.round.count >= roundPackets {
		s.send()
	}
}

// send passes the round to the parts. It waits while too many rounds are in progress.
func (s *shared) send() {
	x := s.round
	x.left.Add(len(s.parts))
	s.rounds <- x
	for _, p := range s.parts {
		p.queue <- x
	}
	s.round = s.fresh()
}

// end ends connections without packets for longer than than.
func (s *shared) end(r *Run, than time.Duration) {
	s.send()
	x := s.round
	x.end, x.than, x.now, x.current = true, than, r.now, r.current
	s.send()
}

// work processes one round after the other.
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

// merge writes the results of a round.
func (r *Run) merge(x *round) {
	all := slices.Concat(x.kept...)
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.sequence, b.sequence) })
	for i := range all {
		r.write(&all[i])
	}
}

// stop waits until everything was written, and ends the goroutines.
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

// sum adds up the statistics of the parts, after they have stopped.
func (s *shared) sum(t *Stats) {
	t.packets, t.bytes, t.payload, t.flows, t.wrong = 0, 0, 0, 0, 0
	for _, p := range s.parts {
		x := p.run.Stats()
		t.packets, t.bytes, t.payload = t.packets+x.packets, t.bytes+x.bytes, t.payload+x.payload
		t.flows, t.wrong = t.flows+x.flows, t.wrong+x.wrong
	}
}
