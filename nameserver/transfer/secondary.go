package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/miekg/dns"

	"shuultuur/atomicfile"
	"shuultuur/filter"
	"shuultuur/nameserver/zone"
)

// A secondary is one zone that is fetched from elsewhere.
type secondary struct {
	s         *Server
	origin    string
	primaries []upstream
	maxBytes  int64
	poke      chan struct{} // a NOTIFY came

	// These belong to New, then to run.
	records []dns.RR
	soa     *dns.SOA
	checked time.Time // when a primary last said what it has
	asked   time.Time // when a NOTIFY last began a round
	failed  int       // rounds in a row without an answer
}

// Bounds of what a SOA record may ask for.
const (
	minRefresh = 30 * time.Second
	maxRefresh = 24 * time.Hour
	minExpire  = 5 * time.Minute

	minPause   = time.Second     // between rounds that a NOTIFY asks for
	firstRetry = 2 * time.Second // while there is no zone at all; doubled each time
	lastRetry  = 5 * time.Minute
)

func (s *Server) addSecondary(c Secondary) error {
	names, err := origins([]string{c.Zone})
	if err != nil {
		return filter.Setting("zone", errors.Unwrap(err))
	}
	origin := names[0]
	if s.secondaries[origin] != nil {
		return filter.Setting("zone", fmt.Errorf("%q is there twice", c.Zone))
	}
	if len(c.Primaries) == 0 {
		return filter.Setting("primaries", fmt.Errorf("zone %q has no server to fetch it from", c.Zone))
	}
	if c.MaxBytes < 0 {
		return filter.Setting("max-bytes", fmt.Errorf("%d is below zero; 0 means %d", c.MaxBytes, defaultMaxBytes))
	}
	sec := &secondary{s: s, origin: origin, maxBytes: c.MaxBytes, poke: make(chan struct{}, 1)}
	for i, p := range c.Primaries {
		u, err := s.keys.primary(p)
		if err != nil {
			return filter.Setting(fmt.Sprintf("primaries[%d]", i), err)
		}
		sec.primaries = append(sec.primaries, u)
	}
	s.secondaries[origin] = sec
	return nil
}

// run keeps the zone fresh until ctx ends.
func (z *secondary) run(ctx context.Context) {
	wait := time.Duration(0) // what is on disk may be old
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
			z.s.log.Warn("a zone cannot be fetched", "zone", z.origin, "err", err)
		} else {
			z.failed = 0
		}
		wait = z.next(time.Now())
		if z.expired(time.Now()) {
			z.expire()
		}
	}
}

// pause keeps rounds apart that a NOTIFY asks for: without a key it is easily
// forged. It says false when ctx ended.
func (z *secondary) pause(ctx context.Context) bool {
	left := time.Until(z.asked.Add(minPause))
	z.asked = time.Now().Add(max(left, 0))
	return left <= 0 || sleep(ctx, left)
}

func seconds(n uint32, least, most time.Duration) time.Duration {
	return min(max(time.Duration(n)*time.Second, least), most)
}

// next is how long to wait for the next round: the zone's refresh, its retry
// after a failure, not past its expiry, and a tenth less by chance, so that not
// all zones of a primary come at once.
func (z *secondary) next(now time.Time) time.Duration {
	if z.soa == nil {
		d := min(firstRetry<<min(max(z.failed-1, 0), 10), lastRetry)
		return d - rand.N(d/10)
	}
	d := seconds(z.soa.Refresh, minRefresh, maxRefresh)
	if z.failed > 0 {
		d = seconds(z.soa.Retry, minRefresh, maxRefresh)
	}
	d -= rand.N(d / 10)
	if left := z.expiry().Sub(now); left > 0 {
		d = min(d, left+time.Second)
	}
	return d
}

func (z *secondary) expiry() time.Time {
	return z.checked.Add(max(time.Duration(z.soa.Expire)*time.Second, minExpire))
}

func (z *secondary) expired(now time.Time) bool {
	return z.soa != nil && !now.Before(z.expiry())
}

// expire ends answering: what is not known to be true any more is SERVFAIL. The
// records stay, so that differences will do when the primary comes back.
func (z *secondary) expire() {
	z.s.mu.Lock()
	e := z.s.entries[id{z.origin, ""}]
	served := e != nil && e.served
	z.s.mu.Unlock()
	if !served {
		return
	}
	z.s.log.Error("a zone has expired: no primary was to be had for too long", "zone", z.origin, "checked", z.checked)
	z.s.Remove(z.origin, "")
}

