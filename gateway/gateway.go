// Package gateway builds everything from a settings file and runs it: lists,
// checks, policies, identity, pages, events, proxy, name server, admin address.
// It composes; what the parts do is theirs.
//
// Data moves so. [Read] turns a file into [Settings]. A builder goes through
// the table of parts and makes an [Engine], which never changes; parts whose
// settings and files have not changed are taken over from the engine before.
// [Gateway] listens, puts the engine into the servers, hands finished
// transactions to the event log, and on SIGHUP or when a file changes builds
// the next engine. An engine that cannot be built leaves the running one in
// place.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/admin"
	"shuultuur/check/picture"
	"shuultuur/datadir"
	"shuultuur/dns"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/handover"
	"shuultuur/intercept"
	"shuultuur/list/collection"
	"shuultuur/setting"
	"shuultuur/state"
)

// A Gateway is a running filter. Make one with New, then call Run.
type Gateway struct {
	file      string
	started   time.Time
	log       *slog.Logger
	engine    atomic.Pointer[Engine]
	metrics   *metrics
	refresher *collection.Refresher
	ids       filter.IDs // of events that are no transactions
	keyLog    io.Writer  // nil: keys are written nowhere
	ready     atomic.Bool

	sockets *handover.Sockets
	departure

	setup    atomic.Pointer[admin.Setup] // nil: it is set up
	pictures picture.Gallery             // what was found in them

	changing  sync.Mutex // one change of lists at a time
	saving    sync.Mutex // one change of the settings at a time
	trying    sync.Mutex // one engine that is built to be asked, at a time
	reloading sync.Mutex // one reload at a time; guards running and closed
	closed    bool
	running   map[string]*running // parts, by name
	failed    chan error          // of a part that ended by itself
	mu        sync.Mutex
	problems  []string          // of the last reload; guarded by mu
	refused   map[string]string // files of the engine that could not be built, with their stamps; guarded by mu
}

// running is a part that runs.
type running struct {
	stop  func()
	ended chan struct{}
	err   error // once ended is closed
}

// New reads the settings in file, builds everything and opens the listeners.
// After New, clients can connect; Run serves them.
func New(ctx context.Context, file string, log *slog.Logger) (*Gateway, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	g := &Gateway{file: file, started: time.Now(), log: log, running: map[string]*running{}, failed: make(chan error, 1),
		sockets: handover.From(ctx), departure: departure{left: make(chan struct{})}}
	g.refresher = collection.NewRefresher(g.lists, func(ctx context.Context, why string) { g.Again(ctx, why) }, log)
	g.metrics = newMetrics(g)
	e, err := build(ctx, s, nil, g, log)
	if err != nil {
		return nil, err
	}
	if err := g.use(ctx, e, nil); err != nil {
		e.drop(nil, log)
		return nil, err
	}
	g.problems = g.unmet(ctx)
	return g, nil
}

// done is called by the proxy when a transaction is over.
func (g *Gateway) done(t *filter.Transaction) {
	g.metrics.count(t)
	e := g.engine.Load()
	if e == nil {
		return
	}
	e.policies.Done(context.Background(), t)
	e.events.Add(event.From(t))
	if e.alerts != nil {
		e.alerts.Done(t)
	}
}

// listener is a part that has sockets.
type listener interface{ Listen(context.Context) error }

// use takes an engine into use in place of old, which may be nil. On an error
// old stays in use.
func (g *Gateway) use(ctx context.Context, e, old *Engine) error {
	ctx = g.sockets.With(ctx)
	for _, p := range parts() {
		if l, ok := p.value(e).(listener); ok && (old == nil || p.value(old) != p.value(e)) {
			if err := l.Listen(ctx); err != nil {
				return e.settings.text.Mistakes(setting.At(p.key, err))
			}
		}
	}
	var replaced []func()
	for _, p := range parts() {
		v, was := p.value(e), any(nil)
		if old != nil {
			was = p.value(old)
		}
		if v == was {
			continue
		}
		r := g.running[p.name]
		delete(g.running, p.name)
		replaced = append(replaced, func() {
			if r != nil {
				r.stop()
				<-r.ended
			}
			closePart(was, g.log)
		})
		if _, serves := v.(listener); !serves {
			g.start(p.name, v)
		}
	}
	if e.zones != nil && (old == nil || old.zones != e.zones) {
		e.zones.Ready()
	}
	g.connect(e)
	g.engine.Store(e)
	if old != nil && g.ready.Load() {
		g.serve(e)
	}
	for _, end := range slices.Backward(replaced) {
		end()
	}
	for _, err := range e.Faults() {
		g.log.Error("a file cannot be used; its last good copy stays in use", "error", err)
	}
	if err := e.keepCopies(old); err != nil {
		g.log.Error("cannot keep copies of files for the next start", "error", err)
	}
	return nil
}

