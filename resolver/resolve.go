// Package resolve answers questions about names that are not ours: filtered by
// the policy of the client, from the cache or from upstreams.
//
// Data moves so: [Resolver.Answer] takes a query to the names of the network's
// own (hosts, and names that must not leak), then to the policy, and what the
// policy refuses is answered on the spot. Else the answer comes out of the
// cache of the [Store]; its aliases, and its addresses where lists know any,
// are put to the policy once more, because what is kept was fetched for
// somebody else. What the cache does not have is left for [Resolver.Wait],
// which has the Store ask upstreams; duplicate questions wait for the first.
//
// Answers that differ by policy (SafeSearch, redirects, HTTPS records without
// h3, DNS64) are made from the plain ones once and kept beside them as variants.
//
// A Resolver never changes: new settings make a new one over the same Store.
package resolver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"shuultuur/dns"
	"shuultuur/filter"
	"shuultuur/resolver/cache"
	"shuultuur/setting"
)

// Config says how names are answered.
type Config struct {
	Block Block `yaml:"block"`
	// Hosts are names of one's own, or that are to have another answer: an
	// address, several, or another name. "*.lab.example" is every name below.
	Hosts map[string]setting.OneOrMore[string] `yaml:"hosts"`
	// HostsFiles are read like /etc/hosts.
	HostsFiles setting.OneOrMore[setting.File] `yaml:"hosts-files"`
	// Private are domains whose names may have addresses in private networks;
	// "*" is all. Elsewhere such an answer is refused: a page out there could
	// reach devices in here by it (DNS rebinding). Domains with a route of
	// their own need not be named.
	Private setting.OneOrMore[string] `yaml:"private"`
	// DNS64 makes IPv6 addresses for names that have IPv4 ones only.
	DNS64 DNS64 `yaml:"dns64"`
}

// Block says how a refused name is answered where the policy does not.
type Block struct {
	Answer filter.Answer    `yaml:"answer"` // default zero
	TTL    setting.Duration `yaml:"ttl"`    // of an answer that refuses; default 10s
	// Sinkhole are the addresses of the server with the block page: one's own.
	Sinkhole setting.OneOrMore[netip.Addr] `yaml:"sinkhole"`
	// Contact and Organization are shown by clients that understand structured
	// errors: addresses such as mailto:help@example.com or tel:+31201234567, and
	// who filters.
	Contact      setting.OneOrMore[string] `yaml:"contact"`
	Organization string                    `yaml:"organization"`
	// Warn is what becomes of a warning, which an answer cannot show: block,
	// sinkhole or pass. The default is sinkhole where there is one, else block.
	Warn string `yaml:"warn"`
}

// Parts are what a resolver works with.
type Parts struct {
	Decider filter.Decider
	// Count counts a query that the decider has judged, and puts a refusal in
	// its verdict when a limit or a quota is used up. It must not wait. nil
	// counts nothing.
	Count func(*filter.Transaction)
	// Identify says who is at an address, or calls itself by a ClientID, which
	// may be "". It must not wait.
	Identify func(addr netip.Addr, clientID string) filter.Client
	Store    *Store
	// Addresses says that rules or lists know addresses: those in answers are
	// judged too.
	Addresses bool
	// Routed are domains, in wire form, that have upstreams of their own:
	// their names are asked there whatever they look like, and may have private
	// addresses.
	Routed [][]byte
	// Validated says that the answers of the store are validated: one that
	// fails may be forged.
	Validated bool
}

// A Resolver is a [wire.Responder].
type Resolver struct {
	parts    Parts
	block    blocker
	local    local
	private  map[string]struct{} // domains, in wire form
	anywhere bool                // all may have private addresses
	whole    bool                // somebody reads why, also of what passes
	warn     filter.Action       // what a warning becomes: Block or Pass
	warnTo   filter.Answer
	dns64    DNS64
	// dns64Variant is what dns64 adds to a cache's key.
	dns64Variant uint64

	ids filter.IDs
}

