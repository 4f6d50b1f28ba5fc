package resolver

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/resolver/cache"
)

// An Upstream queries other name servers. msg is a whole, verified answer to the question;
// with an error, ede is the Extended DNS Error (RFC 8914) for the client.
type Upstream func(ctx context.Context, name []byte, qtype, class uint16, do, cd bool) (msg []byte, ede uint16, err error)

// CacheConfig bounds the cache in time and size.
type CacheConfig struct {
	Size     setting.Size     `yaml:"size"`         // default 16MiB
	MinTTL   setting.Duration `yaml:"min-ttl"`      // minimum time in the cache; default off
	MaxTTL   setting.Duration `yaml:"max-ttl"`      // maximum time in the cache; default 1d
	Negative setting.Duration `yaml:"negative-ttl"` // maximum for negative answers; default 1h
	// Stale is how long an expired answer is kept for when upstreams do not answer (RFC 8767);
	// default 1d.
	Stale setting.Duration `yaml:"stale"`
}

const (
	staleTTL = 30 // seconds, RFC 8767 section 4
	// staleRetry is how long after a failure stale answers are given without another attempt
	// (the failure recheck timer, RFC 8767 section 5).
	staleRetry = 5 * time.Second
	// clientTimer is how long a client waits before it gets a stale answer,
	// RFC 8767 section 5.
	clientTimer = 1800 * time.Millisecond
	// failureTTL is how long a failure of the upstreams is cached, in seconds (RFC 9520 section
	// 3.2).
	failureTTL = 5
	// mostResting bounds the idle goroutines.
	mostResting = 128
	// maxFlights bounds the questions at upstreams at a time.
	maxFlights = 4096
)

// A Store has the answers of upstreams, unaffected by policies. It outlives resolvers.
type Store struct {
	cache    *cache.Cache
	keeps    bool         // answers, and not failures alone
	seed     maphash.Seed // of variants
	upstream Upstream
	sets     []Upstream // of some policies, by the set of a key
	label    string     // of the server, in metrics

	minTTL, maxTTL, negative uint32

	life context.Context
	stop context.CancelFunc
	late context.Context // has ended
	wg   sync.WaitGroup

	mu      sync.Mutex
	flights map[string]*flight

	next    chan *flight // to an idle goroutine
	resting atomic.Int32

	misses, stale, prefetched, failed, refused atomic.Int64
}

// A flight is one question in progress, for all queries that wait for it.
type flight struct {
	id    string // among flights
	key   cache.Key
	began time.Time
	done  chan struct{}
	entry cache.Entry // when done
	err   error       // set if there is no answer
}

// NewStore makes an empty store. Metrics name its server label. sets are the upstreams of some
// policies, see [Parts.Set]; up answers the others. Close it.
func NewStore(cfg CacheConfig, label string, up Upstream, sets ...Upstream) (*Store, error) {
	const mib, least = 1 << 20, 4 << 20
	size, keeps := cfg.Size.Or(16*mib), !cfg.Size.Off()
	if !keeps {
		size = least // for failures, so that a dead upstream is not asked without end
	}
	if size < least || size > 1<<20*mib {
		return nil, setting.At("size", fmt.Errorf("%v is neither off nor between 4MiB and 1TiB", cfg.Size))
	}
	minTTL, maxTTL, negative := cfg.MinTTL.Or(0), cfg.MaxTTL.Or(24*time.Hour), cfg.Negative.Or(time.Hour)
	const week = 7 * 24 * time.Hour
	if cfg.MaxTTL.Off() {
		maxTTL = week
	}
	for _, x := range []struct {
		key string
		d   time.Duration
		max time.Duration
	}{{"min-ttl", minTTL, time.Hour}, {"max-ttl", maxTTL, week}, {"negative-ttl", negative, week}} {
		if x.d > x.max {
			return nil, setting.At(x.key, fmt.Errorf("%v is longer than %v", setting.Duration(x.d), setting.Duration(x.max)))
		}
	}
	if minTTL > maxTTL {
		return nil, setting.At("min-ttl", fmt.Errorf("%v is more than max-ttl, %v", setting.Duration(minTTL), setting.Duration(maxTTL)))
	}
	c, err := cache.New(int(size), cfg.Stale.Or(24*time.Hour))
	if err != nil {
		return nil, setting.At("size", err)
	}
	s := &Store{
		cache: c, keeps: keeps, seed: maphash.MakeSeed(), upstream: up, sets: sets, label: label, flights: map[string]*flight{}, next: make(chan *flight),
		minTTL: uint32(minTTL / time.Second), maxTTL: uint32(maxTTL / time.Second), negative: uint32(negative / time.Second),
	}
	s.life, s.stop = context.WithCancel(context.Background())
	var end context.CancelFunc
	s.late, end = context.WithCancel(s.life)
	end()
	return s, nil
}

