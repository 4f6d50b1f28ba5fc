// Package redins serves zones stored in Redis, byte for byte in the layout of redins or of its
// successor z42.
//
// A [Source] reads zones from Redis ([Store]), makes a zone.Zone of each and passes it to the
// name server, which answers from memory: no query waits for Redis. Keyspace events say which
// zone was written; that one is read again, and the names that differ are changed in the name
// server. A periodic reload finds changes that no event announced. While Redis is lost, the
// last state is served, and at a start without Redis, the copy on disk.
//
// Malformed JSON is left out, with a [Problem] for each piece, and the rest of the zone is
// served. Records that depend on the client become a picker: by health (package health),
// geography (package geo), order and count. ANAME targets outside our zones are looked up by
// [Aliases].
package redins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"shuultuur/lib/redis"
	"shuultuur/lib/redis/keyspace"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait"
	"shuultuur/zone"
	"shuultuur/zone/redins/geo"
	"shuultuur/zone/redins/health"
)

// Config sets where the zones are and how to read them.
type Config struct {
	// Redis is where the zones are. Its prefix precedes every key; the default here is empty, as
	// in redins.
	Redis  redis.Config `yaml:",inline"`
	Suffix string       `yaml:"suffix,omitempty"` // follows every key
	// Schema is the layout: "redins" (the default) or "z42".
	Schema Schema `yaml:"schema,omitempty"`
	// Reload is how often everything is read again, in case an event was missed; default 10m,
	// minimum 1s. With off it is read again only after the connection was lost.
	Reload setting.Duration `yaml:"reload,omitempty"`
	// SetNotify permits turning on notify-keyspace-events where it is off.
	SetNotify bool `yaml:"set-notify,omitempty"`
	// MaxTTL is the largest TTL in answers, and the TTL of records without one, in seconds;
	// default 3600. With off there is no limit.
	MaxTTL setting.Count `yaml:"max-ttl,omitempty"`
	// Strict follows the RFCs where redins does not: redins answers CAA with the records of an
	// ancestor, and NOTAUTH for names outside all zones.
	Strict bool `yaml:"strict,omitempty"`
	// Geography has the files for geo_filter.
	Geography geo.Config `yaml:"geography,omitempty"`
	// SubnetFrom are the resolvers whose EDNS client subnet is used. None means everybody's: the
	// answer says which part of it mattered (RFC 7871).
	SubnetFrom setting.Networks `yaml:"subnet-from,omitempty"`
	// Health says how to check addresses with a health_check.
	Health health.Config `yaml:"health,omitempty"`
}

func (c *Config) complete() error {
	if err := c.Redis.Check(); err != nil {
		return err
	}
	switch c.Schema {
	case "":
		c.Schema = Redins
	case Redins, Z42:
	default:
		return setting.At("schema", fmt.Errorf("%q is not redins or z42", c.Schema))
	}
	if every := c.Reload.Or(defaultReload); every != 0 && every < time.Second {
		return setting.At("reload", fmt.Errorf("%v is too short: write 1s or more", c.Reload))
	}
	return nil
}

const (
	defaultReload = 10 * time.Minute
	defaultTTL    = 3600
)

// Zones receives the zones: a zone.Responder.
type Zones interface {
	Replace(zones ...*zone.Zone) error
	Change(c *zone.Change) error
	Remove(origin, view string) bool
	Served(origin, view string) *zone.Served
}

// A Signer returns the zone as it is to be served, signed with the keys from Redis, for
// example by setting [zone.Zone.Signer]. It is not called for later changes.
type Signer func(z *zone.Zone, keys Keys) (*zone.Zone, error)

