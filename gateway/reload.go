package gateway

import (
	"context"
	"errors"
	"maps"
	"time"

	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
)

const (
	// watchEvery is the interval at which files are checked for changes.
	watchEvery = 2 * time.Second
	// A failed reload is retried after firstRetry, and then at intervals that double up to
	// lastRetry.
	firstRetry = 10 * time.Second
	lastRetry  = 10 * time.Minute
)

// needsRestart is said of a key whose change only a restart puts into use.
const needsRestart = " changed in the settings: that needs a restart"

// Reload reads the settings again and puts them into use. If they cannot be used, the running
// ones stay and the error says why.
func (g *Gateway) Reload(ctx context.Context) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	if g.closed {
		return errors.New("the gateway has stopped")
	}
	e, err := g.rebuild(ctx, g.engine.Load())
	result, problems := "taken", []problem.Problem(nil)
	var refused map[string]string
	if err != nil {
		result = "refused"
		problems = problem.Of(problem.Because(problem.Settings, err), "the settings or lists cannot be used, the running ones stay: "+err.Error())
		refused = e.Seen
	} else {
		for _, key := range e.Restart {
			problems = append(problems, problem.Of(problem.Restart, key+needsRestart)...)
		}
		problems = append(problems, g.unmet(ctx)...)
	}
	g.metrics.reloads.With(result).Inc()
	g.mu.Lock()
	g.problems, g.refused = problems, refused
	g.mu.Unlock()
	return err
}

// rebuild builds the next engine and puts it into use. With an error it also returns the
// engine, which knows the files it was built from.
func (g *Gateway) rebuild(ctx context.Context, old *engine.Engine) (*engine.Engine, error) {
	s, err := configuration.Read(g.file)
	if err != nil {
		e := &engine.Engine{}
		e.Seen = map[string]string{g.file: setting.Stamp(g.file, time.Time{})}
		return e, err
	}
	defer returnMemory(allocated())
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

// ReloadAndLog reloads, logs the result, and reports whether the new settings are in use. why is the
// reason for the log.
func (g *Gateway) ReloadAndLog(ctx context.Context, why string) bool {
	start := time.Now()
	if err := g.Reload(ctx); err != nil {
		g.log.Error("settings not applied; the running ones stay", "because", why, "error", err)
		return false
	}
	e := g.engine.Load()
	g.log.Info("settings applied", "because", why, "revision", e.Revision, "took", time.Since(start).Round(time.Millisecond))
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.problems {
		g.log.Warn(p.Text)
	}
	return true
}

// watch reloads when a file changes from which the engine, or one that failed, was built. It
// waits until the files are the same at two checks, so that a list that is being copied is not
// read incompletely. Failed builds are retried at growing intervals, since the cause may be
// elsewhere, such as a full disk.
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
		g.ReloadAndLog(ctx, why)
		again = time.Time{}
		if g.failing() {
			again = time.Now().Add(wait)
		}
	}
}

// watched returns the watched files, with their stamps at the last reload.
func (g *Gateway) watched() map[string]string {
	seen := maps.Clone(g.engine.Load().Seen)
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.Copy(seen, g.refused)
	return seen
}

// failing reports whether the last reload was incomplete.
func (g *Gateway) failing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused != nil {
		return true
	}
	return g.engine.Load().Failing()
}
