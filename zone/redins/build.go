package redins

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone"
	"shuultuur/zone/redins/geo"
	"shuultuur/zone/redins/health"
)

// A Problem is something in Redis that cannot be served as it is. The rest of the zone is
// served.
type Problem struct {
	Key   string // in Redis
	Field string // place in the value: "www a records[2]", or "" for all of it
	Err   error
}

func (p Problem) Error() string {
	if p.Field == "" {
		return fmt.Sprintf("%s: %v", p.Key, p.Err)
	}
	return fmt.Sprintf("%s: %s: %v", p.Key, p.Field, p.Err)
}

// A raw is a zone as stored in Redis.
type raw struct {
	origin string // lower case, fully qualified
	values []value
	names  *names // the names listed, in the order of arrival
	key    string // of the config
	config []byte // nil if missing
	keys   Keys
}

// Keys are the signing keys of a zone as stored in Redis: for the zone-signing and the
// key-signing key a DNSKEY record and BIND's private-key text.
type Keys struct {
	ZSKPublic, ZSKPrivate, KSKPublic, KSKPrivate string
}

// A value is the JSON of a name, with all of its types or one.
type value struct {
	key, label string
	typ        string // "A" ...; "" for an object with a field for each type
	json       []byte
}

// A builder makes a zone.Zone of a raw one.
type builder struct {
	schema   Schema
	climb    bool   // climb for CAA, as redins does
	ttl      uint32 // for records without a TTL
	maxTTL   uint32 // 0: no limit
	geo      *geo.DB
	trusts   []netip.Prefix // whose ECS is used; nil: everybody's
	checker  *health.Checker
	resolver zone.Resolver
	served   *zone.Served     // the served, last good values
	before   *configJSON      // the last good config; nil: the defaults
	kept     []string         // labels for which a last good value is served
	now      func() time.Time // for the serial of a zone without one; nil: serial 0

	raw      *raw
	config   configJSON
	zone     *zone.Zone
	watched  []*health.Status
	problems []Problem
	general  []Problem // those about no particular name
	each     func(label string, problems []Problem, watched []*health.Status)
	follows  bool         // there are CNAMEs to flatten
	apex     *miekg.CNAME // of the apex, if it is to be flattened

	nameBuild
}

// A nameBuild is the state of the name being built.
type nameBuild struct {
	value *value
	owner string
	where string
	rrs   []miekg.RR
	ready []zone.Choice
	alias string
	size  map[uint16]int
	// damaged lists the types whose values cannot be read, 0 for all.
	damaged []uint16
}

// maxSet bounds the records of a name and type, in bytes: a bound by the size of a
// message.
const maxSet = 60000

// build makes the zone, with CNAMEs as written. b.problems gets the problems.
func (b *builder) build(r *raw) *zone.Zone {
	b.begin(r)
	sortValues(r.values)
	for i := 0; i < len(r.values); {
		j := i + 1
		for j < len(r.values) && r.values[j].label == r.values[i].label {
			j++
		}
		problems, watched := len(b.problems), len(b.watched)
		b.name(r.values[i:j])
		if b.each != nil {
			b.each(r.values[i].label, slices.Clone(b.problems[problems:]), slices.Clone(b.watched[watched:]))
		}
		i = j
	}
	if !slices.ContainsFunc(b.zone.Records, func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeSOA }) {
		b.zone.Records = append(b.zone.Records, b.soa())
	}
	return b.zone
}

func sortValues(all []value) {
	slices.SortStableFunc(all, func(x, y value) int {
		return cmp.Or(strings.Compare(x.label, y.label), strings.Compare(x.typ, y.typ))
	})
}

// begin reads the zone's settings.
func (b *builder) begin(r *raw) {
	b.raw = r
	b.zone = &zone.Zone{Origin: r.origin, Resolver: b.resolver, ClimbCAA: b.climb}
	b.settings()
}

