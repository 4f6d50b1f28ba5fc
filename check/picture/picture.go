//go:build !small

package picture

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/check/build"
	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/metric"
	"shuultuur/lib/neural"
	"shuultuur/lib/picture"
	"shuultuur/lib/setting"
)

const (
	maxBytes    = 16 << 20 // of a picture that is read
	usualSkin   = 10       // default of Config.Suspect
	suspectPage = 50       // score of a page from which on the model judges all its pictures
	maxEmbedded = 64       // pictures in data: URLs of one body that are judged
)

// Parts are the parts that a check is built from besides its settings. All are
// optional.
type Parts struct {
	Memory build.Memory
	Key    []byte // the gateway's key, for locked lists
	Trial  bool   // do not encrypt files of locked lists
	// Gallery records findings.
	Gallery *Gallery
}

// A Check judges pictures.
type Check struct {
	skin    bool
	full    bool
	suspect int
	lists   map[string]*hashes
	names   []string
	pdq     bool // some list needs the expensive hash
	model   *Model
	jobs    jobs
	known   verdictMemory
	pages   pages
	holds   holdLimits
	files   []string
	counters
	problems []string
	gallery  *Gallery
}

// Build implements [build.Setting].
func (c *Config) Build(p build.Parts) (filter.Check, error) {
	gallery, _ := p.Gallery.(*Gallery)
	return New(*c, Parts{Memory: p.Memory, Key: p.Key, Trial: p.Trial, Gallery: gallery})
}

// Explain describes a picture without lists and model.
func (*Config) Explain(ctx context.Context, b []byte) []string { return new(Check).Explain(ctx, b) }

// New reads the lists and the model, and encrypts the files of locked lists.
func New(cfg Config, parts Parts) (*Check, error) {
	workers := int(cfg.Workers)
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	c := &Check{skin: cfg.Skin, full: cfg.Full, suspect: usualSkin, lists: map[string]*hashes{}, jobs: newJobs(workers), counters: newCounters(), gallery: parts.Gallery}
	if cfg.Suspect != nil {
		if c.suspect = *cfg.Suspect; c.suspect < 0 || c.suspect > 100 {
			return nil, setting.At("suspect", fmt.Errorf("%d is not a score from 0 to 100", c.suspect))
		}
	}
	digest := sha256.New()
	fmt.Fprint(digest, "pictures 2 ", c.skin, c.suspect)
	for _, name := range slices.Sorted(maps.Keys(cfg.Hashes)) {
		l := cfg.Hashes[name]
		h, err := readHashes(l, parts.Key)
		if err != nil {
			return nil, setting.At("hashes."+name, err)
		}
		fmt.Fprintf(digest, " %q %x %v %d", name, h.digest, h.locked, h.dhash.within)
		c.lists[name] = h
		c.names = append(c.names, name)
		c.pdq = c.pdq || h.pdq.len() > 0
		c.files = append(c.files, string(l.File))
	}
	if cfg.Model != "" {
		m, err := OpenModel(string(cfg.Model))
		if err != nil {
			return nil, setting.At("model", err)
		}
		m.idle = make(chan *neural.Worker, workers)
		fmt.Fprintf(digest, " %x", m.digest)
		c.model, c.files = m, append(c.files, m.files...)
	} else if cfg.Suspect != nil {
		return nil, setting.At("suspect", errors.New("it has no effect without a model"))
	}
	if !c.skin && len(c.names) == 0 && c.model == nil {
		return nil, errors.New("there is nothing to look for in pictures: set skin, hashes or model")
	}
	if parts.Key != nil && !parts.Trial {
		c.lockLists(parts.Key)
	}
	c.known = verdictMemory{memory: parts.Memory, revision: digest.Sum(nil)}
	return c, nil
}

// Close waits for pictures that are being judged.
func (c *Check) Close() { c.jobs.works.End(lastJobs) }

// Name returns "picture".
func (*Check) Name() string { return "picture" }

// Cost implements [filter.Check].
func (*Check) Cost() filter.Cost { return filter.Heavy }

