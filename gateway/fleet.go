package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shuultuur/state"
)

// Topics of the change bus.
const (
	listTopic     = "list/" // and the name: which version of a fetched list is in use
	settingsTopic = "settings"
)

// retellEvery is how often what could not be published is tried again.
const retellEvery = 5 * time.Second

// A fleet is what this node has to tell the others, and what they have told.
type fleet struct {
	wake chan struct{}
	mu   *sync.Mutex
	news map[string]string // topic to version; guarded by mu
	out  map[string]string // guarded by mu
}

func newFleet() fleet {
	return fleet{make(chan struct{}, 1), new(sync.Mutex), map[string]string{}, map[string]string{}}
}

func (f *fleet) hear(topic, version string) { f.note(f.news, topic, version) }
func (f *fleet) tell(topic, version string) { f.note(f.out, topic, version) }

func (f *fleet) note(m map[string]string, topic, version string) {
	f.mu.Lock()
	m[topic] = version
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take empties m, which is one of the fleet's.
func (f *fleet) take(m map[string]string) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := maps.Clone(m)
	clear(m)
	return c
}

// follow tells the other nodes what has changed here and does what they tell,
// until ctx ends.
func (g *Gateway) follow(ctx context.Context) {
	tick := time.NewTicker(retellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.fleet.wake:
		case <-tick.C:
		}
		for topic, version := range g.fleet.take(g.fleet.out) {
			if err := g.memory.Publish(ctx, topic, version); err != nil && ctx.Err() == nil {
				g.log.Debug("not told to the other nodes yet", "error", err)
				g.fleet.mu.Lock()
				if _, newer := g.fleet.out[topic]; !newer {
					g.fleet.out[topic] = version
				}
				g.fleet.mu.Unlock()
			}
		}
		if news := g.fleet.take(g.fleet.news); len(news) > 0 {
			g.obey(ctx, news)
		}
	}
}

// obey fetches the lists that other nodes have in newer versions, and reloads.
func (g *Gateway) obey(ctx context.Context, news map[string]string) {
	if word, ok := news[pauseTopic]; ok {
		g.heardPauses(word)
		delete(news, pauseTopic)
	}
	e := g.engine.Load()
	store, err := e.settings.store()
	if err != nil {
		g.log.Error("lists not fetched", "error", err)
		return
	}
	var changed []string
	for _, topic := range slices.Sorted(maps.Keys(news)) {
		name, isList := strings.CutPrefix(topic, listTopic)
		d, ours := e.downloads[name]
		switch {
		case topic == settingsTopic:
			changed = append(changed, settingsTopic)
		case !isList || !ours || e.versions[name] == news[topic]:
		default:
			c, err := store.Update(ctx, name, d.source, d.list)
			for try := 1; err != nil && try < 3 && pause(ctx, time.Second); try++ { // this node may be at it already
				c, err = store.Update(ctx, name, d.source, d.list)
			}
			g.metrics.fetched(name, c.Taken, err)
			if err != nil && ctx.Err() == nil {
				g.log.Warn("list not updated, though another node has a newer version; the one in use stays", "error", err)
			}
			if c.Taken {
				changed = append(changed, name)
			}
		}
	}
	if len(changed) > 0 && ctx.Err() == nil {
		g.Again(ctx, "another node has new: "+strings.Join(changed, ", "))
	}
}

// pause waits, and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// shared says whether what is remembered is a fleet's.
func (e *Engine) shared() bool { return e.settings.State.Redis != nil }

// common is the revision under which verdicts are shared: a digest of what the
// settings say of lists, checks and policies, and of the content of their
// files. It is the same on every node that decides the same, wherever its
// files are and whenever they were written.
func (e *Engine) common() (string, error) {
	h := sha256.New()
	var all map[string]any
	if e.settings.root.Kind != 0 {
		if err := e.settings.root.Decode(&all); err != nil {
			return "", err // it was read before
		}
	}
	for _, key := range []string{"lists", "checks", "policies"} {
		b, err := json.Marshal(all[key])
		if err != nil {
			return "", fmt.Errorf("settings under %q: %w", key, err)
		}
		fmt.Fprintf(h, "%s %d\n", key, len(b))
		h.Write(b)
	}
	for _, f := range e.content {
		if err := addFile(h, f); err != nil {
			return "", fmt.Errorf("reading what verdicts stand on: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// addFile adds the content of a file, or of all files of a folder. One that
// is gone is told apart from an empty one.
func addFile(h hash.Hash, path string) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	return filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintln(h, "gone")
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		rel, err := filepath.Rel(path, p)
		if err != nil {
			return err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, f)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %d %x\n", rel, n, sum.Sum(nil))
		return nil
	})
}

// A stateWatcher reads the counters of the state, when somebody asks.
type stateWatcher struct{ store state.Store }

var stateReadings = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*state.Stats) float64
}{
	{prometheus.NewDesc("shuultuur_state_degraded", "1 while the fleet's Redis is lost.", nil, nil), prometheus.GaugeValue, func(s *state.Stats) float64 {
		if s.Lost != "" {
			return 1
		}
		return 0
	}},
	{prometheus.NewDesc("shuultuur_state_losses_total", "How often Redis was lost.", nil, nil), prometheus.CounterValue, func(s *state.Stats) float64 { return float64(s.Losses) }},
	{prometheus.NewDesc("shuultuur_state_trips_total", "Times a request waited for Redis.", nil, nil), prometheus.CounterValue, func(s *state.Stats) float64 { return float64(s.Trips) }},
	{prometheus.NewDesc("shuultuur_state_late_total", "Times a request went on without the answer of Redis.", nil, nil), prometheus.CounterValue, func(s *state.Stats) float64 { return float64(s.Late) }},
	{prometheus.NewDesc("shuultuur_state_dropped_total", "Verdicts that did not reach Redis because their queue was full.", nil, nil), prometheus.CounterValue, func(s *state.Stats) float64 { return float64(s.Dropped) }},
	{prometheus.NewDesc("shuultuur_state_uncounted_total", "Counts of limits and quotas that had no room.", nil, nil), prometheus.CounterValue, func(s *state.Stats) float64 { return float64(s.Uncounted) }},
	{prometheus.NewDesc("shuultuur_state_counters", "Counters of limits and quotas held.", nil, nil), prometheus.GaugeValue, func(s *state.Stats) float64 { return float64(s.Counters) }},
	{prometheus.NewDesc("shuultuur_state_changes_total", "Changes that other nodes have published.", nil, nil), prometheus.CounterValue, func(s *state.Stats) float64 { return float64(s.Changes) }},
}

// Describe implements prometheus.Collector.
func (w stateWatcher) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range stateReadings {
		ch <- r.desc
	}
}

// Collect implements prometheus.Collector.
func (w stateWatcher) Collect(ch chan<- prometheus.Metric) {
	s := w.store.Stats()
	for _, r := range stateReadings {
		ch <- prometheus.MustNewConstMetric(r.desc, r.kind, r.value(&s))
	}
}
