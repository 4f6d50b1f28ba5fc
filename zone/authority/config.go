// Package authority combines our own zones into one [Authority]: zone files (package zone),
// zones in Redis (zone/redins), zones of other servers, and the publisher that signs,
// transfers and announces all of them (zone/transfer).
//
// Zones flow in one direction. A source reads them and passes them to the publisher, which
// passes them to a zone.Responder, which answers queries. [New] reads everything and opens no
// sockets; [Authority.Run] keeps it up to date. New settings make a new Authority from the
// previous one, so that a zone that cannot be read now stays as it was.
package authority

import (
	"context"
	"errors"
	"net/netip"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/zone"
	"shuultuur/zone/redins"
	"shuultuur/zone/transfer"
)

// Config is the settings of our own zones, except for those in Redis.
type Config struct {
	Files    zone.Config     `yaml:",inline"`
	Transfer transfer.Config `yaml:",inline"`
}

// An Upstream queries other name servers.
type Upstream interface {
	redins.Upstream
	// DS looks up the DS records of a zone in its parent zone.
	DS(ctx context.Context, origin string) ([]*miekg.DS, error)
}

// Outside answers queries for names outside all zones.
type Outside struct{ notAuth bool }

// Answer answers NOTAUTH, or lets the server refuse.
func (o Outside) Answer(q *dns.Query, r *dns.Reply, _ *filter.Transaction) dns.Outcome {
	if !o.notAuth || q.Opcode() != miekg.OpcodeQuery {
		return dns.Declined
	}
	r.Rcode = miekg.RcodeNotAuth
	r.HasEDE, r.EDE = true, miekg.ExtendedErrorCodeNotAuthoritative
	return dns.Answered
}

// Wait is never called: Answer defers nothing.
func (Outside) Wait(context.Context, *dns.Query, *dns.Reply, *filter.Transaction) dns.Outcome {
	return dns.Declined
}

// A Summary describes a zone for display.
type Summary struct {
	Origin      string    `json:"origin"`
	View        string    `json:"view,omitempty"`
	From        string    `json:"from"`           // file, redis, primary or catalog
	Path        string    `json:"path,omitempty"` // of the zone file
	Serial      uint32    `json:"serial"`
	Names       int       `json:"names"`
	Records     int       `json:"records"`
	Bytes       int       `json:"bytes"`
	Signed      bool      `json:"signed"`                // answers are signed
	Signs       bool      `json:"signs"`                 // signed with keys of this server
	Expires     time.Time `json:"expires,omitzero"`      // when a secondary zone expires unless the primary answers
	Unavailable string    `json:"unavailable,omitempty"` // why the zone is not served
}

// A State has further properties of a zone for display.
type State struct {
	transfer.Transfers
	DS     []string  `json:"ds,omitempty"`    // for the parent zone, while the zone is signed here
	Resign time.Time `json:"resign,omitzero"` // when signatures are next renewed
}

// NewZone has the initial contents of a new zone.
type NewZone struct {
	Origin  string
	Server  string     // its name server; "" for ns in the zone
	Address netip.Addr // of a name server in the zone
	Trial   bool       // look for mistakes, and make nothing
}

// ErrNoZone reports that there is no such zone, or none that supports the operation.
var ErrNoZone = errors.New("there is no such zone")