// New makes a resolver. Mistakes in cfg are [filter.SettingError]s.
func New(cfg Config, parts Parts) (*Resolver, error) {
	if parts.Decider == nil || parts.Identify == nil || parts.Store == nil {
		return nil, errors.New("a resolver needs a decider, an identity and a store")
	}
	r := &Resolver{parts: parts, private: map[string]struct{}{}}
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
		return fmt.Errorf("%q is none of block, sinkhole and pass", b.Warn)
	}
	return nil
}

// Types, response codes and Extended DNS Errors.
const (
	typeA     = 1
	typeCNAME = 5
	typeSOA   = 6
	typePTR   = 12
	typeHINFO = 13
	typeTXT   = 16
	typeAAAA  = 28
	typeDNAME = 39
	typeOPT   = 41
	typeRRSIG = 46
	typeSVCB  = 64
	typeHTTPS = 65
	typeANY   = 255
	classIN   = 1

	rcodeServFail = 2
	rcodeNXDomain = 3
	rcodeNotImp   = 4
	rcodeRefused  = 5

	edeForged        = 4
	edeStale         = 3
	edeBlocked       = 15
	edeStaleNX       = 19
	edeNotSupported  = 21
	edeNoUpstream    = 22
	edeNetwork       = 23
	edeInvalidAnswer = 5

	staleTTL = 30 // seconds, RFC 8767 section 4
	// staleRetry is how long after a failure stale answers are given without
	// another attempt (the failure recheck timer, RFC 8767 section 5).
	staleRetry = 5 * time.Second
)

