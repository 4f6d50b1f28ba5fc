package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/zone"
	"shuultuur/zone/sign"
)

// Zones serves zones, such as a [zone.Responder].
type Zones interface {
	Replace(zones ...*zone.Zone) error
	Change(c *zone.Change) error
	Remove(origin, view string) bool
	Unavailable() []zone.Info
	Served(origin, view string) *zone.Served
}

// Stats are the counters of a server.
type Stats struct {
	Out, OutIncremental, OutRefused   atomic.Uint64 // transfers requested from us
	In, InIncremental, InFailed       atomic.Uint64 // transfers we requested
	NotifyOut, NotifyFailed           atomic.Uint64
	NotifyIn, NotifyRefused           atomic.Uint64
	Updates, UpdatesEmpty             atomic.Uint64 // dynamic updates that were made, and that changed nothing
	UpdatesRefused, UpdatesFailed     atomic.Uint64
	BadKey, BadSig, BadTime, BadTrunc atomic.Uint64 // requests with a TSIG that was refused
}

// A Server publishes zones: sources pass zones to it, and it passes them to its [Zones]. It is
// also a [wire.Responder] in front of the one that serves the zones, a [wire.Transferrer], a
// [wire.Notifier] and a [wire.Authenticator].
type Server struct {
	Stats *Stats // of this server and its predecessors

	cfg    Config
	ctx    context.Context //nolint:containedctx // of Replace; ends with Run
	cancel context.CancelFunc
	zones  Zones
	log    *slog.Logger
	access
	folder string

	signers  map[string]*sign.Signer // by origin
	keepers  keepers
	catalogs catalogs
	listed   chan struct{} // the set of zones has changed
	followed secondaries

	mu      sync.Mutex
	entries map[id]*entry

	out     chan struct{} // a token for each transfer in progress
	news    news
	changed chan struct{} // something that Run waits for may be due earlier
	unsaved chan struct{} // an entry has changed
	saving  sync.Mutex
	backoff time.Duration // pause before the first repeat of a NOTIFY
}

// id identifies a zone.
type id struct{ origin, view string }

// An entry is one published zone.
type entry struct {
	id id

	publishing sync.Mutex // one at a time
	apex       []miekg.RR // the source's records at the origin; the others are served unchanged
	signer     *sign.Signer
	stamp      stamp
	retry      time.Time // time to retry after a failed signing
	restored   bool      // the file was looked for
	changed    bool      // changed since it was written
	kept       *sign.Signatures

	// Guarded by the server's lock.
	served  bool
	signs   *sign.Signer // signed the served version
	clients []netip.Prefix
	current *content
	journal journal
}

const (
	maxOut = 32 // transfers sent at once; others get SERVFAIL and try again

	firstBackoff = 5 * time.Second
)

// New reads the settings. previous is the server that this one replaces, or nil: zones, a copy
// of its zones, serves the same, and this server continues with its serials, signatures and
// differences. New opens no sockets. Fetched zones are served from previous or the folder
// until Run queries their primaries.
func New(c Config, zones Zones, parent ParentDS, previous *Server, log *slog.Logger) (*Server, error) {
	keys, err := NewKeys(c.Keys)
	if err != nil {
		return nil, setting.At("tsig", err)
	}
	s := &Server{
		cfg: c, zones: zones, log: log, access: access{keys: keys}, folder: string(c.Folder),
		entries: map[id]*entry{}, signers: map[string]*sign.Signer{}, followed: secondaries{all: map[string]*secondary{}},
		out: make(chan struct{}, maxOut), changed: make(chan struct{}, 1), unsaved: make(chan struct{}, 1), listed: make(chan struct{}, 1), backoff: firstBackoff,
	}
	s.Stats = &Stats{}
	if previous != nil {
		s.Stats = previous.Stats
	}
	s.stats = s.Stats
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.news = news{pending: map[newsKey]*item{}, wake: make(chan struct{}, 1)}
	if err := s.configure(c, previous); err != nil {
		return nil, err
	}
	s.keepers = keepers{signers: s.signers, parent: parent, log: log, failed: map[string]string{}}
	if previous != nil {
		s.adopt(previous)
	}
	for _, sec := range s.followed.list() {
		sec.load(s.ctx, previous)
		for _, m := range sec.listMembers() {
			m.load(s.ctx, previous)
		}
	}
	return s, nil
}

