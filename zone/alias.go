package zone

import (
	"encoding/binary"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// alias answers with the addresses of the alias's target.
func (w *walk) alias(n uint32, kind DenialKind) bool {
	t := w.t
	a := &t.aliases[u32(t.arena, t.set(n, 0)+setChoice)-1]
	from, had := len(w.r.Buf), w.r.Answers
	found, ok := w.local(a)
	if !found {
		ok = w.answerResolved(a)
	}
	switch {
	case !ok || w.r.TC:
		return false
	case w.r.Answers == had:
		return w.negative(kind, n)
	}
	return w.finishAlias(from, had, kind)
}

// finishAlias completes an answer whose records, beginning at from, are those of another name.
// They are signed for this one.
func (w *walk) finishAlias(from int, had uint16, kind DenialKind) bool {
	if w.q.DO && w.t.signer != nil {
		count := w.r.Answers - had
		w.r.Answers = had
		if !w.signFresh(w.q.Type, w.pointer(0), from, count, &w.r.Answers) || w.r.TC {
			return false
		}
		if kind == WildcardNoData {
			w.noteWildcard()
		}
	}
	w.addWildcardProofs()
	return false
}

// answerClosestCAA answers with the CAA records of the closest ancestor that has some.
func (w *walk) answerClosestCAA(n uint32, kind DenialKind) bool {
	t, from, had := w.t, len(w.r.Buf), w.r.Answers
	for at, end := 0, w.inside(); at < end; {
		at += 1 + int(w.name[at])
		above := t.node(w.name[at:end])
		if above == 0 {
			continue
		}
		if s := t.set(above, miekg.TypeCAA); s != 0 && !isUnknownSet(t.arena, s) {
			if !w.put(s, w.pointer(0), &w.r.Answers, false) || w.r.TC {
				return false
			}
			return w.finishAlias(from, had, kind)
		}
	}
	return w.negative(kind, n)
}

// local answers from our own zones if the target is in one. It follows aliases and CNAMEs.
func (w *walk) local(a *alias) (found, ok bool) {
	w.need()
	name, labels := a.wire, a.labels
	for hop := range maxHops {
		t := w.z.find(name, labels, 0, w.q.Client.Addr())
		if t == nil {
			if hop == 0 {
				return false, true
			}
			return true, w.answerResolved(&alias{name, labels, dns.Text(name)})
		}
		if t.unavailable != "" {
			return true, w.unavailable(t.unavailable)
		}
		n := t.resolve(name, labels)
		if n == 0 {
			return true, true
		}
		s := t.set(n, w.q.Type)
		if s != 0 && isUnknownSet(t.arena, s) || s == 0 && t.flags(n)&isUnknown != 0 {
			return true, w.unavailable(notReadable)
		}
		if s != 0 {
			here := w.t
			w.t = t
			do := w.q.DO
			w.q.DO = false // the answer is signed under the alias's name
			ok := w.put(s, w.pointer(0), &w.r.Answers, false)
			w.t, w.q.DO = here, do
			return true, ok
		}
		switch f := t.flags(n); {
		case f&hasAlias != 0:
			next := &t.aliases[u32(t.arena, t.set(n, 0)+setChoice)-1]
			name, labels = next.wire, next.labels
		case f&hasCNAME != 0:
			name = t.targetOf(t.set(n, miekg.TypeCNAME), w.s.alias[hop%2][:0])
			labels = dns.Labels(w.s.aliasL[hop%2][:0], name)
		case f&(isDelegation|isBelow) != 0:
			return false, true
		default:
			return true, true
		}
	}
	w.r.Rcode = miekg.RcodeServerFailure
	return true, false
}

// targetOf returns the target of a CNAME.
func (t *table) targetOf(s uint32, buf []byte) []byte {
	data := t.arena[s+setData+12:]
	n := 0
	for data[n] != 0 && data[n] < 0xc0 {
		n += 1 + int(data[n])
	}
	buf = append(buf, data[:n]...)
	if data[n] == 0 {
		buf = append(buf, 0)
	} else {
		buf = append(buf, t.origin...)
	}
	dns.ToLower(buf)
	return buf
}

// resolve returns the node with the data of a name: its own or a wildcard.
func (t *table) resolve(name []byte, labels []uint8) uint32 {
	end := len(name) - len(t.origin)
	n, h := t.apex, t.originH
	for i := len(labels) - t.depth - 1; i >= 0; i-- {
		s := int(labels[i])
		h = mix(h, name[s:s+1+int(name[s])])
		below := t.lookup(h, name[s:end])
		if below == 0 {
			if t.flags(n)&(isDelegation|isBelow) != 0 {
				return n
			}
			return u32(t.arena, n+nodeWild)
		}
		n = below
	}
	return n
}

// answerResolved answers with the records that the zone's Resolver finds.
func (w *walk) answerResolved(a *alias) bool {
	if w.t.resolver == nil {
		w.failFinally()
		return false
	}
	found, ok := w.t.resolver.Addresses(w.ctx, a.text, w.q.Type)
	if !ok {
		return w.giveUp()
	}
	from, count := len(w.r.Buf), uint16(0)
	for _, addr := range found.Addrs {
		if addr.Is4() != (w.q.Type == miekg.TypeA) {
			continue
		}
		w.r.Buf = binary.BigEndian.AppendUint16(w.r.Buf, w.pointer(0))
		w.r.Buf = binary.BigEndian.AppendUint16(w.r.Buf, w.q.Type)
		w.r.Buf = append(w.r.Buf, 0, miekg.ClassINET)
		w.r.Buf = binary.BigEndian.AppendUint32(w.r.Buf, found.TTL)
		if addr.Is4() {
			b := addr.As4()
			w.r.Buf = append(append(w.r.Buf, 0, 4), b[:]...)
		} else {
			b := addr.As16()
			w.r.Buf = append(append(w.r.Buf, 0, 16), b[:]...)
		}
		count++
		if len(w.r.Buf) > w.r.Limit {
			w.r.Buf, w.r.TC = w.r.Buf[:from], true
			return true
		}
	}
	w.r.Answers += count
	return true
}

// failFinally ends a walk that cannot succeed even by waiting.
func (w *walk) failFinally() { w.r.Rcode = miekg.RcodeServerFailure }
