package resolver

import (
	"context"
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/resolver/cache"
)

// A lookup is one query on its way to an answer.
type lookup struct {
	r *Resolver
	q *dns.Query
	a *dns.Reply
	t *filter.Transaction

	client    filter.Client // who asks
	set       uint8         // 1 more than the number of the client's upstreams; 0 when that is not known
	uncounted bool          // the query was not counted when it came, because the client was not known

	waits bool            // it may wait for upstreams
	ctx   context.Context // ends the wait

	// What was answered so far, when it has aliases: the name whose records come last and who
	// owns it, whether it was completed with other names, and how many answers are of our zones
	// and not judged.
	tail      []byte
	tailOwner owner
	followed  bool
	unjudged  uint16
	refused   bool // they lead to a name that the policy refuses, and its servers have failed

	flags cache.Flags // of the answer from the store
	lead  bool        // it may have to be followed

	source source // of the answer
	change change // of the answer from the store
	start  int    // where the records of the answer begin in a.Buf
}

// A source is where an answer comes from.
type source uint8

const (
	unknown source = iota
	written        // it is in the reply already
	verdict        // a refusal
	stored         // the store, changed as lookup.change says
)

// run answers the query.
func (l *lookup) run() dns.Outcome {
	if q := l.q; !q.Recursion || q.Class != dns.ClassIN || q.Opcode() != dns.OpcodeQuery {
		return dns.Declined
	}
	l.a.RA = true
	l.start = len(l.a.Buf)
	by, h := l.r.ownerOf(l.q.Name, l.q.Labels, l.q.Type, l.q.Client.Addr())
	if by == zones {
		if o := l.answerZone(); o != dns.Declined {
			return o
		}
	}
	if !l.identify() {
		return dns.Later
	}
	l.find(h)
	return l.give()
}

// give gives the answer from where it was found.
func (l *lookup) give() dns.Outcome {
	ok := true
	if l.source == stored {
		ok = l.fetch()
	}
	if ok && l.source == verdict {
		ok = l.refuse()
	}
	if !ok {
		return dns.Later
	}
	v := &l.t.Verdict
	if v.After > 0 {
		l.shorten(v.After)
	}
	if v.Holds > 0 {
		l.shorten(v.Holds)
	}
	return dns.Answered
}

// identify finds out who asks. It reports false if the groups of the client have to be waited
// for, and the query may not wait yet.
func (l *lookup) identify() bool {
	at, id := l.q.Client.Addr(), l.q.ClientID
	l.client = l.r.parts.Identify(at, id)
	if !l.client.Unknown || l.r.parts.Await == nil {
		return true
	}
	if !l.waits {
		return false
	}
	l.client, l.uncounted = l.r.parts.Await(l.ctx, at, id), true
	return true
}

// find finds where the answer comes from. h is the local name that is asked for, nil for another.
func (l *lookup) find(h *host) {
	r, q := l.r, l.q
	if q.Type >= 128 && q.Type <= 255 || q.Type == dns.TypeOPT || q.Type == 0 {
		l.meta()
	} else if h == nil {
		l.decide()
	} else if h.alias != "" {
		l.alias(h.alias)
	} else {
		h.answer(q, l.a, &r.block)
		l.source = written
	}
}

// decide finds the source for a name that is not local: most such names are for the policy.
func (l *lookup) decide() {
	special, at := l.r.local.special(l.q.Name, l.q.Labels)
	if special != loopback {
		l.judge()
		l.obey()
	}
	if l.source == unknown && special != loopback && l.q.Type == dns.TypePTR { // before special: the prefix may be in a private network
		l.embedded()
	}
	if l.source == unknown && special != 0 {
		l.r.local.answer(special, at, l.q, l.a, &l.r.block)
		l.source = written
	}
	if l.source == unknown {
		l.edit()
	}
}

// meta answers queries that are not about records.
func (l *lookup) meta() {
	l.source = written
	if l.q.Type == dns.TypeANY { // RFC 8482 section 4.2
		l.a.Record(nil, dns.TypeHINFO, dns.ClassIN, 3600, []byte("\x07RFC8482\x00"))
		l.a.Answers++
	} else {
		l.a.Rcode = dns.RcodeNotImp
	}
}

// judge has the policy judge the name.
func (l *lookup) judge() {
	r, t := l.r, l.t
	l.describe()
	r.parts.Decider.Decide(context.Background(), t, filter.Name)
	if (!l.waits || l.uncounted) && r.parts.Count != nil { // otherwise it was counted before
		r.parts.Count(t)
	}
	if t.Verdict.Final() && r.needs.has(t, l.q.Client.Addr()) {
		r.needs.allow(t)
	}
}