// configure reads the settings of zones.
func (s *Server) configure(c Config, previous *Server) error {
	switch c.Serial {
	case "", Keep, Increment, UnixTime:
	default:
		return setting.At("serial", fmt.Errorf("%q is not one of keep, increment, unixtime", c.Serial))
	}
	for i, c := range c.Sign {
		if err := s.addSigners(c, previous); err != nil {
			return setting.At(fmt.Sprintf("sign[%d]", i), err)
		}
	}
	for i, a := range c.Allow {
		rule, err := s.keys.allow(a)
		if err != nil {
			return setting.At(fmt.Sprintf("allow[%d]", i), err)
		}
		s.allow = append(s.allow, rule)
	}
	for i, u := range c.Update {
		rule, err := s.keys.update(u)
		if err != nil {
			return setting.At(fmt.Sprintf("update[%d]", i), err)
		}
		s.update = append(s.update, rule)
	}
	for i, t := range c.Notify {
		rule, err := s.keys.notify(t)
		if err != nil {
			return setting.At(fmt.Sprintf("notify[%d]", i), err)
		}
		s.notify = append(s.notify, rule)
	}
	for i, sec := range c.Secondaries {
		if err := s.addSecondary(sec); err != nil {
			return setting.At(fmt.Sprintf("secondary[%d]", i), err)
		}
	}
	for i, c := range c.Catalogs {
		if err := s.addCatalog(c); err != nil {
			return setting.At(fmt.Sprintf("catalogs[%d]", i), err)
		}
	}
	if len(c.Secondaries) > 0 && c.Folder == "" {
		return setting.At("folder", errors.New("there is no folder for the secondary zones"))
	}
	return nil
}

// adopt takes over the zones of previous.
func (s *Server) adopt(previous *Server) {
	previous.mu.Lock()
	entries := maps.Clone(previous.entries)
	previous.mu.Unlock()
	for n, old := range entries {
		old.publishing.Lock()
		previous.mu.Lock()
		s.entries[n] = &entry{
			id: n, apex: old.apex, signer: old.signer, stamp: old.stamp, retry: old.retry, restored: old.restored, changed: old.changed, kept: old.kept,
			served: old.served, signs: old.signs, clients: old.clients, current: old.current, journal: old.journal,
		}
		previous.mu.Unlock()
		old.publishing.Unlock()
	}
	previous.news.mu.Lock()
	defer previous.news.mu.Unlock()
	for k, it := range previous.news.pending {
		if slices.ContainsFunc(s.notify, func(t notifyRule) bool { return t.address == k.to && t.key == it.key }) {
			s.news.pending[k] = &item{soa: it.soa, key: it.key, at: time.Now()}
		}
	}
}

// Retain removes the zones that no source has any more, according to has; fetched zones stay.
// Call it once the zones of a previous server have been published.
func (s *Server) Retain(has func(origin, view string) bool) {
	s.mu.Lock()
	entries := maps.Clone(s.entries)
	s.mu.Unlock()
	for n := range entries {
		if s.followed.find(n.origin) == nil && s.catalogs.find(n.origin) == nil && !has(n.origin, n.view) {
			s.Remove(n.origin, n.view)
		}
	}
}

// addSigners reads the keys of some zones.
func (s *Server) addSigners(c Sign, previous *Server) error {
	zones, err := origins(c.Zones)
	if err != nil {
		return setting.At("zones", err)
	}
	switch {
	case len(zones) == 0:
		return setting.At("zones", errors.New("it names no zones"))
	case !c.Enabled():
		return setting.At("keys", errors.New("it has no keys; make some with shuultuur zone keygen"))
	}
	for i, origin := range zones {
		if s.signers[origin] != nil {
			return setting.At(fmt.Sprintf("zones[%d]", i), fmt.Errorf("zone %q appears twice", origin))
		}
		if previous != nil {
			if have := previous.signers[origin]; have != nil && have.Has(c.Config) {
				s.signers[origin] = have // including its signatures
				continue
			}
		}
		if s.signers[origin], err = sign.New(origin, c.Config); err != nil {
			return err
		}
	}
	return nil
}

// Signs reports whether the settings have keys for a zone.
func (s *Server) Signs(origin string) bool { return s.signers[zone.Canonical(origin)] != nil }

// Replace publishes zones; see [Server.Publish]. If one cannot be served, the others are.
func (s *Server) Replace(zones ...*zone.Zone) error {
	var errs []error
	for _, z := range zones {
		errs = append(errs, s.Publish(s.ctx, z))
	}
	return errors.Join(errs...)
}

// Publish serves a zone in place of the one with its origin and view. It sets the serial, and
// signs the zone if its Signer is a [sign.Signer] or the settings have one for it; its records
// are those before signing. It remembers the zone for clients that may fetch it. Publish
// returns when the zone is served; after an error the previous one stays. The zone must not be
// changed afterwards.
func (s *Server) Publish(ctx context.Context, z *zone.Zone) error {
	origin := zone.Canonical(z.Origin)
	signer, _ := z.Signer.(*sign.Signer)
	if z.Signer == nil {
		signer = s.signers[origin]
	}
	now := time.Now()
	e := s.entry(id{origin, z.View})
	e.publishing.Lock()
	defer e.publishing.Unlock()
	if z.Unavailable != "" {
		return s.withdraw(e, z)
	}
	s.restore(e, signer, now)
	if c := s.changeTo(e, z, signer, now); c != nil {
		if err := s.change(e, c, now); !errors.Is(err, zone.ErrWhole) {
			return err
		}
	}
	if err := s.serve(ctx, e, z, signer, now); err != nil {
		return err
	}
	e.signer, e.retry = signer, time.Time{}
	wakeUp(s.changed)
	return nil
}