// Stats are the metrics of a Source.
type Stats struct {
	Connected     bool          // Redis reports changes
	Zones         int           // zones served
	Kept          int           // of these, zones from disk, because Redis was not reachable since the start
	Problems      int           // values that are not served
	Loads         uint64        // zones read and replaced
	Failures      uint64        // reads that Redis did not answer, and zones that could not be served
	Events        uint64        // written keys
	Reconciled    time.Time     // when everything was last read and compared; zero before that
	Slowest       time.Duration // longest time to read, build and replace a zone
	Aliases       AliasStats
	Health        health.Counts
	Interruptions uint64 // of the connection
}

// AliasStats count lookups of ANAME targets.
type AliasStats struct{ Lookups, Failed, Stale uint64 }

// A Source keeps the zones of the name server equal to those in Redis.
type Source struct {
	cfg     Config
	reload  time.Duration // 0: never
	folder  string        // where zones are kept; "" for nowhere
	connect func(context.Context) (*Store, error)
	to      Zones
	sign    Signer
	log     *slog.Logger
	geo     *geo.DB
	checker *health.Checker
	aliases *Aliases
	wake    chan struct{}

	mu        sync.Mutex
	known     map[string]*zoneState // by origin as Redis lists it
	dirty     map[string]*writtenPart
	relist    bool // the list of zones was written
	reconcile bool // everything may have changed
	connected bool
	failing   bool   // the list cannot be read
	restored  bool   // kept zones are served; owned by the reader
	refused   string // why Redis does not report changes
	checked   time.Time
	slowest   time.Duration

	*counters
}

// counters are shared with the Source that replaces this one.
type counters struct{ loads, failures, events, interruptions atomic.Uint64 }

// A zoneState is a zone being served, guarded by the Source's lock.
type zoneState struct {
	origin   string       // canonical
	sum      xxh3.Uint128 // of the whole zone; zero when names changed since
	served   bool
	away     bool            // unavailable: it was never read
	problems []Problem       // those about no particular name
	parts    map[string]part // of the names with problems or health checks
	took     time.Duration
	ended    time.Time
	failed   bool
	kept     bool      // served from disk, because Redis was not reachable
	unkept   bool      // changed since it was written to disk
	keep     time.Time // not to be written to disk before this time

	// Owned by the reader.
	names    *names  // nil when it is read as a whole
	looked   bool    // its types are current (z42)
	types    *names  // types found of a zone that is read as a whole, used once
	apex     []value // values of "@"
	config   []byte
	keys     Keys
	settings configJSON
}

// allProblems returns the problems of the zone.
func (k *zoneState) allProblems() []Problem {
	all := slices.Clone(k.problems)
	for _, p := range k.parts {
		all = append(all, p.problems...)
	}
	return all
}

// New makes a Source. It keeps zones in folder, for a start without Redis; "" keeps none. up
// finds ANAME targets elsewhere; without it they are not found. sign may be nil: then zones
// with dnssec are served unsigned. previous may be nil; if it has zones from the same place,
// to serves them already, and this Source continues with them.
func New(cfg Config, folder string, to Zones, up Upstream, sign Signer, previous *Source, log *slog.Logger) (*Source, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	db, err := geo.New(cfg.Geography, log)
	if err != nil {
		return nil, setting.At("geography", err)
	}
	var before *health.Checker
	if previous != nil {
		before = previous.checker
	}
	checker, err := health.New(cfg.Health, cfg.Redis.Prefix, cfg.Suffix, before, log)
	if err != nil {
		return nil, setting.At("health", err)
	}
	s := &Source{
		cfg: cfg, reload: cfg.Reload.Or(defaultReload), folder: folder, to: to, sign: sign, log: log, geo: db, checker: checker,
		connect: func(ctx context.Context) (*Store, error) { return Open(ctx, cfg.Redis, cfg.Schema, cfg.Suffix) },
		wake:    make(chan struct{}, 1), counters: &counters{},
		known: map[string]*zoneState{}, dirty: map[string]*writtenPart{},
	}
	if up != nil {
		s.aliases = NewAliases(up)
	}
	if previous != nil {
		s.adopt(previous)
	}
	return s, nil
}