// Contextual implements [filter.Contextual]: pictures count towards their page.
func (*Check) Contextual() {}

// Files returns the files that were read.
func (c *Check) Files() []string { return slices.Clone(c.files) }

// Categories implements [filter.Check].
func (c *Check) Categories() []filter.Category {
	cats := []filter.Category{{Name: Unread}}
	if c.skin {
		cats = append(cats, filter.Category{Name: Skin, Scored: true})
	}
	if c.model != nil {
		cats = append(cats, filter.Category{Name: Explicit, Scored: true})
	}
	if c.skin || c.model != nil {
		cats = append(cats, filter.Category{Name: Page, Scored: true})
	}
	for _, name := range c.names {
		cats = append(cats, filter.Category{Name: Listed + name, Locked: c.lists[name].locked})
	}
	return cats
}

// Wants reports whether the effective type of a response is a picture, or text that may
// contain pictures. For a request it reports whether pictures of the requested page have been
// judged.
func (c *Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	if s == filter.Request {
		return t.URL != "" && c.pages.score(t.URL) > 0
	}
	if s != filter.ResponseBody || t.Request != nil && t.Request.Method == "HEAD" {
		return false
	}
	if t.Response == nil {
		return true
	}
	if st := t.Response.Status; st < 200 || st == 204 || st == 205 || st == 206 || st == 304 {
		return false
	}
	head := t.Content()
	media := head.Type()
	if isPicture(media) || t.ForPicture() {
		head.KeepAll()
		return true
	}
	return holdsPictures(media) || saysNothing(head)
}

// isPicture reports whether a media type is that of a picture. SVG counts as text.
func isPicture(media string) bool {
	return strings.HasPrefix(media, "image/") && media != "image/svg+xml"
}

// saysNothing reports whether a type does not identify the content of a body, so that a
// script may show it as a picture.
func saysNothing(h *content.Head) bool {
	if h.Use() != content.Program && h.Use() != content.Unsaid {
		return false
	}
	media := h.Type()
	return media == "" || media == "application/octet-stream" || media == "binary/octet-stream"
}

// replaced is the type of an endless series of pictures, each of which replaces the one
// before.
const replaced = "multipart/x-mixed-replace"

// holdsPictures reports whether bodies of a media type may contain pictures in data: URLs.
func holdsPictures(media string) bool {
	switch media {
	case "image/svg+xml", "text/html", "text/css", "application/xhtml+xml", "application/json", "text/javascript", "application/javascript":
		return true
	}
	return false
}

// Find judges a complete picture, or the pictures in a complete text. Of incomplete bodies it
// only judges progressive JPEGs, by their first scans.
func (c *Check) Find(ctx context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	if s == filter.Request {
		if n := c.pages.score(t.URL); n > 0 {
			dst = append(dst, filter.Finding{Check: "picture", Category: Page, Score: n, Evidence: "by the pictures that it showed in the last minute"})
		}
		return dst, nil
	}
	if s != filter.ResponseBody || t.Body == nil {
		return dst, nil
	}
	media, shown := t.Body.Type(), false
	if !isPicture(media) && (t.ForPicture() || saysNothing(t.Content())) {
		if media == replaced {
			return append(dst, filter.Finding{Check: "picture", Category: Unread, Evidence: "an endless stream of pictures, each replacing the one before"}), nil
		}
		shown = isPicture(t.Body.SniffedType())
	}
	if !t.Body.Complete() {
		switch {
		case media == "image/jpeg":
			dst = c.judgeFirstScan(ctx, t, dst)
		case shown || isPicture(media):
			_, _ = t.Body.Decoded() // makes the body keep it
		}
		return dst, nil
	}
	if !shown && !isPicture(media) && !holdsPictures(media) {
		return dst, nil
	}
	b, err := t.Body.Decoded()
	if shown || isPicture(media) {
		if err != nil || len(b) == 0 {
			return c.unread(dst, "broken"), nil
		}
		if dst = c.one(ctx, t, b, dst, ""); !holdsPictures(media) {
			return dst, nil
		}
	}
	if err != nil {
		return dst, nil // the decoder reports it
	}
	if media == "image/svg+xml" {
		dst = c.lookUpDigests(b, sha256.Sum256(b), dst)
	}
	all := picture.Embedded(b, maxEmbedded+1)
	if len(all) > maxEmbedded {
		all = all[:maxEmbedded]
		dst = c.unread(dst, fmt.Sprintf("more than %d pictures in data: URLs", maxEmbedded))
	}
	for i, p := range all {
		dst = c.one(ctx, t, p, dst, fmt.Sprintf("data: URL %d: ", i+1))
	}
	return dst, nil
}

