package zone

import (
	"context"
	"encoding/binary"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// maxHops bounds the aliases (CNAME, DNAME) followed for one query.
const maxHops = 20

// maxPointer is the largest offset of a compression pointer.
const maxPointer = 0x3fff

// scratch holds the data for rare answers.
type scratch struct {
	names   [maxHops][256]byte
	labels  [maxHops][128]uint8
	picks   [256]uint16
	proofs  [maxHops]spot
	dnames  [maxHops]uint32 // nodes of DNAMEs that were used, in the tables listed in tables
	tables  [maxHops]*table
	lengths [maxHops]int // of the names for which they were used
	places  [maxHops]int // their offsets in the message

	alias  [2][256]byte // targets of CNAMEs found by following an alias
	aliasL [2][128]uint8
}

// A spot is a name being answered, and its place in the message: its first lit bytes are at
// base, the rest at tail.
type spot struct {
	t               *table
	name            []byte
	labels          []uint8
	base, lit, tail int
	encloser        int    // offset in name of the closest encloser
	node            uint32 // the wildcard that was expanded
}

// A walk is one query in progress.
type walk struct {
	spot
	z     *Responder
	ctx   context.Context //nolint:containedctx // a walk lives as long as one call
	q     *dns.Query
	r     *dns.Reply
	s     *scratch
	hops  int
	waits int // wildcard expansions that still need a proof
	done  dns.Outcome

	proven  [12]uint32 // sets of provenT that the message has
	proofs  int
	provenT *table
}

func (z *Responder) answer(ctx context.Context, q *dns.Query, r *dns.Reply) dns.Outcome {
	if q.Flags>>11&15 != miekg.OpcodeQuery || q.Class != miekg.ClassINET && q.Class != miekg.ClassANY || len(q.Name) == 0 {
		return dns.Declined
	}
	t := z.find(q.Name, q.Labels, 0, q.Client.Addr())
	if t == nil {
		return dns.Declined
	}
	if q.Type == miekg.TypeAXFR || q.Type == miekg.TypeIXFR || q.Type == miekg.TypeNone {
		r.Rcode = miekg.RcodeRefused
		return dns.Answered
	}
	w := walk{z: z, ctx: ctx, q: q, r: r, done: dns.Answered}
	w.spot = spot{t: t, name: q.Name, labels: q.Labels, base: 12, lit: len(q.Name)}
	start := len(r.Buf)
	r.AA = true
	w.parent()
	for w.step() {
	}
	if w.s != nil {
		z.free.Put(w.s)
	}
	if w.done == dns.Answered && !w.failed() {
		return dns.Answered
	}
	r.Buf = r.Buf[:start]
	r.Answers, r.Authorities, r.Additionals = 0, 0, 0
	r.AA, r.TC = false, false
	return w.done
}

func (w *walk) failed() bool { return w.r.Rcode == miekg.RcodeServerFailure }

// parent moves to the parent zone when the query is for DS at an origin, because that is where
// DS records are (RFC 4035 section 3.1.4.1).
func (w *walk) parent() {
	if w.q.Type == miekg.TypeDS && len(w.labels) == w.t.depth {
		if t := w.z.find(w.name, w.labels, 1, w.q.Client.Addr()); t != nil {
			w.t = t
		}
	}
}

// at returns where the part of the name that begins at p is in the message.
func (w *spot) at(p int) int {
	if p < w.lit {
		return w.base + p
	}
	return w.tail + p - w.lit
}

func (w *spot) pointer(p int) uint16 { return 0xc000 | uint16(w.at(p)) }

// inside returns where the origin begins in the name.
func (w *spot) inside() int { return len(w.name) - len(w.t.origin) }

// step answers for the name. It returns true when the name is an alias and the walk goes on
// with the target.
func (w *walk) step() bool {
	t := w.t
	if t.unavailable != "" {
		return w.unavailable(t.unavailable)
	}
	end := w.inside()
	h := t.originH
	left := len(w.labels) - t.depth
	for i := left - 1; i >= 0; i-- {
		s := int(w.labels[i])
		h = mix(h, w.name[s:s+1+int(w.name[s])])
	}
	if n := t.lookup(h, w.name[:end]); n != 0 {
		switch f := t.flags(n); {
		case f&isBelow != 0:
			return w.cut()
		case f&isDelegation != 0 && w.q.Type != miekg.TypeDS:
			return w.refer(n)
		}
		return w.data(n, -1)
	}
	// From the origin down to the closest encloser.
	n, at, h := t.apex, end, t.originH
	for i := left - 1; i > 0; i-- {
		s := int(w.labels[i])
		h = mix(h, w.name[s:s+1+int(w.name[s])])
		below := t.lookup(h, w.name[s:end])
		if below == 0 {
			break
		}
		n, at = below, s
	}
	f := t.flags(n)
	switch {
	case f&isBelow != 0:
		return w.cut()
	case f&isDelegation != 0:
		return w.refer(n)
	case f&hasDNAME != 0:
		return w.redirect(n)
	case f&isUnknown != 0:
		return w.unavailable(notReadable)
	}
	if wild := u32(t.arena, n+nodeWild); wild != 0 {
		return w.data(wild, at)
	}
	w.r.Rcode = miekg.RcodeNameError
	w.encloser = at
	return w.negative(NoName, n)
}

// cut answers for names below a node that ends the zone: the first one on the way down from
// the origin.
func (w *walk) cut() bool {
	t, end := w.t, w.inside()
	n, h := t.apex, t.originH
	for i := len(w.labels) - t.depth - 1; ; i-- {
		switch f := t.flags(n); {
		case f&isDelegation != 0:
			return w.refer(n)
		case f&hasDNAME != 0:
			return w.redirect(n)
		}
		s := int(w.labels[i])
		h = mix(h, w.name[s:s+1+int(w.name[s])])
		n = t.lookup(h, w.name[s:end])
	}
}

// data answers with the records of a node. encloser is where the parent of the expanded
// wildcard begins, -1 when the node has the queried name.
func (w *walk) data(n uint32, encloser int) bool {
	t := w.t
	w.node, w.encloser = n, 0
	kind := NoData
	if encloser >= 0 {
		w.encloser, kind = encloser, WildcardNoData
		if w.r.Answers == 0 { // not for an alias on the way
			w.r.Wildcard = encloser
		}
	}
	var s uint32
	switch w.q.Type {
	case miekg.TypeANY:
		s = w.anySet(n, false)
	case miekg.TypeRRSIG:
		s = w.anySet(n, true)
	default:
		s = t.set(n, w.q.Type)
	}
	if s != 0 && isUnknownSet(t.arena, s) {
		return w.unavailable(notReadable)
	}
	if s == 0 {
		f := t.flags(n)
		switch {
		case f&isUnknown != 0:
			return w.unavailable(notReadable)
		case f&hasCNAME != 0 && w.q.Type != miekg.TypeRRSIG:
			return w.follow(t.set(n, miekg.TypeCNAME), kind == WildcardNoData)
		case f&hasAlias != 0 && (w.q.Type == miekg.TypeA || w.q.Type == miekg.TypeAAAA):
			return w.alias(n, kind)
		case t.climbCAA && w.q.Type == miekg.TypeCAA:
			return w.answerClosestCAA(n, kind)
		}
		return w.negative(kind, n)
	}
	from := len(w.r.Buf)
	had := w.r.Answers
	if w.q.Type == miekg.TypeRRSIG {
		w.putSignatures(s)
	} else if !w.put(s, w.pointer(0), &w.r.Answers, true) {
		return false
	}
	if w.r.TC {
		return false
	}
	if w.q.Expire && w.q.Type == miekg.TypeSOA && n == t.apex {
		w.r.Expire, w.r.HasExpire = (&Served{t}).Expire(w.q.At), true
	}
	if w.r.Answers == had {
		return w.negative(kind, n) // the picker chose nothing
	}
	if kind == WildcardNoData {
		w.noteWildcard()
	}
	if !w.addWildcardProofs() {
		return false
	}
	if u16(t.arena, s+setAdds) > 0 {
		w.addresses(s, from, 0)
	}
	return false
}

// NeverReceived is the reason for SERVFAIL of a zone that is still to come: the server is not ready
// (RFC 8914 section 4.15). For other reasons its data is invalid (section 4.25).
const NeverReceived = "this zone has never been received from its primary"

// notReadable is the reason for SERVFAIL where single names of a zone cannot be served.
const notReadable = "the data of this name cannot be read"

// unavailable ends a walk at data that exists but cannot be served.
func (w *walk) unavailable(why string) bool {
	r := w.r
	r.Rcode = miekg.RcodeServerFailure
	r.HasEDE, r.EDE, r.EDEText = true, miekg.ExtendedErrorCodeInvalidData, append(r.EDEText[:0], why...)
	if why == NeverReceived {
		r.EDE = miekg.ExtendedErrorCodeNotReady
	}
	return false
}

// anySet returns the set to answer for ANY and RRSIG: the first one suffices (RFC 8482 section
// 4.1).
func (w *walk) anySet(n uint32, signed bool) uint32 {
	t := w.t
	at := n + nodeName + uint32(t.arena[n+nodeLen])
	for left := u16(t.arena, n+nodeSets); left > 0; left-- {
		if u16(t.arena, at) != 0 && !isUnknownSet(t.arena, at) && (!signed || t.arena[at+setSigs] > 0) {
			return at
		}
		at = t.next(at)
	}
	return 0
}

// put appends a set whose owner is a pointer, with signatures if they are wanted and the set
// is authoritative. If it does not fit, put appends nothing and sets TC. It returns false when
// the walk ends because a signature is not available yet.
func (w *walk) put(s uint32, owner uint16, section *uint16, ours bool) bool {
	a, r := w.t.arena, w.r
	size := u32(a, s+setSize)
	data := a[s+setData : s+setData+size]
	from, count := len(r.Buf), u16(a, s+setCount)
	if choice := u32(a, s+setChoice); choice != 0 {
		count = w.choose(s, choice, data)
	} else {
		if from+len(data) > r.Limit {
			r.TC = true
			return true
		}
		r.Buf = append(r.Buf, data...)
	}
	if from == len(r.Buf) || len(r.Buf) > r.Limit {
		r.TC = r.TC || len(r.Buf) > r.Limit
		r.Buf = r.Buf[:from]
		return true
	}
	if owner != 0xc00c {
		withOwner(r.Buf[from:], owner)
	}
	if patches := uint32(u16(a, s+setPatch)); patches > 0 {
		origin := w.pointer(w.inside())
		at := s + setData + size + u32(a, s+setSigLen)
		for range patches {
			binary.BigEndian.PutUint16(r.Buf[from+int(u32(a, at)):], origin)
			at += 4
		}
	}
	if w.q.DO && ours && w.t.signed {
		return w.sign(s, owner, from, count, section)
	}
	*section += count
	return true
}

// withOwner gives records another owner.
func withOwner(records []byte, owner uint16) {
	for len(records) > 0 {
		binary.BigEndian.PutUint16(records, owner)
		records = records[12+int(records[10])<<8+int(records[11]):]
	}
}

// sign appends the signatures of the records from from on.
func (w *walk) sign(s uint32, owner uint16, from int, count uint16, section *uint16) bool {
	r, t := w.r, w.t
	n := uint16(t.arena[s+setSigs])
	at := len(r.Buf)
	switch {
	case t.signer != nil && (n == 0 || u32(t.arena, s+setChoice) != 0):
		return w.signFresh(u16(t.arena, s), owner, from, count, section)
	case u32(t.arena, s+setChoice) != 0: // the signature covers all of them
		*section += count
		return true
	}
	sigs := t.signatures(s)
	if at+len(sigs) > r.Limit {
		r.Buf, r.TC = r.Buf[:from], true
		return true
	}
	r.Buf = append(r.Buf, sigs...)
	if owner != 0xc00c {
		withOwner(r.Buf[at:], owner)
	}
	*section += count + n
	return true
}

// signFresh signs a set that begins at from in the message.
func (w *walk) signFresh(typ, owner uint16, from int, count uint16, section *uint16) bool {
	r := w.r
	set := Set{Owner: w.ownerOf(owner), Pointer: owner, Type: typ, Wildcard: w.encloser, Records: r.Buf[from:], Count: int(count)}
	if len(set.Owner) != len(w.name) {
		set.Wildcard = 0
	}
	n, ok := w.t.signer.Sign(w.ctx, w.q, r, set)
	switch {
	case !ok:
		return w.giveUp()
	case len(r.Buf) > r.Limit:
		r.Buf, r.TC = r.Buf[:from], true
		return true
	}
	*section += count + uint16(n)
	return true
}

// ownerOf returns the part of the name that a pointer denotes.
func (w *walk) ownerOf(owner uint16) []byte {
	for _, p := range w.labels {
		if w.pointer(int(p)) == owner {
			return w.name[p:]
		}
	}
	return w.name[len(w.name)-1:]
}

// giveUp ends a walk that lacks something: for now, or finally.
func (w *walk) giveUp() bool {
	if w.ctx == nil {
		w.done = dns.Later
	} else {
		w.r.Rcode = miekg.RcodeServerFailure
	}
	return false
}

// putSignatures appends only the signatures of a set.
func (w *walk) putSignatures(s uint32) {
	sigs, from := w.t.signatures(s), len(w.r.Buf)
	if from+len(sigs) > w.r.Limit {
		w.r.TC = true
		return
	}
	w.r.Buf = append(w.r.Buf, sigs...)
	withOwner(w.r.Buf[from:], w.pointer(0))
	w.r.Answers += uint16(w.t.arena[s+setSigs])
}

// choose appends the records that a Picker selects, and returns their number.
func (w *walk) choose(s, choice uint32, data []byte) uint16 {
	w.need()
	total := int(u16(w.t.arena, s+setCount))
	picked, scope, hasScope := w.t.picks[choice-1].Pick(w.s.picks[:0], w.q, total)
	if hasScope {
		w.r.Scope, w.r.HasScope = max(w.r.Scope, scope), true
	}
	same := len(data) / total // A and AAAA records all have the same length
	if len(data)%total != 0 || 12+int(data[10])<<8+int(data[11]) != same {
		same = 0
	}
	n := uint16(0)
	for _, p := range picked {
		if int(p) >= total {
			continue
		}
		rest := data
		if same > 0 {
			rest = data[int(p)*same:]
		} else {
			for range p {
				rest = rest[12+int(rest[10])<<8+int(rest[11]):]
			}
		}
		size := 12 + int(rest[10])<<8 + int(rest[11])
		if len(w.r.Buf)+size > w.r.Limit {
			w.r.TC = true
			break
		}
		w.r.Buf = append(w.r.Buf, rest[:size]...)
		n++
	}
	return n
}

func (w *walk) need() {
	if w.s == nil {
		w.s = w.z.free.Get().(*scratch)
	}
}

// follow answers with a CNAME and moves to its target.
func (w *walk) follow(s uint32, wildcard bool) bool {
	from := len(w.r.Buf)
	if !w.put(s, w.pointer(0), &w.r.Answers, true) || w.r.TC {
		return false
	}
	if wildcard {
		w.noteWildcard()
	}
	if w.q.Type == miekg.TypeANY {
		return w.end()
	}
	w.need()
	if w.hops == maxHops {
		return w.end()
	}
	w.s.dnames[w.hops] = 0
	buf := w.s.names[w.hops][:0]
	data := w.t.arena[s+setData+12:]
	n := 0
	for data[n] != 0 && data[n] < 0xc0 {
		n += 1 + int(data[n])
	}
	next := spot{base: from + 12, lit: n}
	if data[n] == 0 {
		next.lit = n + 1
		buf = append(buf, data[:n+1]...)
	} else {
		next.tail = w.at(w.inside())
		buf = append(append(buf, data[:n]...), w.t.origin...)
	}
	dns.ToLower(buf)
	next.name = buf
	return w.jump(next)
}

// redirect answers for names below a DNAME (RFC 6672 section 3.2).
func (w *walk) redirect(n uint32) bool {
	t, r := w.t, w.r
	p := w.inside() - int(t.arena[n+nodeLen])
	s := t.set(n, miekg.TypeDNAME)
	from := len(r.Buf)
	w.encloser = 0
	w.need()
	again := false
	for i := range w.hops {
		if w.s.dnames[i] != n || w.s.tables[i] != t {
			continue
		}
		if len(w.name) > w.s.lengths[i] { // it would repeat until the name is too long
			return w.end()
		}
		again, from = true, w.s.places[i]
	}
	if !again && (!w.put(s, w.pointer(p), &r.Answers, true) || r.TC) {
		return false
	}
	data := t.arena[s+setData+12:]
	target := data[:dns.NameLen(data)]
	if p+len(target) > 255 {
		r.Rcode = miekg.RcodeYXDomain
		return w.end()
	}
	at := len(r.Buf)
	if at+12+p+2 > r.Limit {
		r.TC = true
		return false
	}
	r.Buf = binary.BigEndian.AppendUint16(r.Buf, w.pointer(0))
	r.Buf = append(r.Buf, 0, byte(miekg.TypeCNAME), 0, miekg.ClassINET)
	r.Buf = append(r.Buf, r.Buf[from+6:from+10]...)
	r.Buf = binary.BigEndian.AppendUint16(r.Buf, uint16(p+2))
	r.Buf = append(r.Buf, w.name[:p]...)
	r.Buf = binary.BigEndian.AppendUint16(r.Buf, 0xc000|uint16(from+12))
	r.Answers++
	if w.q.Type == miekg.TypeCNAME || w.hops == maxHops {
		return w.end()
	}
	w.s.dnames[w.hops], w.s.tables[w.hops], w.s.lengths[w.hops], w.s.places[w.hops] = n, t, len(w.name), from
	next := spot{base: at + 12, lit: p, tail: from + 12}
	next.name = append(append(w.s.names[w.hops][:0], w.name[:p]...), target...)
	dns.ToLower(next.name)
	return w.jump(next)
}

// jump moves to another name, if it is in one of our zones and not answered already.
func (w *walk) jump(next spot) bool {
	seen := string(w.q.Name) == string(next.name)
	for i := range w.hops {
		seen = seen || string(w.s.names[i][:len(next.name)]) == string(next.name)
	}
	next.labels = dns.Labels(w.s.labels[w.hops][:0], next.name)
	w.hops++
	if seen || len(w.r.Buf) > maxPointer {
		return w.end()
	}
	next.t = w.z.find(next.name, next.labels, 0, w.q.Client.Addr())
	if next.t == nil {
		return w.end()
	}
	w.spot = next
	w.parent()
	return true
}

// end completes an answer.
func (w *walk) end() bool {
	w.addWildcardProofs()
	return false
}

// refer refers the client to the servers below a cut.
func (w *walk) refer(n uint32) bool {
	t, r := w.t, w.r
	if w.hops == 0 {
		r.AA = false
	}
	p := w.inside() - int(t.arena[n+nodeLen])
	s := t.set(n, miekg.TypeNS)
	from := len(r.Buf)
	w.encloser = 0
	if !w.put(s, w.pointer(p), &r.Authorities, false) || r.TC {
		return false
	}
	if w.q.DO && t.signed {
		if ds := t.set(n, miekg.TypeDS); ds == 0 {
			w.node = n
			if !w.prove(NoDS, p) {
				return false
			}
		} else if !w.put(ds, w.pointer(p), &r.Authorities, true) {
			return false
		}
	}
	if r.TC || !w.addWildcardProofs() {
		return false
	}
	w.addresses(s, from, n)
	return false
}

// addresses adds the addresses of the targets of a set, which begins at from in the message.
// For a referral, cut is its node: addresses below it must be in the message (RFC 9471).
func (w *walk) addresses(s uint32, from int, cut uint32) {
	t := w.t
	at := t.next(s)
	adds := uint32(u16(t.arena, s+setAdds))
	for at -= addSize * adds; adds > 0; adds-- {
		name, n, owner := u32(t.arena, at), w.node, w.pointer(0)
		if name != ownerTarget {
			n = t.target(binary.LittleEndian.Uint64(t.arena[at+4:]), t.arena[s+setData+name:])
			if name += uint32(from); name > maxPointer {
				return
			}
			owner = 0xc000 | uint16(name)
		}
		at += addSize
		if n != 0 && !w.addressesOf(n, owner, cut) {
			return
		}
	}
}

// addressesOf adds the addresses of a node, and for a NAPTR record the services. It returns
// false when the walk is over.
func (w *walk) addressesOf(n uint32, owner uint16, cut uint32) bool {
	t, r := w.t, w.r
	ours := t.flags(n)&(isBelow|isDelegation) == 0
	for _, typ := range [...]uint16{miekg.TypeA, miekg.TypeAAAA, miekg.TypeSRV} {
		a := t.set(n, typ)
		if a == 0 || isUnknownSet(t.arena, a) || typ == miekg.TypeSRV && w.q.Type != miekg.TypeNAPTR {
			continue
		}
		tc := r.TC
		w.encloser = 0
		if ours && t.signer != nil && w.q.DO && t.arena[a+setSigs] == 0 {
			continue // not worth a signature
		}
		if !w.put(a, owner, &r.Additionals, ours) {
			return false
		}
		if r.TC && (cut == 0 || n != cut && !t.below(n, cut)) {
			r.TC = tc
		}
	}
	return true
}

// negative answers that the name or type does not exist.
func (w *walk) negative(kind DenialKind, n uint32) bool {
	w.node = n
	if !w.put(w.t.negative, w.pointer(w.inside()), &w.r.Authorities, true) || w.r.TC {
		return false
	}
	if !w.addWildcardProofs() {
		return false
	}
	if w.q.DO && w.t.signed {
		w.prove(kind, 0)
	}
	return false
}

// noteWildcard notes a wildcard expansion to prove. The proof goes to the authority section,
// once the answer section is complete.
func (w *walk) noteWildcard() {
	if !w.q.DO || !w.t.signed {
		return
	}
	w.need()
	if w.waits < len(w.s.proofs) {
		w.s.proofs[w.waits] = w.spot
		w.waits++
	}
}

// addWildcardProofs adds the proofs that noteWildcard noted.
func (w *walk) addWildcardProofs() bool {
	here := w.spot
	for i := range w.waits {
		w.spot = w.s.proofs[i]
		if !w.prove(WildcardAnswer, 0) || w.r.TC {
			w.spot, w.waits = here, 0
			return false
		}
	}
	w.spot, w.waits = here, 0
	return true
}
