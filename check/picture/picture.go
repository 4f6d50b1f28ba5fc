// Package picture looks at the pictures of responses: whether they are on a list
// of hashes, and how much skin they show.
//
// A picture passes a gate first (type and size by its own bytes; icons are never
// decoded), is decoded at an eighth of its size, and judged. Verdicts are
// remembered by the SHA-256 of the bytes, so that no picture is decoded twice.
// A bounded number is decoded at a time; one that finds no room, or cannot be
// decoded, gets the finding picture-unread.
package picture

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"shuultuur/content/picture"
	"shuultuur/filter"
	"shuultuur/setting"
)

// Config says what is looked for in pictures.
type Config struct {
	Skin   bool                `yaml:"skin"`   // report how much skin a picture shows
	Hashes map[string]HashList `yaml:"hashes"` // lists of hashes by name
	// Workers bounds the pictures that are decoded at a time; 0 means one for
	// each processor.
	Workers setting.Count `yaml:"workers"`
}

// Findings of this check.
const (
	Skin   = "picture/skin"
	Listed = "picture/listed:"
	Unread = "picture-unread"
)

const maxBytes = 16 << 20 // of a picture that is read

// A Check looks at pictures.
type Check struct {
	skin  bool
	lists map[string]*hashes
	names []string
	pdq   bool // a list needs the costly hash
	slots chan struct{}
	known *memory
	files []string

	seen *prometheus.CounterVec
}

// New reads the lists.
func New(cfg Config) (*Check, error) {
	workers := int(cfg.Workers)
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	c := &Check{
		skin: cfg.Skin, lists: map[string]*hashes{}, slots: make(chan struct{}, workers), known: newMemory(),
		seen: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shuultuur_pictures_total",
			Help: "Pictures by what became of them: judged, known, icon, unread or busy.",
		}, []string{"result"}),
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Hashes)) {
		l := cfg.Hashes[name]
		h, err := readHashes(l)
		if err != nil {
			return nil, setting.At("hashes."+name, err)
		}
		c.lists[name] = h
		c.names = append(c.names, name)
		c.pdq = c.pdq || len(h.pdq.all) > 0
		c.files = append(c.files, string(l.File))
	}
	if !c.skin && len(c.names) == 0 {
		return nil, errors.New("nothing is looked for in pictures: set skin or hashes")
	}
	return c, nil
}

// Name returns "picture".
func (*Check) Name() string { return "picture" }

// Cost implements [filter.Check].
func (*Check) Cost() filter.Cost { return filter.Heavy }

// Files lists the files that were read.
func (c *Check) Files() []string { return slices.Clone(c.files) }

// Categories implements [filter.Check].
func (c *Check) Categories() []filter.Category {
	cats := []filter.Category{{Name: Unread}}
	if c.skin {
		cats = append(cats, filter.Category{Name: Skin, Scored: true})
	}
	for _, name := range c.names {
		cats = append(cats, filter.Category{Name: Listed + name})
	}
	return cats
}

// Wants says whether a response is a picture, by its effective type.
func (c *Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	if s != filter.ResponseBody || t.Request != nil && t.Request.Method == "HEAD" {
		return false
	}
	if t.Response == nil {
		return true
	}
	if st := t.Response.Status; st < 200 || st == 204 || st == 205 || st == 206 || st == 304 {
		return false
	}
	return isPicture(t.Content().Type())
}

// isPicture says whether a media type is that of pictures. SVG is text.
func isPicture(media string) bool {
	return strings.HasPrefix(media, "image/") && media != "image/svg+xml"
}

// Find judges a whole picture. While it has not come whole, there is no finding
// yet.
func (c *Check) Find(ctx context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	if s != filter.ResponseBody || t.Body == nil || !isPicture(t.Body.Type()) || !t.Body.Complete() {
		return dst, nil
	}
	b, err := t.Body.Decoded()
	if err != nil || len(b) == 0 {
		return c.unread(dst, "broken"), nil
	}
	if len(b) >= maxBytes {
		return c.unread(dst, "too large"), nil
	}
	head, err := picture.Look(b)
	listed := c.exact(b, dst)
	if len(listed) > len(dst) {
		return listed, nil
	}
	switch {
	case errors.Is(err, picture.ErrIcon):
		c.seen.WithLabelValues("icon").Inc()
		return dst, nil
	case err != nil:
		return c.unread(dst, err.Error()), nil
	}
	sum := sha256.Sum256(b)
	if found, ok := c.known.get(sum); ok {
		c.seen.WithLabelValues("known").Inc()
		return append(dst, found...), nil
	}
	select {
	case c.slots <- struct{}{}:
	default:
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			c.seen.WithLabelValues("busy").Inc()
			return append(dst, filter.Finding{Check: "picture", Category: Unread, Evidence: "no capacity"}), nil
		}
	}
	defer func() { <-c.slots }()
	found, err := c.judge(b, head)
	if err != nil {
		return c.unread(dst, err.Error()), nil
	}
	c.seen.WithLabelValues("judged").Inc()
	c.known.put(sum, found)
	return append(dst, found...), nil
}

