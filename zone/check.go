package zone

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"
)

// A Problem is a mistake or an oddity in a zone.
type Problem struct {
	Where string // file and line, "" when the zone was not read from a file
	What  string
	Fatal bool // the zone is not served
}

func (p Problem) String() string {
	kind := "warning"
	if p.Fatal {
		kind = "error"
	}
	if p.Where == "" {
		return kind + ": " + p.What
	}
	return p.Where + ": " + kind + ": " + p.What
}

// Check finds mistakes in a zone, in the order of its records. Fatal ones are those that
// [Responder.Replace] refuses.
func Check(z *Zone) []Problem {
	c := &checker{z: z, names: map[string]map[uint16][]int{}}
	c.collect()
	c.apex()
	for name, types := range c.names {
		c.name(name, types)
	}
	slices.SortStableFunc(c.found, func(a, b problem) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.What, b.What)) })
	problems := make([]Problem, 0, len(c.found)+len(z.outside))
	for _, o := range z.outside {
		problems = append(problems, Problem{Where: o.Where, What: fmt.Sprintf("%s %s is outside the zone %s and not served", o.Name, typeName(o.Type), c.origin)})
	}
	for _, p := range c.found {
		problems = append(problems, p.Problem)
	}
	if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Fatal }) {
		if _, err := compile(z, 1); err != nil { // found only by compiling
			problems = append(problems, Problem{What: err.Error(), Fatal: true})
		}
	}
	return problems
}

type problem struct {
	Problem
	at int
}

type checker struct {
	z      *Zone
	origin string
	names  map[string]map[uint16][]int // records by owner and type
	found  []problem
}

// report reports a problem of the record at i, or with -1 of the zone.
func (c *checker) report(i int, fatal bool, format string, args ...any) {
	p := problem{Problem{What: fmt.Sprintf(format, args...), Fatal: fatal}, i}
	if i >= 0 && i < len(c.z.places) {
		p.Where = c.z.places[i].String()
	} else if len(c.z.places) > 0 {
		p.Where = c.z.places[0].file
	}
	c.found = append(c.found, p)
}

func (c *checker) collect() {
	c.origin = miekg.CanonicalName(c.z.Origin)
	for i, rr := range c.z.Records {
		name := miekg.CanonicalName(rr.Header().Name)
		if !miekg.IsSubDomain(c.origin, name) {
			c.report(i, true, "%s is outside the zone %s", name, c.origin)
			continue
		}
		if c.names[name] == nil {
			c.names[name] = map[uint16][]int{}
		}
		typ := rr.Header().Rrtype
		for _, j := range c.names[name][typ] {
			if miekg.IsDuplicate(rr, c.z.Records[j]) {
				c.report(i, false, "%s %s is a duplicate%s", name, typeName(typ), c.line(j))
			}
			if len(c.names[name][typ]) > 16 { // do not compare all of a large RRset
				break
			}
		}
		c.names[name][typ] = append(c.names[name][typ], i)
	}
}

// line returns where the record at i was read.
func (c *checker) line(i int) string {
	if i < len(c.z.places) {
		return fmt.Sprintf(" (line %d)", c.z.places[i].line)
	}
	return ""
}

func (c *checker) apex() {
	apex := c.names[c.origin]
	switch soa := apex[miekg.TypeSOA]; {
	case len(soa) == 0:
		c.report(-1, true, "there is no SOA record at %s", c.origin)
	case len(soa) > 1:
		c.report(soa[1], true, "%s has more than one SOA record", c.origin)
	}
	if len(apex[miekg.TypeNS]) == 0 {
		c.report(-1, false, "there is no NS record at %s", c.origin)
	}
}

func (c *checker) name(name string, types map[uint16][]int) {
	for typ, records := range types {
		if typ == miekg.TypeRRSIG {
			continue
		}
		first := c.z.Records[records[0]].Header()
		for _, i := range records[1:] {
			if ttl := c.z.Records[i].Header().Ttl; ttl != first.Ttl {
				c.report(i, false, "%s %s has a TTL of %d, and of %d before%s: the lower one is served (RFC 2181 5.2)", name, typeName(typ), ttl, first.Ttl, c.line(records[0]))
			}
		}
		switch {
		case typ == miekg.TypeSOA && name != c.origin:
			c.report(records[0], true, "%s: an SOA record is allowed only at the origin", name)
		case (typ == miekg.TypeCNAME || typ == miekg.TypeDNAME) && len(records) > 1:
			c.report(records[1], true, "%s has more than one %s", name, typeName(typ))
		}
		for _, i := range records {
			c.target(i, name)
		}
	}
	c.checkCNAME(name, types)
	c.below(name, types)
}

