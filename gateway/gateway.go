// Package gateway builds everything from a settings file and runs it: lists,
// checks, policies, identity, pages, events, proxy, admin address. It knows
// every room; only the command line knows it.
//
// Data moves so. [Read] turns a file into [Settings]. [build] turns settings
// into an [Engine], which never changes. [Gateway] puts the engine into the
// proxy, hands finished transactions to the event log, and on SIGHUP or when a
// file changes builds a new engine and swaps it in. An engine that cannot be
// built leaves the running one in place.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shuultuur/admin"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/nameserver"
	"shuultuur/nameserver/wire"
	"shuultuur/policy"
	"shuultuur/proxy"
	"shuultuur/state"
)

// watchEvery is how often files are looked at for changes.
const watchEvery = 2 * time.Second

// A Gateway is a running filter. Make one with New, then call Run.
type Gateway struct {
	file    string
	started time.Time
	log     *slog.Logger
	engine  atomic.Pointer[Engine]
	memory  state.Store
	fleet   fleet
	metrics *metrics
	events  *event.Log
	stores  []event.Store
	proxy   *proxy.Proxy
	pauses  pauses
	ids     filter.IDs         // of events that are no transactions
	dns     *nameserver.Server // nil without one
	names   *names             // what it asks others with; nil without one; changed under mu
	zones   *zones             // its own; nil without one; changed under mu

	proxyOn, transparentOn, sinkholeOn, adminOn []net.Listener

	keyLog    io.Writer  // nil: keys are written nowhere
	changing  sync.Mutex // one change of lists at a time
	reloading sync.Mutex // one reload at a time
	mu        sync.Mutex
	problems  []string // of the last reload; guarded by mu
	stale     []string // of lists that are fetched; guarded by mu
	lock      *os.File
	ready     atomic.Bool
}

// New reads the settings in file, builds everything and opens the listeners.
// After New, clients can connect; Run serves them.
func New(ctx context.Context, file string, log *slog.Logger) (*Gateway, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	g := &Gateway{file: file, started: time.Now(), log: log, metrics: newMetrics(), fleet: newFleet()}
	if err := g.open(ctx, s); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// open builds the parts in the order they stand on each other.
func (g *Gateway) open(ctx context.Context, s *Settings) (err error) {
	if g.lock, err = lockData(s); err != nil {
		return err
	}
	if err := g.pauses.load(s.pausesFile()); err != nil {
		return s.mistake(filter.Setting("data", err))
	}
	if g.memory, err = state.Open(s.State, s.dir, s.path(s.Data), g.fleet.hear, g.log); err != nil {
		return s.mistake(filter.Setting("state", err))
	}
	if s.DNS != nil {
		if g.names, err = newNames(s); err != nil {
			return s.mistake(err)
		}
	}
	e, err := build(ctx, s, g.memory, g.names.answers(), &g.pauses.Pauses, g.log)
	if err != nil {
		return err
	}
	g.engine.Store(e)
	if err := g.listen(ctx, s); err != nil {
		return err
	}
	if err := g.openDNS(ctx, s, e); err != nil {
		return s.mistake(err)
	}
	if g.stores, err = openStores(s); err != nil {
		return err
	}
	if g.events, err = event.New(s.Events, g.log, g.stores...); err != nil {
		return s.mistake(filter.Setting("events", err))
	}
	cfg := s.Proxy
	cfg.Own = g.own()
	if g.proxy, err = proxy.New(cfg, e.proxy, g.done, g.log); err != nil {
		return s.mistake(filter.Setting("proxy", err))
	}
	if g.dns != nil {
		g.metrics.registry.MustRegister(g.dns, &nameWatcher{g, s.DNS.label()}, zoneWatcher{g})
	}
	g.metrics.registry.MustRegister(stateWatcher{g.memory})
	g.metrics.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shuultuur_pauses", Help: "For how many clients, groups or networks filtering rests."},
		func() float64 { return float64(len(g.pauses.At(time.Now()))) }))
	g.metrics.registry.MustRegister(newWatcher(g.proxy.Stats, g.events.Stats, func() time.Time { return g.engine.Load().built }))
	return nil
}

// done is called by the proxy when a transaction is over.
func (g *Gateway) done(t *filter.Transaction) {
	g.metrics.count(t)
	if e := g.engine.Load(); e != nil {
		e.policy.Done(context.Background(), t)
	}
	g.events.Add(event.From(t))
}