// problem records a problem of the current value.
func (b *builder) problem(field string, err error) {
	where := b.where
	if field != "" {
		where = strings.TrimPrefix(where+" "+field, " ")
	}
	key := b.raw.key
	if b.value != nil {
		key = b.value.key
	}
	p := Problem{key, where, err}
	b.problems = append(b.problems, p)
	if b.value == nil {
		b.general = append(b.general, p)
	}
}

func (b *builder) unknown(field, name string) {
	if name != "" {
		b.problem(field, fmt.Errorf("field %s is not known and ignored", name))
	}
}

// settings applies the zone's config to the defaults.
func (b *builder) settings() {
	defaults := func() *soaJSON {
		return &soaJSON{NS: "ns1." + strings.TrimPrefix(b.raw.origin, "."), MBox: "hostmaster." + strings.TrimPrefix(b.raw.origin, "."),
			TTL: 300, Refresh: 86400, Retry: 7200, Expire: 3600, MinTTL: 300}
	}
	b.config = configJSON{SOA: defaults()}
	if b.raw.config == nil {
		return
	}
	unknown, err := decode(b.raw.config, &b.config)
	if err != nil {
		instead := "defaults are used"
		b.config = configJSON{SOA: defaults()}
		if b.before != nil && b.before.SOA != nil {
			instead, b.config = "the last good copy is used", *b.before
			soa := *b.before.SOA
			b.config.SOA = &soa
		}
		b.problem("", fmt.Errorf("%w; %s", err, instead))
	}
	b.unknown("", unknown)
	if b.config.SOA == nil { // "soa": null
		b.config.SOA = defaults()
	}
	for _, f := range []struct {
		name     string
		at       *string
		fallback string
	}{{"soa ns", &b.config.SOA.NS, defaults().NS}, {"soa MBox", &b.config.SOA.MBox, defaults().MBox}} {
		name, err := host(*f.at)
		if err != nil {
			b.problem(f.name, fmt.Errorf("%w; %q is used", err, f.fallback))
			name = f.fallback
		}
		*f.at = name
	}
}

func (b *builder) soa() *miekg.SOA {
	c := b.config.SOA
	serial := uint32(0)
	if c.Serial != nil {
		serial = *c.Serial
	} else if b.now != nil {
		serial = uint32(b.now().Unix())
	}
	ttl := c.TTL
	if b.maxTTL > 0 {
		ttl = min(ttl, b.maxTTL)
	}
	return &miekg.SOA{
		Hdr: miekg.RR_Header{Name: b.raw.origin, Rrtype: miekg.TypeSOA, Class: miekg.ClassINET, Ttl: ttl},
		Ns:  c.NS, Mbox: c.MBox, Serial: serial, Refresh: c.Refresh, Retry: c.Retry, Expire: c.Expire, Minttl: c.MinTTL,
	}
}

// name builds the records of one name from all of its values.
func (b *builder) name(values []value) {
	b.value, b.where = &values[0], ""
	label := values[0].label
	if b.schema == Redins {
		b.where = label
	}
	switch owner, err := ownerName(label, b.raw.origin); {
	case err != nil:
		b.problem("", err)
		return
	default:
		b.owner = owner
	}
	b.rrs, b.ready, b.alias, b.size, b.damaged = nil, nil, "", map[uint16]int{}, nil
	for i := range values {
		b.value = &values[i]
		switch {
		case b.value.json == nil: // a name without values
		case len(b.value.json) > maxValue:
			b.noteDamage(miekg.StringToType[b.value.typ], "", fmt.Errorf("%d bytes are too many; at most %d are read", len(b.value.json), maxValue))
		case b.value.typ != "":
			b.rrset(b.value.typ, "", b.value.json)
		default:
			b.readName(b.value.json)
		}
	}
	b.useLastGood(label)
	b.settle()
	b.value, b.where = nil, ""
}

// noteDamage records that the value of a type of the name cannot be read; type 0 means all types.
func (b *builder) noteDamage(typ uint16, field string, err error) {
	b.problem(field, err)
	if !slices.Contains(b.damaged, typ) {
		b.damaged = append(b.damaged, typ)
	}
}

