package nameserver

import (
	"hash/maphash"
	"slices"
	"unsafe"

	"golang.org/x/net/publicsuffix"

	"shuultuur/nameserver/wire"
)

// crowds are the queries that wait, by domain. A domain may have an eighth of the
// workers that are free: one whose servers are slow, or whose names somebody
// makes up (random subdomains), leaves room for the others, and several of them
// do so together. What is over that stands in line, where domains have their
// turns, however many queries there are for one; who comes when the line is full
// pushes out the oldest of the domain that has the most. So one domain may have
// the whole line, as long as nobody else needs it.
//
// Domains are told apart by a keyed hash, so that the table has a fixed size and
// nobody can aim at a neighbour's place in it. Clients that come by a connection,
// which cannot be forged, do not share a place with those by UDP.
type crowds struct {
	seed    maphash.Seed
	workers int // all there may be
	busy    int // at work, of all crowds
	inLine  int // of all crowds
	ring    int // crowds that have somebody in line
	turn    uint16
	most    uint16 // the crowd with the most in line, as far as is known
	look    uint16 // which one to look at next for having more
	of      [1 << 12]crowd
}

// A crowd is the queries for names of one domain.
type crowd struct {
	first, last *job // in line, the oldest first
	inLine      int32
	atWork      int32
	next, prev  uint16
}

const (
	shareOf     = 8 // of the free workers a domain may have one in so many
	fewestShare = 4 // and always so many
	lookedAt    = 8 // crowds looked at for each query that is pushed out
)

func newCrowds(workers int) *crowds {
	return &crowds{seed: maphash.MakeSeed(), workers: workers}
}

// place is where a domain has its crowd, never 0, which is for what has none.
func (c *crowds) place(domain []byte, udp bool) uint16 {
	h := maphash.Bytes(c.seed, domain)
	if !udp {
		h++
	}
	return 1 + uint16(h%uint64(len(c.of)-1))
}

// full says that a crowd has all workers it may have.
func (c *crowds) full(i uint16) bool {
	return i != 0 && int(c.of[i].atWork) >= max((c.workers-c.busy)/shareOf, fewestShare)
}

// enter puts a job at the end of its crowd's line, or at its head.
func (c *crowds) enter(j *job, head bool) {
	x := &c.of[j.crowd]
	switch {
	case x.first == nil:
		x.first, x.last, j.next = j, j, nil
		c.join(j.crowd)
	case head:
		x.first, j.next = j, x.first
	default:
		x.last.next, x.last, j.next = j, j, nil
	}
	x.inLine++
	c.inLine++
}

// leave takes the first out of a crowd's line.
func (c *crowds) leave(i uint16) *job {
	x := &c.of[i]
	j := x.first
	if x.first = j.next; x.first == nil {
		x.last = nil
		c.part(i)
	}
	j.next = nil
	x.inLine--
	c.inLine--
	return j
}

// join makes a crowd the last of the ring, and part takes it out.
func (c *crowds) join(i uint16) {
	x := &c.of[i]
	if c.ring == 0 {
		x.next, x.prev, c.turn = i, i, i
	} else {
		before := c.of[c.turn].prev
		x.next, x.prev = c.turn, before
		c.of[before].next, c.of[c.turn].prev = i, i
	}
	c.ring++
}

func (c *crowds) part(i uint16) {
	x := &c.of[i]
	c.of[x.prev].next, c.of[x.next].prev = x.next, x.prev
	if c.turn == i {
		c.turn = x.next
	}
	c.ring--
}

// ready returns the next crowd that has somebody in line and may have another
// worker. No more than workers/fewestShare are passed over.
func (c *crowds) ready() (uint16, bool) {
	for range c.ring {
		i := c.turn
		if !c.full(i) {
			return i, true
		}
		c.turn = c.of[i].next
	}
	return 0, false
}

// pushOut takes the oldest of the largest crowd out of the line, when one has
// come to crowd i. Which one is the largest is found out bit by bit.
func (c *crowds) pushOut(i uint16) *job {
	most := func(i uint16) {
		if c.of[i].inLine > c.of[c.most].inLine {
			c.most = i
		}
	}
	most(i)
	for range lookedAt {
		c.look = (c.look + 1) % uint16(len(c.of))
		most(c.look)
	}
	return c.leave(c.most)
}

// begin counts a job as at work.
func (c *crowds) begin(i uint16) {
	c.busy++
	c.of[i].atWork++
}

// end counts one that was.
func (c *crowds) end(i uint16) {
	c.busy--
	c.of[i].atWork--
}

// domain is the end of the name asked for that stands for whoever answers
// there: what can be registered, or, below a suffix that is a company's own,
// all of that.
func domain(q *wire.Query) []byte {
	var buf [256]byte
	text := buf[:0]
	for _, i := range q.Labels {
		text = append(append(text, q.Name[i+1:i+1+q.Name[i]]...), '.')
	}
	if len(text) == 0 {
		return q.Name
	}
	text = text[:len(text)-1]
	suffix, icann := publicsuffix.PublicSuffix(unsafe.String(&text[0], len(text)))
	at := len(text) - len(suffix) // of the suffix in the name, too
	company := false
	for i := range len(suffix) {
		company = company || !icann && suffix[i] == '.'
	}
	if company {
		return q.Name[at:]
	}
	from := 0
	for _, i := range q.Labels {
		if int(i) >= at {
			break
		}
		from = int(i)
	}
	return q.Name[from:]
}

// A memo is the domain that a lane has worked out last: the next query is
// often of the same.
type memo struct {
	length int // 0: none
	domain [64]byte
}

// of says whether the name asked for is of that domain.
func (m *memo) of(q *wire.Query) bool {
	at := len(q.Name) - m.length
	return m.length > 0 && at >= 0 && string(q.Name[at:]) == string(m.domain[:m.length]) && slices.Contains(q.Labels, uint8(at))
}

// domainOf is domain with a memo.
func (l *lane) domainOf() []byte {
	if l.memo.of(&l.q) {
		return l.memo.domain[:l.memo.length]
	}
	d := domain(&l.q)
	if l.memo.length = 0; len(d) <= len(l.memo.domain) && len(d) < len(l.q.Name) {
		l.memo.length = copy(l.memo.domain[:], d)
	}
	return d
}

// later leaves a query that a responder has to wait for to the workers. If
// none is free for its domain, and an answer that is beyond its time lies
// ready, that is given.
func (l *lane) later() wire.Outcome {
	if l.crowd = 0; !l.r.RA {
		return wire.Later // a name of our own
	}
	udp := l.q.Transport == wire.UDP
	l.crowd = l.s.queue.place(l.domainOf(), udp)
	if !l.r.Stale || !l.s.queue.full(l.crowd) {
		return wire.Later
	}
	l.r.Reset()
	l.q.Late = true
	return l.ask()
}
