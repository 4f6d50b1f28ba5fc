//go:build !small

package booth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/clock"
	"shuultuur/lib/handover"
	"shuultuur/lib/ingest"
	"shuultuur/lib/message"
	"shuultuur/lib/metric"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/vote"
	"shuultuur/vote/store"
)

// A Booth accepts, counts and decides votes.
type Booth struct {
	config  Config
	parts   Parts
	log     *ingest.Log
	entry   *entrance // leads to the log
	server  *vote.Server
	drain   *vote.Drain
	desk    *vote.Desk   // nil on a node that forwards
	store   *store.DB    // nil on a node that forwards
	clock   *clock.Guard // whether votes may be deleted by their age
	sealer  *vote.Sealer
	stream  *stream // nil without Redis and NATS
	mailer  *mailer // nil without mail
	open    []net.Listener
	clients sync.WaitGroup         // listeners, which wait for their connections
	cut     func()                 // ends the connections
	problem atomic.Pointer[string] // the reason why votes are not drained
	ran     bool
}

// Open opens the log and the database. It does not require PostgreSQL, another
// node or Redis to be reachable. Mistakes in the settings are a
// [setting.Error].
func Open(ctx context.Context, c Config, p Parts) (b *Booth, err error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	b = &Booth{config: c, parts: p}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if c.Node == "" {
		b.config.Node, _ = os.Hostname()
	}
	secure, err := certificate(c.TLS)
	if err != nil {
		return b, setting.At("tls", err)
	}
	if b.sealer, err = vote.NewSealer(p.Key); err != nil {
		return b, err
	}
	if b.log, err = ingest.Open(ingest.Config{Folder: b.folder()}, p.Log); err != nil {
		return b, err
	}
	b.clock = clock.New(clock.Config{File: filepath.Join(b.folder(), "clock.json"), Log: p.Log.With("store", "votes")})
	if b.entry, err = openEntrance(b.log, filepath.Join(b.folder(), "erased.json"), p.Key); err != nil {
		return b, err
	}
	b.stream = newStream(&b.config, p.Log)
	sink, err := b.sink(ctx)
	if err != nil {
		return b, err
	}
	if b.drain, err = vote.NewDrain(b.log, "counter", sink, b.report, p.Log); err != nil {
		return b, err
	}
	parts := vote.Parts{Log: b.entry, Sealer: b.sealer, TLS: secure, Limit: c.Limit.or(defaultLimit), Login: c.Login, Node: b.config.Node,
		Secret: c.Secret, Who: p.Who, Texts: p.Texts, Contact: p.Contact, Logger: p.Log}
	if b.store != nil {
		parts.State = b.state
	}
	b.server = vote.NewServer(parts)
	return b, nil
}

// checkStore returns the mistake in the URL of the votes' database, or nil.
func checkStore(url string) error { return store.Check(url) }

// certificate returns the TLS settings of the API. They follow changes of k's
// files.
func certificate(k *KeyPair) (*tls.Config, error) {
	if k == nil {
		return nil, nil
	}
	pair, err := setting.Renew(func() (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(string(k.Cert), string(k.Key))
		return &c, err
	}, k.Cert, k.Key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Current(), nil }}, nil
}

// sink returns the destination of the log.
func (b *Booth) sink(ctx context.Context) (vote.Sink, error) {
	c := &b.config
	switch c.Forward {
	case viaRedis, viaNATS:
		return b.stream, nil
	case "":
	default:
		return &vote.Forwarder{To: c.Forward, Secret: c.Secret, Client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second}}}, nil
	}
	place := c.Store
	if place == "" {
		place = "votes.db"
	}
	if !store.IsURL(place) {
		place = setting.Path(b.parts.Data, place)
	}
	var err error
	if b.store, err = store.Open(ctx, place); err != nil {
		return nil, setting.At("store", err)
	}
	var rules []vote.AutomaticRule
	for n := range c.Automatic {
		r, err := c.Automatic[n].rule()
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	var answer func(*vote.Decision, []string)
	if c.Mail != nil {
		b.mailer = newMailer(*c.Mail, b.parts.Texts, b.parts.Log)
		answer = b.mailer.add
	}
	b.desk = vote.NewDesk(b.store, rules, b.parts.Apply, answer, b.parts.Log)
	return &vote.Counter{Store: b.store, After: b.counted, Logger: b.parts.Log}, nil
}

