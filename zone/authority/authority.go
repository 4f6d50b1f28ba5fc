//go:build !small

package authority

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/zone"
	"shuultuur/zone/redins"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

// lazy calls the upstream in use at the time of the call.
type lazy func() Upstream

var errNoUpstream = errors.New("there is no upstream")

// Lookup implements [redins.Upstream].
func (l lazy) Lookup(ctx context.Context, host string, qtype uint16) ([]netip.Addr, time.Duration, error) {
	if up := l(); up != nil {
		return up.Lookup(ctx, host, qtype)
	}
	return nil, 0, errNoUpstream
}

// DS implements [Upstream].
func (l lazy) DS(ctx context.Context, origin string) ([]*miekg.DS, error) {
	if up := l(); up != nil {
		return up.DS(ctx, origin)
	}
	return nil, errNoUpstream
}

// ParentHas returns the DS records that the parent has for a zone, and whether one of ours is among
// them.
func (a *Authority) ParentHas(ctx context.Context, origin string, ours []string) (has []string, matches bool, err error) {
	all, err := a.parent.DS(ctx, origin)
	for _, ds := range all {
		has = append(has, strings.ReplaceAll(ds.String(), "\t", " "))
		for _, own := range ours {
			rr, err := miekg.NewRR(own)
			of, ok := rr.(*miekg.DS)
			matches = matches || err == nil && ok && of.KeyTag == ds.KeyTag && of.Algorithm == ds.Algorithm && of.DigestType == ds.DigestType && strings.EqualFold(of.Digest, ds.Digest)
		}
	}
	return has, matches, err
}

// firstLoad bounds how long a start waits for the zones in Redis. Zones that arrive later are
// served then.
const firstLoad = 3 * time.Second

// An Authority serves the zones of the settings. It handles queries (Answer, Wait), zone
// transfers (Transfer), notifications (Notify) and TSIG (Verify, Sign).
type Authority struct {
	publisher
	responder   *zone.Responder
	files       *zone.Files
	redis       *redins.Source // nil: no zones in Redis
	strict      bool           // names outside all zones are REFUSED
	secondaries []transfer.Secondary
	log         *slog.Logger

	// writing has a token while a source is read, changed and written: by pages and by updates, of this
	// Authority, its predecessors and successors.
	writing chan struct{}
	made    *made // by updates

	parent   lazy          // asks the zones above
	previous *Authority    // the one that this one replaces when it runs
	replaced atomic.Bool   // another one has replaced it
	ready    chan struct{} // closed when the zones in Redis have been read
}

type publisher = *transfer.Server

// New reads all zones. It opens no sockets and starts nothing. redis is nil when there are no
// zones in Redis. up returns the resolver of other names that is in use, or nil.
//
// previous is the Authority that this one replaces; it takes over the zones and state of that
// one. previous is not changed, and may be nil.
//
// An error is a mistake in the settings. A zone that cannot be read does not stop the others:
// see [Authority.Faults].
func New(cfg Config, redis *redins.Config, up func() Upstream, previous *Authority, log *slog.Logger) (*Authority, error) {
	a := &Authority{ready: make(chan struct{}), strict: redis == nil || redis.Strict, secondaries: cfg.Transfer.Secondaries, parent: up, previous: previous, writing: make(chan struct{}, 1), made: &made{answers: map[string]madeAnswer{}}, log: log}
	before := previous
	if previous != nil {
		a.responder, a.writing, a.made = previous.responder.Clone(), previous.writing, previous.made
	} else {
		before = &Authority{}
		a.responder = zone.NewResponder()
	}
	var err error
	if a.publisher, err = transfer.New(cfg.Transfer, a.responder, lazy(up).DS, before.publisher, log); err != nil {
		return nil, setting.At("zones", err)
	}
	folder := string(cfg.Transfer.Folder)
	if a.files, err = zone.NewFiles(cfg.Files, under(folder, "files"), a.publisher, before.files, log); err != nil {
		return nil, setting.At("zones", err)
	}
	if redis != nil {
		if err := a.follow(*redis, under(folder, "redis"), lazy(up), before.redis, log); err != nil {
			return nil, err
		}
	}
	if previous != nil {
		a.Retain(func(origin, view string) bool {
			return a.files.Has(origin, view) || a.redis != nil && view == "" && a.redis.Has(origin)
		})
	}
	a.free()
	return a, nil
}

