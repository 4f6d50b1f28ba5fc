// Package gateway runs a filter: it listens, puts one engine after another into use, and ends.
// Package engine builds engines.
//
// Data moves as follows. [configuration.Read] turns a file into settings, and [engine.Build]
// makes an engine from them. [Gateway] listens, puts the engine into the servers, and hands
// finished transactions to the event log. On SIGHUP, or when a file changes, it builds the next
// engine. If it cannot build one, the running engine stays. The admin address gets the data and
// actions of its pages from the gateway. [fleet.Node] informs the other nodes.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/admin/alert"
	"shuultuur/admin/home"
	"shuultuur/admin/setup"
	"shuultuur/admin/system"
	"shuultuur/check/picture"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/fleet"
	"shuultuur/lib/datadir"
	"shuultuur/lib/dns"
	"shuultuur/lib/handover"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/list/source"
	"shuultuur/policy/rename"
	"shuultuur/vote"
)

// A Gateway is a running filter. Make one with New, then call Run.
type Gateway struct {
	file      string
	started   time.Time
	log       *slog.Logger
	engine    atomic.Pointer[engine.Engine]
	host      engine.Host // the gateway's data that parts may use
	node      fleet.Node  // exchanges instructions with other nodes
	metrics   *metrics
	refresher *source.Refresher
	ids       filter.IDs // for events without a transaction
	ready     atomic.Bool

	sockets *handover.Sockets
	departure
	again       again
	quotas      *rename.Names // of policies that have some; nil until the first engine is in use
	notRestored string        // why a backup was not, "" if none was to be

	setup    atomic.Pointer[setup.Setup] // nil if the first steps were not offered
	remarks  atomic.Pointer[[]home.Remark]
	pictures picture.Gallery // verdicts of the models for pictures

	manual    func() map[string]setting.Row // what it says about keys of the settings
	saving    sync.Mutex                    // held while the settings change
	questions questionEngine
	reloading sync.Mutex // held by a reload; guards running and closed
	closed    bool
	running   map[string]*running // parts, by name
	leaving   sync.WaitGroup      // parts with sockets that others have replaced
	failed    chan error          // the error of a part that ended by itself
	mu        sync.Mutex
	access    atomic.Pointer[access]
	problems  []problem.Problem // of the last reload; guarded by mu
	refused   map[string]string // files of an engine that could not be built, with their stamps; guarded by mu
}

// running is a part that runs.
type running struct {
	stop  func(cause error)
	ended chan struct{}
	err   error // valid when ended is closed
}

// New reads the settings in file, builds everything and opens the listeners.
// After New, clients can connect; Run serves them. A backup that waits is restored first.
func New(ctx context.Context, file string, log *slog.Logger) (*Gateway, error) {
	return newRestored(ctx, file, log)
}

func build(ctx context.Context, file string, log *slog.Logger) (*Gateway, error) {
	s, err := configuration.Read(file)
	if err != nil {
		return nil, err
	}
	g := &Gateway{file: file, started: time.Now(), log: log, running: map[string]*running{}, failed: make(chan error, 1),
		sockets: handover.FromContext(ctx), departure: departure{left: make(chan struct{})}, again: again{c: make(chan struct{})},
		manual: func() map[string]setting.Row { return nil }}
	g.refresher = source.NewRefresher(g.fetched, func(ctx context.Context, why string) { g.ReloadAndLog(ctx, why) }, log)
	g.metrics = newMetrics(g)
	p := &pages{gateway: g}
	g.host = engine.Host{InUse: g.engine.Load, Done: g.recordDone, Named: g.recordAnswer, Decide: p.decide, Asked: g.asked, Admin: p.newAdmin, Pictures: &g.pictures, Bundles: bundleUser{g}, Log: log}
	g.node = fleet.Node{Parts: g.fleetParts, Reload: g.Reload, ReloadAndLog: g.ReloadAndLog, Newer: g.refresher.Newer, Log: log}
	defer returnMemory(allocated())
	e, err := engine.Build(ctx, s, nil, &g.host, log)
	if err != nil {
		return nil, err
	}
	if err := g.use(ctx, e, nil); err != nil {
		e.Drop(nil, log)
		return nil, err
	}
	g.problems = g.unmet(ctx)
	for _, p := range g.absent() {
		g.log.Warn(p)
	}
	return g, nil
}

// recordDone is called by the servers for each completed transaction.
func (g *Gateway) recordDone(t *filter.Transaction) {
	g.metrics.count(t)
	e := g.engine.Load()
	if e == nil {
		return
	}
	e.Policies.Done(context.Background(), t)
	if isLookForAnswer(t) {
		return
	}
	e.Events.Add(event.NewRow(t))
	if e.Alerts != nil {
		e.Alerts.Done(t)
	}
}