// counted has the rules answer new votes, and tells somebody of the requests that still wait.
func (b *Booth) counted(ctx context.Context, fresh []vote.Vote) {
	b.desk.ApplyRules(ctx, fresh)
	if b.parts.Asked == nil {
		return
	}
	for i := range fresh {
		v := &fresh[i]
		if v.Kind != vote.Wrong {
			continue
		}
		if c, err := b.store.Case(ctx, v.Remedy()); err == nil && c.People > 0 {
			b.parts.Asked(v)
		}
	}
}

// state returns the state of a vote. A vote that is not in the database may
// still be in the log.
func (b *Booth) state(ctx context.Context, id vote.ID) (vote.State, error) {
	if b.entry.beside.Load() != nil { // another process knows more
		return vote.State{State: "accepted"}, nil
	}
	s, err := b.store.State(ctx, id)
	if errors.Is(err, vote.ErrUnknown) && b.drain.Pending() > 0 {
		return vote.State{State: "accepted"}, nil
	}
	return s, err
}

func (b *Booth) report(err error) {
	if err == nil {
		b.problem.Store(nil)
		return
	}
	s := err.Error()
	b.problem.Store(&s)
}

// Problems returns the reasons why votes are not kept or not counted.
func (b *Booth) Problems() []problem.Problem {
	all := problem.Of(problem.Requests, b.log.Problems()...)
	if p := b.problem.Load(); p != nil {
		all = append(all, problem.Of(problem.Requests, fmt.Sprintf("votes wait in the log, %d by now: %s", b.drain.Pending(), *p))...)
	}
	if b.clock.Doubtful() { // that its file cannot be written is said of the log, too
		all = append(all, problem.Of(problem.Clock, "votes: "+b.clock.Problem())...)
	}
	return all
}

// Erase removes a person's votes from the log and, on a node that counts, from
// the database. Earlier votes that are still on their way to this node will not
// count either. It returns the number of removed votes. With dry it only counts them.
func (b *Booth) Erase(ctx context.Context, p *vote.Person, dry bool) (votes int64, err error) {
	if !dry {
		if err := b.entry.erase(p); err != nil {
			return 0, err
		}
	}
	err = b.drain.Between(func() error {
		waiting := b.drain.Pending()
		logged, err := b.log.Erase(ctx, func(record []byte) bool {
			v, err := vote.Parse(record)
			return err == nil && p.Of(&v)
		}, dry)
		votes = logged
		if err == nil && b.desk != nil {
			var counted int64
			counted, err = b.desk.Erase(ctx, p, dry)
			votes = max(logged, counted) // the log also holds votes that are counted already
		}
		if err == nil && waiting == 0 && !dry { // other people's comments may name the person
			err = b.log.Rotate(ctx)
		}
		return err
	})
	return votes, err
}

// ForwardsTo returns the place where this node's votes are counted, or "" if
// that is here.
func (b *Booth) ForwardsTo() string { return b.config.Forward }

// Desk decides votes. It is nil on a node that forwards its votes.
func (b *Booth) Desk() *vote.Desk { return b.desk }

// Pending returns the number of votes that wait in the log.
func (b *Booth) Pending() uint64 { return b.drain.Pending() }

// Log returns the log of votes.
func (b *Booth) Log() *ingest.Log { return b.log }

// Addrs returns the addresses that the booth listens on.
func (b *Booth) Addrs() (all []net.Addr) {
	for _, l := range b.open {
		all = append(all, l.Addr())
	}
	return all
}

// Listen opens the addresses for votes, if the settings have any.
func (b *Booth) Listen(ctx context.Context) error {
	for _, a := range b.config.Listen {
		var lc net.ListenConfig
		l, err := handover.Listen(ctx, &lc, "tcp", string(a))
		if err != nil {
			err = fmt.Errorf("cannot listen on %q: %w", a, err)
			for _, o := range b.open {
				err = errors.Join(err, o.Close())
			}
			b.open = nil
			return setting.At("listen", err)
		}
		b.open = append(b.open, l)
	}
	return nil
}