// withdraw makes answers for a zone SERVFAIL until it is published again. Its state stays, so
// that differences suffice then.
func (s *Server) withdraw(e *entry, z *zone.Zone) error {
	if err := s.zones.Replace(z); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.served = false
	return nil
}

// isServed reports whether a zone is served and available.
func (s *Server) isServed(n id) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[n]
	return e != nil && e.served
}

func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Server) entry(n id) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[n]
	if e == nil {
		e = &entry{id: n}
		s.entries[n] = e
	}
	return e
}

// serve sets the serial, signs a zone and passes it on. The caller holds e.publishing.
func (s *Server) serve(ctx context.Context, e *entry, z *zone.Zone, signer *sign.Signer, now time.Time) error {
	policy := s.policy(e, signer)
	anew := signer != nil && e.stamp.known && !now.Before(signer.Due(e.id.view, now))
	mark := uint64(0)
	if signer != nil {
		mark = signer.Fingerprint(now)
	}
	stamp := e.stamp
	source := z
	z = stamp.next(z, policy, mark, anew, now)
	served := z
	if signer != nil {
		var err error
		if served, err = signer.Zone(ctx, z, now); err != nil {
			return err
		}
	}
	if err := s.zones.Replace(served); err != nil {
		return err
	}
	e.changed = e.changed || e.stamp != stamp
	e.stamp = stamp
	e.apex = nil
	for _, rr := range source.Records {
		if zone.Canonical(rr.Header().Name) == e.id.origin {
			e.apex = append(e.apex, rr)
		}
	}
	var next *content
	switch {
	case !s.wanted(e.id.origin):
	case signer != nil && signer.Online():
		records, err := signer.AllRecords(ctx, z, now)
		if err == nil {
			next, err = wholeContent(e.id.origin, records)
		}
		if err != nil {
			return err
		}
	default:
		next = s.content(e)
	}
	at := slices.IndexFunc(z.Records, isSOA)
	s.remember(e, next, z.Records[at].(*miekg.SOA), z.Clients, signer)
	if signer != nil {
		kept := signer.Signatures(e.id.view)
		e.changed = e.changed || kept != e.kept
		e.kept = kept
	}
	if e.changed = e.changed && s.isKept(e.id.origin, signer); e.changed {
		wakeUp(s.unsaved)
	}
	return nil
}

// content returns the served zone, nil if it is too large.
func (s *Server) content(e *entry) *content {
	c := contentOf(s.zones.Served(e.id.origin, e.id.view))
	if int64(c.size()) > maxZone {
		s.log.Error("a zone is too large to be kept for transfers", "zone", e.id.origin, "view", e.id.view, "bytes", c.size(), "most", maxZone)
		return nil
	}
	return c
}

// remember keeps the versions that clients may fetch, and wakes the goroutines that
// wait for them.
func (s *Server) remember(e *entry, next *content, soa *miekg.SOA, clients []netip.Prefix, signer *sign.Signer) {
	s.mu.Lock()
	old, before := e.current, e.served
	s.mu.Unlock()
	j := e.journal // written only under publishing
	same := next == nil && old == nil
	switch {
	case next == nil || old == nil:
		j = nil
	case newer(next.serial, old.serial):
		j = j.add(next.since(old), next.size())
	case next.serial == old.serial:
		if d := next.since(old); len(d.gone)+len(d.come) == 0 {
			same = true
		} else {
			j = nil
			s.log.Warn("a zone has changed, but its serial has not: secondaries will not fetch it (settings: serial: unixtime)",
				"zone", e.id.origin, "view", e.id.view, "serial", next.serial)
		}
	default:
		j = nil
		s.log.Warn("the serial of a zone went back: secondaries will not fetch it until it is past the old one",
			"zone", e.id.origin, "view", e.id.view, "serial", next.serial, "old", old.serial)
	}
	e.changed = e.changed || !same
	s.mu.Lock()
	e.served, e.signs, e.clients, e.current, e.journal = true, signer, clients, next, j
	s.mu.Unlock()
	if !before {
		wakeUp(s.listed)
	}
	if next == nil || old == nil || next.serial != old.serial || !before {
		s.announce(e.id, soa)
	}
}

// Served returns the zone of an origin and view as it is served, nil if there is none.
func (s *Server) Served(origin, view string) *zone.Served { return s.zones.Served(origin, view) }

