package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/zone"
)

// A catalog zone lists zones, so that secondaries learn which zones exist (RFC 9432). We
// produce catalogs of our zones, and follow catalogs of other servers: a secondary zone with
// the setting catalog.

// Catalog is a catalog zone that we produce.
type Catalog struct {
	Zone string `yaml:"zone"`
	// Zones are the members; default: all served zones except catalogs.
	Zones []string `yaml:"zones,omitempty"`
}

// maxMembers bounds the members of a foreign catalog.
const maxMembers = 20_000

// catalog is one that we produce.
type catalog struct {
	origin  string
	zones   []string // none: all
	members []string // last published
}

func (s *Server) addCatalog(c Catalog) error {
	names, err := origins([]string{c.Zone})
	if err != nil {
		return setting.At("zone", errors.Unwrap(err))
	}
	members, err := origins(c.Zones)
	if err != nil {
		return setting.At("zones", err)
	}
	if s.catalogs.find(names[0]) != nil || s.followed.find(names[0]) != nil {
		return setting.At("zone", fmt.Errorf("%q appears twice", c.Zone))
	}
	s.catalogs = append(s.catalogs, &catalog{origin: names[0], zones: members})
	return nil
}

// catalogs are those that we produce.
type catalogs []*catalog

// find returns nil if there is none.
func (all catalogs) find(origin string) *catalog {
	for _, c := range all {
		if c.origin == origin {
			return c
		}
	}
	return nil
}

// produce publishes the catalogs whose members have changed, until ctx ends.
func (all catalogs) produce(ctx context.Context, s *Server) {
	for {
		for _, c := range all {
			members := c.listed(s)
			if c.members != nil && slices.Equal(members, c.members) {
				continue
			}
			if err := s.Publish(ctx, &zone.Zone{Origin: c.origin, Records: c.records(members), Clients: s.fetchers(c.origin)}); err != nil {
				s.log.Error("a catalog zone cannot be published", "zone", c.origin, "error", err)
				continue
			}
			c.members = members
			s.log.Info("catalog published", "zone", c.origin, "members", len(members))
		}
		select {
		case <-ctx.Done():
			return
		case <-s.listed:
		}
	}
}

// listed returns the sorted zones that a catalog lists now.
func (c *catalog) listed(s *Server) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	for n, e := range s.entries {
		if e.served && s.catalogs.find(n.origin) == nil && covers(c.zones, n.origin) {
			seen[n.origin] = true
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(seen))...) // not nil
}

// fetchers returns the networks whose queries a catalog answers: those that may fetch it and
// those that are notified of it. None means everybody, if a key alone permits fetching.
func (s *access) fetchers(origin string) (networks []netip.Prefix) {
	for _, a := range s.allow {
		if covers(a.zones, origin) {
			if len(a.networks) == 0 {
				return nil
			}
			networks = append(networks, a.networks...)
		}
	}
	for _, t := range s.notify {
		if covers(t.zones, origin) {
			networks = append(networks, netip.PrefixFrom(t.address.Addr(), t.address.Addr().BitLen()))
		}
	}
	return networks
}

