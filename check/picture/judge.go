//go:build !small

package picture

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/check/build"
	"shuultuur/filter"
	"shuultuur/lib/picture"
	"shuultuur/lib/wait"
)

// A verdict is the remembered result for a picture.
type verdict struct {
	Findings []filter.Finding `json:"findings"`
	Asked    bool             `json:"asked"` // the model has judged it
}

// jobs are the pictures that are being judged, each only once for all who wait.
type jobs struct {
	slots chan struct{} // of pictures being decoded
	asks  chan struct{} // of pictures that the model judges
	spare chan struct{} // the same, for pictures that no request waits for
	works wait.Group
	most  int // jobs that may wait

	mu    sync.Mutex
	by    map[[32]byte]*job
	bytes int
	last  time.Time // when the last picture came
}

const (
	queued      = 64               // waiting jobs per worker
	queuedBytes = 64 << 20         // of all jobs
	longest     = time.Minute      // limit of a job
	lastJobs    = 10 * time.Second // how long jobs go on after the check is closed
)

func newJobs(workers int) jobs {
	// The model works on half of the processors, so that requests find one free.
	return jobs{slots: make(chan struct{}, workers), asks: make(chan struct{}, max(1, workers/2)), spare: make(chan struct{}, 1), most: (1 + queued) * workers, by: map[[32]byte]*job{}}
}

// A job is a picture that is being judged. When done is closed, the verdict is valid.
type job struct {
	done    chan struct{}
	verdict verdict
	err     error

	page    string        // the page of its first request
	waiting atomic.Int32  // number of requests waiting for it
	news    chan struct{} // holds a value when a request came, left or decided to stay
	asks    chan struct{} // closed when the model is about to judge
	asked   bool          // asks is closed
}

// notifyWaiters notifies the job that the requests waiting for it have changed.
func (j *job) notifyWaiters() {
	select {
	case j.news <- struct{}{}:
	default:
	}
}

// start starts a job for a picture, or returns the current one for it. It returns nil if too
// many jobs wait. The caller waits for the job (see wait).
func (c *Check) start(sum [32]byte, b []byte, head picture.Head, ask bool, page string) *job {
	c.jobs.mu.Lock()
	defer c.jobs.mu.Unlock()
	c.jobs.last = time.Now()
	if j := c.jobs.by[sum]; j != nil {
		j.waiting.Add(1)
		j.notifyWaiters()
		return j
	}
	if len(c.jobs.by) >= c.jobs.most || c.jobs.bytes+len(b) > queuedBytes {
		return nil
	}
	j := &job{page: page, done: make(chan struct{}), asks: make(chan struct{}), news: make(chan struct{}, 1)}
	j.waiting.Store(1)
	c.jobs.by[sum] = j
	c.jobs.bytes += len(b)
	own := append([]byte(nil), b...) // the body ends with the transaction
	c.jobs.works.Go(func(ctx context.Context) { c.work(ctx, j, sum, own, head, ask) })
	return j
}

// work judges a picture when its turn comes.
func (c *Check) work(ctx context.Context, j *job, sum [32]byte, b []byte, head picture.Head, ask bool) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	slot := c.jobs.slots
	slot <- struct{}{}
	defer func() {
		if p := recover(); p != nil {
			j.err = fmt.Errorf("the decoder panicked: %v", p)
		}
		if j.err == nil {
			c.seen.With("judged").Inc()
			c.known.put(ctx, sum, j.verdict)
			c.pages.add(j.page, sum, j.verdict.Findings) // also if no request has waited so far
		}
		<-slot
		c.jobs.mu.Lock()
		delete(c.jobs.by, sum)
		c.jobs.bytes -= len(b)
		c.jobs.mu.Unlock()
		close(j.done)
	}()
	j.verdict, j.err = c.judge(ctx, b, head, ask, func() {
		<-slot // free for other pictures meanwhile
		if !j.asked {
			j.asked = true
			select {
			case <-j.news: // an old notification
			default:
			}
			close(j.asks)
			if j.waiting.Load() > 0 {
				<-j.news // those who wait may leave now
			}
		}
		slot = c.jobs.turn(j)
	})
}

