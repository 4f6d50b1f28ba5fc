package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/nameserver/wire"
	"shuultuur/nameserver/zone"
	"shuultuur/nameserver/zone/sign"
)

// A Zones is what answers for zones, such as [zone.Responder].
type Zones interface {
	Replace(zones ...*zone.Zone) error
	Change(c *zone.Change) error
	Remove(origin, view string) bool
	Served(origin, view string) *zone.Served
}

var (
	_ wire.Responder     = (*Server)(nil)
	_ wire.Transferrer   = (*Server)(nil)
	_ wire.Notifier      = (*Server)(nil)
	_ wire.Authenticator = (*Server)(nil)
)

// Stats counts what a server did. The fields only grow.
type Stats struct {
	Out, OutIncremental, OutRefused   atomic.Uint64 // transfers asked of us
	In, InIncremental, InFailed       atomic.Uint64 // transfers we asked for
	NotifyOut, NotifyFailed           atomic.Uint64
	NotifyIn, NotifyRefused           atomic.Uint64
	BadKey, BadSig, BadTime, BadTrunc atomic.Uint64 // requests with a TSIG that was refused
}

// A Server publishes zones: those who read zones give them to it, in front of the
// [Zones] it was given. It is also a [wire.Responder] to stand before the
// one that answers for the zones, a [wire.Transferrer], a [wire.Notifier] and a
// [wire.Authenticator].
type Server struct {
	Stats Stats
	// Parent looks up the DS records that the parent zone has of one of ours, of
	// which there may be none. Nil means that it cannot be asked. Set it before Run.
	Parent func(ctx context.Context, origin string) ([]*dns.DS, error)

	ctx    context.Context //nolint:containedctx // of Replace; ends with Run
	cancel context.CancelFunc
	zones  Zones
	log    *slog.Logger
	keys   Keys
	allow  []allowed
	tell   []told
	serial string
	folder string

	signers     map[string]*sign.Signer // by origin
	rollFailed  map[string]string       // by origin; belongs to renew
	secondaries map[string]*secondary

	mu      sync.Mutex
	entries map[id]*entry
	missing atomic.Pointer[map[string]bool] // origins that cannot be answered for; nil when there are none

	out     chan struct{} // a place for each transfer under way
	news    news
	changed chan struct{} // what Run waits for may be due earlier
	unsaved chan struct{} // an entry has changed
	saving  sync.Mutex
	backoff time.Duration // before a NOTIFY is repeated first
}

// id names a zone.
type id struct{ origin, view string }

// An entry is one published zone.
type entry struct {
	id id

	publishing sync.Mutex // one at a time
	apex       []dns.RR   // what the source has at the origin; the rest is as it is served
	signer     *sign.Signer
	stamp      stamp
	retry      time.Time // after signing failed
	restored   bool      // what was kept was looked for
	changed    bool      // since it was kept
	kept       *sign.Signatures

	// Guarded by the server's lock.
	served  bool
	signs   *sign.Signer // who signed what is served
	clients []netip.Prefix
	current *content
	journal journal
}

const (
	maxOut = 32 // transfers that go out at once; more are told SERVFAIL and come again

	firstBackoff = 5 * time.Second
)

