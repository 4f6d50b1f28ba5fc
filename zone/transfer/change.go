package transfer

import (
	"errors"
	"slices"
	"time"

	miekg "github.com/miekg/dns"
	"github.com/zeebo/xxh3"

	"shuultuur/lib/dns"
	"shuultuur/zone"
	"shuultuur/zone/sign"
)

// Change changes names of a published zone, as [zone.Responder.Change] does, with its serial
// and signatures; clients may fetch the difference. The origin must be among the names. It
// returns [zone.ErrWhole] where the zone must be published as a whole, such as one that is
// transferred with a chain it is not served with.
func (s *Server) Change(c *zone.Change) error {
	e := s.entry(id{zone.Canonical(c.Origin), c.View})
	e.publishing.Lock()
	defer e.publishing.Unlock()
	return s.change(e, c, time.Now())
}

// change implements Change. The caller holds e.publishing.
func (s *Server) change(e *entry, c *zone.Change, now time.Time) error {
	before, wanted := s.zones.Served(e.id.origin, e.id.view), s.wanted(e.id.origin)
	s.mu.Lock()
	served := e.served
	s.mu.Unlock()
	switch {
	case before == nil || !served, !slices.ContainsFunc(c.Names, func(name string) bool { return zone.Canonical(name) == e.id.origin }):
		return zone.ErrWhole
	case e.signer != nil && (wanted && e.signer.Online() || e.signer.Chain() == miekg.TypeNSEC3):
		return zone.ErrWhole
	}
	at := slices.IndexFunc(c.Records, isSOA)
	if at < 0 {
		return errors.New("there is no SOA record at the origin")
	}
	policy := s.policy(e, e.signer)
	var gone []miekg.RR
	if policy != Keep {
		for _, name := range c.Names {
			if zone.Canonical(name) != e.id.origin {
				gone = append(gone, before.At(name)...)
			}
		}
	}
	stamp := e.stamp
	soa := stamp.change(c.Records[at].(*miekg.SOA), policy, append(gone, e.apex...), c.Records, now)
	next := *c
	next.Records = slices.Clone(c.Records)
	next.Records[at] = soa
	signed := &next
	if e.signer != nil {
		var err error
		if signed, err = e.signer.Change(&next, now); err != nil {
			return err
		}
	}
	if err := s.zones.Change(signed); err != nil {
		return err
	}
	e.changed = e.changed || e.stamp != stamp || e.signer != nil
	e.stamp, e.apex = stamp, nil
	for _, rr := range c.Records {
		if zone.Canonical(rr.Header().Name) == e.id.origin {
			e.apex = append(e.apex, rr)
		}
	}
	var current *content
	if wanted {
		current = s.content(e)
	}
	s.remember(e, current, soa, e.clients, e.signer)
	if e.changed = e.changed && s.isKept(e.id.origin, e.signer); e.changed {
		wakeUp(s.unsaved)
	}
	return nil
}

// policy returns how a zone gets its serial.
func (s *Server) policy(e *entry, signer *sign.Signer) string {
	switch {
	case s.cfg.Serial == "" && signer != nil, s.catalogs.find(e.id.origin) != nil:
		return UnixTime
	case s.cfg.Serial == "" || s.followed.find(e.id.origin) != nil && signer == nil:
		return Keep // a secondary has the serial of its primary
	}
	return s.cfg.Serial
}

// source returns the served zone as it was read. The records at the origin come from e,
// because signing adds to them and changes the serial.
func (e *entry) source(served *zone.Served) *zone.Zone {
	z := served.Source()
	z.Records = slices.DeleteFunc(z.Records, func(rr miekg.RR) bool { return zone.Canonical(rr.Header().Name) == e.id.origin })
	z.Records = append(z.Records, e.apex...)
	return z
}

// manyNames bounds the names that are changed one by one, whatever the size of the zone; more
// are if they are at most an eighth of it.
const manyNames = 1000

// changeTo returns the change from the served zone to a newly read one; nil where it must be
// published as a whole. It compares the names by checksums of their records, so records spelt
// differently count as changed. The caller holds e.publishing.
func (s *Server) changeTo(e *entry, z *zone.Zone, signer *sign.Signer, now time.Time) *zone.Change {
	s.mu.Lock()
	served, clients := e.served, e.clients
	s.mu.Unlock()
	before := s.zones.Served(e.id.origin, z.View)
	switch {
	case !served || before == nil || e.signer != signer || before.Info().Expires != z.Expires || before.Info().Signed && signer == nil,
		len(z.Choices)+len(z.Aliases)+len(z.Empty)+len(z.Unknown) > 0 || !before.IsStatic() || !slices.Equal(z.Clients, clients),
		signer != nil && (!now.Before(signer.Due(z.View, now)) || signer.Chain() == miekg.TypeNSEC3):
		return nil
	}
	sums := make(map[string]uint64, before.Info().Names)
	var buf []byte
	for _, rr := range z.Records {
		if signer != nil && signer.MakesRecord(rr) {
			continue
		}
		wire, err := zone.Pack(rr, &buf)
		if err != nil {
			return nil // which reports the mistake
		}
		sums[string(wire[:dns.NameLen(wire)])] += xxh3.Hash(wire)
	}
	for wire := range before.SourceRecords() {
		sums[string(wire[:dns.NameLen(wire)])] -= xxh3.Hash(wire)
	}
	total := len(sums)
	c := &zone.Change{Origin: z.Origin, View: z.View}
	changed := map[string]bool{e.id.origin: true}
	for name, sum := range sums {
		if sum != 0 {
			changed[dns.Text([]byte(name))] = true
		}
	}
	if len(changed) > manyNames && len(changed) > total/8 {
		return nil
	}
	for name := range changed {
		c.Names = append(c.Names, name)
	}
	for _, rr := range z.Records {
		if changed[zone.Canonical(rr.Header().Name)] {
			c.Records = append(c.Records, rr)
		}
	}
	return c
}
