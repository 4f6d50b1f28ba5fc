package gateway

import (
	"context"
	"errors"
	"maps"
	"time"

	"shuultuur/configuration"
	"shuultuur/engine"
	"shuultuur/setting"
)

const (
	// watchEvery is how often files are looked at for changes.
	watchEvery = 2 * time.Second
	// A reload that failed is tried again after firstRetry, and then at
	// intervals that double up to lastRetry.
	firstRetry = 10 * time.Second
	lastRetry  = 10 * time.Minute
)

// Reload reads the settings again and takes them into use. When they cannot
// be used, the running ones stay and the error says why.
func (g *Gateway) Reload(ctx context.Context) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	if g.closed {
		return errors.New("the gateway has stopped")
	}
	e, err := g.rebuild(ctx, g.engine.Load())
	result, problems := "taken", []string(nil)
	var refused map[string]string
	if err != nil {
		result = "refused"
		problems = []string{"the settings or lists cannot be used, the running ones stay: " + err.Error()}
		refused = e.Seen
	} else {
		for _, key := range e.Restart {
			problems = append(problems, key+" changed in the settings: that needs a restart")
		}
		problems = append(problems, g.unmet(ctx)...)
	}
	g.metrics.reloads.With(result).Inc()
	g.mu.Lock()
	g.problems, g.refused = problems, refused
	g.mu.Unlock()
	return err
}

// rebuild builds the next engine and takes it into use. The engine is returned
// with an error too: it knows which files it was built from.
func (g *Gateway) rebuild(ctx context.Context, old *engine.Engine) (*engine.Engine, error) {
	s, err := configuration.Read(g.file)
	if err != nil {
		e := &engine.Engine{}
		e.Seen = map[string]string{g.file: setting.Stamp(g.file, time.Time{})}
		return e, err
	}
	e, err := engine.Build(ctx, s, old, &g.host, g.log)
	if err != nil {
		return e, err
	}
	if err := g.use(ctx, e, old); err != nil {
		e.Drop(old, g.log)
		return e, err
	}
	was := old.Fetched()
	for name, it := range e.Fetched() {
		if it.InUse != "" && was[name].InUse != it.InUse {
			g.node.Fetched(name, it.InUse)
		}
	}
	return e, nil
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
	g.log.Info("settings taken into use", "because", why, "revision", e.Revision, "took", time.Since(start).Round(time.Millisecond))
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.problems {
		g.log.Warn(p)
	}
	return true
}

// watch reloads when a file changes that the engine was built from, or the one
// that could not be built. It waits until the files have been the same for two
// looks, so that a list that is being copied is not read half-way. What could
// not be built is tried again at growing intervals, as the reason may have been
// elsewhere: a disk that was full.
func (g *Gateway) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var last map[string]string
	wait, again := firstRetry, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		seen := g.watched()
		now, why := map[string]string{}, ""
		for file, was := range seen {
			if now[file] = setting.Stamp(file, time.Time{}); now[file] != was {
				why = file + " changed"
			}
		}
		still := maps.Equal(now, last)
		last = now
		failing := g.failing()
		switch {
		case why != "" && still:
			wait = firstRetry
		case why == "" && failing && !again.IsZero() && time.Now().After(again):
			why, wait = "it failed before", min(2*wait, lastRetry)
		case failing && again.IsZero():
			again = time.Now().Add(wait)
			continue
		default:
			continue
		}
		g.Again(ctx, why)
		again = time.Time{}
		if g.failing() {
			again = time.Now().Add(wait)
		}
	}
}

// watched returns the files that are watched, with their stamps at the last
// reload.
func (g *Gateway) watched() map[string]string {
	seen := maps.Clone(g.engine.Load().Seen)
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.Copy(seen, g.refused)
	return seen
}

// failing says whether the last reload did not do all it was to do.
func (g *Gateway) failing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused != nil {
		return true
	}
	return g.engine.Load().Failing()
}