// turn waits until the model may judge a picture. Pictures that no request waits for must
// neither slow down a page that is being loaded nor occupy the model. They are judged one at
// a time, when no picture has come for a while.
func (q *jobs) turn(j *job) (slot chan struct{}) {
	begun := time.Now()
	for {
		if j.waiting.Load() > 0 {
			q.asks <- struct{}{}
			if j.waiting.Load() > 0 {
				return q.asks
			}
			<-q.asks
		}
		rest := min(q.busyFor(), longestRest-time.Since(begun))
		if rest <= 0 {
			q.spare <- struct{}{}
			if q.busyFor() <= 0 || time.Since(begun) >= longestRest {
				return q.spare
			}
			<-q.spare
			continue
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-j.news:
		}
		timer.Stop()
	}
}

const (
	quiet       = 250 * time.Millisecond // without a new picture for this time, no page is being loaded
	longestRest = 2 * time.Second        // longest delay of a picture that no request waits for
)

// busyFor returns how long to delay pictures that no request waits for: not at all if the
// queue is half full.
func (q *jobs) busyFor() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.by) > q.most/2 || q.bytes > queuedBytes/2 {
		return 0
	}
	return quiet - time.Since(q.last)
}

// judge judges a picture, or frames of an animation. With ask the model always judges it.
// before is called before the model judges.
func (c *Check) judge(ctx context.Context, b []byte, head picture.Head, ask bool, before func()) (v verdict, err error) {
	for i, still := range picture.Stills(b) {
		one, bad := c.judgeImage(ctx, still, head, ask, before)
		if i == 0 || bad == nil {
			err = bad // one valid frame suffices
		}
		v.Asked = v.Asked || one.Asked
		for _, f := range one.Findings {
			same := func(o filter.Finding) bool { return o.Category == f.Category }
			if k := slices.IndexFunc(v.Findings, same); k < 0 {
				v.Findings = append(v.Findings, f)
			} else if v.Findings[k].Score < f.Score {
				v.Findings[k] = f
			}
		}
	}
	return v, err
}

// judgeImage decodes and judges a single image.
func (c *Check) judgeImage(ctx context.Context, b []byte, head picture.Head, ask bool, before func()) (v verdict, err error) {
	p, err := picture.Shrink(b)
	if err != nil {
		return v, err
	}
	if p.Cut {
		c.seen.With("unread").Inc()
		v.Findings = append(v.Findings, filter.Finding{Check: "picture", Category: Unread, Evidence: "cut off: only the part that arrived is judged"})
	}
	s := p.Skin()
	ask = c.model != nil && (ask || s.Score >= c.suspect || s.Grey)
	var h picture.Hash
	quality := 0
	if c.pdq {
		if h, quality, err = picture.PDQ(b); err != nil {
			return v, err
		}
	}
	v.Findings = c.listed(p, h, quality, v.Findings)
	if c.skin {
		v.Findings = append(v.Findings, filter.Finding{Check: "picture", Category: Skin, Score: s.Score,
			Evidence: fmt.Sprintf("%s of %d × %d: skin %.0f %%, largest region %.0f %%, %d regions, fill %.0f %%, border %.0f %%, texture %.1f",
				head.Format, head.Width, head.Height, 100*s.Share, 100*s.Largest, s.Regions, 100*s.Fill, 100*s.Border, s.Texture)})
	}
	if !ask {
		return v, nil
	}
	before()
	f, err := c.ask(ctx, b)
	if err != nil {
		return v, err
	}
	v.Asked = true
	v.Findings = append(v.Findings, f)
	return v, nil
}

// LookUp looks up a picture in the lists by all its hashes: those of its bytes b, of the
// reduced picture p, and the PDQ hash h with its quality.
func (c *Check) LookUp(b []byte, p *picture.Planes, h picture.Hash, quality int) []filter.Finding {
	return c.listed(p, h, quality, c.lookUpDigests(b, sha256.Sum256(b), nil))
}

// listed looks up the hashes of a picture in the lists.
func (c *Check) listed(p *picture.Planes, h picture.Hash, quality int, dst []filter.Finding) []filter.Finding {
	d := uint64(0)
	for _, name := range c.names {
		l := c.lists[name]
		if l.dhash.len() > 0 {
			if d == 0 {
				d = p.DHash()
			}
			if at, distance, ok := l.dhash.nearest(d); ok {
				dst = append(dst, l.finding(name, fmt.Sprintf("dhash %016x at distance %d", d, distance), l.dhash.lines[at]))
				continue
			}
		}
		if quality < minQuality || l.pdq.len() == 0 {
			continue
		}
		if at, distance, ok := l.pdq.nearest(h[:]...); ok {
			dst = append(dst, l.finding(name, fmt.Sprintf("pdq %s at distance %d, quality %d", h, distance, quality), l.pdq.lines[at]))
		}
	}
	return dst
}

