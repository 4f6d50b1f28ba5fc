// Package wire reads DNS queries and writes answers as bytes, without
// allocating: the common question is answered from the buffer it came in to
// the buffer that is sent.
//
// A server parses a datagram into a [Query], asks its [Responder]s in order
// until one does not decline, and finishes the [Reply]: header flags, OPT,
// truncation. What is odd or rare is read with the full codec by whoever needs
// it, from Query.Msg.
package wire

import (
	"context"
	"net/netip"
	"time"

	"shuultuur/filter"
)

// A Transport is how a query came in.
type Transport uint8

const (
	UDP Transport = iota
	TCP
	TLS   // DoT, RFC 7858
	HTTPS // DoH, RFC 8484
	QUIC  // DoQ, RFC 9250
)

func (t Transport) String() string {
	return [...]string{"udp", "tcp", "tls", "https", "quic"}[t%5]
}

// Encrypted says whether others on the way can read it.
func (t Transport) Encrypted() bool { return t >= TLS }

// A Query is one question as it came in. Its slices point into Msg or into
// the Query itself: a responder that keeps anything copies it. It is used
// again for the next query.
type Query struct {
	Msg       []byte         // the whole message, without a length prefix
	Client    netip.AddrPort // unmapped
	Local     netip.Addr     // the address it was sent to, where known
	Transport Transport
	At        time.Time // when it was read; one reading of the clock a batch

	ID     uint16
	Flags  uint16 // the header's second word: QR, opcode, AA, TC, RD, RA, Z, AD, CD, rcode
	Type   uint16
	Class  uint16
	End    int     // Msg[12:End] is the question
	Name   []byte  // the name asked for: wire form, lower case, with the root's zero
	Labels []uint8 // where each label starts in Name, the root's zero not counted

	// EDNS(0), RFC 6891; all zero when there was no OPT.
	EDNS      bool
	Version   uint8
	DO        bool
	CO        bool         // compact answers are understood, RFC 9824
	Size      uint16       // what the client takes over UDP: at least 512
	Cookie    []byte       // RFC 7873: 8 bytes, or 16 to 40 with the server's part
	Subnet    netip.Prefix // RFC 7871, when HasSubnet
	HasSubnet bool
	NSID      bool // RFC 5001
	Padding   bool // RFC 7830
	Keepalive bool // RFC 7828

	TSIG int // where the TSIG record begins in Msg, RFC 8945; 0 for none

	// Recursion says that recursion is offered to this client: a responder
	// that would ask others declines when it is false.
	Recursion bool

	// Late says that there is no time to ask others: a responder that said
	// Reply.Stale answers with what it has.
	Late bool

	name   [256]byte
	labels [128]uint8
}

// RD, CD and AD are the bits of the query's header.
func (q *Query) RD() bool { return q.Flags&flagRD != 0 }
func (q *Query) CD() bool { return q.Flags&flagCD != 0 }
func (q *Query) AD() bool { return q.Flags&flagAD != 0 }

const (
	flagQR = 1 << 15
	flagAA = 1 << 10
	flagTC = 1 << 9
	flagRD = 1 << 8
	flagRA = 1 << 7
	flagAD = 1 << 5
	flagCD = 1 << 4
)

// A Reply is the answer as it grows. Buf starts as the header with ID, opcode
// and RD of the query and the question as it was sent (case kept); responders
// append whole records to it and add up the counts. Owner names that are the
// question's are written as a pointer to offset 12. The OPT record is not
// theirs: the server writes it, and there is room for it beyond Limit.
type Reply struct {
	Buf   []byte
	Limit int // bytes Buf may have; a responder that needs more sets TC and drops what does not fit, whole RRsets at a time

	Answers, Authorities, Additionals uint16

	Rcode          uint16 // with the EDNS part
	AA, TC, RA, AD bool
	CO             bool // the answer denies compactly, and so that the client knows (RFC 9824 section 5.1)

	// EDE is an Extended DNS Error, RFC 8914, when HasEDE. Text is cut to what
	// fits.
	HasEDE  bool
	EDE     uint16
	EDEText []byte

	// Stale says, with Later, that there is an answer which is beyond its time
	// (RFC 8767), for a query that is Late.
	Stale bool

	// Wildcard is where in the query's Name the parent of the wildcard begins
	// that the answer was made from, 0 for none: for rate limits all its names
	// are one.
	Wildcard int

	// Scope is how many bits of the client's subnet the answer depends on
	// (RFC 7871), when HasScope.
	Scope    uint8
	HasScope bool

	q *Query

	// T is the transaction the filter judged, for the record; T.Proto is DNS
	// and T.Verdict says why. Zones of our own leave it empty.
	T filter.Transaction

	// Text is memory for what T and EDEText point to. It is used again by the
	// next reply: who keeps T copies its strings.
	Text []byte
}

// An Outcome says what a responder did.
type Outcome uint8

const (
	Declined Outcome = iota // not mine: ask the next one
	Answered                // Reply is whole
	Dropped                 // send nothing
	Later                   // cannot be answered without waiting: call Wait elsewhere
)

// A Responder answers questions. Both methods are called by many goroutines
// at once.
type Responder interface {
	// Answer must not block, lock for long, or allocate on its common paths:
	// it runs on the goroutine that reads the socket.
	Answer(q *Query, r *Reply) Outcome
	// Wait is called for what Answer left for Later, by a bounded number of
	// workers, with a query and a reply of its own. It returns any other
	// outcome, and returns by the deadline of ctx.
	Wait(ctx context.Context, q *Query, r *Reply) Outcome
}

// A Transferrer answers with more than one message (AXFR, IXFR) over a stream.
// A server asks those of its responders that are one before Answer, for these
// two types only.
type Transferrer interface {
	// Transfer calls send for each message, whole, without a length prefix.
	// Declined means nothing was sent: go on with Answer.
	Transfer(ctx context.Context, q *Query, send func(msg []byte) error) (Outcome, error)
}

// A Notifier is told that a zone has changed elsewhere (NOTIFY, RFC 1996). A
// server asks those of its responders that are one; Declined by all is
// answered with NOTAUTH. Notify must not block: it takes the news and does the
// work elsewhere.
type Notifier interface {
	Notify(q *Query, r *Reply) Outcome
}

// An Authenticator knows the keys of TSIG (RFC 8945). Queries that carry one
// (Query.TSIG) are answered by workers, never on the goroutine that reads.
type Authenticator interface {
	// Verify says whether the query is signed by a key we know, now. If not,
	// the reply is NOTAUTH and Sign says why in it.
	Verify(q *Query) bool
	// Sign appends the TSIG record to a whole reply and returns it. There are
	// 512 octets of room.
	Sign(q *Query, reply []byte) []byte
}