// adopt takes over the zones that another Source serves from the same place, until they are
// read again.
func (s *Source) adopt(previous *Source) {
	s.counters = previous.counters
	if s.aliases != nil && previous.aliases != nil {
		s.aliases.adopt(previous.aliases)
	}
	if s.source() != previous.source() || !slices.Equal(s.cfg.Redis.Addresses, previous.cfg.Redis.Addresses) {
		return
	}
	previous.mu.Lock()
	defer previous.mu.Unlock()
	for name, k := range previous.known {
		if k.served {
			s.known[name] = &zoneState{origin: k.origin, served: true, kept: k.kept, unkept: k.unkept}
			s.restored = true
		}
	}
}

// Has reports whether a zone is served from Redis.
func (s *Source) Has(origin string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.known {
		if k.origin == origin {
			return true
		}
	}
	return false
}

// Stats returns the metrics.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{
		Connected: s.connected, Loads: s.loads.Load(), Failures: s.failures.Load(), Events: s.events.Load(),
		Reconciled: s.checked, Slowest: s.slowest, Health: s.checker.Counts(), Interruptions: s.interruptions.Load(),
	}
	for _, k := range s.known {
		if k.served {
			st.Zones++
		}
		if k.kept {
			st.Kept++
		}
		st.Problems += len(k.allProblems())
	}
	if s.aliases != nil {
		st.Aliases = AliasStats{s.aliases.Lookups.Load(), s.aliases.Failed.Load(), s.aliases.Stale.Load()}
	}
	return st
}

// Problems returns the zones that cannot be served, sorted.
func (s *Source) Problems() []Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Problem
	for _, k := range s.known {
		all = append(all, k.allProblems()...)
	}
	slices.SortStableFunc(all, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Field, b.Field)) })
	return all
}

const (
	// again is how long after a failure Redis is tried again.
	again = time.Second
	// settle is how long to wait for more changes after one.
	settle = 5 * time.Millisecond
	// loaders bounds the zones read at once.
	loaders = 4
	// maxSaid bounds the problems of a zone logged at once.
	maxSaid = 10
	// loadTime bounds the reading of one zone.
	loadTime = 5 * time.Minute
)

// Run keeps zones equal to those in Redis until ctx ends. It waits for Redis when it is not
// reachable, also at first. After Run the zones stay as they are.
func (s *Source) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { s.geo.Run(ctx) }) //nolint:errcheck // it ends with ctx
	if s.aliases != nil {
		wg.Go(func() { s.aliases.Run(ctx) }) //nolint:errcheck // as above
	}
	store := s.await(ctx)
	if store == nil {
		return nil
	}
	client := store.Client
	defer client.Close()
	wg.Go(func() { s.checker.Run(ctx, client, s.cfg.Redis.DB) }) //nolint:errcheck // as above
	wg.Go(func() {
		keyspace.Watch(ctx, client, keyspace.Watcher{DB: s.cfg.Redis.DB, Patterns: []string{store.pattern()}, Changed: s.changed(store), Listening: s.listening, Lost: s.connectionLost})
	})
	wg.Go(func() { s.notify(ctx, client) })
	if s.folder != "" {
		wg.Go(func() { s.keepZones(ctx, store) })
	}
	s.requestReconcile()
	s.loop(ctx, store)
	cancel()
	wg.Wait() // before the client closes
	return nil
}

// await connects, however long it takes.
func (s *Source) await(ctx context.Context) *Store {
	for logged := false; ; logged = true {
		store, err := s.connect(ctx)
		if err == nil {
			return store
		}
		s.failures.Add(1)
		s.restore()
		if !logged {
			s.log.Error("zones in Redis cannot be read; trying again each second", "error", err)
		}
		if wait.For(ctx, again) != nil {
			return nil
		}
	}
}

// notify checks notify-keyspace-events once. A restarted server may have lost it, so listening
// checks again.
func (s *Source) notify(ctx context.Context, client *redis.Client) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := keyspace.Enable(ctx, client, s.cfg.SetNotify); err != nil && ctx.Err() == nil {
		s.log.Warn("Redis does not report changes of zones", "error", err, "reload", s.reload)
	}
}

