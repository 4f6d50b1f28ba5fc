// Package load generates HTTP and DNS load and measures the responses. It provides the
// gateway's own figures, and is a tool for operators.
//
// A Generator holds the targets (target.go), each with its encoded request. Workers, with one
// goroutine and one connection each, fetch them with an HTTP/1.1 or HTTP/2 client made for
// this purpose (client.go, h2.go). In the closed loop every worker sends its next request
// after the response to the last. In the open loop a schedule determines the times of sending
// whether or not the server keeps up, and latency counts from those. Each fetch becomes a
// sample; a few tallies add up the samples (tally.go), and a Report (report.go) is made from
// them at the end: as text, JSON or HTML. Origin (origin.go) is the other side: a server with
// configurable delays and faults. DNS (dns.go) is the equivalent of Generator for name
// servers: flows over UDP, TCP, TLS or HTTPS (dnslink.go), with the same histograms and
// reports.
//
// Targets that are not loopback are refused unless they are allowed by name, and every run has
// a limit of count or time.
package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"shuultuur/lib/platform"
)

// Limits of a run. They prevent a typing error from becoming an attack on one's own network.
const (
	MaxParallel = 20_000
	MaxRate     = 1_000_000
	MaxDuration = 24 * time.Hour
	MaxFetches  = 1_000_000_000

	// defaultInFlight is the limit of concurrent fetches in the open loop.
	defaultInFlight = 1000
)

// Config configures the URLs, how to fetch them, and the end of the run.
type Config struct {
	URLs []string // http:// and https://

	// Exactly one of these is needed.
	Parallel int     // closed loop: constant number of fetches in flight
	Rate     float64 // open loop: fetches per second, sent on schedule
	Batch    int     // this many at once, wait for all, repeat

	Jitter   bool // open loop: each gap is uniform in [0.9, 1.1] / Rate
	InFlight int  // open loop: limit of fetches in flight; 0 means 1000

	// The run ends at whichever limit comes first; one of them is needed.
	Fetches  int64
	Duration time.Duration

	Timeout time.Duration // longest wait without a byte; 0 means 60 s

	Order string  // "random" (with replacement; the default), "order", "zipf"
	Zipf  float64 // exponent for zipf; 0 means 1. The first URL is the most frequent
	Seed  uint64  // same seed, same sequence of URLs, however many workers

	Proxy  string         // host:port; http URLs go in absolute form, https by CONNECT
	Tunnel bool           // CONNECT for http URLs as well
	Roots  *x509.CertPool // authorities for https targets; nil means the system's

	KeepAlive bool     // otherwise a new connection for each fetch, as in http_load
	HTTP2     bool     // h2 over TLS, prior knowledge over plain TCP
	Header    []string // "Name: value", added to each request

	Checksum bool          // compare a hash of each body in addition to its length
	Throttle int           // bytes per second and connection; 0 means unthrottled
	Sources  []netip.Addr  // local addresses to send from, in turn
	Ciphers  []uint16      // TLS 1.2 cipher suites; nil means Go's choice
	Groups   []tls.CurveID // key exchanges of TLS; nil means Go's choice

	Allow []string // hosts that may be loaded although they are not loopback

	Complaints io.Writer // one line for each of the first 20 changed bodies; may be nil
	Progress   Progress
}

// Progress writes a line at intervals during a run.
type Progress struct {
	To    io.Writer     // nil for no lines
	Every time.Duration // 0 means 1 s
}

// New validates the settings, resolves each target once, and refuses targets that are neither
// loopback nor allowed.
func New(cfg Config) (*Generator, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	g := &Generator{cfg: cfg}
	if err := g.resolve(); err != nil {
		return nil, err
	}
	var err error
	if g.choose, err = newChooser(cfg.Order, cfg.Zipf, cfg.Seed, len(g.targets)); err != nil {
		return nil, err
	}
	return g, nil
}

func (c *Config) check() error {
	starts := 0
	for _, set := range []bool{c.Parallel != 0, c.Rate != 0, c.Batch != 0} {
		if set {
			starts++
		}
	}
	if starts != 1 {
		return errors.New("one of parallel, rate and batch is needed")
	}
	switch {
	case len(c.URLs) == 0:
		return errors.New("no URLs to fetch")
	case c.Parallel < 0 || c.Rate < 0 || c.Batch < 0:
		return errors.New("parallel, rate and batch must be at least 1")
	case c.Parallel > MaxParallel || c.Batch > MaxParallel || c.InFlight > MaxParallel:
		return fmt.Errorf("at most %d fetches may be in flight", MaxParallel)
	case c.Rate > MaxRate:
		return fmt.Errorf("rate may be at most %d", MaxRate)
	case c.Jitter && c.Rate == 0:
		return errors.New("jitter requires rate")
	case c.Fetches == 0 && c.Duration == 0:
		return errors.New("one of fetches and seconds is needed: a run must end")
	case c.Fetches < 0 || c.Fetches > MaxFetches:
		return fmt.Errorf("fetches must be between 1 and %d", MaxFetches)
	case c.Duration < 0 || c.Duration > MaxDuration:
		return fmt.Errorf("seconds must be between 0 and %g", MaxDuration.Seconds())
	case c.HTTP2 && c.Proxy != "" && !c.Tunnel && !allHTTPS(c.URLs):
		return errors.New("HTTP/2 to http:// URLs through a proxy needs a tunnel: add -tunnel")
	case c.HTTP2 && c.Throttle > 0:
		return errors.New("throttle works with HTTP/1.1 only")
	}
	if c.InFlight == 0 {
		c.InFlight = defaultInFlight
	}
	if c.Batch > 0 {
		c.InFlight = c.Batch
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.Progress.Every == 0 {
		c.Progress.Every = time.Second
	}
	return nil
}

// Run sends the load and waits until the run is over or ctx is done. The report of an
// interrupted run covers what was sent. It must be called only once.
func (g *Generator) Run(ctx context.Context) (*Report, error) {
	if g.tallies != nil {
		return nil, errors.New("a generator runs once")
	}
	g.tallies = newTallies()
	start, cpu := time.Now(), platform.CPU()
	if g.cfg.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.cfg.Duration)
		defer cancel()
	}
	watch := newWatch(g, start)
	watched := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(watched)
		watch.run(over)
	}()
	if g.cfg.Parallel > 0 {
		g.closedLoop(ctx)
	} else {
		g.scheduled(ctx, start)
	}
	took := time.Since(start)
	if g.cfg.Duration > 0 {
		took = min(took, g.cfg.Duration) // without the time to close thousands of connections
	}
	close(over)
	<-watched
	return g.report(start, took, platform.CPU()-cpu, watch), nil
}

