// Package redins serves zones that are kept in Redis in the layout of redins,
// or in that of its successor z42, byte for byte.
//
// A [Source] reads zones from Redis ([Store]), makes a zone.Zone of each and
// hands it to the name server, which answers from memory: no query waits for
// Redis. Keyspace events say which zone was written; that one is read again, and
// the names that differ are changed in the name server. A reload from time to time
// finds changes that no event announced. While Redis is gone, what was read last is served, and
// at a start without it what was kept on disk.
//
// JSON that makes no sense is left out, with a [Problem] for each piece, and
// the rest of the zone is served. What depends on the client becomes a picker:
// by health (package health), geography (package geo), order and count. ANAME
// targets outside of our zones are looked up by [Aliases].
package redins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"shuultuur/arrange"
	"shuultuur/redis"
	"shuultuur/redis/keyspace"
	"shuultuur/setting"
	"shuultuur/zone"
	"shuultuur/zone/redins/geo"
	"shuultuur/zone/redins/health"
)

// Config says where the zones are and how they are read.
type Config struct {
	// Redis is where the zones are. Its prefix stands before every key; here
	// it is empty unless given, as redins has it.
	Redis  redis.Config `yaml:",inline"`
	Suffix string       `yaml:"suffix,omitempty"` // behind every key
	// Schema is the layout: "redins" (the default) or "z42".
	Schema Schema `yaml:"schema,omitempty"`
	// Reload is how often everything is read again, in case an event was
	// missed; default 10m, the least is 1s. With off it is read again only when
	// the connection was lost.
	Reload setting.Duration `yaml:"reload,omitempty"`
	// SetNotify lets us turn on notify-keyspace-events where it is off.
	SetNotify bool `yaml:"set-notify,omitempty"`
	// MaxTTL is the largest TTL that is answered, and the TTL of records that
	// have none, in seconds; default 3600. With off there is no largest.
	MaxTTL setting.Count `yaml:"max-ttl,omitempty"`
	// Strict answers as the RFCs have it where redins does not: it answers for
	// CAA with the records of a name above, and NOTAUTH for names of no zone.
	Strict bool `yaml:"strict,omitempty"`
	// Geography has the files for geo_filter.
	Geography geo.Config `yaml:"geography,omitempty"`
	// SubnetFrom are the resolvers whose EDNS client subnet is believed. None
	// means everybody's: the answer says which part of it mattered (RFC 7871).
	SubnetFrom []netip.Prefix `yaml:"subnet-from,omitempty"`
	// Health says how addresses with a health_check are checked.
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

// Zones is where zones go: a zone.Responder.
type Zones interface {
	Replace(zones ...*zone.Zone) error
	Change(c *zone.Change) error
	Remove(origin, view string) bool
	Served(origin, view string) *zone.Served
}

// A Signer gives the zone as it is to be served with the keys that Redis has for
// it, such as with its [zone.Zone.Signer]. Changes follow without it.
type Signer func(z *zone.Zone, keys Keys) (*zone.Zone, error)

// Stats are figures for metrics.
type Stats struct {
	Connected     bool          // Redis tells us of changes
	Zones         int           // that are served
	Kept          int           // of these as they were kept on disk: Redis was not there since the start
	Problems      int           // values in them that are not served
	Loads         uint64        // zones read and replaced
	Failures      uint64        // reads that Redis did not answer, or zones that could not be served
	Events        uint64        // keys that were written
	Reconciled    time.Time     // when everything was last read and compared; zero before the first time
	Slowest       time.Duration // to read, build and replace one zone
	Aliases       AliasStats
	Health        health.Counts
	Interruptions uint64 // of the connection
}

// AliasStats count lookups of ANAME targets.
type AliasStats struct{ Lookups, Failed, Stale uint64 }

// A Source keeps the zones of the name server as they are in Redis.
type Source struct {
	cfg     Config
	reload  time.Duration // 0 for never
	folder  string        // where zones are kept, "" for nowhere
	connect func(context.Context) (*Store, error)
	to      Zones
	sign    Signer
	log     *slog.Logger
	geo     *geo.DB
	checker *health.Checker
	aliases *Aliases
	wake    chan struct{}

	mu        sync.Mutex
	known     map[string]*known // by origin as Redis lists it
	dirty     map[string]*touched
	relist    bool // the list was written
	reconcile bool // everything may be another
	connected bool
	failing   bool   // the list cannot be read
	restored  bool   // what was kept is served; of the reader
	refused   string // why Redis does not tell of changes
	checked   time.Time
	slowest   time.Duration

	*counters
}

// counters go on when another Source takes the place of one.
type counters struct{ loads, failures, events, interruptions atomic.Uint64 }

// known is a zone that is served. The Source's lock guards it.
type known struct {
	origin   string       // canonical
	sum      xxh3.Uint128 // of all of it; zero when names were changed since
	served   bool
	away     bool            // it is unavailable: it was never read
	problems []Problem       // that are of no name
	parts    map[string]part // of those names that have something to say
	took     time.Duration
	ended    time.Time
	failed   bool
	kept     bool      // it is served from disk, as Redis was not there yet
	unkept   bool      // it has changed since it was written there
	keep     time.Time // not before

	// Of the reader, one at a time.
	names    *names  // nil when it is read as a whole
	looked   bool    // what types they have is as it was found a moment ago (z42)
	types    *names  // what was found of a zone that is read as a whole, for once
	apex     []value // what "@" has
	config   []byte
	keys     Keys
	settings configJSON
}

// all are the problems of the zone.
func (k *known) all() []Problem {
	all := slices.Clone(k.problems)
	for _, p := range k.parts {
		all = append(all, p.problems...)
	}
	return all
}

// New makes a Source. Zones are kept in folder, for a start without Redis; "" keeps none. up finds ANAME
// targets elsewhere; without it they are not found. sign may be nil: then zones
// with dnssec are served unsigned. Where previous has zones from the same place,
// to serves them already, and this Source goes on with them; previous may be nil.
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
		known: map[string]*known{}, dirty: map[string]*touched{},
	}
	if up != nil {
		s.aliases = NewAliases(up)
	}
	if previous != nil {
		s.adopt(previous)
	}
	return s, nil
}