// under returns a folder in folder, "" if that is "".
func under(folder, name string) string {
	if folder == "" {
		return ""
	}
	return filepath.Join(folder, name)
}

// follow adds the zones in Redis.
func (a *Authority) follow(cfg redins.Config, folder string, up lazy, before *redins.Source, log *slog.Logger) error {
	ring, err := sign.NewRing(sign.Config{})
	if err != nil {
		return err
	}
	signed := func(z *zone.Zone, keys redins.Keys) (*zone.Zone, error) {
		if a.Signs(z.Origin) {
			log.Warn("a zone's keys in Redis are not used, as the settings have others for it (dns.zones.sign); set dnssec to false in its config", "zone", z.Origin)
			return z, nil
		}
		signer, err := ring.Signer(z.Origin, keys.ZSKPublic, keys.ZSKPrivate, keys.KSKPublic, keys.KSKPrivate)
		if err != nil {
			return nil, err
		}
		z.Signer = signer // for the publisher, which renews signatures
		return z, nil
	}
	a.redis, err = redins.New(cfg, folder, redisZones{a.publisher, ring}, up, signed, before, log)
	return setting.At("redis", err)
}

// redisZones also removes the signer of a removed zone.
type redisZones struct {
	publisher
	ring *sign.Ring
}

// Remove stops serving a zone, and reports whether it was served.
func (r redisZones) Remove(origin, view string) bool {
	defer r.ring.Forget(origin)
	return r.publisher.Remove(origin, view)
}

// Run keeps the zones up to date until ctx ends, and then writes the files for the
// next start.
func (a *Authority) Run(ctx context.Context) error {
	if a.previous != nil {
		a.previous.replaced.Store(true) // the previous one writes nothing more
		a.previous = nil
	}
	var wg sync.WaitGroup
	// They end with ctx, without an error.
	wg.Go(func() { _ = a.publisher.Run(ctx) })
	wg.Go(func() { _ = a.files.Run(ctx) })
	if a.redis != nil {
		wg.Go(func() { _ = a.redis.Run(ctx) })
		wg.Go(func() { a.await(ctx) })
	} else {
		close(a.ready)
	}
	wg.Wait()
	if !a.replaced.Load() {
		a.Save()
	}
	return nil
}

// await closes ready once the zones in Redis have been read.
func (a *Authority) await(ctx context.Context) {
	defer close(a.ready)
	for wait := 5 * time.Millisecond; a.redis.Stats().Reconciled.IsZero(); wait = min(wait*5/4, time.Second) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
	a.free()
}

// Ready waits until the zones in Redis have been read, for at most 3 seconds. Run must be
// running.
func (a *Authority) Ready() {
	select {
	case <-a.ready:
	case <-time.After(firstLoad):
	}
}

// free returns the memory used for reading zones to the system: the records take many times
// the memory of the compiled form.
func (a *Authority) free() {
	if len(a.responder.Zones()) > 0 {
		debug.FreeOSMemory()
	}
}

// Zones returns the zones served now, for explanations, without those that their primaries
// have not sent yet.
func (a *Authority) Zones() *zone.Responder {
	known := a.responder.Clone()
	for _, z := range known.Unavailable() {
		if slices.ContainsFunc(a.secondaries, func(s transfer.Secondary) bool { return zone.Canonical(s.Zone) == z.Origin }) {
			known.Remove(z.Origin, z.View)
		}
	}
	return known
}

