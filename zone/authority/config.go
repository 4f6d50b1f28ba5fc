// Package authority joins what answers for zones of our own into one
// [Authority]: zone files (package zone), zones in Redis (zone/redins), zones of
// other servers, and the publisher that signs, sends and announces all of them
// (zone/transfer).
//
// Zones move in one direction. A source reads them and hands them to the
// publisher, which hands them to a zone.Responder, from which queries are
// answered. [New] reads everything and opens no sockets; [Authority.Run] keeps it
// fresh. New settings make a new Authority of the one before, so that a zone that
// cannot be read now stays as it was.
package authority

import (
	"context"
	"errors"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/dns"
	"shuultuur/filter"
	"shuultuur/zone"
	"shuultuur/zone/redins"
	"shuultuur/zone/transfer"
)

// Config is the settings of zones of our own, but for those in Redis.
type Config struct {
	Files    zone.Config     `yaml:",inline"`
	Transfer transfer.Config `yaml:",inline"`
}

// Upstream asks other name servers.
type Upstream interface {
	redins.Upstream
	// DS looks up the DS records that the parent zone has of a zone.
	DS(ctx context.Context, origin string) ([]*miekg.DS, error)
}

// Outside answers queries for names that are in no zone.
type Outside struct{ notAuth bool }

// Answer answers with NOTAUTH, or leaves it to the server to refuse.
func (o Outside) Answer(q *dns.Query, r *dns.Reply, _ *filter.Transaction) dns.Outcome {
	if !o.notAuth || q.Opcode() != miekg.OpcodeQuery {
		return dns.Declined
	}
	r.Rcode = miekg.RcodeNotAuth
	r.HasEDE, r.EDE = true, miekg.ExtendedErrorCodeNotAuthoritative
	return dns.Answered
}

// Wait is never needed: Answer leaves nothing for later.
func (Outside) Wait(context.Context, *dns.Query, *dns.Reply, *filter.Transaction) dns.Outcome {
	return dns.Declined
}

// A Shown is what there is to show of a zone.
type Shown struct {
	Origin      string    `json:"origin"`
	View        string    `json:"view,omitempty"`
	From        string    `json:"from"`           // file, redis, primary or catalog
	Path        string    `json:"path,omitempty"` // of the file
	Serial      uint32    `json:"serial"`
	Names       int       `json:"names"`
	Records     int       `json:"records"`
	Bytes       int       `json:"bytes"`
	Signed      bool      `json:"signed"`                // the answers carry DNSSEC
	Signs       bool      `json:"signs"`                 // with keys of this server
	Expires     time.Time `json:"expires,omitzero"`      // unless the primary answers
	Unavailable string    `json:"unavailable,omitempty"` // why nothing of it is served
}

// ErrNoZone says that there is no such zone, or none of which that can be done.
var ErrNoZone = errors.New("there is no such zone")
