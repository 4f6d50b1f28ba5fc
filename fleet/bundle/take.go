package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A User puts bundles into use.
type User interface {
	// Use tries the settings and files that are unpacked in a folder and puts them into use: the keys
	// of the settings, and the files under their names beside the settings. If it fails, everything is
	// as before. gone are files of the bundle before that this one lacks.
	Use(ctx context.Context, folder string, m *Manifest, gone []string) error
	// Drift returns the keys and files of a bundle in use that were changed since.
	Drift(m *Manifest) []string
	// Fares returns how the node has fared since it started, and the problems in its /health.
	Fares() (Rates, []string)
	// Wait waits until the node serves.
	Wait(ctx context.Context) error
}

// A Taker takes bundles for a node. Make one with [NewTaker], then call Run.
type Taker struct {
	cfg     *source
	node    string
	program string
	dir     Dir
	user    User
	send    func(Report)
	log     *slog.Logger
	news    chan struct{} // a bundle is offered
	looking sync.Mutex    // held by whoever looks

	mu      sync.Mutex
	held    Held
	fault   string   // why there is no news of bundles, "" if there is
	samples []sample // of the last hour, oldest first
	start   sample   // when the bundle in use began
	sent    Report
}

// A sample is how a node has fared up to a moment.
type sample struct {
	at    time.Time
	rates Rates // Load: seconds of processors
}

// Samples of the last hour are kept, and the latest.
const (
	samplesKept = 60
	sampleEvery = time.Minute
)

// NewTaker makes a taker for the node of the settings c, which keep bundles in dir.
func NewTaker(c *Config, dir Dir, program string, user User, send func(Report), log *slog.Logger) (*Taker, error) {
	s, err := c.Bundles.open()
	if err != nil {
		return nil, err
	}
	t := &Taker{cfg: s, node: c.NodeName(), program: program, dir: dir, user: user, send: send, log: log, news: make(chan struct{}, 1)}
	if t.held, err = dir.Held(); err != nil {
		log.Error("the bundle in use is not known", "error", err)
	}
	return t, nil
}

// Wake says that the desk offers something new.
func (t *Taker) Wake() {
	select {
	case t.news <- struct{}{}:
	default: // it is known
	}
}

// soon is how long after a fault the place is asked again at first.
const soon = time.Second

// Run takes bundles until ctx ends.
func (t *Taker) Run(ctx context.Context) {
	if t.user.Wait(ctx) != nil {
		return
	}
	t.measure(time.Now())
	next, report := time.NewTimer(0), time.NewTicker(reportYoung)
	defer next.Stop()
	defer report.Stop()
	again := soon
	for {
		select {
		case <-ctx.Done():
			return
		case <-report.C:
			t.measure(time.Now())
			t.Tell(time.Now())
			continue
		case <-t.news:
		case <-next.C:
		}
		// The nodes of a fleet do not ask at the same moment.
		wait := t.cfg.every/2 + rand.N(t.cfg.every)
		if err := t.Look(ctx); err != nil {
			if ctx.Err() != nil {
				return
			}
			t.log.Error("no bundle was taken", "from", t.cfg.place.String(), "error", err)
			wait = min(wait, again/2+rand.N(again))
			again = min(2*again, t.cfg.every)
		} else {
			again = soon
		}
		next.Reset(wait)
		t.Tell(time.Now())
	}
}