// Zone returns the origin of the zone of a name in wire form, "" for none.
func (a *Authority) Zone(name []byte) (origin string) {
	known := a.Zones()
	for _, z := range slices.Concat(known.Zones(), known.Unavailable()) {
		if o, err := dns.Name(z.Origin); err == nil && len(z.Origin) > len(origin) && dns.Within(name, o) {
			origin = z.Origin
		}
	}
	return origin
}

// Origins returns the names of all zones that can be served, in wire form.
func (a *Authority) Origins() (all [][]byte) {
	known := map[string]bool{}
	for _, z := range a.responder.Zones() {
		if name, err := dns.Name(z.Origin); err == nil && !known[z.Origin] {
			known[z.Origin] = true
			all = append(all, name)
		}
	}
	return all
}

// HasData reports whether a view of a zone has records at a name, both in wire form, apart from a
// delegation.
func (a *Authority) HasData(origin, name []byte) bool {
	for _, z := range a.responder.Zones() {
		if z.Origin != dns.Text(origin) {
			continue
		}
		for _, rr := range a.responder.Served(z.Origin, z.View).At(dns.Text(name)) {
			switch rr.Header().Rrtype {
			case miekg.TypeNS, miekg.TypeDS, miekg.TypeRRSIG, miekg.TypeNSEC:
			default:
				return true
			}
		}
	}
	return false
}

// OtherSource returns where zones for a name in wire form may exist that are not consulted here,
// or "".
func (a *Authority) OtherSource(name []byte) string {
	for _, z := range a.secondaries {
		if o, err := dns.Name(z.Zone); err == nil && dns.Within(name, o) {
			return "the primaries of " + dns.Text(o)
		}
	}
	if a.redis != nil {
		return "Redis"
	}
	return ""
}

// Depth returns the number of labels of the longest zone for a name that a client sees, -1 when
// there is none.
func (a *Authority) Depth(name []byte, labels []uint8, client netip.Addr) int {
	return a.responder.Depth(name, labels, client)
}

// Answer answers a query from memory.
func (a *Authority) Answer(q *dns.Query, r *dns.Reply, t *filter.Transaction) dns.Outcome {
	return a.responder.Answer(q, r, t)
}

// Wait answers a query that Answer deferred.
func (a *Authority) Wait(ctx context.Context, q *dns.Query, r *dns.Reply, t *filter.Transaction) dns.Outcome {
	return a.responder.Wait(ctx, q, r, t)
}

// Outside returns the responder for names outside all zones; it comes last. With zones in
// Redis it answers NOTAUTH, as redins does.
func (a *Authority) Outside() Outside { return Outside{!a.strict} }

// Faults lists the zones that are not served as in their files, as mistakes in the settings
// that name the files.
func (a *Authority) Faults() (all []error) {
	for _, f := range a.files.Faults() {
		all = append(all, setting.At("zones."+f.Key, f.Err))
	}
	return all
}

// Problems lists the problems that an operator should look at.
func (a *Authority) Problems() (all []string) {
	for _, f := range a.files.Faults() {
		all = append(all, "dns.zones: "+f.String())
	}
	files := map[string]bool{}
	for _, f := range a.files.Faults() {
		files[f.Origin] = true
	}
	for _, z := range a.responder.Unavailable() {
		if !files[z.Origin] {
			all = append(all, fmt.Sprintf("dns.zones: zone %s answers SERVFAIL: %s", z.Origin, z.Unavailable))
		}
	}
	if a.redis == nil {
		return all
	}
	st := a.redis.Stats()
	if !st.Connected {
		all = append(all, "dns.redis: Redis does not answer; zones are served as they were")
	}
	if st.Kept > 0 {
		all = append(all, fmt.Sprintf("dns.redis: %d zones are served from their last good copies; Redis has not answered since the start", st.Kept))
	}
	if st.Problems > 0 {
		all = append(all, fmt.Sprintf("dns.redis: %d values cannot be served; the log names them", st.Problems))
	}
	return all
}
