// Package resolver answers queries for names outside our zones: filtered by the client's
// policy, from the cache or from upstreams.
//
// A query is a lookup (lookup.go), which goes three steps. It finds where the answer comes from:
// local names (hosts, and names that must not leak), the verdict of the policy, or the [Store].
// It fetches the answer from the Store's cache, or leaves the query for [Resolver.Wait], which has
// the Store query upstreams; duplicate queries wait for the one in progress. Then the policy
// judges the answer's aliases (judge.go), and its addresses if lists contain any, because it was
// fetched for another client.
//
// Answers that differ by policy (SafeSearch, redirects, HTTPS records without h3, DNS64) are
// derived from the plain ones once and cached beside them as variants (variant.go, mapped.go).
//
// A Resolver never changes: new settings make a new one with the same Store.
package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// Config sets how to answer names.
type Config struct {
	Block Block `yaml:"block"`
	// Hosts are local names, or names with another answer: one or more addresses, or another
	// name. "*.lab.example" is every name below lab.example.
	Hosts map[string]setting.OneOrMore[string] `yaml:"hosts"`
	// HostsFiles have the form of /etc/hosts.
	HostsFiles setting.OneOrMore[setting.File] `yaml:"hosts-files"`
	// Private are domains whose names may have addresses in private networks; "*" is all. Other
	// answers with such addresses are refused, because a page on the Internet could use them to
	// reach local devices (DNS rebinding). Domains with a route need not be named.
	Private setting.OneOrMore[string] `yaml:"private"`
	// DNS64 makes IPv6 addresses for names that have only IPv4 addresses.
	DNS64 DNS64 `yaml:"dns64"`
}

// Block sets how to answer a refused name if the policy does not.
type Block struct {
	Answer filter.Answer    `yaml:"answer"` // default zero
	TTL    setting.Duration `yaml:"ttl"`    // of a refusal; default 10s
	// Sinkhole are the addresses of the server with the block page, which is our own.
	Sinkhole setting.OneOrMore[netip.Addr] `yaml:"sinkhole"`
	// Contact and Organization are shown by clients that support structured errors: addresses
	// such as mailto:help@example.com or tel:+31201234567, and who filters.
	Contact      setting.OneOrMore[string] `yaml:"contact"`
	Organization string                    `yaml:"organization"`
	// Warn is the action for a warning, which a DNS answer cannot show: block, sinkhole or pass.
	// Default: sinkhole if there is one, else block.
	Warn string `yaml:"warn"`
}

// Parts are the parts that a resolver needs.
type Parts struct {
	Decider filter.Decider
	// Count counts a query that the decider has judged, and sets a refusal when a limit or a
	// quota is used up. It must not wait. nil: nothing is counted.
	Count func(*filter.Transaction)
	// Identify returns the client at an address, or with a ClientID, which may be "". It must
	// not wait.
	Identify func(addr netip.Addr, clientID string) filter.Client
	// Await is Identify for a client whose groups are not known at once: it waits for them. nil:
	// nobody's groups are waited for.
	Await func(ctx context.Context, addr netip.Addr, clientID string) filter.Client
	Store *Store
	// Set returns the number of the upstreams that answer a client, 0 for those of everybody. nil:
	// nobody has others.
	Set func(c *filter.Client, now time.Time) uint8
	// Addresses reports that rules or lists contain addresses, so that those in answers are
	// judged too.
	Addresses bool
	// Routed are domains, in wire form, with their own upstreams, which answer all their
	// names; these may have private addresses.
	Routed [][]byte
	// Needs are hosts that the gateway asks for itself. Policies do not refuse them to this machine.
	Needs []string
	// Validated reports that the store's answers are validated: one that fails may be
	// forged.
	Validated bool
}

// A Resolver is a [wire.Responder].
type Resolver struct {
	parts    Parts
	block    blocker
	needs    *needs
	local    local
	zones    Zones               // nil: none
	private  map[string]struct{} // domains, in wire form
	anywhere bool                // all may have private addresses
	whole    bool                // give reasons even for names that pass
	warn     filter.Action       // the action for a warning: Block or Pass
	warnTo   filter.Answer
	dns64    DNS64
	// dns64Variant is the suffix that dns64 adds to a cache's key.
	dns64Variant uint64

	ids *filter.IDs // of all that are made from one
}

// New makes a resolver. Mistakes in cfg are setting.Errors.
func New(cfg Config, parts Parts) (*Resolver, error) {
	if parts.Decider == nil || parts.Identify == nil || parts.Store == nil {
		return nil, errors.New("a resolver needs a decider, an identity and a store")
	}
	r := &Resolver{parts: parts, private: map[string]struct{}{}, ids: new(filter.IDs), needs: newNeeds(parts.Needs)}
	var err error
	if r.block, err = newBlocker(cfg.Block); err != nil {
		return nil, setting.At("block", err)
	}
	if err := r.warning(cfg.Block); err != nil {
		return nil, setting.At("block.warn", err)
	}
	for i, d := range cfg.Private {
		if d == "*" {
			r.anywhere = true
			continue
		}
		name, err := dns.Name(d)
		if err != nil {
			return nil, setting.At(fmt.Sprintf("private[%d]", i), err)
		}
		r.private[string(name)] = struct{}{}
	}
	if err := r.newDNS64(cfg.DNS64); err != nil {
		return nil, err
	}
	if r.local, err = newLocal(cfg); err != nil {
		return nil, err
	}
	for _, name := range parts.Routed {
		r.private[string(name)] = struct{}{}
		r.local.routed[string(name)] = struct{}{}
	}
	return r, nil
}

func (r *Resolver) warning(b Block) error {
	r.warn, r.warnTo = filter.Block, filter.Usual
	switch b.Warn {
	case "":
		if len(b.Sinkhole) > 0 {
			r.warnTo = filter.Sinkhole
		}
	case "block":
	case "sinkhole":
		if len(b.Sinkhole) == 0 {
			return errors.New("there is no sinkhole; name its addresses under sinkhole")
		}
		r.warnTo = filter.Sinkhole
	case "pass":
		r.warn = filter.Pass
	default:
		return fmt.Errorf("%q is not one of block, sinkhole and pass", b.Warn)
	}
	return nil
}

// Answer implements [wire.Responder].
func (r *Resolver) Answer(q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome {
	l := lookup{r: r, q: q, a: a, t: t, ctx: r.parts.Store.late, waits: q.Late}
	return l.run()
}

// Wait implements [wire.Responder].
func (r *Resolver) Wait(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome {
	l := lookup{r: r, q: q, a: a, t: t, ctx: ctx, waits: true}
	return l.run()
}

// SeeRefused implements the server's Witness: the checks of the policy that examine
// malformed messages see the message.
func (r *Resolver) SeeRefused(q *dns.Query, t *filter.Transaction) {
	w, ok := r.parts.Decider.(filter.Witness)
	if !ok {
		return
	}
	x := filter.Transaction{Start: q.At, Proto: filter.DNS, Flags: q.Flags, Last: filter.Name}
	x.Client = r.parts.Identify(q.Client.Addr(), q.ClientID)
	if q.End != 0 {
		x.Type, x.Host = q.Type, string(dns.AppendHost(nil, q.Name))
	}
	if w.SeeRefused(&x, q.Msg); len(x.Findings) > 0 || x.Note != "" {
		x.ID = r.ids.Next(q.At)
		*t = x
	}
}

// asString returns b as a string without copying. Copy it to keep it for longer than b is
// unchanged.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