// Answer implements [wire.Responder].
func (r *Resolver) Answer(q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome {
	if q.Late {
		return r.Wait(r.parts.Store.late, q, a, t)
	}
	return r.Wait(nil, q, a, t) //nolint:staticcheck // nil: it may not wait
}

// Wait implements [wire.Responder].
func (r *Resolver) Wait(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome {
	from := len(a.Buf)
	out := r.answer(ctx, q, a, t)
	if v := &t.Verdict; out == dns.Answered && v.After > 0 && !v.Final() {
		shorten(a, from, v.After)
	}
	return out
}

// shorten keeps the records of an answer, which begin at from, from being
// remembered for longer than they may be had: left, but a second at least.
func shorten(a *dns.Reply, from int, left time.Duration) {
	most := uint32(max(left/time.Second, 1))
	for range int(a.Answers) + int(a.Authorities) + int(a.Additionals) {
		x, err := dns.ReadRecord(a.Buf, from)
		if err != nil {
			return // the entry was read when it was made
		}
		if x.TTL > most && x.Type != typeOPT {
			binary.BigEndian.PutUint32(a.Buf[x.TTLAt:], most)
		}
		from = x.End
	}
}

// answer answers q. Without a ctx it may not wait.
func (r *Resolver) answer(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome {
	if !q.Recursion || q.Class != classIN || q.Opcode() != dns.OpcodeQuery {
		return dns.Declined
	}
	a.RA = true
	if q.Type >= 128 && q.Type <= 255 || q.Type == typeOPT || q.Type == 0 {
		return r.meta(q, a)
	}
	if h := r.local.find(q.Name, q.Labels); h != nil {
		return r.own(ctx, q, a, t, h)
	}
	special, at := r.local.special(q.Name, q.Labels)
	if special == loopback {
		r.local.answer(special, at, q, a, &r.block)
		return dns.Answered
	}
	r.judge(q, a, t)
	if ctx == nil && r.parts.Count != nil { // with one, it has been counted
		r.parts.Count(t)
	}
	v := &t.Verdict
	switch {
	case v.Action == filter.Warn && r.warn == filter.Pass:
	case v.Action == filter.Redirect && v.To != "":
		return r.alias(ctx, q, a, t, v.To)
	case v.Final():
		return r.refuse(ctx, q, a, t)
	case v.Action == filter.Pass && !v.Names.OwnDNS && canary(q.Name):
		r.found(t, "canary")
		v.Names.Answer = filter.NXDomain
		return r.refuse(ctx, q, a, t)
	}
	if q.Type == typePTR && r.dns64.IsValid() { // before special: the prefix may be of a private network
		if out := r.pointed(ctx, q, a, t); out != dns.Declined {
			return out
		}
	}
	if special != 0 {
		r.local.answer(special, at, q, a, &r.block)
		return dns.Answered
	}
	for i := range v.Edits {
		if e := &v.Edits[i]; e.Kind == filter.DialHost && e.Value != t.Host {
			switch q.Type {
			case typeA, typeAAAA:
				return r.alias(ctx, q, a, t, e.Value)
			case typeHTTPS, typeSVCB:
				r.block.noData(a)
				return dns.Answered
			}
		}
	}
	return r.look(ctx, q, a, t)
}

// own answers with a host of one's own.
func (r *Resolver) own(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction, h *host) dns.Outcome {
	if h.alias != "" {
		return r.alias(ctx, q, a, t, h.alias)
	}
	h.answer(q, a, &r.block)
	return dns.Answered
}

// meta answers questions that are not about records.
func (r *Resolver) meta(q *dns.Query, a *dns.Reply) dns.Outcome {
	if q.Type == typeANY { // RFC 8482 section 4.2
		a.Record(nil, typeHINFO, classIN, 3600, []byte("\x07RFC8482\x00"))
		a.Answers++
		return dns.Answered
	}
	a.Rcode = rcodeNotImp
	return dns.Answered
}

// judge puts the name to the policy.
func (r *Resolver) judge(q *dns.Query, a *dns.Reply, t *filter.Transaction) {
	t.Start, t.Proto, t.Type, t.Flags, t.Last, t.Terse = q.At, filter.DNS, q.Type, q.Flags, filter.Name, !r.whole
	t.Client = r.parts.Identify(q.Client.Addr(), q.ClientID)
	a.Text = dns.AppendHost(a.Text[:0], q.Name)
	t.Host = asString(a.Text)
	r.parts.Decider.Decide(context.Background(), t, filter.Name)
}

// found makes a verdict of ours: block, because of something no check knows.
func (r *Resolver) found(t *filter.Transaction, category string) {
	f := filter.Finding{Check: checkName, Category: category}
	t.Findings = append(t.Findings, f)
	t.Verdict.Action = filter.Block
	t.Verdict.Reason.Rule, t.Verdict.Reason.Finding = "", f
}

// checkName is the check of findings that are the resolver's own.
const checkName = "dns"

// look answers from the cache, or else has the answer fetched.
func (r *Resolver) look(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome {
	k := keyOf(q)
	names := &t.Verdict.Names
	if (q.Type == typeHTTPS || q.Type == typeSVCB) && (names.NoHTTP3 || names.NoECH) {
		return r.variant(ctx, q, a, t, change{noHTTP3: names.NoHTTP3, noECH: names.NoECH})
	}
	from := len(a.Buf)
	buf, e, ok, stale := r.parts.Store.get(&k, q.At, a.Buf)
	if !ok {
		if ctx == nil {
			a.Stale = stale
			return dns.Later
		}
		buf, e = r.parts.Store.wait(ctx, &k, q.At, a.Buf)
	}
	a.Buf = buf
	if r.synthesises(q) && r.lacks(&e) {
		return r.synthetic(ctx, q, a, t, from, &e)
	}
	fill(q, a, &e)
	return r.judgeAnswer(ctx, q, a, t, from, &e)
}

// fill sets in a what e says besides its records, which are in a.Buf already.
func fill(q *dns.Query, a *dns.Reply, e *cache.Entry) {
	a.Answers, a.Authorities, a.Additionals = e.Answers, e.Authorities, e.Additionals
	a.Rcode = e.Rcode
	a.AD = e.Flags&cache.AD != 0 && (q.AD() || q.DO)
	a.HasEDE, a.EDE, a.EDEText = e.EDE != 0, e.EDE, nil
}

func keyOf(q *dns.Query) cache.Key {
	return cache.Key{Name: q.Name, Type: q.Type, Class: q.Class, DO: q.DO, CD: q.CD()}
}

// asString looks at b as a string, without a copy. What holds it for longer
// than b is as it is copies it.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