// ask has the model judge a picture, unless it has judged the same picture in another size. It
// compares hashes of the model's input, which take a tenth of the time of hashing the whole
// picture.
func (c *Check) ask(ctx context.Context, b []byte) (f filter.Finding, err error) {
	whole, err := c.model.decode(b)
	if err != nil {
		return f, err
	}
	img := c.model.fitted(whole)
	hashed := img
	if min(img.W, img.H) < leastHashed {
		hashed = whole
	}
	h, quality := hashed.PDQ()
	if quality >= minQuality {
		if f, ok := c.known.similar(ctx, h); ok {
			c.seen.With("near").Inc()
			return f, nil
		}
	}
	start := time.Now()
	score, labels, err := c.model.judge(ctx, img)
	took := time.Since(start)
	c.spent.Add(int64(took))
	if err != nil {
		return f, err
	}
	c.seen.With("asked").Inc()
	var says []string
	for _, l := range labels[:min(len(labels), 5)] {
		says = append(says, fmt.Sprintf("%s %.2f", l.Name, l.Score))
	}
	f = filter.Finding{Check: "picture", Category: Explicit, Score: score, Evidence: c.model.Title() + ": " + strings.Join(says, ", ")}
	if c.full {
		f.Evidence += fmt.Sprintf(" (%.0f ms)", float64(took.Microseconds())/1000)
	}
	if quality >= minQuality {
		c.known.keep(ctx, h, f)
	}
	return f, nil
}

// leastHashed is the length of the shorter side of a reduced picture that is hashed: two
// pixels for each sample of a PDQ hash.
const leastHashed = 128

// A verdictMemory remembers verdicts in the memory that a fleet shares. It also keeps the
// model's latest verdicts by hash, to find similar pictures.
type verdictMemory struct {
	memory   build.Memory
	revision []byte // of settings, lists and model

	mu   sync.Mutex
	last []hashedVerdict // a ring
	next int
}

type hashedVerdict struct {
	hash    picture.Hash
	finding filter.Finding
}

const (
	remembered = 24 * time.Hour
	lastHashes = 4096
	same       = 8 // largest difference, in bits, between hashes of one picture in two sizes
)

func (k *verdictMemory) key(kind byte, b []byte) (key [16]byte) {
	d := sha256.New()
	d.Write([]byte{kind})
	d.Write(k.revision)
	d.Write(b)
	copy(key[:], d.Sum(nil))
	return key
}

func (k *verdictMemory) get(ctx context.Context, sum [32]byte) (v verdict, ok bool) {
	if k.memory == nil {
		return v, false
	}
	b, ok := k.memory.Get(ctx, k.key('s', sum[:]))
	if !ok || json.Unmarshal(b, &v) != nil {
		return verdict{}, false
	}
	return v, true
}

func (k *verdictMemory) put(ctx context.Context, sum [32]byte, v verdict) {
	if k.memory == nil {
		return
	}
	if b, err := json.Marshal(v); err == nil {
		k.memory.Put(ctx, k.key('s', sum[:]), b, remembered)
	}
}

// similar returns the model's verdict on the same picture in another size.
func (k *verdictMemory) similar(ctx context.Context, h picture.Hash) (f filter.Finding, ok bool) {
	k.mu.Lock()
	best := same + 1
	for i := range k.last {
		if d := h.Distance(k.last[i].hash); d < best {
			best, f, ok = d, k.last[i].finding, true
		}
	}
	k.mu.Unlock()
	if ok || k.memory == nil {
		return f, ok
	}
	b, ok := k.memory.Get(ctx, k.key('p', []byte(h.String())))
	return f, ok && json.Unmarshal(b, &f) == nil
}

func (k *verdictMemory) keep(ctx context.Context, h picture.Hash, f filter.Finding) {
	k.mu.Lock()
	if len(k.last) < lastHashes {
		k.last = append(k.last, hashedVerdict{h, f})
	} else {
		k.last[k.next] = hashedVerdict{h, f}
		k.next = (k.next + 1) % lastHashes
	}
	k.mu.Unlock()
	if k.memory == nil {
		return
	}
	if b, err := json.Marshal(f); err == nil {
		k.memory.Put(ctx, k.key('p', []byte(h.String())), b, remembered)
	}
}