// changed returns a function that notes which zone was written.
func (s *Source) changed(store *Store) func(string) {
	return func(key string) {
		origin, what, ok := store.touched(key)
		if !ok {
			return
		}
		s.events.Add(1)
		s.mu.Lock()
		if origin == "" {
			s.relist = true
		} else if s.known[origin] != nil {
			s.touch(origin, what)
		} // otherwise it is read when it is listed
		s.mu.Unlock()
		s.nudge()
	}
}

// touch notes the parts of a zone to read. The caller holds the lock.
func (s *Source) touch(name string, what *writtenPart) {
	if t := s.dirty[name]; t != nil {
		t.add(what)
	} else {
		s.dirty[name] = what
	}
}

// listening is called when Redis begins to report changes.
func (s *Source) listening() {
	s.mu.Lock()
	s.connected = true
	s.mu.Unlock()
	s.requestReconcile()
}

// connectionLost is called when Redis stops reporting changes, or refuses to.
func (s *Source) connectionLost(err error) {
	s.mu.Lock()
	was := s.connected
	repeated := !was && s.refused == err.Error()
	s.connected, s.refused = false, err.Error()
	s.mu.Unlock()
	if was {
		s.interruptions.Add(1)
	}
	if !repeated {
		s.log.Warn("Redis does not report changes; zones are served as they were read, and read again from time to time", "error", err, "reload", s.reload)
	}
}

func (s *Source) requestReconcile() {
	s.mu.Lock()
	s.reconcile = true
	s.mu.Unlock()
	s.nudge()
}

func (s *Source) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// loop does the noted work.
func (s *Source) loop(ctx context.Context, store *Store) {
	var timed <-chan time.Time // nil: never
	if s.reload > 0 {
		ticker := time.NewTicker(s.reload)
		defer ticker.Stop()
		timed = ticker.C
	}
	next := time.NewTimer(time.Hour)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timed:
			s.requestReconcile()
		case <-next.C:
		case <-s.wake:
		}
		if wait.For(ctx, settle) != nil {
			return
		}
		next.Reset(s.work(ctx, store))
	}
}

// work does the work that is due and returns when to continue.
func (s *Source) work(ctx context.Context, store *Store) time.Duration {
	s.mu.Lock()
	all, list := s.reconcile, s.relist
	s.reconcile, s.relist = false, false
	s.mu.Unlock()
	if all || list {
		if all && s.cfg.SetNotify { // a restarted server has lost the setting
			s.notify(ctx, store.Client)
		}
		if err := s.relisted(ctx, store, all, list); err != nil {
			s.mu.Lock()
			s.reconcile, s.relist = s.reconcile || all, s.relist || list
			s.mu.Unlock()
			s.fail(ctx, "", nil, err)
			s.restore()
			return again
		}
	}
	// Keys written from here on are noted for the next time: a key may be made
	// after look.
	due, wait := s.dueZones(time.Now())
	if all {
		s.findLayouts(ctx, store, due)
	}
	if len(due) > 0 {
		s.loadAll(ctx, store, due)
		wait = again
		s.nudge() // for keys written in the meantime
	}
	if all {
		s.mu.Lock()
		s.checked = time.Now()
		s.mu.Unlock()
	}
	return wait
}

