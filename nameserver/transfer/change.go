package transfer

import (
	"slices"

	"github.com/miekg/dns"

	"shuultuur/nameserver/zone"
)

// Change changes names of a zone that Publish serves, if nobody but who answers
// for it has to know: it is [zone.ErrWhole] for a zone that is signed, that
// others may fetch or are told of, or whose serial is made here.
func (s *Server) Change(c *zone.Change) error {
	origin := dns.CanonicalName(c.Origin)
	told := slices.ContainsFunc(s.tell, func(t told) bool { return covers(t.zones, origin) })
	if told || s.wanted(origin) || s.serial != "" && s.serial != Keep || s.secondaries[origin] != nil {
		return zone.ErrWhole
	}
	e := s.entry(id{origin, c.View})
	e.publishing.Lock()
	defer e.publishing.Unlock()
	if e.signer != nil {
		return zone.ErrWhole
	}
	return s.zones.Change(c)
}
