package cache

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/idna"

	"shuultuur/cache/protocol"
	"shuultuur/lib/message"
)

// A URLReport describes the stored responses for a URL, the reasons, and how a request for it
// would be answered now.
type URLReport struct {
	URL    string   `json:"url"`
	Stored bool     `json:"stored"`
	Where  string   `json:"where,omitempty"`  // memory, disk, or both
	Varies []string `json:"varies,omitempty"` // request fields by which there are several variants
	Status int      `json:"status,omitempty"`
	// Since is when the origin last sent or confirmed it.
	Since      time.Time  `json:"since,omitzero"`
	Bytes      int64      `json:"bytes,omitempty"`
	Part       string     `json:"part,omitempty"` // range of the whole, if it is a part
	Age        string     `json:"age,omitempty"`
	Fresh      string     `json:"fresh,omitempty"` // time left; negative for the time since it became stale
	Why        string     `json:"why,omitempty"`   // reason for its lifetime
	Verdicts   int        `json:"verdicts"`        // number of stored verdicts of policies
	Tags       []string   `json:"tags,omitempty"`
	Categories []string   `json:"categories,omitempty"`
	Fields     [][]string `json:"fields,omitempty"`
	Next       string     `json:"next"` // how a request would be answered
}

// Look describes the stored responses for a URL and a request with these fields, given as
// name and value.
func (c *Cache) Look(rawURL string, fields [][2]string, now time.Time) (*URLReport, error) {
	q, err := requestFor(rawURL)
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		q.Fields.Add(f[0], f[1])
	}
	name := c.appendName(nil, q, nil)
	l := &URLReport{URL: string(name), Next: "a request goes to the origin: nothing is stored"}
	if c.peers != nil {
		if n := c.peers.Owner(hash(name)); n != nil {
			l.Next = "a request goes to the node " + n.Name + ", which keeps this object"
			return l, nil
		}
	}
	o, m := c.find(name, q)
	if m != nil {
		l.Varies = m.names
	}
	if c.neverStores(q, nil) {
		l.Next = "a rule has the request bypass the cache"
		return l, nil
	}
	if o == nil {
		if m != nil {
			l.Next = "a request goes to the origin: nothing is stored for these fields of the request"
		}
		return l, nil
	}
	l.describe(c, o, q, now)
	return l, nil
}

// requestFor returns a request for a URL.
func requestFor(rawURL string) (*message.Request, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("%q is not a URL with http or https", rawURL)
	}
	port, _ := strconv.ParseUint(u.Port(), 10, 16)
	host := u.Hostname()
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = ascii
	}
	return &message.Request{Method: "GET", Scheme: u.Scheme, Host: []byte(host), Port: uint16(port), Path: []byte(u.RequestURI())}, nil
}

// nameOf returns the URL by which its objects are found.
func (c *Cache) nameOf(rawURL string) (string, error) {
	q, err := requestFor(rawURL)
	if err != nil {
		return "", err
	}
	return string(appendURL(nil, q, c.ignored)), nil
}

