package nameserver

import (
	"hash/maphash"
	"slices"
	"unsafe"

	"golang.org/x/net/publicsuffix"

	"shuultuur/lib/dns"
)

// domainQueues holds the queries that wait for a worker, one queue for each
// registered domain. A domain may occupy an eighth of the free workers. So a
// domain whose servers are slow, or one under a random subdomain attack, leaves
// workers for the others, even when there are several such domains.
//
// The domains are served in rotation, whatever the length of their queues. When
// the total is at its limit, a new query displaces the oldest query of the
// longest queue. So one domain may use the whole length while no other domain
// needs it.
//
// A client that has half of the workers gets no more while others wait for one: it cannot hold them all
// by asking for many slow domains.
//
// A keyed hash of the domain selects the queue: the table has a fixed size, and
// an attacker cannot choose to share a queue with a certain domain. Queries over
// connections, whose addresses cannot be forged, have other queues than queries
// over UDP.
type domainQueues struct {
	seed    maphash.Seed
	workers int // the limit
	busy    int // workers in use
	queued  int // in all queues
	ring    int // queues that are not empty
	turn    uint16
	longest uint16 // the longest queue, as far as is known
	next    uint16 // the queue to compare with it next
	of      [1 << 12]domainQueue
	clients [1 << 12]int32 // workers of each client, by a hash of its address
}

// A domainQueue is the queries for the names of one domain.
type domainQueue struct {
	first, last *job // the oldest first
	queued      int32
	busy        int32  // workers
	next, prev  uint16 // in the ring of queues that are not empty
}

const (
	half      = 2   // a client may have one in so many of the workers
	looked    = 256 // queues that are looked at for one job
	portion   = 8   // a domain may have one in so many of the free workers
	atLeast   = 4   // and always so many
	compareds = 8   // queues compared for each query that is displaced
)

func newDomainQueues(workers int) *domainQueues {
	return &domainQueues{seed: maphash.MakeSeed(), workers: workers}
}

// place returns the index of a domain's queue. It is never 0, which is the
// queue for our own names.
func (c *domainQueues) place(domain []byte, udp bool) uint16 {
	h := maphash.Bytes(c.seed, domain)
	if !udp {
		h++
	}
	return 1 + uint16(h%uint64(len(c.of)-1))
}

// clientOf returns the index of a job's client: its address, or of IPv6 its /64.
func (c *domainQueues) clientOf(j *job) uint16 {
	addr := j.client.Addr().Unmap()
	if addr.Is6() {
		if p, err := addr.WithZone("").Prefix(64); err == nil {
			addr = p.Addr()
		}
	}
	of := addr.As16()
	return c.place(of[:], j.transport == dns.UDP)
}

// greedy reports whether the client of a queue's first job has its share of the workers. If it has, the
// next job of the queue is the first.
func (c *domainQueues) greedy(i uint16) bool {
	x := &c.of[i]
	if i == 0 || int(c.clients[x.first.of]) < max(c.workers/half, atLeast) {
		return false
	}
	if j := x.first; j.next != nil {
		x.first, x.last.next, x.last, j.next = j.next, j, j, nil
	}
	return true
}

// full reports whether a domain has all workers that it may have.
func (c *domainQueues) full(i uint16) bool {
	return i != 0 && int(c.of[i].busy) >= max((c.workers-c.busy)/portion, atLeast)
}

// enter puts a job at the end of its domain's queue, or at its head.
func (c *domainQueues) enter(j *job, head bool) {
	x := &c.of[j.domain]
	switch {
	case x.first == nil:
		x.first, x.last, j.next = j, j, nil
		c.join(j.domain)
	case head:
		x.first, j.next = j, x.first
	default:
		x.last.next, x.last, j.next = j, j, nil
	}
	x.queued++
	c.queued++
}

// leave removes the first job of a queue.
func (c *domainQueues) leave(i uint16) *job {
	x := &c.of[i]
	j := x.first
	if x.first = j.next; x.first == nil {
		x.last = nil
		c.part(i)
	}
	j.next = nil
	x.queued--
	c.queued--
	return j
}

// join makes a queue the last of the ring, and part removes it.
func (c *domainQueues) join(i uint16) {
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

func (c *domainQueues) part(i uint16) {
	x := &c.of[i]
	c.of[x.prev].next, c.of[x.next].prev = x.next, x.prev
	if c.turn == i {
		c.turn = x.next
	}
	c.ring--
}

// ready returns the next queue that is not empty, and whose domain and whose client may have
// another worker. The next call goes on where it ends.
func (c *domainQueues) ready() (uint16, bool) {
	for range min(c.ring, looked) {
		i := c.turn
		if !c.full(i) && !c.greedy(i) {
			return i, true
		}
		c.turn = c.of[i].next
	}
	return 0, false
}

// displace removes the oldest job of the longest queue, after queue i has grown.
// The longest queue is found step by step, a few comparisons at each call.
func (c *domainQueues) displace(i uint16) *job {
	compare := func(i uint16) {
		if c.of[i].queued > c.of[c.longest].queued {
			c.longest = i
		}
	}
	compare(i)
	for range compareds {
		c.next = (c.next + 1) % uint16(len(c.of))
		compare(c.next)
	}
	return c.leave(c.longest)
}

// begin counts a worker for a job.
func (c *domainQueues) begin(j *job) {
	c.busy++
	c.of[j.domain].busy++
	c.clients[j.of]++
}

// end is called when the worker is free again.
func (c *domainQueues) end(j *job) {
	c.busy--
	c.of[j.domain].busy--
	c.clients[j.of]--
}

// domain returns the suffix of the question's name that identifies the operator
// of its servers: the registered domain, or the public suffix itself if it
// belongs to a company.
func domain(q *dns.Query) []byte {
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

// A memo is the domain that a handler determined last, because the next query
// often has the same.
type memo struct {
	length int // 0: none
	domain [64]byte
}

// of reports whether the name in the question has that domain.
func (m *memo) of(q *dns.Query) bool {
	at := len(q.Name) - m.length
	return m.length > 0 && at >= 0 && string(q.Name[at:]) == string(m.domain[:m.length]) && slices.Contains(q.Labels, uint8(at))
}

// domainOf is domain, with the memo.
func (l *handler) domainOf() []byte {
	if l.memo.of(&l.q) {
		return l.memo.domain[:l.memo.length]
	}
	d := domain(&l.q)
	if l.memo.length = 0; len(d) <= len(l.memo.domain) && len(d) < len(l.q.Name) {
		l.memo.length = copy(l.memo.domain[:], d)
	}
	return d
}

// deferOrServeStale decides on a query for which a responder has to wait. When the domain has
// no free worker and an expired answer is available, the client gets that; else a
// worker continues.
func (l *handler) deferOrServeStale() dns.Outcome {
	if l.domain = 0; !l.r.RA {
		return dns.Later // a zone of our own
	}
	udp := l.q.Transport == dns.UDP
	l.domain = l.s.queue.place(l.domainOf(), udp)
	if !l.r.Stale || !l.s.queue.full(l.domain) {
		return dns.Later
	}
	l.r.Reset()
	l.q.Late = true
	return l.ask()
}