// pages are the scores of pages, by the pictures loaded for them.
type pages struct {
	mu sync.Mutex
	by map[string]*seenPage
}

type seenPage struct {
	until    time.Time
	pictures map[[32]byte]float64 // for each, 1 minus its score
}

const (
	pageTime     = time.Minute
	maxPages     = 4096
	maxOfPage    = 256
	maxPageURL   = 2048
	weightOfSkin = 0.25 // of a score of skin, relative to one of the model
)

// score returns the score of a page, 0 to 100: the probability that at least one of its
// pictures is explicit, if their scores were independent probabilities.
func (p *pages) score(page string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.by[page]
	if s == nil || time.Now().After(s.until) {
		return 0
	}
	left := 1.0
	for _, share := range s.pictures {
		left *= share
	}
	return int(math.Round(100 * (1 - left)))
}

// add adds a picture's score to its page. Skin counts only if the model has not judged the
// picture.
func (p *pages) add(page string, sum [32]byte, found []filter.Finding) {
	score := 0.0
	asked := slices.ContainsFunc(found, func(f filter.Finding) bool { return f.Category == Explicit })
	for _, f := range found {
		switch {
		case f.Category == Explicit:
			score = max(score, float64(f.Score)/100)
		case f.Category == Skin && !asked:
			score = max(score, weightOfSkin*float64(f.Score)/100)
		case strings.HasPrefix(f.Category, Listed):
			score = 1
		}
	}
	if page == "" || len(page) > maxPageURL || score < 0.05 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	s := p.of(page, now)
	s.until = now.Add(pageTime)
	if len(s.pictures) < maxOfPage {
		s.pictures[sum] = 1 - score
	}
}

// of returns the entry of a page, and makes one if needed. The caller holds the lock.
func (p *pages) of(page string, now time.Time) *seenPage {
	s := p.by[page]
	if s == nil || now.After(s.until) {
		makeRoom(p.by, func(s *seenPage) bool { return now.After(s.until) })
		if p.by == nil {
			p.by = map[string]*seenPage{}
		}
		s = &seenPage{pictures: map[[32]byte]float64{}, until: now.Add(pageTime)}
		p.by[page] = s
	}
	return s
}

// holdLimits limit how long pictures that the model judges are held, by client and page.
type holdLimits struct {
	mu sync.Mutex
	by map[holdKey]*hold
}

type holdKey struct {
	client netip.Addr
	page   string
}

// A hold is a burst of pictures of one page.
type hold struct {
	since time.Time     // when the first one came
	n     int           // number of pictures
	many  chan struct{} // closed when n exceeds few
}

const (
	burst = time.Second // pictures within this time after the first form a burst
	few   = 3           // pictures that hardly delay a page, because browsers fetch six at a time
)

// join returns how much longer a picture may be held. The first few of a burst are held for
// the full patience, unless many is closed: then all are held until a fifth of the patience
// has passed since the burst began (see [hold.remaining]).
func (h *holdLimits) join(key holdKey, patience time.Duration) (left time.Duration, b *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	b = h.by[key]
	if b == nil || now.Sub(b.since) > burst {
		makeRoom(h.by, func(b *hold) bool { return now.Sub(b.since) > burst })
		if h.by == nil {
			h.by = map[holdKey]*hold{}
		}
		b = &hold{since: now, many: make(chan struct{})}
		h.by[key] = b
	}
	if b.n++; b.n == few+1 {
		close(b.many)
	}
	if b.n == 1 {
		return patience, b
	}
	return b.remaining(patience), b
}

// remaining returns how much longer a picture is held if there are many.
func (b *hold) remaining(patience time.Duration) time.Duration {
	return max(0, patience/5-time.Since(b.since))
}

// makeRoom deletes from a map of pages those that have expired, or else all, if the map is
// full.
func makeRoom[K comparable, V any](m map[K]V, over func(V) bool) {
	if len(m) < maxPages {
		return
	}
	maps.DeleteFunc(m, func(_ K, v V) bool { return over(v) })
	if len(m) >= maxPages {
		clear(m)
	}
}
