package cache

import (
	"strings"
	"sync"
	"sync/atomic"

	"shuultuur/cache/protocol"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/metric"
)

// Counters of a cache.
const (
	bypassed = iota
	storedObjects
	purges
	purgesRefused
	tiredOfWaiting
	refreshesDropped
	numCounters
)

var counterNames = [numCounters][2]string{
	bypassed:         {"cache_bypassed_total", "Requests that bypassed the cache."},
	storedObjects:    {"cache_stored_total", "Objects stored in memory."},
	purges:           {"cache_purges_total", "Purges, each of a URL, prefix of URLs, host, tag or category."},
	purgesRefused:    {"cache_purges_refused_total", "Requests with the method PURGE of clients that are not in cache.purge."},
	tiredOfWaiting:   {"cache_waits_ended_total", "Requests that waited in vain for a fetch of the same object."},
	refreshesDropped: {"cache_refreshes_dropped_total", "Background refreshes dropped because the queue was full."},
}

type counters struct {
	n       [numCounters]atomic.Int64
	descs   [numCounters]*metric.Desc
	tally   tally
	answers *metric.Desc
	saved   *metric.Desc
	sizes   [2]*metric.Desc
}

// A tally counts responses by the category of the host.
type tally struct {
	mu sync.Mutex
	of map[string]*tallied
}

type tallied struct {
	answers map[string]int64 // by result
	saved   int64            // bytes that did not come from origins
}

func (t *tally) add(category, result string, saved int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.of[category]
	if x == nil {
		x = &tallied{answers: map[string]int64{}}
		t.of[category] = x
	}
	x.answers[result]++
	x.saved += saved
}

func (c *counters) init() {
	c.tally.of = map[string]*tallied{}
	for i, s := range counterNames {
		c.descs[i] = metric.NewDesc("shuultuur_"+s[0], s[1])
	}
	c.answers = metric.NewDesc("shuultuur_cache_requests_total", "Requests that the cache handled, by result (hit, stale, revalidated, shared, offline, peer, miss) and category of the host.", "result", "category")
	c.saved = metric.NewDesc("shuultuur_cache_saved_bytes_total", "Bytes of bodies that did not come from origins, by category of the host.", "category")
	c.sizes[0] = metric.NewDesc("shuultuur_cache_memory_objects", "Objects in memory.")
	c.sizes[1] = metric.NewDesc("shuultuur_cache_memory_bytes", "Bytes of objects in memory.")
}

func (c *counters) count(i int) { c.n[i].Add(1) }

// countResponse counts a response; length is the number of bytes saved.
func (c *counters) countResponse(what string, t *filter.Transaction, length int64) {
	c.tally.add(categoryOf(t), what, length)
}

// categoryOf returns the first category of a transaction's host, "" for none.
func categoryOf(t *filter.Transaction) string {
	if t != nil {
		for i := range t.Findings {
			if t.Findings[i].Check == "category" && !t.Findings[i].Wrapped {
				return t.Findings[i].Category
			}
		}
	}
	return ""
}

// Collect implements metric.Collector.
func (c *Cache) Collect(ch chan<- metric.Metric) {
	for i := range c.n {
		ch <- metric.New(c.descs[i], metric.Count, float64(c.n[i].Load()))
	}
	c.tally.mu.Lock()
	for category, x := range c.tally.of {
		for result, n := range x.answers {
			ch <- metric.New(c.answers, metric.Count, float64(n), result, category)
		}
		ch <- metric.New(c.saved, metric.Count, float64(x.saved), category)
	}
	c.tally.mu.Unlock()
	c.mu.RLock()
	n, b := c.memory.Len(), c.memory.Bytes()
	c.mu.RUnlock()
	ch <- metric.New(c.sizes[0], metric.Gauge, float64(n))
	ch <- metric.New(c.sizes[1], metric.Gauge, float64(b))
	if c.disk != nil {
		c.collectDisk(ch)
	}
	if c.peers != nil {
		c.collectPeers(ch)
	}
}

// collectPeers collects the counters of peers.
func (c *Cache) collectPeers(ch chan<- metric.Metric) {
	one := func(name, help string, kind metric.Kind, v int64, labels ...string) {
		var names []string
		if len(labels) > 0 {
			names = []string{"node", "result"}[:len(labels)]
		}
		ch <- metric.New(metric.NewDesc("shuultuur_cache_peer_"+name, help, names...), kind, float64(v), labels...)
	}
	one("asked_total", "Requests of other nodes that were answered.", metric.Count, c.peers.Asked.Load())
	one("refused_total", "Connections between nodes whose other side did not know the secret.", metric.Count, c.peers.Refused.Load())
	for _, n := range c.peers.Nodes() {
		up := int64(0)
		if n.Up() {
			up = 1
		}
		one("up", "1 while the node can be reached.", metric.Gauge, up, n.Name)
		one("dropped_total", "Purges dropped because too many waited for a node, which empties its cache instead.", metric.Count, n.Dropped.Load(), n.Name)
		one("requests_total", "Requests sent to a node, by result (hit, miss, failed).", metric.Count, n.Hits.Load(), n.Name, "hit")
		one("requests_total", "Requests sent to a node, by result (hit, miss, failed).", metric.Count, n.Misses.Load(), n.Name, "miss")
		one("requests_total", "Requests sent to a node, by result (hit, miss, failed).", metric.Count, n.Failed.Load(), n.Name, "failed")
	}
}

func (c *Cache) collectDisk(ch chan<- metric.Metric) {
	d := c.disk
	for _, m := range [...]struct {
		name, help string
		kind       metric.Kind
		v          int64
	}{
		{"objects", "Objects on the disk.", metric.Gauge, int64(d.Len())},
		{"bytes", "Bytes in the segments.", metric.Gauge, d.Bytes()},
		{"index_bytes", "Bytes of the index of the disk.", metric.Gauge, d.IndexBytes()},
		{"writes_total", "Objects written to the disk.", metric.Count, d.Writes.Load()},
		{"written_bytes_total", "Bytes written to the disk.", metric.Count, d.WrittenBytes.Load()},
		{"rewrites_total", "Objects rewritten because they are used often.", metric.Count, d.Rewrites.Load()},
		{"avoided_total", "Objects evicted from memory that were never written.", metric.Count, c.avoided.Load()},
		{"dropped_total", "Writes dropped because the queue was full.", metric.Count, c.dropped.Load()},
		{"damaged_total", "Objects with a wrong checksum, or that could not be read.", metric.Count, d.Damaged.Load()},
		{"failed_total", "Writes that failed.", metric.Count, d.Failed.Load()},
	} {
		ch <- metric.New(metric.NewDesc("shuultuur_cache_disk_"+m.name, m.help), m.kind, float64(m.v))
	}
}

// hostOf returns the host of a URL.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if strings.HasPrefix(rest, "[") {
		host, _, _ := strings.Cut(rest[1:], "]")
		return host
	}
	for i := range len(rest) {
		if c := rest[i]; c == '/' || c == ':' || c == '?' || c == '\n' {
			return rest[:i]
		}
	}
	return rest
}

// urlOf returns the URL of a name.
func urlOf(name string) string {
	url, _, _ := strings.Cut(name, "\n")
	return url
}

func languages(q message.Fields) []string { return protocol.Languages(q) }
func vary(f message.Fields) []string      { return protocol.Vary(f) }

func language(q, s message.Fields, m *mark) string {
	if !m.languages {
		return ""
	}
	return protocol.Language(q, s)
}

func equal(a, b []string) bool { return strings.Join(a, ",") == strings.Join(b, ",") }