func (g *Gateway) listen(ctx context.Context, s *Settings) error {
	for _, l := range []struct {
		key   string
		addrs Addresses
		to    *[]net.Listener
	}{
		{"listen.proxy", s.Listen.Proxy, &g.proxyOn}, {"listen.transparent", s.Listen.Transparent, &g.transparentOn},
		{"listen.tproxy", s.Listen.TPROXY, &g.transparentOn}, {"listen.sinkhole", s.Listen.Sinkhole, &g.sinkholeOn}, {"listen.admin", s.Listen.Admin, &g.adminOn},
	} {
		for _, a := range l.addrs {
			on, err := proxy.Listen(ctx, a, l.key == "listen.tproxy")
			if err != nil {
				return s.mistake(filter.Setting(l.key, fmt.Errorf("cannot listen on %q: %w", a, err)))
			}
			*l.to = append(*l.to, on)
		}
	}
	return nil
}

// own lists the addresses that no request may reach through the proxy.
func (g *Gateway) own() []netip.AddrPort {
	var own []netip.AddrPort
	for _, on := range [][]net.Listener{g.proxyOn, g.transparentOn, g.sinkholeOn, g.adminOn} {
		for _, l := range on {
			if a, ok := l.Addr().(*net.TCPAddr); ok {
				own = append(own, a.AddrPort())
			}
		}
	}
	return own
}

// ProxyAddr is where clients connect to.
func (g *Gateway) ProxyAddr() string { return g.proxyOn[0].Addr().String() }

// AdminAddr is where metrics and health are, "" when switched off.
func (g *Gateway) AdminAddr() string {
	if len(g.adminOn) == 0 {
		return ""
	}
	return g.adminOn[0].Addr().String()
}

// DNSAddr is where the name server listens first, "" when there is none.
func (g *Gateway) DNSAddr() string {
	if g.dns == nil {
		return ""
	}
	for _, a := range g.dns.Addrs(wire.UDP) {
		return a.String()
	}
	return ""
}

// Store returns the store that can be asked about events, or nil.
func (g *Gateway) Store() event.Querier {
	for _, s := range g.stores {
		if q, ok := s.(event.Querier); ok {
			return q
		}
	}
	return nil
}

// Run serves until ctx ends, then lets requests in flight finish, writes every
// event and returns.
func (g *Gateway) Run(ctx context.Context) error {
	// Events are written until the last transaction is over, so the log's
	// context ends after the proxy has drained.
	logCtx, stopLog := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLog()
	logged := make(chan error, 1)
	go func() { logged <- g.events.Run(logCtx) }()
	// So is what they have used up.
	remembered := make(chan error, 1)
	go func() { remembered <- g.memory.Run(logCtx) }()

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var servers sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	serve := func(f func() error) {
		servers.Go(func() {
			if err := f(); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
			stop() // one listener that ends ends all
		})
	}
	for _, l := range g.proxyOn {
		serve(func() error { return g.proxy.Serve(ctx, l) })
	}
	for _, l := range g.transparentOn {
		serve(func() error { return g.proxy.ServeTransparent(ctx, l) })
	}
	for _, l := range g.sinkholeOn {
		serve(func() error { return g.proxy.ServeSinkhole(ctx, l) })
	}
	h := admin.Handler(admin.Parts{Metrics: g.metrics.handler(), Health: g.health, Lists: g.lists(), Events: g.record(), Pause: &admin.Pause{All: func() []policy.Pause { return g.pauses.At(time.Now()) }, Set: g.pause}, Root: g.root, Refusals: func() any { return g.proxy.Refusals() }, Quotas: g.quotas, Token: g.engine.Load().settings.Listen.Token})
	for _, l := range g.adminOn {
		serve(func() error { return admin.Serve(ctx, l, h) })
	}
	if g.dns != nil {
		serve(func() error { return g.dns.Run(ctx) })
	}
	servers.Go(func() { g.watch(ctx) })
	servers.Go(func() { g.refresh(ctx) })
	servers.Go(func() { g.follow(ctx) })

	g.ready.Store(true)
	<-ctx.Done()
	g.ready.Store(false)
	servers.Wait()
	stopLog()
	errs = append(errs, <-logged, <-remembered)
	g.events = nil // Run has closed the stores
	g.stores = nil
	return errors.Join(append(errs, g.close())...)
}