// Run accepts and counts votes until ctx ends. It closes the booth.
func (b *Booth) Run(ctx context.Context) error {
	b.ran = true
	// The log outlives its writers and readers.
	logCtx, stopLog := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLog()
	logEnded := make(chan error, 1)
	go func() { logEnded <- b.log.Run(logCtx) }()

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	run := func(f func(context.Context) error) {
		all.Go(func() {
			if err := f(ctx); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				stop()
			}
		})
	}
	serving, cut := context.WithCancel(context.WithoutCancel(ctx)) // outlives ctx where another process takes the log
	b.cut = cut
	for _, l := range b.open {
		b.clients.Go(func() {
			if err := b.server.Serve(serving, l); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
				stop()
			}
		})
	}
	run(b.drain.Run)
	if b.stream != nil && b.store != nil {
		run(func(ctx context.Context) error { b.stream.receive(ctx, b.entry, b.parts.Log); return nil })
	}
	if b.mailer != nil {
		run(b.mailer.run)
	}
	run(b.deleteOld)
	run(b.moveIn)
	<-ctx.Done()
	if b.entry.beside.Load() != nil {
		b.server.Leave()
		for _, l := range b.open {
			l.Close()
		}
	} else {
		cut()
		b.clients.Wait()
	}
	all.Wait()
	stopLog()
	ended := <-logEnded
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(append(errs, ended, b.closeRest())...)
}