// refresh asks the primaries, in their order, until one has the zone.
func (z *secondary) refresh(ctx context.Context) error {
	var failures []error
	for _, p := range z.primaries {
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

// ask fetches the zone from one primary: what is newer, else all of it.
func (z *secondary) ask(ctx context.Context, p upstream) error {
	f, err := fetch(ctx, z.origin, p, z.soa, z.maxBytes)
	var rcode errRcode
	if errors.As(err, &rcode) && z.soa != nil && rcode != dns.RcodeNotAuth {
		// It may not know IXFR.
		f, err = fetch(ctx, z.origin, p, nil, z.maxBytes)
	}
	if err != nil {
		return err
	}
	now := time.Now()
	if z.soa != nil && !newer(f.serial, z.soa.Serial) {
		if f.serial != z.soa.Serial {
			return fmt.Errorf("it has serial %d, we have %d", f.serial, z.soa.Serial)
		}
		z.confirm(ctx, now)
		return nil
	}
	records := f.records
	if f.steps != nil {
		if records, err = apply(z.records, f.steps); err != nil {
			z.s.log.Warn("differences do not fit, the zone is fetched whole", "zone", z.origin, "err", err)
			if f, err = fetch(ctx, z.origin, p, nil, z.maxBytes); err != nil {
				return err
			}
			records = f.records
		}
	}
	return z.take(ctx, records, f.steps != nil, now)
}

// confirm notes that what we have is what the primary has.
func (z *secondary) confirm(ctx context.Context, now time.Time) {
	z.checked = now
	_ = os.Chtimes(z.file(), now, now) // the file's time is when it was last true
	z.s.mu.Lock()
	e := z.s.entries[id{z.origin, ""}]
	served := e != nil && e.served
	z.s.mu.Unlock()
	if served {
		return
	}
	// It had expired and was true all along.
	if err := z.publish(ctx, z.records); err != nil {
		z.s.log.Error("a zone that was fetched cannot be served", "zone", z.origin, "err", err)
	}
}

func (z *secondary) publish(ctx context.Context, records []dns.RR) error {
	return z.s.Publish(ctx, &zone.Zone{Origin: z.origin, Records: records})
}

// take serves new records and keeps them on disk.
func (z *secondary) take(ctx context.Context, records []dns.RR, incremental bool, now time.Time) error {
	soa, ok := records[0].(*dns.SOA)
	if !ok {
		return errors.New("no SOA record")
	}
	if err := z.publish(ctx, records); err != nil {
		return fmt.Errorf("serial %d cannot be served: %w", soa.Serial, err)
	}
	z.records, z.soa, z.checked = records, soa, now
	if incremental {
		z.s.Stats.InIncremental.Add(1)
	} else {
		z.s.Stats.In.Add(1)
	}
	z.s.log.Info("a zone was fetched", "zone", z.origin, "serial", soa.Serial, "records", len(records), "incremental", incremental)
	if err := z.save(now); err != nil {
		z.s.log.Error("a zone that was fetched cannot be kept on disk", "zone", z.origin, "err", err)
	}
	return nil
}

// file is where the zone is kept.
func (z *secondary) file() string {
	const ending = ".zone"
	before := strings.NewReplacer("/", "_", "\\", "_").Replace(strings.TrimSuffix(z.origin, "."))
	if before == "" {
		before = "root"
	}
	if z.s.secondaries[before+"."] != nil { // itself, called as before, or another
		return z.s.file(id{z.origin, ""}, ending, "")
	}
	return z.s.file(id{z.origin, ""}, ending, before+ending)
}

// save writes the zone beside the old file and puts it in its place.
func (z *secondary) save(now time.Time) error {
	return atomicfile.Write(z.file(), 0o600, func(f *os.File) error {
		w := bufio.NewWriter(f)
		for _, rr := range z.records {
			if _, err := fmt.Fprintln(w, rr.String()); err != nil {
				return err
			}
		}
		return errors.Join(w.Flush(), os.Chtimes(f.Name(), now, now))
	})
}

// load serves what is on disk, if it has not expired.
func (z *secondary) load(ctx context.Context) {
	info, err := os.Stat(z.file())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = z.read(ctx, info.ModTime())
	}
	if err != nil {
		z.s.log.Error("a zone on disk cannot be used, it will be fetched", "zone", z.origin, "file", z.file(), "err", err)
	}
}

func (z *secondary) read(ctx context.Context, checked time.Time) error {
	// A zone from the network must not include files.
	f, err := os.Open(z.file())
	if err != nil {
		return err
	}
	defer f.Close()
	read, err := zone.Read(bufio.NewReader(f), z.origin, "")
	if err != nil {
		return err
	}
	var soa *dns.SOA
	var rest []dns.RR
	for _, rr := range read.Records {
		if x, ok := rr.(*dns.SOA); ok {
			soa = x
			continue
		}
		rest = append(rest, rr)
	}
	if soa == nil {
		return errors.New("no SOA record")
	}
	z.records, z.soa, z.checked = append([]dns.RR{soa}, rest...), soa, checked
	if z.expired(time.Now()) {
		z.s.log.Warn("a zone on disk has expired", "zone", z.origin, "checked", checked)
		return nil
	}
	if err := z.publish(ctx, z.records); err != nil {
		z.records, z.soa = nil, nil
		return err
	}
	return nil
}
