package redins

import (
	"errors"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone"
)

const (
	// maxChain bounds the CNAMEs followed for one name, as in redins.
	maxChain = 10
	// maxFlattened bounds the bytes that flattening adds to a zone, because many names may point
	// to one with many records.
	maxFlattened = 64 << 20
)

// A flattener replaces CNAMEs by the records of their targets.
type flattener struct {
	b      *builder
	origin string               // names are in wire form, lower case
	names  map[string]*flatName // including empty non-terminals
	size   int
}

// A flatName is the records of a name.
type flatName struct {
	rrs     []miekg.RR
	choices []zone.Choice
	alias   string
	cname   *miekg.CNAME // the CNAME to follow; at the apex it is not in rrs
	cut     bool         // a delegation
	dname   bool
	done    bool // the CNAME is already replaced
}

// flatten follows the CNAMEs of a zone with cname_flattening, as long as they stay in it. Each
// name gets the records of all types of the last target, and is then an ordinary name for
// signing, proofs of denial and transfers.
//
// A chain that leaves the zone becomes one CNAME to the outside name. A name whose target does
// not exist becomes an alias of it, so that it exists without records. A loop stays.
func (b *builder) flatten() {
	if !b.follows {
		return
	}
	f := &flattener{b: b, origin: wire(b.zone.Origin), names: map[string]*flatName{}}
	var order []*flatName
	for _, rr := range b.zone.Records {
		h := f.at(wire(rr.Header().Name))
		switch rr := rr.(type) {
		case *miekg.CNAME:
			if h.cname == nil {
				h.cname = rr
				order = append(order, h)
			}
			continue
		case *miekg.NS:
			h.cut = true
		case *miekg.DNAME:
			h.dname = true
		}
		h.rrs = append(h.rrs, rr)
	}
	for _, c := range b.zone.Choices {
		h := f.at(wire(c.Name))
		h.choices = append(h.choices, c)
	}
	for _, a := range b.zone.Aliases {
		f.at(wire(a.Name)).alias = a.Target
	}
	apex := f.at(f.origin)
	apex.cut = false
	if b.apex != nil {
		apex.cname = b.apex
		order = append(order, apex)
	}
	var records []miekg.RR
	for _, h := range order {
		records = append(records, f.follow(h)...)
	}
	b.zone.Records = slices.DeleteFunc(b.zone.Records, func(rr miekg.RR) bool {
		switch rr.Header().Rrtype {
		case miekg.TypeCNAME, miekg.TypeRRSIG, miekg.TypeNSEC:
			return f.names[wire(rr.Header().Name)].done
		}
		return false
	})
	b.zone.Records = append(b.zone.Records, records...)
}

// wire returns a name of the zone in wire form. It was packed before.
func wire(name string) string {
	b, err := dns.Name(name)
	if err != nil {
		return ""
	}
	return string(b)
}

// at returns the entry of a name of the zone, and creates it and its ancestors if needed.
func (f *flattener) at(name string) *flatName {
	h := f.names[name]
	if h == nil {
		h = &flatName{}
		f.names[name] = h
		if name != f.origin && len(name) > 1 {
			f.at(name[1+int(name[0]):])
		}
	}
	return h
}

// find returns the zone's records for a name, possibly by a wildcard; nil when the name
// does not exist. inside is false when the zone is not authoritative for it.
func (f *flattener) find(name string) (h *flatName, inside bool) {
	encloser := false
	for at := name; ; at = at[1+int(at[0]):] {
		if here := f.names[at]; here != nil {
			if here.cut || here.dname && at != name {
				return nil, false
			}
			if !encloser {
				encloser = true
				if h = here; at != name {
					h = f.names["\x01*"+at]
				}
			}
		}
		if at == f.origin {
			return h, h == nil || !h.cut
		}
		if len(at) <= 1 {
			return nil, false
		}
	}
}

// follow returns the records that replace a CNAME. It adds choices and aliases to the zone.
func (f *flattener) follow(h *flatName) (records []miekg.RR) {
	owner, last := h.cname.Hdr.Name, h.cname
	if _, inside := f.find(wire(owner)); !inside {
		return nil // it is below a cut
	}
	own := len(h.rrs) > 0 || h.alias != "" // the apex, whose own records win
	got := flatName{alias: h.alias}
	had := except(h, nil)
	size := 0
	var next *flatName
	for hop := 0; ; hop++ {
		var inside bool
		if next, inside = f.find(wire(last.Target)); !inside {
			if own || len(got.rrs) > 0 || got.alias != "" {
				break
			}
			h.done = true
			c := *last
			c.Hdr.Name = owner
			return []miekg.RR{&c}
		}
		if next == nil {
			break
		}
		if hop == maxChain || next == h {
			f.problem(owner, errors.New("its CNAMEs form a loop or a chain of more than 10 names; the CNAME is the answer"))
			return nil
		}
		for _, rr := range next.rrs {
			if !slices.Contains(had, rr.Header().Rrtype) {
				got.rrs = append(got.rrs, rr)
				size += miekg.Len(rr)
			}
		}
		for _, c := range next.choices {
			if !slices.Contains(had, c.Type) {
				got.choices = append(got.choices, c)
			}
		}
		if got.alias == "" {
			got.alias = next.alias
		}
		if had = except(next, had); next.cname == nil {
			break
		}
		last = next.cname
	}
	if f.size+size > maxFlattened {
		f.problem(owner, errors.New("the names that have CNAMEs would have more than 64 MiB of records; the CNAME is answered"))
		return nil
	}
	h.done = true
	f.size += size
	for _, rr := range got.rrs {
		rr = miekg.Copy(rr)
		rr.Header().Name = owner
		records = append(records, rr)
	}
	z := f.b.zone
	for _, c := range got.choices {
		z.Choices = append(z.Choices, zone.Choice{Name: owner, Type: c.Type, Pick: c.Pick})
	}
	if !own && len(records) == 0 && got.alias == "" {
		got.alias = last.Target
	}
	if h.alias == "" && got.alias != "" {
		z.Aliases = append(z.Aliases, zone.Alias{Name: owner, Target: got.alias})
	}
	return records
}

// except adds to the types that a name has those that are never copied.
func except(h *flatName, had []uint16) []uint16 {
	if had == nil {
		had = []uint16{
			miekg.TypeSOA, miekg.TypeNS, miekg.TypeDS, miekg.TypeDNAME, miekg.TypeRRSIG, miekg.TypeNSEC, miekg.TypeNSEC3,
			miekg.TypeNSEC3PARAM, miekg.TypeDNSKEY, miekg.TypeCDS, miekg.TypeCDNSKEY,
		}
	}
	for _, rr := range h.rrs {
		if t := rr.Header().Rrtype; !slices.Contains(had, t) {
			had = append(had, t)
		}
	}
	if h.alias != "" {
		had = append(had, miekg.TypeA, miekg.TypeAAAA)
	}
	return had
}

func (f *flattener) problem(owner string, err error) {
	p := Problem{f.b.raw.key, "cname_flattening " + strings.TrimSuffix(owner, "."), err}
	f.b.problems = append(f.b.problems, p)
	f.b.general = append(f.b.general, p)
}
