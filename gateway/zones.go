package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"shuultuur/filter"
	"shuultuur/nameserver/forward"
	"shuultuur/nameserver/transfer"
	"shuultuur/nameserver/wire"
	"shuultuur/nameserver/zone"
	"shuultuur/nameserver/zone/redins"
	"shuultuur/nameserver/zone/sign"
)

// Zones are the settings of zones of our own.
type Zones struct {
	Files    zone.Config     `yaml:",inline"`
	Transfer transfer.Config `yaml:",inline"`
}

// firstLoad is how long a start or reload waits for the zones in Redis. Without
// Redis it goes on, and they are served when it is there.
const firstLoad = 3 * time.Second

// zones are what answers for zones of our own, and what keeps them as they are
// where they come from. They outlive engines, as names do.
type zones struct {
	responder *zone.Responder
	publisher *transfer.Server // signs, sends, fetches; in front of the responder
	files     *zone.Files
	redis     *redins.Source // nil without one
	made      string         // of these settings
	stop      context.CancelFunc
	wg        sync.WaitGroup
}

// zones are the settings of zones, with their paths as they stand on the folder of
// the file.
func (s *Settings) zones() Zones {
	z := s.DNS.Zones
	z.Files.Files = slices.Clone(z.Files.Files)
	for i := range z.Files.Files {
		z.Files.Files[i].Path = s.path(z.Files.Files[i].Path)
	}
	if z.Transfer.Folder == "" {
		z.Transfer.Folder = filepath.Join(s.Data, "zones")
	}
	return z
}

// zonesMadeOf changes when zones have to be made anew.
func (s *Settings) zonesMadeOf() string {
	text, err := json.Marshal([]any{s.zones(), s.DNS.Redis})
	if err != nil {
		return fmt.Sprint(time.Now()) // never the same
	}
	return string(text)
}

// elsewhere is where zones of our own look up what others have.
type elsewhere interface {
	redins.Upstream
	ParentDS(ctx context.Context, origin string) ([]*dns.DS, error)
}

// zoneParts makes everything but runs nothing. look may be nil.
func (s *Settings) zoneParts(look elsewhere, log *slog.Logger) (*zones, error) {
	cfg := s.zones()
	z := &zones{responder: zone.NewResponder(), made: s.zonesMadeOf()}
	var err error
	if z.publisher, err = transfer.New(cfg.Transfer, s.dir, z.responder, log); err != nil {
		return nil, filter.Setting("dns.zones", err)
	}
	if look != nil {
		z.publisher.Parent = look.ParentDS
	}
	if s.DNS.Redis == nil {
		return z, nil
	}
	ring, err := sign.NewRing(sign.Config{})
	if err != nil {
		return nil, err
	}
	signed := func(own *zone.Zone, keys redins.Keys) (*zone.Zone, error) {
		if z.publisher.Signs(own.Origin) {
			log.Warn("a zone's keys in Redis are not used: the settings have others for it (dns.zones.sign); set dnssec to false in its config", "zone", own.Origin)
			return own, nil
		}
		signer, err := ring.Signer(own.Origin, keys.ZSKPublic, keys.ZSKPrivate, keys.KSKPublic, keys.KSKPrivate)
		if err != nil {
			return nil, err
		}
		own.Signer = signer // for the publisher, which signs again in time too
		return own, nil
	}
	if z.redis, err = redins.New(*s.DNS.Redis, s.dir, filepath.Join(s.path(cfg.Transfer.Folder), "redis"), redisZones{z.publisher, ring}, look, signed, log); err != nil {
		return nil, filter.Setting("dns.redis", err)
	}
	return z, nil
}