// records returns the records of a catalog (RFC 9432 section 4). Publishing sets the serial.
func (c *catalog) records(members []string) []miekg.RR {
	header := func(owner string, typ uint16) miekg.RR_Header {
		return miekg.RR_Header{Name: owner, Rrtype: typ, Class: miekg.ClassINET}
	}
	under := func(label string) string { return label + "." + strings.TrimPrefix(c.origin, ".") }
	records := []miekg.RR{
		&miekg.SOA{Hdr: header(c.origin, miekg.TypeSOA), Ns: "invalid.", Mbox: "invalid.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 2147483646},
		&miekg.NS{Hdr: header(c.origin, miekg.TypeNS), Ns: "invalid."},
		&miekg.TXT{Hdr: header(under("version"), miekg.TypeTXT), Txt: []string{"2"}},
	}
	for _, m := range members {
		sum := sha256.Sum256([]byte(m))
		records = append(records, &miekg.PTR{Hdr: header(under(hex.EncodeToString(sum[:16])+".zones"), miekg.TypePTR), Ptr: m})
	}
	return records
}

// A member is a zone in a foreign catalog.
type member struct {
	label string // identifies the member; a new label means that its state is discarded
	coo   string // the catalog that may take it over, "" for none (RFC 9432 section 4.4.1)
}

// readCatalog returns the members of a catalog. A broken one (RFC 9432 section 5.1) is an
// error.
func readCatalog(origin string, records []miekg.RR) (map[string]member, error) {
	top, err := dns.Name(origin)
	if err != nil {
		return nil, err
	}
	version := ""
	byLabel := map[string][]string{}
	coo := map[string]string{}
	for _, rr := range records {
		owner, err := dns.Name(rr.Header().Name)
		if err != nil || !dns.Within(owner, top) || len(owner) == len(top) {
			continue
		}
		labels := miekg.SplitDomainName(dns.Text(owner[:len(owner)-len(top)]))
		switch rr := rr.(type) {
		case *miekg.TXT:
			if len(labels) == 1 && labels[0] == "version" {
				version += strings.Join(rr.Txt, "") + ";"
			}
		case *miekg.PTR:
			switch {
			case len(labels) == 2 && labels[1] == "zones":
				byLabel[labels[0]] = append(byLabel[labels[0]], zone.Canonical(rr.Ptr))
			case len(labels) == 3 && labels[0] == "coo" && labels[2] == "zones":
				coo[labels[1]] = zone.Canonical(rr.Ptr)
			}
		}
	}
	if version != "2;" {
		return nil, fmt.Errorf("it is not a catalog zone of version 2 (RFC 9432): its version record says %q", strings.TrimSuffix(version, ";"))
	}
	members := map[string]member{}
	for label, names := range byLabel {
		if len(names) > 1 {
			return nil, fmt.Errorf("the label %q stands for %d zones", label, len(names))
		}
		if _, twice := members[names[0]]; twice {
			return nil, fmt.Errorf("it contains zone %q twice", names[0])
		}
		members[names[0]] = member{label, coo[label]}
	}
	if len(members) > maxMembers {
		return nil, fmt.Errorf("it lists %d zones; at most %d are followed", len(members), maxMembers)
	}
	return members, nil
}

// listMembers makes the fetched zones match the catalog. It returns new ones, and removes
// those that are gone.
func (z *secondary) listMembers() (begun []*secondary) {
	h := z.held.Load()
	if !z.catalog || h == nil {
		return nil
	}
	members, err := readCatalog(z.origin, h.records)
	if err != nil {
		z.s.log.Error("a catalog zone cannot be used; its zones stay as they are", "zone", z.origin, "error", err)
		return nil
	}
	for _, old := range z.s.followed.list() {
		if from := old.feed.Load(); from.catalog == z {
			if m, ok := members[old.origin]; !ok || m.label != from.member.label {
				old.remove()
				z.s.log.Info("a zone is no longer in its catalog", "zone", old.origin, "catalog", z.origin)
			}
		}
	}
	for _, origin := range slices.Sorted(maps.Keys(members)) {
		if sec, err := z.begin(origin, members[origin]); err != nil {
			z.s.log.Warn("a zone of a catalog zone is not fetched", "zone", origin, "catalog", z.origin, "error", err)
		} else if sec != nil {
			begun = append(begun, sec)
		}
	}
	return begun
}

// begin makes the secondary of a member, or returns nil if it exists already.
func (z *secondary) begin(origin string, m member) (*secondary, error) {
	from := &feed{primaries: z.feed.Load().primaries, catalog: z, member: m}
	if have := z.s.followed.find(origin); have != nil {
		was := have.feed.Load()
		switch {
		case was.catalog == nil:
			return nil, errors.New("the settings have it")
		case was.catalog != z && was.member.coo != z.origin:
			return nil, fmt.Errorf("the catalog %s has it", was.catalog.origin)
		}
		have.feed.Store(from) // a change of ownership keeps the zone
		return nil, nil
	}
	if z.s.isServed(id{origin, ""}) || z.s.catalogs.find(origin) != nil {
		return nil, errors.New("it is served from elsewhere")
	}
	sec := newSecondary(z.s, origin, from, z.maxBytes)
	z.s.followed.put(sec)
	return sec, nil
}

// remove ends a secondary permanently, and waits for its end.
func (z *secondary) remove() {
	z.end()
	if z.running.Load() {
		<-z.ended
	}
	z.s.followed.drop(z.origin)
	z.s.Remove(z.origin, "")
	_ = os.Remove(z.file()) // it may not exist
}