// adopt takes over the zones that another Source serves from the same place, until
// they are read again.
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
			s.known[name] = &known{origin: k.origin, served: true, kept: k.kept, unkept: k.unkept}
			s.restored = true
		}
	}
}

// Has says whether a zone of ours is served from Redis.
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

// Stats returns figures for metrics.
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
		st.Problems += len(k.all())
	}
	if s.aliases != nil {
		st.Aliases = AliasStats{s.aliases.Lookups.Load(), s.aliases.Failed.Load(), s.aliases.Stale.Load()}
	}
	return st
}

// Problems returns what cannot be served, in order.
func (s *Source) Problems() []Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Problem
	for _, k := range s.known {
		all = append(all, k.all()...)
	}
	arrange.By(all, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Field, b.Field)) })
	return all
}

const (
	// again is how long after a failure Redis is asked again.
	again = time.Second
	// settle is how long after a change is waited for more of them.
	settle = 5 * time.Millisecond
	// loaders is how many zones are read at once.
	loaders = 4
	// maxSaid is how many problems of a zone go to the log at once.
	maxSaid = 10
	// loadTime bounds the reading of one zone.
	loadTime = 5 * time.Minute
)

// Run keeps zones as they are in Redis until ctx ends. It waits for Redis when
// that is not there, at first too. The zones stay as they are afterwards.
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
		keyspace.Watch(ctx, client, keyspace.Watcher{DB: s.cfg.Redis.DB, Patterns: []string{store.pattern()}, Changed: s.changed(store), Listening: s.listening, Lost: s.lost})
	})
	wg.Go(func() { s.notify(ctx, client) })
	if s.folder != "" {
		wg.Go(func() { s.keep(ctx, store) })
	}
	s.everything()
	s.loop(ctx, store)
	cancel()
	wg.Wait() // before the client closes
	return nil
}

// await connects, however long it takes.
func (s *Source) await(ctx context.Context) *Store {
	for said := false; ; said = true {
		store, err := s.connect(ctx)
		if err == nil {
			return store
		}
		s.failures.Add(1)
		s.restore()
		if !said {
			s.log.Error("zones in Redis cannot be read; trying again each second", "error", err)
		}
		if sleep(ctx, again) != nil {
			return nil
		}
	}
}

// notify looks at notify-keyspace-events once; a server that was away may have
// forgotten, so listening asks again.
func (s *Source) notify(ctx context.Context, client *redis.Client) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := keyspace.Enable(ctx, client, s.cfg.SetNotify); err != nil && ctx.Err() == nil {
		s.log.Warn("Redis does not report changes of zones", "error", err, "reload", s.reload)
	}
}

// changed notes which zone was written.
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
		} // else it is read when it is listed
		s.mu.Unlock()
		s.nudge()
	}
}

// touch notes that a zone, or some of it, is to be read. The lock is held.
func (s *Source) touch(name string, what *touched) {
	if t := s.dirty[name]; t != nil {
		t.add(what)
	} else {
		s.dirty[name] = what
	}
}

// listening is called when Redis tells us of changes (again).
func (s *Source) listening() {
	s.mu.Lock()
	s.connected = true
	s.mu.Unlock()
	s.everything()
}

// lost is called when it no longer does, or refuses to.
func (s *Source) lost(err error) {
	s.mu.Lock()
	was := s.connected
	said := !was && s.refused == err.Error()
	s.connected, s.refused = false, err.Error()
	s.mu.Unlock()
	if was {
		s.interruptions.Add(1)
	}
	if !said {
		s.log.Warn("Redis does not tell of changes; zones are served as they were read, and read again at times", "error", err, "reload", s.reload)
	}
}

func (s *Source) everything() {
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

// loop does what has been noted.
func (s *Source) loop(ctx context.Context, store *Store) {
	var timed <-chan time.Time // nil for never
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
			s.everything()
		case <-next.C:
		case <-s.wake:
		}
		if sleep(ctx, settle) != nil {
			return
		}
		next.Reset(s.work(ctx, store))
	}
}