// newZones makes what the settings say, serves it and runs what keeps it fresh.
func newZones(s *Settings, look elsewhere, log *slog.Logger) (*zones, error) {
	z, err := s.zoneParts(look, log)
	if err != nil {
		return nil, err
	}
	if z.files, err = zone.NewFiles(s.zones().Files, z.publisher, log); err != nil {
		return nil, filter.Setting("dns.zones", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	z.stop = stop
	// They end with ctx, and without an error.
	z.wg.Go(func() { _ = z.publisher.Run(ctx) })
	z.wg.Go(func() { _ = z.files.Run(ctx) })
	if z.redis == nil {
		freeRead(len(z.responder.Zones()))
		return z, nil
	}
	z.wg.Go(func() { _ = z.redis.Run(ctx) })
	read := make(chan struct{})
	z.wg.Go(func() { z.await(ctx, read) })
	select {
	case <-read:
	case <-time.After(firstLoad):
	}
	return z, nil
}

// await closes read when the zones in Redis have been read for the first time,
// however long that takes, or ctx ends.
func (z *zones) await(ctx context.Context, read chan<- struct{}) {
	defer close(read)
	for wait := 5 * time.Millisecond; z.redis.Stats().Reconciled.IsZero(); wait = min(wait*5/4, time.Second) {
		if !pause(ctx, wait) {
			return
		}
	}
	freeRead(len(z.responder.Zones()))
}

// freeRead gives back what reading n zones took: as they are read they are
// many times what is served.
func freeRead(n int) {
	if n > 0 {
		debug.FreeOSMemory()
	}
}

// redisZones lets go of a zone's signer together with the zone.
type redisZones struct {
	*transfer.Server
	ring *sign.Ring
}

// Remove ends the service of a zone, and says whether it was served.
func (r redisZones) Remove(origin, view string) bool {
	defer r.ring.Forget(origin)
	return r.Server.Remove(origin, view)
}

func (z *zones) close() {
	if z == nil {
		return
	}
	z.stop()
	z.wg.Wait()
}

// save keeps what the zones need to go on with later.
func (z *zones) save() {
	if z != nil {
		z.publisher.Save()
	}
}

// tryZones looks for mistakes in the settings of zones and in their files that
// a start would find.
func (s *Settings) tryZones() error {
	if s.DNS == nil {
		return nil
	}
	if _, err := s.zoneParts(nil, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	_, err := zone.Load(s.zones().Files)
	return filter.Setting("dns.zones", err)
}

// Lookup finds addresses of names of others, for aliases in zones of our own,
// with what the name server asks others with now.
func (g *Gateway) Lookup(ctx context.Context, host string, qtype uint16) ([]netip.Addr, time.Duration, error) {
	g.mu.Lock()
	n := g.names
	g.mu.Unlock()
	if n == nil {
		return nil, 0, errOffline
	}
	return n.forward.Lookup(ctx, host, qtype)
}

// ParentDS looks up the DS records that the parent zone has of one of ours, with
// what the name server asks others with now.
func (g *Gateway) ParentDS(ctx context.Context, origin string) ([]*dns.DS, error) {
	g.mu.Lock()
	n := g.names
	g.mu.Unlock()
	if n == nil {
		return nil, errOffline
	}
	return parentDS(ctx, n.forward, origin)
}

func parentDS(ctx context.Context, f *forward.Forwarder, origin string) (all []*dns.DS, err error) {
	name := make([]byte, 256)
	end, err := dns.PackDomainName(origin, name, 0, nil, false)
	if err != nil {
		return nil, err
	}
	msg, _, err := f.Ask(ctx, name[:end], dns.TypeDS, dns.ClassINET, false, false)
	if err != nil {
		return nil, err
	}
	var m dns.Msg
	if err := m.Unpack(msg); err != nil {
		return nil, fmt.Errorf("reading the DS records of %q: %w", origin, err)
	}
	if m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
		return nil, fmt.Errorf("looking up the DS records of %q: %s", origin, dns.RcodeToString[m.Rcode])
	}
	for _, rr := range m.Answer {
		if ds, ok := rr.(*dns.DS); ok && dns.CanonicalName(ds.Hdr.Name) == dns.CanonicalName(origin) {
			all = append(all, ds)
		}
	}
	return all, nil
}

// respond has the name server ask its zones first, and then the resolver of e.
func (g *Gateway) respond(z *zones, e *Engine) {
	g.dns.SetResponders(z.publisher, []wire.Responder{z.publisher, z.responder, e.resolver}...)
}

// problems are what is worth a look in the zones, for the operator.
func (z *zones) problems() []string {
	if z == nil || z.redis == nil {
		return nil
	}
	var all []string
	st := z.redis.Stats()
	if !st.Connected {
		all = append(all, "dns.redis: Redis does not answer; zones are served as they were")
	}
	if st.Kept > 0 {
		all = append(all, fmt.Sprintf("dns.redis: %d zones are served as they were kept on disk; Redis was not there since the start", st.Kept))
	}
	if st.Problems > 0 {
		all = append(all, fmt.Sprintf("dns.redis: %d values cannot be served; the log names them", st.Problems))
	}
	return all
}

// A zoneWatcher shows what zones count.
type zoneWatcher struct{ g *Gateway }

// zoneReading is one number of it; it has the labels of its name only.
type zoneReading struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value float64
	label []string
}

func zoneDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("shuultuur_dns_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector: what there is depends on the
// settings, and changes with them.
func (w zoneWatcher) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. The publisher of a reload counts
// from 0 again.
func (w zoneWatcher) Collect(c chan<- prometheus.Metric) {
	w.g.mu.Lock()
	z := w.g.zones
	w.g.mu.Unlock()
	if z == nil {
		return
	}
	for _, r := range z.readings() {
		c <- prometheus.MustNewConstMetric(r.desc, r.kind, r.value, r.label...)
	}
	z.publisher.Collect(c)
}

func (z *zones) readings() []zoneReading {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	served, records := 0, 0
	for _, i := range z.responder.Zones() {
		served++
		records += i.Records
	}
	out := []zoneReading{
		{zoneDesc("zones", "Zones of our own that are served."), gauge, float64(served), nil},
		{zoneDesc("zone_records", "Records in them."), gauge, float64(records), nil},
	}
	if z.redis == nil {
		return out
	}
	st, connected := z.redis.Stats(), 0.0
	if st.Connected {
		connected = 1
	}
	checks := zoneDesc("health_checks_total", "Health checks of addresses: done here, of these failed, found by another node (shared), begun late.", "result")
	aliases := zoneDesc("alias_lookups_total", "Lookups of ANAME targets elsewhere; stale are answers from before one that failed.", "result")
	return append(out,
		zoneReading{zoneDesc("redis_connected", "1 while Redis tells of changes of zones."), gauge, connected, nil},
		zoneReading{zoneDesc("redis_kept", "Zones that are served as they were kept on disk, as Redis was not there since the start."), gauge, float64(st.Kept), nil},
		zoneReading{zoneDesc("redis_problems", "Values in Redis that cannot be served."), gauge, float64(st.Problems), nil},
		zoneReading{zoneDesc("redis_loads_total", "Zones read from Redis."), counter, float64(st.Loads), nil},
		zoneReading{zoneDesc("redis_failures_total", "Reads that Redis did not answer, or zones that could not be served."), counter, float64(st.Failures), nil},
		zoneReading{zoneDesc("redis_events_total", "Keys of zones that were written."), counter, float64(st.Events), nil},
		zoneReading{zoneDesc("redis_interruptions_total", "How often the connection that tells of changes was lost."), counter, float64(st.Interruptions), nil},
		zoneReading{zoneDesc("redis_load_slowest_seconds", "The longest it took to read and serve one zone."), gauge, st.Slowest.Seconds(), nil},
		zoneReading{zoneDesc("health_watched", "Addresses whose health is watched."), gauge, float64(st.Health.Watched), nil},
		zoneReading{checks, counter, float64(st.Health.Checks), []string{"done"}},
		zoneReading{checks, counter, float64(st.Health.Failed), []string{"failed"}},
		zoneReading{checks, counter, float64(st.Health.Shared), []string{"shared"}},
		zoneReading{checks, counter, float64(st.Health.Late), []string{"late"}},
		zoneReading{zoneDesc("health_redis_errors_total", "Results of health checks that Redis did not take or give."), counter, float64(st.Health.RedisErrors), nil},
		zoneReading{aliases, counter, float64(st.Aliases.Lookups - min(st.Aliases.Lookups, st.Aliases.Failed)), []string{"found"}},
		zoneReading{aliases, counter, float64(st.Aliases.Failed), []string{"failed"}},
		zoneReading{aliases, counter, float64(st.Aliases.Stale), []string{"stale"}},
	)
}