// connect has the servers use the parts of an engine.
func (g *Gateway) connect(e *Engine) {
	if in := e.intercept; in != nil && g.keyLog != nil {
		in.Authority.LogKeys(g.keyLog)
	}
	if err := e.proxy.Use(e.proxyEngine()); err != nil {
		g.log.Error("the proxy decides as before", "error", err)
	}
	if e.stored != nil {
		e.stored.Serve(e.stored.Over(e.proxy.Upstream()))
	}
	if e.icap != nil {
		if err := e.icap.Use(e.icapEngine()); err != nil {
			g.log.Error("the ICAP server decides as before", "error", err)
		}
	}
	if e.welcome != nil && e.portal != nil {
		if err := e.welcome.Use(g.portalEngine(e)); err != nil {
			g.log.Error("the portal answers as before", "error", err)
		}
	}
	if e.helpers != nil {
		if err := e.helpers.Use(e.helperEngine()); err != nil {
			g.log.Error("helpers of Squid get answers as before", "error", err)
		}
	}
	if e.names == nil {
		return
	}
	if e.made["nameserver"].fault == nil {
		if err := e.names.Reload(e.settings.DNS.Server); err != nil {
			g.log.Error("the name server keeps its settings", "error", err)
		}
	}
	e.names.SetResponders(e.zones, e.zones, e.resolver, e.zones.Outside())
}

// start runs a part that runs.
func (g *Gateway) start(name string, v any) {
	runs, ok := v.(interface{ Run(context.Context) error })
	if !ok {
		return
	}
	ctx, stop := context.WithCancelCause(context.Background())
	r := &running{stop: func() { stop(g.cause()) }, ended: make(chan struct{})}
	g.running[name] = r
	go func() {
		defer close(r.ended)
		if r.err = runs.Run(ctx); ctx.Err() == nil {
			select {
			case g.failed <- fmt.Errorf("%s ended by itself", name):
			default:
			}
		}
	}()
}

// serve runs the parts that have sockets and do not run yet.
func (g *Gateway) serve(e *Engine) {
	for _, p := range parts() {
		if v := p.value(e); v != nil && g.running[p.name] == nil {
			if _, serves := v.(listener); serves {
				g.start(p.name, v)
			}
		}
	}
}