func (c *Check) unread(dst []filter.Finding, why string) []filter.Finding {
	c.seen.WithLabelValues("unread").Inc()
	return append(dst, filter.Finding{Check: "picture", Category: Unread, Evidence: why})
}

// exact looks for the digests of the bytes.
func (c *Check) exact(b []byte, dst []filter.Finding) []filter.Finding {
	var sum, old string
	for _, name := range c.names {
		l := c.lists[name]
		if len(l.sha256) > 0 {
			if sum == "" {
				s := sha256.Sum256(b)
				sum = hex.EncodeToString(s[:])
			}
			if line, ok := l.sha256[sum]; ok {
				return append(dst, l.finding(name, "sha256 "+sum, line))
			}
		}
		if len(l.md5) > 0 {
			if old == "" {
				s := md5.Sum(b)
				old = hex.EncodeToString(s[:])
			}
			if line, ok := l.md5[old]; ok {
				return append(dst, l.finding(name, "md5 "+old, line))
			}
		}
	}
	return dst
}

// judge decodes a picture.
func (c *Check) judge(b []byte, head picture.Head) (found []filter.Finding, err error) {
	p, err := picture.Shrink(b)
	if err != nil {
		return nil, err
	}
	for _, name := range c.names {
		l := c.lists[name]
		if len(l.dhash.all) == 0 {
			continue
		}
		h := p.DHash()
		if at, distance, ok := l.dhash.nearest(h, l.distance); ok {
			found = append(found, l.finding(name, fmt.Sprintf("dhash %016x at distance %d", h, distance), l.dhash.lines[at]))
		}
	}
	if c.pdq {
		h, quality, err := picture.PDQ(b)
		if err != nil {
			return nil, err
		}
		for _, name := range c.names {
			l := c.lists[name]
			if quality < minQuality || len(l.pdq.all) == 0 {
				continue
			}
			if at, distance, ok := l.pdq.nearest(h); ok {
				found = append(found, l.finding(name, fmt.Sprintf("pdq %s at distance %d, quality %d", h, distance, quality), l.pdq.lines[at]))
			}
		}
	}
	if c.skin {
		s := p.Skin()
		found = append(found, filter.Finding{Check: "picture", Category: Skin, Score: s.Score,
			Evidence: fmt.Sprintf("%s of %d × %d: skin %.0f %%, largest region %.0f %%, %d regions, texture %.1f",
				head.Format, head.Width, head.Height, 100*s.Share, 100*s.Largest, s.Regions, s.Texture)})
	}
	return found, nil
}

// Describe implements [prometheus.Collector].
func (c *Check) Describe(ch chan<- *prometheus.Desc) { c.seen.Describe(ch) }

// Collect implements [prometheus.Collector].
func (c *Check) Collect(ch chan<- prometheus.Metric) { c.seen.Collect(ch) }

// A memory remembers findings of the pictures seen last.
type memory struct {
	mu    sync.Mutex
	known map[[32]byte][]filter.Finding
	order [][32]byte // a ring, oldest at next
	next  int
}

const remembered = 20_000 // pictures, about 200 bytes each

func newMemory() *memory {
	return &memory{known: map[[32]byte][]filter.Finding{}, order: make([][32]byte, 0, 1024)}
}

func (m *memory) get(sum [32]byte) ([]filter.Finding, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.known[sum]
	return f, ok
}

func (m *memory) put(sum [32]byte, found []filter.Finding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.known[sum]; ok {
		return
	}
	if len(m.order) < remembered {
		m.order = append(m.order, sum)
	} else {
		delete(m.known, m.order[m.next])
		m.order[m.next] = sum
		m.next = (m.next + 1) % remembered
	}
	m.known[sum] = found
}