// describe sets what the transaction says of the query.
func (l *lookup) describe() {
	q, t := l.q, l.t
	t.Start, t.Proto, t.Type, t.Flags, t.Last, t.Terse = q.At, filter.DNS, q.Type, q.Flags, filter.Name, !l.r.whole
	t.Client = l.client
	l.a.Text = dns.AppendHost(l.a.Text[:0], q.Name)
	t.Host = asString(l.a.Text)
}

// obey finds the source that the verdict on the name demands, if any.
func (l *lookup) obey() {
	v := &l.t.Verdict
	switch {
	case v.Action == filter.Warn && l.r.warn == filter.Pass:
	case v.Action == filter.Redirect && v.To != "":
		l.alias(v.To)
	case v.Final():
		l.source = verdict
	case v.Action == filter.Pass && !v.Names.OwnDNS && canary(l.q.Name):
		l.block("canary", filter.NXDomain)
		l.source = verdict
	}
}

// block sets a block for a reason that no check reports.
func (l *lookup) block(category string, how filter.Answer) {
	f := filter.Finding{Check: checkName, Category: category}
	v := &l.t.Verdict
	l.t.Findings = append(l.t.Findings, f)
	v.Action, v.Names.Answer = filter.Block, how
	v.Reason.Rule, v.Reason.Finding = "", f
}

// checkName is the check in findings of the resolver itself.
const checkName = "dns"

// edit applies the policy's edits of a name that passes. The answer comes from the store then, or
// is an alias to another name.
func (l *lookup) edit() {
	names, edits := &l.t.Verdict.Names, l.t.Verdict.Edits
	service := l.q.Type == dns.TypeHTTPS || l.q.Type == dns.TypeSVCB
	l.source = stored
	if service {
		l.change = change{noHTTP3: names.NoHTTP3, noECH: names.NoECH}
	}
	for i := range edits {
		switch e := &edits[i]; {
		case e.Kind != filter.DialHost || e.Value == l.t.Host:
			continue
		case service:
			l.noData()
		case l.q.Type == dns.TypeA || l.q.Type == dns.TypeAAAA:
			l.alias(e.Value)
		default:
			continue
		}
		break
	}
}

// noData answers that the name has no records of this type.
func (l *lookup) noData() {
	l.r.block.noData(l.a)
	l.source = written
}

// alias answers with another name and its addresses, or with an address.
func (l *lookup) alias(to string) {
	var addr netip.Addr
	// Few names end in a digit; parsing each as an address would allocate an error.
	if n := len(to); n > 0 && '0' <= to[n-1] && to[n-1] <= '9' || strings.Contains(to, ":") {
		addr, _ = netip.ParseAddr(to)
	}
	switch typ := l.q.Type; {
	case addr.IsValid():
		l.address(addr.Unmap())
	case typ == dns.TypeA || typ == dns.TypeAAAA || typ == dns.TypeCNAME:
		l.source, l.change = stored, change{to: to, dns64: l.r.synthesises(l.q)}
	default:
		l.noData()
	}
}

// address answers with another address.
func (l *lookup) address(addr netip.Addr) {
	l.source = written
	switch b := &l.r.block; {
	case l.q.Type == dns.TypeA && addr.Is4():
		v4 := addr.As4()
		b.address(l.a, dns.TypeA, v4[:])
	case l.q.Type == dns.TypeAAAA && addr.Is6():
		v6 := addr.As16()
		b.address(l.a, dns.TypeAAAA, v6[:])
	default:
		b.noData(l.a)
	}
}

// fetch answers from the store. It reports false if the lookup would have to wait.
func (l *lookup) fetch() bool {
	if !l.load() {
		return false
	}
	if l.lead {
		l.tail, l.tailOwner = l.q.Name, others
		if l.change.to != "" {
			l.tailOwner = hosts
		}
		if !l.follow() {
			return false
		}
	}
	if l.change.to == "" && !l.passes() {
		l.drop()
		l.source = verdict
	}
	return true
}