// New reads the settings; paths in them are relative to dir. Zones that are
// fetched from elsewhere are served as they are in the folder, until Run asks
// for them. A nil log is one that says nothing.
func New(c Config, dir string, zones Zones, log *slog.Logger) (*Server, error) {
	c = c.in(dir)
	keys, err := NewKeys(c.Keys)
	if err != nil {
		return nil, filter.Setting("tsig", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		zones: zones, log: log, keys: keys, serial: c.Serial, folder: c.Folder,
		entries: map[id]*entry{}, signers: map[string]*sign.Signer{}, rollFailed: map[string]string{}, secondaries: map[string]*secondary{},
		out: make(chan struct{}, maxOut), changed: make(chan struct{}, 1), unsaved: make(chan struct{}, 1), backoff: firstBackoff,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.news = news{pending: map[newsKey]*item{}, wake: make(chan struct{}, 1)}
	switch c.Serial {
	case "", Keep, Increment, UnixTime:
	default:
		return nil, filter.Setting("serial", fmt.Errorf("%q is not one of keep, increment, unixtime", c.Serial))
	}
	for i, c := range c.Sign {
		if err := s.addSigners(c); err != nil {
			return nil, filter.Setting(fmt.Sprintf("sign[%d]", i), err)
		}
	}
	for i, a := range c.Allow {
		rule, err := keys.allow(a)
		if err != nil {
			return nil, filter.Setting(fmt.Sprintf("allow[%d]", i), err)
		}
		s.allow = append(s.allow, rule)
	}
	for i, t := range c.Tell {
		rule, err := keys.tell(t)
		if err != nil {
			return nil, filter.Setting(fmt.Sprintf("notify[%d]", i), err)
		}
		s.tell = append(s.tell, rule)
	}
	for i, sec := range c.Secondaries {
		if err := s.addSecondary(sec); err != nil {
			return nil, filter.Setting(fmt.Sprintf("secondary[%d]", i), err)
		}
	}
	if len(s.secondaries) > 0 {
		if c.Folder == "" {
			return nil, filter.Setting("folder", errors.New("there is no folder to keep the secondary zones in"))
		}
		if err := os.MkdirAll(c.Folder, 0o750); err != nil {
			return nil, filter.Setting("folder", err)
		}
		s.markMissing()
		for _, sec := range s.secondaries {
			sec.load(s.ctx)
		}
	}
	return s, nil
}

// addSigners reads the keys of some zones.
func (s *Server) addSigners(c Sign) error {
	zones, err := origins(c.Zones)
	if err != nil {
		return filter.Setting("zones", err)
	}
	switch {
	case len(zones) == 0:
		return filter.Setting("zones", errors.New("it names no zones"))
	case !c.Enabled():
		return filter.Setting("keys", errors.New("it has no keys; make some with shuultuur zone keygen"))
	}
	for i, origin := range zones {
		if s.signers[origin] != nil {
			return filter.Setting(fmt.Sprintf("zones[%d]", i), fmt.Errorf("zone %q is there twice", origin))
		}
		if s.signers[origin], err = sign.New(origin, c.Config); err != nil {
			return err
		}
	}
	return nil
}

// Signs says whether the settings have keys for a zone.
func (s *Server) Signs(origin string) bool { return s.signers[dns.CanonicalName(origin)] != nil }

// Replace publishes zones; see [Server.Publish]. Where one cannot be served, the
// others are.
func (s *Server) Replace(zones ...*zone.Zone) error {
	var errs []error
	for _, z := range zones {
		errs = append(errs, s.Publish(s.ctx, z))
	}
	return errors.Join(errs...)
}

// Publish serves a zone from now on, in place of the one of its origin and
// view: with its serial, remembered for those who may fetch it, and signed when
// its Signer is a [sign.Signer] or the settings have one for it; its records are
// those before signing. It returns when the zone is served; an error leaves the one before as it is. The
// zone must not be changed afterwards.
func (s *Server) Publish(ctx context.Context, z *zone.Zone) error {
	origin := dns.CanonicalName(z.Origin)
	signer, _ := z.Signer.(*sign.Signer)
	if z.Signer == nil {
		signer = s.signers[origin]
	}
	now := time.Now()
	e := s.entry(id{origin, z.View})
	e.publishing.Lock()
	defer e.publishing.Unlock()
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

// serve stamps, signs and hands over a zone. The caller has e.publishing.
func (s *Server) serve(ctx context.Context, e *entry, z *zone.Zone, signer *sign.Signer, now time.Time) error {
	policy := s.policy(e, signer)
	anew := signer != nil && e.stamp.known && !now.Before(signer.Renew(e.id.view))
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
		if dns.CanonicalName(rr.Header().Name) == e.id.origin {
			e.apex = append(e.apex, rr)
		}
	}
	var next *content
	switch {
	case !s.wanted(e.id.origin):
	case signer != nil && signer.Online():
		records, err := signer.Whole(ctx, z, now)
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
	s.remember(e, next, z.Records[at].(*dns.SOA), z.Clients, signer)
	if signer != nil {
		kept := signer.Signatures(e.id.view)
		e.changed = e.changed || kept != e.kept
		e.kept = kept
	}
	if e.changed = e.changed && s.keeps(e.id.origin, signer); e.changed {
		wakeUp(s.unsaved)
	}
	return nil
}

// wanted says whether somebody may fetch a zone.
func (s *Server) wanted(origin string) bool {
	return slices.ContainsFunc(s.allow, func(a allowed) bool { return covers(a.zones, origin) })
}

// content is what is served of a zone, nil if that is too much.
func (s *Server) content(e *entry) *content {
	c := contentOf(s.zones.Served(e.id.origin, e.id.view))
	if c.size() > maxZone {
		s.log.Error("a zone is too large to be kept for transfers", "zone", e.id.origin, "view", e.id.view, "bytes", c.size(), "most", maxZone)
		return nil
	}
	return c
}

// remember keeps what somebody may fetch, and tells who wants to know.
func (s *Server) remember(e *entry, next *content, soa *dns.SOA, clients []netip.Prefix, signer *sign.Signer) {
	s.mu.Lock()
	old, before := e.current, e.served
	s.mu.Unlock()
	j := e.journal // only written under publishing
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
	s.markMissing()
	if next == nil || old == nil || next.serial != old.serial || !before {
		s.announce(e.id, soa)
	}
}

// Remove ends what Publish began, and says whether it had.
func (s *Server) Remove(origin, view string) bool {
	origin = dns.CanonicalName(origin)
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
	s.markMissing()
	if s.folder != "" {
		_ = os.Remove(s.keptFile(e.id)) // most have none
	}
	return removed
}

// markMissing notes which secondary zones are not to be had now.
func (s *Server) markMissing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := map[string]bool{}
	for origin := range s.secondaries {
		if e := s.entries[id{origin, ""}]; e == nil || !e.served {
			missing[origin] = true
		}
	}
	if len(missing) == 0 {
		s.missing.Store(nil)
		return
	}
	s.missing.Store(&missing)
}

// Run keeps signatures and secondary zones fresh and tells other servers of
// changes, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	defer s.cancel()
	var wg sync.WaitGroup
	wg.Go(func() { s.renew(ctx) })
	wg.Go(func() { s.askParents(ctx) })
	wg.Go(func() { s.news.run(ctx, s) })
	wg.Go(func() { s.keep(ctx) })
	for _, sec := range s.secondaries {
		wg.Go(func() { sec.run(ctx) })
	}
	wg.Wait()
	return ctx.Err()
}

// renew signs zones again before their signatures expire.
func (s *Server) renew(ctx context.Context) {
	const longest = time.Minute // the clock may be set, and key files written
	for {
		now := time.Now()
		next := now.Add(longest)
		s.mu.Lock()
		all := make([]*entry, 0, len(s.entries))
		for _, e := range s.entries {
			all = append(all, e)
		}
		s.mu.Unlock()
		s.roll(now)
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

// roll does with the keys of the settings what their time has come for.
func (s *Server) roll(now time.Time) {
	for origin, signer := range s.signers {
		changed, err := signer.Roll(now)
		if err != nil && s.rollFailed[origin] != err.Error() { // once, not each minute
			s.log.Error("the keys of a zone cannot be looked after; it is signed with those there were", "zone", origin, "err", err)
		}
		delete(s.rollFailed, origin)
		if err != nil {
			s.rollFailed[origin] = err.Error()
		}
		if changed {
			s.log.Info("the keys of a zone have changed", "zone", origin)
		}
	}
}

// renewOne signs a zone again when it is time, and returns when it is next.
func (s *Server) renewOne(ctx context.Context, e *entry, now time.Time) time.Time {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	served := s.zones.Served(e.id.origin, e.id.view)
	if e.signer == nil || served == nil {
		return time.Time{}
	}
	due := e.signer.Renew(e.id.view)
	if e.retry.After(due) {
		due = e.retry
	}
	if now.Before(due) {
		return due
	}
	if err := s.serve(ctx, e, e.source(served), e.signer, now); err != nil {
		if ctx.Err() == nil {
			s.log.Error("a zone cannot be signed again; its signatures go on ageing", "zone", e.id.origin, "view", e.id.view, "err", err)
		}
		e.retry = now.Add(10 * time.Minute)
		return e.retry
	}
	s.log.Info("a zone was signed again", "zone", e.id.origin, "view", e.id.view, "next", e.signer.Renew(e.id.view))
	return e.signer.Renew(e.id.view)
}

// Verify says whether a query with a TSIG record is signed by a key we know,
// as [wire.Authenticator] wants.
func (s *Server) Verify(q *wire.Query) bool {
	_, _, code, err := s.keys.authenticate(q.Msg, q.TSIG, q.At)
	switch {
	case err != nil:
		return false
	case code == badKey:
		s.Stats.BadKey.Add(1)
	case code == badSig:
		s.Stats.BadSig.Add(1)
	case code == badTime:
		s.Stats.BadTime.Add(1)
	case code == badTrunc:
		s.Stats.BadTrunc.Add(1)
	}
	return code == 0
}

// Sign appends the TSIG record that belongs to a reply to q.
func (s *Server) Sign(q *wire.Query, reply []byte) []byte {
	key, r, code, err := s.keys.authenticate(q.Msg, q.TSIG, q.At)
	if err != nil {
		return reply
	}
	return r.answer(key, code, reply, q.At)
}

// signer gives the key that signed q, nil when none did.
func (s *Server) signer(q *wire.Query) *Key {
	if q.TSIG == 0 {
		return nil
	}
	key, _, code, err := s.keys.authenticate(q.Msg, q.TSIG, q.At)
	if err != nil || code != 0 {
		return nil
	}
	return key
}

// Answer is asked before the zones are: what is asked of a zone that cannot be
// had is SERVFAIL.
func (s *Server) Answer(q *wire.Query, r *wire.Reply) wire.Outcome {
	missing := s.missing.Load()
	if missing == nil || !s.isMissing(q, *missing) {
		return wire.Declined
	}
	r.Rcode = dns.RcodeServerFailure
	r.HasEDE, r.EDE = true, dns.ExtendedErrorCodeNotReady
	r.EDEText = append(r.EDEText[:0], "this zone was not received from its primary"...)
	return wire.Answered
}

// Wait is never needed: Answer leaves nothing for later.
func (s *Server) Wait(context.Context, *wire.Query, *wire.Reply) wire.Outcome { return wire.Declined }

// isMissing says whether the longest zone that q is in is one of missing.
func (s *Server) isMissing(q *wire.Query, missing map[string]bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i <= len(q.Labels); i++ {
		at := len(q.Name) - 1
		if i < len(q.Labels) {
			at = int(q.Labels[i])
		}
		name := printName(q.Name[at:])
		if missing[name] {
			return true
		}
		for n := range s.entries {
			if n.origin == name {
				return false
			}
		}
	}
	return false
}

// printName is a name in wire form as people write it.
func printName(name []byte) string {
	text, _, err := dns.UnpackDomainName(name, 0)
	if err != nil {
		return ""
	}
	return strings.ToLower(text)
}

// find gives the zone that q may fetch, or why it may not.
func (s *Server) find(q *wire.Query) (*content, journal, int) {
	if q.Class != dns.ClassINET {
		return nil, nil, dns.RcodeRefused
	}
	origin := printName(q.Name)
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
		if s.secondaries[origin] != nil && s.mayFetch(origin, q, key) != nil {
			return nil, nil, dns.RcodeServerFailure
		}
		return nil, nil, dns.RcodeNotAuth
	}
	rule := s.mayFetch(origin, q, key)
	if rule == nil {
		return nil, nil, dns.RcodeRefused
	}
	e := pick(views, rule.view, q.Client.Addr())
	switch {
	case e == nil:
		return nil, nil, dns.RcodeRefused
	case !e.served || e.current == nil:
		return nil, nil, dns.RcodeServerFailure
	}
	return e.current, e.journal, dns.RcodeSuccess
}

// mayFetch gives the rule that lets a client fetch a zone, nil if none does.
func (s *Server) mayFetch(origin string, q *wire.Query, key *Key) *allowed {
	for i := range s.allow {
		a := &s.allow[i]
		if covers(a.zones, origin) && (a.key == nil || a.key == key) && (!a.tls || q.Transport == wire.TLS) && (len(a.networks) == 0 || contains(a.networks, q.Client.Addr()) >= 0) {
			return a
		}
	}
	return nil
}

// contains gives the longest prefix that has the address, -1 if none.
func contains(networks []netip.Prefix, client netip.Addr) int {
	longest := -1
	for _, n := range networks {
		if n.Contains(client) {
			longest = max(longest, n.Bits())
		}
	}
	return longest
}

// pick takes the view by its name, or the one that answers the client (see
// zone.Zone).
func pick(views []*entry, view string, client netip.Addr) *entry {
	var best *entry
	longest := -1
	for _, e := range views {
		bits := contains(e.clients, client)
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