// useLastGood replaces damaged values by the last good ones. Without a last good one, the
// answer is SERVFAIL.
func (b *builder) useLastGood(label string) {
	if len(b.damaged) == 0 {
		return
	}
	var had *zone.Zone
	if b.served != nil {
		had = b.served.Name(b.owner)
	}
	for _, typ := range b.damaged {
		if had == nil || !b.takeBack(had, typ) {
			b.zone.Unknown = append(b.zone.Unknown, zone.Unknown{Name: b.owner, Type: typ})
		} else if !slices.Contains(b.kept, label) {
			b.kept = append(b.kept, label)
		}
	}
}

// takeBack copies the records of a type from the served zone; type 0 means all types that
// could not be read now. It reports whether there were any.
func (b *builder) takeBack(had *zone.Zone, typ uint16) (found bool) {
	read := map[uint16]bool{miekg.TypeSOA: true}
	for _, rr := range b.rrs {
		read[rr.Header().Rrtype] = true
	}
	wanted := func(t uint16) bool { return !read[t] && (typ == 0 || t == typ) }
	for _, rr := range had.Records {
		if wanted(rr.Header().Rrtype) {
			b.rrs, found = append(b.rrs, rr), true
		}
	}
	for _, c := range had.Choices {
		if wanted(c.Type) {
			b.ready = append(b.ready, c)
		}
	}
	if b.alias == "" && len(had.Aliases) > 0 && (typ == 0 || typ == miekg.TypeA || typ == miekg.TypeAAAA) {
		b.alias, found = had.Aliases[0].Target, true
	}
	return found
}

func ownerName(label, origin string) (string, error) {
	if label == "@" {
		return origin, nil
	}
	wire, err := dns.Name(label + "." + strings.TrimPrefix(origin, "."))
	if err == nil && label != "" {
		if domain, err := dns.Name(origin); err == nil && dns.Within(wire, domain) {
			return dns.Text(wire), nil
		}
	}
	return "", fmt.Errorf("%q is not a name relative to the zone, such as \"www\", \"*\" or \"@\"", label)
}

// readName reads the JSON of a name with all types.
func (b *builder) readName(text []byte) {
	names, values, err := types(text)
	if err != nil {
		b.noteDamage(0, "", jsonError(err))
		return
	}
	slices.Sort(names)
	for _, name := range names {
		b.rrset(strings.ToUpper(name), strings.ToLower(name), values[name])
	}
}

func (b *builder) header(typ uint16, ttl uint32) miekg.RR_Header {
	if ttl == 0 {
		ttl = b.ttl
	}
	if b.maxTTL > 0 {
		ttl = min(ttl, b.maxTTL)
	}
	return miekg.RR_Header{Name: b.owner, Rrtype: typ, Class: miekg.ClassINET, Ttl: ttl}
}

// rrset reads the JSON of one type.
func (b *builder) rrset(typ, field string, text []byte) {
	if string(text) == "null" {
		return
	}
	switch typ {
	case "A":
		b.addresses(miekg.TypeA, field, text)
	case "AAAA":
		b.addresses(miekg.TypeAAAA, field, text)
	case "ANAME":
		var v anameJSON
		unknown, err := decode(text, &v)
		if err == nil && v.Location == "" && unknown == "" {
			return // "aname":{} in old data
		}
		b.unknown(field, unknown)
		if err == nil {
			v.Location, err = host(v.Location)
		}
		if err != nil {
			b.noteDamage(miekg.TypeA, field, err)
			b.noteDamage(miekg.TypeAAAA, field, err)
			return
		}
		b.alias = v.Location
	case "RR":
		b.literal(field, text)
	case "CNAME", "PTR", "DNAME":
		rr, ttl, unknown, err := single(b.header(miekg.StringToType[typ], 0), text)
		rr.Header().Ttl = b.header(0, ttl).Ttl
		if !b.add(field, rr, unknown, err) {
			b.damaged = append(b.damaged, rr.Header().Rrtype)
		}
	case "TXT", "NS", "MX", "SRV", "CAA", "TLSA", "DS":
		var set rrset
		unknown, err := decode(text, &set)
		b.unknown(field, unknown)
		if err != nil {
			b.noteDamage(miekg.StringToType[typ], field, err)
			return
		}
		good := 0
		for i, text := range set.Records {
			rr, unknown, err := record(b.header(miekg.StringToType[typ], set.TTL), text)
			if b.add(at(field, i), rr, unknown, err) {
				good++
			}
		}
		if good == 0 && len(set.Records) > 0 {
			b.damaged = append(b.damaged, miekg.StringToType[typ])
		}
	default:
		b.problem(field, fmt.Errorf("type %q is not known; other types go to \"rr\"", typ))
	}
}

