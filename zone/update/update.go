// Package update applies dynamic updates (RFC 2136) to the records of a zone.
//
// [Read] takes a message apart. [Message.Apply] checks its prerequisites and its changes against the
// records that the zone has, and returns those that go and those that come; it writes nothing. Who
// may update what, and where a zone is kept, is decided elsewhere.
package update

import (
	"cmp"
	"fmt"
	"slices"

	miekg "github.com/miekg/dns"

	"shuultuur/zone"
)

// A Message is an update.
type Message struct {
	zone           string
	class          uint16
	before, change []miekg.RR // prerequisites and changes, in the order of the message
}

// Read takes a message apart. rcode is not 0 if it is malformed.
func Read(msg []byte) (m *Message, rcode int) {
	var in miekg.Msg
	if err := in.Unpack(msg); err != nil || len(in.Question) != 1 || in.Question[0].Qtype != miekg.TypeSOA {
		return nil, miekg.RcodeFormatError
	}
	for _, rr := range in.Ns {
		if h := rr.Header(); h.Ttl > 1<<31-1 {
			h.Ttl = 0 // RFC 2181 section 8
		}
	}
	m = &Message{zone: zone.Canonical(in.Question[0].Name), class: in.Question[0].Qclass, before: in.Answer, change: in.Ns}
	return m, miekg.RcodeSuccess
}

// Zone returns the name of the zone in lower case, and its class.
func (m *Message) Zone() (name string, class uint16) { return m.zone, m.class }

// Changes returns how many changes the message asks for.
func (m *Message) Changes() int { return len(m.change) }

// A Diff is the difference that an update makes: records of the zone that go, and those that come.
// A record with another TTL goes and comes.
type Diff struct{ Gone, Come []miekg.RR }

// IsEmpty reports whether nothing changes.
func (d *Diff) IsEmpty() bool { return len(d.Gone)+len(d.Come) == 0 }

// Serial reports whether the update itself sets a greater serial number.
func (d *Diff) Serial() bool {
	was, now := soaOf(d.Gone), soaOf(d.Come)
	return was != nil && now != nil && int32(now.Serial-was.Serial) > 0
}

func soaOf(records []miekg.RR) *miekg.SOA {
	for _, rr := range records {
		if soa, ok := rr.(*miekg.SOA); ok {
			return soa
		}
	}
	return nil
}

// Apply checks the prerequisites and applies the changes to the records of the zone, which stay as they
// are. rcode is not 0 if nothing is to be changed because of it. signed is whether the zone is signed by
// this server: then the records that the signing makes are not for updates.
func (m *Message) Apply(records []miekg.RR, signed bool) (d *Diff, rcode int) {
	s := newState(m.zone, records)
	if rcode := m.prerequisites(s); rcode != miekg.RcodeSuccess {
		return nil, rcode
	}
	for _, rr := range m.change { // before anything is changed (RFC 2136 section 3.4.1)
		if rcode := m.scan(rr, signed); rcode != miekg.RcodeSuccess {
			return nil, rcode
		}
	}
	for _, rr := range m.change {
		s.change(rr, m.class)
	}
	return s.diff(), miekg.RcodeSuccess
}

// inside reports whether a record belongs into the zone.
func (m *Message) inside(rr miekg.RR) bool {
	return miekg.IsSubDomain(m.zone, zone.Canonical(rr.Header().Name))
}

// prerequisites checks what must hold before (section 3.2).
func (m *Message) prerequisites(s *state) int {
	sets := map[key][]miekg.RR{} // that must be equal
	for _, rr := range m.before {
		h := rr.Header()
		at := keyOf(rr)
		switch {
		case h.Ttl != 0:
			return miekg.RcodeFormatError
		case !m.inside(rr):
			return miekg.RcodeNotZone
		case (h.Class == miekg.ClassANY || h.Class == miekg.ClassNONE) && (h.Rdlength != 0 || meta(h.Rrtype) && h.Rrtype != miekg.TypeANY):
			return miekg.RcodeFormatError
		case h.Class == miekg.ClassANY && h.Rrtype == miekg.TypeANY:
			if len(s.now[at.name]) == 0 {
				return miekg.RcodeNameError
			}
		case h.Class == miekg.ClassANY:
			if len(s.set(at)) == 0 {
				return miekg.RcodeNXRrset
			}
		case h.Class == miekg.ClassNONE && h.Rrtype == miekg.TypeANY:
			if len(s.now[at.name]) > 0 {
				return miekg.RcodeYXDomain
			}
		case h.Class == miekg.ClassNONE:
			if len(s.set(at)) > 0 {
				return miekg.RcodeYXRrset
			}
		case h.Class != m.class || meta(h.Rrtype) || !whole(rr):
			return miekg.RcodeFormatError
		default:
			if !slices.ContainsFunc(sets[at], func(o miekg.RR) bool { return s.equal(o, rr) }) {
				sets[at] = append(sets[at], rr)
			}
		}
	}
	for at, want := range sets {
		have := s.set(at)
		if len(have) != len(want) {
			return miekg.RcodeNXRrset
		}
		for _, rr := range want {
			if !slices.ContainsFunc(have, func(o miekg.RR) bool { return s.equal(o, rr) }) {
				return miekg.RcodeNXRrset
			}
		}
	}
	return miekg.RcodeSuccess
}