// findLayouts finds out which keys the zones to read have in z42's layout, where that is cheaper than
// asking for every type of every name.
func (s *Source) findLayouts(ctx context.Context, store *Store, due map[string]*writtenPart) {
	if store.Schema != Z42 {
		return
	}
	zones := map[string]*zoneState{}
	s.mu.Lock()
	for name := range due {
		zones[name] = s.known[name]
	}
	s.mu.Unlock()
	keys, asked, err := store.measureRead(ctx, zones)
	if err != nil || asked <= keys {
		return // reading them reports the error
	}
	in := store.session(ctx)
	defer in.Close()
	for _, k := range zones {
		if k.types = nil; k.names == nil {
			k.types = &names{}
			continue
		}
		for i := range k.names.all {
			k.names.all[i].types = 0
		}
	}
	err = store.types(in, func(origin, label []byte, types uint16) error {
		k := zones[string(origin)]
		switch {
		case k == nil:
		case k.names != nil:
			if i := k.names.find(label); i >= 0 {
				k.names.all[i].types |= types
			} // otherwise it is a new name
		default:
			i, _, err := k.types.add(label)
			if err != nil {
				return err
			}
			k.types.all[i].types |= types
		}
		return nil
	})
	for _, k := range zones {
		if k.looked = err == nil; err != nil {
			k.types = nil
		}
	}
}