// closedLoop keeps cfg.Parallel fetches in flight.
func (g *Generator) closedLoop(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range g.cfg.Parallel {
		wg.Add(1)
		go func() {
			defer wg.Done()
			w := newWorker(ctx, g, i)
			defer w.stop()
			for ctx.Err() == nil {
				n := g.next.Add(1) - 1
				if g.cfg.Fetches > 0 && n >= uint64(g.cfg.Fetches) {
					return
				}
				if !w.do(n, time.Time{}) {
					return
				}
			}
		}()
	}
	wg.Wait()
}

// job is one fetch with its intended time of sending.
type job struct {
	n        uint64
	intended time.Time
	done     *sync.WaitGroup // of its batch; nil in the open loop
}

// crew is the workers of a scheduled run. A worker is started when one is needed and none is
// idle, up to cfg.InFlight.
type crew struct {
	ctx  context.Context
	g    *Generator
	idle chan chan job
	jobs []chan job
	wg   sync.WaitGroup
}

// give passes a job to an idle worker, and waits for one if all are busy. It returns false
// when the run is over.
func (c *crew) give(j job) bool {
	select {
	case jobs := <-c.idle:
		jobs <- j
		return true
	default:
	}
	if len(c.jobs) < c.g.cfg.InFlight {
		jobs := make(chan job, 1)
		c.jobs = append(c.jobs, jobs)
		c.wg.Add(1)
		go c.work(len(c.jobs)-1, jobs)
		jobs <- j
		return true
	}
	select {
	case jobs := <-c.idle:
		jobs <- j
		return true
	case <-c.ctx.Done():
		return false
	}
}

func (c *crew) work(id int, jobs chan job) {
	defer c.wg.Done()
	w := newWorker(c.ctx, c.g, id)
	defer w.stop()
	for j := range jobs {
		w.do(j.n, j.intended)
		if j.done != nil {
			j.done.Done()
		}
		c.idle <- jobs
	}
}

func (c *crew) dismiss() {
	for _, jobs := range c.jobs {
		close(jobs)
	}
	c.wg.Wait()
}

// scheduled runs the open loop and the batches: one goroutine sets the times, the crew
// fetches.
func (g *Generator) scheduled(ctx context.Context, start time.Time) {
	c := &crew{ctx: ctx, g: g, idle: make(chan chan job, g.cfg.InFlight)}
	defer c.dismiss()
	if g.cfg.Batch > 0 {
		g.batches(ctx, c)
		return
	}
	gap := float64(time.Second) / g.cfg.Rate
	at := 0.0
	for n := uint64(0); g.cfg.Fetches == 0 || n < uint64(g.cfg.Fetches); n++ {
		intended := start.Add(time.Duration(at))
		if !sleepUntil(ctx, intended) {
			break
		}
		if !c.give(job{n: n, intended: intended}) {
			// The crew was busy until the end: count the fetches due since then.
			g.unsent.Add(int64((float64(time.Since(start))-at)/gap) + 1)
			break
		}
		step := gap
		if g.cfg.Jitter {
			step *= 0.9 + 0.2*unit(mix(g.cfg.Seed^jitterSalt, n))
		}
		at += step
	}
}

// batches sends cfg.Batch fetches, waits for all, and repeats.
func (g *Generator) batches(ctx context.Context, c *crew) {
	n := uint64(0)
	for ctx.Err() == nil {
		size := uint64(g.cfg.Batch)
		if g.cfg.Fetches > 0 {
			size = min(size, uint64(g.cfg.Fetches)-n)
		}
		if size == 0 {
			return
		}
		var done sync.WaitGroup
		begin := time.Now()
		for range size {
			done.Add(1)
			if !c.give(job{n: n, intended: begin, done: &done}) {
				done.Done()
				break
			}
			n++
		}
		done.Wait()
		if ctx.Err() == nil {
			g.tallies[0].batch(time.Since(begin))
		}
	}
}

// sleepUntil sleeps until a time, and returns false if ctx is done first. epoll_wait rounds
// Go's timers up to a millisecond. The last part is slept in nanosleep(2), if available, so
// that requests are sent within some 0.1 ms of their intended time.
func sleepUntil(ctx context.Context, at time.Time) bool {
	const fine = 2 * time.Millisecond
	for ctx.Err() == nil {
		d := time.Until(at)
		if d <= 0 {
			return true
		}
		if d <= fine {
			nap(d) // the loop continues after an interrupted one
			continue
		}
		t := time.NewTimer(d - fine/2)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
	return false
}
