// Package zone answers for zones of our own, with authority.
//
// A [Zone] is records as somebody read them: from a file ([Read]), from Redis,
// from a primary. [Responder.Replace] compiles it into a table of names and
// one block of bytes in which each RRset has the form that it is sent in, and puts
// it in the place of the zone of that origin and view; no other zone is
// touched and queries under way finish with what they began with. To answer is
// to find the zone (the longest suffix of the name asked for), walk from there
// down to the name, the cut, the alias or the wildcard, and copy.
//
// What depends on the client is a [Choice] (a part of an RRset, picked by a
// [Picker]) or an [Alias] (the addresses of another name). A signed zone holds
// its signatures and proofs of denial among its records; what cannot be held
// is made by its [Signer], which also signs what a [Change] changes.
package zone

import (
	"context"
	"net/netip"
	"sync/atomic"

	miekg "github.com/miekg/dns"

	"shuultuur/dns"
)

// A Zone is one zone before it is compiled. It is not changed by compiling and
// not kept.
type Zone struct {
	// Origin is the zone's name, fully qualified.
	Origin string
	// View tells zones of one origin apart. Of those whose Clients cover the
	// client, the one with the longest prefix answers, then the first by View.
	View string
	// Clients are the networks that see this zone; none means everybody. Who
	// sees no zone of an origin is answered as if there were none.
	Clients []netip.Prefix
	// Records is all of the zone, one SOA among it, in any order; signatures
	// and proofs of denial included where it is signed. Records of one RRset
	// keep their order. Exact duplicates count once, except in a Choice.
	Records []miekg.RR
	// Choices are RRsets of which not all is answered. At most one for a name
	// and type.
	Choices []Choice
	// Aliases are names that have the addresses of another (ANAME). A and AAAA
	// records at the name itself win over the alias.
	Aliases []Alias
	// Empty are names that exist although they have no records.
	Empty []string
	// Unknown are records that exist and cannot be served: SERVFAIL.
	Unknown []Unknown
	// Unavailable says why nothing of the zone can be served: every query for
	// a name in it is SERVFAIL with this text. Records are not used then.
	Unavailable string
	// ClimbCAA answers a name that exists and has no CAA records with those of
	// the closest name above it, as redins does. (RFC 8659 leaves that to the
	// client.)
	ClimbCAA bool
	// Expires is when a copy of another server's zone expires, in Unix seconds; nil
	// for a zone of our own.
	Expires *atomic.Int64
	// Resolver finds the addresses of aliases whose target no zone here
	// answers for. Without one such an alias is SERVFAIL.
	Resolver Resolver
	// Signer makes what a signed zone does not hold; nil when the records are
	// all there is.
	Signer Signer

	places []place  // of each record, where it was read from a file
	files  []string // that it was read from
}

// A Choice says that a Picker chooses among the records of an RRset. The owner
// may be a wildcard.
type Choice struct {
	Name string // fully qualified
	Type uint16
	Pick Picker
}

// A Picker chooses among n records of an RRset (in the order they have in the
// Zone) for the client of q: q.Subnet when it has one and the Picker trusts
// it, else q.Client. It appends the indexes of those to answer, in the order
// of the answer, to dst. None picked is an answer without records. When the
// choice depends on q.Subnet, scope is the number of its bits that mattered
// and hasScope is true. It must not block or allocate; many goroutines call it
// at once.
type Picker interface {
	Pick(dst []uint16, q *dns.Query, n int) (picked []uint16, scope uint8, hasScope bool)
}

// An Alias gives Name the A and AAAA records of Target, with Name as owner.
type Alias struct {
	Name, Target string // fully qualified; Name may be a wildcard
}

// An Unknown is an RRset that exists but cannot be read. Type 0 means all
// types of the name that the zone has no records of, and all names below it
// that the zone does not have.
type Unknown struct {
	Name string // fully qualified
	Type uint16
}