// Remove ends the publication that Publish began, and reports whether the zone
// existed.
func (s *Server) Remove(origin, view string) bool {
	origin = zone.Canonical(origin)
	s.mu.Lock()
	e := s.entries[id{origin, view}]
	s.mu.Unlock()
	if e == nil {
		return false
	}
	e.publishing.Lock()
	defer e.publishing.Unlock()
	removed := s.zones.Remove(origin, view)
	s.mu.Lock()
	delete(s.entries, id{origin, view})
	s.mu.Unlock()
	e.apex, e.signer = nil, nil
	wakeUp(s.listed)
	if s.folder != "" {
		_ = os.Remove(s.keptFile(e.id)) // most have none
	}
	return removed
}

// Run renews signatures and secondary zones and notifies other servers, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	defer s.cancel()
	var wg sync.WaitGroup
	wg.Go(func() { s.renew(ctx) })
	wg.Go(func() { s.keepers.askParents(ctx) })
	wg.Go(func() { s.news.run(ctx, s) })
	wg.Go(func() { s.keepFiles(ctx) })
	wg.Go(func() { s.catalogs.produce(ctx, s) })
	for _, sec := range s.followed.list() {
		wg.Go(func() { sec.run(ctx, &wg) })
	}
	wg.Wait()
	return ctx.Err()
}

// renew signs zones again before their signatures expire.
func (s *Server) renew(ctx context.Context) {
	const longest = time.Minute // the clock may be set, and key files may be written
	for {
		now := time.Now()
		next := now.Add(longest)
		s.mu.Lock()
		all := make([]*entry, 0, len(s.entries))
		for _, e := range s.entries {
			all = append(all, e)
		}
		s.mu.Unlock()
		s.keepers.roll(now)
		for _, e := range all {
			if at := s.renewOne(ctx, e, now); !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		case <-time.After(time.Until(next)):
		}
	}
}

// renewOne signs a zone again when it is due, and returns when it is due next.
func (s *Server) renewOne(ctx context.Context, e *entry, now time.Time) time.Time {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	served := s.zones.Served(e.id.origin, e.id.view)
	if e.signer == nil || served == nil {
		return time.Time{}
	}
	due := e.signer.Due(e.id.view, now)
	if e.retry.After(due) {
		due = e.retry
	}
	if now.Before(due) {
		return due
	}
	if err := s.serve(ctx, e, e.source(served), e.signer, now); err != nil {
		if ctx.Err() == nil {
			s.log.Error("a zone cannot be signed again; its signatures will expire", "zone", e.id.origin, "view", e.id.view, "error", err)
		}
		e.retry = now.Add(10 * time.Minute)
		return e.retry
	}
	s.log.Info("a zone was signed again", "zone", e.id.origin, "view", e.id.view, "next", e.signer.Renew(e.id.view))
	return e.signer.Renew(e.id.view)
}

// find returns the zone that q may fetch, or why it may not.
func (s *Server) find(q *dns.Query) (*content, journal, int) {
	if q.Class != miekg.ClassINET {
		return nil, nil, miekg.RcodeRefused
	}
	origin := dns.Text(q.Name)
	key := s.signer(q)
	s.mu.Lock()
	defer s.mu.Unlock()
	var views []*entry
	for n, e := range s.entries {
		if n.origin == origin {
			views = append(views, e)
		}
	}
	if len(views) == 0 {
		return nil, nil, miekg.RcodeNotAuth
	}
	rule := s.mayFetch(origin, q, key)
	if rule == nil {
		return nil, nil, miekg.RcodeRefused
	}
	e := pick(views, rule.view, q.Client.Addr())
	switch {
	case e == nil:
		return nil, nil, miekg.RcodeRefused
	case !e.served || e.current == nil:
		return nil, nil, miekg.RcodeServerFailure
	}
	return e.current, e.journal, miekg.RcodeSuccess
}

// longestPrefix returns the length of the longest prefix with the address, -1 if there is none.
func longestPrefix(networks []netip.Prefix, client netip.Addr) int {
	longest := -1
	for _, n := range networks {
		if n.Contains(client) {
			longest = max(longest, n.Bits())
		}
	}
	return longest
}

// pick returns the view by its name, or the one that answers the client (see zone.Zone).
func pick(views []*entry, view string, client netip.Addr) *entry {
	var best *entry
	longest := -1
	for _, e := range views {
		bits := longestPrefix(e.clients, client)
		if len(e.clients) == 0 {
			bits = 0
		}
		switch {
		case view != "":
			if e.id.view == view {
				return e
			}
		case bits < 0:
		case best == nil || bits > longest || bits == longest && e.id.view < best.id.view:
			best, longest = e, bits
		}
	}
	return best
}