// Close aborts questions in progress and waits for their end.
func (s *Store) Close() {
	s.mu.Lock()
	s.stop() // under the lock: no flight begins after it
	s.mu.Unlock()
	s.wg.Wait()
}

// Flush forgets all answers.
func (s *Store) Flush() { s.cache.Flush() }

// Stats are counts since the start.
type Stats struct {
	cache.Stats
	Stale      int64 // expired answers given
	Prefetched int64 // answers refreshed before they expired
	Failed     int64 // questions that upstreams did not answer
	Refused    int64 // questions refused because too many were in progress
	Flights    int   // questions in progress
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	n := len(s.flights)
	s.mu.Unlock()
	c := s.cache.Stats()
	c.Misses = s.misses.Load() // the cache counts every lookup
	return Stats{c, s.stale.Load(), s.prefetched.Load(), s.failed.Load(), s.refused.Load(), n}
}

// get appends the answer for k to dst if one can be given at once; stale says that there is an
// expired one. It never waits.
func (s *Store) get(k *cache.Key, now time.Time, dst []byte) (body []byte, e cache.Entry, ok, stale bool) {
	from := len(dst)
	dst, e, st, failed := s.cache.Get(k, now, staleTTL, dst)
	switch st {
	case cache.Fresh:
		return dst, e, true, false
	case cache.Refresh:
		if k.Variant == 0 && s.start(k, now) != nil {
			s.prefetched.Add(1)
		}
		return dst, e, true, false
	case cache.Stale:
		if stale = e.Flags&cache.Failure == 0; stale && failed >= 0 && failed < staleRetry {
			s.markStale(&e)
			return dst, e, true, true
		}
	}
	return dst[:from], cache.Entry{}, false, stale
}

// markStale marks e as stale.
func (s *Store) markStale(e *cache.Entry) {
	s.stale.Add(1)
	e.EDE = dns.EDEStale
	if e.Rcode == dns.RcodeNXDomain {
		e.EDE = dns.EDEStaleNXDomain
	}
}

// wait fetches the answer for k and appends it to dst. There always is one: a stale one when
// upstreams are slow or unreachable, else SERVFAIL.
func (s *Store) wait(ctx context.Context, k *cache.Key, now time.Time, dst []byte) ([]byte, cache.Entry) {
	s.misses.Add(1)
	// Another query may have fetched it in the meantime.
	buf, e, ok, stale := s.get(k, now, dst)
	if ok {
		return buf, e
	}
	if ctx.Err() != nil { // no time is left
		return s.fallbackAnswer(k, now, dst, dns.EDENetwork)
	}
	f := s.start(k, now)
	if f == nil {
		return s.fallbackAnswer(k, now, dst, dns.EDENetwork)
	}
	var patience <-chan time.Time
	if stale {
		timer := time.NewTimer(clientTimer)
		defer timer.Stop()
		patience = timer.C
	}
	for {
		select {
		case <-f.done:
			if f.err != nil {
				return s.fallbackAnswer(k, now, dst, f.entry.EDE)
			}
			return append(dst, f.entry.Body...), f.entry
		case <-patience:
			if buf, e, ok := s.staleAnswer(k, now, dst); ok {
				return buf, e
			}
			patience = nil
		case <-ctx.Done():
			return s.fallbackAnswer(k, now, dst, dns.EDENoReachable)
		}
	}
}

