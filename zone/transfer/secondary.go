package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait"
	"shuultuur/zone"
)

// A secondary is one zone that is fetched from other servers.
type secondary struct {
	s        *Server
	origin   string
	feed     atomic.Pointer[feed]
	catalog  bool // it is a catalog zone
	maxBytes int64
	poke     chan struct{} // a NOTIFY has arrived

	life    context.Context //nolint:containedctx // ends with end
	end     context.CancelFunc
	running atomic.Bool
	ended   chan struct{} // closed when run has returned

	held    atomic.Pointer[fetchedZone] // nil while there is no zone; written by New, then by run
	expires atomic.Int64                // expiry, in Unix seconds

	// Owned by run.
	asked  time.Time // when a NOTIFY last began a round
	failed int       // successive rounds without an answer
}

// A feed is where a zone comes from. It is immutable.
type feed struct {
	primaries []upstream
	catalog   *secondary // the catalog that lists the zone; nil if the settings do
	member    member
}

func newSecondary(s *Server, origin string, from *feed, maxBytes int64) *secondary {
	z := &secondary{s: s, origin: origin, maxBytes: maxBytes, poke: make(chan struct{}, 1), ended: make(chan struct{})}
	z.feed.Store(from)
	z.life, z.end = context.WithCancel(context.Background())
	return z
}

// secondaries are the zones that are fetched, by origin. It is safe for concurrent use.
type secondaries struct {
	mu  sync.Mutex
	all map[string]*secondary
}

// find returns nil for a zone that is not fetched.
func (f *secondaries) find(origin string) *secondary {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[origin]
}

func (f *secondaries) list() []*secondary {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.all))
}

func (f *secondaries) put(z *secondary) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[z.origin] = z
}

func (f *secondaries) drop(origin string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, origin)
}

// A fetchedZone is the fetched version of a zone. It is immutable.
type fetchedZone struct {
	records []miekg.RR
	soa     *miekg.SOA
	// checked is when the zone was last valid: when a primary confirmed it, or earlier if the
	// primary itself had not checked since (RFC 7314).
	checked time.Time
}

// put replaces the held version.
func (z *secondary) put(h *fetchedZone) {
	z.held.Store(h)
	z.expires.Store(h.expiry().Unix())
}

// trueAt returns when a zone was last valid that a primary has sent or confirmed now.
func trueAt(soa *miekg.SOA, expire *uint32, now time.Time) time.Time {
	lasts := lifetime(soa)
	if expire == nil {
		return now
	}
	return now.Add(min(time.Duration(*expire)*time.Second, lasts) - lasts)
}

// lifetime returns how long a zone is valid without its primary.
func lifetime(soa *miekg.SOA) time.Duration {
	return max(time.Duration(soa.Expire)*time.Second, minExpire)
}

// Bounds of the times in an SOA record.
const (
	minRefresh = 30 * time.Second
	maxRefresh = 24 * time.Hour
	minExpire  = 5 * time.Minute

	minPause   = time.Second     // between rounds caused by NOTIFY
	firstRetry = 2 * time.Second // while there is no zone; doubled each time
	lastRetry  = 5 * time.Minute
)

func (s *Server) addSecondary(c Secondary) error {
	names, err := origins([]string{c.Zone})
	if err != nil {
		return setting.At("zone", errors.Unwrap(err))
	}
	origin := names[0]
	if s.followed.find(origin) != nil {
		return setting.At("zone", fmt.Errorf("%q appears twice", c.Zone))
	}
	if len(c.Primaries) == 0 {
		return setting.At("primaries", fmt.Errorf("zone %q has no server to fetch it from", c.Zone))
	}
	var primaries []upstream
	for i, p := range c.Primaries {
		u, err := s.keys.primary(p)
		if err != nil {
			return setting.At(fmt.Sprintf("primaries[%d]", i), err)
		}
		primaries = append(primaries, u)
	}
	sec := newSecondary(s, origin, &feed{primaries: primaries}, c.MaxBytes.Or(defaultMaxBytes))
	sec.catalog = c.Catalog
	s.followed.put(sec)
	return nil
}

// run keeps the zone up to date until ctx ends.
func (z *secondary) run(ctx context.Context, group *sync.WaitGroup) {
	outer := ctx // members continue when their catalog ends
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(z.life, cancel)()
	z.running.Store(true)
	defer close(z.ended)
	wait := time.Duration(0) // the version on disk may be old
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-z.poke:
			timer.Stop()
			if !z.pause(ctx) {
				return
			}
		case <-timer.C:
		}
		err := z.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			z.failed++
			z.s.Stats.InFailed.Add(1)
			z.s.log.Warn("a zone cannot be fetched", "zone", z.origin, "error", err)
		} else {
			z.failed = 0
			for _, sec := range z.listMembers() {
				sec.load(ctx, nil)
				group.Go(func() { sec.run(outer, group) })
			}
		}
		wait = z.next(time.Now())
		if z.expired(time.Now()) {
			z.expire()
		}
	}
}

