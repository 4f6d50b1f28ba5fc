// Package zone answers for our own zones, authoritatively.
//
// A [Zone] is records from a source: a file ([Read]), Redis, a primary. [Responder.Replace]
// compiles it into a table of names and one block of bytes that holds each RRset in the form
// in which it is sent. The table replaces the one with the same origin and view; no other zone
// is touched, and queries in progress finish with the old table.
//
// To answer, the responder finds the zone with the longest matching origin, walks down from
// there to the name, cut, alias or wildcard, and copies the records.
//
// Data that depends on the client is a [Choice] (a part of an RRset, selected by a [Picker])
// or an [Alias] (the addresses of another name). A signed zone has its signatures and proofs
// of denial among its records. Its [Signer] makes those that cannot be made in advance, and
// signs a [Change].
package zone

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// ErrChanged reports that the source of a zone is not the one that was read, so that writing it
// would undo somebody's change.
var ErrChanged = errors.New("the zone was changed meanwhile; read it again, so that no change is lost")

// A Zone is a zone before it is compiled. Compiling neither changes nor keeps it.
type Zone struct {
	// Origin is the zone's name, fully qualified.
	Origin string
	// View distinguishes zones of one origin. Of those whose Clients cover the client, the one
	// with the longest prefix answers, then the first by View.
	View string
	// Clients are the networks that see this zone; none means everybody. To other clients the
	// zone does not exist.
	Clients []netip.Prefix
	// Records are all records of the zone, including one SOA, in any order; signatures and
	// proofs of denial included if it is signed. Records of one RRset keep their order. Exact
	// duplicates count once, except in a Choice.
	Records []miekg.RR
	// Choices are RRsets of which only a part is answered. At most one for a name and type.
	Choices []Choice
	// Aliases are names with the addresses of another (ANAME). A and AAAA records at the name
	// itself take precedence.
	Aliases []Alias
	// Empty are names that exist without records.
	Empty []string
	// Unknown are records that exist but cannot be served: SERVFAIL.
	Unknown []Unknown
	// Unavailable is the reason why the zone cannot be served: every query for a name in it
	// gets SERVFAIL with this text. Records are ignored then.
	Unavailable string
	// ClimbCAA answers a name that exists without CAA records with those of its closest
	// ancestor, as redins does. (RFC 8659 leaves that to the client.)
	ClimbCAA bool
	// Expires is when a copy of another server's zone expires, in Unix seconds; nil for a zone
	// of our own.
	Expires *atomic.Int64
	// Resolver finds the addresses of aliases whose target is not in our zones. Without one,
	// such an alias is SERVFAIL.
	Resolver Resolver
	// Signer makes the proofs and signatures that a signed zone does not hold; nil
	// when the records are complete.
	Signer Signer

	outside []Outside
	places  []place  // of each record that was read from a file
	files   []string // the zone was read from
}

// Line returns the line of the zone's own file, counted from 1, on which record i ends; 0 if it
// is in another file or was not read from one.
func (z *Zone) Line(i int) int {
	if i >= len(z.places) || z.places[i].file != z.files[0] {
		return 0
	}
	return z.places[i].line
}

// A Choice makes a Picker select among the records of an RRset. The owner may be a wildcard.
type Choice struct {
	Name string // fully qualified
	Type uint16
	Pick Picker
}

// A Picker selects among n records of an RRset (in the order of the Zone) for the client of q:
// q.Subnet if there is one and the Picker trusts it, else q.Client. It appends the indexes of
// the selected records to dst, in the order of the answer. If it selects none, the answer has
// no records. When the selection depends on q.Subnet, scope is the number of its bits that
// mattered and hasScope is true. It must not block or allocate, and must be safe for
// concurrent use.
type Picker interface {
	Pick(dst []uint16, q *dns.Query, n int) (picked []uint16, scope uint8, hasScope bool)
}

// An Alias gives Name the A and AAAA records of Target, with Name as owner.
type Alias struct {
	Name, Target string // fully qualified; Name may be a wildcard
}

// An Unknown is an RRset that exists but cannot be read. Type 0 means all types of the name
// that have no records in the zone, and all names below it that do not exist in the zone.
type Unknown struct {
	Name string // fully qualified
	Type uint16
}

