package nameserver

import (
	"hash/maphash"
	"slices"
	"unsafe"

	"golang.org/x/net/publicsuffix"

	"shuultuur/nameserver/wire"
)

// shares are the queries about names of others that wait, by domain. A domain
// may have an eighth of the places that are free: one whose servers are slow,
// or whose names somebody makes up (random subdomains), leaves room for the
// others, and several of them do so together. Domains are told apart by a
// keyed hash, so that the table has a fixed size and nobody can aim at a
// neighbour's place in it.
type shares struct {
	seed   maphash.Seed
	places int // queries that can wait, all in all
	taken  int
	of     [1 << 12]int32
}

const (
	shareOf     = 8 // of what is free a domain may have one part in so many
	fewestShare = 4 // and always so many
)

func newShares(places int) shares {
	return shares{seed: maphash.MakeSeed(), places: places}
}

// slot is the place of a domain, never 0, which is for what has none.
func (s *shares) slot(domain []byte) int {
	return 1 + int(maphash.Bytes(s.seed, domain)%uint64(len(s.of)-1))
}

func (s *shares) full(slot int) bool {
	return int(s.of[slot]) >= max((s.places-s.taken)/shareOf, fewestShare)
}

func (s *shares) take(slot, n int) {
	s.taken += n
	s.of[slot] += int32(n)
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

// A crowd is the domain that a lane has found full last, so that the next
// query for it need not be looked at so closely.
type crowd struct {
	slot   int
	length int // 0: none
	domain [64]byte
}

// has says whether the name asked for is of that domain.
func (c *crowd) has(q *wire.Query) bool {
	if c.length == 0 || len(q.Name) <= c.length {
		return false
	}
	at := len(q.Name) - c.length
	return string(q.Name[at:]) == string(c.domain[:c.length]) && slices.Contains(q.Labels, uint8(at))
}

// full says whether so many queries of a domain wait that no more may.
func (u *queue) full(slot int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.shares.full(slot)
}

// later leaves a query that a responder has to wait for to the workers, but
// not if too many of its domain wait already.
func (l *lane) later() wire.Outcome {
	if l.share = 0; !l.r.RA {
		return wire.Later // a name of our own
	}
	of := domain(&l.q)
	l.share = l.s.queue.shares.slot(of)
	if !l.s.queue.full(l.share) {
		return wire.Later
	}
	if len(of) <= len(l.crowd.domain) {
		l.crowd.slot, l.crowd.length = l.share, copy(l.crowd.domain[:], of)
	}
	l.r.Reset()
	return l.hurry()
}

// hurry is ask for a query that nobody is to wait for.
func (l *lane) hurry() wire.Outcome {
	l.q.Late = true
	o := l.ask()
	if l.r.RA && l.r.Rcode == servFail {
		l.lose(domainFull)
		l.r.HasEDE, l.r.EDE, l.r.EDEText = true, edeOther, shareText
	}
	return o
}

var shareText = []byte("too many queries wait for this domain")