// Look asks the place once, and takes the bundle that is offered there if this node may.
func (t *Taker) Look(ctx context.Context) error {
	t.looking.Lock()
	defer t.looking.Unlock()
	m, text, signature, err := t.offered(ctx)
	t.mu.Lock()
	held := t.held
	t.mu.Unlock()
	if err == nil && m != nil {
		err = t.take(ctx, m, &held, text, signature)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault = ""
	if err != nil {
		t.fault = err.Error()
	}
	return err
}

// offered returns the manifest at the place, nil if there is none.
func (t *Taker) offered(ctx context.Context) (m *Manifest, text, signature []byte, err error) {
	if text, err = fetch(ctx, t.cfg.place, manifestName, maxManifest); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil, nil
		}
		return nil, nil, nil, err
	}
	if signature, err = fetch(ctx, t.cfg.place, signatureName, 4<<10); err != nil {
		return nil, nil, nil, err
	}
	if m, err = Open(text, signature, t.cfg.key); errors.Is(err, ErrSignature) {
		// The desk may have replaced one of the two in between.
		if text, err = fetch(ctx, t.cfg.place, manifestName, maxManifest); err == nil {
			m, err = Open(text, signature, t.cfg.key)
		}
	}
	return m, text, signature, err
}

// take puts a bundle into use if this node may have it.
func (t *Taker) take(ctx context.Context, m *Manifest, held *Held, text, signature []byte) error {
	switch {
	case m.Serial < held.Serial:
		return fmt.Errorf("the place offers bundle %d, and this node had %d: an older one is not taken", m.Serial, held.Serial)
	case m.Serial == held.Serial && (held.Runs.Serial == m.Serial || held.Refused == m.Serial):
		return nil
	case !m.Takes(t.node):
		return nil // its share has not come
	case time.Now().After(m.Expires):
		return fmt.Errorf("bundle %d has expired on %s: the desk has to offer another", m.Serial, m.Expires.Format(time.DateOnly))
	}
	if i := slices.IndexFunc(m.Keys, func(k string) bool { return !slices.Contains(t.cfg.takes, k) }); i >= 0 {
		return t.refuse(m, held, fmt.Errorf("it replaces %s, which is not in fleet: bundles: takes", m.Keys[i]))
	}
	for i := range m.Files {
		if err := t.dir.fetch(ctx, t.cfg.place, &m.Files[i]); err != nil {
			return err
		}
	}
	if err := t.use(ctx, m, held); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return t.refuse(m, held, err)
	}
	// Others can take the bundle from here.
	return errors.Join(Folder(t.dir).Put(ctx, manifestName, text), Folder(t.dir).Put(ctx, signatureName, signature))
}

// use tries a bundle and puts it into use.
func (t *Taker) use(ctx context.Context, m *Manifest, held *Held) error {
	folder := filepath.Join(string(t.dir), "next")
	defer os.RemoveAll(folder)
	if err := errors.Join(os.RemoveAll(folder), t.dir.unpack(m, t.cfg.identities, folder)); err != nil {
		return err
	}
	var gone []string
	for _, f := range held.Runs.Files {
		if !slices.ContainsFunc(m.Files, func(g File) bool { return g.Name == f.Name }) {
			gone = append(gone, f.Name)
		}
	}
	now := time.Now()
	t.measure(now)
	t.mu.Lock()
	lately := between(t.samples[0], t.samples[len(t.samples)-1]) // of the last hour
	t.mu.Unlock()
	_, problems := t.user.Fares()
	if m.Content() != held.Runs.Content() || len(t.user.Drift(m)) > 0 {
		if err := t.user.Use(ctx, folder, m, gone); err != nil {
			return err
		}
		t.log.Info("a bundle is in use", "serial", m.Serial, "version", m.Version, "files", len(m.Files))
	}
	was := held.Runs
	next := Held{Serial: m.Serial, Runs: *m, Since: now, Before: lately, Known: problems}
	if m.Content() == was.Content() {
		next.Since, next.Before, next.Known = held.Since, held.Before, held.Known
	}
	if err := t.dir.keep(&next); err != nil {
		return fmt.Errorf("keeping which bundle is in use: %w", err)
	}
	t.dir.clean(m, &was)
	t.mu.Lock()
	defer t.mu.Unlock()
	if next.Since.Equal(now) {
		t.start = t.samples[len(t.samples)-1]
	}
	t.held = next
	return nil
}