// A Resolver finds the addresses of a name elsewhere. It must be safe for concurrent use.
type Resolver interface {
	// Addresses returns the addresses of target, of type A or AAAA. With a nil context it must
	// not wait: ok is false when the answer is not available, and the query is repeated with a
	// context, where waiting is allowed. Then ok false means that there is no answer. The result
	// is shared and must not be changed.
	Addresses(ctx context.Context, target string, typ uint16) (_ Addresses, ok bool)
}

// Addresses is the result of a Resolver.
type Addresses struct {
	Rcode uint16 // NOERROR or NXDOMAIN
	TTL   uint32
	Addrs []netip.Addr
}

// A Signer makes the proofs and signatures that a signed zone does not hold: signatures of
// RRsets made for one answer, and, if the zone has no NSEC or NSEC3 records, proofs of
// denial. It must be safe for concurrent use.
//
// With a nil context it must not wait or sign: it returns false if the result is not cached,
// having changed nothing, and the query is repeated with a context, where that is allowed. Its
// cache is bounded.
type Signer interface {
	// Sign appends the RRSIG records of a set to r.Buf and returns their number. The caller
	// counts them into the section. It is called for authoritative RRsets without RRSIG in the
	// zone: selected ones, those of aliases, and any other the zone left unsigned.
	Sign(ctx context.Context, q *dns.Query, r *dns.Reply, set Set) (n int, ok bool)
	// Deny appends the records of a proof to r.Buf, with their signatures, and adds their number
	// to r.Authorities. It may change r.Rcode (RFC 9824).
	Deny(ctx context.Context, q *dns.Query, r *dns.Reply, d Denial) bool

	// Chain returns the type of the zone's records for denial, NSEC or NSEC3. 0 means that there
	// are none, and Deny makes proofs.
	Chain() (typ uint16)
	// SignSet returns the data of the RRSIG records of an RRset of the zone and view. The owner
	// is in wire form and lower case, the records' data are uncompressed; all of it belongs to
	// the caller.
	SignSet(view string, owner []byte, typ uint16, ttl uint32, rdata [][]byte) ([][]byte, error)
	// Forget reports that a signed set is no longer served.
	Forget(view string, owner []byte, typ uint16, ttl uint32, rdata [][]byte)
}

// A Set is an RRset to sign.
type Set struct {
	// Owner is the name of the records, in wire form and lower case; for a wildcard the name it
	// was expanded to.
	Owner []byte
	// Pointer is the owner in the message: two bytes of RFC 1035 section 4.1.4, which begin each
	// of Records and must begin the RRSIG.
	Pointer uint16
	Type    uint16
	// Wildcard is the length of the part of Owner that the asterisk replaced: "*." and
	// Owner[Wildcard:] are the signed name. 0 means no wildcard.
	Wildcard int
	// Records are whole records as written to the message, in its order. Their data have no
	// compressed names.
	Records []byte
	Count   int
}

// A Denial is something to prove absent.
type Denial struct {
	Kind DenialKind
	// Origin and Name are in wire form and lower case: the zone's, and the queried name (from
	// the client or a CNAME or DNAME).
	Origin, Name []byte
	// Pointer is Name in the message (RFC 1035 section 4.1.4), for use as an owner.
	Pointer uint16
	// Encloser is where the closest encloser starts in Name: the name before it does not exist.
	// 0 when Name itself exists.
	Encloser int
	// Types is the type bitmap (RFC 4034 section 4.1.2) of Name, or of the wildcard for
	// WildcardNoData, including RRSIG and NSEC, and type 0 if there is an Alias. It may have the
	// queried type, of which this answer has no records. Nil if the name does not exist.
	Types []byte
	// TTL for the proof (RFC 9077).
	TTL uint32
}

// A DenialKind is the fact that a denial proves.
type DenialKind uint8

const (
	NoName         DenialKind = iota // NXDOMAIN: neither Name nor a wildcard for it
	NoData                           // Name exists without this type, or is an empty non-terminal
	WildcardNoData                   // Name does not exist; its wildcard does, without this type
	WildcardAnswer                   // answered from a wildcard: prove that Name itself does not exist
	NoDS                             // a referral: the cut at Name has no DS
)

// A place is where a record was read.
type place struct {
	file string
	line int
}

func (p place) String() string {
	switch {
	case p.line == 0:
		return p.file
	case p.file == "":
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}