// work does what is due and says when there is more.
func (s *Source) work(ctx context.Context, store *Store) time.Duration {
	s.mu.Lock()
	all, list := s.reconcile, s.relist
	s.reconcile, s.relist = false, false
	s.mu.Unlock()
	if all || list {
		if all && s.cfg.SetNotify { // a server that was away has forgotten
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
	if all {
		s.look(ctx, store)
	}
	due, wait := s.due(time.Now())
	if len(due) > 0 {
		s.loadAll(ctx, store, due)
		wait = again
		s.nudge() // for what was written meanwhile
	}
	if all {
		s.mu.Lock()
		s.checked = time.Now()
		s.mu.Unlock()
	}
	return wait
}

// look finds out which keys there are, in z42's layout, where that is less than
// to ask for a key of every type of every name.
func (s *Source) look(ctx context.Context, store *Store) {
	if store.Schema != Z42 {
		return
	}
	s.mu.Lock()
	zones := maps.Clone(s.known)
	s.mu.Unlock()
	keys, asked, err := store.effort(ctx, zones)
	if err != nil || asked <= keys {
		return // what reads them says what is wrong
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
			} // else it is a new name
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

// loadAll reads zones, some at once.
func (s *Source) loadAll(ctx context.Context, store *Store, due map[string]*touched) {
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

// relisted compares the list of zones with what is served. all says to read
// every zone again.
func (s *Source) relisted(ctx context.Context, store *Store, all, told bool) error {
	names, err := store.Zones(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = false
	if len(names) == 0 && !told && len(s.known) > 0 {
		// Nobody took the zones out one by one: the server has lost its data.
		s.failures.Add(1)
		s.log.Error("Redis has no zones any more; those that were read stay until it lists some, or the list is written", "key", store.list(), "zones", len(s.known))
		return nil
	}
	listed := map[string]bool{}
	for _, name := range names {
		listed[name] = true
		if s.known[name] == nil {
			s.known[name] = &known{origin: zone.Canonical(name)}
			s.touch(name, &touched{names: true})
		} else if all {
			s.touch(name, &touched{names: true})
		}
	}
	for name, k := range s.known {
		if !listed[name] {
			s.drop(name, k)
		}
	}
	return nil
}

// drop ends the service of a zone. The lock is held.
func (s *Source) drop(name string, k *known) {
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
		s.log.Info("zone is gone from Redis", "zone", k.origin)
	}
}

// due takes the zones that are to be read now, or says when there may be some.
// A zone that takes long to read is not read all the time: it rests as long as
// it took, or a quarter of that where only what differs is compiled.
func (s *Source) due(now time.Time) (map[string]*touched, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := time.Hour
	due := map[string]*touched{}
	for name, what := range s.dirty {
		k := s.known[name]
		rest := min(k.took, 5*time.Second)
		if k.names != nil { // little is left to do when it has been read
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

// refuse leaves a zone as it was until it is written again or everything is
// read again.
func (s *Source) refuse(store *Store, name string, k *known, b *builder, err error) {
	for _, st := range b.watched {
		s.checker.Drop(st)
	}
	s.failures.Add(1)
	s.mu.Lock()
	said := b.problems
	if k.parts != nil { // of what is served
		said = b.general
	}
	k.problems = append(slices.Clone(said), Problem{Key: store.hash(name), Err: err})
	k.ended = time.Now()
	s.mu.Unlock()
	s.log.Error("zone cannot be served as it is in Redis", "zone", k.origin, "served before", k.served, "error", err)
	s.fallBack(name, k)
}

// fallBack serves a zone that cannot be read and is not served: its last good
// copy, else SERVFAIL.
func (s *Source) fallBack(name string, k *known) {
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
		s.log.Error("a zone that cannot be read is not answered with SERVFAIL", "zone", k.origin, "error", err)
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

// signed signs the zone if it says so. One that was served signed before is
// not served otherwise.
func (s *Source) signed(b *builder, z **zone.Zone, k *known) (err error) {
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

// say writes a line about a zone that was loaded, and one for each of the
// first problems.
func (s *Source) say(origin string, z *zone.Zone, problems []Problem, took time.Duration) {
	s.log.Info("zone read from Redis", "zone", origin, "records", len(z.Records), "choices", len(z.Choices), "aliases", len(z.Aliases), "problems", len(problems), "took", took)
	for _, p := range problems[:min(len(problems), maxSaid)] {
		s.log.Warn("not served", "zone", origin, "key", p.Key, "field", p.Field, "error", p.Err)
	}
	if n := len(problems) - maxSaid; n > 0 {
		s.log.Warn("not served either", "zone", origin, "problems", n)
	}
}

// fail notes that something could not be read, to be tried again.
func (s *Source) fail(ctx context.Context, name string, what *touched, err error) {
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
		s.log.Error("zones stay as they were read", "zone", name, "error", err)
	}
	s.mu.Lock()
	k := s.known[name]
	s.mu.Unlock()
	if k != nil {
		s.fallBack(name, k)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