// isLookForAnswer reports whether a transaction only asked whether a vote was answered. An open
// block page does so every minute; the record has the vote.
func isLookForAnswer(t *filter.Transaction) bool {
	f := &t.Verdict.Reason.Finding
	return f.Check == "proxy" && f.Category == "answer"
}

// A listener is a part that has sockets.
type listener interface{ Listen(context.Context) error }

// use puts an engine into use in place of old, which may be nil. After an error
// old stays in use.
func (g *Gateway) use(ctx context.Context, e, old *engine.Engine) error {
	before := old.Parts()
	if err := g.listen(ctx, e, before); err != nil {
		return err
	}
	var replaced []func()
	for i, p := range e.Parts() {
		was := before[i].Value
		if p.Value == was {
			continue
		}
		r := g.running[p.Name]
		delete(g.running, p.Name)
		_, served := was.(listener)
		replaced = append(replaced, func() { g.replace(r, was, served) })
		if _, serves := p.Value.(listener); !serves {
			g.start(p.Name, p.Value)
		}
	}
	if e.Zones != nil && (old == nil || old.Zones != e.Zones) {
		e.Zones.Ready()
	}
	e.Connect(&g.host)
	g.countOn(e)
	g.engine.Store(e)
	if old != nil {
		g.follow(e, old)
	}
	if old != nil && g.ready.Load() {
		g.serve(e)
	}
	for _, end := range slices.Backward(replaced) {
		end()
	}
	for _, err := range e.Faults() {
		g.log.Error("a file cannot be used; its last good copy stays in use", "error", err)
	}
	if err := e.KeepCopies(old); err != nil {
		g.log.Error("cannot keep copies of files for the next start", "error", err)
	}
	return nil
}

// listen opens the listeners of an engine. Addresses that were in use before are handed on, so that
// no connection is refused.
func (g *Gateway) listen(ctx context.Context, e *engine.Engine, before []engine.Part) error {
	ctx = g.sockets.With(ctx)
	offered := false
	for i, p := range e.Parts() {
		l, ok := p.Value.(listener)
		if !ok || before[i].Value == p.Value {
			continue
		}
		if before[i].Value != nil && !offered {
			offered = true
			g.sockets.Offer()
			defer g.sockets.Unused()
		}
		if err := l.Listen(ctx); err != nil {
			return e.Settings.Text.Mistakes(setting.At(p.Key, err))
		}
	}
	return nil
}

// replace ends a part that another one has replaced. One with sockets ends by itself when its clients
// have their answers, among them the one that has changed the settings.
func (g *Gateway) replace(r *running, was any, served bool) {
	end := func() {
		if r != nil {
			<-r.ended
		}
		engine.ClosePart(was, g.log)
	}
	if r == nil || !served {
		if r != nil {
			r.stop(g.cause())
		}
		end()
		return
	}
	r.stop(handover.HandedOver{Hurry: *g.hurry.Load()})
	g.leaving.Go(end)
}