// loadAll reads zones, several at once.
func (s *Source) loadAll(ctx context.Context, store *Store, due map[string]*writtenPart) {
	var wg sync.WaitGroup
	work := make(chan string)
	for range min(loaders, len(due)) {
		wg.Go(func() {
			for name := range work {
				s.load(ctx, store, name, due[name])
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(due)) {
		work <- name
	}
	close(work)
	wg.Wait()
}

// relisted compares the list of zones with those served. all says to read every zone again.
func (s *Source) relisted(ctx context.Context, store *Store, all, notified bool) error {
	names, err := store.Zones(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = false
	if len(names) == 0 && !notified && len(s.known) > 0 {
		// They were not removed one by one: the server has lost its data.
		s.failures.Add(1)
		s.log.Error("Redis no longer lists zones; the known ones stay until it lists some, or the list is written", "key", store.list(), "zones", len(s.known))
		return nil
	}
	listed := map[string]bool{}
	for _, name := range names {
		listed[name] = true
		if s.known[name] == nil {
			s.known[name] = &zoneState{origin: zone.Canonical(name)}
			s.touch(name, &writtenPart{names: true})
		} else if all {
			s.touch(name, &writtenPart{names: true})
		}
	}
	for name, k := range s.known {
		if !listed[name] {
			s.drop(name, k)
		}
	}
	return nil
}

// drop stops serving a zone. The caller holds the lock.
func (s *Source) drop(name string, k *zoneState) {
	delete(s.known, name)
	delete(s.dirty, name)
	for _, p := range k.parts {
		for _, st := range p.watched {
			s.checker.Drop(st)
		}
	}
	if s.folder != "" {
		_ = os.Remove(s.file(name)) // it may not be there
	}
	if k.served || k.away {
		s.to.Remove(k.origin, "")
		s.log.Info("zone was removed from Redis", "zone", k.origin)
	}
}

// dueZones returns the zones to read now, or when there may be some. A zone rests after each read
// for as long as the read took, or a quarter of that where only differences are compiled, so
// that a slow zone is not read all the time.
func (s *Source) dueZones(now time.Time) (map[string]*writtenPart, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := time.Hour
	due := map[string]*writtenPart{}
	for name, what := range s.dirty {
		k := s.known[name]
		rest := min(k.took, 5*time.Second)
		if k.names != nil { // compiling the differences takes little
			rest /= 4
		}
		if k.failed {
			rest = again
		}
		if until := k.ended.Add(rest).Sub(now); until > 0 {
			wait = min(wait, until)
			continue
		}
		due[name] = what
		delete(s.dirty, name)
	}
	return due, wait
}

// refuse leaves a zone as it was until it is written again or everything is read again.
func (s *Source) refuse(store *Store, name string, k *zoneState, b *builder, err error) {
	for _, st := range b.watched {
		s.checker.Drop(st)
	}
	s.failures.Add(1)
	s.mu.Lock()
	problems := b.problems
	if k.parts != nil { // of the served one
		problems = b.general
	}
	k.problems = append(slices.Clone(problems), Problem{Key: store.hash(name), Err: err})
	k.ended = time.Now()
	s.mu.Unlock()
	s.log.Error("zone cannot be served as it is in Redis", "zone", k.origin, "served before", k.served, "error", err)
	s.fallBack(name, k)
}

// fallBack serves a replacement for a zone that cannot be read and is not served: its last
// good copy, else SERVFAIL.
func (s *Source) fallBack(name string, k *zoneState) {
	if k.served || k.away {
		return
	}
	if s.folder != "" {
		_, r, err := s.loadKept(s.file(name))
		if err == nil {
			err = s.serveKept(name, r)
		}
		if err == nil {
			s.log.Warn("zone is served from its last good copy", "zone", k.origin)
			return
		}
		if !errors.Is(err, fs.ErrNotExist) {
			s.log.Error("the last good copy of a zone cannot be served", "zone", k.origin, "error", err)
		}
	}
	if err := s.to.Replace(&zone.Zone{Origin: k.origin, Unavailable: "the data of this zone cannot be read"}); err != nil {
		s.log.Error("a zone that cannot be read does not answer SERVFAIL", "zone", k.origin, "error", err)
		return
	}
	k.away = true
}

func (s *Source) builder() *builder {
	b := &builder{
		schema: s.cfg.Schema, climb: !s.cfg.Strict, ttl: uint32(cmp.Or(s.cfg.MaxTTL.Or(defaultTTL), defaultTTL)), maxTTL: uint32(s.cfg.MaxTTL.Or(defaultTTL)), geo: s.geo, trusts: s.cfg.SubnetFrom,
		checker: s.checker, now: time.Now,
	}
	if s.aliases != nil {
		b.resolver = s.aliases
	}
	return b
}

// signed signs the zone if its config says so. A zone that was served signed is never served
// unsigned.
func (s *Source) signed(b *builder, z **zone.Zone, k *zoneState) (err error) {
	if !b.config.DNSSEC {
		return nil
	}
	var signed *zone.Zone
	switch keys := b.raw.keys; {
	case s.sign == nil:
		err = errors.New("dnssec is true, but nothing signs zones here")
	case keys == Keys{}:
		err = errors.New("dnssec is true, but there are no keys beside the zone (:zsk:pub, :zsk:priv, :ksk:pub, :ksk:priv)")
	default:
		signed, err = s.sign(*z, keys)
	}
	switch {
	case err == nil:
		*z = signed
		return nil
	case k.served:
		return fmt.Errorf("sign: %w; the zone stays as it was", err)
	}
	b.problem("dnssec", fmt.Errorf("%w; the zone is served unsigned", err))
	return nil
}

// logProblems logs that a zone was loaded, and the first of its problems.
func (s *Source) logProblems(origin string, z *zone.Zone, problems []Problem, took time.Duration) {
	s.log.Info("zone read from Redis", "zone", origin, "records", len(z.Records), "choices", len(z.Choices), "aliases", len(z.Aliases), "problems", len(problems), "took", took)
	for _, p := range problems[:min(len(problems), maxSaid)] {
		s.log.Warn("not served", "zone", origin, "key", p.Key, "field", p.Field, "error", p.Err)
	}
	if n := len(problems) - maxSaid; n > 0 {
		s.log.Warn("not served either", "zone", origin, "problems", n)
	}
}

// fail notes a failed read, to be tried again.
func (s *Source) fail(ctx context.Context, name string, what *writtenPart, err error) {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	s.failures.Add(1)
	s.mu.Lock()
	first := !s.failing
	if k := s.known[name]; k == nil {
		s.failing = true
	} else {
		first = !k.failed
		k.failed, k.ended = true, time.Now()
		s.touch(name, what)
	}
	s.mu.Unlock()
	if first {
		s.log.Error("zones stay as they are", "zone", name, "error", err)
	}
	s.mu.Lock()
	k := s.known[name]
	s.mu.Unlock()
	if k != nil {
		s.fallBack(name, k)
	}
}
