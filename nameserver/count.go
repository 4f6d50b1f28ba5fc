package nameserver

import (
	"strconv"
	"sync"
	"time"

	"github.com/miekg/dns"

	"shuultuur/nameserver/wire"
)

// A tally is what one goroutine counts, or a few that seldom meet. Its lock is
// held for a batch at a time, so that a reader of UDP pays for it once and
// shares no line of memory with others while it works.
type tally struct {
	mu sync.Mutex
	sums
	_ [128]byte
}

const (
	transports = 5
	rcodes     = 24 // those with a name, BADCOOKIE the last
	times      = 16 // buckets of 250 µs, twice as long each, and one for the rest
	sizes      = 14
)

// sums are counters that only grow.
type sums struct {
	requests [transports][2][len(types) + 1]uint64
	rcodes   [rcodes + 1]uint64
	took     histogram[[times + 1]uint64]
	in, out  [transports]histogram[[sizes + 1]uint64]
	lost     [reasons]uint64
}

type histogram[B any] struct {
	buckets B
	sum     uint64
}

// A reason is why a query got no answer, or not the one it asked for.
type reason uint8

const (
	notDNS     reason = iota // too short, or an answer
	tooLong                  // a datagram longer than any sensible query
	denied                   // from a denied network
	overRate                 // its client asks too much
	rrlDropped               // RRL: no reply
	rrlSlipped               // RRL: truncated reply
	dropped                  // a responder said so
	queueFull                // pushed out of the line by a newer one
	queueOld                 // waited so long that nobody waits for the answer
	unsent                   // the system would not send it
	badCookie                // asked for a cookie first
	connFull                 // connection refused, too many
	clientFull               // connection refused, too many of its client
	badPROXY                 // connection closed, PROXY header malformed
	badFrame                 // connection closed, framing or protocol broken
	panicked                 // a fault of ours, caught
	unlogged                 // answered, but not recorded
	reasons    = int(unlogged) + 1
)

var reasonNames = [reasons]string{
	"not-dns", "too-long", "denied", "rate", "rrl-dropped", "rrl-slipped", "dropped", "queue-full", "queue-old",
	"unsent", "bad-cookie", "connections", "connections-client", "proxy-protocol", "framing", "panic", "not-recorded",
}

// types are those counted by name, as CoreDNS does; others are "other".
var types = [...]uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypeMX, dns.TypeSOA, dns.TypeCNAME, dns.TypePTR, dns.TypeTXT, dns.TypeNS, dns.TypeSRV,
	dns.TypeDS, dns.TypeDNSKEY, dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeCAA,
	dns.TypeTLSA, dns.TypeANY, dns.TypeAXFR, dns.TypeIXFR,
}

// typeIndex is the place of a type in types, and their number for others.
var typeIndex = func() (t [258]uint8) {
	for i := range t {
		t[i] = uint8(len(types))
	}
	for i, v := range types {
		t[v] = uint8(i)
	}
	return t
}()

func indexOf(typ uint16) uint8 {
	if int(typ) < len(typeIndex) {
		return typeIndex[typ]
	}
	return uint8(len(types))
}

// sizeBounds and timeBounds are CoreDNS's.
var sizeBounds = [sizes]int{0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16000, 32000, 48000, 64000}

func timeBound(i int) time.Duration { return 250 * time.Microsecond << i }

func sizeBucket(n int) int {
	for i, b := range sizeBounds {
		if n <= b {
			return i
		}
	}
	return sizes
}

// asked counts a query.
func (s *sums) asked(q *wire.Query) {
	family := 0
	if q.Client.Addr().Is6() {
		family = 1
	}
	s.requests[q.Transport][family][indexOf(q.Type)]++
	h := &s.in[q.Transport]
	h.buckets[sizeBucket(len(q.Msg))]++
	h.sum += uint64(len(q.Msg))
}

// answered counts a reply.
func (s *sums) answered(t wire.Transport, rcode uint16, size int) {
	s.rcodes[min(rcode, rcodes)]++
	h := &s.out[t]
	h.buckets[sizeBucket(size)]++
	h.sum += uint64(size)
}

// lasted counts the time that n replies took.
func (s *sums) lasted(d time.Duration, n int) {
	i := 0
	for i < times && d > timeBound(i) {
		i++
	}
	s.took.buckets[i] += uint64(n)
	s.took.sum += uint64(d) * uint64(n)
}

// add adds up.
func (s *sums) add(o *sums) {
	for t := range s.requests {
		for f := range s.requests[t] {
			for i, n := range o.requests[t][f] {
				s.requests[t][f][i] += n
			}
		}
		for i := range s.in[t].buckets {
			s.in[t].buckets[i] += o.in[t].buckets[i]
			s.out[t].buckets[i] += o.out[t].buckets[i]
		}
		s.in[t].sum += o.in[t].sum
		s.out[t].sum += o.out[t].sum
	}
	for i, n := range o.rcodes {
		s.rcodes[i] += n
	}
	for i, n := range o.took.buckets {
		s.took.buckets[i] += n
	}
	s.took.sum += o.took.sum
	for i, n := range o.lost {
		s.lost[i] += n
	}
}

func rcodeName(i int) string {
	if name, ok := dns.RcodeToString[i]; ok && i < rcodes {
		return name
	}
	return "other"
}

func typeName(i int) string {
	if i == len(types) {
		return "other"
	}
	if name, ok := dns.TypeToString[types[i]]; ok {
		return name
	}
	return "TYPE" + strconv.Itoa(int(types[i]))
}