func at(field string, i int) string {
	return strings.TrimPrefix(fmt.Sprintf("%s records[%d]", field, i), " ")
}

// add adds a record if it can be served.
func (b *builder) add(field string, rr miekg.RR, unknown string, err error) bool {
	b.unknown(field, unknown)
	if err == nil {
		err = packs(rr)
	}
	if err == nil && !b.countBytes(rr.Header().Rrtype, miekg.Len(rr)) {
		err = tooMany(rr.Header().Rrtype)
	}
	if err != nil {
		b.problem(field, err)
		return false
	}
	b.rrs = append(b.rrs, rr)
	return true
}

// countBytes counts the bytes of a type of the name.
func (b *builder) countBytes(typ uint16, size int) bool {
	b.size[typ] += size
	return b.size[typ] <= maxSet
}

func tooMany(typ uint16) error {
	return fmt.Errorf("more %s records than fit in a message", miekg.Type(typ))
}

// literal reads records in presentation form without owner: "TTL TYPE DATA".
func (b *builder) literal(field string, text []byte) {
	var lines []string
	if err := json.Unmarshal(text, &lines); err != nil {
		b.noteDamage(0, field, fmt.Errorf("%w; want a list of texts such as \"300 SSHFP 1 1 A0B1\"", jsonError(err)))
		return
	}
	for i, line := range lines {
		field := strings.TrimPrefix(fmt.Sprintf("%s[%d]", field, i), " ")
		rr, err := b.parse(line)
		if err != nil {
			b.problem(field, err)
			continue
		}
		b.add(field, rr, "", nil)
	}
}

func (b *builder) parse(line string) (miekg.RR, error) {
	if strings.ContainsAny(line, "\n\r") || strings.HasPrefix(line, "$") {
		return nil, fmt.Errorf("%q is not one record", line)
	}
	p := miekg.NewZoneParser(strings.NewReader(b.owner+" "+line+"\n"), b.raw.origin, "")
	p.SetDefaultTTL(b.ttl)
	rr, ok := p.Next()
	if err := p.Err(); err != nil || !ok {
		return nil, fmt.Errorf("%q is not a record such as \"300 SSHFP 1 1 A0B1\"", line)
	}
	h := rr.Header()
	switch {
	case h.Class != miekg.ClassINET:
		return nil, fmt.Errorf("%q: only class IN is served", line)
	case h.Rrtype == miekg.TypeSOA && b.owner != b.raw.origin:
		return nil, errors.New("a zone has one SOA record, at \"@\"")
	case h.Rrtype == miekg.TypeOPT || h.Rrtype >= miekg.TypeTKEY && h.Rrtype <= miekg.TypeANY || h.Rrtype == miekg.TypeNone:
		return nil, fmt.Errorf("%q: a zone has no records of this type", line)
	}
	if h.Name != b.owner {
		return nil, fmt.Errorf("%q: the record is of %s", line, h.Name)
	}
	if b.maxTTL > 0 {
		h.Ttl = min(h.Ttl, b.maxTTL)
	}
	return rr, nil
}

