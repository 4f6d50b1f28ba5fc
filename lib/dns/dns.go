// Package dns holds DNS messages as bytes, and all that is known of names:
// it is the only place that parses them.
//
// A server parses a message into a [Query] and starts a [Reply] in a separate
// buffer. A responder appends records to the reply, and the server finishes it:
// header flags, OPT record, truncation. Nothing is allocated on that way. Rare
// cases are read with a full codec by the package that needs it, from Query.Msg.
//
// Names have three forms. Wire form ([Name], [ReadName]) is the form in messages
// and look-ups, in lower case. Presentation form ([Text]) is the form that people
// write and zone files have. A host ([AppendHost], [Host]) is the form that the
// filter compares: lower case, no final dot, punycode.
package dns

import (
	"net/netip"
	"time"
)

// A Transport is the protocol that carried a query.
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

// Encrypted reports whether the messages are encrypted between client and server.
func (t Transport) Encrypted() bool { return t >= TLS }

// An Outcome is the result of a responder for a query.
type Outcome uint8

const (
	Declined Outcome = iota // the next responder is asked
	Answered                // the reply is complete
	Dropped                 // nothing is sent
	Later                   // the answer must wait: a worker continues
)

// A Query is one question. Its slices point into Msg or into the Query itself,
// and the Query is used again for the next message: copy what you keep.
type Query struct {
	Msg       []byte         // the whole message, without a length prefix
	Client    netip.AddrPort // an IPv4 client has an IPv4 address
	Local     netip.Addr     // the destination address, if known
	Transport Transport
	// ClientID is the identifier that the client sends in the path of DNS over
	// HTTPS or in the server name of TLS, in lower case, or "". Nothing proves it.
	ClientID string
	At       time.Time // when it was read; one reading of the clock for a batch

	ID     uint16
	Flags  uint16 // the header's second word: QR, opcode, AA, TC, RD, RA, Z, AD, CD, rcode
	Type   uint16
	Class  uint16
	End    int     // Msg[12:End] is the question
	Name   []byte  // the name in the question: wire form, lower case, with the root's zero
	Labels []uint8 // where each label starts in Name, without the root's

	EDNS // zero if there was no OPT record

	TSIG int // where the TSIG record (RFC 8945) begins in Msg; 0 for none

	// Recursion is true when this client may use us as a resolver. A responder
	// that asks other servers declines when it is false.
	Recursion bool

	// Late is true when no time is left to ask other servers: a responder that
	// set Reply.Stale answers with stale data.
	Late bool

	name   [256]byte
	labels [128]uint8
}

// EDNS has the contents of a query's OPT record (RFC 6891).
type EDNS struct {
	HasEDNS   bool
	Version   uint8
	DO        bool
	CO        bool         // the client understands compact denial, RFC 9824
	Size      uint16       // bytes that the client accepts over UDP: at least 512
	Cookie    []byte       // RFC 7873: 8 bytes, or 16 to 40 with the server's part
	Subnet    netip.Prefix // RFC 7871, when HasSubnet
	HasSubnet bool
	NSID      bool // RFC 5001
	Padding   bool // RFC 7830
	Keepalive bool // RFC 7828
	Expire    bool // RFC 7314
	// Structured is true when the client understands structured error data in
	// the text of an Extended DNS Error: it sends an empty one
	// (draft-ietf-dnsop-structured-dns-error).
	Structured bool
}

// CD reports whether the client asks for answers that are not validated.
func (q *Query) CD() bool { return q.Flags&flagCD != 0 }

// RD reports whether the client wants other servers to be asked for it.
func (q *Query) RD() bool { return q.Flags&flagRD != 0 }

// AD reports whether the client wants to know if the answer was validated.
func (q *Query) AD() bool { return q.Flags&flagAD != 0 }

const (
	flagQR = 1 << 15
	flagRD = 1 << 8
	flagAD = 1 << 5
	flagCD = 1 << 4
)

// A Reply is an answer that grows. Buf starts with the header (ID, opcode and
// RD of the query) and the question as it was sent, with its letter case.
// Responders append whole records and count them. An owner that equals the
// name in the question is written as a pointer to offset 12. The server writes
// the OPT record, for which there is space beyond Limit.
type Reply struct {
	Buf   []byte
	Limit int // bytes that Buf may have; a responder that needs more sets TC and omits whole RRsets

	Answers, Authorities, Additionals uint16

	Rcode          uint16 // with the EDNS part
	AA, TC, RA, AD bool
	CO             bool // the answer is a compact denial that says so (RFC 9824 section 5.1)

	// EDE is an Extended DNS Error (RFC 8914), when HasEDE. Text is truncated to
	// fit.
	HasEDE  bool
	EDE     uint16
	EDEText []byte

	// Stale says, with Later, that an expired answer is available (RFC 8767)
	// for a query that is Late.
	Stale bool

	// Wildcard is the offset in the query's Name of the parent of the wildcard
	// that the answer was made from, 0 for none. Rate limits treat all names
	// of one wildcard as one.
	Wildcard int

	// Scope is the number of bits of the client's subnet that the answer depends on
	// (RFC 7871), if HasScope.
	Scope    uint8
	HasScope bool

	// Expire is the number of seconds after which the zone expires on this server
	// (RFC 7314), when HasExpire.
	Expire    uint32
	HasExpire bool

	// Text is memory for the string that EDEText points to, and for the strings
	// of a transaction that belongs to the reply. The next reply uses it again.
	Text []byte

	q *Query
}