func (l *URLReport) describe(c *Cache, o *object, q *message.Request, now time.Time) {
	k := hash([]byte(o.name))
	c.mu.RLock()
	_, inMemory := c.memory.Peek(k)
	c.mu.RUnlock()
	switch onDisk := c.disk != nil && c.disk.Has(k); {
	case inMemory && onDisk:
		l.Where = "memory and disk"
	case inMemory:
		l.Where = "memory"
	default:
		l.Where = "disk"
	}
	f := &o.facts
	left := f.FreshFor(now)
	l.Stored, l.Status, l.Since, l.Bytes = true, o.res.Status, f.Received, o.length
	l.Age, l.Fresh = f.AgeAt(now).Round(time.Second).String(), left.Round(time.Second).String()
	l.Tags, l.Categories = o.labels.tags, o.labels.categories
	if !o.isComplete() {
		l.Part = fmt.Sprintf("bytes %d-%d of %d", o.offset, o.offset+o.length-1, o.size)
	}
	o.verdicts.mu.Lock()
	l.Verdicts = len(o.verdicts.all)
	o.verdicts.mu.Unlock()
	switch {
	case f.Control.SMaxAge >= 0:
		l.Why = "the origin says s-maxage"
	case f.Control.MaxAge >= 0:
		l.Why = "the origin says max-age"
	case f.Heuristic:
		l.Why = "no field says so: a tenth of the time since it was modified, or a rule"
	default:
		l.Why = "the origin says Expires"
	}
	if f.Control.NoCache {
		l.Why += ", and no-cache"
	}
	for _, x := range o.res.Fields {
		l.Fields = append(l.Fields, []string{string(x.Name), string(x.Value)})
	}
	asked := protocol.Control(q.Fields)
	switch use := f.Judge(&asked, now); {
	case use == protocol.Fresh:
		l.Next = "a request is answered from the cache"
	case use == protocol.Refresh:
		l.Next = "a request is answered from the cache while the object is validated"
	case o.verifiable():
		l.Next = "it is validated with the origin"
	default:
		l.Next = "it is fetched again"
	}
	if f.MayServeStale(&asked, now, c.offline) && left <= 0 {
		l.Next += "; it is served as it is when the origin cannot be reached"
	}
}

// Stats are the figures of a cache for people.
type Stats struct {
	Objects     int   `json:"objects"` // in memory
	Memory      int64 `json:"memory_bytes"`
	DiskObjects int   `json:"disk_objects"`
	Disk        int64 `json:"disk_bytes"`
	// HitRatio is the share of requests answered without a new body from the origin.
	HitRatio      float64          `json:"hit_ratio"`
	Answers       map[string]int64 `json:"answers"`
	Saved         int64            `json:"saved_bytes"`
	Categories    []CategoryStats  `json:"categories"`
	Writes        int64            `json:"disk_writes"`
	WritesAvoided int64            `json:"disk_writes_avoided"`
	Offline       bool             `json:"offline"`
	Peers         []PeerStats      `json:"peers,omitempty"`
}

// PeerStats are the figures of another node that shares its objects.
type PeerStats struct {
	Node   string `json:"node"`
	Up     bool   `json:"up"`
	Hits   int64  `json:"hits"`
	Misses int64  `json:"misses"`
	Failed int64  `json:"failed"`
}

// CategoryStats are the figures of one category of hosts; "" is those without.
type CategoryStats struct {
	Category string  `json:"category"`
	Requests int64   `json:"requests"`
	HitRatio float64 `json:"hit_ratio"`
	Saved    int64   `json:"saved_bytes"`
}

// Stats returns the figures of the cache.
func (c *Cache) Stats() Stats {
	s := Stats{Answers: map[string]int64{}, Offline: c.uplink.failed.Load() >= downAfter}
	c.mu.RLock()
	s.Objects, s.Memory = c.memory.Len(), c.memory.Bytes()
	c.mu.RUnlock()
	if c.disk != nil {
		s.DiskObjects, s.Disk, s.Writes, s.WritesAvoided = c.disk.Len(), c.disk.Bytes(), c.disk.Writes.Load(), c.avoided.Load()
	}
	if c.peers != nil {
		for _, n := range c.peers.Nodes() {
			s.Peers = append(s.Peers, PeerStats{n.Name, n.Up(), n.Hits.Load(), n.Misses.Load(), n.Failed.Load()})
		}
	}
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	all, hits := int64(0), int64(0)
	for _, name := range slices.Sorted(maps.Keys(c.tally.of)) {
		x := CategoryStats{Category: name, Saved: c.tally.of[name].saved}
		answered := int64(0)
		for result, n := range c.tally.of[name].answers {
			s.Answers[result] += n
			x.Requests += n
			if result != "miss" {
				answered += n
			}
		}
		x.HitRatio = float64(answered) / float64(max(1, x.Requests))
		s.Saved += x.Saved
		s.Categories = append(s.Categories, x)
		all, hits = all+x.Requests, hits+answered
	}
	s.HitRatio = float64(hits) / float64(max(1, all))
	return s
}