// checkCNAME reports other records beside a CNAME.
func (c *checker) checkCNAME(name string, types map[uint16][]int) {
	alias := types[miekg.TypeCNAME]
	if len(alias) == 0 {
		return
	}
	for typ, records := range types {
		if typ != miekg.TypeCNAME && typ != miekg.TypeRRSIG && typ != miekg.TypeNSEC {
			c.report(records[0], true, "%s has a %s beside its CNAME%s (RFC 1034 3.6.2)", name, typeName(typ), c.line(alias[0]))
		}
	}
}

// below reports data that is never served, below a cut or a DNAME.
func (c *checker) below(name string, types map[uint16][]int) {
	for up := parent(name); c.contains(up); up = parent(up) {
		above := c.names[up]
		if above == nil {
			continue
		}
		first := -1
		for typ, records := range types {
			glue := typ == miekg.TypeA || typ == miekg.TypeAAAA || typ == miekg.TypeNSEC3 || typ == miekg.TypeRRSIG
			if !glue || len(above[miekg.TypeDNAME]) > 0 && typ != miekg.TypeNSEC3 && typ != miekg.TypeRRSIG {
				first = records[0]
			}
		}
		switch {
		case first < 0:
		case len(above[miekg.TypeDNAME]) > 0:
			c.report(first, false, "%s is below the DNAME at %s%s and not served (RFC 6672 2.4)", name, up, c.line(above[miekg.TypeDNAME][0]))
			return
		case up != c.origin && len(above[miekg.TypeNS]) > 0:
			c.report(first, false, "%s is below the delegation of %s%s and not served", name, up, c.line(above[miekg.TypeNS][0]))
			return
		}
	}
}

// contains reports whether an ancestor of a name in the zone is in the zone, too: all that are at
// least as long as the origin are.
func (c *checker) contains(up string) bool { return up != "" && len(up) >= len(c.origin) }

func parent(name string) string {
	i, end := miekg.NextLabel(name, 0)
	if end {
		return ""
	}
	return name[i:]
}

// target checks the target of a record.
func (c *checker) target(i int, owner string) {
	var to string
	switch rr := c.z.Records[i].(type) {
	case *miekg.NS:
		to = rr.Ns
	case *miekg.MX:
		to = rr.Mx
	case *miekg.SRV:
		to = rr.Target
	default:
		return
	}
	to = miekg.CanonicalName(to)
	typ := typeName(c.z.Records[i].Header().Rrtype)
	if to == "." || !miekg.IsSubDomain(c.origin, to) {
		return
	}
	types := c.names[to]
	if types == nil {
		for up := parent(to); c.contains(up); up = parent(up) {
			if types = c.names["*."+up]; types != nil || c.names[up] != nil {
				break
			}
		}
	}
	switch {
	case len(types[miekg.TypeCNAME]) > 0:
		c.report(i, false, "%s %s points at %s, which is a CNAME (RFC 2181 10.3)", owner, typ, to)
	case len(types[miekg.TypeA]) > 0 || len(types[miekg.TypeAAAA]) > 0 || c.aliased(to):
	case typ == "NS" && owner != c.origin && miekg.IsSubDomain(owner, to):
		c.report(i, false, "%s NS points at %s, which lies below it and has no address: glue is missing", owner, to)
	case c.delegated(to, owner):
	default:
		c.report(i, false, "%s %s points at %s, which has no address", owner, typ, to)
	}
}

func (c *checker) aliased(name string) bool {
	return slices.ContainsFunc(c.z.Aliases, func(a Alias) bool { return miekg.CanonicalName(a.Name) == name })
}

// delegated reports whether a name is in a delegated zone, below another cut than the owner.
func (c *checker) delegated(name, owner string) bool {
	for up := name; up != "" && up != c.origin; up = parent(up) {
		if up != owner && len(c.names[up][miekg.TypeNS]) > 0 || len(c.names[up][miekg.TypeDNAME]) > 0 {
			return true
		}
	}
	return false
}