// scan checks a change by itself.
func (m *Message) scan(rr miekg.RR, signed bool) int {
	h := rr.Header()
	switch {
	case !m.inside(rr):
		return miekg.RcodeNotZone
	case h.Class == m.class && (meta(h.Rrtype) || !whole(rr)),
		h.Class == miekg.ClassANY && (h.Ttl != 0 || h.Rdlength != 0 || meta(h.Rrtype) && h.Rrtype != miekg.TypeANY),
		h.Class == miekg.ClassNONE && (h.Ttl != 0 || meta(h.Rrtype) || !whole(rr)),
		h.Class != m.class && h.Class != miekg.ClassANY && h.Class != miekg.ClassNONE:
		return miekg.RcodeFormatError
	}
	switch h.Rrtype {
	case miekg.TypeRRSIG, miekg.TypeNSEC, miekg.TypeNSEC3:
		if signed {
			return miekg.RcodeRefused
		}
	}
	return miekg.RcodeSuccess
}

// meta reports whether a type is one of questions, not of records (RFC 6895 section 3.1).
func meta(typ uint16) bool { return typ == 0 || typ == miekg.TypeOPT || typ >= 128 && typ <= 255 }

// whole reports whether a record has data, which few types may lack.
func whole(rr miekg.RR) bool {
	h := rr.Header()
	if h.Rdlength > 0 {
		return true
	}
	return h.Rrtype == miekg.TypeAPL || h.Rrtype == miekg.TypeNULL || miekg.TypeToRR[h.Rrtype] == nil
}

// A key is the name and type of a set of records.
type key struct {
	name string
	typ  uint16
}

func keyOf(rr miekg.RR) key {
	h := rr.Header()
	return key{zone.Canonical(h.Name), h.Rrtype}
}

// data returns the data of a record in wire form, with names in lower case.
func data(rr miekg.RR) string {
	rr = miekg.Copy(rr)
	for _, name := range names(rr) {
		*name = zone.Canonical(*name)
	}
	*rr.Header() = miekg.RR_Header{Name: ".", Rrtype: rr.Header().Rrtype, Class: miekg.ClassINET}
	wire, err := zone.Pack(rr, new([]byte))
	if err != nil {
		return rr.String()
	}
	return string(wire)
}

// names returns the names in the data of a record that compare without case: those of the types that
// are older than RFC 3597.
func names(rr miekg.RR) []*string {
	switch x := rr.(type) {
	case *miekg.NS:
		return []*string{&x.Ns}
	case *miekg.CNAME:
		return []*string{&x.Target}
	case *miekg.DNAME:
		return []*string{&x.Target}
	case *miekg.PTR:
		return []*string{&x.Ptr}
	case *miekg.MX:
		return []*string{&x.Mx}
	case *miekg.SOA:
		return []*string{&x.Ns, &x.Mbox}
	case *miekg.SRV:
		return []*string{&x.Target}
	case *miekg.NAPTR:
		return []*string{&x.Replacement}
	case *miekg.AFSDB:
		return []*string{&x.Hostname}
	case *miekg.RT:
		return []*string{&x.Host}
	case *miekg.KX:
		return []*string{&x.Exchanger}
	case *miekg.RP:
		return []*string{&x.Mbox, &x.Txt}
	case *miekg.PX:
		return []*string{&x.Map822, &x.Mapx400}
	case *miekg.MINFO:
		return []*string{&x.Rmail, &x.Email}
	case *miekg.MB:
		return []*string{&x.Mb}
	case *miekg.MG:
		return []*string{&x.Mg}
	case *miekg.MR:
		return []*string{&x.Mr}
	}
	return nil
}

// A state is the records of a zone while an update changes them.
type state struct {
	zone   string
	before map[string][]miekg.RR // at names that the update touches, as they were
	now    map[string][]miekg.RR
	data   map[miekg.RR]string // of the records that were compared
}

func newState(origin string, records []miekg.RR) *state {
	s := &state{zone: origin, before: map[string][]miekg.RR{}, data: map[miekg.RR]string{}, now: make(map[string][]miekg.RR, len(records)/2)}
	for _, rr := range records {
		name := zone.Canonical(rr.Header().Name)
		s.now[name] = append(s.now[name], rr)
	}
	return s
}

// equal reports whether two records of one name have the same type and data.
func (s *state) equal(a, b miekg.RR) bool {
	if a.Header().Rrtype != b.Header().Rrtype {
		return false
	}
	for _, rr := range []miekg.RR{a, b} {
		if _, known := s.data[rr]; !known {
			s.data[rr] = data(rr)
		}
	}
	return s.data[a] == s.data[b]
}