// pause spaces out rounds caused by NOTIFY, which without a key is easily forged. It returns
// false when ctx ended.
func (z *secondary) pause(ctx context.Context) bool {
	left := time.Until(z.asked.Add(minPause))
	z.asked = time.Now().Add(max(left, 0))
	return left <= 0 || wait.For(ctx, left) == nil
}

func seconds(n uint32, least, most time.Duration) time.Duration {
	return min(max(time.Duration(n)*time.Second, least), most)
}

// next returns the time until the next round: the zone's refresh, or its retry after a
// failure, but not beyond its expiry, and up to a tenth less at random, so that the zones of a
// primary are spread.
func (z *secondary) next(now time.Time) time.Duration {
	h := z.held.Load()
	if h == nil {
		d := min(firstRetry<<min(max(z.failed-1, 0), 10), lastRetry)
		return d - rand.N(d/10)
	}
	d := seconds(h.soa.Refresh, minRefresh, maxRefresh)
	if z.failed > 0 {
		d = seconds(h.soa.Retry, minRefresh, maxRefresh)
	}
	d -= rand.N(d / 10)
	if left := h.expiry().Sub(now); left > 0 {
		d = min(d, left+time.Second)
	}
	return d
}

func (h *fetchedZone) expiry() time.Time {
	return h.checked.Add(lifetime(h.soa))
}

func (z *secondary) expired(now time.Time) bool {
	h := z.held.Load()
	return h != nil && !now.Before(h.expiry())
}

// expire stops answering from an expired zone: SERVFAIL. The records stay, so that differences
// suffice when a primary is back.
func (z *secondary) expire() {
	if !z.s.isServed(z.id()) {
		return
	}
	z.s.log.Error("a zone has expired: no primary has confirmed it in time", "zone", z.origin, "checked", z.held.Load().checked)
	z.withdraw("this zone has expired: no primary has confirmed it")
}

// withdraw makes answers for the zone SERVFAIL.
func (z *secondary) withdraw(why string) {
	if err := z.s.Publish(z.s.ctx, &zone.Zone{Origin: z.origin, Unavailable: why}); err != nil {
		z.s.log.Error("a zone cannot be withdrawn", "zone", z.origin, "error", err)
	}
}

func (z *secondary) id() id { return id{z.origin, ""} }

// refresh queries the primaries in order, until one has the zone.
func (z *secondary) refresh(ctx context.Context) error {
	var failures []error
	for _, p := range z.feed.Load().primaries {
		err := z.ask(ctx, p)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failures = append(failures, fmt.Errorf("from %s: %w", p.address, err))
	}
	return errors.Join(failures...)
}

// ask fetches the zone from one primary: differences, else all of it.
func (z *secondary) ask(ctx context.Context, p upstream) error {
	h := z.held.Load()
	var have *miekg.SOA
	if h != nil {
		have = h.soa
	}
	f, err := fetch(ctx, z.origin, p, have, z.maxBytes)
	var rcode errRcode
	var unreachable *unreachableError
	if err != nil && have != nil && ctx.Err() == nil && !errors.As(err, &unreachable) && !(errors.As(err, &rcode) && rcode == miekg.RcodeNotAuth) {
		// Whatever is wrong with its differences, it may have the zone.
		z.s.log.Warn("the differences cannot be had; the whole zone is fetched", "zone", z.origin, "from", p.address, "error", err)
		f, err = fetch(ctx, z.origin, p, nil, z.maxBytes)
	}
	if err != nil {
		return err
	}
	now := time.Now()
	if have != nil && !newer(f.serial, have.Serial) {
		if f.serial != have.Serial {
			return fmt.Errorf("it has serial %d, we have %d", f.serial, have.Serial)
		}
		z.confirm(ctx, trueAt(have, f.expire, now))
		return nil
	}
	records := f.records
	if f.steps != nil {
		if records, err = apply(h.records, f.steps); err != nil {
			z.s.log.Warn("the differences do not apply; the whole zone is fetched", "zone", z.origin, "error", err)
			if f, err = fetch(ctx, z.origin, p, nil, z.maxBytes); err != nil {
				return err
			}
			records = f.records
		}
	}
	err = z.take(ctx, records, f, now)
	if err != nil && f.steps != nil && ctx.Err() == nil {
		z.s.log.Warn("the zone with the differences cannot be served; the whole zone is fetched", "zone", z.origin, "error", err)
		if f, err = fetch(ctx, z.origin, p, nil, z.maxBytes); err != nil {
			return err
		}
		err = z.take(ctx, f.records, f, now)
	}
	return err
}