// Run serves until ctx ends, then lets requests in flight finish, writes every
// event and returns. After [Gateway.Upgrade] it returns too, when the clients
// that this process has are served.
func (g *Gateway) Run(ctx context.Context) error {
	g.hurry.Store(new(ctx.Done()))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g.reloading.Lock()
	g.serve(g.engine.Load())
	g.holds(datadir.Holder{Process: os.Getpid(), Serving: true})
	g.ready.Store(true)
	g.reloading.Unlock()
	var work sync.WaitGroup
	work.Go(func() { g.watch(ctx) })
	work.Go(func() { _ = g.refresher.Run(ctx) })
	work.Go(func() { g.engine.Load().state.Follow(ctx, g.obey) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-g.failed: // one part that ends ends all
		stop()
	case <-g.left:
		stop()
	}
	g.ready.Store(false)
	work.Wait()
	return errors.Join(err, g.close())
}

// close ends all parts, those with sockets first and together, then the others
// from the bottom of the table: events are written until the last transaction
// is over.
func (g *Gateway) close() error {
	g.reloading.Lock()
	g.closed = true // no reload from here on
	g.reloading.Unlock()
	e := g.engine.Load()
	var errs []error
	end := func(p part, v any) {
		if r := g.running[p.name]; r != nil {
			r.stop()
			<-r.ended
			errs = append(errs, r.err)
		}
		closePart(v, g.log)
	}
	var inner []part
	for _, p := range slices.Backward(parts()) {
		if _, serves := p.value(e).(listener); !serves {
			inner = append(inner, p)
		} else if r := g.running[p.name]; r != nil {
			r.stop()
		}
	}
	for _, p := range parts() {
		if v, serves := p.value(e).(listener); serves {
			end(p, v)
		}
	}
	for _, p := range inner {
		end(p, p.value(e))
	}
	return errors.Join(errs...)
}

// ProxyAddr is where clients connect to.
func (g *Gateway) ProxyAddr() string { return g.engine.Load().servers.At("proxy") }

// AdminAddr is where metrics and health are, "" when switched off.
func (g *Gateway) AdminAddr() string { return g.engine.Load().servers.At("admin") }

// VotesAddr is where votes are taken first, "" when only the proxy takes them.
func (g *Gateway) VotesAddr() string {
	if e := g.engine.Load(); e.votes != nil {
		for _, a := range e.votes.Addrs() {
			return a.String()
		}
	}
	return ""
}

// ICAPAddr returns where the ICAP server listens, "" when it does not.
func (g *Gateway) ICAPAddr() string { return g.engine.Load().servers.At("icap") }

// RADIUSAddr is where RADIUS accounting is taken first, "" when it is not.
func (g *Gateway) RADIUSAddr() string {
	if e := g.engine.Load(); e.accounting != nil {
		return e.accounting.Addr()
	}
	return ""
}

// DNSAddr is where the name server listens first, "" when there is none.
func (g *Gateway) DNSAddr() string {
	if e := g.engine.Load(); e.names != nil {
		for _, a := range e.names.Addrs(dns.UDP) {
			return a.String()
		}
	}
	return ""
}

// Store returns the store that can be asked about events, or nil.
func (g *Gateway) Store() event.Reader { return g.engine.Load().events.Reader() }

// LogKeys has the keys of intercepted connections with clients written to w.
// Whoever has them can read the connections: for debugging alone. It is called
// before Run.
func (g *Gateway) LogKeys(w io.Writer) {
	g.keyLog = w
	g.connect(g.engine.Load())
}

// root returns the root certificate that clients are to trust, nil for none.
func (g *Gateway) root() *intercept.Root {
	if e := g.engine.Load(); e != nil && e.intercept != nil {
		return e.intercept.Authority.Root()
	}
	return nil
}

func (g *Gateway) health() admin.Health {
	g.mu.Lock()
	problems := slices.Clone(g.problems)
	g.mu.Unlock()
	h := admin.Health{Ready: g.ready.Load(), Started: g.started.UTC().Format(time.RFC3339), Settings: g.file, State: "alone"}
	if e := g.engine.Load(); e != nil {
		h.Revision = e.revision
		problems = append(problems, e.Problems()...)
		problems = append(problems, g.refresher.Problems()...)
		if st := e.state.Stats(); st.Lost != "" {
			h.State = "degraded"
			problems = append(problems, fmt.Sprintf("state: Redis is lost since %s, this node goes on with what it knows: %s", st.Since.UTC().Format(time.RFC3339), st.Lost))
		} else if e.shared() {
			h.State = "shared"
		}
	}
	if p := g.halfway.Load(); p != nil {
		problems = append(problems, *p)
	}
	h.Problems = append([]string{}, problems...) // [] in JSON, not null
	return h
}

// Hangup opens log files anew, as their rotation asks for, and reloads.
func (g *Gateway) Hangup(ctx context.Context) {
	if err := g.engine.Load().events.Reopen(); err != nil {
		g.log.Error("log files not opened anew", "error", err)
	}
	if g.Again(ctx, "SIGHUP") {
		g.tell(state.Instruction{Topic: settingsTopic, Value: g.engine.Load().revision, Until: time.Now().Add(settingsFor)})
	}
}