// addresses reads the JSON of A or AAAA, and the filter that selects among them.
func (b *builder) addresses(typ uint16, field string, text []byte) {
	var set addressSet
	if b.value.typ != "" && !json.Valid(text) || !set.walk(text) {
		set = addressSet{}
		unknown, err := decode(text, &set)
		b.unknown(field, unknown)
		if err != nil {
			b.noteDamage(typ, field, err)
			return
		}
	}
	p := b.picker(field, set.Filter)
	if h := set.Health; h != nil && h.Enable {
		p.health, p.up, p.down = true, int32(cmp.Or(h.Up, 3)), int32(cmp.Or(h.Down, -3))
	}
	var watched []*health.Status
	for i, text := range set.Records {
		var v addressJSON
		var err error
		if !v.walk(text) {
			v = addressJSON{}
			var unknown string
			unknown, err = decode(text, &v)
			b.unknown(at(field, i), unknown)
		}
		var ip netip.Addr
		var e entry
		if err == nil {
			ip, err = address(v.IP, typ)
		}
		if err == nil {
			e, err = v.entry()
		}
		if err == nil && p.chooses() && len(p.entries) == maxChoice {
			err = fmt.Errorf("a choice among more than %d records is not possible", maxChoice)
		}
		if err != nil {
			b.problem(at(field, i), err)
			continue
		}
		rr := addressRecord(b.header(typ, set.TTL), ip)
		if !b.countBytes(typ, miekg.Len(rr)) {
			b.problem(at(field, i), tooMany(typ))
			continue
		}
		b.rrs = append(b.rrs, rr)
		e.addr = ip
		if p.health {
			status, err := b.watch(set.Health, ip)
			if err != nil {
				b.problem(strings.TrimPrefix(field+" health_check", " "), fmt.Errorf("%w; nothing is checked", err))
				p.health = false
			}
			e.status = status
			watched = append(watched, status)
		}
		p.entries = append(p.entries, e)
	}
	if !p.health && b.checker != nil {
		for _, s := range watched {
			b.checker.Drop(s)
		}
		watched = nil
	}
	b.watched = append(b.watched, watched...)
	if len(p.entries) == 0 && len(set.Records) > 0 {
		b.damaged = append(b.damaged, typ)
	}
	if len(p.entries) > 0 && p.chooses() {
		b.ready = append(b.ready, zone.Choice{Name: b.owner, Type: typ, Pick: p})
	}
}

func addressRecord(h miekg.RR_Header, ip netip.Addr) miekg.RR {
	if h.Rrtype == miekg.TypeA {
		return &miekg.A{Hdr: h, A: ip.AsSlice()}
	}
	return &miekg.AAAA{Hdr: h, AAAA: ip.AsSlice()}
}

func (v *addressJSON) entry() (e entry, err error) {
	if v.Weight < 0 || v.Weight > maxWeight {
		return e, fmt.Errorf("weight %d is not between 0 and %d", v.Weight, maxWeight)
	}
	e.weight = uint32(v.Weight)
	e.anyCountry, e.anyASN = len(v.Country) == 0, len(v.ASN) == 0
	for _, s := range v.Country {
		c, err := geo.ParseCountry(s)
		if err != nil {
			return e, err
		}
		if e.anyCountry = e.anyCountry || c == 0; c != 0 {
			e.countries = append(e.countries, c)
		}
	}
	for _, n := range v.ASN {
		if e.anyASN = e.anyASN || n == 0; n != 0 {
			e.asns = append(e.asns, n)
		}
	}
	return e, nil
}

// picker reads a filter. Unknown fields count as missing.
func (b *builder) picker(field string, f *filterJSON) *picker {
	p := &picker{geo: b.geo, trusts: b.trusts, strict: b.schema == Z42}
	if f == nil {
		return p
	}
	field = strings.TrimPrefix(field+" filter", " ")
	switch f.Count {
	case "", "multi":
	case "single":
		p.single = true
	default:
		b.problem(field, fmt.Errorf("count %q is not single or multi", f.Count))
	}
	switch f.Order {
	case "", "none":
	case "rr":
		p.order = roundRobin
	case "weighted":
		p.order = weighted
	default:
		b.problem(field, fmt.Errorf("order %q is not weighted, rr or none", f.Order))
	}
	switch f.Geo {
	case "", "none":
	case "country":
		p.byCountry = true
	case "asn":
		p.byASN = true
	case "asn+country":
		p.byASN, p.byCountry = true, true
	case "location":
		p.byPlace = true
	default:
		b.problem(field, fmt.Errorf("geo_filter %q is not country, location, asn, asn+country or none", f.Geo))
	}
	b.disableUnserved(field, p, f.Geo)
	return p
}