// judgeFirstScan judges a progressive JPEG by its first scans, while the rest is still arriving. If
// that is not possible yet, the complete picture is judged.
func (c *Check) judgeFirstScan(ctx context.Context, t *filter.Transaction, dst []filter.Finding) []filter.Finding {
	b, err := t.Body.Decoded()
	if err != nil || len(b) >= maxBytes {
		return dst
	}
	file, ok := picture.FirstScans(b)
	if !ok {
		return dst
	}
	head, err := picture.Look(file)
	if err != nil {
		return dst
	}
	v, why := c.verdictOn(ctx, t, sha256.Sum256(file), file, head)
	if why != "" {
		return dst
	}
	c.seen.With("early").Inc()
	for _, f := range v.Findings {
		if f.Category != Unread {
			f.Evidence = "by its first scans: " + f.Evidence
			dst = append(dst, f)
		}
	}
	return dst
}

// verdictOn returns the remembered verdict, or waits for a job; why explains why there is
// none.
func (c *Check) verdictOn(ctx context.Context, t *filter.Transaction, sum [32]byte, b []byte, head picture.Head) (v verdict, why string) {
	bad := c.pages.score(referer(t)) >= suspectPage
	ask := c.full || bad || c.suspect == 0
	v, ok := c.known.get(ctx, sum)
	if ok && (v.Asked || !ask || c.model == nil) {
		c.seen.With("known").Inc()
		return v, ""
	}
	return c.wait(ctx, t, c.start(sum, b, head, ask, referer(t)), bad)
}

// one judges one picture; where is its position in the body, for evidence.
func (c *Check) one(ctx context.Context, t *filter.Transaction, b []byte, dst []filter.Finding, where string) []filter.Finding {
	n := len(dst)
	dst = c.look(ctx, t, b, dst)
	for i := range dst[n:] {
		dst[n+i].Evidence = where + dst[n+i].Evidence
	}
	return dst
}

func (c *Check) look(ctx context.Context, t *filter.Transaction, b []byte, dst []filter.Finding) []filter.Finding {
	if len(b) >= maxBytes {
		return c.unread(dst, "too large")
	}
	sum := sha256.Sum256(b)
	if listed := c.lookUpDigests(b, sum, dst); len(listed) > len(dst) {
		c.show(t, sum, b, listed[len(dst):])
		return listed
	}
	head, err := picture.Look(b)
	switch {
	case errors.Is(err, picture.ErrIcon):
		c.seen.With("icon").Inc()
		return dst
	case err != nil:
		return c.unread(dst, err.Error())
	}
	page := referer(t)
	v, why := c.verdictOn(ctx, t, sum, b, head)
	if why != "" {
		return append(dst, filter.Finding{Check: "picture", Category: Unread, Evidence: why})
	}
	c.show(t, sum, b, v.Findings)
	c.pages.add(page, sum, v.Findings)
	if n := c.pages.score(page); n > 0 && page != "" && (c.skin || c.model != nil) {
		dst = append(dst, filter.Finding{Check: "picture", Category: Page, Score: n, Evidence: "by the pictures of " + page + " in the last minute"})
	}
	return append(dst, v.Findings...)
}

// show adds findings to the gallery.
func (c *Check) show(t *filter.Transaction, sum [32]byte, b []byte, found []filter.Finding) {
	if c.gallery == nil {
		return
	}
	locked := slices.ContainsFunc(found, func(f filter.Finding) bool {
		l := c.lists[strings.TrimPrefix(f.Category, Listed)]
		return l != nil && l.locked
	})
	c.gallery.note(t, sum, b, found, locked)
}