// confirm records that our version was valid at a time.
func (z *secondary) confirm(ctx context.Context, at time.Time) {
	h := *z.held.Load()
	if at.After(h.checked) {
		h.checked = at
	}
	z.put(&h)
	_ = os.Chtimes(z.file(), h.checked, h.checked) // the file's time is when it was last valid
	if z.s.isServed(z.id()) {
		return
	}
	// It had expired but was valid all along.
	if err := z.publish(ctx, h.records); err != nil {
		z.s.log.Error("a fetched zone cannot be served", "zone", z.origin, "error", err)
	}
}

func (z *secondary) publish(ctx context.Context, records []miekg.RR) error {
	return z.s.Publish(ctx, &zone.Zone{Origin: z.origin, Records: records, Expires: &z.expires})
}

// take serves new records and writes them to disk.
func (z *secondary) take(ctx context.Context, records []miekg.RR, f *primaryAnswer, now time.Time) error {
	incremental := f.steps != nil
	soa, ok := records[0].(*miekg.SOA)
	if !ok {
		return errors.New("no SOA record")
	}
	if err := z.publish(ctx, records); err != nil {
		return fmt.Errorf("serial %d cannot be served: %w", soa.Serial, err)
	}
	if f.outside.count > 0 {
		z.s.log.Warn("records outside the zone are not served", "zone", z.origin, "records", f.outside.count, "first", f.outside.first)
	}
	now = trueAt(soa, f.expire, now)
	z.put(&fetchedZone{records, soa, now})
	if incremental {
		z.s.Stats.InIncremental.Add(1)
	} else {
		z.s.Stats.In.Add(1)
	}
	z.s.log.Info("a zone was fetched", "zone", z.origin, "serial", soa.Serial, "records", len(records), "incremental", incremental)
	if err := z.save(now); err != nil {
		z.s.log.Error("a fetched zone cannot be saved", "zone", z.origin, "error", err)
	}
	return nil
}

// file returns the path of the zone's file.
func (z *secondary) file() string { return z.s.file(id{z.origin, ""}, ".zone") }

// save replaces the zone's file atomically.
func (z *secondary) save(now time.Time) error {
	if err := os.MkdirAll(z.s.folder, 0o750); err != nil {
		return err
	}
	return atomicfile.Write(z.file(), 0o600, func(f *os.File) error {
		w := bufio.NewWriter(f)
		for _, rr := range z.held.Load().records {
			if _, err := fmt.Fprintln(w, zone.RecordText(rr)); err != nil {
				return err
			}
		}
		return errors.Join(w.Flush(), os.Chtimes(f.Name(), now, now))
	})
}

// load serves the zone as the previous server or the folder has it, unless it has expired;
// then the zone is unavailable.
func (z *secondary) load(ctx context.Context, previous *Server) {
	if previous != nil {
		if old := previous.followed.find(z.origin); old != nil {
			if h := old.held.Load(); h != nil {
				z.put(h)
			}
		}
	}
	if z.held.Load() == nil {
		if err := z.read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			z.s.log.Error("a saved zone cannot be used; it will be fetched", "zone", z.origin, "file", z.file(), "error", err)
		}
	}
	switch h := z.held.Load(); {
	case h == nil:
		z.withdraw(zone.NeverReceived)
		return
	case z.expired(time.Now()):
		z.s.log.Warn("a saved zone has expired", "zone", z.origin, "checked", h.checked)
		z.withdraw("this zone has expired: no primary has confirmed it")
		return
	default:
		if err := z.publish(ctx, h.records); err != nil {
			z.s.log.Error("a saved zone cannot be served; it will be fetched", "zone", z.origin, "file", z.file(), "error", err)
			z.held.Store(nil)
			z.withdraw(zone.NeverReceived)
		}
	}
}

// read reads the zone from disk.
func (z *secondary) read() error {
	f, err := os.Open(z.file())
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// Without a file name there are no includes: the zone came from the network.
	read, err := zone.Read(bufio.NewReader(f), z.origin, "")
	if err != nil {
		return err
	}
	at := slices.IndexFunc(read.Records, isSOA)
	if at < 0 {
		return errors.New("no SOA record")
	}
	soa := read.Records[at].(*miekg.SOA)
	records := append([]miekg.RR{soa}, slices.DeleteFunc(read.Records, isSOA)...)
	z.put(&fetchedZone{records, soa, info.ModTime()})
	return nil
}