// A Resolver finds the addresses of a name elsewhere. Many goroutines call it
// at once.
type Resolver interface {
	// Addresses returns the addresses of target, of type A or AAAA. With a nil
	// context it must not wait: ok is false when the answer is not at hand,
	// and the query comes again, with a context, from where waiting is
	// allowed. Then ok false means that it cannot be had. The result is
	// shared: nobody changes it.
	Addresses(ctx context.Context, target string, typ uint16) (_ Addresses, ok bool)
}

// Addresses is what a Resolver found.
type Addresses struct {
	Rcode uint16 // NOERROR or NXDOMAIN
	TTL   uint32
	Addrs []netip.Addr
}

// A Signer makes what a signed zone does not hold: signatures of RRsets that
// are put together for one answer, and, when the zone has no NSEC or NSEC3
// records of its own, proofs of denial. Many goroutines call it at once.
//
// With a nil context it must not wait or sign: what it does not remember it
// refuses with false, having changed nothing, and the query comes again, with
// a context, from where that is allowed. It bounds what it remembers.
type Signer interface {
	// Sign appends the RRSIG records of a set to r.Buf and returns how many.
	// The caller counts them into the section. It is called for authoritative
	// RRsets that have no RRSIG in the zone: chosen ones, those of aliases,
	// and any other the zone left unsigned.
	Sign(ctx context.Context, q *dns.Query, r *dns.Reply, set Set) (n int, ok bool)
	// Deny appends the records of a proof to r.Buf, with their signatures, and
	// adds their number to r.Authorities. It may change r.Rcode (RFC 9824).
	Deny(ctx context.Context, q *dns.Query, r *dns.Reply, d Denial) bool

	// Chain says by which records a zone denies what is not there: those of type
	// NSEC or NSEC3. 0 means by none: Deny does.
	Chain() (typ uint16)
	// SignSet returns the data of the RRSIG records of an RRset of the zone and
	// view. The owner is in wire form and lower case, the records' data are
	// without compression; all of it stays the caller's.
	SignSet(view string, owner []byte, typ uint16, ttl uint32, rdata [][]byte) ([][]byte, error)
	// Forget says that a set which was signed is served no longer.
	Forget(view string, owner []byte, typ uint16, ttl uint32, rdata [][]byte)
}

// A Set is an RRset to sign.
type Set struct {
	// Owner is the name whose records they are, in wire form and lower case;
	// of a wildcard's expansion the name expanded to.
	Owner []byte
	// Pointer is the owner as it stands in the message: two bytes of RFC 1035
	// 4.1.4, the first two of each of Records, and to be those of the RRSIG.
	Pointer uint16
	Type    uint16
	// Wildcard is how many bytes at the front of Owner the asterisk replaced:
	// "*." and Owner[Wildcard:] is what is signed. 0 means none.
	Wildcard int
	// Records are whole records as they were written to the message, in its
	// order. Their data have no compressed names.
	Records []byte
	Count   int
}

// A Denial is something that has to be proven absent.
type Denial struct {
	Kind DenialKind
	// Origin and Name in wire form and lower case: the zone's, and the name
	// asked for (by the client or by the CNAME or DNAME before).
	Origin, Name []byte
	// Pointer is Name as it stands in the message (RFC 1035 4.1.4), for use
	// as an owner there.
	Pointer uint16
	// Encloser is where the closest encloser starts in Name: what is left of
	// it does not exist. 0 when Name itself exists.
	Encloser int
	// Types is the type bitmap of RFC 4034 4.1.2 of Name, or of the wildcard
	// for WildcardNoData, with RRSIG and NSEC in it, and with type 0 where
	// there is an Alias. It may have the type asked for, of which this answer
	// has nothing. Nil when there is nothing there.
	Types []byte
	// TTL for the proof (RFC 9077).
	TTL uint32
}

// A DenialKind says what is denied.
type DenialKind uint8

const (
	NoName         DenialKind = iota // NXDOMAIN: neither Name nor a wildcard for it
	NoData                           // Name exists, not with this type; also of an empty non-terminal
	WildcardNoData                   // Name does not exist, its wildcard does, not with this type
	WildcardAnswer                   // answered from a wildcard: Name itself does not exist
	NoDS                             // a referral: the cut at Name has no DS
)