// start starts a part that has a Run method.
func (g *Gateway) start(name string, v any) {
	runs, ok := v.(interface{ Run(context.Context) error })
	if !ok {
		return
	}
	ctx, stop := context.WithCancelCause(context.Background())
	r := &running{stop: stop, ended: make(chan struct{})}
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

// serve starts the parts that have sockets and do not run yet.
func (g *Gateway) serve(e *engine.Engine) {
	for _, p := range e.Parts() {
		if _, serves := p.Value.(listener); serves && g.running[p.Name] == nil {
			g.start(p.Name, p.Value)
		}
	}
}

// Run serves until ctx ends, then lets requests in flight finish, writes every
// event and returns. After [Gateway.Upgrade] it returns when the clients of
// this process are served.
func (g *Gateway) Run(ctx context.Context) error {
	g.hurry.Store(new(ctx.Done()))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g.reloading.Lock()
	g.serve(g.engine.Load())
	g.recordHolder(datadir.Holder{Process: os.Getpid(), Serving: true})
	g.ready.Store(true)
	g.reloading.Unlock()
	var work sync.WaitGroup
	work.Go(func() { g.watch(ctx) })
	work.Go(func() { g.logProblems(ctx) })
	work.Go(func() { _ = g.refresher.Run(ctx) })
	work.Go(func() { returnAfterBursts(ctx) })
	work.Go(func() { g.sweep(ctx) })
	work.Go(func() { g.engine.Load().State.Follow(ctx, g.node.CarryOut) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-g.failed: // when one part ends, all end
		stop()
	case <-g.left:
		stop()
	case <-g.again.c:
		stop()
	}
	g.ready.Store(false)
	g.endWithin(g.longestDrain(), "work in the background", work.Wait)
	return errors.Join(err, g.close())
}

// close waits for the work in the background and ends all parts: first those with sockets, all at
// once, then the others from the bottom of the table, so that events are written until the last
// transaction is over. It gives up what does not end in time, so that the process ends.
func (g *Gateway) close() error {
	e, limit := g.engine.Load(), g.longestDrain()
	g.endWithin(limit, "work in the background", func() {
		g.reloading.Lock()
		g.closed = true // prevents further reloads
		g.reloading.Unlock()
		g.questions.drop(0)
	})
	var errs []error
	end := func(p engine.Part) {
		r := g.running[p.Name]
		if r != nil {
			r.stop(g.cause())
		}
		ended := g.endWithin(limit, p.Name, func() {
			if r != nil {
				<-r.ended
			}
			engine.ClosePart(p.Value, g.log)
		})
		if ended && r != nil {
			errs = append(errs, r.err)
		}
	}
	if s := g.setup.Load(); s != nil {
		s.Ended()
	}
	g.endWithin(limit, "servers that others have replaced", g.leaving.Wait)
	var inner []engine.Part
	for _, p := range slices.Backward(e.Parts()) {
		if _, serves := p.Value.(listener); !serves {
			inner = append(inner, p)
		} else if r := g.running[p.Name]; r != nil {
			r.stop(g.cause())
		}
	}
	for _, p := range e.Parts() {
		if _, serves := p.Value.(listener); serves {
			end(p)
		}
	}
	limit = time.Minute // what is left to do does not depend on clients
	for _, p := range inner {
		end(p)
	}
	return errors.Join(errs...)
}

// longestDrain is how long parts with sockets may take to end. They limit themselves; this is for
// what they do not expect.
func (g *Gateway) longestDrain() time.Duration {
	s := g.engine.Load().Settings
	return max(s.Proxy.Drain.Or(30*time.Second), s.ICAP.Drain.Or(10*time.Second)) + 10*time.Second
}

// endWithin calls a function that ends something, and reports whether it returned in time. After
// another process has taken over, the time begins when the process must end.
func (g *Gateway) endWithin(limit time.Duration, what string, end func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		end()
	}()
	select {
	case <-g.left:
		select {
		case <-done:
			return true
		case <-*g.hurry.Load():
		}
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		g.log.Error("a part does not end, and is given up", "name", what, "after", limit)
		return false
	}
}

// ProxyAddr returns the address of the proxy.
func (g *Gateway) ProxyAddr() string { return g.engine.Load().Servers.At("proxy") }

// AdminAddr returns the admin address, or "" if it is off.
func (g *Gateway) AdminAddr() string { return g.engine.Load().Servers.At("admin") }

// VotesAddr returns the first address for votes, or "" if only the proxy
// accepts votes.
func (g *Gateway) VotesAddr() string {
	if e := g.engine.Load(); e.Votes != nil {
		for _, a := range e.Votes.Addrs() {
			return a.String()
		}
	}
	return ""
}

// ICAPAddr returns the address of the ICAP server, or "" if there is none.
func (g *Gateway) ICAPAddr() string { return g.engine.Load().Servers.At("icap") }

// DNSAddr returns the first address of the name server, or "" if there is none.
func (g *Gateway) DNSAddr() string {
	if e := g.engine.Load(); e.Names != nil {
		for _, a := range e.Names.Addrs(dns.UDP) {
			return a.String()
		}
	}
	return ""
}

// Store returns the store of events that can be queried, or nil.
func (g *Gateway) Store() event.Reader { return g.engine.Load().Events.Reader() }

// LogKeys writes the keys of intercepted client connections to w. Anyone who has
// them can read the connections: use it for debugging only. Call it before Run.
func (g *Gateway) LogKeys(w io.Writer) {
	g.host.KeyLog = w
	g.engine.Load().Connect(&g.host)
}

func (g *Gateway) health() system.Health {
	g.mu.Lock()
	problems := slices.Clone(g.problems)
	g.mu.Unlock()
	h := system.Health{Ready: g.ready.Load(), Started: g.started.UTC().Format(time.RFC3339), Settings: g.file, State: "alone"}
	if e := g.engine.Load(); e != nil {
		h.Revision, h.Update = e.Revision, e.Updates.Newer()
		problems = append(problems, e.Problems()...)
		problems = append(problems, g.refresher.Problems()...)
		if st := e.State.Stats(); st.Lost != "" {
			h.State = "degraded"
			problems = append(problems, problem.Of(problem.Fleet, fmt.Sprintf("state: Redis has been lost since %s; this node goes on with what it knows: %s", st.Since.UTC().Format(time.RFC3339), st.Lost))...)
		} else if e.SharesState() {
			h.State = "shared"
		}
	}
	problems = append(problems, problem.Of(problem.Listen, g.absent()...)...)
	if g.notRestored != "" {
		problems = append(problems, problem.Of(problem.Restore, g.notRestored)...)
	}
	if p := g.halfway.Load(); p != nil {
		problems = append(problems, problem.Of(problem.Upgrade, *p)...)
	}
	if a := g.access.Load(); a != nil {
		if err := a.log.Problem(); err != nil {
			problems = append(problems, problem.Of(problem.Because(problem.Audit, err), err.Error())...)
		}
	}
	h.Say(problems)
	return h
}

// problemsEvery is the interval at which the problems in /health are looked at for the log.
const problemsEvery = 5 * time.Second

// logProblems logs problems that come into /health and that go, so that the log alone tells of every
// fault. Numbers and times in them may change.
func (g *Gateway) logProblems(ctx context.Context) {
	tick := time.NewTicker(problemsEvery)
	defer tick.Stop()
	known := map[string]string{}
	for {
		now := map[string]string{}
		for _, p := range g.health().Problems {
			now[withoutDigits(p)] = p
		}
		for _, key := range slices.Sorted(maps.Keys(now)) {
			if _, was := known[key]; !was {
				g.log.Warn("a problem begins", "error", now[key])
			}
		}
		for _, key := range slices.Sorted(maps.Keys(known)) {
			if _, is := now[key]; !is {
				g.log.Info("a problem ends", "error", known[key])
			}
		}
		known = now
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// absent says which addresses of listeners the machine does not have.
func (g *Gateway) absent() (all []string) {
	for _, a := range g.sockets.Absent() {
		all = append(all, fmt.Sprintf("listen: this machine does not have the address of %s now; clients are served there as soon as it has; if it never will, name another in the settings", a))
	}
	return all
}

// asked tells those whom the settings name of a request to open a site.
func (g *Gateway) asked(v *vote.Vote) {
	g.metrics.asked.Add(1)
	e := g.engine.Load()
	if e == nil || e.Alerts == nil || e.Alerts.Desk == nil {
		return
	}
	x := &v.Event
	q := alert.Request{Remedy: v.Remedy(), User: x.User, Groups: x.Groups, Policy: x.Policy, Host: x.Host, Words: v.Comment, At: v.At, Time: v.ForTime() || v.ForHours()}
	if addr, err := netip.ParseAddr(x.Client); err == nil {
		q.Client, q.Name = addr, e.Clients.Of(context.Background(), []netip.Addr{addr}, nil)[addr]
	}
	e.Alerts.Desk.Ask(q)
}

// Hangup reopens log files, as needed after a rotation, and reloads.
func (g *Gateway) Hangup(ctx context.Context) {
	if err := g.engine.Load().Events.Reopen(); err != nil {
		g.log.Error("log files could not be reopened", "error", err)
	}
	if g.ReloadAndLog(ctx, "SIGHUP") {
		g.node.Changed(g.engine.Load().Revision)
	}
}

// recordAnswer records an answered query.
func (g *Gateway) recordAnswer(q *dns.Query, a *dns.Reply, judged *filter.Transaction, took time.Duration) {
	e := g.engine.Load()
	if e == nil || e.Resolver == nil {
		return
	}
	t := e.Resolver.Record(q, a, judged)
	t.Duration, t.BytesIn, t.BytesOut = took, int64(len(q.Msg)), int64(len(a.Buf))
	g.metrics.count(&t)
	e.Events.Add(event.NewRow(&t))
}

// PortalAddr returns the first address of the portal, with or without TLS, or
// "" if there is none.
func (g *Gateway) PortalAddr() string {
	s := g.engine.Load().Servers
	if at := s.At("portal-tls"); at != "" {
		return at
	}
	return s.At("portal")
}

// fleetParts returns the parts in use that instructions of other nodes affect.
func (g *Gateway) fleetParts() fleet.Parts {
	e := g.engine.Load()
	p := fleet.Parts{State: e.State, Sessions: e.Sessions, Pauses: e.Pauses, Decisions: e.Decisions, Lists: e.Lists, Cache: e.Stored, Bundles: e.Bundles, Key: e.Data.Key}
	if v := e.Votes; v != nil {
		p.EraseVotes = func(ctx context.Context, users []string, clients []netip.Addr) (int64, error) {
			return v.Erase(ctx, voterOf(&event.Person{Users: users, Clients: clients}), false)
		}
	}
	return p
}