// staleAnswer appends an expired answer, if there is one.
func (s *Store) staleAnswer(k *cache.Key, now time.Time, dst []byte) ([]byte, cache.Entry, bool) {
	from := len(dst)
	dst, e, st, _ := s.cache.Get(k, now, staleTTL, dst)
	if st == cache.Miss || e.Flags&cache.Failure != 0 {
		return dst[:from], cache.Entry{}, false
	}
	if st == cache.Stale {
		s.markStale(&e)
	}
	return dst, e, true
}

// fallbackAnswer is the answer when upstreams give none.
func (s *Store) fallbackAnswer(k *cache.Key, now time.Time, dst []byte, ede uint16) ([]byte, cache.Entry) {
	if buf, e, ok := s.staleAnswer(k, now, dst); ok {
		return buf, e
	}
	return dst, cache.Entry{Rcode: dns.RcodeServFail, EDE: ede, Flags: cache.Failure}
}

// start fetches k, unless that is in progress. It returns nil when too many are.
func (s *Store) start(k *cache.Key, now time.Time) *flight {
	var buf [270]byte
	id := append(buf[:0], byte(k.Type>>8), byte(k.Type), byte(k.Class>>8), byte(k.Class), k.Set<<2)
	if k.DO {
		id[4] |= 1
	}
	if k.CD {
		id[4] |= 2
	}
	id = append(id, k.Name...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flights[string(id)]; f != nil {
		return f
	}
	if len(s.flights) >= maxFlights || s.life.Err() != nil {
		s.refused.Add(1)
		return nil
	}
	f := &flight{done: make(chan struct{}), id: string(id), key: *k, began: now}
	f.key.Name, f.key.Variant = []byte(f.id[5:]), 0
	s.flights[f.id] = f
	select {
	case s.next <- f: // an idle goroutine takes it
	default:
		s.wg.Go(func() { s.fly(f) })
	}
	return f
}

// fly serves one flight after another, as long as few other goroutines are idle: a goroutine
// with a grown stack is worth keeping.
func (s *Store) fly(f *flight) {
	for f != nil {
		// An earlier flight may have ended since the cache was consulted.
		if body, e, st, _ := s.cache.Get(&f.key, f.began, 0, nil); st == cache.Fresh {
			f.entry, f.entry.Body = e, body
		} else {
			s.fetch(&f.key, f)
		}
		s.mu.Lock()
		delete(s.flights, f.id)
		s.mu.Unlock()
		close(f.done)
		if f = nil; s.resting.Add(1) <= mostResting {
			select {
			case f = <-s.next:
			case <-s.life.Done():
			}
		}
		s.resting.Add(-1)
	}
}

// fetch queries upstreams for k and caches the answer.
func (s *Store) fetch(k *cache.Key, f *flight) {
	ask := s.upstream
	if k.Set > 0 {
		ask = Offline
		if int(k.Set) <= len(s.sets) {
			ask = s.sets[k.Set-1]
		}
	}
	msg, ede, err := ask(s.life, k.Name, k.Type, k.Class, k.DO, k.CD)
	now := time.Now()
	if err == nil {
		f.entry, err = s.entryOf(k, msg)
		if err != nil {
			ede = dns.EDEIndeterminate
		}
	}
	if err == nil && f.entry.Rcode != 0 && f.entry.Rcode != dns.RcodeNXDomain {
		err, ede = fmt.Errorf("upstreams answer with rcode %d", f.entry.Rcode), dns.EDENetwork
	}
	if err != nil {
		f.err = err
		f.entry = cache.Entry{Rcode: dns.RcodeServFail, EDE: ede, Flags: cache.Failure, TTL: failureTTL}
		s.failed.Add(1)
		if s.life.Err() != nil {
			return
		}
		if _, e, st, _ := s.cache.Get(k, now, 0, nil); st == cache.Miss || e.Flags&cache.Failure != 0 {
			s.cache.Put(k, now, &f.entry)
		} else {
			s.cache.Fail(k, now)
		}
		return
	}
	if f.entry.TTL > 0 && s.keeps {
		s.cache.Put(k, now, &f.entry)
	}
}