// load appends what the store has to the reply. It reports false if it would have to wait.
func (l *lookup) load() bool {
	a := l.a
	e, ok := l.read(l.change, nil)
	if ok && l.change == (change{}) && l.r.synthesises(l.q) && l.r.needsDNS64(&e) {
		plain, end := e, len(a.Buf)
		e, ok = l.read(change{dns64: true}, &plain)
		a.Buf = append(a.Buf[:l.start], a.Buf[end:]...)
	}
	if !ok {
		return false
	}
	// The records are in a.Buf already.
	a.Answers, a.Authorities, a.Additionals = e.Answers, e.Authorities, e.Additionals
	a.Rcode = e.Rcode
	a.AD = e.Flags&cache.AD != 0 && (l.q.AD() || l.q.DO)
	a.HasEDE, a.EDE, a.EDEText = e.EDE != 0, e.EDE, nil
	l.flags, l.lead = e.Flags, l.mayLead(&e)
	return true
}

// read appends the records of the answer with a change to the reply: from the cache, or made of
// what upstreams answer. plain is the answer without addresses for one with mapped addresses; it
// ends the reply.
func (l *lookup) read(c change, plain *cache.Entry) (e cache.Entry, ok bool) {
	s, k := l.r.parts.Store, l.keyOf(l.q)
	if c != (change{}) {
		k.Variant = l.r.variantOf(c)
	}
	buf, e, ok, stale := s.get(&k, l.q.At, l.a.Buf)
	switch {
	case ok:
	case !l.q.RD(): // the client wants what we have, and nobody to be asked
		e = cache.Entry{Rcode: dns.RcodeRefused, EDE: dns.EDENotAuthoritative, Flags: cache.Failure}
		return e, true
	case !l.waits:
		l.a.Stale = stale
		return e, false
	case k.Variant == 0:
		buf, e = s.wait(l.ctx, &k, l.q.At, l.a.Buf)
	default:
		e = l.make(c, plain)
		if e.TTL > 0 && e.Flags&cache.Failure == 0 && s.keeps {
			s.cache.Put(&k, l.q.At, &e)
		}
		buf = append(l.a.Buf, e.Body...)
	}
	l.a.Buf = buf
	return e, true
}

// keyOf returns the key of a question of the client.
func (l *lookup) keyOf(q *dns.Query) cache.Key {
	return cache.Key{Name: q.Name, Type: q.Type, Class: q.Class, DO: q.DO, CD: q.CD(), Set: l.upstreams()}
}

// upstreams returns the number of the upstreams that answer the client, see [Parts.Set].
func (l *lookup) upstreams() uint8 {
	of := l.r.parts.Set
	if of == nil {
		return 0
	}
	if l.set == 0 {
		if !l.client.Addr.IsValid() { // a zone of ours has led here
			l.client = l.r.parts.Identify(l.q.Client.Addr(), l.q.ClientID)
		}
		c := l.client // so that the lookup itself stays on the stack
		l.set = of(&c, l.q.At) + 1
	}
	return l.set - 1
}

// drop removes the records of an answer that is refused.
func (l *lookup) drop() {
	a := l.a
	a.Buf = a.Buf[:l.start]
	a.Answers, a.Authorities, a.Additionals, a.Rcode = 0, 0, 0, 0
}

// shorten bounds the TTLs of the answer's records by left, but to at least a second.
func (l *lookup) shorten(left time.Duration) {
	a, from := l.a, l.start
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

// refuse answers by the verdict, with an Extended DNS Error that names category, policy and
// transaction (RFC 8914). It reports false if the lookup would have to wait.
func (l *lookup) refuse() bool {
	r, a, t, v := l.r, l.a, l.t, &l.t.Verdict
	a.Rcode, a.AD = 0, false
	l.source = unknown
	l.rewrite(v.Reason.Finding.Modifier)
	switch {
	case l.source == unknown:
		how := v.Names.Answer
		if v.Action == filter.Warn && r.warnTo != filter.Usual {
			how = r.warnTo
		}
		r.block.refuse(l.q.Type, a, how)
	case l.source == stored && !l.fetch():
		return false
	}
	from := len(a.Text)
	a.Text = r.ids.Append(a.Text, l.q.At)
	t.ID = asString(a.Text[from:])
	a.HasEDE, a.EDE = true, v.Names.Error
	if a.EDE == 0 {
		a.EDE = dns.EDEBlocked
	}
	from = len(a.Text)
	if l.q.Structured {
		a.Text = r.block.structured(a.Text, v, t.ID)
	} else {
		a.Text = append(a.Text, v.Action.String()...)
		a.Text = appendPart(a.Text, " category ", v.Reason.Finding.Category)
		a.Text = appendPart(a.Text, " policy ", v.Reason.Policy)
		a.Text = appendPart(a.Text, " id ", t.ID)
	}
	a.EDEText = a.Text[from:]
	return true
}
