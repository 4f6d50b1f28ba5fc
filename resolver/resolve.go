// Package resolve answers queries for names outside our zones: filtered by the client's
// policy, from the cache or from upstreams.
//
// [Resolver.Answer] first looks up local names (hosts, and names that must not leak), then
// consults the policy; a name that it refuses is answered at once. Otherwise the answer comes
// from the cache of the [Store]. The policy judges its aliases, and its addresses if lists
// contain any, again, because the answer was fetched for another client. Names that the cache
// lacks are left for [Resolver.Wait], which has the Store query upstreams; duplicate queries
// wait for the one in progress.
//
// Answers that differ by policy (SafeSearch, redirects, HTTPS records without h3, DNS64) are
// derived from the plain ones once and cached beside them as variants.
//
// A Resolver never changes: new settings make a new one with the same Store.
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
	Store    *Store
	// Addresses reports that rules or lists contain addresses, so that those in answers are
	// judged too.
	Addresses bool
	// Routed are domains, in wire form, with their own upstreams, which answer all their
	// names; these may have private addresses.
	Routed [][]byte
	// Validated reports that the store's answers are validated: one that fails may be
	// forged.
	Validated bool
}

// A Resolver is a [wire.Responder].
type Resolver struct {
	parts    Parts
	block    blocker
	local    local
	private  map[string]struct{} // domains, in wire form
	anywhere bool                // all may have private addresses
	whole    bool                // give reasons even for names that pass
	warn     filter.Action       // the action for a warning: Block or Pass
	warnTo   filter.Answer
	dns64    DNS64
	// dns64Variant is the suffix that dns64 adds to a cache's key.
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
		return fmt.Errorf("%q is not one of block, sinkhole and pass", b.Warn)
	}
	return nil
}

const (
	staleTTL = 30 // seconds, RFC 8767 section 4
	// staleRetry is how long after a failure stale answers are given without another attempt
	// (the failure recheck timer, RFC 8767 section 5).
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

// shorten bounds the TTLs of an answer's records, which begin at from, by left, but to at
// least a second.
func shorten(a *dns.Reply, from int, left time.Duration) {
	most := uint32(max(left/time.Second, 1))
	for range int(a.Answers) + int(a.Authorities) + int(a.Additionals) {
		x, err := dns.ReadRecord(a.Buf, from)
		if err != nil {
			return // the entry was read when it was made
		}
		if x.TTL > most && x.Type != dns.TypeOPT {
			binary.BigEndian.PutUint32(a.Buf[x.TTLAt:], most)
		}
		from = x.End
	}
}

// answer answers q. With a nil ctx it must not wait.
func (r *Resolver) answer(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome {
	if !q.Recursion || q.Class != dns.ClassIN || q.Opcode() != dns.OpcodeQuery {
		return dns.Declined
	}
	a.RA = true
	if q.Type >= 128 && q.Type <= 255 || q.Type == dns.TypeOPT || q.Type == 0 {
		return r.meta(q, a)
	}
	if h := r.local.find(q.Name, q.Labels); h != nil {
		return r.answerLocal(ctx, q, a, t, h)
	}
	special, at := r.local.special(q.Name, q.Labels)
	if special == loopback {
		r.local.answer(special, at, q, a, &r.block)
		return dns.Answered
	}
	r.judge(q, a, t)
	if ctx == nil && r.parts.Count != nil { // otherwise it was counted before
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
		r.setBlock(t, "canary")
		v.Names.Answer = filter.NXDomain
		return r.refuse(ctx, q, a, t)
	}
	if q.Type == dns.TypePTR && r.dns64.IsValid() { // before special: the prefix may be in a private network
		if out := r.answerEmbeddedPTR(ctx, q, a, t); out != dns.Declined {
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
			case dns.TypeA, dns.TypeAAAA:
				return r.alias(ctx, q, a, t, e.Value)
			case dns.TypeHTTPS, dns.TypeSVCB:
				r.block.noData(a)
				return dns.Answered
			}
		}
	}
	return r.lookUp(ctx, q, a, t)
}

// answerLocal answers with a local name.
func (r *Resolver) answerLocal(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction, h *host) dns.Outcome {
	if h.alias != "" {
		return r.alias(ctx, q, a, t, h.alias)
	}
	h.answer(q, a, &r.block)
	return dns.Answered
}

// meta answers queries that are not about records.
func (r *Resolver) meta(q *dns.Query, a *dns.Reply) dns.Outcome {
	if q.Type == dns.TypeANY { // RFC 8482 section 4.2
		a.Record(nil, dns.TypeHINFO, dns.ClassIN, 3600, []byte("\x07RFC8482\x00"))
		a.Answers++
		return dns.Answered
	}
	a.Rcode = dns.RcodeNotImp
	return dns.Answered
}

// judge has the policy judge the name.
func (r *Resolver) judge(q *dns.Query, a *dns.Reply, t *filter.Transaction) {
	t.Start, t.Proto, t.Type, t.Flags, t.Last, t.Terse = q.At, filter.DNS, q.Type, q.Flags, filter.Name, !r.whole
	t.Client = r.parts.Identify(q.Client.Addr(), q.ClientID)
	a.Text = dns.AppendHost(a.Text[:0], q.Name)
	t.Host = asString(a.Text)
	r.parts.Decider.Decide(context.Background(), t, filter.Name)
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

// setBlock sets a block for a reason that no check reports.
func (r *Resolver) setBlock(t *filter.Transaction, category string) {
	f := filter.Finding{Check: checkName, Category: category}
	t.Findings = append(t.Findings, f)
	t.Verdict.Action = filter.Block
	t.Verdict.Reason.Rule, t.Verdict.Reason.Finding = "", f
}

// checkName is the check in findings of the resolver itself.
const checkName = "dns"

// lookUp answers from the cache, or has the answer fetched.
func (r *Resolver) lookUp(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome {
	k := keyOf(q)
	names := &t.Verdict.Names
	if (q.Type == dns.TypeHTTPS || q.Type == dns.TypeSVCB) && (names.NoHTTP3 || names.NoECH) {
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
	if r.synthesises(q) && r.needsDNS64(&e) {
		return r.synthetic(ctx, q, a, t, from, &e)
	}
	fill(q, a, &e)
	return r.judgeAnswer(ctx, q, a, t, from, &e)
}

// fill sets the fields of a from e; the records are in a.Buf already.
func fill(q *dns.Query, a *dns.Reply, e *cache.Entry) {
	a.Answers, a.Authorities, a.Additionals = e.Answers, e.Authorities, e.Additionals
	a.Rcode = e.Rcode
	a.AD = e.Flags&cache.AD != 0 && (q.AD() || q.DO)
	a.HasEDE, a.EDE, a.EDEText = e.EDE != 0, e.EDE, nil
}

func keyOf(q *dns.Query) cache.Key {
	return cache.Key{Name: q.Name, Type: q.Type, Class: q.Class, DO: q.DO, CD: q.CD()}
}

// asString returns b as a string without copying. Copy it to keep it for longer than b is
// unchanged.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