// deleteOld deletes old votes each hour, if the clock is believed. It also begins new files of the log
// in time, so that votes that were moved on do not stay on the disk.
func (b *Booth) deleteOld(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for minute := 0; ; minute++ {
		b.clean(ctx, minute)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// clean is called each minute. It reads the clock each time: a step is seen by the next reading only.
func (b *Booth) clean(ctx context.Context, minute int) {
	believed := b.believed(ctx)
	if minute%60 != 59 {
		return
	}
	if b.drain.Pending() == 0 {
		if err := b.log.Rotate(ctx); err != nil && ctx.Err() == nil {
			b.parts.Log.Error("the log of votes cannot begin a new file", "error", err)
		}
	}
	if keep := b.config.Keep.Or(defaultKeep); keep > 0 && believed {
		b.prune(ctx, b.clock.Now().Add(-keep))
	}
}

// believed reports whether votes may be deleted by their age.
func (b *Booth) believed(ctx context.Context) bool {
	if b.store == nil {
		return false
	}
	believed, err := b.clock.Check(func() (time.Time, error) { return b.store.Newest(ctx) })
	if err != nil && ctx.Err() == nil {
		b.parts.Log.Warn("old votes are not deleted: the newest one cannot be read", "error", err)
	}
	return believed
}

// prune deletes votes that are older than before.
func (b *Booth) prune(ctx context.Context, before time.Time) {
	n, err := b.store.Prune(ctx, before)
	if err != nil && ctx.Err() == nil {
		b.parts.Log.Error("old votes cannot be deleted", "error", err)
	} else if n > 0 {
		b.parts.Log.Info("old votes deleted", "votes", n)
	}
}

// Close releases the resources of a booth that was not run.
func (b *Booth) Close() error {
	if b.ran {
		return nil
	}
	var errs []error
	if b.log != nil {
		errs = append(errs, b.log.Close())
	}
	for _, l := range b.open {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, b.closeRest())...)
}

func (b *Booth) closeRest() (err error) {
	if b.store != nil {
		err = b.store.Close()
	}
	if b.stream != nil {
		b.stream.close()
	}
	return err
}

// Collect implements [metric.Collector].
func (b *Booth) Collect(ch chan<- metric.Metric) {
	b.each(func(c metric.Collector) { c.Collect(ch) })
}

func (b *Booth) each(f func(metric.Collector)) {
	f(b.log)
	f(b.server)
	f(b.drain)
	if b.desk != nil {
		f(b.desk)
	}
}

// Token returns the token for a block page.
func (b *Booth) Token(t *filter.Transaction) string {
	v := &t.Verdict.Reason
	e := vote.Event{Ref: t.ID, At: t.Start, Client: t.Client.Addr.Unmap().String(), User: t.Client.User, Groups: t.Client.Groups,
		Host: t.Host, URL: t.URL, Policy: v.Policy, Rule: v.Rule, Check: v.Finding.Check, Category: v.Finding.Category, Entry: v.Finding.Evidence}
	if v.Hours {
		e.Check = vote.Schedule
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	return b.sealer.Seal(&e)
}

// Answer answers a request for votes that reached the proxy.
func (b *Booth) Answer(ctx context.Context, t *filter.Transaction, q *message.Request, path string, body []byte) (status int, ctype string, answer []byte, fields []string) {
	get := func(name string) string { return string(q.Get(name)) }
	from := t.Client.Addr.Unmap().String()
	r := vote.Request{Method: q.Method, Path: path, Type: get("Content-Type"), Key: get("Idempotency-Key"), Site: get("Sec-Fetch-Site"), Accept: get("Accept"), Language: get("Accept-Language"),
		Body: body, From: from, Voter: &vote.Voter{Addr: from, User: t.Client.User, Groups: t.Client.Groups, Same: true, Host: t.Host}, Base: "/.well-known/shuultuur/votes"}
	a := b.server.Answer(ctx, &r)
	for _, f := range a.Fields() {
		fields = append(fields, f[0], f[1])
	}
	if a.Type == "" {
		a.Type = "text/plain; charset=utf-8"
	}
	return a.Status, a.Type, a.Body, fields
}

// A carrier carries votes from several nodes to the node that counts.
type carrier interface {
	vote.Sink
	Receive(ctx context.Context, log vote.Log, works func()) error
	Close()
}

// A stream connects to a carrier on demand, and again after a fault.
type stream struct {
	name    string // "Redis" or "NATS"
	connect func(ctx context.Context) (carrier, error)
	mu      sync.Mutex
	carrier carrier
}

const streamKey = "votes"

func newStream(c *Config, log *slog.Logger) *stream {
	reported := map[string]bool{} // a line for each lost connection would be too much
	remark := func(text string) {
		if !reported[text] {
			reported[text] = true
			log.Warn(text)
		}
	}
	switch {
	case c.Redis != nil:
		return &stream{name: "Redis", connect: func(ctx context.Context) (carrier, error) {
			return vote.ConnectStream(ctx, *c.Redis, c.Redis.Prefix+streamKey, remark)
		}}
	case c.NATS != "":
		return &stream{name: "NATS", connect: func(ctx context.Context) (carrier, error) {
			return vote.ConnectJetStream(ctx, c.NATS, streamKey, remark)
		}}
	}
	return nil
}

func (s *stream) withCarrier(ctx context.Context, f func(carrier) error) error {
	s.mu.Lock()
	if s.carrier == nil {
		c, err := s.connect(ctx)
		if err != nil {
			s.mu.Unlock()
			return err
		}
		s.carrier = c
	}
	c := s.carrier
	s.mu.Unlock()
	err := f(c)
	if err != nil && ctx.Err() == nil {
		s.mu.Lock()
		if s.carrier == c {
			s.carrier = nil
			c.Close()
		}
		s.mu.Unlock()
	}
	return err
}

// Take implements [vote.Sink].
func (s *stream) Take(ctx context.Context, records [][]byte) error {
	return s.withCarrier(ctx, func(v carrier) error { return v.Take(ctx, records) })
}

// receive moves votes from the stream into the log until ctx ends.
func (s *stream) receive(ctx context.Context, log vote.Log, logger *slog.Logger) {
	failing := false
	for ctx.Err() == nil {
		err := s.withCarrier(ctx, func(v carrier) error {
			return v.Receive(ctx, log, func() {
				if failing {
					failing = false
					logger.Info("votes come from other nodes again", "by", s.name)
				}
			})
		})
		if err != nil && ctx.Err() == nil {
			if !failing {
				failing = true
				logger.Error("votes of other nodes cannot be read; trying again", "by", s.name, "error", err)
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.carrier != nil {
		s.carrier.Close()
		s.carrier = nil
	}
}