// close lets go of what New opened.
func (g *Gateway) close() error {
	var errs []error
	for _, on := range [][]net.Listener{g.proxyOn, g.transparentOn, g.sinkholeOn, g.adminOn} {
		for _, l := range on {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	for _, s := range g.stores {
		errs = append(errs, s.Close())
	}
	g.zones.close()
	g.zones.save()
	g.names.close()
	if g.memory != nil {
		errs = append(errs, g.memory.Close())
	}
	if e := g.engine.Swap(nil); e != nil {
		e.close()
	}
	if g.lock != nil {
		errs = append(errs, g.lock.Close())
	}
	return errors.Join(errs...)
}

// Reload reads the settings again and takes them into use. When they cannot
// be used, the running ones stay and the error says why.
func (g *Gateway) Reload(ctx context.Context) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	result := "taken"
	problems, err := g.reload(ctx)
	if err != nil {
		result = "refused"
		problems = []string{"the settings or lists cannot be used, the running ones stay: " + err.Error()}
	}
	g.metrics.reloads.WithLabelValues(result).Inc()
	g.mu.Lock()
	g.problems = problems
	g.mu.Unlock()
	return err
}

func (g *Gateway) reload(ctx context.Context) (problems []string, err error) {
	s, err := Read(g.file)
	if err != nil {
		return nil, err
	}
	old := g.engine.Load()
	anew, err := g.newNames(s)
	if err != nil {
		return nil, s.mistake(err)
	}
	e, err := build(ctx, s, g.memory, anew.answers(), &g.pauses.Pauses, g.log)
	if err != nil {
		g.dropNames(anew)
		return nil, err
	}
	served, err := g.newZones(s)
	if err != nil {
		g.dropNames(anew)
		e.close()
		return nil, s.mistake(err)
	}
	e.keep(old)
	g.logKeys(e)
	if err := g.proxy.Use(e.proxy); err != nil {
		g.dropNames(anew)
		g.dropZones(served)
		e.close()
		return nil, err
	}
	g.engine.Store(e)
	g.reloadDNS(s, e, anew, served)
	for name, version := range e.versions {
		if old.versions[name] != version {
			g.fleet.tell(listTopic+name, version)
		}
	}
	for _, part := range old.settings.fixed(s) {
		problems = append(problems, part+" changed in the settings: that needs a restart")
	}
	return problems, nil
}

// watch reloads when a file that the engine was built from changes. It waits
// until the files have been still for one look, so that a list that is being
// copied is not read half-way.
func (g *Gateway) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last, refused := g.engine.Load().stamp, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		g.endPauses(time.Now())
		e := g.engine.Load()
		now := e.fingerprint()
		moving := now != last
		last = now
		if moving || now == e.stamp || now == refused {
			continue
		}
		if !g.Again(ctx, "a file changed") {
			refused = now // until something changes again
		}
	}
}

// Hangup opens log files anew, as their rotation asks for, and reloads.
func (g *Gateway) Hangup(ctx context.Context) {
	if err := g.events.Reopen(); err != nil {
		g.log.Error("log files not opened anew", "error", err)
	}
	if g.Again(ctx, "SIGHUP") {
		g.fleet.tell(settingsTopic, g.engine.Load().revision+"-"+strconv.FormatInt(time.Now().UnixMilli(), 36))
	}
}

// Again reloads and says in the log how it went, and to the caller whether the
// new settings are in use. why is the occasion.
func (g *Gateway) Again(ctx context.Context, why string) bool {
	start := time.Now()
	if err := g.Reload(ctx); err != nil {
		g.log.Error("settings not taken into use; the running ones stay", "because", why, "error", err)
		return false
	}
	e := g.engine.Load()
	g.log.Info("settings taken into use", "because", why, "revision", e.revision, "took", time.Since(start).Round(time.Millisecond))
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.problems {
		g.log.Warn(p)
	}
	return true
}

// LogKeys has the keys of intercepted connections with clients written to w.
// Whoever has them can read the connections: for debugging alone. It is called
// before Run.
func (g *Gateway) LogKeys(w io.Writer) {
	g.keyLog = w
	g.logKeys(g.engine.Load())
}

func (g *Gateway) logKeys(e *Engine) {
	if in := e.proxy.Intercept; in != nil && g.keyLog != nil {
		in.Authority.LogKeys(g.keyLog)
	}
}

// root returns the root certificate that clients are to trust, nil for none.
func (g *Gateway) root() *intercept.Root {
	if e := g.engine.Load(); e != nil && e.proxy.Intercept != nil {
		return e.proxy.Intercept.Authority.Root()
	}
	return nil
}

func (g *Gateway) health() admin.Health {
	g.mu.Lock()
	problems := slices.Concat(g.problems, g.stale, g.zones.problems(), g.resting())
	g.mu.Unlock()
	h := admin.Health{Ready: g.ready.Load(), Started: g.started.UTC().Format(time.RFC3339), Settings: g.file}
	if e := g.engine.Load(); e != nil {
		h.Revision = e.revision
		problems = append(problems, e.problems()...)
	}
	h.State = "alone"
	if st := g.memory.Stats(); st.Lost != "" {
		h.State = "degraded"
		problems = append(problems, fmt.Sprintf("state: Redis is lost since %s, this node goes on with what it knows: %s", st.Since.UTC().Format(time.RFC3339), st.Lost))
	} else if g.engine.Load().shared() {
		h.State = "shared"
	}
	h.Problems = append([]string{}, problems...) // [] in JSON, not null
	return h
}