// referer returns the page that a picture belongs to.
func referer(t *filter.Transaction) string {
	if t.Request == nil {
		return ""
	}
	page, _, _ := strings.Cut(string(t.Request.Get("Referer")), "#")
	return page
}

// wait waits for a verdict up to the policy's patience. Then the picture passes, and the
// verdict is remembered for the next request. Pictures of a page that wait for the model are
// held together, so that many of them do not delay the page much, unless the page is known to
// be bad.
func (c *Check) wait(ctx context.Context, t *filter.Transaction, j *job, bad bool) (v verdict, why string) {
	if j == nil {
		c.seen.With("busy").Inc()
		return v, "no capacity"
	}
	defer func() {
		j.waiting.Add(-1)
		j.notifyWaiters()
	}()
	patience := t.Verdict.Patience
	bounded := patience > 0 && !c.full
	timer := time.NewTimer(patience)
	defer timer.Stop()
	late := timer.C
	if !bounded {
		late = nil
	}
	asks := j.asks
	var many <-chan struct{}
	var of *hold
	why = "not judged within the patience of the policy; the next request will have the verdict"
	for {
		select {
		case <-j.done:
			if j.err != nil {
				c.seen.With("unread").Inc()
				return v, j.err.Error()
			}
			return j.verdict, ""
		case <-asks:
			asks = nil
			if !bounded || bad {
				j.notifyWaiters()
				continue
			}
			page := referer(t)
			var left time.Duration
			left, of = c.holds.join(holdKey{t.Client.Addr, page[:min(len(page), maxPageURL)]}, patience)
			if left > 0 {
				j.notifyWaiters()
			}
			if left == patience {
				many = of.many
				continue
			}
			why = lateOfMany
			timer.Reset(left)
			continue
		case <-many:
			many, why = nil, lateOfMany
			timer.Reset(of.remaining(patience))
			continue
		case <-late:
		case <-ctx.Done():
			why = "the client has gone"
		}
		c.seen.With("late").Inc()
		return v, why
	}
}

const lateOfMany = "not judged in the time for which the pictures of a page are held; the next request will have the verdict"

func (c *Check) unread(dst []filter.Finding, why string) []filter.Finding {
	c.seen.With("unread").Inc()
	return append(dst, filter.Finding{Check: "picture", Category: Unread, Evidence: why})
}

// lookUpDigests looks up the digests of the bytes.
func (c *Check) lookUpDigests(b []byte, sum [32]byte, dst []filter.Finding) []filter.Finding {
	var old []byte
	for _, name := range c.names {
		l := c.lists[name]
		if line, ok := l.sha256.find(sum[:]); ok {
			dst = append(dst, l.finding(name, fmt.Sprintf("sha256 %x", sum), line))
			continue
		}
		if len(l.md5) == 0 {
			continue
		}
		if old == nil {
			s := md5.Sum(b)
			old = s[:]
		}
		if line, ok := l.md5.find(old); ok {
			dst = append(dst, l.finding(name, fmt.Sprintf("md5 %x", old), line))
		}
	}
	return dst
}

// counters are the metrics of a check.
type counters struct {
	seen  *metric.CounterVec
	spent *atomic.Int64 // total time of the model
}

var spentDesc = metric.NewDesc("shuultuur_picture_model_seconds_total", "Time that the model has worked.")

func newCounters() counters {
	return counters{
		seen:  metric.NewCounterVec("shuultuur_pictures_total", "Pictures by what became of them: judged, known, asked, near, early, icon, unread, late or busy.", "result"),
		spent: new(atomic.Int64),
	}
}

// Collect implements [metric.Collector].
func (c *Check) Collect(ch chan<- metric.Metric) {
	c.seen.Collect(ch)
	ch <- metric.New(spentDesc, metric.Count, time.Duration(c.spent.Load()).Seconds())
}
