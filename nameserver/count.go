package nameserver

import (
	"sync"
	"time"

	"shuultuur/lib/dns"
)

// counters are the counts of one goroutine, or of a few that rarely meet. The
// lock is held for a whole batch, so that a UDP reader takes it once and shares
// no cache line meanwhile.
type counters struct {
	mu sync.Mutex
	sums
	_ [128]byte
}

const (
	transports  = 5
	rcodes      = 24 // the last with a name is BADCOOKIE
	timeBuckets = 16 // the first ends at 250 µs and each other at twice as much; the last has the rest
	sizes       = 14
)

// sums are counters that only increase.
type sums struct {
	requests [transports][2][len(types) + 1]uint64
	rcodes   [rcodes + 1]uint64
	times    histogram[[timeBuckets + 1]uint64]
	in, out  [transports]histogram[[sizes + 1]uint64]
	drops    [reasons]uint64
}

type histogram[B any] struct {
	buckets B
	sum     uint64
}

// A reason is the reason for dropping or limiting a query, a reply or a
// connection.
type reason uint8

const (
	notDNS     reason = iota // too short, or an answer
	tooLong                  // a datagram longer than any sensible query
	denied                   // from a denied network
	overRate                 // the client exceeds its rate
	rrlDropped               // RRL: no reply
	rrlSlipped               // RRL: truncated reply
	dropped                  // a responder dropped it
	queueFull                // displaced by a newer query
	queueOld                 // waited longer than its client would
	unsent                   // the system did not send it
	badCookie                // the client must send our cookie
	connFull                 // connection refused, too many
	clientFull               // connection refused, too many of its client
	badPROXY                 // connection closed, PROXY header malformed
	badFrame                 // connection closed, framing or protocol broken
	panicked                 // a fault in this program, recovered
	unlogged                 // answered, but not passed to the log
	reasons    = int(unlogged) + 1
)

var reasonNames = [reasons]string{
	"not-dns", "too-long", "denied", "rate", "rrl-dropped", "rrl-slipped", "dropped", "queue-full", "queue-old",
	"unsent", "bad-cookie", "connections", "connections-client", "proxy-protocol", "framing", "panic", "not-recorded",
}

// types are counted by name, as CoreDNS does; all others are "other".
var types = [...]uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypeMX, dns.TypeSOA, dns.TypeCNAME, dns.TypePTR, dns.TypeTXT, dns.TypeNS, dns.TypeSRV,
	dns.TypeDS, dns.TypeDNSKEY, dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeCAA,
	dns.TypeTLSA, dns.TypeANY, dns.TypeAXFR, dns.TypeIXFR,
}

// typeIndex is the index of a type in types, and their number for all others.
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

// sizeBounds and timeBound are those of CoreDNS.
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

// query counts a query.
func (s *sums) query(q *dns.Query) {
	family := 0
	if q.Client.Addr().Is6() {
		family = 1
	}
	s.requests[q.Transport][family][indexOf(q.Type)]++
	h := &s.in[q.Transport]
	h.buckets[sizeBucket(len(q.Msg))]++
	h.sum += uint64(len(q.Msg))
}

// reply counts a reply.
func (s *sums) reply(t dns.Transport, rcode uint16, size int) {
	s.rcodes[min(rcode, rcodes)]++
	h := &s.out[t]
	h.buckets[sizeBucket(size)]++
	h.sum += uint64(size)
}

// addTime counts the time that n replies took together.
func (s *sums) addTime(d time.Duration, n int) {
	i := 0
	for i < timeBuckets && d > timeBound(i) {
		i++
	}
	s.times.buckets[i] += uint64(n)
	s.times.sum += uint64(d) * uint64(n)
}

// add adds o to s.
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
	for i, n := range o.times.buckets {
		s.times.buckets[i] += n
	}
	s.times.sum += o.times.sum
	for i, n := range o.drops {
		s.drops[i] += n
	}
}

func rcodeName(i int) string {
	if i < rcodes {
		return dns.RcodeName(uint16(i))
	}
	return "other"
}

func typeName(i int) string {
	if i == len(types) {
		return "other"
	}
	return dns.TypeName(types[i])
}