// refuse remembers that a bundle cannot be used here, so that it is not tried again.
func (t *Taker) refuse(m *Manifest, held *Held, why error) error {
	next := *held
	next.Serial, next.Refused, next.Why = m.Serial, m.Serial, shortened(why.Error())
	t.mu.Lock()
	t.held = next
	t.mu.Unlock()
	return errors.Join(fmt.Errorf("bundle %d (%s) cannot be used here, and what was in use stays: %w", m.Serial, m.Version, why), t.dir.keep(&next))
}

func shortened(s string) string {
	const most = 500
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// Problems says why the node lacks a bundle.
func (t *Taker) Problems() (all []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.held.Refused != 0 && t.held.Refused == t.held.Serial:
		all = append(all, fmt.Sprintf("bundle %d cannot be used here, and bundle %d stays in use: %s", t.held.Refused, t.held.Runs.Serial, t.held.Why))
	case t.fault != "":
		all = append(all, fmt.Sprintf("bundles from %s: %s; bundle %d stays in use", t.cfg.place, t.fault, t.held.Runs.Serial))
	}
	return all
}

// measure takes a sample.
func (t *Taker) measure(now time.Time) {
	rates, _ := t.user.Fares()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start.at.IsZero() {
		t.start = sample{now, rates}
	}
	if n := len(t.samples); n > 1 && now.Sub(t.samples[n-2].at) < sampleEvery {
		t.samples = t.samples[:n-1]
	}
	if len(t.samples) == samplesKept {
		t.samples = slices.Delete(t.samples, 0, 1)
	}
	t.samples = append(t.samples, sample{now, rates})
}

// between returns how a node fared between two samples.
func between(a, b sample) Rates {
	r := Rates{Requests: b.rates.Requests - a.rates.Requests, Failures: b.rates.Failures - a.rates.Failures, Asked: b.rates.Asked - a.rates.Asked}
	if d := b.at.Sub(a.at).Seconds(); d > 0 {
		r.Load = (b.rates.Load - a.rates.Load) / d
	}
	return r
}

// Report returns what this node reports.
func (t *Taker) Report(now time.Time) Report {
	rates, problems := t.user.Fares()
	t.mu.Lock()
	defer t.mu.Unlock()
	m := &t.held.Runs
	r := Report{Node: t.node, At: now, Program: t.program, Faults: len(problems), Why: t.fault}
	if m.Serial != 0 {
		r.Serial, r.Version, r.Content, r.Since = m.Serial, m.Version, m.Content(), t.held.Since
		r.Drift, r.Before, r.Now = t.user.Drift(m), t.held.Before, between(t.start, sample{now, rates})
		for _, p := range problems {
			if !slices.Contains(t.held.Known, p) {
				r.New++
			}
		}
	}
	if t.held.Refused == t.held.Serial && t.held.Serial != 0 {
		r.Refused, r.Why = t.held.Refused, t.held.Why
	}
	r.Why = shortened(r.Why)
	return r
}

// Tell reports what this node runs, if that changed or was not said lately.
func (t *Taker) Tell(now time.Time) {
	r := t.Report(now)
	t.mu.Lock()
	was := t.sent
	news := r.Serial != was.Serial || r.Refused != was.Refused || r.Why != was.Why || r.New != was.New || r.Faults != was.Faults || !slices.Equal(r.Drift, was.Drift)
	every := reportAnew
	switch age := now.Sub(r.Since); {
	case age < young:
		every = reportYoung
	case age < time.Hour:
		every = reportEvery
	}
	if !news && now.Sub(was.At) < every {
		t.mu.Unlock()
		return
	}
	t.sent = r
	t.mu.Unlock()
	t.send(r)
}

// Offered opens what other nodes may take from this one.
func (d Dir) Offered(ctx context.Context, name string) (io.ReadCloser, error) {
	if sum, ok := strings.CutPrefix(name, blobFolder+"/"); name != manifestName && name != signatureName && !(ok && isSum(sum)) {
		return nil, fs.ErrNotExist
	}
	return Folder(d).Get(ctx, name)
}