func (s *state) set(at key) (all []miekg.RR) {
	for _, rr := range s.now[at.name] {
		if rr.Header().Rrtype == at.typ {
			all = append(all, rr)
		}
	}
	return all
}

// change makes one change (section 3.4.2).
func (s *state) change(rr miekg.RR, class uint16) {
	at := keyOf(rr)
	if _, known := s.before[at.name]; !known {
		s.before[at.name] = slices.Clone(s.now[at.name])
	}
	apex := at.name == s.zone
	switch rr.Header().Class {
	case class:
		s.add(at, rr)
	case miekg.ClassANY:
		s.drop(at.name, func(o miekg.RR) bool {
			typ := o.Header().Rrtype
			return (at.typ == miekg.TypeANY || typ == at.typ) && !(apex && (typ == miekg.TypeSOA || typ == miekg.TypeNS))
		})
	default:
		if at.typ == miekg.TypeSOA || apex && at.typ == miekg.TypeNS && len(s.set(at)) == 1 { // a zone keeps its SOA and its last name server
			return
		}
		s.drop(at.name, func(o miekg.RR) bool { return s.equal(o, rr) })
	}
}

func (s *state) drop(name string, which func(miekg.RR) bool) {
	s.now[name] = slices.DeleteFunc(slices.Clone(s.now[name]), which)
}

// add adds a record. Those that it cannot stand beside win over it, and it replaces those of which there
// is one. Records of one name and type have one TTL (RFC 2181 section 5.2): the new one.
func (s *state) add(at key, rr miekg.RR) {
	other := func(o miekg.RR) bool {
		switch typ := o.Header().Rrtype; {
		case beside(typ) || beside(at.typ):
			return false
		default:
			return (typ == miekg.TypeCNAME) != (at.typ == miekg.TypeCNAME)
		}
	}
	set := s.set(at)
	switch {
	case slices.ContainsFunc(s.now[at.name], other):
		return
	case at.typ == miekg.TypeSOA:
		if at.name != s.zone || len(set) == 0 || int32(rr.(*miekg.SOA).Serial-set[0].(*miekg.SOA).Serial) < 0 {
			return
		}
	}
	replaces := func(o miekg.RR) bool {
		switch at.typ {
		case miekg.TypeSOA, miekg.TypeCNAME, miekg.TypeDNAME:
			return true
		}
		return s.equal(o, rr)
	}
	fresh := miekg.Copy(rr)
	fresh.Header().Name, fresh.Header().Rdlength = at.name, 0
	if len(set) == 1 && s.equal(set[0], rr) && set[0].Header().Ttl == rr.Header().Ttl {
		return
	}
	var next []miekg.RR
	placed := false
	for _, o := range s.now[at.name] {
		switch h := o.Header(); {
		case h.Rrtype != at.typ:
		case replaces(o):
			if !placed && s.equal(o, rr) && h.Ttl == rr.Header().Ttl {
				next, placed = append(next, o), true // as it was, with its spelling
			} else if !placed {
				next, placed = append(next, fresh), true
			}
			continue
		case h.Ttl != rr.Header().Ttl:
			o = miekg.Copy(o)
			o.Header().Ttl = rr.Header().Ttl
		}
		next = append(next, o)
	}
	if !placed {
		next = append(next, fresh)
	}
	s.now[at.name] = next
}

// beside reports whether records of a type may stand beside a CNAME.
func beside(typ uint16) bool {
	switch typ {
	case miekg.TypeRRSIG, miekg.TypeNSEC, miekg.TypeKEY:
		return true
	}
	return false
}

// diff returns what has changed. A record that went and came again has not.
func (s *state) diff() *Diff {
	d := &Diff{}
	names := make([]string, 0, len(s.before))
	for name := range s.before {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, name := range names {
		now := slices.Clone(s.now[name])
		for _, old := range s.before[name] {
			i := slices.IndexFunc(now, func(o miekg.RR) bool {
				return o == old || o.Header().Ttl == old.Header().Ttl && s.equal(o, old)
			})
			if i < 0 {
				d.Gone = append(d.Gone, old)
				continue
			}
			now = slices.Delete(now, i, i+1)
		}
		d.Come = append(d.Come, now...)
	}
	return d
}

// Same reports whether two lists have the same records, in any order.
func Same(a, b []miekg.RR) bool {
	if len(a) != len(b) {
		return false
	}
	left := make(map[string]int, len(a))
	for _, rr := range a {
		left[identity(rr)]++
	}
	for _, rr := range b {
		left[identity(rr)]--
	}
	for _, n := range left {
		if n != 0 {
			return false
		}
	}
	return true
}

func identity(rr miekg.RR) string {
	h := rr.Header()
	return fmt.Sprintf("%s %d %d %s", zone.Canonical(h.Name), h.Ttl, h.Rrtype, data(rr))
}