// disableUnserved disables a filter that no file can serve.
func (b *builder) disableUnserved(field string, p *picker, filter string) {
	country, asn := b.geo.Has()
	if (p.byCountry || p.byPlace) && !country {
		p.byCountry, p.byPlace = false, false
		b.problem(field, fmt.Errorf("geo_filter %q has no effect: the settings name no file with countries", filter))
	}
	if p.byASN && !asn {
		p.byASN = false
		b.problem(field, fmt.Errorf("geo_filter %q has no effect: the settings name no file with autonomous systems", filter))
	}
}

func (b *builder) watch(h *healthJSON, ip netip.Addr) (*health.Status, error) {
	if b.checker == nil {
		return nil, nil
	}
	if h.Port < 0 || h.Port > 65535 || h.Timeout < 0 || h.Timeout > 30000 {
		return nil, fmt.Errorf("port %d or timeout %d: a port is at most 65535, a timeout at most 30000 ms", h.Port, h.Timeout)
	}
	return b.checker.Watch(health.Check{
		Host: b.owner, Addr: ip, Protocol: health.Protocol(h.Protocol), URI: h.URI, Port: uint16(h.Port),
		Timeout: time.Duration(h.Timeout) * time.Millisecond, Up: h.Up, Down: h.Down, DomainID: b.config.DomainID,
	})
}

// settle adds the records of the name to the zone, except those that conflict with others.
func (b *builder) settle() {
	apex := b.owner == b.raw.origin
	b.rrs = b.keepOne(b.rrs)
	if i := slices.IndexFunc(b.rrs, func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeCNAME }); i >= 0 {
		cname := b.rrs[i].(*miekg.CNAME)
		b.follows = b.follows || b.config.Flattened
		others := slices.DeleteFunc(slices.Clone(b.rrs), func(rr miekg.RR) bool {
			t := rr.Header().Rrtype
			return t == miekg.TypeCNAME || t == miekg.TypeRRSIG || t == miekg.TypeNSEC
		})
		switch {
		case apex:
			if b.config.Flattened {
				b.apex = cname
			} else {
				b.problem("cname", errors.New("the zone's own name cannot have a CNAME; A and AAAA follow it as an ANAME would"))
			}
			b.rrs = slices.Delete(b.rrs, i, i+1)
			b.alias = cmp.Or(b.alias, cname.Target)
		case len(others) > 0 || b.alias != "":
			b.problem("cname", errors.New("a name with a CNAME has no other records; the others are ignored"))
			b.rrs, b.ready, b.alias = []miekg.RR{cname}, nil, ""
		}
	}
	b.zone.Records = append(b.zone.Records, b.rrs...)
	b.zone.Choices = append(b.zone.Choices, b.ready...)
	if b.alias != "" {
		b.zone.Aliases = append(b.zone.Aliases, zone.Alias{Name: b.owner, Target: b.alias})
	}
	if len(b.rrs) == 0 && b.alias == "" && !apex {
		b.zone.Empty = append(b.zone.Empty, b.owner)
	}
}

// keepOne keeps one record of the types that a name can have only once.
func (b *builder) keepOne(rrs []miekg.RR) []miekg.RR {
	seen := map[uint16]bool{}
	return slices.DeleteFunc(rrs, func(rr miekg.RR) bool {
		t := rr.Header().Rrtype
		if t != miekg.TypeCNAME && t != miekg.TypeDNAME && t != miekg.TypeSOA {
			return false
		}
		if seen[t] {
			b.problem(strings.ToLower(miekg.TypeToString[t]), errors.New("there is more than one; the first is used"))
		}
		again := seen[t]
		seen[t] = true
		return again
	})
}
